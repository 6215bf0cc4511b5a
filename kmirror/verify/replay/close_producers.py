"""Closing producers: every `.snapshot` is a claim about the state before the offset that it is
named after.

The states are folded from the left, section by section, and compared with the snapshot at each cut.
The fold begins empty if the log begins at offset 0, with the snapshot at the first segment's base
offset if there is one, and otherwise with an unknown state. From each cut it goes on with what both
agree on, and with its own state where they do not, so one wrong snapshot is one finding.

A snapshot may differ from the fold and be right:
* An idle producer is forgotten after producer.id.expiration.ms, when its snapshot is loaded or by
  the clock. If it comes back, it has no coordinator epoch.
* After a compaction, the batches that a snapshot in the middle of the log refers to may be gone.
  Only what is left can contradict it.
* A broker that loads a log whose start lies inside a segment reads that segment from there on.
* After bytes that cannot be read, the next snapshot is taken as true.

On the way, the fold meets batches whose sequences do not follow the one before. They count if no
batch can be missing in between and the producer was not idle for long enough to be forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kmirror.storage.producer_state_entry import ProducerStateEntry
from kmirror.verify.replay.claims import SnapshotClaim
from kmirror.verify.replay.log_view import LogView
from kmirror.verify.replay.producer_states import OpenRun, ProducersPartial, ProducerState, SequenceJump, merge
from kmirror.verify.replay.tables import ProducerRow

BEGINNING = -1
"""Used as `first_reset`: nothing lies left of the log, so no producer is in a transaction there."""
MAX_PRODUCERS_NAMED = 5


class Values(NamedTuple):
    """What a snapshot has of a producer."""

    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    first_open_offset: int


_NAMES = ("epoch", "last sequence", "last offset", "offset delta", "timestamp", "coordinator epoch", "first offset of the open transaction")


def values_of(state: ProducerState) -> Values:
    sequence, offset, delta, _ = state.batches[-1] if state.batches else (-1, -1, 0, -1)
    return Values(
        _known(state.last_epoch),
        sequence,
        offset,
        delta,
        _known(state.timestamp),
        _known(state.coordinator_epoch),
        state.open.first_offset if state.open else -1,
    )


def _known(value: int | None) -> int:
    return -1 if value is None else value


def claimed_values(entry: ProducerStateEntry) -> Values:
    first_open = entry.current_txn_first_offset
    return Values(
        entry.producer_epoch,
        entry.last_sequence,
        entry.last_data_offset,
        entry.last_offset_delta,
        entry.last_timestamp,
        entry.coordinator_epoch,
        -1 if first_open is None else first_open,
    )


def state_from(entry: ProducerStateEntry) -> ProducerState:
    """Returns the state that a snapshot's entry restores."""
    first_open = entry.current_txn_first_offset
    timestamp = entry.last_timestamp
    run = None if first_open is None else OpenRun(first_open, timestamp, timestamp, 0, entry.producer_epoch)
    epoch = None if entry.producer_epoch < 0 else entry.producer_epoch
    return ProducerState(
        first_epoch=epoch,
        last_epoch=epoch,
        batches=tuple(entry.batches),
        coordinator_epoch=None if entry.coordinator_epoch < 0 else entry.coordinator_epoch,
        timestamp=None if timestamp < 0 else timestamp,
        open=run,
    )


class SnapshotCheck:
    """The fold. `run` yields the rows of the log's end and leaves findings in the view."""

    def __init__(self, view: LogView, *, producer_id_expiration_ms: int) -> None:
        self._view = view
        self._expiration_ms = producer_id_expiration_ms
        self._left = ProducersPartial()
        self._knows_left = False

    def run(self) -> Iterator[ProducerRow]:
        view = self._view
        snapshots = {offset: claim for offset, claim in sorted(view.claims.snapshots.items()) if offset >= view.first_base_offset}
        self._begin(snapshots.pop(view.first_base_offset, None))
        sections = list(view.partial.sections)
        done, from_offset = 0, view.first_base_offset
        for offset, claim in snapshots.items():
            while done < len(sections) and sections[done].cut < offset:
                self._take(sections[done].producers)
                done += 1
            if claim.error is not None:
                view.found("producers", "corrupt", claim.path, claim.error, first_offset=offset, last_offset=offset)
                continue
            if offset > view.log_end_offset:
                text = f"a snapshot as of offset {offset}, and the log ends at {view.log_end_offset}"
                view.found("producers", "beyond_end", claim.path, text, first_offset=view.log_end_offset, last_offset=offset - 1)
                continue
            self._meet(offset, claim, from_offset)
            from_offset = offset
        for section in sections[done:]:
            self._take(section.producers)
        yield from self._rows()

    def _begin(self, claim: SnapshotClaim | None) -> None:
        view = self._view
        if view.first_base_offset == 0:
            self._left = ProducersPartial(first_reset=BEGINNING)
            self._knows_left = True
        elif claim is not None and claim.error is None:
            self._adopt({entry.producer_id: state_from(entry) for entry in claim.entries})
        elif claim is not None and claim.error is not None:
            view.found("producers", "corrupt", claim.path, claim.error, first_offset=view.first_base_offset)

    def _adopt(self, states: dict[int, ProducerState]) -> None:
        self._left = ProducersPartial(states=states, first_reset=BEGINNING)
        self._knows_left = True

    def _take(self, right: ProducersPartial) -> None:
        merged = merge(self._left, right)
        for jump in merged.jumps:
            self._tell_jump(jump)
        merged.aborted, merged.forgotten, merged.jumps = [], [], ()
        self._left = merged

    def _tell_jump(self, jump: SequenceJump) -> None:
        """Adds a finding, unless what is missing in between explains it, or the producer may have
        been forgotten."""
        view, last = self._view, jump.before.last_offset
        if jump.timestamp - jump.before.timestamp >= self._expiration_ms or jump.offset < view.log_start_offset:
            return
        if view.is_damaged(max(last, view.first_base_offset), jump.offset + 1) or view.has_holes(view.first_base_offset, jump.offset + 1):
            return
        how = "a batch was appended twice, or" if jump.sequence < jump.expected else "a batch is missing, or"
        text = (
            f"producer {jump.producer_id} goes on with sequence {jump.sequence} in epoch {jump.epoch}, and {jump.expected} follows "
            f"its batch at offset {last}: {how} a broker had lost the producer's state"
        )
        segment = view.segment_at(jump.offset)
        file, base = (view.path, None) if segment is None else (segment.path, segment.base_offset)
        view.found("producers", "sequence", file, text, segment=base, first_offset=jump.offset, last_offset=jump.offset)

    def _meet(self, offset: int, claim: SnapshotClaim, from_offset: int) -> None:
        """Compares the state before `offset` with the snapshot there, which follows the one at
        `from_offset`."""
        view = self._view
        claimed = {entry.producer_id: entry for entry in claim.entries}
        if view.is_damaged(from_offset, offset):
            self._adopt({producer_id: state_from(entry) for producer_id, entry in claimed.items()})
            return
        has_holes = view.has_holes(view.first_base_offset, offset)
        states: dict[int, ProducerState] = {}
        wrong: list[tuple[str, str]] = []
        for producer_id in sorted(claimed.keys() | self._left.states.keys()):
            entry, state = claimed.get(producer_id), self._left.states.get(producer_id)
            problem = self._compare(entry, state, claim.written_ms, has_holes=has_holes)
            if problem is not None:
                wrong.append((problem[0], f"producer {producer_id} {problem[1]}"))
                if state is not None:
                    states[producer_id] = state
            elif entry is not None:
                states[producer_id] = self._agreed(entry, state)
        for kind, text in wrong[:MAX_PRODUCERS_NAMED]:
            view.found("producers", kind, claim.path, text, first_offset=offset, last_offset=offset)
        if len(wrong) > MAX_PRODUCERS_NAMED:
            text = f"{len(wrong) - MAX_PRODUCERS_NAMED} more producers differ"
            view.found("producers", "differs", claim.path, text, first_offset=offset, last_offset=offset)
        self._adopt(states)

    def _agreed(self, entry: ProducerStateEntry, state: ProducerState | None) -> ProducerState:
        claimed = state_from(entry)
        if state is None or values_of(state) != claimed_values(entry):
            return claimed
        return state

    def _compare(
        self, entry: ProducerStateEntry | None, state: ProducerState | None, written_ms: int, *, has_holes: bool
    ) -> tuple[str, str] | None:
        """Returns (kind, text) of what is wrong, None if the snapshot may be right."""
        view = self._view
        if entry is None:
            assert state is not None, "neither claimed nor computed"
            ours = values_of(state)
            is_below = (
                view.log_start_offset > view.first_base_offset and max(ours.last_offset, ours.first_open_offset) < view.log_start_offset
            )
            if is_below or self._may_be_forgotten(ours, written_ms):
                return None
            return "missing", f"is not in it: {_text(ours)}"
        claimed = claimed_values(entry)
        is_beyond = not self._knows_left and claimed.last_offset < view.first_base_offset
        if state is None:
            if is_beyond or has_holes:
                return None
            return "unexpected", f"is in it, and no batch is its own: {_text(claimed)}"
        ours = values_of(state)
        differing = [index for index in range(len(ours)) if ours[index] != claimed[index]]
        was_forgotten = max(written_ms, claimed.timestamp) - min(claimed.timestamp, _known(state.marked_ms)) >= self._expiration_ms
        if not differing or self._is_explained(ours, claimed, differing, was_forgotten=was_forgotten, has_holes=has_holes):
            return None
        text = ", ".join(f"{_NAMES[index]} {claimed[index]} instead of {ours[index]}" for index in differing)
        return "differs", f"has {text}"

    def _may_be_forgotten(self, ours: Values, written_ms: int) -> bool:
        return ours.first_open_offset < 0 and written_ms - ours.timestamp >= self._expiration_ms

    def _is_explained(self, ours: Values, claimed: Values, differing: list[int], *, was_forgotten: bool, has_holes: bool) -> bool:
        view = self._view
        if has_holes:
            # compaction removed what the claim was based on, unless the claim is about a batch that
            # is still there
            same_batch = ours.last_offset == claimed.last_offset >= 0
            return not same_batch or not {0, 1, 3}.intersection(differing)
        log_start_is_inside = view.log_start_offset > view.first_base_offset
        for index in differing:
            if index == 5 and claimed.coordinator_epoch == -1 and (was_forgotten or log_start_is_inside):
                continue
            if index == 5 and not self._knows_left and ours.coordinator_epoch == -1:
                continue
            if index in (1, 2, 3) and not self._knows_left and ours.last_offset == -1 and claimed.last_offset < view.first_base_offset:
                continue
            if index == 6 and not self._knows_left and 0 <= claimed.first_open_offset < view.first_base_offset:
                continue
            if index == 6 and log_start_is_inside and 0 <= ours.first_open_offset < view.log_start_offset:
                continue
            return False
        return True

    def _rows(self) -> Iterator[ProducerRow]:
        view = self._view
        for producer_id, state in sorted(self._left.states.items()):
            ours = values_of(state)
            yield ProducerRow(
                view.path,
                view.topic,
                view.partition,
                producer_id,
                state.last_epoch,
                ours.last_sequence if ours.last_sequence >= 0 else None,
                ours.last_offset if ours.last_offset >= 0 else None,
                state.timestamp,
                state.coordinator_epoch,
                state.open.first_offset if state.open else None,
                len(state.batches),
            )


def _text(values: Values) -> str:
    return ", ".join(f"{name} {value}" for name, value in zip(_NAMES, values))
