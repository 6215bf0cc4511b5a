"""A batch's records under offsets without gaps, for a log of its own (MirrorMaker): what follows a
record's offset is copied as it is.

    length | attributes | timestamp delta | offset delta | key, value, headers
     new         0        kept, or 0          0, 1, 2 ...        the same bytes

Timestamp deltas stay if the new batch keeps the base timestamp. With LogAppendTime all records have
the batch's time, so they become 0. Only three varints of a record are looked at, and its key, value
and headers are not taken apart: who writes the batch into a log validates them, as ever.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from kmirror.common.varint import VarintError, encode_varint, read_varint, read_varlong
from kmirror.record.builder import assemble
from kmirror.record.compression import CompressionType, compress
from kmirror.record.record import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, invalid_record
from kmirror.record.record_batch import RecordBatch, TimestampType

NO_LEADER_EPOCH: Final = -1
_varint = lru_cache(maxsize=1 << 15)(encode_varint)


class Renumbered(NamedTuple):
    """A batch at offset 0, and the offsets that its records had."""

    data: bytearray
    offsets: list[int]


def renumbered(batch: RecordBatch, position: int, codec: CompressionType, level: int | None = None) -> Renumbered | None:
    """Returns the records of `batch` from offset `position` on, without producer; None if one of
    them has no time.

    INVALID_RECORD or CORRUPT_MESSAGE if the bytes are not what the header claims.
    """
    is_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    found = _records(batch, position, has_times=not is_append_time)
    if found is None or batch.max_timestamp < 0 or (batch.base_timestamp < 0 and not is_append_time):
        return None
    pieces, offsets = found
    data = assemble(
        compress(codec, b"".join(pieces), level=level),
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


def _records(batch: RecordBatch, position: int, *, has_times: bool) -> tuple[list[bytes], list[int]] | None:
    """Returns the pieces of the new payload, and the offsets that the records had; None for a record
    without a time.
    """
    payload, base_offset, base_timestamp = bytes(batch.payload()), batch.base_offset, batch.base_timestamp
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
