"""ReplicaManager over real logs: appends, fetches, waits, read-only rules, deletion, high-watermark
checkpoints.
"""

from __future__ import annotations

from pathlib import Path

from support.brokers.broker_doubles import NOW_MS, BrokerWorld, batch_of

from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicIdPartition, TopicPartition
from kmirror.record.control_record import ControlRecordType, build_end_transaction_marker
from kmirror.record.record_batch import RecordBatch
from kmirror.replica.partition import ReadOnlyReason
from kmirror.replica.partition_reader import last_offset_for_leader_epoch
from kmirror.replica.replica_types import FetchParams, FetchPartition, FetchPartitionData, PartitionResponse
from kmirror.storage.fetch_data_info import FetchIsolation
from kmirror.storage.log_append_info import AppendOrigin

T0 = TopicPartition("t", 0)


async def produce(world: BrokerWorld, *values: bytes, acks: int = 1, origin: AppendOrigin = AppendOrigin.CLIENT) -> PartitionResponse:
    future = world.replica_manager.append_records(timeout_ms=1000, required_acks=acks, origin=origin, entries={T0: batch_of(*values)})
    return (await future)[T0]


def params(*, max_wait_ms: int = 0, min_bytes: int = 1, max_bytes: int = 1 << 20, replica_id: int = -1) -> FetchParams:
    isolation = FetchIsolation.LOG_END if replica_id >= 0 else FetchIsolation.HIGH_WATERMARK
    return FetchParams(replica_id, max_wait_ms, min_bytes, max_bytes, isolation)


def fetch_info(
    world: BrokerWorld, offset: int, *, epoch: int | None = None, last_fetched_epoch: int | None = None
) -> tuple[TopicIdPartition, FetchPartition]:
    topic_id = world.cache.topic_id("t")
    return TopicIdPartition(topic_id, "t", 0), FetchPartition(topic_id, offset, 0, 1 << 20, epoch, last_fetched_epoch)


async def fetch(world: BrokerWorld, offset: int, **options: int) -> FetchPartitionData:
    results = await world.replica_manager.fetch_messages(params(), [fetch_info(world, offset, **options)])
    return results[0][1]


async def test_what_is_produced_is_fetched_with_the_assigned_offsets(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    world.create_topic("t")
    first = await produce(world, b"a", b"b")
    second = await produce(world, b"c", acks=-1)
    assert (first.error, first.base_offset, first.log_start_offset) == (Errors.NONE, 0, 0)
    assert (second.error, second.base_offset) == (Errors.NONE, 2)
    data = await fetch(world, 2)
    assert (data.error, data.high_watermark, data.last_stable_offset) == (Errors.NONE, 3, 3)
    assert data.records is not None and not isinstance(data.records, (bytes, bytearray, memoryview))
    batch = RecordBatch(data.records.to_bytes())
    assert (batch.base_offset, batch.partition_leader_epoch) == (2, 0)
    assert [bytes(record.value or b"") for record in batch.records()] == [b"c"]


async def test_errors_of_an_append_are_per_partition(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    world.create_topic("t")
    world.create_topic("__consumer_offsets")
    missing, internal = TopicPartition("missing", 0), TopicPartition("__consumer_offsets", 0)
    entries = {missing: batch_of(b"x"), internal: batch_of(b"x"), T0: batch_of(b"x")}
    results = await world.replica_manager.append_records(timeout_ms=1, required_acks=1, origin=AppendOrigin.CLIENT, entries=entries)
    assert [results[key].error for key in (missing, internal, T0)] == [
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.INVALID_TOPIC_EXCEPTION,
        Errors.NONE,
    ]
    bad_acks = await produce(world, b"x", acks=2)
    assert bad_acks.error is Errors.INVALID_REQUIRED_ACKS
    broken = batch_of(b"payload")
    broken[-1] ^= 1
    corrupt = await world.replica_manager.append_records(timeout_ms=1, required_acks=1, origin=AppendOrigin.CLIENT, entries={T0: broken})
    assert (corrupt[T0].error, corrupt[T0].log_start_offset) == (Errors.CORRUPT_MESSAGE, -1)


async def test_nobody_writes_or_deletes_in_the_log_of_mirror_states(tmp_path: Path) -> None:
    """Not the admin client either, which may do so in other internal topics: the coordinator
    appends by itself.
    """
    world = BrokerWorld(str(tmp_path))
    states, offsets = TopicPartition("__mirror_state", 0), TopicPartition("__consumer_offsets", 0)
    for topic_partition in (states, offsets):
        world.create_topic(topic_partition.topic)
    manager = world.replica_manager
    results = await manager.append_records(
        timeout_ms=1, required_acks=1, origin=AppendOrigin.CLIENT, entries={states: batch_of(b"x"), offsets: batch_of(b"x")},
        internal_topics_allowed=True,
    )  # fmt: skip
    assert (results[states].error, results[offsets].error) == (Errors.INVALID_TOPIC_EXCEPTION, Errors.NONE)
    deleted = await manager.delete_records(1000, {states: -1, offsets: -1}, internal_topics_allowed=True)
    assert (deleted[states].error, deleted[offsets].error) == (Errors.POLICY_VIOLATION, Errors.NONE)


async def test_refused_records_are_named_with_kafkas_text(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    world.create_topic("t", configs={"cleanup.policy": "compact"})
    result = await produce(world, b"no key")
    assert result.error is Errors.INVALID_RECORD
    assert [entry.batch_index for entry in result.record_errors] == [0]
    assert result.error_message is not None and "record errors" in result.error_message


async def test_a_fetch_waits_for_min_bytes_and_is_woken_by_an_append(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    world.create_topic("t")
    waiting = world.replica_manager.fetch_messages(params(max_wait_ms=500, min_bytes=100), [fetch_info(world, 0)])
    assert not waiting.done()
    await produce(world, b"a")
    assert not waiting.done(), "69 bytes are not 100"
    await produce(world, b"b")
    assert waiting.done()
    assert (await waiting)[0][1].high_watermark == 2
    assert world.replica_manager.purgatories.fetches.num_delayed() == 0


async def test_a_fetch_answers_what_there_is_when_its_time_is_up(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    world.create_topic("t")
    waiting = world.replica_manager.fetch_messages(params(max_wait_ms=500, min_bytes=1000), [fetch_info(world, 0)])
    await produce(world, b"a")
    world.runtime.advance(499)
    assert not waiting.done()
    world.runtime.advance(1)
    data = (await waiting)[0][1]
    assert data.error is Errors.NONE and data.records is not None and len(data.records.to_bytes()) == 69


async def test_a_waiting_fetch_hears_that_the_topic_is_gone(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    world.create_topic("t")
    waiting = world.replica_manager.fetch_messages(params(max_wait_ms=500), [fetch_info(world, 0)])
    world.delete_topic("t")
    assert (await waiting)[0][1].error is Errors.UNKNOWN_TOPIC_OR_PARTITION
    assert not (tmp_path / "t-0").exists()


async def test_fetches_out_of_range_or_in_the_wrong_epoch(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    world.create_topic("t")
    await produce(world, b"a")
    out_of_range = await fetch(world, 7)
    assert (out_of_range.error, out_of_range.high_watermark, out_of_range.log_start_offset) == (Errors.OFFSET_OUT_OF_RANGE, -1, -1)
    assert (await fetch(world, 0, epoch=5)).error is Errors.UNKNOWN_LEADER_EPOCH
    world.elect("t", 0, 1)
    assert (await fetch(world, 0, epoch=0)).error is Errors.FENCED_LEADER_EPOCH


async def test_a_fetcher_that_diverges_is_told_where(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    world.create_topic("t")
    await produce(world, b"a", b"b")
    world.elect("t", 0, 1)
    await produce(world, b"c")
    data = await fetch(world, 5, last_fetched_epoch=0)
    assert data.diverging_epoch is not None and (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (0, 2)
    assert (await fetch(world, 2, last_fetched_epoch=0)).diverging_epoch is None
    above = await fetch(world, 3, last_fetched_epoch=9)
    assert above.error is Errors.NONE, "an epoch above all of ours is a divergence, not OFFSET_OUT_OF_RANGE (C36b)"
    assert above.diverging_epoch is not None and (above.diverging_epoch.epoch, above.diverging_epoch.end_offset) == (1, 3)
    end = last_offset_for_leader_epoch(world.partition("t"), current_leader_epoch=None, leader_epoch=0)
    assert (end.error, end.leader_epoch, end.end_offset) == (Errors.NONE, 0, 2)


async def test_a_mirror_topics_leader_knows_where_its_own_epoch_begins_before_it_has_appended_in_it(tmp_path: Path) -> None:
    """It has no entry for it (D5 step 4); a mirror of it then never came to know where the log
    ends, and compared for ever.
    """
    world = BrokerWorld(str(tmp_path))
    world.create_topic("t", configs={"mirror.name": "m.removed"})
    world.partition("t").set_read_only(None)
    await produce(world, b"a", b"b")
    for _ in range(3):
        world.elect("t", 0, 1)
    ends = [last_offset_for_leader_epoch(world.partition("t"), current_leader_epoch=None, leader_epoch=epoch) for epoch in range(5)]
    assert [(end.leader_epoch, end.end_offset) for end in ends] == [(0, 2), (0, 2), (0, 2), (3, 2), (-1, -1)]


async def test_acks_all_waits_for_the_follower_and_times_out(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path), others=(2,))
    world.create_topic("t", replicas=(1, 2))
    entries = {T0: batch_of(b"a")}
    waiting = world.replica_manager.append_records(timeout_ms=1000, required_acks=-1, origin=AppendOrigin.CLIENT, entries=entries)
    assert not waiting.done() and world.partition("t").log.high_watermark == 0
    await world.replica_manager.fetch_messages(params(replica_id=2), [fetch_info(world, 0)])
    assert not waiting.done()
    await world.replica_manager.fetch_messages(params(replica_id=2), [fetch_info(world, 1)])
    assert (await waiting)[T0].error is Errors.NONE
    assert world.partition("t").log.high_watermark == 1
    late = world.replica_manager.append_records(timeout_ms=1000, required_acks=-1, origin=AppendOrigin.CLIENT, entries={T0: batch_of(b"b")})
    world.runtime.advance(1000)
    assert (await late)[T0].error is Errors.REQUEST_TIMED_OUT


async def test_not_enough_replicas_refuses_before_the_append(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path), others=(2,))
    world.create_topic("t", replicas=(1, 2), configs={"min.insync.replicas": "2"})
    partition = world.partition("t")
    partition.replicas.in_sync = (1,)
    assert (await produce(world, b"a", acks=-1)).error is Errors.NOT_ENOUGH_REPLICAS
    assert partition.log.log_end_offset == 0
    assert (await produce(world, b"a", acks=1)).error is Errors.NONE


async def test_a_mirror_topic_is_read_only_until_its_state_says_otherwise(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    world.create_topic("t", configs={"mirror.name": "m"})
    partition = world.partition("t")
    assert partition.read_only_reason is ReadOnlyReason.MIRROR_STATE_UNKNOWN
    assert (await produce(world, b"a")).error is Errors.NOT_LEADER_OR_FOLLOWER, "C38: retriable while the state is unknown"
    partition.set_read_only(ReadOnlyReason.MIRROR_TOPIC)
    assert (await produce(world, b"a")).error is Errors.READ_ONLY_TOPIC
    deleted = await world.replica_manager.delete_records(1000, {T0: 0})
    assert deleted[T0].error is Errors.READ_ONLY_TOPIC
    assert (await produce(world, b"a", origin=AppendOrigin.COORDINATOR)).error is Errors.NONE
    partition.append_records_to_mirror_leader(batch_of(b"b", base_offset=1, partition_leader_epoch=7), source_leader_epoch=7)
    assert (partition.log.log_end_offset, partition.log.high_watermark, partition.log.latest_epoch) == (2, 2, 7)
    assert (await fetch(world, 0)).error is Errors.NONE, "read-only is not offline"
    world.set_configs("t", {"mirror.name": None})
    assert (await produce(world, b"c")).error is Errors.NONE


async def test_no_epoch_entry_without_a_batch_in_a_mirror_topic(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    world.create_topic("t", configs={"mirror.name": "m"})
    assert world.partition("t").log.latest_epoch is None
    world.create_topic("plain")
    assert world.partition("plain").log.latest_epoch == 0


async def test_becoming_read_only_fails_the_produces_that_wait(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path), others=(2,))
    world.create_topic("t", replicas=(1, 2))
    world.create_topic("u", replicas=(1, 2))
    other = TopicPartition("u", 0)
    entries = {T0: batch_of(b"a"), other: batch_of(b"b")}
    waiting = world.replica_manager.append_records(timeout_ms=1000, required_acks=-1, origin=AppendOrigin.CLIENT, entries=entries)
    world.set_configs("t", {"mirror.name": "m"})
    assert not waiting.done(), "the other partition still waits"
    world.runtime.advance(1000)
    results = await waiting
    assert results[T0].error is Errors.NOT_LEADER_OR_FOLLOWER, "F3: it must not be acknowledged by records that pass its offset"
    assert results[other].error is Errors.REQUEST_TIMED_OUT


async def test_losing_leadership_fails_produces_and_tells_listeners(tmp_path: Path) -> None:
    class Listener:
        def __init__(self) -> None:
            self.events: list[tuple[str, int]] = []

        def on_high_watermark_updated(self, topic_partition: TopicPartition, offset: int) -> None:
            self.events.append(("high watermark", offset))

        def on_failed(self, topic_partition: TopicPartition) -> None:
            self.events.append(("failed", 0))

        def on_deleted(self, topic_partition: TopicPartition) -> None:
            self.events.append(("deleted", 0))

        def on_becoming_follower(self, topic_partition: TopicPartition) -> None:
            self.events.append(("follower", 0))

    world = BrokerWorld(str(tmp_path), others=(2,))
    world.create_topic("t", replicas=(1, 2))
    listener = Listener()
    assert world.replica_manager.maybe_add_listener(T0, listener)
    assert not world.replica_manager.maybe_add_listener(TopicPartition("nothing", 0), listener)
    waiting = world.replica_manager.append_records(
        timeout_ms=1000, required_acks=-1, origin=AppendOrigin.CLIENT, entries={T0: batch_of(b"a")}
    )
    world.elect("t", 0, 2)
    assert (await waiting)[T0].error is Errors.NOT_LEADER_OR_FOLLOWER
    assert (await produce(world, b"x")).error is Errors.NOT_LEADER_OR_FOLLOWER
    world.elect("t", 0, 1)
    await world.replica_manager.fetch_messages(params(replica_id=2), [fetch_info(world, 1)])
    world.delete_topic("t")
    assert listener.events == [("follower", 0), ("high watermark", 1), ("deleted", 0)]


async def test_delete_records_moves_the_log_start(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    world.create_topic("t")
    for value in (b"a", b"b", b"c"):
        await produce(world, value)
    manager = world.replica_manager
    assert (await manager.delete_records(1000, {T0: 2}))[T0].low_watermark == 2
    assert (await manager.delete_records(1000, {T0: 9}))[T0].error is Errors.OFFSET_OUT_OF_RANGE
    assert (await manager.delete_records(1000, {T0: -1}))[T0].low_watermark == 3
    assert (await fetch(world, 1)).error is Errors.OFFSET_OUT_OF_RANGE
    world.create_topic("c", configs={"cleanup.policy": "compact"})
    compacted = TopicPartition("c", 0)
    assert (await manager.delete_records(1000, {compacted: 0}))[compacted].error is Errors.POLICY_VIOLATION


async def test_high_watermarks_survive_a_restart(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    world.create_topic("t")
    await produce(world, b"a", b"b")
    await world.replica_manager.shutdown()
    world.log_manager.shutdown()
    checkpoint = (tmp_path / "replication-offset-checkpoint").read_text().splitlines()
    assert checkpoint == ["0", "1", "t 0 2"]


async def test_the_byte_limit_of_a_fetch_covers_all_partitions_but_the_first_batch(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    topic_id = world.create_topic("t", partitions=3)
    for number in range(3):
        entries = {TopicPartition("t", number): batch_of(b"x" * 100)}
        await world.replica_manager.append_records(timeout_ms=1, required_acks=1, origin=AppendOrigin.CLIENT, entries=entries)
    infos = [(TopicIdPartition(topic_id, "t", number), FetchPartition(topic_id, 0, 0, 1000)) for number in range(3)]
    results = await world.replica_manager.fetch_messages(params(max_bytes=10), infos)
    sizes = [len(data.records.to_bytes()) if data.records is not None else 0 for _, data in results]
    assert sizes[0] > 100 and sizes[1:] == [0, 0]


async def test_read_committed_stops_at_open_transactions_and_names_the_aborted(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    topic_id = world.create_topic("t")
    partition = world.partition("t")

    def append(batch: bytearray) -> None:
        partition.append_records_to_mirror_leader(batch, source_leader_epoch=0)

    def transactional(offset: int, producer_id: int) -> bytearray:
        return batch_of(
            b"x",
            base_offset=offset,
            partition_leader_epoch=0,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )

    append(transactional(0, 1))
    append(transactional(1, 2))
    abort = build_end_transaction_marker(
        ControlRecordType.ABORT,
        coordinator_epoch=0,
        producer_id=1,
        producer_epoch=0,
        timestamp=NOW_MS,
        base_offset=2,
        partition_leader_epoch=0,
    )
    append(abort)
    committed = FetchParams(-1, 0, 1, 1 << 20, FetchIsolation.TXN_COMMITTED)
    infos = [(TopicIdPartition(topic_id, "t", 0), FetchPartition(topic_id, 0, 0, 1 << 20))]
    data = (await world.replica_manager.fetch_messages(committed, infos))[0][1]
    assert (data.high_watermark, data.last_stable_offset) == (3, 1), "producer 2 is still open at 1"
    assert data.records is not None and len(data.records.to_bytes()) == len(transactional(0, 1))
    assert [(txn.producer_id, txn.first_offset) for txn in data.aborted_transactions or []] == [(1, 0)]


async def test_a_batch_that_does_not_fit_is_left_out_with_its_aborted_transactions(tmp_path: Path) -> None:
    """Kafka's LogReadResult is empty then; a partition that nothing is left for has an empty list."""
    world = BrokerWorld(str(tmp_path))
    topic_id = world.create_topic("t", partitions=3)
    for number in range(3):
        entries = {TopicPartition("t", number): batch_of(b"x" * 100)}
        await world.replica_manager.append_records(timeout_ms=1, required_acks=1, origin=AppendOrigin.CLIENT, entries=entries)
    limits = (1000, 50, 0)
    infos = [(TopicIdPartition(topic_id, "t", number), FetchPartition(topic_id, 0, 0, limit)) for number, limit in enumerate(limits)]
    results = await world.replica_manager.fetch_messages(FetchParams(-1, 0, 1, 1 << 20, FetchIsolation.TXN_COMMITTED), infos)
    assert [data.aborted_transactions for _, data in results] == [[], None, []]
    sizes = [0 if data.records is None else len(data.records.to_bytes()) for _, data in results]
    assert sizes[0] > 100 and sizes[1:] == [0, 0]
