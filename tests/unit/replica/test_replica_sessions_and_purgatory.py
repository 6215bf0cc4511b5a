"""Fetch sessions, the purgatory, ISR proposals and metrics by themselves."""

from __future__ import annotations

import asyncio
from pathlib import Path

from support.brokers.broker_doubles import BrokerWorld, ManualRuntime, batch_of
from support.logs.storage_doubles import ManualClock, SeededRandom

from kmirror.common.errors import ApiException, Errors
from kmirror.common.metrics import MetricName, MetricsRegistry
from kmirror.common.topic_partition import TopicIdPartition
from kmirror.common.uuid import Uuid
from kmirror.replica.alter_partition import AlterPartitionManager
from kmirror.replica.delayed_operation import DelayedOperation, DelayedOperationPurgatory
from kmirror.replica.fetch_session import FetchContext, FetchManager, FetchSessionCache, next_epoch
from kmirror.replica.replica_types import FetchInfos, FetchPartition, FetchPartitionData
from kmirror.wire.messages import alter_partition as messages

ID = Uuid(b"i" * 16)


class Wait(DelayedOperation):
    def __init__(self, delay_ms: int, log: list[str], name: str) -> None:
        super().__init__(delay_ms)
        self.ready = False
        self._log = log
        self._name = name

    def try_complete(self) -> bool:
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        self._log.append(f"{self._name} done")

    def on_expiration(self) -> None:
        self._log.append(f"{self._name} expired")


def test_an_operation_completes_once_by_its_key_or_by_its_time() -> None:
    runtime, log = ManualRuntime(), []
    purgatory: DelayedOperationPurgatory[Wait] = DelayedOperationPurgatory("test", runtime)
    first, second = Wait(100, log, "first"), Wait(50, log, "second")
    assert not purgatory.try_complete_else_watch(first, ["a", "b"])
    assert not purgatory.try_complete_else_watch(second, ["b"])
    assert purgatory.num_delayed() == 2
    runtime.advance(60)
    assert log == ["second expired", "second done"]
    first.ready = True
    assert purgatory.check_and_complete("b") == 1
    assert purgatory.check_and_complete("a") == 0
    runtime.advance(100)
    assert log == ["second expired", "second done", "first done"]
    done = Wait(10, log, "third")
    done.ready = True
    assert purgatory.try_complete_else_watch(done, ["a"])
    assert purgatory.num_delayed() == 0


def infos(*partitions: int, offset: int = 0) -> FetchInfos:
    return [(TopicIdPartition(ID, "t", number), FetchPartition(ID, offset, 0, 100)) for number in partitions]


class Sessions:
    def __init__(self, slots: int = 2) -> None:
        self.clock = ManualClock()
        self.cache = FetchSessionCache(slots, self.clock, SeededRandom())
        self.manager = FetchManager(self.cache, MetricsRegistry(self.clock))

    def context(self, session_id: int, epoch: int, fetch_infos: FetchInfos, *forgotten: int, follower: bool = False) -> FetchContext:
        gone = [TopicIdPartition(ID, "t", number) for number in forgotten]
        return self.manager.new_context(
            session_id=session_id,
            session_epoch=epoch,
            is_from_follower=follower,
            uses_topic_ids=True,
            fetch_infos=fetch_infos,
            forgotten=gone,
        )

    def open(self, *partitions: int, follower: bool = False) -> int:
        context = self.context(0, 0, infos(*partitions), follower=follower)
        return context.select([(topic, FetchPartitionData(Errors.NONE, 0, 0)) for topic, _ in context.fetch_infos({})]).session_id


def test_a_session_forgets_and_adds_partitions_and_rotates_those_with_data() -> None:
    sessions = Sessions()
    session_id = sessions.open(0, 1, 2)
    context = sessions.context(session_id, 1, infos(3), 1)
    asked = [topic.partition for topic, _ in context.fetch_infos({})]
    assert asked == [0, 2, 3]
    results = [
        (topic, FetchPartitionData(Errors.NONE, 0, 0, records=b"x" if topic.partition == 0 else None))
        for topic, _ in context.fetch_infos({})
    ]
    selected = context.select(results)
    assert [topic.partition for topic, _ in selected.results] == [0, 3], "2 has nothing new; 3 was never answered"
    context = sessions.context(session_id, 2, [])
    assert [topic.partition for topic, _ in context.fetch_infos({})] == [2, 3, 0]
    failing = context.select([(topic, FetchPartitionData(Errors.NOT_LEADER_OR_FOLLOWER)) for topic, _ in context.fetch_infos({})])
    assert len(failing.results) == 3
    context = sessions.context(session_id, 3, [], 0, 2, 3)
    assert context.select([]).session_id == 0 and len(sessions.cache) == 0, "a session without partitions ends"


def test_slots_are_taken_from_idle_or_smaller_sessions_only() -> None:
    sessions = Sessions(slots=1)
    first = sessions.open(0)
    assert first > 0
    assert sessions.open(0, 1) == 0, "too young to be evicted"
    sessions.clock.now_ms += 120_001
    second = sessions.open(0, 1)
    assert second > 0 and sessions.cache.get(first) is None
    sessions.clock.now_ms += 120_000
    assert sessions.open(0) == 0
    assert sessions.context(second, -1, []).select([]).session_id == 0
    assert len(sessions.cache) == 0, "epoch -1 closes"


def test_epochs_wrap_to_one() -> None:
    assert [next_epoch(0), next_epoch(2**31 - 1), next_epoch(-1)] == [1, 1, -1]


def test_metrics_have_kafkas_names_and_rates() -> None:
    clock = ManualClock()
    registry = MetricsRegistry(clock)
    meter = registry.meter(MetricName("kafka.server", "BrokerTopicMetrics", "BytesInPerSec", (("topic", "t"),)))
    meter.mark(500)
    clock.now_ms += 5_000
    assert meter.one_minute_rate() == 100.0
    clock.now_ms += 60_000
    assert 30 < meter.one_minute_rate() < 40, "e^-1 of it after a minute of silence"
    registry.gauge(MetricName("kafka.server", "ReplicaManager", "PartitionCount"), lambda: 3)
    snapshot = registry.snapshot()
    assert snapshot["kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic=t"] == 500
    assert snapshot["kafka.server:type=ReplicaManager,name=PartitionCount"] == 3


async def test_isr_changes_go_to_the_controller_and_move_the_high_watermark(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path), others=(2,))
    asked: list[messages.AlterPartitionRequest] = []

    async def send(request: messages.AlterPartitionRequest) -> messages.AlterPartitionResponse:
        asked.append(request)
        if len(asked) == 1:
            raise ApiException(Errors.REQUEST_TIMED_OUT, "no controller")
        topic = request.topics[0]
        row = messages.AlterPartitionResponsePartitionData(
            partition_index=0,
            leader_id=1,
            leader_epoch=topic.partitions[0].leader_epoch,
            isr=[member.broker_id for member in topic.partitions[0].new_isr_with_epochs],
            partition_epoch=topic.partitions[0].partition_epoch + 1,
        )
        return messages.AlterPartitionResponse(topics=[messages.AlterPartitionResponseTopicData(topic_id=topic.topic_id, partitions=[row])])

    manager = AlterPartitionManager(world.runtime, 1, send, lambda broker_id: 10)
    world.replica_manager._alter_partition_manager = manager
    world.create_topic("t", replicas=(1, 2))
    partition = world.partition("t")
    partition.append_records_to_mirror_leader(_batch(), source_leader_epoch=0)
    assert partition.log.high_watermark == 0
    world.runtime.advance(30_001)
    partition.maybe_shrink_isr()
    assert partition.replicas.maximal_isr == (1, 2), "the proposal changes nothing before it is accepted"
    await _settle(world)
    assert (partition.in_sync_replicas, partition.partition_epoch, partition.log.high_watermark) == ((1,), 1, 1)
    partition.update_follower_fetch_state(
        replica_id=2, fetch_offset=1, follower_log_start_offset=0, leader_log_end_offset=1, broker_epoch=10
    )
    await _settle(world)
    assert partition.in_sync_replicas == (1, 2)
    assert len(asked) == 3, "one was not answered"


def _batch() -> bytearray:
    return batch_of(b"a", partition_leader_epoch=0)


async def _settle(world: BrokerWorld) -> None:
    for _ in range(5):
        await asyncio.sleep(0)
        world.runtime.advance(50)
