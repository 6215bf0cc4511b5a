"""Which data of a log belongs to aborted or open transactions: ranges of offsets by producer, and
the range that a given batch lies in."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

from kmirror.record.record_batch import TRANSACTIONAL_FLAG, RecordBatch

NEVER: Final = (1 << 63) - 1


class TransactionSpan(NamedTuple):
    """Data of one producer from `first_offset` up to `end_offset` is not committed."""

    producer_id: int
    first_offset: int
    end_offset: int
    """The offset of the ABORT; NEVER for an open transaction."""


class TransactionSpans:
    """The spans of one log. A producer has one transaction at a time, so its spans do not
    overlap."""

    def __init__(self, spans: Iterable[TransactionSpan] = ()) -> None:
        self._of_producer: dict[int, list[TransactionSpan]] = {}
        for span in sorted(spans):
            self._of_producer.setdefault(span.producer_id, []).append(span)

    def of(self, batch: RecordBatch) -> TransactionSpan | None:
        """Returns the span whose data the batch is; None for data that was committed, or was in no
        transaction."""
        spans = self._of_producer.get(batch.producer_id)
        if not spans or not batch.attributes & TRANSACTIONAL_FLAG:
            return None
        number = bisect_right(spans, batch.base_offset, key=_first_offset) - 1
        return spans[number] if number >= 0 and batch.base_offset < spans[number].end_offset else None


def _first_offset(span: TransactionSpan) -> int:
    return span.first_offset
