"""The classic rebalance protocol and offsets, over a log in memory: no sockets, no waiting for
clocks.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.coordinators.coordinator_doubles import MemoryLog

from kmirror.common.errors import ApiException, Errors
from kmirror.common.metrics import MetricsRegistry
from kmirror.common.topic_partition import GROUP_METADATA_TOPIC_NAME, TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.coordinator.group.consumer_group_patterns import Requester
from kmirror.coordinator.group.group_coordinator import GroupCoordinator
from kmirror.coordinator.group.group_coordinator_config import GroupCoordinatorConfig
from kmirror.coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from kmirror.coordinator.group.group_metrics import GroupCounts
from kmirror.metadata.delta import MetadataDelta
from kmirror.metadata.image import MetadataImage, MetadataProvenance
from kmirror.runtime.asyncio_runtime import AsyncioRuntime
from kmirror.wire.messages.heartbeat import HeartbeatRequest
from kmirror.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kmirror.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kmirror.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kmirror.wire.messages.partition_record import PartitionRecord
from kmirror.wire.messages.remove_topic_record import RemoveTopicRecord
from kmirror.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kmirror.wire.messages.topic_record import TopicRecord

TP = TopicPartition(GROUP_METADATA_TOPIC_NAME, 0)


class Harness:
    """One coordinator that leads the only partition."""

    def __init__(self, log: MemoryLog | None = None, **config: int) -> None:
        self.log = log or MemoryLog()
        self.runtime = AsyncioRuntime()
        settings = {"initial_rebalance_delay_ms": 0, "min_session_timeout_ms": 10} | config
        self.metrics = MetricsRegistry(self.runtime.clock)
        self.coordinator = GroupCoordinator(self.runtime, GroupCoordinatorConfig(**settings), self.log, 1, self.metrics)
        self.coordinator._partition_count = 1

    async def load(self) -> None:
        self.coordinator._shards.schedule_load(TP, 0)
        while not self.coordinator._shards.active_partitions():
            await asyncio.sleep(0)

    async def join(
        self, member_id: str = "", *, instance: str | None = None, version: int = 9, session_ms: int = 10_000
    ) -> JoinGroupResponse:
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=session_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff")],
        )
        return await self.coordinator.join_group(request, version, Requester("client", "/127.0.0.1"))

    async def join_known(self, **options: Any) -> JoinGroupResponse:
        first = await self.join(**options)
        assert first.error_code == Errors.MEMBER_ID_REQUIRED
        return await self.join(first.member_id, **options)

    async def sync(self, joined: JoinGroupResponse, assignments: dict[str, bytes] | None = None) -> Any:
        given = [SyncGroupRequestAssignment(member_id=member, assignment=data) for member, data in (assignments or {}).items()]
        return await self.coordinator.sync_group(
            SyncGroupRequest(group_id="g", generation_id=joined.generation_id, member_id=joined.member_id, assignments=given)
        )

    async def heartbeat(self, joined: JoinGroupResponse) -> int:
        request = HeartbeatRequest(group_id="g", generation_id=joined.generation_id, member_id=joined.member_id)
        return (await self.coordinator.heartbeat(request)).error_code

    async def commit(self, offset: int, *, generation: int = -1, member_id: str = "", group_id: str = "g") -> int:
        request = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            topics=[
                OffsetCommitRequestTopic(
                    name="t",
                    topic_id=Uuid.METADATA_TOPIC_ID,
                    partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="m")],
                )
            ],
        )
        return (await self.coordinator.commit_offsets(request, 9)).topics[0].partitions[0].error_code


async def test_one_member_joins_syncs_heartbeats_and_leaves() -> None:
    harness = Harness()
    await harness.load()
    joined = await harness.join_known()
    assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, joined.member_id)
    assert [member.member_id for member in joined.members] == [joined.member_id]
    synced = await harness.sync(joined, {joined.member_id: b"mine"})
    assert (synced.error_code, synced.assignment) == (0, b"mine")
    assert await harness.heartbeat(joined) == 0
    left = await harness.coordinator.leave_group(LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=joined.member_id)]))
    assert left.members[0].error_code == 0
    described = await harness.coordinator.describe_group("g", 6)
    assert described.group_state == "Empty"
    with pytest.raises(ApiException) as raised:
        await harness.heartbeat(joined)
    assert raised.value.error is Errors.UNKNOWN_MEMBER_ID


async def test_a_second_member_makes_the_first_rejoin_and_both_get_the_leaders_assignment() -> None:
    harness = Harness()
    await harness.load()
    first = await harness.join_known()
    await harness.sync(first, {first.member_id: b"all"})
    pending = await harness.join()
    second_join = asyncio.create_task(harness.join(pending.member_id))
    while await harness.heartbeat(first) != Errors.REBALANCE_IN_PROGRESS:
        await asyncio.sleep(0)
    rejoined = await harness.join(first.member_id)
    second = await second_join
    assert rejoined.generation_id == second.generation_id == 2
    assert {member.member_id for member in rejoined.members} == {first.member_id, second.member_id} and second.members == []
    waiting = asyncio.create_task(harness.sync(second))
    await asyncio.sleep(0)
    assert (await harness.sync(rejoined, {rejoined.member_id: b"a", second.member_id: b"b"})).assignment == b"a"
    assert (await waiting).assignment == b"b"


async def test_a_group_that_all_have_left_is_joined_while_it_waits_for_a_member_to_be() -> None:
    """The simulator's seed 41797 of mirror-maker-1: whoever came then was refused for protocols that no
    member had, which ends a consumer.
    """
    harness = Harness()
    await harness.load()
    first = await harness.join_known()
    await harness.sync(first, {first.member_id: b"all"})
    pending = await harness.join(session_ms=200)
    assert pending.error_code == Errors.MEMBER_ID_REQUIRED
    second = await harness.join()
    joining = asyncio.create_task(harness.join(second.member_id))
    while await harness.heartbeat(first) != Errors.REBALANCE_IN_PROGRESS:
        await asyncio.sleep(0)
    leaving = [MemberIdentity(member_id=member_id) for member_id in (first.member_id, second.member_id)]
    await harness.coordinator.leave_group(LeaveGroupRequest(group_id="g", members=leaving))
    assert (await joining).error_code == Errors.UNKNOWN_MEMBER_ID
    assert (await harness.coordinator.describe_group("g", 6)).group_state == "PreparingRebalance"
    third = await harness.join_known()
    assert (third.error_code, third.leader) == (0, third.member_id)


async def test_a_silent_member_is_expired_and_the_group_goes_on_without_it() -> None:
    harness = Harness()
    await harness.load()
    joined = await harness.join_known(session_ms=30)
    await harness.sync(joined, {joined.member_id: b"x"})
    for _ in range(200):
        await asyncio.sleep(0.01)
        if (await harness.coordinator.describe_group("g", 6)).group_state == "Empty":
            break
    assert (await harness.coordinator.describe_group("g", 6)).group_state == "Empty"


async def test_a_static_member_that_restarts_keeps_its_assignment_and_fences_its_old_self() -> None:
    harness = Harness()
    await harness.load()
    joined = await harness.join(instance="i")
    await harness.sync(joined, {joined.member_id: b"kept"})
    again = await harness.join(instance="i")
    assert again.generation_id == joined.generation_id and again.skip_assignment
    assert (await harness.sync(again)).assignment == b"kept"
    fenced = await harness.coordinator.sync_group(
        SyncGroupRequest(group_id="g", generation_id=joined.generation_id, member_id=joined.member_id, group_instance_id="i")
    )
    assert fenced.error_code == Errors.FENCED_INSTANCE_ID


async def test_groups_and_offsets_come_back_from_the_log() -> None:
    harness = Harness()
    await harness.load()
    joined = await harness.join_known()
    await harness.sync(joined, {joined.member_id: b"mine"})
    assert await harness.commit(42, generation=1, member_id=joined.member_id) == 0
    restarted = Harness(harness.log)
    await restarted.load()
    assert await restarted.heartbeat(joined) == 0
    assert (await restarted.sync(joined)).assignment == b"mine"
    found = (await restarted.coordinator.fetch_offsets("g", None))["t"][0]
    assert found is not None and (found.offset, found.metadata) == (42, "m")


@pytest.mark.parametrize(
    ("generation", "member", "error"),
    [(7, None, Errors.ILLEGAL_GENERATION), (-1, "", Errors.UNKNOWN_MEMBER_ID), (1, "x", Errors.UNKNOWN_MEMBER_ID)],
)
async def test_commits_of_strangers_are_refused_while_the_group_has_members(generation: int, member: str | None, error: Errors) -> None:
    harness = Harness()
    await harness.load()
    joined = await harness.join_known()
    await harness.sync(joined, {joined.member_id: b""})
    with pytest.raises(ApiException) as raised:
        await harness.commit(1, generation=generation, member_id=joined.member_id if member is None else member)
    assert raised.value.error is error


async def test_a_failed_append_of_the_assignment_fails_the_sync_and_rebalances() -> None:
    harness = Harness()
    await harness.load()
    joined = await harness.join_known()
    harness.log.refuse = Errors.NOT_ENOUGH_REPLICAS
    assert (await harness.sync(joined, {joined.member_id: b"x"})).error_code == Errors.COORDINATOR_NOT_AVAILABLE
    assert (await harness.coordinator.describe_group("g", 6)).group_state == "PreparingRebalance"


async def test_deleting_a_group_needs_it_empty_and_forgets_its_offsets() -> None:
    harness = Harness()
    await harness.load()
    joined = await harness.join_known()
    await harness.sync(joined, {joined.member_id: b""})
    await harness.commit(5, generation=1, member_id=joined.member_id)
    assert (await harness.coordinator.delete_group("g")).error_code == Errors.NON_EMPTY_GROUP
    await harness.coordinator.leave_group(LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=joined.member_id)]))
    assert (await harness.coordinator.delete_group("g")).error_code == 0
    assert await harness.coordinator.fetch_offsets("g", None) == {}
    assert (await harness.coordinator.delete_group("g")).error_code == Errors.GROUP_ID_NOT_FOUND


async def test_offsets_of_the_empty_group_id_could_not_be_deleted() -> None:
    """OffsetCommit takes it, as Kafka does; DeleteGroups said INVALID_GROUP_ID."""
    harness = Harness()
    await harness.load()
    assert (await harness.coordinator.delete_group("")).error_code == Errors.GROUP_ID_NOT_FOUND
    await harness.commit(5, group_id="")
    assert (await harness.coordinator.delete_group("")).error_code == 0


async def test_a_simple_consumer_commits_without_a_group() -> None:
    harness = Harness()
    await harness.load()
    assert await harness.commit(9) == 0
    listed = await harness.coordinator.list_groups([], [])
    assert [(group.group_id, group.protocol_type, group.group_state) for group in listed] == [("g", "", "Empty")]


async def test_clients_are_sent_to_look_for_the_coordinator_when_its_log_takes_nothing() -> None:
    harness = Harness()
    await harness.load()
    told = {
        Errors.NOT_LEADER_OR_FOLLOWER: Errors.NOT_COORDINATOR,
        Errors.NOT_ENOUGH_REPLICAS: Errors.COORDINATOR_NOT_AVAILABLE,
        Errors.RECORD_LIST_TOO_LARGE: Errors.UNKNOWN_SERVER_ERROR,
    }
    for refused, error in told.items():
        harness.log.refuse = refused
        with pytest.raises(ApiException) as raised:
            await harness.commit(3)
        assert raised.value.error is error
    harness.log.refuse = None
    assert await harness.commit(3) == 0


async def test_a_shard_that_leaves_while_groups_are_listed_does_not_fail_the_others() -> None:
    harness = Harness()
    await harness.load()
    assert await harness.commit(9) == 0
    other = TopicPartition(GROUP_METADATA_TOPIC_NAME, 1)
    shards = harness.coordinator._shards
    shards.partitions = lambda: [other, TP]  # type: ignore[method-assign]
    assert [group.group_id for group in await harness.coordinator.list_groups([], [])] == ["g"]


def topic_records(topic_id: Uuid) -> list[Any]:
    partition = PartitionRecord(partition_id=0, topic_id=topic_id, replicas=[1], isr=[1], leader=1, leader_epoch=0, partition_epoch=0)
    return [TopicRecord(name=TP.topic, topic_id=topic_id), partition]


async def test_an_offsets_topic_that_was_deleted_and_created_again_at_once_is_loaded_anew() -> None:
    """Its leader epochs begin at 0 again: the shard of the old one stayed, with groups that no log
    has.
    """
    harness = Harness()
    old, new = Uuid(b"\x01" * 16), Uuid(b"\x02" * 16)
    image = MetadataImage.EMPTY
    for records in (topic_records(old), [RemoveTopicRecord(topic_id=old), *topic_records(new)]):
        delta = MetadataDelta(image)
        for record in records:
            delta.replay(record)
        image = delta.apply(MetadataProvenance(image.provenance.last_contained_offset + 1, 1, 0))
        harness.coordinator.on_metadata_update(delta, image)
        while not harness.coordinator._shards.active_partitions():
            await asyncio.sleep(0)
        assert await harness.coordinator.list_groups([], []) == []
        assert await harness.commit(9) == 0
        harness.log.batches, harness.log.end, harness.log.committed = [], 0, 0


async def test_gauges_that_are_read_together_count_the_groups_once(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness()
    await harness.load()
    assert await harness.commit(9) == 0
    counted: list[GroupCoordinatorShard] = []
    count = GroupCoordinatorShard.count

    def count_once(shard: GroupCoordinatorShard, counts: GroupCounts) -> None:
        counted.append(shard)
        count(shard, counts)

    monkeypatch.setattr(GroupCoordinatorShard, "count", count_once)
    for offset in (10, 11):
        readings = harness.metrics.snapshot()
        assert readings["kafka.coordinator.group:type=GroupMetadataManager,name=NumGroups"] == 1
        assert readings["kafka.coordinator.group:type=GroupMetadataManager,name=NumOffsets"] == 1
        assert await harness.commit(offset) == 0
        await asyncio.sleep(0)
    assert len(counted) == 2


async def test_groups_are_not_listed_while_a_shard_is_loading() -> None:
    harness = Harness()
    harness.coordinator._shards.schedule_load(TP, 0)
    with pytest.raises(ApiException) as raised:
        await harness.coordinator.list_groups([], [])
    assert raised.value.error is Errors.COORDINATOR_LOAD_IN_PROGRESS
