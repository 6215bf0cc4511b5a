"""A coordinator's records as batches of its log."""

from __future__ import annotations

from typing import NamedTuple

from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord
from kmirror.record.builder import build_batch
from kmirror.record.record import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Record

RECORD_OVERHEAD_BYTES = 30


class ProducerIdAndEpoch(NamedTuple):
    """The producer in whose transaction records are written; (-1, -1) outside of transactions."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


NO_PRODUCER = ProducerIdAndEpoch()


def batch_of(records: list[CoordinatorRecord], now_ms: int, producer: ProducerIdAndEpoch) -> bytearray:
    """Returns one batch, which is transactional unless `producer` is NO_PRODUCER."""
    return build_batch(
        [Record(index, now_ms, record.key, record.value, []) for index, record in enumerate(records)],
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        is_transactional=producer is not NO_PRODUCER,
    )


def split_records(records: list[CoordinatorRecord], limit: int | None) -> list[list[CoordinatorRecord]]:
    """Returns the records in runs of at most `limit` bytes of keys and values, with at least one
    record each; without a limit, all in one run."""
    if limit is None:
        return [records] if records else []
    runs: list[list[CoordinatorRecord]] = []
    size = 0
    for record in records:
        record_size = len(record.key) + len(record.value or b"") + RECORD_OVERHEAD_BYTES
        if not runs or size + record_size > limit:
            runs.append([])
            size = 0
        runs[-1].append(record)
        size += record_size
    return runs
