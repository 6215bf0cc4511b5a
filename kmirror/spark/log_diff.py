"""`kafka-log-diff --engine spark`: the single-machine functions, in tasks of 64 to 128 MB, on
executors that read both logs themselves.

Folders are listed on the driver. A task carries the names and sizes of the files that it reads, and
returns verdicts or fingerprints. With paths instead of URIs, every executor must see the same disk.

- Without `--output`, small partitions are compared whole, many per task. A large one is cut where
  both logs have a batch at the same offset (`verify.paired_slices`), and bytes are compared. A
  second job classifies the differences of the pieces that differ.
- With `--output`, fingerprints of slices are made, of each side by itself
  (`verify.cluster_prints`), and only those come to the driver. Partitions whose chunks differ are
  compared where they do.

The parts that differ are cut in the same way, so a partition that differs everywhere also becomes
many tasks. One task reads a whole partition only if the keys of both logs must tell whether a
record was compacted or lost.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.spark.job_progress import collected, watched
from kmirror.spark.visible import files_of_task
from kmirror.storage.reader import PartitionFiles
from kmirror.verify.chunk_diff import ComparedChunks
from kmirror.verify.cleaner_facts import CleanerFacts
from kmirror.verify.cluster_prints import ComparedPair, SlicePrinter, printed_slice
from kmirror.verify.compared_log import DirectoryLog
from kmirror.verify.log_diff import DiffSettings, diff_logs, diff_parts, diff_piece, joined
from kmirror.verify.mirror_rules import MirroredEnd, MirroredPartition, diff_mirrored, end_or_verdict
from kmirror.verify.paired_slices import PairedSlice, are_equal, cut_part, is_large, outcome_of, paired_slices, part_bytes
from kmirror.verify.planner import TASK_BYTES, pack, pack_by
from kmirror.verify.segment_print import SlicePrint
from kmirror.verify.slices import LogSlice
from kmirror.verify.verdict import LogFacts, PartitionVerdict, to_json, verdict_from_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LogDescription = tuple[str, PartitionFiles, int, int | None, int, CleanerFacts]
"""Path or URI, the partition's files, log start offset, high watermark, cleaned offset."""
Pair = tuple[DirectoryLog, DirectoryLog]
Progress = Callable[[int], None]
ENDS_IN_A_TASK: Final = 100

T = TypeVar("T")


def _ignore(size: int) -> None:
    """The progress callback for callers that want none."""


def diff_on_spark(
    spark: SparkSession,
    pairs: Sequence[Pair],
    left: str,
    right: str,
    settings: DiffSettings,
    progress: Progress = _ignore,
    mirrored: Mapping[TopicPartition, MirroredPartition] = {},
) -> list[PartitionVerdict]:
    """Returns a verdict for each pair, in no particular order. `left` and `right` are the inputs as
    given, by which executors open them. What is `mirrored` is compared by the mirror's rules."""
    slice_bytes = TASK_BYTES * 7 // 4  # 30 ms to compare, 10 for a task; 1 GB still makes 8
    cut = [(pair, *_cut(*pair, mirrored.get(pair[0].topic_partition), slice_bytes)) for pair in pairs]
    whole = [pair for pair, slices, _ in cut if not slices]
    pieces = [(index, piece) for index, (_, slices, _) in enumerate(cut) for piece in slices]
    described = [(_describe(one, left), _describe(other, right)) for (one, other), _, _ in cut]

    def weight(task: tuple[Any, ...]) -> int:
        return int(task[-1])

    work: list[tuple[Any, ...]] = [
        (
            "whole",
            _describe(one, left),
            _describe(other, right),
            (settings, mirrored.get(one.topic_partition)),
            one.size_bytes + other.size_bytes,
        )
        for one, other in whole
    ]
    work += [("slice", *described[index], piece, piece.left_bytes + piece.right_bytes) for index, piece in pieces]
    answers = _run(spark, pack_by(work, weight, task_bytes=2 * TASK_BYTES), _work, weight, progress)
    verdicts = [verdict_from_json(answer) for answer in answers[: len(whole)]]
    equal: list[list[bool]] = [[] for _ in cut]
    for (index, _), answer in zip(pieces, answers[len(whole) :]):
        equal[index].append(bool(answer))
    outcomes = [_outcome(pair, outcome_of(slices, equal[index]), end) for index, (pair, slices, end) in enumerate(cut) if slices]
    return verdicts + diff_parts_on_spark(spark, outcomes, left, right, settings)


def _cut(
    left: DirectoryLog, right: DirectoryLog, mirrored: MirroredPartition | None, slice_bytes: int
) -> tuple[list[PairedSlice], MirroredEnd | None]:
    """Returns the pieces of two logs (none: they are compared whole), and where what was mirrored of
    them ends."""
    if mirrored is None:
        return paired_slices(left, right, slice_bytes), None
    if not is_large(left, right, slice_bytes):
        return [], None
    end = end_or_verdict(left, right, mirrored)
    if isinstance(end, PartitionVerdict) or end.offset <= max(left.log_start_offset, right.log_start_offset):
        return [], None
    return paired_slices(left, right, slice_bytes, end.offset), end


def _outcome(pair: Pair, found: ComparedChunks, end: MirroredEnd | None) -> ComparedPair:
    if end is None:
        return ComparedPair(*pair, found, (None, None))
    return ComparedPair(*pair, found._replace(end_offset=end.offset), (None, None), end)


def mirrored_ends_on_spark(
    spark: SparkSession, pairs: Sequence[tuple[DirectoryLog, DirectoryLog, MirroredPartition]], left: str, right: str
) -> list[MirroredEnd | PartitionVerdict]:
    """Returns where what was mirrored ends, for each pair. Executors find it, with a few reads
    each."""
    work = [(_describe(one, left), _describe(other, right), mirrored) for one, other, mirrored in pairs]
    tasks = [work[first : first + ENDS_IN_A_TASK] for first in range(0, len(work), ENDS_IN_A_TASK)]
    return _run(spark, tasks, _end, lambda task: 0, _ignore)


def diff_parts_on_spark(
    spark: SparkSession, comparisons: Sequence[ComparedPair], left: str, right: str, settings: DiffSettings
) -> list[PartitionVerdict]:
    """Returns the verdicts of logs that were cut or fingerprinted, in their order, after
    classifying what differs."""
    work: list[tuple[Any, ...]] = []
    owners: list[int] = []
    for index, one in enumerate(comparisons):
        pieces_of_one = _pieces(one)
        for number, (found, size) in enumerate(pieces_of_one, 1):
            owners.append(index)
            is_last = number == len(pieces_of_one)
            work.append((_describe(one.left, left), _describe(one.right, right), found, one.facts, settings, is_last, size))
    answers = _run(spark, pack_by(work, lambda task: int(task[-1]), task_bytes=2 * TASK_BYTES), _diff_piece, lambda task: 0, _ignore)
    pieces: list[list[bytes | None]] = [[] for _ in comparisons]
    for index, answer in zip(owners, answers):
        pieces[index].append(answer)
    whole = [index for index, found in enumerate(pieces) if None in found]
    verdicts = _diff_whole(spark, [comparisons[index] for index in whole], left, right, settings)
    told = dict(zip(whole, verdicts))
    found_of = [
        told[index] if index in told else joined([verdict_from_json(one) for one in found if one is not None], settings.max_differences)
        for index, found in enumerate(pieces)
    ]
    return [comparison.bordered(one, settings) for one, comparison in zip(found_of, comparisons)]


def _pieces(comparison: ComparedPair) -> list[tuple[ComparedChunks, int]]:
    """Returns the parts in groups of about `TASK_BYTES` of each log, large parts cut, with each
    group's bytes. Equal logs make one group without parts, whose task returns the verdict and looks
    up the facts of both logs."""
    left, right, found = comparison[:3]
    parts = [piece for whole in found.parts for piece in cut_part(left, right, whole, TASK_BYTES, found.end_offset)]
    sizes = {part: part_bytes(left, right, part) for part in parts}
    groups = pack_by(parts, sizes.__getitem__, task_bytes=2 * TASK_BYTES, open_cost=0) or [[]]
    return [
        (ComparedChunks(group, 0 if number else found.equal_bytes, found.end_offset), sum(sizes[part] for part in group))
        for number, group in enumerate(groups)
    ]


def _diff_whole(
    spark: SparkSession, comparisons: Sequence[ComparedPair], left: str, right: str, settings: DiffSettings
) -> list[PartitionVerdict]:
    """Returns the same as `diff_parts_on_spark`, with one task per partition."""
    work = [(_describe(one.left, left), _describe(one.right, right), one.found, one.facts, settings) for one in comparisons]
    answers = _run(spark, [[task] for task in work], _diff_parts, lambda task: 0, _ignore)
    return [verdict_from_json(answer) for answer in answers]


def spark_printer(spark: SparkSession, progress: Progress, *, is_deep: bool) -> SlicePrinter:
    """Returns a function that fingerprints slices on the executors."""

    def print_slices(asked: Sequence[tuple[DirectoryLog, LogSlice]]) -> Iterable[SlicePrint | str]:
        tasks = [[(piece, is_deep) for piece in task] for task in pack(piece for _, piece in asked)]
        found: list[SlicePrint | str] = _run(spark, tasks, _print, lambda task: task[0].size, progress)
        return found

    return print_slices


def _run(
    spark: SparkSession, tasks: Sequence[Sequence[T]], work: Callable[[T], Any], weight: Callable[[T], int], progress: Progress
) -> list[Any]:
    """Returns `work` of everything in `tasks`, in order; each list is one Spark task."""
    if not tasks:
        return []

    def run(data: bytes) -> list[Any]:
        return [work(one) for one in pickle.loads(data)]

    rows = spark.sparkContext.parallelize([pickle.dumps(list(task)) for task in tasks], len(tasks)).map(run)
    with watched(spark.sparkContext, [sum(map(weight, task)) for task in tasks], progress):
        answers: list[list[Any]] = collected(rows)
    return [one for task in answers for one in task]


def _describe(log: DirectoryLog, location: str) -> LogDescription:
    return location, log.partition, log.log_start_offset, log.high_watermark, log.cleaned_offset, log.cleaner


def _open(description: LogDescription) -> DirectoryLog:
    location, partition, log_start_offset, high_watermark, cleaned_offset, cleaner = description
    files = files_of_task(location)
    return DirectoryLog(
        files,
        partition,
        log_start_offset=log_start_offset,
        high_watermark=high_watermark,
        cleaned_offset=cleaned_offset,
        cleaner=cleaner,
    )


def _work(task: tuple[Any, ...]) -> bytes | bool:
    """Returns a verdict or, for a slice, whether it is equal; a slice that cannot be read is
    not."""
    kind, left, right, what, _ = task
    if kind == "whole":
        settings, mirrored = what
        logs = _open(left), _open(right)
        return to_json(diff_logs(*logs, settings) if mirrored is None else diff_mirrored(*logs, mirrored, settings))
    assert isinstance(what, PairedSlice), f"a task of {what!r}"
    try:
        return are_equal(_open(left), _open(right), what)
    except (OSError, KmirrorError):
        return False


def _end(task: tuple[LogDescription, LogDescription, MirroredPartition]) -> MirroredEnd | PartitionVerdict:
    left, right, mirrored = task
    return end_or_verdict(_open(left), _open(right), mirrored)


def _diff_piece(task: tuple[Any, ...]) -> bytes | None:
    left, right, found, facts, settings, is_last, _ = task
    verdict = diff_piece(_open(left), _open(right), found, settings, facts=facts, is_last=is_last)
    return None if verdict is None else to_json(verdict)


def _diff_parts(
    task: tuple[LogDescription, LogDescription, ComparedChunks, tuple[LogFacts | None, LogFacts | None], DiffSettings],
) -> bytes:
    left, right, found, facts, settings = task
    return to_json(diff_parts(_open(left), _open(right), found, settings, facts=facts))


def _print(task: tuple[LogSlice, bool]) -> SlicePrint | str:
    piece, is_deep = task
    files = files_of_task(piece.location)
    return printed_slice(files, piece, is_deep)
