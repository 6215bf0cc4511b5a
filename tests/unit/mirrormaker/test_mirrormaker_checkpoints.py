"""Checkpoints, group offsets at the target, and what clients read from both."""

from __future__ import annotations

from kmirror.admin.groups import OffsetAndMetadata
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.checkpoints import (
    CheckpointStore,
    checkpoints_for_group,
    group_offsets_to_sync,
    groups_to_checkpoint,
    rename_topic_partition,
)
from kmirror.mirrormaker.cycles import SourceAndTarget
from kmirror.mirrormaker.formats import Checkpoint
from kmirror.mirrormaker.offset_sync_store import TOO_OLD
from kmirror.mirrormaker.remote_cluster_utils import MirrorClient, remote_consumer_offsets
from kmirror.mirrormaker.replication_policy import DefaultReplicationPolicy, IdentityReplicationPolicy
from kmirror.mirrormaker.topic_filters import DefaultGroupFilter, DefaultTopicFilter

A_TO_B = SourceAndTarget("A", "B")
POLICY = DefaultReplicationPolicy()
T0 = TopicPartition("t", 0)
REMOTE = TopicPartition("A.t", 0)


def emitted(store: CheckpointStore, offset: int | None, translated: int | None, partition: TopicPartition = T0) -> list[Checkpoint]:
    committed = None if offset is None else OffsetAndMetadata(offset, "m")
    found = checkpoints_for_group(
        "g",
        {partition: committed},
        flow=A_TO_B,
        policy=POLICY,
        topic_filter=DefaultTopicFilter.from_props({"topics.exclude": "left.*"}),
        translate=lambda _, __: translated,
        store=store,
    )
    store.update(found)
    return found


def test_cp1_a_checkpoint_has_the_remote_name_and_the_groups_metadata() -> None:
    assert emitted(CheckpointStore(), 5, 12) == [Checkpoint("g", REMOTE, 5, 12, "m")]


def test_cp1_a_topic_that_came_from_the_target_gets_its_own_name_back() -> None:
    assert rename_topic_partition(POLICY, A_TO_B, TopicPartition("B.t", 3)) == TopicPartition("t", 3)
    assert rename_topic_partition(POLICY, A_TO_B, TopicPartition("C.B.t", 3)) == TopicPartition("A.C.B.t", 3)
    identity = IdentityReplicationPolicy(source_cluster_alias="A")
    assert rename_topic_partition(identity, A_TO_B, T0) == T0


def test_cp1_no_checkpoint_without_offset_translation_or_replicated_topic() -> None:
    assert emitted(CheckpointStore(), None, 5) == emitted(CheckpointStore(), 5, None) == emitted(CheckpointStore(), 5, -1) == []
    assert emitted(CheckpointStore(), 5, 5, TopicPartition("left-out", 0)) == []


def test_cp1_groups_need_an_offset_in_a_replicated_topic() -> None:
    offsets = {
        "app": {T0: OffsetAndMetadata(1)},
        "console-consumer-1": {T0: OffsetAndMetadata(1)},
        "other": {TopicPartition("__x", 0): OffsetAndMetadata(1)},
        "none": {},
    }
    assert groups_to_checkpoint(offsets, DefaultGroupFilter.from_props({}), DefaultTopicFilter.from_props({})) == ["app"]


def test_cp2_the_first_a_rewind_and_progress_are_emitted_and_nothing_else() -> None:
    store = CheckpointStore()
    assert emitted(store, 100, 90), "the first"
    assert not emitted(store, 100, 90), "repeated"
    assert not emitted(store, 110, 90), "no progress at the target"
    assert not emitted(store, 110, 80), "a coarser translation would go back"
    assert emitted(store, 111, 91), "progress"
    assert emitted(store, 50, 40), "the group went back"


def test_cp2_checkpoints_of_an_earlier_life_count_and_those_of_other_groups_do_not() -> None:
    store = CheckpointStore(["g"])
    for group in ("g", "other"):
        checkpoint = Checkpoint(group, REMOTE, 100, 90)
        store.handle_record(checkpoint.record_key, checkpoint.record_value)
    assert not emitted(store, 100, 90) and store.get("other") == {}


def test_cp3_offsets_are_written_only_where_they_lead_on() -> None:
    wanted = {TopicPartition("t", number): OffsetAndMetadata(10) for number in range(5)}
    at_target = {
        TopicPartition("t", 0): OffsetAndMetadata(9),
        TopicPartition("t", 1): OffsetAndMetadata(10),
        TopicPartition("t", 2): OffsetAndMetadata(11),
        TopicPartition("t", 3): None,
    }
    written = group_offsets_to_sync(wanted, at_target, {})
    assert [partition.partition for partition in written] == [0, 3, 4], "behind, reset to a negative offset, unknown"
    assert group_offsets_to_sync(wanted, wanted, {}) == {}


def test_cp3_a_group_that_is_not_idle_at_the_target_is_written_whole_and_refused_by_the_coordinator() -> None:
    wanted = {T0: OffsetAndMetadata(10)}
    assert group_offsets_to_sync(wanted, None, {}) == wanted


def test_cp3_what_is_written_comes_from_the_newest_checkpoints() -> None:
    store = CheckpointStore()
    emitted(store, 100, 90)
    emitted(store, 120, 110)
    assert store.groups == ["g"] and store.converted_upstream_offsets("g") == {REMOTE: OffsetAndMetadata(110, "m")}


TOPICS = ["t", "heartbeats", "B.heartbeats", "B.A.heartbeats", "C.B.A.heartbeats", "B.t", "B.A.t", "B.checkpoints.internal", "__x"]


def test_cu1_hops_are_counted_over_the_shortest_chain_of_heartbeats() -> None:
    client = MirrorClient()
    assert [client.replication_hops(TOPICS, alias) for alias in ("B", "A", "C", "D")] == [1, 2, 1, -1]


def test_cu2_cu3_cu4_heartbeats_checkpoints_and_clusters() -> None:
    client = MirrorClient()
    assert client.heartbeat_topics(TOPICS) == ["heartbeats", "B.heartbeats", "B.A.heartbeats", "C.B.A.heartbeats"]
    assert client.checkpoint_topics(TOPICS) == ["B.checkpoints.internal"]
    assert client.upstream_clusters(TOPICS) == ["A", "B", "C"]


def test_cu5_remote_topics_of_all_and_of_one_source() -> None:
    client = MirrorClient()
    assert client.remote_topics(TOPICS) == ["B.heartbeats", "B.A.heartbeats", "C.B.A.heartbeats", "B.t", "B.A.t"]
    assert client.remote_topics(TOPICS, "C") == ["C.B.A.heartbeats"] and client.remote_topics(TOPICS, "A") == []


def test_cu6_the_last_checkpoint_of_each_partition_counts_and_torn_ones_are_skipped() -> None:
    records: list[tuple[bytes | None, bytes | None]] = [(b"", b""), (None, None)]
    for group, downstream in (("g", 1), ("other", 9), ("g", 2)):
        checkpoint = Checkpoint(group, REMOTE, 5, downstream, "m")
        records.append((checkpoint.record_key, checkpoint.record_value))
    assert remote_consumer_offsets(records, "g") == {REMOTE: OffsetAndMetadata(2, "m")}


def test_cu7_cu8_cu9_the_policy_is_kafkas_default_unless_configured() -> None:
    assert MirrorClient().checkpoints_topic("A") == "A.checkpoints.internal"
    identity = MirrorClient(IdentityReplicationPolicy(source_cluster_alias="A"))
    assert identity.replication_policy.topic_source("t") == "A" and identity.remote_topics(["t", "__x"]) == ["t"]


def to_write(store: CheckpointStore, at_target: int) -> list[int]:
    present = {REMOTE: OffsetAndMetadata(at_target)}
    found = group_offsets_to_sync(store.converted_upstream_offsets("g"), present, store.withdrawn.get("g", {}))
    return [offset.offset for offset in found.values()]


def at(offset: int | None) -> dict[TopicPartition, OffsetAndMetadata | None]:
    return {REMOTE: None if offset is None else OffsetAndMetadata(offset)}


def test_cp3_an_offset_of_a_log_that_went_back_is_replaced_once() -> None:
    store = CheckpointStore()
    emitted(store, 100, 100)
    assert store.withdraw(REMOTE, beyond=100) == [] and store.withdraw(REMOTE, beyond=-1) == ["g"]
    assert store.groups == []
    assert emitted(store, 130, 30) == [Checkpoint("g", REMOTE, 130, 30, "m")], "the first again, though it is less than 100"
    assert to_write(store, 100) == [30]
    assert to_write(store, 90) == [], "the group has read on at the target"
    store.is_at("g", at(30))
    assert to_write(store, 100) == []


def test_cp3_an_offset_is_replaced_though_a_later_checkpoint_was_emitted() -> None:
    """A checkpoint becomes the group's offset only some time after it was emitted, or never."""
    store = CheckpointStore()
    for offset in (100, 101, 102):
        emitted(store, offset, offset)
    store.is_at("g", at(100))
    store.withdraw(REMOTE, beyond=-1)
    store.is_at("g", at(None))  # the coordinator has dropped it with the topic
    store.is_at("g", at(100))  # one that was on its way meanwhile
    emitted(store, 130, 30)
    assert [to_write(store, offset) for offset in (99, 100, 101, 102, 103)] == [[], [30], [30], [30], []]
    store.is_at("g", at(99))
    assert to_write(store, 100) == [], "the group was elsewhere in between, so the offset is its own"


def test_cp3_what_a_group_has_left_behind_is_not_void() -> None:
    store = CheckpointStore()
    for offset in (10, 20, 30):
        emitted(store, offset, offset)
    store.is_at("g", at(20))
    store.withdraw(REMOTE, beyond=-1)
    assert store.withdrawn == {"g": {REMOTE: {20, 30}}}


def test_cp3_only_what_lies_beyond_is_void() -> None:
    store = CheckpointStore()
    emitted(store, 100, 100)
    emitted(store, 20, 20)
    assert store.withdraw(REMOTE, beyond=60) == [], "the last checkpoint counts"
    assert to_write(store, 100) == [20]


def test_cp1_a_group_that_stands_before_all_of_a_new_log_begins_there_at_0() -> None:
    """Its old offset would skip what the new log has; -1 is said of a log that never went back."""
    store = CheckpointStore()
    assert emitted(store, 7, TOO_OLD) == []
    emitted(store, 40, 18)
    store.withdraw(REMOTE, beyond=-1)
    assert emitted(store, 40, None) == [], "nothing is known of the new log"
    assert emitted(store, 40, TOO_OLD) == [Checkpoint("g", REMOTE, 40, 0, "m")]
    assert to_write(store, 18) == [0]
    assert emitted(store, 39, TOO_OLD) == []
    assert emitted(store, 70, 4) == [Checkpoint("g", REMOTE, 70, 4, "m")]
