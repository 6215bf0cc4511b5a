"""What a compacted log must hold, said as plainly as possible: the last record of each key, and
tombstones for a while.

A naive second implementation for tests: lists and dicts, quadratic, no batches, segments or files.
"""

from __future__ import annotations

from typing import NamedTuple


class ModelRecord(NamedTuple):
    offset: int
    key: bytes
    value: bytes | None


def last_offsets(records: list[ModelRecord], end_offset: int) -> dict[bytes, int]:
    """Key -> offset of its last record below `end_offset`."""
    return {record.key: record.offset for record in records if record.offset < end_offset}


def compacted(records: list[ModelRecord], *, end_offset: int, keep_tombstones: bool) -> list[ModelRecord]:
    """The records that a pass which cleaned everything below `end_offset` leaves."""
    last = last_offsets(records, end_offset)
    return [
        record
        for record in records
        if record.offset >= end_offset or (last[record.key] == record.offset and (record.value is not None or keep_tombstones))
    ]


def table(records: list[ModelRecord]) -> dict[bytes, bytes]:
    """What a reader of the whole log ends up with: what compaction must never change."""
    result: dict[bytes, bytes] = {}
    for record in records:
        if record.value is None:
            result.pop(record.key, None)
        else:
            result[record.key] = record.value
    return result
