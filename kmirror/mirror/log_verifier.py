"""What our log has in common with the source's: three inquiries, each a generator of questions to the source that ends in a verdict.

`verify_log` (C36b), before the first append of a fetcher and after every new source epoch. Epoch numbers alone do not tell: two
clusters hand them out independently, so equal numbers do not mean equal batches. What tells is the last batch. It is fetched from
the source at its base offset and compared: offsets, leader epoch, producer fields, largest timestamp, and the CRC unless the topic is
compacted. Equal: everything before it is equal too, for the log grew by appending the source's batches in order. Unequal: step
back 1, 2, 4 ... batches to an equal one, bisect to the last equal one, and cut behind it. None: start again at the source's log
start. An empty log whose end lies above the source's log start begins there as well, or the records between would be skipped
silently (F16).

`out_of_range` (D3-14, D3-14b): retention at the source passed us: start at its log start. Else never everything: the common point
by epochs, stepping down to older epochs of ours while the source does not know one.

`diverged` (D3-15): cut where the source's epoch ends, or where ours does if that is earlier.

A batch of the source that is damaged, or of a format that has no place here, says nothing of ours: nothing is cut for it, and it is an error
(CORRUPT_MESSAGE, UNSUPPORTED_FOR_MESSAGE_FORMAT), so that a mirror keeps what a source has lost.

Questions are data, so that whoever answers may ask those of many partitions in one request, and so that nothing here waits. What kept an
answer away is thrown into the inquiry, and comes out of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

from kmirror.common.errors import Errors
from kmirror.mirror.local_log import first_offset_above
from kmirror.mirror.source_cluster import SourceError
from kmirror.mirror.source_end_point import EpochEnd, FetchedPartition
from kmirror.record.record_batch import iter_batches, next_batch_size
from kmirror.replica.log_verification import same_batch
from kmirror.storage.batch_header import BatchHeader
from kmirror.storage.unified_log import UnifiedLog


class EarliestOffset(NamedTuple):
    """The source's log start offset (int). `local`: of what it has not moved to remote storage."""

    local: bool = False


class BatchAt(NamedTuple):
    """The batch at `offset` (FetchedPartition), decided or not."""

    offset: int
    size: int


class EndOfEpoch(NamedTuple):
    """The largest epoch up to this one that the source has, and where it ends (EpochEnd). None: the leader's own epoch."""

    leader_epoch: int | None


class OnWorker(NamedTuple):
    """Not for the source: a scan of our own log, which is long for a large one and belongs on a worker. Answered with what it returns."""

    work: Callable[[], object]


class Action(Enum):
    """What to do with our log."""

    KEEP = "keep"
    CUT = "cut"
    START_OVER = "start over"
    WAIT = "wait"


class Verdict(NamedTuple):
    """CUT to `offset`; START_OVER at it, with nothing; WAIT: nothing can be said yet."""

    action: Action
    offset: int = -1
    reason: str = ""


Question = EarliestOffset | BatchAt | EndOfEpoch | OnWorker
Inquiry = Generator[Question, Any, Verdict]
KEEP = Verdict(Action.KEEP)


def verify_log(log: UnifiedLog, *, is_compacted: bool) -> Inquiry:
    """Compare our last batch with the source's."""
    last = log.last_batch()
    end = log.log_end_offset
    if last is None and end == 0:
        return KEEP
    source_start = yield from _source_start()
    if last is None:
        return KEEP if end <= source_start else _start_over(source_start)
    if last.base_offset < source_start:
        return KEEP if end < source_start else _start_over(source_start)
    if (yield from _is_equal(last, is_compacted=is_compacted)):
        return _cut_behind(last)
    equal = yield from _last_equal(log, last, source_start, is_compacted=is_compacted)
    return _start_over(source_start) if equal is None else _cut_behind(equal)


def unverified() -> Inquiry:
    """What is done instead without C36b: our log is taken for the beginning of the source's."""
    yield from ()
    return KEEP


def out_of_range(log: UnifiedLog, *, local: bool = False) -> Inquiry:
    """Our log end is no offset that the source can be asked for. `local`: because it is only in remote storage there (FEA11)."""
    source_start = yield from _source_start(local=local)
    end = log.log_end_offset
    if end < source_start:
        return Verdict(Action.START_OVER, source_start, f"the source begins at {source_start}")
    epoch = log.latest_batch_epoch()
    while epoch is not None and epoch >= 0:
        found: EpochEnd = yield EndOfEpoch(epoch)
        if found.epoch == epoch and found.end_offset >= 0:
            return (yield from diverged(log, epoch, found.end_offset))
        limit = min(found.epoch, epoch - 1)
        epoch = yield OnWorker(partial(_largest_epoch_up_to, log, limit))
    return Verdict(Action.WAIT, reason=f"the source knows no epoch of our log, which ends at {end}")


def diverged(log: UnifiedLog, epoch: int, source_end_offset: int) -> Inquiry:
    """The source's log has `epoch` until `source_end_offset`, ours goes on differently."""
    reason = f"epoch {epoch} ends at {source_end_offset} at the source"
    above: int | None = yield OnWorker(partial(first_offset_above, log, epoch))
    target = min(log.log_end_offset if above is None else above, source_end_offset)
    if target < log.log_start_offset:
        return Verdict(Action.START_OVER, (yield from _source_start()), reason)
    return Verdict(Action.CUT, target, reason)


def _source_start(*, local: bool = False) -> Generator[Question, Any, int]:
    """Where a log may be started over; an answer without an offset is none, whatever its error code."""
    source_start: int = yield EarliestOffset(local)
    if source_start < 0:
        raise SourceError(f"the source says that its log begins at {source_start}")
    return source_start


def _start_over(offset: int) -> Verdict:
    return Verdict(Action.START_OVER, offset, "nothing of the log is the source's")


def _cut_behind(batch: BatchHeader) -> Verdict:
    return Verdict(Action.CUT, batch.last_offset + 1, "the log differs from the source's")


def _last_equal(
    log: UnifiedLog, unequal: BatchHeader, source_start: int, *, is_compacted: bool
) -> Generator[Question, Any, BatchHeader | None]:
    """The last batch that equals the source's: stepping back in doubling strides, then bisecting."""
    stride = 1
    while True:
        candidate: BatchHeader | None = unequal
        for _ in range(stride):
            previous = log.batch_before(candidate.base_offset) if candidate is not None else None
            if previous is None:
                break
            candidate = previous
        if candidate is None or candidate is unequal or candidate.base_offset < source_start:
            first = _first_at_or_after(log, source_start)
            if first is None or first.base_offset >= unequal.base_offset:
                return None
            if not (yield from _is_equal(first, is_compacted=is_compacted)):
                return None
            return (yield from _bisect(log, first, unequal, is_compacted=is_compacted))
        if (yield from _is_equal(candidate, is_compacted=is_compacted)):
            return (yield from _bisect(log, candidate, unequal, is_compacted=is_compacted))
        unequal = candidate
        stride *= 2


def _bisect(log: UnifiedLog, equal: BatchHeader, unequal: BatchHeader, *, is_compacted: bool) -> Generator[Question, Any, BatchHeader]:
    between: list[BatchHeader] = yield OnWorker(partial(_headers_between, log, equal.base_offset, unequal.base_offset))
    low, high = 0, len(between)
    while high - low > 1:
        middle = (low + high) // 2
        if (yield from _is_equal(between[middle], is_compacted=is_compacted)):
            low = middle
        else:
            high = middle
    return between[low] if between else equal


def _first_at_or_after(log: UnifiedLog, offset: int) -> BatchHeader | None:
    for header in log.batch_headers(max(offset, log.log_start_offset)):
        if header.base_offset >= offset:
            return header
    return None


def _headers_between(log: UnifiedLog, start_offset: int, end_offset: int) -> list[BatchHeader]:
    return list(itertools.takewhile(lambda header: header.base_offset < end_offset, log.batch_headers(start_offset)))


def _largest_epoch_up_to(log: UnifiedLog, limit: int) -> int | None:
    best: int | None = None
    for header in log.batch_headers(log.log_start_offset):
        if header.partition_leader_epoch > limit:
            break
        best = header.partition_leader_epoch
    return best


def _is_equal(ours: BatchHeader, *, is_compacted: bool) -> Generator[Question, Any, bool]:
    fetched: FetchedPartition = yield BatchAt(ours.base_offset, ours.size_in_bytes)
    if fetched.error is Errors.OFFSET_OUT_OF_RANGE:
        return False
    if fetched.error is not Errors.NONE:
        raise SourceError(f"the batch at {ours.base_offset} could not be compared: {fetched.error.name}", fetched.error)
    if fetched.diverging_epoch >= 0:
        return False
    if next_batch_size(fetched.records, 0) is None:
        end: EpochEnd = yield EndOfEpoch(None)
        if end.end_offset < 0:  # the leader's epoch is not known, or nothing was written in it yet
            end = yield EndOfEpoch(ours.partition_leader_epoch)
            if 0 <= end.epoch < ours.partition_leader_epoch:
                return False
        if 0 <= end.end_offset <= ours.base_offset:
            return False
        raise SourceError(f"the source does not serve the batch at {ours.base_offset} yet (its high watermark is {fetched.high_watermark})")
    return same_batch(ours, next(iter_batches(fetched.records)))
