"""Compares two logs by the prints of their segments (`segment_print`), with the same verdict as
`diff_logs`, which reads both side by side.

Each log is read where it lies, and once; only chunks are compared. Both logs are opened again only
where chunks differ. So the verdict is the same in all cases but one that fingerprints cannot see:
two batches with the same header, CRC included, both CRCs sound, and different bodies. `is_deep`
sees that too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kmirror.verify.chunk_diff import LogPrint, compare_chunks
from kmirror.verify.compared_log import DirectoryLog
from kmirror.verify.log_diff import DiffSettings, diff_parts
from kmirror.verify.segment_print import SegmentPrint, plan_partition, print_slice, segment_prints
from kmirror.verify.verdict import LogFacts, PartitionVerdict


def _ignore(size: int) -> None:
    """The progress callback for callers that want none."""


def print_log(
    log: DirectoryLog,
    location: str,
    known: Mapping[int, SegmentPrint] = {},
    *,
    is_deep: bool = False,
    progress: Callable[[int], None] = _ignore,
) -> list[SegmentPrint]:
    """Reads what is new or changed since `known`, all in this process. OSError as the file system
    says."""
    plan = plan_partition(log.files, log.partition, location, known, is_deep=is_deep, cleaned_offset=log.cleaned_offset)
    read = []
    for piece in plan.slices:
        read.append(print_slice(log.files, piece, is_deep=is_deep))
        progress(piece.size)
    return segment_prints(log.partition, plan, read, is_deep=is_deep)


def diff_prints(
    left: DirectoryLog,
    right: DirectoryLog,
    left_prints: Sequence[SegmentPrint],
    right_prints: Sequence[SegmentPrint],
    settings: DiffSettings,
) -> PartitionVerdict:
    """Compares two logs that were printed. Never raises for what is in them."""
    one, two = LogPrint(left.partition, left_prints), LogPrint(right.partition, right_prints)
    found = compare_chunks(one, two, max(left.log_start_offset, right.log_start_offset))
    facts = facts_of(left, one, left_prints), facts_of(right, two, right_prints)
    return diff_parts(left, right, found, settings, facts=facts)


def facts_of(log: DirectoryLog, known: LogPrint, prints: Sequence[SegmentPrint]) -> LogFacts | None:
    """Returns what is known without reading; None for a log that is not sound."""
    if not known.is_sound:
        return None
    for one in reversed(prints):
        if len(one.chunks):
            return log.facts_of(int(one.chunks["last_offset"][-1]) + 1, known.trailing_bytes)
        if one.base_offset > log.log_start_offset:
            return log.facts_of(one.base_offset, known.trailing_bytes)
    return log.facts_of(log.log_start_offset, known.trailing_bytes)
