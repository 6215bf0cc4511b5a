"""What a real cleaner does is called compacted, and what it cannot have done is not.

A log and its copy, with a lag (`min.compaction.lag.ms`), are cleaned at times of their own. Then one
record goes that no pass can have removed: its key came again only in what is younger than the lag,
or in the newest segment. By keys and the cleaner's checkpoint alone it looks compacted.
"""

from __future__ import annotations

import pathlib
import random
import tempfile
from collections.abc import Iterator

import pytest
from support.logs.cluster_stories import copy_log
from support.logs.replay_stories import FILES, Story

from kmirror.record.builder import rebuild_batch
from kmirror.record.record import Record
from kmirror.record.record_batch import RecordBatch, iter_batches
from kmirror.verify.cleaner_facts import ANY_OFFSET, CleanerFacts
from kmirror.verify.compared_log import DirectoryLog
from kmirror.verify.data_dir_logs import open_folder
from kmirror.verify.log_diff import DiffSettings, diff_logs
from kmirror.verify.verdict import DifferenceKind, PartitionVerdict, Status

SETTINGS = DiffSettings(frozenset({DifferenceKind.COMPACTED}), max_differences=10_000, scratch=tempfile.TemporaryFile)
LAG_MS = 3_000


def lagging(folder: pathlib.Path, seed: int) -> Story:
    return Story(folder, seed, others=("roll", "roll"), policy="compact", configs={"min.compaction.lag.ms": str(LAG_MS)})


def told(folder: pathlib.Path, seed: int) -> int:
    """Writes `a` and `b`, and returns the time at their end."""
    chance = random.Random(seed)
    source, copy = lagging(folder / "a", seed), lagging(folder / "b", seed + 1)
    for _ in range(chance.randrange(4, 8)):
        source.tell(chance.randrange(10, 25))
        copy_log(source.log, copy.log, limit=source.log.log_end_offset)
        for one in (source, copy):
            one.world.clock.now_ms = max(source.world.clock.now_ms, copy.world.clock.now_ms) + chance.choice((0, 500, 5_000))
            if chance.random() < 0.6:
                one.clean()
    for one in (source, copy):
        one.end()
    return max(source.world.clock.now_ms, copy.world.clock.now_ms)


def opened(folder: pathlib.Path, facts: CleanerFacts | None) -> DirectoryLog:
    ((log,), _) = open_folder(FILES, str(folder))
    log.cleaner = facts or CleanerFacts(is_compacted=True)
    if facts is None:
        log.active_offset = ANY_OFFSET
    return log


def verdict_of(folder: pathlib.Path, facts: CleanerFacts | None) -> PartitionVerdict:
    return diff_logs(opened(folder / "a", facts), opened(folder / "b", facts), SETTINGS)


def out_of_reach(left: DirectoryLog, right: DirectoryLog, newest_ms: int) -> list[int]:
    """The records of both logs whose keys came again only where no pass of the right log was."""
    rows = [(one, batch) for one, batch in committed(left)]
    theirs = {one.offset for one, _ in committed(right)}
    found = []
    for record, _ in rows:
        newer = [one for one, _ in rows if one.key == record.key and one.offset > record.offset]
        reached = any(one.offset < right.active_offset and one.timestamp <= newest_ms for one in newer)
        if newer and not reached and record.value is not None and record.offset in theirs:
            found.append(record.offset)
    return found


def committed(log: DirectoryLog) -> Iterator[tuple[Record, RecordBatch]]:
    for segment in log.partition.segments:
        for batch in iter_batches(pathlib.Path(segment.path()).read_bytes()):
            if not batch.is_control and not batch.is_transactional:
                for record in batch.records():
                    yield record, batch


def take(log: DirectoryLog, offset: int) -> None:
    for segment in log.partition.segments:
        path = pathlib.Path(segment.path())
        parts = []
        for batch in iter_batches(path.read_bytes()):
            kept = [record for record in batch.records() if record.offset != offset]
            if batch.is_control or len(kept) == batch.record_count:
                parts.append(bytes(batch.memory))
            elif kept:
                parts.append(bytes(rebuild_batch(RecordBatch(bytes(batch.memory)), kept)))
        path.write_bytes(b"".join(parts))
        for index in path.parent.glob(f"{path.stem}.*index"):
            index.unlink()


def lied_to(tmp_path: pathlib.Path, seed: int, *, is_guarded: bool) -> PartitionVerdict | None:
    """The verdict after one record was taken that no pass can have removed; None if there is none."""
    newest_ms = told(tmp_path, 1_000 * seed) - LAG_MS
    facts = CleanerFacts(is_compacted=True, newest_ms=newest_ms, times_are_sure=True, is_alone=True)
    before = verdict_of(tmp_path, facts)
    assert (before.status, before.difference_counts) == (Status.EQUAL, {}), before.differences
    candidates = out_of_reach(opened(tmp_path / "a", facts), right := opened(tmp_path / "b", facts), newest_ms)
    if not candidates:
        return None
    take(right, random.Random(seed).choice(candidates))
    return verdict_of(tmp_path, facts if is_guarded else None)


@pytest.mark.parametrize("seed", range(12))
def test_what_no_pass_can_have_removed_is_not_compacted(tmp_path: pathlib.Path, seed: int) -> None:
    verdict = lied_to(tmp_path, seed, is_guarded=True)
    assert verdict is None or verdict.status is Status.DIFFERENT


def test_without_the_reach_of_a_cleaner_losses_pass_for_compacted(tmp_path: pathlib.Path) -> None:
    """The safeguard switched off: keys that came again anywhere explain everything."""
    found = [lied_to(tmp_path / str(seed), seed, is_guarded=False) for seed in range(12)]
    assert any(verdict is not None and verdict.status is Status.EQUAL for verdict in found)
