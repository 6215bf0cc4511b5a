"""The places that `kafka-mirrors --verify --sample` compares, and what it believes of holes there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kmirror.record.control_record import ControlRecordType
from kmirror.verify.compared_log import ComparedLog
from kmirror.verify.marker_evidence import MARKERS

SAMPLE_SPAN: Final = 1_000
"""Number of offsets compared at each place of a sample; at least one batch."""


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets to compare: from `start` up to the batch that holds `end - 1`."""

    start: int
    end: int


class BelievedHoles:
    """Evidence for a sample of a compacted topic.

    Assumes that a cleaner removed whatever a log lacks below its end, also at the end of the place.
    """

    decides = True
    undecided = None

    def __init__(self, source: ComparedLog, source_end: int, mirrored_end: int) -> None:
        self._source = source
        self._source_end = source_end
        self._mirrored_end = mirrored_end

    def may_lack(self, log: ComparedLog, offset: int, key: bytes | None, *, is_tombstone: bool, transaction: int | None) -> bool:
        return self._has_passed(log, offset)

    def is_out_of_reach(self, log: ComparedLog, offset: int, key: bytes | None, *, is_tombstone: bool, transaction: int | None) -> bool:
        """Not looked at."""
        return False

    def may_lack_control(self, log: ComparedLog, offset: int, key: bytes, producer_id: int) -> bool:
        return self._has_passed(log, offset) and ControlRecordType.parse(key) in MARKERS

    def is_lost(self, log: ComparedLog, offset: int, key: bytes | None, *, is_tombstone: bool, transaction: int | None) -> bool:
        return False  # a sample does not tell

    def _has_passed(self, log: ComparedLog, offset: int) -> bool:
        return offset < (self._source_end if log is self._source else self._mirrored_end)


def sample_of(start: int, end: int, count: int) -> list[Range]:
    """Returns `count` evenly spread places from the first to the last offset.

    Returns the whole range when they would overlap.
    """
    span = SAMPLE_SPAN
    if end - start <= count * span:
        return [Range(start, end)]
    if count == 1:
        return [Range(end - span, end)]
    step = (end - span - start) / (count - 1)
    return [Range(start + round(index * step), start + round(index * step) + span) for index in range(count)]
