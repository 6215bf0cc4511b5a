"""Finds where our log and the source's diverge, by comparing batches.

A batch of ours that overlaps one of the source's is either equal to it or different
(`replica.log_verification`). If it is equal, everything before it is the source's, because our log
grew by appending the source's batches in order. If it is different, nothing from it on is the
source's. A hole at the source decides nothing; then the next overlapping batches decide. So equal
batches come first in our log, then different ones, with undecided ones among them. The border is
found by stepping back 1, 2, 4 ... batches to an equal one, then by bisecting.

That is true of a log that grew from the source's. In any other log an equal batch proves nothing
about other batches: two logs that one application wrote may be equal in places. For such logs, and
where the rest must equal a fresh copy although cleaners may have been at work, every batch is
compared from the beginning on, and must be identical (`identical_until`). That reads the source's
log and writes nothing.

Batches beyond the source's end count as different. The source's end is the end of its latest epoch,
never what ListOffsets says: the high watermark falls back when a source restarts. What the source
has but does not serve yet is asked for again later.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator
from functools import partial
from typing import Any, NamedTuple

from kmirror.common.errors import Errors
from kmirror.common.ports import Buffer
from kmirror.mirror.logs.log_questions import BatchAt, ComparedLog, EarliestOffset, EndOfEpoch, OnWorker, Question
from kmirror.mirror.source.source_cluster import SourceError
from kmirror.mirror.source.source_end_point import EpochEnd, FetchedPartition
from kmirror.record.record_batch import RecordBatch, iter_batches, next_batch_size
from kmirror.replica.log_verification import Overlap, same_batch
from kmirror.storage.batch_header import BatchHeader

ALONE_IN_ITS_REQUEST_BYTES = 8 << 20
CHANGING = "the source's log changed during the comparison"


class Comparison(NamedTuple):
    """Our last batch that is the source's, and our first that is not, if there are any.
    `is_border_known`: none of our batches lies between the two.
    """

    equal: BatchHeader | None
    different: BatchHeader | None
    is_border_known: bool = False


Finding = Generator[Question, Any, Comparison]


def compare(log: ComparedLog, source_start: int, *, until: int) -> Finding:
    """Compares our batches that begin in [source_start, until)."""
    last = log.batch_before(until)
    if last is None or last.base_offset < source_start:
        return Comparison(None, None)
    found = yield from _probe(log, last, until)
    if found is not None and found.is_same:
        return Comparison(found.ours, None, True)
    different = None if found is None else found.ours
    bound, stride = last, 1
    while True:
        candidate = _back(log, bound, stride, source_start)
        if candidate is None:
            return Comparison(None, different)
        found = yield from _probe(log, candidate, until)
        if found is not None and found.is_same:
            return (yield from _bisect(log, found.ours, bound, different, until))
        different = different if found is None else found.ours
        bound, stride = candidate, 2 * stride


def identical_until(log: ComparedLog, source_start: int) -> Generator[Question, Any, int]:
    """The end of the run of batches from `source_start` on that are byte for byte the same in both
    logs; `source_start` if they begin differently.
    """
    ours = log.batch_containing(source_start)
    if ours is None or ours.base_offset < source_start or log.log_start_offset > source_start:
        return source_start
    offset = source_start
    while ours is not None:
        records = yield from records_of_source(ours, ALONE_IN_ITS_REQUEST_BYTES, offset)
        if not isinstance(records, Buffer):
            break
        end, is_all = yield OnWorker(partial(_identical, log, offset, records))
        offset = max(offset, end)
        if not is_all:
            break
        ours = log.batch_containing(offset)
    return offset


def _identical(log: ComparedLog, offset: int, records: Buffer) -> tuple[int, bool]:
    """The end of the first batches in `records` that are identical to ours from `offset` on (-1 if
    none is), and whether all batches in `records` are.
    """
    end = -1
    ours = log.batch_headers(offset)
    for theirs in iter_batches(records):
        mine = next(ours, None)
        if mine is None or not _is_identical(mine, theirs):
            return end, False
        end = mine.next_offset
    return end, end >= 0


def _is_identical(ours: BatchHeader, theirs: RecordBatch) -> bool:
    """Whether both batches are identical; the CRC covers the fields that are not compared here."""
    return (ours.magic, ours.base_offset, ours.partition_leader_epoch, ours.size_in_bytes, ours.crc) == (
        theirs.magic,
        theirs.base_offset,
        theirs.partition_leader_epoch,
        theirs.size_in_bytes,
        theirs.crc,
    )


def _back(log: ComparedLog, header: BatchHeader, stride: int, source_start: int) -> BatchHeader | None:
    """The batch up to `stride` batches before `header`; None if there is none that the source may
    have.
    """
    found = None
    for _ in range(stride):
        previous = log.batch_before(header.base_offset)
        if previous is None or previous.base_offset < source_start:
            break
        found = header = previous
    return found


def _bisect(log: ComparedLog, equal: BatchHeader, bound: BatchHeader, different: BatchHeader | None, until: int) -> Finding:
    """Finds the border between `equal`, which is the source's, and `bound`, from which on nothing
    is.
    """
    between: list[BatchHeader] = yield OnWorker(partial(_headers_between, log, equal.base_offset, bound.base_offset))
    low, high = 0, len(between)
    while high - low > 1:
        middle = (low + high) // 2
        found = yield from _probe(log, between[middle], until)
        if found is not None and found.is_same:
            low = next((number for number in range(middle, high) if between[number].base_offset == found.ours.base_offset), -1)
            if low < 0:
                raise SourceError(CHANGING)
        else:
            different, high = different if found is None else found.ours, middle
    if not between:
        raise SourceError(CHANGING)
    following = between[low + 1] if low + 1 < len(between) else bound
    return Comparison(between[low], different, different is not None and different.base_offset == following.base_offset)


def _probe(log: ComparedLog, header: BatchHeader, until: int) -> Generator[Question, Any, Overlap | None]:
    """Our first batch from `header` on that overlaps one of the source's, or lies beyond the
    source's end; None if there is none.
    """
    our: BatchHeader | None = header
    while our is not None and our.base_offset < until:
        theirs = yield from _batch_of_source(our)
        if theirs is _BEHIND_ITS_END:
            return Overlap(our, is_same=False)
        if not isinstance(theirs, RecordBatch):
            return None
        if theirs.last_offset < our.base_offset:
            raise SourceError(f"the source returned the batch at offset {theirs.base_offset} for a request for offset {our.base_offset}")
        our = log.batch_containing(max(our.base_offset, theirs.base_offset))
        if our is not None and our.base_offset < until and our.base_offset <= theirs.last_offset:
            return Overlap(our, is_same=same_batch(our, theirs))
    return None


_BEHIND_ITS_END = object()


def _batch_of_source(ours: BatchHeader) -> Generator[Question, Any, RecordBatch | object | None]:
    """The source's first batch from the position of ours on: `_BEHIND_ITS_END` if its log ends
    before that, None if only a hole follows up to its end.
    """
    records = yield from records_of_source(ours, ours.size_in_bytes, ours.base_offset)
    return next(iter_batches(records)) if isinstance(records, Buffer) else records


def records_of_source(ours: BatchHeader, size: int, offset: int) -> Generator[Question, Any, Buffer | object | None]:
    """Up to `size` bytes, but at least one batch, of what the source has from `offset` on, where
    our next batch is `ours`; otherwise `_BEHIND_ITS_END` or None as in `_batch_of_source`.
    """
    fetched: FetchedPartition = yield BatchAt(offset, size)
    if fetched.error is Errors.OFFSET_OUT_OF_RANGE:
        source_start: int = yield EarliestOffset()
        if source_start > offset:
            raise SourceError(CHANGING)
        return _BEHIND_ITS_END
    if fetched.error is not Errors.NONE:
        raise SourceError(f"the batch at offset {ours.base_offset} could not be compared: {fetched.error.name}", fetched.error)
    if fetched.diverging_epoch >= 0:
        return _BEHIND_ITS_END
    if next_batch_size(fetched.records, 0) is None:
        if (yield from _ends_before(ours)):
            return _BEHIND_ITS_END
        if fetched.high_watermark <= ours.last_offset:
            reason = f"the source does not serve the batch at {ours.base_offset} yet (its high watermark is {fetched.high_watermark})"
            raise SourceError(reason)
        fetched = yield BatchAt(offset, ALONE_IN_ITS_REQUEST_BYTES)  # the answer may have had no room for a larger batch
        if next_batch_size(fetched.records, 0) is None:
            return None
    return fetched.records


def _ends_before(ours: BatchHeader) -> Generator[Question, Any, bool]:
    """Whether the source's log ends at or before the start of our batch."""
    end: EpochEnd = yield EndOfEpoch(None)
    if end.end_offset < 0:  # the leader's epoch is not known, or nothing was written in it yet
        end = yield EndOfEpoch(ours.partition_leader_epoch)
        if 0 <= end.epoch < ours.partition_leader_epoch:
            return True
    return 0 <= end.end_offset <= ours.base_offset


def _headers_between(log: ComparedLog, start_offset: int, end_offset: int) -> list[BatchHeader]:
    return list(itertools.takewhile(lambda header: header.base_offset < end_offset, log.batch_headers(start_offset)))
