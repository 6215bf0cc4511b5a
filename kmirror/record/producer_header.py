"""The header that a producer gives a batch, made anew for each sequence without touching the
records.

The records' bytes stay where they are: a request takes the 61 bytes of the new header and a view of
what follows it. Only the CRC is computed over both. So a batch that was fetched elsewhere is sent on
for the price of one CRC pass.

Of the old attributes only the codec is kept. A producer's batch has create times, no delete horizon
and no control bit; whether it is transactional is the producer's matter. With a delete horizon the
old base timestamp stays right, because the records' deltas are against it.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from kmirror.common.crc32c import crc32c
from kmirror.common.ports import Buffer
from kmirror.common.sentinels import NO_PARTITION_LEADER_EPOCH
from kmirror.record.record import invalid_record
from kmirror.record.record_batch import (
    COMPRESSION_MASK,
    CONTROL_FLAG,
    CURRENT_MAGIC,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    RECORD_BATCH_OVERHEAD,
    TRANSACTIONAL_FLAG,
    RecordBatch,
)

_UNSEALED: Final = struct.Struct(">qiibI")
"""What stands before the sealed part: base offset, length, leader epoch, magic, CRC."""
_SEALED: Final = struct.Struct(">hiqqqhii")
"""The header from the attributes on, which the CRC covers."""
_NOT_SENT: Final = CONTROL_FLAG | LOG_APPEND_TIME_FLAG


class BatchBody(NamedTuple):
    """What a batch is without its producer: the records' bytes and the fields that describe them.

    `payload` is compressed as `codec` says (attribute bits 0 to 2). Times are ms.
    """

    payload: Buffer
    codec: int
    base_timestamp: int
    max_timestamp: int
    record_count: int

    @property
    def size_in_bytes(self) -> int:
        """The whole batch, header included."""
        return RECORD_BATCH_OVERHEAD + len(self.payload)


def producer_header(body: BatchBody, producer_id: int, producer_epoch: int, base_sequence: int, transactional: bool) -> bytes:
    """Returns the 61 bytes that go before `body.payload`, with base offset 0 and the right CRC."""
    payload, codec, base_timestamp, max_timestamp, record_count = body
    sealed = _SEALED.pack(
        codec | TRANSACTIONAL_FLAG if transactional else codec,
        record_count - 1,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    length = len(payload) + RECORD_BATCH_OVERHEAD - LOG_OVERHEAD
    return _UNSEALED.pack(0, length, NO_PARTITION_LEADER_EPOCH, CURRENT_MAGIC, crc32c(payload, crc32c(sealed))) + sealed


def body_of(batch: RecordBatch) -> BatchBody:
    """Takes a batch from elsewhere as it is; the payload is a view of its bytes.

    INVALID_RECORD for a batch that a producer cannot send with its own header: a control batch, one
    without records, one whose offsets have gaps (compaction), or one with the broker's times
    (LogAppendTime), which would become other times. Gaps between the first and the last record that
    the header does not show are not seen here.
    """
    attributes, record_count = batch.attributes, batch.record_count
    if batch.magic == CURRENT_MAGIC and record_count > 0 and batch.last_offset_delta == record_count - 1 and not attributes & _NOT_SENT:
        payload = batch.memory[RECORD_BATCH_OVERHEAD:]
        return BatchBody(payload, attributes & COMPRESSION_MASK, batch.base_timestamp, batch.max_timestamp, record_count)
    if batch.magic != CURRENT_MAGIC:
        raise invalid_record(f"a batch of magic {batch.magic} cannot be sent as it is")
    if batch.is_control:
        raise invalid_record("a control batch cannot be sent by a producer")
    if record_count < 1 or batch.last_offset_delta != record_count - 1:
        raise invalid_record(f"a batch of {record_count} records and last offset delta {batch.last_offset_delta} has gaps")
    raise invalid_record("a batch with LogAppendTime cannot be sent as it is")
