"""`kmirror verify-logs --engine spark`: the single-machine functions, in tasks of about 64 MB, on
executors that read the segments themselves.

A partition that lies within one task is closed there: the executor reads its files beside the
segments, and rows come back. A partition of several tasks is a tree: a task merges `FAN_IN`
neighbours, the results are merged in the same way until one partial is left, and the task that
merged it closes it. So a partition of a terabyte needs the memory of `FAN_IN` partials, and the
driver gets rows. Parts are numbered to keep their order, because a merge is associative but not
commutative.

With paths instead of URIs, every executor must see the same disk. Spark runs a lost task again, as
usual; nothing is written.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from kmirror.common.ports import FileSystem
from kmirror.spark.job_progress import collected, watched
from kmirror.spark.one_line import in_one_line
from kmirror.spark.replay_keys import count_keys_on_spark
from kmirror.spark.visible import files_of_task
from kmirror.storage.reader import PartitionFiles
from kmirror.verify.planner import pack_by
from kmirror.verify.replay.claims import DataDirClaims
from kmirror.verify.replay.compaction import KeyCounts, KeyLog
from kmirror.verify.replay.folder import ReplaySettings, close_parts
from kmirror.verify.replay.kept import Identities
from kmirror.verify.replay.partial import ReplayPartial
from kmirror.verify.replay.plan import Cuts, Part, Piece, ReplayPlan, folders_of, merge_all, run_task
from kmirror.verify.replay.tables import ReplayTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAN_IN: Final = 16
"""Partials that one task merges."""


class Closing(NamedTuple):
    """What is needed to close a partition."""

    location: str
    partition: PartitionFiles
    data_dir: DataDirClaims
    settings: ReplaySettings
    identities: Identities | None

    def tables(self, partials: Sequence[ReplayPartial]) -> ReplayTables:
        files = files_of_task(self.location)
        part = Part(self.partition.path, 0, 0, merge_all(partials))
        return close_parts(files, self.partition, [part], self.data_dir, self.settings, self.identities)


class Task(NamedTuple):
    """What one task reads."""

    location: str
    pieces: list[Piece]
    cuts: Cuts
    numbers: dict[str, tuple[int, int]]
    """By a partition's folder: the partition's number, and the number of the part that this task
    reads."""
    whole: dict[int, Closing]
    """By number: partitions that lie completely within this task."""
    check_crc: bool
    unpack: bool


class PartialNode(NamedTuple):
    """A partial in a partition's tree, or the partition's rows at the root."""

    partition: int
    part: int
    """The number among the partials of its level, in the order of the log."""
    found: ReplayPartial | ReplayTables


class SparkReplay:
    """Runs plans in a session."""

    def __init__(self, spark: Callable[[], SparkSession], progress: Callable[[int], None] = lambda size: None) -> None:
        """`spark` returns the session, and is called only if there is something to read; `progress`
        gets the bytes as tasks end."""
        self._spark = spark
        self._progress = progress

    def replay(self, files: FileSystem, plan: ReplayPlan, settings: ReplaySettings) -> list[ReplayTables]:
        tasks = _tasks(plan, settings)
        if not tasks:
            return []
        context = self._spark().sparkContext
        nodes = context.parallelize([pickle.dumps(task) for task in tasks], len(tasks)).flatMap(_read)
        for level in _levels(plan, settings):
            nodes = nodes.map(level.keyed).partitionBy(level.groups, level.group_of).mapPartitions(level.merged)
        with watched(context, [sum(piece.size for piece in task.pieces) for task in tasks], self._progress):
            closed = {node.partition: node.found for node in collected(nodes)}
        return [closed[number] for number in range(len(plan.partitions))]

    def count_keys(self, files: FileSystem, logs: Sequence[KeyLog]) -> list[KeyCounts]:
        return count_keys_on_spark(self._spark(), logs, self._progress) if logs else []


def _tasks(plan: ReplayPlan, settings: ReplaySettings) -> list[Task]:
    numbers = {partition.path: number for number, partition in enumerate(plan.partitions)}
    counts = plan.part_counts
    given: dict[str, int] = {}

    def closing(number: int) -> Closing:
        return _closing(plan, settings, number)

    tasks = []
    for pieces in plan.tasks:
        folders = folders_of(pieces)
        parts = {folder: (numbers[folder], given.get(folder, 0)) for folder in folders}
        for folder in folders:
            given[folder] = given.get(folder, 0) + 1
        whole = {numbers[folder]: closing(numbers[folder]) for folder in folders if counts[folder] == 1}
        cuts = {folder: plan.cuts[folder] for folder in folders}
        tasks.append(Task(plan.location, pieces, cuts, parts, whole, settings.check_crc, settings.unpack))
    empty = [number for number, partition in enumerate(plan.partitions) if not counts[partition.path]]
    for some in pack_by(empty, lambda number: 0):
        tasks.append(Task(plan.location, [], {}, {}, {number: closing(number) for number in some}, settings.check_crc, settings.unpack))
    return tasks


def _closing(plan: ReplayPlan, settings: ReplaySettings, number: int) -> Closing:
    partition = plan.partitions[number]
    topic = partition.topic_partition.topic
    known = settings.compacted_topics
    own = None if known is None else tuple(name for name in (topic,) if name in known)
    return Closing(
        plan.location, partition, plan.claims_of(partition), replace(settings, compacted_topics=own), plan.identities.get(partition.path)
    )


@in_one_line
def _read(data: bytes) -> Iterator[PartialNode]:
    """Yields the nodes of a task: rows of partitions that lie completely within it, partials of the
    others."""
    task: Task = pickle.loads(data)
    files = files_of_task(task.location)
    parts = run_task(files, task.pieces, task.cuts, check_crc=task.check_crc, unpack=task.unpack)
    partials = {part.folder: part.partial for part in parts}
    read = {task.numbers[folder][0]: partial for folder, partial in partials.items()}
    for number, closing in task.whole.items():
        yield PartialNode(number, 0, closing.tables([read[number]] if number in read else []))
    for folder, (number, part) in task.numbers.items():
        if number not in task.whole:
            yield PartialNode(number, part, partials[folder])


class _Level:
    """One level of the trees: `FAN_IN` parts become one. Finished partitions pass through."""

    def __init__(self, counts: dict[int, int], closings: dict[int, bytes]) -> None:
        """`counts`: the number of parts of each unfinished partition. `closings`: of the partitions
        that have one part left after this level."""
        self._first_group: dict[int, int] = {}
        self._closings = closings
        self.groups = 0
        for partition, count in counts.items():
            self._first_group[partition] = self.groups
            self.groups += -(-count // FAN_IN)

    def keyed(self, node: PartialNode) -> tuple[int, PartialNode]:
        """Returns the group that a node belongs to, and the node."""
        first = self._first_group.get(node.partition)
        return (node.partition % self.groups if first is None else first + node.part // FAN_IN), node

    def group_of(self, group: int) -> int:
        return group

    def merged(self, keyed: Iterable[tuple[int, PartialNode]]) -> Iterator[PartialNode]:
        """Yields the result of one group."""
        parts: list[PartialNode] = []
        for _, node in keyed:
            if isinstance(node.found, ReplayTables):
                yield node
            else:
                parts.append(node)
        if parts:
            yield _joined(sorted(parts, key=lambda node: node.part), self._closings)


@in_one_line
def _joined(parts: list[PartialNode], closings: dict[int, bytes]) -> PartialNode:
    partition = parts[0].partition
    partials = [node.found for node in parts if isinstance(node.found, ReplayPartial)]
    closing = closings.get(partition)
    found = merge_all(partials) if closing is None else pickle.loads(closing).tables(partials)
    return PartialNode(partition, parts[0].part // FAN_IN, found)


def _levels(plan: ReplayPlan, settings: ReplaySettings) -> Iterator[_Level]:
    counts = {number: plan.part_counts[partition.path] for number, partition in enumerate(plan.partitions)}
    counts = {number: count for number, count in counts.items() if count > 1}
    while counts:
        following = {number: -(-count // FAN_IN) for number, count in counts.items()}
        through = [number for number, count in following.items() if count == 1]
        yield _Level(counts, {number: pickle.dumps(_closing(plan, settings, number)) for number in through})
        counts = {number: count for number, count in following.items() if count > 1}
