"""The engines of `kafka-log-diff --output DIR`, which print slices and compare parts that differ.

The local engine prints slices in this process or, if there is much data, in one process per core.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Final, Protocol

from kmirror.cli.large_inputs import COMPARE_FEWER, POOL_THRESHOLD_BYTES, process_pool, result_of
from kmirror.common.topic_partition import TopicPartition
from kmirror.verify.cluster_prints import ComparedPair, Planned, PrintedLogs, SlicePrinter, compared, print_planned, printed_slice
from kmirror.verify.compared_log import DirectoryLog
from kmirror.verify.log_diff import DiffSettings
from kmirror.verify.mirror_rules import MirroredEnd, MirroredPartition, end_or_verdict
from kmirror.verify.segment_print import SlicePrint
from kmirror.verify.slices import LogSlice
from kmirror.verify.verdict import PartitionVerdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Stopped = tuple[DirectoryLog, DirectoryLog, MirroredPartition]
MAX_ENDS_ON_DRIVER: Final = 64
"""Up to this many ends of stopped mirrors are found without a Spark job."""


class ComparedGroup(Protocol):
    """A group of logs that `log_diff_run` compares in pairs."""

    @property
    def folders(self) -> list[tuple[DirectoryLog, DirectoryLog]]: ...

    @property
    def sides(self) -> tuple[str, str]: ...

    @property
    def locations(self) -> tuple[str, str]: ...

    @property
    def settings(self) -> DiffSettings: ...

    @property
    def mirrored(self) -> Mapping[TopicPartition, MirroredPartition]: ...


class PrintEngine(Protocol):
    """Prints slices, and compares parts that differ."""

    def printing(self, size_bytes: int, progress: Callable[[int], None], *, is_deep: bool) -> AbstractContextManager[SlicePrinter]: ...

    def ends(self, group: ComparedGroup, stopped: Sequence[Stopped]) -> list[MirroredEnd | PartitionVerdict]:
        """Returns where what was mirrored of each ends."""
        ...

    def verdicts(self, comparisons: Sequence[ComparedPair], group: ComparedGroup) -> list[PartitionVerdict]: ...


def print_logs(engine: PrintEngine, planned: Sequence[Planned], progress: Callable[[int], None], *, is_deep: bool) -> PrintedLogs:
    """Returns the prints of all logs."""
    with engine.printing(sum(one.size_bytes for one in planned), progress, is_deep=is_deep) as print_slices:
        return print_planned(planned, print_slices, is_deep=is_deep)


def diff_by_prints(engine: PrintEngine, group: ComparedGroup, printed: PrintedLogs) -> list[PartitionVerdict]:
    """Returns the verdicts of a group; the engine reads only where chunks differ."""
    mirrored = group.mirrored
    stopped = [
        (*pair, mirrored[name]) for pair in group.folders if (name := pair[0].topic_partition) in mirrored and mirrored[name].is_stopped
    ]
    ends = dict(zip((left.topic_partition for left, _, _ in stopped), engine.ends(group, stopped)))
    outcomes = [
        compared(left, right, printed, group.sides, mirrored.get(left.topic_partition), ends.get(left.topic_partition))
        for left, right in group.folders
    ]
    comparisons = [one for one in outcomes if isinstance(one, ComparedPair)]
    verdicts = [one for one in outcomes if isinstance(one, PartitionVerdict)]
    verdicts += [one.verdict(group.settings) for one in comparisons if not one.found.parts]
    return verdicts + engine.verdicts([one for one in comparisons if one.found.parts], group)


class LocalPrintEngine:
    """Works on this machine."""

    def printing(self, size_bytes: int, progress: Callable[[int], None], *, is_deep: bool) -> AbstractContextManager[SlicePrinter]:
        return local_printer(size_bytes, progress, is_deep=is_deep)

    def ends(self, group: ComparedGroup, stopped: Sequence[Stopped]) -> list[MirroredEnd | PartitionVerdict]:
        return [end_or_verdict(*one) for one in stopped]

    def verdicts(self, comparisons: Sequence[ComparedPair], group: ComparedGroup) -> list[PartitionVerdict]:
        return [one.verdict(group.settings) for one in comparisons]


class SparkPrintEngine:
    """Works on Spark's executors; the driver sees only fingerprints and verdicts."""

    def __init__(self, master: str | None) -> None:
        self._master = master

    def _session(self) -> SparkSession:
        from kmirror.spark.session import spark_session

        return spark_session("kafka-log-diff", master=self._master)

    def printing(self, size_bytes: int, progress: Callable[[int], None], *, is_deep: bool) -> AbstractContextManager[SlicePrinter]:
        from kmirror.spark.log_diff import spark_printer

        return nullcontext(spark_printer(self._session(), progress, is_deep=is_deep) if size_bytes else _nothing)

    def ends(self, group: ComparedGroup, stopped: Sequence[Stopped]) -> list[MirroredEnd | PartitionVerdict]:
        if len(stopped) <= MAX_ENDS_ON_DRIVER:
            return [end_or_verdict(*one) for one in stopped]
        from kmirror.spark.log_diff import mirrored_ends_on_spark

        return mirrored_ends_on_spark(self._session(), stopped, *group.locations)

    def verdicts(self, comparisons: Sequence[ComparedPair], group: ComparedGroup) -> list[PartitionVerdict]:
        from kmirror.spark.log_diff import diff_parts_on_spark

        return diff_parts_on_spark(self._session(), comparisons, *group.locations, group.settings) if comparisons else []


def _nothing(slices: Sequence[tuple[DirectoryLog, LogSlice]]) -> Iterator[SlicePrint | str]:
    """Print slices without a session, when nothing has to be read.

    Unchanged segments are not read again, so these slices are of empty segments.
    """
    for log, piece in slices:
        yield printed_slice(log.files, piece, False)


@contextmanager
def local_printer(size_bytes: int, progress: Callable[[int], None], *, is_deep: bool) -> Iterator[SlicePrinter]:
    """Yields a printer that works in this process, or for much data in one process per core."""
    if size_bytes < POOL_THRESHOLD_BYTES or (os.cpu_count() or 1) < 2:

        def one_by_one(slices: Sequence[tuple[DirectoryLog, LogSlice]]) -> Iterator[SlicePrint | str]:
            for log, piece in slices:
                yield printed_slice(log.files, piece, is_deep)
                progress(piece.size)

        yield one_by_one
        return
    with process_pool() as pool:

        def in_parallel(slices: Sequence[tuple[DirectoryLog, LogSlice]]) -> Iterator[SlicePrint | str]:
            waiting = [pool.submit(printed_slice, log.files, piece, is_deep) for log, piece in slices]
            for (_, piece), one in zip(slices, waiting):
                yield result_of(one, "read segments", COMPARE_FEWER)
                progress(piece.size)

        yield in_parallel
