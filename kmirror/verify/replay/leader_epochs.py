"""Leader epochs: the log as runs of batches of one epoch; merging concatenates them.

`leader-epoch-checkpoint` may know more than the log: a leader notes its epoch before its first
append, so an epoch may have no batch. It may also know less: what lies below the log start is
forgotten, and the epoch that contains the log start then begins there. Otherwise both must agree.
No broker writes an epoch that decreases: recovery would skip it, and an append would have removed
what it contradicts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kmirror.storage.leader_epoch_checkpoint_file import EpochEntry
from kmirror.verify.header_scan import HeaderBlock


class EpochRun(NamedTuple):
    """Consecutive batches of one leader epoch; -1 for batches that never had a leader."""

    epoch: int
    first_offset: int
    next_offset: int


Runs = tuple[EpochRun, ...]


class EpochProblem(NamedTuple):
    """A contradiction between the log and the checkpoint, or within one of them."""

    kind: str
    first_offset: int
    last_offset: int
    text: str


def of_block(block: HeaderBlock) -> Runs:
    epochs, base = block.headers["partition_leader_epoch"], block.headers["base_offset"]
    ends = base + block.headers["last_offset_delta"] + 1
    starts = [0, *(np.flatnonzero(np.diff(epochs)) + 1).tolist()]
    return tuple(
        EpochRun(int(epochs[start]), int(base[start]), int(ends[stop - 1])) for start, stop in zip(starts, [*starts[1:], len(epochs)])
    )


def merge(left: Runs, right: Runs) -> Runs:
    """Returns the runs of both; `()` is the identity."""
    if left and right and left[-1].epoch == right[0].epoch:
        joined = EpochRun(left[-1].epoch, left[-1].first_offset, right[0].next_offset)
        return (*left[:-1], joined, *right[1:])
    return left + right


def backward_runs(runs: Runs) -> Iterator[EpochProblem]:
    """Yields the runs whose epoch is below one that came before."""
    highest = -1
    for run in runs:
        if 0 <= run.epoch < highest:
            yield EpochProblem("epoch", run.first_offset, run.next_offset - 1, f"leader epoch {run.epoch} behind epoch {highest}")
        highest = max(highest, run.epoch)


def compare(runs: Runs, entries: list[EpochEntry], *, log_start_offset: int | None, at_rest: bool) -> Iterator[EpochProblem]:
    """Yields the contradictions between the checkpoint, `entries`, and the log's `runs`.

    `log_start_offset` is None if it is not known. `at_rest` means that no broker has the log open,
    so nothing is newer than it.
    """
    for entry, following in zip(entries, entries[1:]):
        if following.epoch <= entry.epoch or following.start_offset <= entry.start_offset:
            text = f"epoch {following.epoch} at {following.start_offset} behind epoch {entry.epoch} at {entry.start_offset}"
            yield EpochProblem("order", following.start_offset, following.start_offset, text)
    rising = _rising(runs)
    yield from _claims(rising, entries, log_start_offset, at_rest=at_rest)
    claimed = {entry.epoch for entry in entries}
    floor = entries[0].start_offset if entries else None
    for run in rising:
        is_forgotten = (floor is not None and run.next_offset <= floor) or (
            log_start_offset is not None and run.next_offset <= log_start_offset
        )
        if run.epoch not in claimed and not is_forgotten:
            text = f"epoch {run.epoch} begins at offset {run.first_offset} and is not in the file"
            yield EpochProblem("missing", run.first_offset, run.next_offset - 1, text)


def _rising(runs: Runs) -> list[EpochRun]:
    """Returns the runs that recovery takes in: those with an epoch above all before."""
    rising: list[EpochRun] = []
    for run in runs:
        if run.epoch >= 0 and (not rising or run.epoch > rising[-1].epoch):
            rising.append(run)
        elif rising:
            rising[-1] = rising[-1]._replace(next_offset=run.next_offset)
    return rising


def _claims(runs: list[EpochRun], entries: list[EpochEntry], log_start_offset: int | None, *, at_rest: bool) -> Iterator[EpochProblem]:
    end = runs[-1].next_offset if runs else None
    for number, (epoch, start) in enumerate(entries):
        below = [run for run in runs if run.epoch < epoch]
        own = next((run for run in runs if run.epoch == epoch), None)
        above = next((run for run in runs if run.epoch > epoch), None)
        limit = own or above
        earliest = below[-1].next_offset if below else 0
        is_first = number == 0 and own is not None and own.first_offset < start <= own.next_offset
        if is_first and log_start_offset in (None, start):
            continue  # the log start lies in this epoch
        if number == 0 and own is not None and not at_rest and start > max(own.first_offset, log_start_offset or 0):
            continue  # the log start has moved since its checkpoint was written
        if start < earliest:
            text = f"epoch {epoch} is said to begin at {start}; epoch {below[-1].epoch} goes on up to {earliest - 1}"
            yield EpochProblem("differs", start, earliest - 1, text)
        elif limit is not None and start > limit.first_offset and not (number == 0 and own is None):
            text = f"epoch {epoch} is said to begin at {start}; epoch {limit.epoch} begins at {limit.first_offset}"
            yield EpochProblem("differs", limit.first_offset, start, text)
        elif limit is None and at_rest and end is not None and start > end:
            yield EpochProblem("beyond_end", start, start, f"epoch {epoch} is said to begin at {start}; the log ends at {end}")
