"""Inquiries into what our log has in common with the source's: each is a generator that asks the
source questions and ends with a verdict.

`verify_log` runs before the first append of a fetcher and after every new source epoch (C36b).
Epoch numbers alone are not enough: two clusters hand them out independently, so equal numbers do
not mean equal batches. The batches decide (`log_comparison`):

    nothing is different                   keep all, above all what lies in holes that the source's cleaner left: tombstones
    different right behind an equal one    cut behind the equal one
    different, the border in a hole; or    start again at the source's log start: cut off, it may be a tombstone that the source no longer
      our own cleaner was beyond it; or    has; left, a key that nobody has
      another's was (`log_completeness`)
    different, none equal                  start again at the source's log start, which the guard stops (`truncation_guard`)

An empty log whose end lies above the source's log start also starts again there; otherwise the
records in between would be skipped silently (F16).

`out_of_range` (D3-14, D3-14b): if retention at the source has passed us, our log starts again at
the source's log start. Otherwise OFFSET_OUT_OF_RANGE alone never drops everything: batches decide
first, then the common point by epochs, stepping down to older epochs of ours while the source does
not know one.

`diverged` (D3-15): the source says where its epoch ends. The batches show where the logs diverge.
If they do not (our last ones lie in holes), everything beyond that end is different, and nothing
before it is: a source whose epoch cache was built from a cleaned log has forgotten epochs without
batches.

A source batch that is damaged, or in an unsupported format, says nothing about ours. Nothing is cut
because of it; it is an error (CORRUPT_MESSAGE, UNSUPPORTED_FOR_MESSAGE_FORMAT), so that a mirror
keeps what a source has lost.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from kmirror.mirror.logs.local_log import first_offset_above
from kmirror.mirror.logs.log_comparison import Comparison, compare, identical_until
from kmirror.mirror.logs.log_completeness import is_complete
from kmirror.mirror.logs.log_questions import (
    KEEP,
    ComparedLog,
    EarliestOffset,
    EndOfEpoch,
    Inquiry,
    LogAction,
    Loss,
    OnWorker,
    Question,
    Verdict,
)
from kmirror.mirror.source.source_cluster import SourceError
from kmirror.mirror.source.source_end_point import EpochEnd
from kmirror.storage.batch_header import BatchHeader
from kmirror.storage.unified_log import UnifiedLog

DIFFERS = "the log differs from the source's"
CleanedUntil = Callable[[], int]


def verify_log(log: UnifiedLog, *, cleaned_until: CleanedUntil) -> Inquiry:
    """Compare our log with the source's. `cleaned_until`: how far our own cleaner has been."""
    last = log.last_batch()
    end = log.log_end_offset
    if last is None and end == 0:
        return KEEP
    source_start = yield from _source_start()
    if last is None or last.base_offset < source_start:
        return _behind_retention(last, end, source_start)
    found = yield from compare(log, source_start, until=end)
    return (yield from complete(log, judge(log, found, source_start, until=end, cleaned_until=cleaned_until), source_start))


def verify_before(log: ComparedLog, until: int, *, cleaned_until: CleanedUntil) -> Inquiry:
    """How much of our log before `until` is the source's, when everything from there on is removed
    anyway: the verdict is CUT or START_OVER.
    """
    source_start = yield from _source_start()
    last = log.batch_before(until)
    if last is None or last.base_offset < source_start:
        return Verdict(LogAction.START_OVER, source_start, f"the source begins at {source_start}")
    found = yield from compare(log, source_start, until=until)
    verdict = judge(log, found, source_start, until=until, cleaned_until=cleaned_until)
    if verdict.action is not LogAction.KEEP:
        return verdict
    if cleaned_until() > until:
        return Verdict(
            LogAction.START_OVER,
            source_start,
            "the local cleaner has removed records that were replaced by records written to this cluster",
        )
    return Verdict(LogAction.CUT, until)


def same_beginning(log: ComparedLog) -> Inquiry:
    """Whether our log begins where the source's does, or before. If not, it lacks part of what a
    full copy would have.
    """
    source_start = yield from _source_start()
    if log.log_start_offset > source_start:
        return Verdict(
            LogAction.START_OVER,
            source_start,
            f"the local log begins at offset {log.log_start_offset}, but the source's begins at {source_start}",
        )
    return KEEP


def source_begins() -> Inquiry:
    """Where the source's log begins, as the offset of a verdict that keeps all."""
    return Verdict(LogAction.KEEP, (yield from _source_start()))


def identical_beginning(log: ComparedLog) -> Inquiry:
    """How much of our log is byte for byte the source's, from the source's log start on: the
    verdict is CUT after that, or START_OVER.
    """
    source_start = yield from _source_start()
    end = yield from identical_until(log, source_start)
    if end == source_start:
        return Verdict(LogAction.START_OVER, source_start, "the local log does not begin with the source's batches")
    return Verdict(LogAction.CUT, end, DIFFERS)


def unverified() -> Inquiry:
    """The inquiry that replaces `verify_log` when that safeguard is off: our log is taken as the
    beginning of the source's (C36b).
    """
    yield from ()
    return KEEP


def out_of_range(log: UnifiedLog, *, cleaned_until: CleanedUntil, local: bool = False) -> Inquiry:
    """Our log end is an offset that the source cannot serve. `local`: because it is only in remote
    storage there (FEA11).
    """
    source_start = yield from _source_start(local=local)
    end = log.log_end_offset
    if end < source_start:
        return Verdict(LogAction.START_OVER, source_start, f"the source begins at {source_start}")
    found = yield from compare(log, source_start, until=end)
    if found.different is not None:
        return (yield from complete(log, judge(log, found, source_start, until=end, cleaned_until=cleaned_until), source_start))
    epoch = log.latest_batch_epoch()
    while epoch is not None and epoch >= 0:
        told: EpochEnd = yield EndOfEpoch(epoch)
        if told.epoch == epoch and told.end_offset >= 0:
            return (yield from complete(log, (yield from _cut_by_epochs(log, epoch, told.end_offset)), source_start))
        limit = min(told.epoch, epoch - 1)
        epoch = yield OnWorker(partial(_largest_epoch_up_to, log, limit))
    return Verdict(LogAction.WAIT, reason=f"the source knows none of the leader epochs of the local log, which ends at offset {end}")


def diverged(log: UnifiedLog, epoch: int, source_end_offset: int, *, cleaned_until: CleanedUntil) -> Inquiry:
    """The source's `epoch` ends at `source_end_offset`, and our log goes on differently."""
    reason = f"epoch {epoch} ends at {source_end_offset} at the source"
    source_start = yield from _source_start()
    last, end = log.last_batch(), log.log_end_offset
    if last is None or last.base_offset < source_start:
        return (yield from _cut_by_epochs(log, epoch, source_end_offset))
    found = yield from compare(log, source_start, until=end)
    if found.different is None and found.is_border_known:
        behind = log.log_end_offset > last.next_offset
        return Verdict(LogAction.CUT if behind else LogAction.KEEP, last.next_offset, reason)
    if found.different is None:
        equal_until = log.log_start_offset if found.equal is None else found.equal.next_offset
        beyond = log.batch_containing(max(source_end_offset, equal_until))
        if beyond is None or source_end_offset < 0:
            return Verdict(LogAction.KEEP, reason=reason, ignores_epochs=True)
        found = Comparison(found.equal, beyond, beyond.base_offset >= equal_until and log.batch_containing(equal_until) == beyond)
    verdict = judge(log, found, source_start, until=end, cleaned_until=cleaned_until)
    return (yield from complete(log, verdict, source_start))._replace(reason=reason)


def judge(log: ComparedLog, found: Comparison, source_start: int, *, until: int, cleaned_until: CleanedUntil) -> Verdict:
    """The verdict for a comparison, by the table at the top of this file."""
    equal, different = found.equal, found.different
    if different is None:
        if equal is not None and found.is_border_known and equal.next_offset < until:
            return Verdict(LogAction.CUT, equal.next_offset, DIFFERS)  # a gap that our cleaner left behind our last batch: fetched again
        return KEEP
    if equal is None:
        return Verdict(LogAction.START_OVER, source_start, "no batch of the log is the source's", Loss.EVERYTHING)
    if not found.is_border_known:
        reason = f"{DIFFERS} at offset {different.base_offset}, and a cleaner has removed the records that would show where the difference begins"
        return Verdict(LogAction.START_OVER, source_start, reason, Loss.COUNTED)
    if cleaned_until() > equal.next_offset:
        reason = f"{DIFFERS} from offset {different.base_offset} on, and the local cleaner has removed records that were replaced by those"
        return Verdict(LogAction.START_OVER, source_start, reason, Loss.COUNTED)
    return Verdict(LogAction.CUT, equal.next_offset, DIFFERS, Loss.COUNTED)


def complete(log: UnifiedLog, verdict: Verdict, source_start: int) -> Inquiry:
    """Returns `verdict`, or START_OVER if its cut would leave less than the source has: another
    cleaner than ours dropped what the removed records had replaced.
    """
    if verdict.action is not LogAction.CUT or log.batch_containing(verdict.offset) is None:
        return verdict
    if (yield from is_complete(log, source_start, verdict.offset)):
        return verdict
    reason = f"{DIFFERS} from offset {verdict.offset} on, and a cleaner has removed records that were replaced by those"
    return Verdict(LogAction.START_OVER, source_start, reason, Loss.COUNTED)


def complete_or_identical(log: UnifiedLog, verdict: Verdict) -> Inquiry:
    """Returns `verdict`, which is `verify_before`'s. If its cut would leave less than the source
    has, only what is identical from the beginning on is kept.
    """
    source_start = yield from _source_start()
    found = yield from complete(log, verdict, source_start)
    return verdict if found is verdict else (yield from identical_beginning(log))


def _behind_retention(last: BatchHeader | None, end: int, source_start: int) -> Verdict:
    """The verdict when nothing of our log can be compared: it is empty, or the source begins after
    it.
    """
    if end < source_start or (last is None and end == source_start):
        return KEEP
    return Verdict(LogAction.START_OVER, source_start, f"the source begins at {source_start}")


def _cut_by_epochs(log: UnifiedLog, epoch: int, source_end_offset: int) -> Inquiry:
    """The verdict where batches do not decide: cut at the end of the epoch at the source, or of
    ours if that is earlier.
    """
    reason = f"epoch {epoch} ends at {source_end_offset} at the source"
    above: int | None = yield OnWorker(partial(first_offset_above, log, epoch))
    target = min(log.log_end_offset if above is None else above, source_end_offset)
    if target < log.log_start_offset:
        return Verdict(LogAction.START_OVER, (yield from _source_start()), reason, Loss.EVERYTHING)
    return Verdict(LogAction.CUT, target, reason, Loss.COUNTED if target > log.log_start_offset else Loss.EVERYTHING)


def _source_start(*, local: bool = False) -> Generator[Question, Any, int]:
    """Where the source's log starts. An answer without an offset is no answer, whatever its error
    code.
    """
    source_start: int = yield EarliestOffset(local)
    if source_start < 0:
        raise SourceError(f"the source says that its log begins at {source_start}")
    return source_start


def _largest_epoch_up_to(log: UnifiedLog, limit: int) -> int | None:
    best: int | None = None
    for header in log.batch_headers(log.log_start_offset):
        if header.partition_leader_epoch > limit:
            break
        best = header.partition_leader_epoch
    return best
