"""Whether our log is the beginning of the source's: C36b, before the first append of a fetcher and after every new source epoch.

Epoch numbers alone do not tell: two clusters hand them out independently, so equal numbers do not mean equal batches. What
tells is the last batch. It is fetched from the source at its base offset and compared: offsets, leader epoch, producer
fields, largest timestamp, and the CRC unless the topic is compacted. Equal: everything before it is equal too, for the
log grew by appending the source's batches in order. Unequal: step back 1, 2, 4 ... batches to an equal one, bisect to the last
equal one, and cut behind it. None: start again at the source's log start. An empty log whose end lies above the source's
log start begins there as well, or the records between would be skipped silently (F16).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from kmirror.common.errors import Errors
from kmirror.mirror.source_cluster import SourceError
from kmirror.mirror.source_end_point import FetchedPartition
from kmirror.record.record_batch import RecordBatch, next_batch_size
from kmirror.replica.log_verification import same_batch
from kmirror.storage.batch_header import BatchHeader
from kmirror.storage.unified_log import UnifiedLog


class Verdict(NamedTuple):
    """Cut the log to `offset` (its end: nothing to cut), or drop all of it and start at `offset`."""

    offset: int
    start_over: bool


class SourceLog(NamedTuple):
    """What is asked of the source. `fetch_batch(offset, size)`; `end_offset` is that of the source's latest epoch."""

    fetch_batch: Callable[[int, int], Awaitable[FetchedPartition]]
    earliest_offset: Callable[[], Awaitable[int]]
    end_offset: Callable[[], Awaitable[int]]


async def verify_log(log: UnifiedLog, source: SourceLog, *, is_compacted: bool) -> Verdict:
    """Compare our last batch with the source's. SourceError: no answer, or none that says anything yet."""
    last = log.last_batch()
    source_start = await source.earliest_offset()
    if last is None:
        end = log.log_end_offset
        return Verdict(end, False) if end <= source_start else Verdict(source_start, True)
    if last.base_offset < source_start:
        return Verdict(log.log_end_offset, False) if log.log_end_offset < source_start else Verdict(source_start, True)
    if await _is_equal(last, source, is_compacted=is_compacted):
        return Verdict(last.last_offset + 1, False)
    equal = await _last_equal(log, last, source, source_start, is_compacted=is_compacted)
    return Verdict(source_start, True) if equal is None else Verdict(equal.last_offset + 1, False)


async def _last_equal(
    log: UnifiedLog, unequal: BatchHeader, source: SourceLog, source_start: int, *, is_compacted: bool
) -> BatchHeader | None:
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
            if first is None or first.base_offset >= unequal.base_offset or not await _is_equal(first, source, is_compacted=is_compacted):
                return None
            return await _bisect(log, first, unequal, source, is_compacted=is_compacted)
        if await _is_equal(candidate, source, is_compacted=is_compacted):
            return await _bisect(log, candidate, unequal, source, is_compacted=is_compacted)
        unequal = candidate
        stride *= 2


async def _bisect(log: UnifiedLog, equal: BatchHeader, unequal: BatchHeader, source: SourceLog, *, is_compacted: bool) -> BatchHeader:
    between = []
    for header in log.batch_headers(equal.base_offset):
        if header.base_offset >= unequal.base_offset:
            break
        between.append(header)
    low, high = 0, len(between)
    while high - low > 1:
        middle = (low + high) // 2
        if await _is_equal(between[middle], source, is_compacted=is_compacted):
            low = middle
        else:
            high = middle
    return between[low] if between else equal


def _first_at_or_after(log: UnifiedLog, offset: int) -> BatchHeader | None:
    for header in log.batch_headers(max(offset, log.log_start_offset)):
        if header.base_offset >= offset:
            return header
    return None


async def _is_equal(ours: BatchHeader, source: SourceLog, *, is_compacted: bool) -> bool:
    fetched = await source.fetch_batch(ours.base_offset, ours.size_in_bytes)
    if fetched.error is Errors.OFFSET_OUT_OF_RANGE:
        return False
    if fetched.error is not Errors.NONE:
        raise SourceError(f"the batch at {ours.base_offset} could not be compared: {fetched.error.name}", fetched.error)
    if fetched.diverging_epoch >= 0:
        return False
    if next_batch_size(fetched.records, 0) is None:
        if await source.end_offset() <= ours.base_offset:
            return False
        raise SourceError(f"the source does not serve the batch at {ours.base_offset} yet (its high watermark is {fetched.high_watermark})")
    return same_batch(ours, RecordBatch(fetched.records), is_compacted=is_compacted)
