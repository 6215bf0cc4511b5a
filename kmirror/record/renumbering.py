"""A batch's records under offsets without gaps, for a log of its own (MirrorMaker): what follows a
record's offset is copied as it is.

    length | attributes | timestamp delta | offset delta | key, value, headers
     new         0        kept, or 0          0, 1, 2 ...        the same bytes

Timestamp deltas stay if the new batch keeps the base timestamp. With LogAppendTime all records have
the batch's time, so they become 0. Only three varints of a record are looked at, and its key, value
and headers are not taken apart: who writes the batch into a log validates them, as ever.

If all records of a batch are wanted and have no gaps, their offset deltas are right already, and the
payload stays in its place: at most the timestamp deltas are set to 0 in it. If even those are 0 and
the codec stays, the compressed bytes are the new batch's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from kmirror.common.ports import Buffer
from kmirror.common.varint import VarintError, encode_varint, read_varint, read_varlong
from kmirror.record.builder import assemble
from kmirror.record.compression import CompressionType, compress
from kmirror.record.record import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, invalid_record
from kmirror.record.record_batch import RECORD_BATCH_OVERHEAD, RecordBatch, TimestampType

NO_LEADER_EPOCH: Final = -1
_varint = lru_cache(maxsize=1 << 15)(encode_varint)


class Renumbered(NamedTuple):
    """A batch at offset 0, and the offsets that its records had."""

    data: bytearray
    offsets: Sequence[int]


def renumbered(batch: RecordBatch, position: int, codec: CompressionType, level: int | None = None) -> Renumbered | None:
    """Returns the records of `batch` from offset `position` on, without producer; None if one of
    them has no time.

    INVALID_RECORD or CORRUPT_MESSAGE if the bytes are not what the header claims.
    """
    is_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    if batch.max_timestamp < 0 or (batch.base_timestamp < 0 and not is_append_time):
        return None
    payload = batch.payload()
    compressed: Buffer | None = None
    offsets: Sequence[int] = ()
    if batch.base_offset >= position and batch.last_offset_delta + 1 == batch.record_count:
        compressed = _in_place(batch, payload, codec, level, clears_times=is_append_time)
        offsets = range(batch.base_offset, batch.last_offset + 1)
    if compressed is None:
        found = _records(batch, bytes(payload), position, has_times=not is_append_time)
        if found is None:
            return None
        pieces, offsets = found
        compressed = compress(codec, b"".join(pieces), level=level)
    data = assemble(
        compressed,
        base_offset=0,
        partition_leader_epoch=NO_LEADER_EPOCH,
        attributes=int(codec),
        last_offset_delta=len(offsets) - 1,
        base_timestamp=batch.max_timestamp if is_append_time else batch.base_timestamp,
        max_timestamp=batch.max_timestamp,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=len(offsets),
    )
    return Renumbered(data, offsets)


def _in_place(batch: RecordBatch, payload: Buffer, codec: CompressionType, level: int | None, *, clears_times: bool) -> Buffer | None:
    """The compressed records of a batch that keeps them all; None if they must be walked one by one."""
    changed = bytearray(payload)
    if not _is_kept(changed, batch.record_count, clears_times=clears_times):
        return None
    if codec is batch.compression and changed == payload:
        return batch.memory[RECORD_BATCH_OVERHEAD:]
    return compress(codec, changed, level=level)


def _is_kept(payload: bytearray, record_count: int, *, clears_times: bool) -> bool:
    """Whether records can stay where they are. Offset deltas must be 0, 1, 2 ...; a timestamp delta
    must not be negative, and must be of one byte if it is to become 0. Longer lengths than two bytes
    are left to the walk.
    """
    start = 0
    try:
        for index in range(record_count):
            length, begin = payload[start], start + 1
            if length >= 0x80:
                if (high := payload[begin]) >= 0x80:
                    return False
                length, begin = length + (high << 7) - 0x80, begin + 1
            at = begin + 2
            if delta := payload[begin + 1]:
                if delta & 1 and not clears_times:
                    return False
                if delta >= 0x80:
                    if clears_times:
                        return False
                    while payload[at] >= 0x80:
                        at += 1
                    at += 1
                elif clears_times:
                    payload[begin + 1] = 0
            start = begin + (length >> 1)
            if length & 1 or at >= start or not payload.startswith(_varint(index), at):
                return False
    except IndexError:
        return False
    return start == len(payload)


def _records(batch: RecordBatch, payload: bytes, position: int, *, has_times: bool) -> tuple[list[bytes], list[int]] | None:
    """Returns the pieces of the new payload, and the offsets that the records had; None for a record
    without a time.
    """
    base_offset, base_timestamp = batch.base_offset, batch.base_timestamp
    pieces: list[bytes] = []
    offsets: list[int] = []
    add, no_time = pieces.append, b"\0"
    start, count = 0, 0
    try:
        while start < len(payload):
            count += 1
            length, begin = read_varint(payload, start)
            start = begin + length
            at = begin + 1
            while payload[at] >= 0x80:
                at += 1
            at += 1
            delta, rest = read_varint(payload, at)
            if length < 0 or rest > start or start > len(payload):
                raise invalid_record("Found invalid record structure")
            if base_offset + delta < position:
                continue
            if has_times and payload[begin + 1] & 1 and base_timestamp + read_varlong(payload, begin + 1)[0] < 0:
                return None
            head = (payload[begin + 1 : at] if has_times else no_time) + _varint(len(offsets))
            add(_varint(1 + len(head) + start - rest) + no_time + head)
            add(payload[rest:start])
            offsets.append(base_offset + delta)
    except (VarintError, IndexError) as error:
        raise invalid_record("Found invalid record structure") from error
    if count != batch.record_count:
        raise invalid_record(f"Found {count} records in a batch whose header claims {batch.record_count}")
    return pieces, offsets
