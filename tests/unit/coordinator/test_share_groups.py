"""Share groups in the group coordinator: what is begun, what is ended, what is refused; and what of
it survives a load.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.coordinators.group_doubles import REQUESTER, ShardHarness, topic_id

from kmirror.common.errors import ApiException, Errors
from kmirror.common.uuid import Uuid
from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord
from kmirror.coordinator.group.group_records import read_record
from kmirror.coordinator.group.share_group import ShareGroup, StatePartitions, TopicPartitions
from kmirror.coordinator.group.share_group_manager import NOTHING_TO_DELETE, Alteration
from kmirror.wire.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequestPartition, AlterShareGroupOffsetsRequestTopic
from kmirror.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kmirror.wire.messages.heartbeat import HeartbeatRequest
from kmirror.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kmirror.wire.messages.offset_commit import OffsetCommitRequest
from kmirror.wire.messages.share_group_current_member_assignment_key import ShareGroupCurrentMemberAssignmentKey
from kmirror.wire.messages.share_group_current_member_assignment_value import (
    ShareGroupCurrentMemberAssignmentValue,
)
from kmirror.wire.messages.share_group_current_member_assignment_value import (
    TopicPartitions as AssignedPartitions,
)
from kmirror.wire.messages.share_group_member_metadata_key import ShareGroupMemberMetadataKey
from kmirror.wire.messages.share_group_member_metadata_value import ShareGroupMemberMetadataValue
from kmirror.wire.messages.share_group_metadata_key import ShareGroupMetadataKey
from kmirror.wire.messages.share_group_metadata_value import ShareGroupMetadataValue
from kmirror.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kmirror.wire.primitives import Writer

T, U = topic_id("t"), topic_id("u")


def record(kind: int, key: Any, value: Any) -> CoordinatorRecord:
    """A record as another broker wrote it."""

    def bytes_of(prefix: int, message: Any) -> bytes:
        out = Writer()
        message.write(out, 0)
        return prefix.to_bytes(2, "big") + out.to_bytes()

    return CoordinatorRecord(bytes_of(kind, key), None if value is None else bytes_of(0, value))


def loaded() -> ShardHarness:
    return ShardHarness().set_topics(t=2, u=1).load()


def alter(harness: ShardHarness, group_id: str = "g", **topics: dict[int, int]) -> Alteration:
    wanted = [
        AlterShareGroupOffsetsRequestTopic(name, [AlterShareGroupOffsetsRequestPartition(*item) for item in offsets.items()])
        for name, offsets in topics.items()
    ]
    return harness.run(harness.shard.groups.share.alter(group_id, wanted))


def initialized(harness: ShardHarness, group_id: str = "g", **topics: dict[int, int]) -> Alteration:
    """Alter, with all states made."""
    alteration = alter(harness, group_id, **topics)
    harness.run(harness.shard.groups.share.end_initializing(group_id, alteration.start_offsets, {}))
    return alteration


def group(harness: ShardHarness, group_id: str = "g") -> ShareGroup:
    return harness.shard.groups.groups.share_group(group_id)


def join_member(harness: ShardHarness, group_id: str = "g") -> None:
    """A member that a broker with share fetching let in."""
    harness.append(record(10, ShareGroupMemberMetadataKey(group_id, "m"), ShareGroupMemberMetadataValue("r", "c", "/h", ["t"])))
    harness.append(record(11, ShareGroupMetadataKey(group_id), ShareGroupMetadataValue(2, 77)))
    value = ShareGroupCurrentMemberAssignmentValue(2, 1, 0, [AssignedPartitions(T, [0, 1])])
    harness.append(record(14, ShareGroupCurrentMemberAssignmentKey(group_id, "m"), value))


def test_altering_offsets_makes_the_group_and_asks_for_its_states() -> None:
    harness = loaded()
    alteration = alter(harness, t={0: 5, 1: 6, 2: 7, -1: 8}, nope={0: 1})
    assert (alteration.state_epoch, alteration.start_offsets) == (1, {T: {0: 5, 1: 6}})
    unknown = Errors.UNKNOWN_TOPIC_OR_PARTITION
    assert [(t.topic_name, t.topic_id, [p.error_code for p in t.partitions]) for t in alteration.topics] == [
        ("t", T, [0, 0, unknown, unknown]),
        ("nope", Uuid.ZERO, [unknown]),
    ]
    assert group(harness).state_partitions == StatePartitions(initializing={T: TopicPartitions("t", (0, 1))})
    harness.run(harness.shard.groups.share.end_initializing("g", {T: [0]}, {T: [1]}))
    assert group(harness).state_partitions == StatePartitions(initialized={T: TopicPartitions("t", (0,))})
    assert harness.shard.groups.share.initialized_partitions("g") == {T: (0,)}


def test_altering_only_what_does_not_exist_makes_no_group() -> None:
    harness = loaded()
    alter(harness, nope={0: 1}, t={7: 1})
    assert harness.log == []
    assert "g" not in harness.shard.groups.groups.by_id


def test_a_share_group_survives_a_load() -> None:
    harness = loaded()
    initialized(harness, t={0: 5}, u={0: 1})
    alter(harness, t={1: 5})
    reloaded = harness.reloaded()
    assert group(reloaded).state_partitions == group(harness).state_partitions
    assert group(reloaded).state_partitions == StatePartitions(
        initializing={T: TopicPartitions("t", (1,))},
        initialized={T: TopicPartitions("t", (0,)), U: TopicPartitions("u", (0,))},
    )
    listed = reloaded.shard.groups.list_groups([], ["share"])
    assert [(g.group_id, g.protocol_type, g.group_state, g.group_type) for g in listed] == [("g", "share", "Empty", "share")]
    assert reloaded.shard.groups.list_groups([], ["consumer", "classic"]) == []


def test_groups_of_other_kinds_and_groups_with_members_refuse() -> None:
    harness = loaded()
    join_member(harness)
    with pytest.raises(ApiException) as refused:
        alter(harness, t={0: 1})
    assert refused.value.error is Errors.NON_EMPTY_GROUP
    for action in ("begin_deleting_offsets", "begin_deleting_group"):
        with pytest.raises(ApiException) as refused:
            getattr(harness.shard.groups.share, action)("g", *([["t"]] if action == "begin_deleting_offsets" else []))
        assert refused.value.error is Errors.NON_EMPTY_GROUP
    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id="c", member_id="m", rebalance_timeout_ms=1_000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    harness.run(harness.shard.groups.consumer_heartbeat(heartbeat, REQUESTER))
    with pytest.raises(ApiException, match="Group c is not a share group"):
        alter(harness, "c", t={0: 1})
    with pytest.raises(ApiException, match="Group g is not a consumer group"):
        heartbeat.group_id = "g"
        harness.shard.groups.consumer_heartbeat(heartbeat, REQUESTER)
    assert harness.shard.groups.describe_group("g", 6).error_code == Errors.GROUP_ID_NOT_FOUND
    assert harness.shard.groups.share.describe("c").error_code == Errors.GROUP_ID_NOT_FOUND


def test_the_classic_protocol_finds_no_member_in_a_share_group() -> None:
    harness = loaded()
    initialized(harness, t={0: 1})
    joined: list[JoinGroupResponse] = []
    synced: list[SyncGroupResponse] = []
    join = JoinGroupRequest(group_id="g", protocol_type="consumer", protocols=[JoinGroupRequestProtocol("range", b"")])
    harness.run(harness.shard.groups.join(join, 9, REQUESTER, joined.append))
    harness.run(harness.shard.groups.sync(SyncGroupRequest(group_id="g"), synced.append))
    assert (joined[0].error_code, synced[0].error_code) == (Errors.INCONSISTENT_GROUP_PROTOCOL, Errors.UNKNOWN_MEMBER_ID)
    with pytest.raises(ApiException) as refused:
        harness.shard.groups.heartbeat(HeartbeatRequest(group_id="g", member_id="m"))
    assert refused.value.error is Errors.UNKNOWN_MEMBER_ID
    assert isinstance(harness.shard.groups.groups.by_id["g"], ShareGroup)


def test_a_member_of_the_log_is_described_and_leaves_when_its_session_ends() -> None:
    harness = ShardHarness().set_topics(t=2)
    join_member(harness)
    harness.load()
    described = harness.shard.groups.share.describe("g")
    assert (described.group_state, described.group_epoch, described.assignor_name) == ("Stable", 2, "simple")
    member = described.members[0]
    assert (member.member_id, member.member_epoch, member.client_host, member.subscribed_topic_names) == ("m", 2, "/h", ["t"])
    assert [(t.topic_name, t.partitions) for t in member.assignment.topic_partitions] == [("t", [0, 1])]
    harness.advance(45_000)
    assert harness.shard.groups.share.describe("g").group_state == "Empty"
    assert group(harness.reloaded()).group_epoch == 3
    assert alter(harness, t={0: 1}).state_epoch == 3


def test_deleting_offsets_forgets_whole_topics_in_two_steps() -> None:
    harness = loaded()
    initialized(harness, t={0: 5, 1: 6}, u={0: 1})
    share = harness.shard.groups.share
    deletion = harness.run(share.begin_deleting_offsets("g", ["t", "nope"]))
    assert deletion.partitions == {T: (0, 1)}
    assert [(topic.topic_name, topic.error_code) for topic in deletion.refused] == [("nope", Errors.UNKNOWN_TOPIC_OR_PARTITION)]
    assert share.initialized_partitions("g") == {U: (0,)}
    again = harness.run(share.begin_deleting_offsets("g", ["t"]))
    assert again.partitions == {T: (0, 1)}, "what was begun can be asked for again"
    harness.run(share.end_deleting_offsets("g", [T]))
    gone = harness.run(share.begin_deleting_offsets("g", ["t"]))
    assert gone.refused[0].error_message == NOTHING_TO_DELETE
    assert group(harness.reloaded()).state_partitions == StatePartitions(initialized={U: TopicPartitions("u", (0,))})
    with pytest.raises(ApiException, match="Group x not found"):
        share.begin_deleting_offsets("x", ["t"])


def test_altering_what_is_being_deleted_takes_it_out_of_the_deletion() -> None:
    harness = loaded()
    initialized(harness, t={0: 5})
    harness.run(harness.shard.groups.share.begin_deleting_offsets("g", ["t"]))
    initialized(harness, t={0: 7})
    assert group(harness).state_partitions == StatePartitions(initialized={T: TopicPartitions("t", (0,))})


def test_deleting_a_group_deletes_its_states_first_also_those_that_were_never_confirmed() -> None:
    harness = loaded()
    initialized(harness, t={0: 5})
    alter(harness, t={1: 5}, u={0: 1})
    doomed = harness.run(harness.shard.groups.share.begin_deleting_group("g"))
    assert doomed == {T: (0, 1), U: (0,)}
    assert harness.run(harness.shard.groups.share.begin_deleting_group("g")) == doomed, "again after a crash"
    assert harness.run(harness.shard.delete_groups(["g"]))[0].error_code == 0
    assert harness.shard.groups.groups.by_id == {}
    assert harness.reloaded().shard.groups.groups.by_id == {}
    assert harness.run(harness.shard.groups.share.begin_deleting_group("g")) == {}


def test_deleted_topics_leave_the_group() -> None:
    harness = loaded()
    initialized(harness, t={0: 5}, u={0: 1})
    alter(harness, t={1: 5})
    harness.run(harness.shard.groups.share.on_topics_deleted([T]))
    assert group(harness).state_partitions == StatePartitions(initialized={U: TopicPartitions("u", (0,))})
    before = len(harness.log)
    harness.run(harness.shard.groups.share.on_topics_deleted([T]))
    assert len(harness.log) == before


def test_an_empty_share_group_never_expires() -> None:
    harness = loaded()
    initialized(harness, t={0: 5})
    harness.advance(30 * 24 * 3_600_000)
    assert harness.shard.groups.share.initialized_partitions("g") == {T: (0,)}


def test_share_groups_have_no_offsets_of_consumers() -> None:
    harness = loaded()
    initialized(harness, t={0: 5})
    assert harness.shard.offsets.fetch("g", {"t": [0]}, member_id=None, member_epoch=-1, require_stable=False) == {"t": {0: None}}
    with pytest.raises(ApiException, match="Group g is not a consumer group"):
        harness.shard.offsets.commit(OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1), 9, 0)


def test_records_are_read_back_by_their_types() -> None:
    harness = loaded()
    initialized(harness, t={0: 5})
    known = read_record(harness.log[-1][0])
    assert known is not None
    key, value = known
    assert key.group_id == "g"
    assert [(topic.topic_name, topic.topic_id, topic.partitions) for topic in value.initialized_topics] == [("t", T, [0])]
