"""Producers and transactions of a run of batches: the partial, and how two consecutive ones merge.

What a broker keeps of a producer is a fold over its batches from the left
(`storage.producer_state_manager`). Four things make it a monoid:

* *States* are what the run alone leaves: the last epoch, its last five batches, the last marker's
  coordinator epoch. If the epoch changed within the run, earlier batches are forgotten, whatever
  they were; otherwise they go before the run's own.
* *Fronts* are what a producer does up to its first marker. Its transaction may have begun left of
  the run, so a merge must know where the run's part of it begins and which marker ends it. After
  the first marker, a producer's transactions lie within the run and are complete.
* *Heads* are a producer's first data, which must go on from the sequence where the run before
  ended. A batch that does not is a jump.
* A MIRROR_PID_RESET (KIP-1279) forgets what is left of it: states begin anew, and open transactions
  end there without a marker. It closes all fronts.

`.txnindex` keeps the last stable offset at an ABORT. It is the first offset of the oldest
transaction of another producer that is open there, otherwise the offset after the marker.
Transactions that began within the run are known at once. Those that are open on the left began
lower than all of these, and are taken in when the left side is merged.

Committed transactions are counted, aborted ones kept. So a partial has the size of its producers
and of its `.txnindex`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kmirror.storage.producer_state_entry import NUM_BATCHES_TO_RETAIN, BatchMetadata
from kmirror.verify.replay.findings import MAX_EXAMPLES

MAX_SEQUENCE: Final = 0x7FFFFFFF
"""0 follows it."""


class OpenRun(NamedTuple):
    """The data of one transaction."""

    first_offset: int
    first_timestamp: int
    last_timestamp: int
    batches: int
    producer_epoch: int


class Marker(NamedTuple):
    """The end of a transaction."""

    offset: int
    is_abort: bool
    producer_epoch: int
    coordinator_epoch: int
    timestamp: int
    last_stable_offset: int
    """The value at an ABORT, as far as the run knows; -1 at a COMMIT, where it is not needed."""


class ReplayedAbort(NamedTuple):
    """A transaction from its first data to its ABORT: one entry of `.txnindex`."""

    producer_id: int
    run: OpenRun
    marker: Marker


class ForgottenTransaction(NamedTuple):
    """A transaction that was open when a MIRROR_PID_RESET came."""

    producer_id: int
    run: OpenRun
    reset_offset: int


@dataclass(slots=True)
class ProducerState:
    """What a run leaves of one producer."""

    first_epoch: int | None = None
    """None until something with an epoch came; a marker that the cleaner emptied has none."""
    last_epoch: int | None = None
    epoch_changed: bool = False
    batches: tuple[BatchMetadata, ...] = ()
    """The last batches, all of `last_epoch`."""
    coordinator_epoch: int | None = None
    marked_ms: int | None = None
    """The time of the marker that brought the coordinator epoch."""
    timestamp: int | None = None
    open: OpenRun | None = None
    """The transaction that is open at the end, as far as the run knows it."""


@dataclass(slots=True)
class Front:
    """What a producer does up to its first marker."""

    head: OpenRun | None = None
    marker: Marker | None = None


class Head(NamedTuple):
    """A producer's first data in a run: what must follow its last data in the run before."""

    epoch: int
    base_sequence: int
    base_offset: int
    timestamp: int


class SequenceJump(NamedTuple):
    """Two consecutive batches of one producer and epoch whose sequences do not follow each other.
    No broker that knows the producer appends the second one."""

    offset: int
    """The second one's base offset."""
    producer_id: int
    epoch: int
    sequence: int
    expected: int
    before: BatchMetadata
    """The first one."""
    timestamp: int
    """The second one's."""


@dataclass(slots=True)
class ProducersPartial:
    """The producers of one run of batches; the default is the identity."""

    states: dict[int, ProducerState] = field(default_factory=dict)
    fronts: dict[int, Front] = field(default_factory=dict)
    first_reset: int | None = None
    """The offset of the first MIRROR_PID_RESET."""
    resets: tuple[int, ...] = ()
    aborted: list[ReplayedAbort] = field(default_factory=list)
    """Aborted transactions that began within the run, in the order of their markers."""
    forgotten: list[ForgottenTransaction] = field(default_factory=list)
    committed: int = 0
    empty_markers: int = 0
    """Markers of producers without data before them."""
    epoch_bumps: int = 0
    """Markers with a higher epoch than their data: transactions of protocol version 2 (KIP-890)."""
    heads: dict[int, Head | None] = field(default_factory=dict)
    """By producer, up to the first reset; None if another epoch came before its first data."""
    jumps: tuple[SequenceJump, ...] = ()
    """The first ones by offset, at most MAX_EXAMPLES."""


def jump_of(producer_id: int, head: Head, before: BatchMetadata) -> SequenceJump | None:
    """Returns the jump from one batch to the next of a producer's epoch; None if it goes on as it
    must."""
    if head.base_sequence < 0 or before.last_sequence < 0:
        return None
    expected = before.last_sequence + 1 & MAX_SEQUENCE
    if head.base_sequence == expected:
        return None
    return SequenceJump(head.base_offset, producer_id, head.epoch, head.base_sequence, expected, before, head.timestamp)


def first_jumps(jumps: Iterable[SequenceJump]) -> tuple[SequenceJump, ...]:
    return tuple(sorted(jumps)[:MAX_EXAMPLES])


def join_runs(left: OpenRun | None, right: OpenRun | None) -> OpenRun | None:
    if left is None or right is None:
        return left or right
    return OpenRun(left.first_offset, left.first_timestamp, right.last_timestamp, left.batches + right.batches, right.producer_epoch)


def merge(left: ProducersPartial, right: ProducersPartial) -> ProducersPartial:
    """Returns the partial of both; neither is changed."""
    fronts = dict(left.fronts)
    aborted, forgotten = list(left.aborted), list(left.forgotten)
    merged = ProducersPartial(
        states={},
        fronts=fronts,
        first_reset=right.first_reset if left.first_reset is None else left.first_reset,
        resets=left.resets + right.resets,
        aborted=aborted,
        forgotten=forgotten,
        committed=left.committed + right.committed,
        empty_markers=left.empty_markers + right.empty_markers,
        epoch_bumps=left.epoch_bumps + right.epoch_bumps,
    )
    lowered = _LowestOpen(left, right)
    ended: list[ReplayedAbort] = []
    for producer_id, front in right.fronts.items():
        marker = front.marker
        if marker is not None and marker.is_abort:
            marker = lowered.at(marker, producer_id)
        if not is_known(left, producer_id):
            own = left.fronts.get(producer_id)
            fronts[producer_id] = Front(join_runs(own.head if own else None, front.head), marker)
        elif marker is not None:
            state = left.states.get(producer_id)
            count_end(merged, ended, producer_id, join_runs(state.open if state else None, front.head), marker)
        elif right.first_reset is not None:
            state = left.states.get(producer_id)
            _forget(forgotten, producer_id, join_runs(state.open if state else None, front.head), right.first_reset)
    if right.first_reset is not None:
        for producer_id, state in left.states.items():
            if producer_id not in right.fronts and is_known(left, producer_id):
                _forget(forgotten, producer_id, state.open, right.first_reset)
    reset = right.first_reset
    ended += [each._replace(marker=lowered.at(each.marker, each.producer_id)) for each in right.aborted]
    ended.sort(key=_marker_offset)
    aborted += ended
    forgotten += right.forgotten
    forgotten.sort(key=_forgotten_order)
    merged.states = right.states if reset is not None else _merge_states(left, right)
    merged.heads = _merge_heads(left, right)
    merged.jumps = first_jumps((*left.jumps, *_jumps_between(left, right), *right.jumps))
    return merged


def _merge_heads(left: ProducersPartial, right: ProducersPartial) -> dict[int, Head | None]:
    heads = dict(left.heads)
    if left.first_reset is not None:
        return heads
    for producer_id, head in right.heads.items():
        if producer_id not in heads:
            state = left.states.get(producer_id)
            is_first = state is None or state.first_epoch is None
            same = state is not None and head is not None and state.first_epoch == head.epoch and not state.epoch_changed
            heads[producer_id] = head if is_first or same else None
    return heads


def _jumps_between(left: ProducersPartial, right: ProducersPartial) -> Iterator[SequenceJump]:
    for producer_id, head in right.heads.items():
        state = left.states.get(producer_id)
        if head is None or state is None or not state.batches or state.last_epoch != head.epoch:
            continue
        jump = jump_of(producer_id, head, BatchMetadata(*state.batches[-1]))
        if jump is not None:
            yield jump


def is_known(partial: ProducersPartial, producer_id: int) -> bool:
    """Whether the run alone tells if the producer is in a transaction at its end."""
    if partial.first_reset is not None:
        return True
    front = partial.fronts.get(producer_id)
    return front is not None and front.marker is not None


def count_end(merged: ProducersPartial, aborted: list[ReplayedAbort], producer_id: int, run: OpenRun | None, marker: Marker) -> None:
    """Records that `marker` ends `run`, which must begin where the transaction does."""
    if run is None:
        merged.empty_markers += 1
        return
    merged.epoch_bumps += marker.producer_epoch > run.producer_epoch
    if marker.is_abort:
        aborted.append(ReplayedAbort(producer_id, run, marker))
    else:
        merged.committed += 1


def _forget(forgotten: list[ForgottenTransaction], producer_id: int, run: OpenRun | None, reset_offset: int) -> None:
    if run is not None:
        forgotten.append(ForgottenTransaction(producer_id, run, reset_offset))


def _marker_offset(transaction: ReplayedAbort) -> int:
    return transaction.marker.offset


def _forgotten_order(transaction: ForgottenTransaction) -> tuple[int, int]:
    return (transaction.reset_offset, transaction.run.first_offset)


class _LowestOpen:
    """The transactions that are open between `left` and `right`, by first offset, and where each
    ends in `right`.
    """

    def __init__(self, left: ProducersPartial, right: ProducersPartial) -> None:
        self._open: list[tuple[int, int, int | None]] = []
        for producer_id, state in left.states.items():
            if state.open is not None:
                front = right.fronts.get(producer_id)
                end = front.marker.offset if front is not None and front.marker is not None else right.first_reset
                self._open.append((state.open.first_offset, producer_id, end))
        self._open.sort(key=_first_offset)

    def at(self, marker: Marker, producer_id: int) -> Marker:
        for first_offset, other, end in self._open:
            if first_offset >= marker.last_stable_offset:
                break
            if other != producer_id and (end is None or end > marker.offset):
                return marker._replace(last_stable_offset=first_offset)
        return marker


def _first_offset(entry: tuple[int, int, int | None]) -> int:
    return entry[0]


def _merge_states(left: ProducersPartial, right: ProducersPartial) -> dict[int, ProducerState]:
    states = dict(left.states)
    for producer_id, after in right.states.items():
        before = states.get(producer_id)
        if before is None:
            states[producer_id] = after
            continue
        front = right.fronts.get(producer_id)
        was_ended = front is not None and front.marker is not None
        states[producer_id] = merge_states(before, after, after.open if was_ended else join_runs(before.open, after.open))
    return states


def merge_states(before: ProducerState, after: ProducerState, open_run: OpenRun | None) -> ProducerState:
    """Returns the merged state of one producer; `open_run` is the transaction that is open after
    both."""
    if after.first_epoch is None or before.last_epoch is None:
        source = before if after.first_epoch is None else after
        first_epoch, last_epoch, changed, batches = source.first_epoch, source.last_epoch, source.epoch_changed, source.batches
    else:
        starts_anew = after.epoch_changed or after.first_epoch != before.last_epoch
        first_epoch, last_epoch, changed = before.first_epoch, after.last_epoch, before.epoch_changed or starts_anew
        batches = after.batches if starts_anew else (before.batches + after.batches)[-NUM_BATCHES_TO_RETAIN:]
    return ProducerState(
        first_epoch=first_epoch,
        last_epoch=last_epoch,
        epoch_changed=changed,
        batches=batches,
        coordinator_epoch=before.coordinator_epoch if after.coordinator_epoch is None else after.coordinator_epoch,
        marked_ms=before.marked_ms if after.coordinator_epoch is None else after.marked_ms,
        timestamp=before.timestamp if after.timestamp is None else after.timestamp,
        open=open_run,
    )
