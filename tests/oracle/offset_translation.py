"""Offset translation judged the obvious way: remember where every record went.

A copy is (upstream offset, downstream offset), in the order of the target's log. A group whose
offset at the source is `o` has yet to read every record from `o` on. After it moved to the target
at offset `d` it reads every copy from `d` on. It misses a record whose last copy lies before `d`.
A copier that went back copies everything behind its newest record once more, so those copies are
still to come.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Copies = Sequence[tuple[int, int]]


def skipped(copies: Copies, upstream_offset: int, translated: int) -> list[int]:
    """Returns the source's offsets of the records that a group would miss."""
    newest = copies[-1][0]
    last_copy = {upstream: downstream for upstream, downstream in copies if upstream <= newest}
    return [upstream for upstream, downstream in last_copy.items() if upstream >= upstream_offset and downstream < translated]


def read_again(copies: Copies, upstream_offset: int, translated: int) -> int:
    """Returns how many records the group had read already and reads again."""
    return sum(1 for upstream, downstream in copies if upstream < upstream_offset and downstream >= translated)


def invariant_violations(upstream: Sequence[int], same: Iterable[tuple[int, int]]) -> list[str]:
    """Checks B and C for all pairs of entries, not only for neighbours.

    `same` are the pairs of entries that hold one sync.
    """
    equal = set(same)
    found = []
    for i in range(len(upstream)):
        for j in range(i + 1, len(upstream)):
            if (i, j) in equal:
                continue
            if upstream[i] > upstream[j] + 2**j - 2**i:
                found.append(f"B: entries {i} and {j}")
            if upstream[i] < upstream[j] + 2 ** max(i - 2, 0):
                found.append(f"C: entries {i} and {j}")
    return found
