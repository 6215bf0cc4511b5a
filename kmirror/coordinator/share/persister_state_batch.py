"""Ranges of offsets with their delivery state, and how older and newer ones are merged (Kafka's
`PersisterStateBatchCombiner`).

If two ranges overlap, the one with the higher delivery count wins in the common offsets, and at the
same count the one with the higher state: a state only goes forward. The rest of the other one
stays. Ranges that touch or overlap and have the same state become one. Ranges before the start
offset are dropped or cut.

The list is swept from its lowest range on, two neighbours at a time, and the result of a pair goes
back into the sweep. Two equal neighbours can stay separate if another range was between them when
the first left the sweep. Kafka's sweep does the same, and tests compare the bytes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import NamedTuple

NO_START_OFFSET = -1


class PersisterStateBatch(NamedTuple):
    """Offsets from first to last, both included. Ranges are ordered by their fields, and the sweep
    uses that order."""

    first_offset: int
    last_offset: int
    delivery_count: int
    delivery_state: int

    @property
    def delivery(self) -> tuple[int, int]:
        return self.delivery_count, self.delivery_state

    def within(self, first_offset: int, last_offset: int) -> list[PersisterStateBatch]:
        """Returns the part between the two offsets, or nothing."""
        first, last = max(first_offset, self.first_offset), min(last_offset, self.last_offset)
        return [self._replace(first_offset=first, last_offset=last)] if first <= last else []


def combine_state_batches(
    so_far: Iterable[PersisterStateBatch], newer: Iterable[PersisterStateBatch], start_offset: int
) -> list[PersisterStateBatch]:
    """Returns both lists as one, sorted, without overlaps, from `start_offset` on (-1: all of
    them)."""
    batches = _from_offset([*so_far, *newer], start_offset)
    if len(batches) < 2:
        return batches
    waiting = sorted(set(batches))
    combined: list[PersisterStateBatch] = []
    lower = heapq.heappop(waiting)
    while waiting:
        upper = heapq.heappop(waiting)
        touches = upper.first_offset == lower.last_offset + 1 and upper.delivery == lower.delivery
        if upper.first_offset <= lower.last_offset or touches:
            for batch in _merged(lower, upper):
                heapq.heappush(waiting, batch)
            lower = heapq.heappop(waiting)
        else:
            combined.append(lower)
            lower = upper
    return [*combined, lower]


def _from_offset(batches: list[PersisterStateBatch], start_offset: int) -> list[PersisterStateBatch]:
    if start_offset == NO_START_OFFSET:
        return batches
    return [part for batch in batches for part in batch.within(start_offset, batch.last_offset)]


def _merged(lower: PersisterStateBatch, upper: PersisterStateBatch) -> list[PersisterStateBatch]:
    """Returns the merge of two ranges that touch; `lower` comes first in the sweep."""
    if lower.delivery == upper.delivery:
        return [lower._replace(last_offset=max(lower.last_offset, upper.last_offset))]
    if upper.delivery < lower.delivery:
        return [lower, *upper.within(lower.last_offset + 1, upper.last_offset)]
    head = lower.within(lower.first_offset, upper.first_offset - 1)
    tail = lower.within(upper.last_offset + 1, lower.last_offset)
    return [*head, upper, *tail]
