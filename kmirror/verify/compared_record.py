"""A record in the form in which two logs compare it: its content and, separately, what its batch
says of its producer."""

from __future__ import annotations

from typing import Final, NamedTuple

from kmirror.common.varint import read_varint, read_varlong
from kmirror.record.record_batch import CONTROL_FLAG, TRANSACTIONAL_FLAG, RecordBatch


class ComparedRecord(NamedTuple):
    """The compared fields are `content` (timestamp, key length, bytes from the key on) and
    `producer`."""

    offset: int
    content: tuple[int, int, bytes]
    is_tombstone: bool
    producer: tuple[int, int, int, int]
    """Id, epoch, sequence, and bits 3 to 5 of the attributes."""

    @property
    def key(self) -> bytes | None:
        _, length, body = self.content
        return body[:length] if length >= 0 else None

    @property
    def timestamp(self) -> int:
        return self.content[0]

    @property
    def is_transactional(self) -> bool:
        return bool(self.producer[3] & TRANSACTIONAL_FLAG >> 3)

    @property
    def is_control(self) -> bool:
        return bool(self.producer[3] & CONTROL_FLAG >> 3)


FEW_RECORDS: Final = 8
"""For so few records, columns cost more than a loop."""


def records_of(batch: RecordBatch) -> list[ComparedRecord]:
    """Returns all records of a batch, in order. ApiException if it cannot be decoded."""
    if batch.record_count <= FEW_RECORDS:
        return _few_records(batch)
    from kmirror.record.columns import decode_columns  # imports numpy, which equal logs do not need

    columns = decode_columns([batch])
    body = columns.body
    fields = batch.attributes >> 3 & 7
    ends = (columns.record_position + columns.record_length).tolist()
    return [
        ComparedRecord(
            offset,
            (timestamp, key_length, bytes(body[start:end])),
            value_length < 0,
            (batch.producer_id, batch.producer_epoch, sequence, fields),
        )
        for offset, timestamp, key_length, start, end, value_length, sequence in zip(
            columns.offset.tolist(),
            columns.timestamp.tolist(),
            columns.key_length.tolist(),
            columns.key_position.tolist(),
            ends,
            columns.value_length.tolist(),
            columns.sequence.tolist(),
        )
    ]


def _few_records(batch: RecordBatch) -> list[ComparedRecord]:
    """Returns the same records, one by one: the strict reader decodes them, and their bytes from
    the key on are looked up."""
    records = list(batch.records())
    payload = batch.payload() if records else b""
    fields = batch.attributes >> 3 & 7
    found = []
    position = 0
    for record in records:
        length, start = read_varint(payload, position)
        position = start + length
        _, cursor = read_varlong(payload, start + 1)
        delta, cursor = read_varint(payload, cursor)
        _, key_start = read_varint(payload, cursor)
        sequence = batch.base_sequence + delta & 0x7FFFFFFF if batch.base_sequence >= 0 else -1
        key_length = -1 if record.key is None else len(record.key)
        content = (record.timestamp, key_length, bytes(payload[key_start:position]))
        producer = (batch.producer_id, batch.producer_epoch, sequence, fields)
        found.append(ComparedRecord(record.offset, content, record.value is None, producer))
    return found
