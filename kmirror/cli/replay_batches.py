"""Turns recorded batches into what a producer sends.

A producer's batch has offsets from 0 without gaps, the sender's id, epoch and sequence, CreateTime,
and no leader epoch. So for most recorded batches only the header is rewritten, and the CRC, because
it covers the producer's fields; the records keep their bytes and their compression. A batch is
rebuilt from its records only where brokers would refuse these bytes or change what they mean: the
cleaner removed some of its records, the broker had set the timestamps (LogAppendTime becomes
CreateTime, so that the timestamps stay), or the batch has a delete horizon.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from kmirror.common.errors import ApiException, Errors
from kmirror.common.ports import Buffer
from kmirror.common.sentinels import NO_PARTITION_LEADER_EPOCH
from kmirror.record.builder import assemble, build_batch
from kmirror.record.control_record import ControlRecordType
from kmirror.record.record import Record
from kmirror.record.record_batch import COMPRESSION_MASK, LOG_APPEND_TIME_FLAG, RECORD_BATCH_OVERHEAD, TRANSACTIONAL_FLAG, RecordBatch


@dataclass(frozen=True, slots=True)
class ReplayBatch:
    """Records that are sent as one batch, once their producer is known."""

    offset: int
    """The recorded offset of the first record."""
    next_offset: int
    """The recorded offset after the batch, where the recording continues."""
    producer_id: int
    """The recorded producer's id, -1 without a producer."""
    is_transactional: bool
    record_count: int
    max_timestamp: int
    base_timestamp: int
    codec: int
    payload: Buffer

    def encoded(self, producer_id: int, producer_epoch: int, base_sequence: int) -> bytearray:
        """Returns the batch as this producer sends it."""
        return assemble(
            self.payload,
            base_offset=0,
            partition_leader_epoch=NO_PARTITION_LEADER_EPOCH,
            attributes=self.codec | (TRANSACTIONAL_FLAG if self.is_transactional else 0),
            last_offset_delta=self.record_count - 1,
            base_timestamp=self.base_timestamp,
            max_timestamp=self.max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            record_count=self.record_count,
        )

    @property
    def size(self) -> int:
        """Bytes that go over the wire."""
        return RECORD_BATCH_OVERHEAD + len(self.payload)


def replay_batch(batch: RecordBatch, *, first_offset: int = 0) -> ReplayBatch | None:
    """Returns the records of a data batch from `first_offset` on.

    Returns None if the cleaner left none, or all lie below. Raises CORRUPT_MESSAGE or
    INVALID_RECORD where records must be read and cannot be.
    """
    if batch.record_count == 0 or batch.last_offset < first_offset:
        return None
    if batch.base_offset >= first_offset and _may_stay(batch):
        return _as_it_is(batch)
    kept = [record for record in batch.records() if record.offset >= first_offset]
    return _as_it_is(RecordBatch(_rebuilt(batch, kept)), like=batch, offset=kept[0].offset) if kept else None


def _may_stay(batch: RecordBatch) -> bool:
    has_gaps = batch.last_offset_delta + 1 != batch.record_count
    return not has_gaps and not batch.attributes & LOG_APPEND_TIME_FLAG and not batch.has_delete_horizon


def _as_it_is(batch: RecordBatch, *, like: RecordBatch | None = None, offset: int | None = None) -> ReplayBatch:
    recorded = like or batch
    return ReplayBatch(
        recorded.base_offset if offset is None else offset,
        recorded.next_offset,
        recorded.producer_id,
        recorded.is_transactional,
        batch.record_count,
        batch.max_timestamp,
        batch.base_timestamp,
        batch.attributes & COMPRESSION_MASK,
        batch.memory[RECORD_BATCH_OVERHEAD:],
    )


def _rebuilt(batch: RecordBatch, records: Iterable[Record]) -> bytearray:
    return build_batch(
        [msgspec.structs.replace(record, offset=index) for index, record in enumerate(records)], compression=batch.compression
    )


def control_type(batch: RecordBatch) -> ControlRecordType:
    """Returns the type of a control batch; UNKNOWN for one that the cleaner emptied."""
    try:
        record = next(batch.records(), None)
        return ControlRecordType.UNKNOWN if record is None else ControlRecordType.parse(record.key)
    except ApiException as error:
        if error.error is Errors.INVALID_RECORD:
            return ControlRecordType.UNKNOWN
        raise
