"""Which transactions a log leaves open, and where a cut leaves none open. The code is naive on
purpose, since other code is compared with it.
"""

from __future__ import annotations

from kmirror.sim.events import Batch


def open_transactions(batches: list[Batch]) -> dict[int, int]:
    """Returns producer id -> first offset of its open transaction."""
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
    """Returns what is left when everything from the first open transaction on is cut, again and
    again.
    """
    left = list(batches)
    while opened := open_transactions(left):
        cut = min(opened.values())
        left = [batch for batch in left if batch.base_offset < cut]
    return left
