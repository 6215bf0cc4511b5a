"""Which transactions a log leaves open, and where cutting leaves none: naive on purpose, to compare
with.
"""

from __future__ import annotations

from kmirror.sim.events import Batch


def open_transactions(batches: list[Batch]) -> dict[int, int]:
    """Producer id -> first offset of its open transaction."""
    opened: dict[int, int] = {}
    for batch in batches:
        if batch.reset_source is not None:
            opened.clear()
        elif batch.is_transactional and batch.is_control:
            opened.pop(batch.producer_id, None)
        elif batch.is_transactional:
            opened.setdefault(batch.producer_id, batch.base_offset)
    return opened


def fixpoint(batches: list[Batch]) -> list[Batch]:
    """What is left when everything from the first open transaction on is cut, again and again."""
    left = list(batches)
    while opened := open_transactions(left):
        cut = min(opened.values())
        left = [batch for batch in left if batch.base_offset < cut]
    return left
