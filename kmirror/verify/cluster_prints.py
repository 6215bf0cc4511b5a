"""Many logs of two clusters: slices are fingerprinted by an engine (this process, a pool, Spark),
and logs are compared by their chunks.

An engine provides two functions: one that prints slices, and one that runs the comparisons whose
parts must be read. Everything else is here: what has to be read of each log, what an earlier run
knows, and the verdicts of logs whose chunks are equal, for which nothing more is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from kmirror.common.errors import KmirrorError
from kmirror.common.ports import FileSystem
from kmirror.verify.chunk_diff import ComparedChunks, LogPrint, compare_chunks
from kmirror.verify.compared_log import DirectoryLog
from kmirror.verify.diff_tables import PrintedLog
from kmirror.verify.log_diff import DiffSettings, diff_parts
from kmirror.verify.mirror_rules import MirroredEnd, MirroredPartition, end_or_verdict, with_borders
from kmirror.verify.print_diff import facts_of
from kmirror.verify.segment_print import PartitionPlan, SegmentPrint, SlicePrint, plan_partition, print_slice, segment_prints
from kmirror.verify.slices import LogSlice
from kmirror.verify.verdict import LogFacts, PartitionVerdict, error_verdict

KnownPrints = Mapping[str, Mapping[int, SegmentPrint]]
"""What an earlier run knew, by folder, then by base offset."""
SlicePrinter = Callable[[Sequence[tuple[DirectoryLog, LogSlice]]], Iterable[SlicePrint | str]]
"""Prints slices, in their order; returns an error text for one that cannot be read."""
PrintedLogs = Mapping[tuple[str, str], PrintedLog | str]
"""By side and folder: the prints, or why there are none."""


class Planned(NamedTuple):
    """One log of a side."""

    side: str
    log: DirectoryLog
    plan: PartitionPlan | str
    """The plan, or why there is none."""

    @property
    def size_bytes(self) -> int:
        """How many bytes have to be read."""
        return 0 if isinstance(self.plan, str) else sum(piece.size for piece in self.plan.slices)


class ComparedPair(NamedTuple):
    """Two logs whose chunks were compared: the arguments for `diff_parts`."""

    left: DirectoryLog
    right: DirectoryLog
    found: ComparedChunks
    facts: tuple[LogFacts | None, LogFacts | None]
    mirrored_end: MirroredEnd | None = None
    """Where what was mirrored ends, and what is wrong at its borders."""

    def verdict(self, settings: DiffSettings) -> PartitionVerdict:
        """Returns the verdict, after reading the parts if there are any."""
        return self.bordered(diff_parts(self.left, self.right, self.found, settings, facts=self.facts), settings)

    def bordered(self, verdict: PartitionVerdict, settings: DiffSettings) -> PartitionVerdict:
        """Returns the verdict with what is wrong at the borders of what was mirrored."""
        return verdict if self.mirrored_end is None else with_borders(verdict, self.mirrored_end, settings)


def plan_logs(
    logs: Sequence[tuple[str, DirectoryLog]], locations: Mapping[str, str], known: KnownPrints, *, is_deep: bool
) -> list[Planned]:
    """Plans what has to be read of each log. `logs` are (side, log), `locations` the inputs of the
    sides as they were given."""
    planned = []
    for side, log in logs:
        try:
            before = known.get(log.name, {})
            plan: PartitionPlan | str = plan_partition(
                log.files, log.partition, locations[side], before, is_deep=is_deep, cleaned_offset=log.cleaned_offset
            )
        except (OSError, KmirrorError) as error:
            plan = _one_line(error, log)
        planned.append(Planned(side, log, plan))
    return planned


def print_planned(planned: Sequence[Planned], print_slices: SlicePrinter, *, is_deep: bool) -> PrintedLogs:
    """Returns the prints by (side, folder), or why there are none."""
    asked = [(one.log, piece) for one in planned if not isinstance(one.plan, str) for piece in one.plan.slices]
    answers = iter(list(print_slices(asked)))
    found: dict[tuple[str, str], PrintedLog | str] = {}
    for side, log, plan in planned:
        if isinstance(plan, str):
            found[side, log.name] = plan
            continue
        read = [next(answers) for _ in plan.slices]
        failed = next((one for one in read if isinstance(one, str)), None)
        if failed is not None:
            found[side, log.name] = failed
            continue
        prints = segment_prints(log.partition, plan, [one for one in read if not isinstance(one, str)], is_deep=is_deep)
        found[side, log.name] = PrintedLog(side, *log.topic_partition, log.name, prints)
    return found


def compared(
    left: DirectoryLog,
    right: DirectoryLog,
    printed: PrintedLogs,
    sides: tuple[str, str] = ("A", "B"),
    mirrored: MirroredPartition | None = None,
    end: MirroredEnd | PartitionVerdict | None = None,
) -> ComparedPair | PartitionVerdict:
    """Returns what the chunks of two logs say, or an error verdict if one of them could not be
    read. Of a partition that is `mirrored`, what lies below its mirrored end counts; that of one
    that is not stopped is known from its print."""
    one, two = printed[sides[0], left.name], printed[sides[1], right.name]
    for found in (one, two):
        if isinstance(found, str):
            return error_verdict(*left.topic_partition, found)
    assert not isinstance(one, str) and not isinstance(two, str), "both have prints"
    prints = LogPrint(left.partition, one.prints), LogPrint(right.partition, two.prints)
    start_offset = max(left.log_start_offset, right.log_start_offset)
    facts = facts_of(left, prints[0], one.prints), facts_of(right, prints[1], two.prints)
    if mirrored is None:
        return ComparedPair(left, right, compare_chunks(*prints, start_offset), facts)
    if end is None:
        known = None if mirrored.is_stopped or left.log_start_offset != right.log_start_offset else facts[1]
        end = end_or_verdict(left, right, mirrored) if known is None else MirroredEnd(known.log_end_offset)
    if isinstance(end, PartitionVerdict):
        return end
    return ComparedPair(left, right, compare_chunks(*prints, start_offset, end.offset), facts, end)


def printed_slice(files: FileSystem, piece: LogSlice, is_deep: bool, /) -> SlicePrint | str:
    """Returns the print of a slice or, in one line, why it cannot be read."""
    try:
        return print_slice(files, piece, is_deep=is_deep)
    except OSError as error:
        return f"{error.filename or piece.path}: {error.strerror or error}"


def _one_line(error: Exception, log: DirectoryLog) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or log.name}: {error.strerror or error}"
    return str(error)
