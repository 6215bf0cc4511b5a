"""Reads a coordinator partition's log from its start to its end, and replays it into a shard.

An empty read before the log's end is an error, because a coordinator must not serve with a part of
its state. (Kafka's loader takes an empty read for the end of the log.)
"""

from __future__ import annotations

from collections.abc import Callable

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord, CoordinatorShard
from kmirror.coordinator.common.partition_log import PartitionLog
from kmirror.record.control_record import ControlRecordType
from kmirror.record.record_batch import RecordBatch, iter_batches
from kmirror.runtime.api import Runtime

LOAD_BUFFER_SIZE_BYTES = 5 * 1024 * 1024
RECORDS_A_TURN = 1_000
"""A read holds tens of thousands of records; replaying them all in one turn would hold up
everything else on the broker."""


async def replay_log(
    runtime: Runtime, log: PartitionLog, topic_partition: TopicPartition, shard: CoordinatorShard, is_wanted: Callable[[], bool]
) -> None:
    """Replays the log while `is_wanted`; KAFKA_STORAGE_ERROR if it cannot be read to its end."""
    offset = log.log_start_offset(topic_partition)
    while is_wanted() and offset < log.log_end_offset(topic_partition):
        read = log.read(topic_partition, offset, LOAD_BUFFER_SIZE_BYTES)
        next_offset = offset
        replayed = 0
        for batch in iter_batches(read):
            if replayed >= RECORDS_A_TURN:
                replayed = 0
                await runtime.sleep_ms(0)
                if not is_wanted():
                    return
            batch.ensure_valid()
            replay_batch(shard, batch, offset)
            replayed += batch.record_count
            next_offset = batch.last_offset + 1
        if next_offset == offset:
            end_offset = log.log_end_offset(topic_partition)
            raise ApiException(
                Errors.KAFKA_STORAGE_ERROR,
                f"nothing could be read at offset {offset} of {topic_partition}, which ends at {end_offset}",
            )
        offset = next_offset
        await runtime.sleep_ms(0)


def replay_batch(shard: CoordinatorShard, batch: RecordBatch, from_offset: int) -> None:
    """Replays the records of `batch` from `from_offset` on; a control batch ends its producer's
    transaction."""
    if batch.is_control:
        for record in batch.records():
            kind = ControlRecordType.parse(record.key)
            if kind in (ControlRecordType.COMMIT, ControlRecordType.ABORT):
                shard.replay_end_transaction_marker(
                    producer_id=batch.producer_id,
                    producer_epoch=batch.producer_epoch,
                    committed=kind is ControlRecordType.COMMIT,
                )
        return
    producer_id = batch.producer_id if batch.is_transactional else -1
    producer_epoch = batch.producer_epoch if batch.is_transactional else -1
    for record in batch.records():
        if record.offset >= from_offset:
            key = b"" if record.key is None else bytes(record.key)
            value = None if record.value is None else bytes(record.value)
            shard.replay(record.offset, CoordinatorRecord(key, value), producer_id=producer_id, producer_epoch=producer_epoch)
