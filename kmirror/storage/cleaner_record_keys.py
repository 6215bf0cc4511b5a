"""What the cleaner reads of every record: offset, key, and whether there is a value.

Batches of many records are decoded into columns (in a tenth of the time), small ones record by
record.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kmirror.common.ports import Buffer
from kmirror.record.record_batch import RecordBatch

MIN_RECORDS_FOR_COLUMNS: Final = 24


class RecordKey(NamedTuple):
    """One record, as the cleaner sees it."""

    offset: int
    key: Buffer | None
    has_value: bool


def record_keys(batch: RecordBatch) -> list[RecordKey]:
    """One entry for each record, in order; INVALID_RECORD or CORRUPT_MESSAGE if the batch is not
    what its header claims.
    """
    if batch.record_count < MIN_RECORDS_FOR_COLUMNS:
        return [RecordKey(record.offset, record.key, record.value is not None) for record in batch.records()]
    from kmirror.record.columns import decode_columns  # imports numpy, a quarter of a broker's start; many brokers never clean

    columns = decode_columns([batch])
    body = columns.body
    rows = zip(
        columns.offset.tolist(), columns.key_position.tolist(), columns.key_length.tolist(), columns.value_length.tolist(), strict=True
    )
    return [
        RecordKey(offset, body[position : position + length] if length >= 0 else None, value_length >= 0)
        for offset, position, length, value_length in rows
    ]
