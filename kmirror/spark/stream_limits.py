"""How much of the available log a trigger reads: `maxOffsetsPerTrigger` and `maxBytesPerTrigger`.

Each partition gets an equal share; what one does not need goes to the others
(`stream_positions.spread`). A share ends at the last batch boundary that it allows. So a share that
is smaller than a batch gives nothing. What is left over then goes, one batch each, to the
partitions that got nothing, those that waited longest first. If not even the first of these fits,
it is read all the same: a limit below the size of a batch must not stop the stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kmirror.common.topic_partition import TopicPartition
from kmirror.spark.stream_positions import spread


class Window(Protocol):
    """The batches from a partition's next offset to its visible end."""

    @property
    def size_bytes(self) -> int: ...

    def first_batch_end(self) -> int: ...

    def end_by_offsets(self, count: int) -> int: ...

    def end_by_bytes(self, size: int) -> int: ...

    def up_to(self, end: int) -> Window: ...


@dataclass(frozen=True)
class Backlog:
    """What a partition has for a trigger: offsets from `low` up to but not including `end`."""

    name: TopicPartition
    low: int
    end: int
    window: Window
    is_new_start: bool = False
    """Whether `low` is not where the last micro-batch ended, because something was lost."""


def admit(
    backlogs: Sequence[Backlog], *, max_offsets: int | None, max_bytes: int | None, waiting: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Returns where each partition's part of the micro-batch ends. `waiting` has for how many
    triggers each partition got nothing."""
    ends = {one.name: one.end for one in backlogs}
    some = [one for one in backlogs if one.low < one.end]
    left_offsets = _cut_offsets(some, max_offsets, ends)
    left_bytes = _cut_bytes(some, max_bytes, ends)
    starved = sorted((one for one in some if ends[one.name] == one.low), key=lambda one: -waiting.get(one.name, 0))
    takes_nothing = len(starved) == len(some)
    for one in starved:
        end = one.window.first_batch_end()
        offsets = end - one.low
        size = one.window.up_to(end).size_bytes if left_bytes is not None else 0
        if not takes_nothing and not (_fits(offsets, left_offsets) and _fits(size, left_bytes)):
            continue
        takes_nothing = False
        ends[one.name] = end
        left_offsets = None if left_offsets is None else left_offsets - offsets
        left_bytes = None if left_bytes is None else left_bytes - size
    return ends


def _fits(need: int, left: int | None) -> bool:
    return left is None or need <= left


def _cut_offsets(some: Sequence[Backlog], budget: int | None, ends: dict[TopicPartition, int]) -> int | None:
    """Sets `ends` and returns what is left of the budget."""
    if budget is None:
        return None
    for one, share in zip(some, spread(budget, [one.end - one.low for one in some])):
        ends[one.name] = one.window.end_by_offsets(share)
        budget -= ends[one.name] - one.low
    return budget


def _cut_bytes(some: Sequence[Backlog], budget: int | None, ends: dict[TopicPartition, int]) -> int | None:
    if budget is None:
        return None
    windows = [one.window.up_to(ends[one.name]) for one in some]
    needs = [window.size_bytes for window in windows]
    for one, window, need, share in zip(some, windows, needs, spread(budget, needs)):
        if share < need:
            ends[one.name] = window.end_by_bytes(share)
            need = window.up_to(ends[one.name]).size_bytes
        budget -= need
    return budget
