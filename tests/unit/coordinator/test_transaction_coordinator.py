"""The transaction coordinator of a broker: markers until they are written, other coordinators,
timeouts, refused appends.
"""

from __future__ import annotations

import asyncio
from typing import Any

from support.brokers.broker_doubles import ManualRuntime
from support.coordinators.coordinator_doubles import MemoryLog

from kmirror.common.errors import ApiException, Errors
from kmirror.common.metrics import MetricsRegistry
from kmirror.common.topic_partition import TRANSACTION_STATE_TOPIC_NAME, TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from kmirror.coordinator.transaction.transaction_coordinator_shard import ProducerResult, TransactionConfig, TransactionFilter
from kmirror.coordinator.transaction.transaction_marker_channel_manager import TransactionMarkerChannelManager
from kmirror.metadata.delta import MetadataDelta
from kmirror.metadata.image import MetadataImage, MetadataProvenance
from kmirror.network.client import DisconnectError
from kmirror.wire.messages.feature_level_record import FeatureLevelRecord
from kmirror.wire.messages.partition_change_record import PartitionChangeRecord
from kmirror.wire.messages.partition_record import PartitionRecord
from kmirror.wire.messages.remove_topic_record import RemoveTopicRecord
from kmirror.wire.messages.topic_record import TopicRecord
from kmirror.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kmirror.wire.primitives import ProtocolReadError

STATE = TopicPartition(TRANSACTION_STATE_TOPIC_NAME, 0)
A, B = TopicPartition("a", 0), TopicPartition("b", 0)
TURNS = 60


class Leaders:
    """The brokers that get markers; `errors` says how a partition answers (once each, then NONE),
    `lost` brokers do not answer.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[int, WriteTxnMarkersRequest]] = []
        self.errors: dict[TopicPartition, list[Errors]] = {}
        self.lost: set[int] = set()
        self.garbled: set[int] = set()
        self.held: asyncio.Event | None = None

    async def send(self, broker_id: int, message: Any) -> Any:
        self.asked.append((broker_id, message))
        if self.held is not None:
            await self.held.wait()
        if broker_id in self.lost:
            raise DisconnectError(f"broker {broker_id} is gone")
        if broker_id in self.garbled:
            raise ProtocolReadError("the response ends too early")
        return WriteTxnMarkersResponse([self._result(marker) for marker in message.markers])

    def _result(self, marker: Any) -> WritableTxnMarkerResult:
        topics = []
        for topic in marker.topics:
            partitions = []
            for number in topic.partition_indexes:
                waiting = self.errors.get(TopicPartition(topic.name, number))
                error = waiting.pop(0) if waiting else Errors.NONE
                partitions.append(WritableTxnMarkerPartitionResult(number, error))
            topics.append(WritableTxnMarkerTopicResult(topic.name, partitions))
        return WritableTxnMarkerResult(marker.producer_id, topics)


class World:
    """Broker 1 coordinates; a-0 is led by broker 2, b-0 by broker 3."""

    def __init__(self, **config: int) -> None:
        self.runtime = ManualRuntime()
        self.log = MemoryLog()
        self.leaders = Leaders()
        self.image = MetadataImage.EMPTY
        self.ids = {name: Uuid(bytes([number] * 16)) for number, name in enumerate((STATE.topic, "a", "b"), start=1)}
        self.next_producer_id = 0
        metrics = MetricsRegistry(self.runtime.clock)
        markers = TransactionMarkerChannelManager(self.runtime, image=lambda: self.image, brokers=self.leaders, metrics=metrics)
        self.coordinator = TransactionCoordinator(
            self.runtime,
            TransactionConfig(**config),
            log=self.log,
            broker_id=1,
            image=lambda: self.image,
            generate_producer_id=self.generate,
            markers=markers,
            metrics=metrics,
        )

    async def generate(self) -> int:
        self.next_producer_id += 1
        return self.next_producer_id

    async def start(self) -> None:
        self.apply(FeatureLevelRecord(name="transaction.version", feature_level=2))
        for name, leader in ((STATE.topic, 1), ("a", 2), ("b", 3)):
            record = PartitionRecord(
                partition_id=0, topic_id=self.ids[name], replicas=[leader], isr=[leader], leader=leader, leader_epoch=0, partition_epoch=0
            )
            self.apply(TopicRecord(name=name, topic_id=self.ids[name]), record)
        self.coordinator.start()
        await self.settle()

    def apply(self, *records: Any) -> None:
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        self.image = delta.apply(MetadataProvenance(self.image.provenance.last_contained_offset + len(records), 1, 0))
        self.coordinator.on_metadata_update(self.image)

    def lead(self, topic: str, broker_id: int) -> None:
        self.apply(PartitionChangeRecord(topic_id=self.ids[topic], partition_id=0, leader=broker_id, isr=[broker_id]))

    async def settle(self, ms: int = 0) -> None:
        """Run what can run, `ms` later."""
        for _ in range(TURNS):
            await asyncio.sleep(0)
            self.runtime.advance(ms // TURNS)

    async def begun(self, name: str = "tx", *partitions: TopicPartition) -> tuple[int, int]:
        result = await self.coordinator.init_producer_id(name, timeout_ms=60_000, expected=None)
        assert result.error is Errors.NONE
        producer = (result.producer_id, result.producer_epoch)
        added = await self.coordinator.add_partitions(name, *producer, list(partitions or (A, B)), client_transaction_version=2)
        assert added is Errors.NONE
        return producer

    async def end(self, producer: tuple[int, int], name: str = "tx", *, commit: bool = True) -> ProducerResult:
        return await self.coordinator.end_transaction(name, *producer, commit=commit, client_transaction_version=2)

    async def state(self, name: str = "tx") -> str:
        return (await self.coordinator.describe_transaction(name)).state.label


async def test_markers_go_to_every_leader_and_then_it_is_complete() -> None:
    world = World()
    await world.start()
    producer = await world.begun()
    world.leaders.held = asyncio.Event()
    assert await world.end(producer) == ProducerResult(Errors.NONE, 1, 1), "answered before the markers are there"
    await world.settle()
    assert await world.state() == "PrepareCommit"
    assert [broker for broker, _ in world.leaders.asked] == [2, 3]
    (marker,) = world.leaders.asked[0][1].markers
    assert (marker.producer_epoch, marker.transaction_result, marker.coordinator_epoch, marker.transaction_version) == (1, True, 0, 2)
    world.leaders.held.set()
    await world.settle()
    assert await world.state() == "CompleteCommit"
    await world.coordinator.shutdown()


async def test_a_marker_is_sent_again_where_it_could_not_be_written() -> None:
    world = World()
    await world.start()
    producer = await world.begun()
    world.leaders.errors[A] = [Errors.NOT_ENOUGH_REPLICAS, Errors.NOT_LEADER_OR_FOLLOWER]
    world.leaders.lost = {3}
    await world.end(producer, commit=False)
    await world.settle()
    world.lead("a", 4)
    world.lead("b", 5)
    await world.settle(ms=600)
    assert await world.state() == "CompleteAbort"
    brokers = [broker for broker, _ in world.leaders.asked]
    assert brokers[:2] == [2, 3] and set(brokers[2:]) == {4, 5}, "the new leaders are asked"
    assert brokers.count(5) == 1, "what is written is not written again"
    await world.coordinator.shutdown()


async def test_a_shard_that_leaves_while_transactions_are_listed_is_left_out() -> None:
    world = World()
    await world.start()
    await world.begun()
    world.log.hold = True
    unanswered = asyncio.ensure_future(world.coordinator.init_producer_id("tx2", timeout_ms=60_000, expected=None))
    await world.settle()
    listing = asyncio.ensure_future(world.coordinator.list_transactions(TransactionFilter()))
    await world.settle()
    assert not listing.done(), "it waits for what is not committed"
    world.lead(STATE.topic, 2)
    await world.settle()
    assert listing.result() == []
    assert (await unanswered).error is Errors.NOT_COORDINATOR
    await world.coordinator.shutdown()


async def test_an_answer_that_cannot_be_read_does_not_end_the_markers_to_that_broker() -> None:
    world = World()
    await world.start()
    producer = await world.begun()
    world.leaders.garbled = {3}
    await world.end(producer)
    await world.settle()
    assert await world.state() == "PrepareCommit"
    world.leaders.garbled.clear()
    await world.settle(ms=600)
    assert await world.state() == "CompleteCommit"
    await world.coordinator.shutdown()


async def test_a_deleted_topic_needs_no_marker() -> None:
    world = World()
    await world.start()
    producer = await world.begun()
    world.apply(RemoveTopicRecord(topic_id=world.ids["a"]))
    await world.end(producer)
    await world.settle()
    assert await world.state() == "CompleteCommit"
    assert [broker for broker, _ in world.leaders.asked] == [3]
    await world.coordinator.shutdown()


async def test_transactions_that_end_meanwhile_share_a_request() -> None:
    world = World()
    await world.start()
    producers = {name: await world.begun(name, A) for name in ("one", "two", "three")}
    world.leaders.held = asyncio.Event()
    for name, producer in producers.items():
        await world.end(producer, name)
        await world.settle()
    world.leaders.held.set()
    await world.settle()
    assert [len(message.markers) for _, message in world.leaders.asked] == [1, 2]
    assert [await world.state(name) for name in producers] == ["CompleteCommit"] * 3
    await world.coordinator.shutdown()


async def test_a_fenced_coordinator_stops() -> None:
    world = World()
    await world.start()
    producer = await world.begun()
    world.leaders.errors[A] = [Errors.TRANSACTION_COORDINATOR_FENCED]
    await world.end(producer)
    await world.settle(ms=5_000)
    assert await world.state() == "PrepareCommit", "somebody else decides"
    assert len(world.leaders.asked) == 2
    await world.coordinator.shutdown()


async def test_the_next_coordinator_completes_what_was_decided() -> None:
    world = World()
    await world.start()
    producer = await world.begun()
    world.leaders.lost = {2, 3}
    await world.end(producer)
    await world.settle(ms=100)
    world.lead(STATE.topic, 9)
    answers = (
        (await world.end(producer)).error,
        await world.coordinator.add_partitions("tx", *producer, [A], client_transaction_version=2),
    )
    assert answers == (Errors.NOT_COORDINATOR, Errors.NOT_COORDINATOR)
    assert (await world.coordinator.verify_partitions("tx", *producer, [A])) == {A: Errors.NOT_COORDINATOR}
    asked = len(world.leaders.asked)
    await world.settle(ms=5_000)
    assert len(world.leaders.asked) == asked, "no markers of a coordinator that is none any more"
    world.leaders.lost = set()
    world.lead(STATE.topic, 1)
    await world.settle(ms=100)
    assert await world.state() == "CompleteCommit"
    assert world.leaders.asked[-1][1].markers[0].coordinator_epoch == 2, "the epoch of the new leadership"
    await world.coordinator.shutdown()


async def test_open_transactions_are_aborted_in_time_and_idle_ids_forgotten() -> None:
    world = World(abort_timed_out_transactions_interval_ms=1_000, transactional_id_expiration_ms=500_000)
    await world.start()
    await world.begun()
    await world.settle(ms=50_000)
    assert await world.state() == "Ongoing"
    await world.settle(ms=20_000)
    assert await world.state() == "CompleteAbort"
    await world.settle(ms=4_000_000)
    listed = await world.coordinator.list_transactions(TransactionFilter())
    assert listed == []
    await world.coordinator.shutdown()


async def test_one_transaction_that_could_not_be_aborted_kept_the_others_open() -> None:
    world = World(abort_timed_out_transactions_interval_ms=10**9)
    await world.start()
    for name in ("first", "second"):
        await world.begun(name)
    world.runtime.advance(61_000)
    append, refused = world.log.append, []

    def append_but_once(*args: Any, **kwargs: Any) -> int:
        if not refused:
            refused.append(1)
            raise ApiException(Errors.NOT_ENOUGH_REPLICAS)
        return append(*args, **kwargs)

    world.log.append = append_but_once  # type: ignore[method-assign]
    await world.coordinator.abort_timed_out(STATE)
    await world.settle()
    assert (await world.state("first"), await world.state("second")) == ("Ongoing", "CompleteAbort")
    await world.coordinator.shutdown()


async def test_a_state_topic_that_was_deleted_and_created_again_at_once_is_loaded_anew() -> None:
    """Its leader epochs begin at 0 again: the shard of the old one stayed, and answered for what is
    gone.
    """
    world = World()
    await world.start()
    await world.begun()
    world.log.batches, world.log.end, world.log.committed = [], 0, 0
    old, new = world.ids[STATE.topic], Uuid(bytes([9] * 16))
    partition = PartitionRecord(partition_id=0, topic_id=new, replicas=[1], isr=[1], leader=1, leader_epoch=0, partition_epoch=0)
    world.apply(RemoveTopicRecord(topic_id=old), TopicRecord(name=STATE.topic, topic_id=new), partition)
    await world.settle()
    listed = await world.coordinator.list_transactions(TransactionFilter())
    assert listed == []
    await world.coordinator.shutdown()


async def test_a_log_that_takes_nothing_is_said_in_the_words_of_coordinators() -> None:
    world = World()
    await world.start()
    producer = await world.begun()
    for refused, said in (
        (Errors.NOT_ENOUGH_REPLICAS, Errors.COORDINATOR_NOT_AVAILABLE),
        (Errors.NOT_LEADER_OR_FOLLOWER, Errors.NOT_COORDINATOR),
    ):
        world.log.refuse = refused
        assert (await world.end(producer)).error is said
    world.log.refuse = None
    assert await world.state() == "Ongoing", "a refused append changes nothing"
    assert (await world.end(producer)).error is Errors.NONE
    await world.coordinator.shutdown()


async def test_the_completion_is_written_when_the_log_takes_records_again() -> None:
    world = World()
    await world.start()
    producer = await world.begun()
    world.leaders.held = asyncio.Event()
    await world.end(producer)
    await world.settle()
    world.log.refuse = Errors.NOT_ENOUGH_REPLICAS
    world.leaders.held.set()
    await world.settle(ms=1_000)
    assert await world.state() == "PrepareCommit"
    world.log.refuse = None
    await world.settle(ms=1_000)
    assert await world.state() == "CompleteCommit"
    await world.coordinator.shutdown()


async def test_what_is_wrong_with_a_request_before_any_state_is_looked_at() -> None:
    world = World()
    coordinator = world.coordinator
    assert (await coordinator.init_producer_id("tx", timeout_ms=1, expected=None)).error is Errors.NOT_COORDINATOR
    await world.start()
    for timeout_ms in (0, -1, 900_001):
        result = await coordinator.init_producer_id("tx", timeout_ms=timeout_ms, expected=None)
        assert result.error is Errors.INVALID_TRANSACTION_TIMEOUT
    assert (await coordinator.init_producer_id("", timeout_ms=1, expected=None)).error is Errors.INVALID_REQUEST
    assert (await coordinator.end_transaction("", 1, 1, commit=True, client_transaction_version=2)).error is Errors.INVALID_REQUEST
    assert await coordinator.add_partitions("", 1, 1, [A], client_transaction_version=2) is Errors.INVALID_REQUEST
    refused = await coordinator.init_producer_id("tx", timeout_ms=1, expected=None, enable_two_phase_commit=True)
    assert refused.error is Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transaction.two.phase.commit.enable is off"
    kept = await coordinator.init_producer_id("tx", timeout_ms=1, expected=None, keep_prepared_transaction=True)
    assert kept.error is Errors.UNSUPPORTED_VERSION
    await coordinator.shutdown()


async def test_a_two_phase_commit_has_no_timeout() -> None:
    world = World(two_phase_commit_enable=True)
    await world.start()
    result = await world.coordinator.init_producer_id("tx", timeout_ms=-1, expected=None, enable_two_phase_commit=True)
    assert result.error is Errors.NONE
    assert (await world.coordinator.describe_transaction("tx")).timeout_ms == 2_147_483_647
    await world.coordinator.shutdown()
