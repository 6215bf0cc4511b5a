"""Closing transactions: `.txnindex` has every aborted transaction with data, in the segment of its
ABORT, in the order of the markers.

Rows cover the whole log, because transactions know no segments. An entry may differ from what the
log says and be right:
* Its transaction began below the log's first segment: its first offset is lower than any that is
  left, and so may the last stable offset be.
* A compaction removed data of aborted transactions, and the entries of those that lost all their
  data.
* A broker that appended several transactions at once may have noted a last stable offset after the
  marker: nothing was open then.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from kmirror.storage.log_file_names import LOG_FILE_SUFFIX, TXN_INDEX_FILE_SUFFIX
from kmirror.verify.replay.claims import TxnIndexEntry
from kmirror.verify.replay.close_producers import BEGINNING
from kmirror.verify.replay.log_view import LogView
from kmirror.verify.replay.partial import Section, SegmentPart
from kmirror.verify.replay.producer_states import Marker, OpenRun, ProducersPartial, ReplayedAbort, is_known, merge
from kmirror.verify.replay.tables import TransactionCounts, TransactionRow

MAX_NAMED = 5


def whole_log(sections: tuple[Section, ...]) -> ProducersPartial:
    """Returns the producers of all sections as one partial, by a tree of merges."""
    parts = [section.producers for section in sections] or [ProducersPartial()]
    while len(parts) > 1:
        parts = [merge(*parts[at : at + 2]) if at + 1 < len(parts) else parts[at] for at in range(0, len(parts), 2)]
    return parts[0]


class TransactionCheck:
    """The rows of the log's transactions; findings go to the view."""

    def __init__(self, view: LogView, *, now_ms: int | None) -> None:
        self._view = view
        self._now_ms = now_ms
        whole = whole_log(view.partial.sections)
        self._knows_left = view.first_base_offset == 0
        self._whole = merge(ProducersPartial(first_reset=BEGINNING), whole) if self._knows_left else whole
        self._cut_off = self._begun_below_the_log()
        """Aborted transactions whose first batches may lie below the log, by the offsets of their
        markers."""
        self._aborted = sorted([*self._whole.aborted, *self._cut_off.values()], key=lambda each: each.marker.offset)

    def _begun_below_the_log(self) -> dict[int, ReplayedAbort]:
        found = {}
        for producer_id, front in self._whole.fronts.items():
            marker = front.marker
            if not self._knows_left and marker is not None and marker.is_abort:
                run = front.head or OpenRun(marker.offset, marker.timestamp, marker.timestamp, 0, marker.producer_epoch)
                found[marker.offset] = ReplayedAbort(producer_id, run, marker)
        return found

    @property
    def first_unstable_offset(self) -> int | None:
        return min((state.open.first_offset for state in self._whole.states.values() if state.open is not None), default=None)

    @property
    def resets(self) -> int:
        return len(self._whole.resets)

    # claims
    def check(self) -> None:
        """Compares each segment's `.txnindex` with the aborted transactions whose marker lies in
        the segment."""
        view = self._view
        bases = [segment.base_offset for segment in view.segments]
        markers = [each.marker.offset for each in self._aborted]
        for segment, following in zip(view.segments, [*bases[1:], None]):
            claimed = view.claims.aborted.get(segment.base_offset, [])
            path = segment.path.removesuffix(LOG_FILE_SUFFIX) + TXN_INDEX_FILE_SUFFIX
            error = view.claims.aborted_errors.get(segment.base_offset)
            if error is not None:
                view.found("transactions", "corrupt", path, error, segment=segment.base_offset)
            first = bisect_left(markers, segment.base_offset)
            behind = len(markers) if following is None else bisect_left(markers, following)
            own = {each.marker.offset: each for each in self._aborted[first:behind]}
            end = view.log_end_offset if following is None else following
            problems = list(self._problems(segment, claimed, own, end))
            for kind, text, first, last in problems[:MAX_NAMED]:
                view.found("transactions", kind, path, text, segment=segment.base_offset, first_offset=first, last_offset=last)
            if len(problems) > MAX_NAMED:
                text = f"{len(problems) - MAX_NAMED} more entries differ"
                view.found("transactions", "differs", path, text, segment=segment.base_offset)

    def _problems(
        self, segment: SegmentPart, claimed: list[TxnIndexEntry], own: dict[int, ReplayedAbort], end: int
    ) -> Iterator[tuple[str, str, int, int]]:
        view = self._view
        if view.is_damaged(view.first_base_offset, end):
            return  # what could not be read may have begun or ended any of them
        has_holes = view.has_holes(view.first_base_offset, end)
        previous = -1
        for entry in claimed:
            text = f"producer {entry.producer_id} from {entry.first_offset} to {entry.last_offset}, last stable offset {entry.last_stable_offset}"
            if entry.last_offset <= previous:
                yield "order", f"{text}: not behind the entry in front of it", entry.first_offset, entry.last_offset
            previous = entry.last_offset
            if entry.last_offset >= view.log_end_offset and not view.at_rest:
                continue  # a running broker wrote it since the log was listed
            known = own.get(entry.last_offset)
            if known is None or known.producer_id != entry.producer_id:
                if not has_holes:
                    yield "unexpected", f"{text}: the log has no such ABORT of data", entry.first_offset, entry.last_offset
            elif not self._agrees(entry, known, has_holes=has_holes):
                marker = known.marker
                instead = f"from {known.run.first_offset}, last stable offset {marker.last_stable_offset}"
                yield "differs", f"{text}; the log says {instead}", entry.first_offset, entry.last_offset
        offsets = {entry.last_offset for entry in claimed}
        for offset, each in own.items():
            if offset not in offsets and not self._may_be_missing(each, has_holes=has_holes):
                text = f"producer {each.producer_id} from {each.run.first_offset} to {offset} was aborted, but is not in the index"
                yield "missing", text, each.run.first_offset, offset

    def _agrees(self, entry: TxnIndexEntry, known: ReplayedAbort, *, has_holes: bool) -> bool:
        return self._first_agrees(entry, known, has_holes=has_holes) and self._stable_agrees(entry, known.marker, has_holes=has_holes)

    def _first_agrees(self, entry: TxnIndexEntry, known: ReplayedAbort, *, has_holes: bool) -> bool:
        first = known.run.first_offset
        if entry.first_offset == first:
            return True
        view = self._view
        if entry.last_offset in self._cut_off and entry.first_offset < view.first_base_offset:
            return True
        if first < view.log_start_offset and entry.first_offset < entry.last_offset:
            return True
        return has_holes and entry.first_offset < first

    def _stable_agrees(self, entry: TxnIndexEntry, marker: Marker, *, has_holes: bool) -> bool:
        claimed, known = entry.last_stable_offset, marker.last_stable_offset
        if claimed == known:
            return True
        view = self._view
        if claimed > marker.offset + 1 and known == marker.offset + 1:
            return True
        if known < view.log_start_offset or (not self._knows_left and claimed < view.first_base_offset):
            return True
        return has_holes and claimed < known

    def _may_be_missing(self, each: ReplayedAbort, *, has_holes: bool) -> bool:
        is_cut_off = each.marker.offset in self._cut_off and not each.run.batches
        return is_cut_off or has_holes or each.run.first_offset < self._view.log_start_offset

    # rows
    def rows(self) -> Iterator[TransactionRow]:
        view = self._view
        for each in self._aborted:
            marker, run = each.marker, each.run
            yield TransactionRow(
                view.path,
                view.topic,
                view.partition,
                each.producer_id,
                run.producer_epoch,
                "ABORTED",
                run.first_offset,
                marker.offset in self._cut_off,
                marker.offset,
                marker.last_stable_offset,
                run.first_timestamp,
                run.last_timestamp,
                marker.coordinator_epoch,
                run.batches,
                None,
                2 if marker.producer_epoch > run.producer_epoch else 1,
            )
        for lost in self._whole.forgotten:
            yield self._open_row(lost.producer_id, lost.run, "FORGOTTEN", lost.reset_offset)
        for producer_id, run in self._ongoing():
            yield self._open_row(producer_id, run, "ONGOING", None)

    def _ongoing(self) -> list[tuple[int, OpenRun]]:
        runs = [(producer_id, state.open) for producer_id, state in self._whole.states.items() if state.open is not None]
        return sorted(runs, key=lambda each: each[1].first_offset)

    def _open_row(self, producer_id: int, run: OpenRun, state: str, end: int | None) -> TransactionRow:
        view = self._view
        now = self._now_ms
        if now is None:
            now = max((segment.structure.max_timestamp for segment in view.segments), default=-1)
        return TransactionRow(
            view.path,
            view.topic,
            view.partition,
            producer_id,
            run.producer_epoch,
            state,
            run.first_offset,
            not self._knows_left and not is_known(self._whole, producer_id),
            end,
            None,
            run.first_timestamp,
            run.last_timestamp,
            None,
            run.batches,
            now - run.first_timestamp if state == "ONGOING" else None,
            None,
        )

    def counts(self) -> TransactionCounts:
        view, whole = self._view, self._whole
        unknown = 0 if self._knows_left else sum(f.marker is not None and not f.marker.is_abort for f in whole.fronts.values())
        return TransactionCounts(
            view.path,
            view.topic,
            view.partition,
            whole.committed + unknown,
            len(self._aborted),
            len(self._ongoing()),
            len(whole.forgotten),
            whole.empty_markers,
            whole.epoch_bumps,
        )
