"""Reads a log again that changed while it was read.

A cleaner or retention at work makes gaps, files that are gone, and batches that do not fit each
other, and none of that is damage. So a finding about a log counts only if its segments are still
those that were listed. Otherwise the log is listed and read again. A log that changes each time is
not judged, and that is said. A log whose folder was deleted or renamed is no longer one. A file that
is there whenever it is listed, and never where it is read, is missing only on the machine that
reads: that is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from kmirror.common.errors import KmirrorError
from kmirror.common.ports import FileSystem
from kmirror.storage.reader import PartitionFiles
from kmirror.verify.moving_logs import MAX_READINGS, has_moved, listed_again
from kmirror.verify.planner import MAX_OFFSET, Listing
from kmirror.verify.replay.findings import Finding
from kmirror.verify.replay.plan import ReplayPlan, plan_tasks
from kmirror.verify.replay.structure import GONE
from kmirror.verify.replay.tables import ReplayTables

Replay = Callable[[ReplayPlan], Iterable[ReplayTables]]


def replay_until_settled(
    files: FileSystem, plan: ReplayPlan, replay: Replay, pause: Callable[[], None]
) -> tuple[ReplayPlan, list[ReplayTables]]:
    """Returns the plan's logs that are there, as they were read last, and their tables. `pause` is
    called before logs are read again."""
    closed = list(replay(plan))
    partitions: list[PartitionFiles | None] = list(plan.partitions)
    for reading in range(1, MAX_READINGS + 1):
        moved = _moved(files, partitions, closed)
        if not moved:
            break
        if reading == MAX_READINGS:
            for index, now in moved.items():
                before = partitions[index]
                if before is None or now is None:
                    continue
                if has_moved(before, now):
                    closed[index] = _not_judged(closed[index])
                else:
                    _check_seen(files, now, closed[index])
            break
        pause()
        for index, now in moved.items():
            partitions[index] = now
        again = [now for now in moved.values() if now is not None]
        found = iter(replay(_plan_of(files, plan, again)))
        for index, now in moved.items():
            closed[index] = ReplayTables() if now is None else next(found)
    there = [(partition, tables) for partition, tables in zip(partitions, closed) if partition is not None]
    return replace(plan, partitions=[partition for partition, _ in there]), [tables for _, tables in there]


def _moved(
    files: FileSystem, partitions: Sequence[PartitionFiles | None], closed: Sequence[ReplayTables]
) -> dict[int, PartitionFiles | None]:
    """Returns the logs whose tables may be wrong because their folders changed: what the folders
    hold now, None for those that are gone."""
    moved: dict[int, PartitionFiles | None] = {}
    for index, (partition, tables) in enumerate(zip(partitions, closed)):
        if partition is None or not _is_in_doubt(partition, tables):
            continue
        now = listed_again(files, partition)
        if now is None or _has_met_a_gap(partition, tables) or (has_moved(partition, now) and (tables.findings or _has_more(now, tables))):
            moved[index] = now
    return moved


def _is_in_doubt(partition: PartitionFiles, tables: ReplayTables) -> bool:
    """Whether something was found, or less was read than a log has; there is always a segment."""
    read = sum(row.segments for row in tables.logs)
    return bool(tables.findings or partition.swaps) or read < max(len(partition.segments), 1)


def _has_met_a_gap(partition: PartitionFiles, tables: ReplayTables) -> bool:
    """Whether a listed segment had no file when it was read, even if it has one again."""
    return any(finding.kind == GONE and finding.file not in partition.dangling_paths for finding in tables.findings)


def _check_seen(files: FileSystem, now: PartitionFiles, tables: ReplayTables) -> None:
    """KmirrorError if a segment can be opened here that had no file where it was read."""
    listed = {segment.path() for segment in now.segments}
    for finding in tables.findings:
        if finding.kind == GONE and finding.file in listed and _can_be_opened(files, finding.file):
            raise KmirrorError(
                f"{finding.file} is there, but not where it was read, {MAX_READINGS} times; "
                "put the logs where all executors see them under one path, or use --engine local"
            )


def _can_be_opened(files: FileSystem, path: str) -> bool:
    try:
        files.open(path, write=False).close()
    except OSError:
        return False
    return True


def _has_more(now: PartitionFiles, tables: ReplayTables) -> bool:
    """Whether the log has segments that were not read, up to the last one that was. They were
    passed over as deleted, or not listed, while a cleaner put others in their place."""
    read = {row.base_offset for row in tables.structure}
    last = max(read, default=MAX_OFFSET)
    return any(segment.base_offset not in read for segment in now.segments if segment.base_offset <= last)


def _plan_of(files: FileSystem, plan: ReplayPlan, partitions: list[PartitionFiles]) -> ReplayPlan:
    listing = Listing(plan.location, plan.location, partitions, False, {})
    return ReplayPlan(plan.location, partitions, plan.data_dirs, plan_tasks(files, listing))


def _not_judged(tables: ReplayTables) -> ReplayTables:
    """Returns the tables with one finding in place of all: what was found may be no damage."""
    (row,) = tables.logs
    text = (
        f"segments were replaced or deleted each of the {MAX_READINGS} times that they were read, so the log is not judged; verify it again"
    )
    finding = Finding(
        row.log,
        row.topic,
        row.partition,
        "structure",
        "moving",
        row.log,
        None,
        None,
        None,
        None,
        text,
    )
    return replace(tables, findings=[finding], logs=[replace(row, findings=1)], kept=[])
