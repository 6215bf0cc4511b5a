"""Keys lost between two clusters: of a compacted topic and its mirror, each cleaned by its own
cleaner at its own times, nothing is said, and one surviving record that is taken from the mirror is
found and named.
"""

from __future__ import annotations

import pathlib
import random
import tempfile
from typing import NamedTuple

import pytest
from support.logs.cluster_stories import copy_log
from support.logs.replay_stories import FILES, Story

from kmirror.record.builder import rebuild_batch
from kmirror.record.control_record import ControlRecordType
from kmirror.record.record_batch import RecordBatch, iter_batches
from kmirror.verify.chunk_diff import ComparedChunks, PartToCompare
from kmirror.verify.compared_log import DirectoryLog
from kmirror.verify.data_dir_logs import open_folder
from kmirror.verify.key_evidence import hash_text
from kmirror.verify.log_diff import DiffSettings, diff_logs, diff_parts
from kmirror.verify.verdict import PartitionVerdict

SETTINGS = DiffSettings(max_differences=10_000, scratch=tempfile.TemporaryFile)


class Written(NamedTuple):
    offset: int
    key: bytes | None
    has_value: bool
    fate: str


def told(folder: pathlib.Path, seed: int) -> None:
    """`a` is a cluster, and `b` mirrors it; both compact, at times of their own, and the mirror may
    lag in the end.
    """
    chance = random.Random(seed)
    source = Story(folder / "a", seed, others=("roll", "roll", "epoch", "reset"), policy="compact")
    mirror = Story(folder / "b", seed + 1, policy="compact")
    for _ in range(chance.randrange(4, 10)):
        source.tell(chance.randrange(5, 25))
        if chance.random() < 0.8:
            behind = source.log.log_end_offset - mirror.log.log_end_offset
            copy_log(source.log, mirror.log, limit=mirror.log.log_end_offset + chance.choice((behind // 2, behind, behind)))
        for one in (source, mirror):
            one.world.clock.now_ms += chance.choice((0, 10, 5_000))
            if chance.random() < 0.4:
                one.roll()
            if chance.random() < 0.5:
                one.clean()
    for one in (source, mirror):
        one.end()


def opened(folder: pathlib.Path) -> DirectoryLog:
    ((log,), _) = open_folder(FILES, str(folder))
    return log


def records_of(log: DirectoryLog) -> list[Written]:
    """Every record, and what became of its transaction."""
    found: list[Written] = []
    waiting: dict[int, list[int]] = {}
    for segment in log.partition.segments:
        for batch in iter_batches(pathlib.Path(segment.path()).read_bytes()):
            if batch.is_control:
                first = next(batch.records(), None)
                kind = None if first is None else ControlRecordType.parse(first.key)
                ended = list(waiting) if kind is ControlRecordType.MIRROR_PID_RESET else [batch.producer_id]
                for row in (row for producer in ended for row in waiting.pop(producer, [])):
                    found[row] = found[row]._replace(fate="ABORT" if kind is ControlRecordType.ABORT else "COMMIT")
                continue
            for record in batch.records():
                if batch.is_transactional:
                    waiting.setdefault(batch.producer_id, []).append(len(found))
                key = None if record.key is None else bytes(record.key)
                found.append(Written(record.offset, key, record.value is not None, "open" if batch.is_transactional else "COMMIT"))
    return found


def survivors(left: DirectoryLog, right: DirectoryLog) -> list[Written]:
    """The last record of each key in both logs together, those that both have."""
    ours, theirs = records_of(left), records_of(right)
    newest: dict[bytes | None, int] = {}
    for one in (*ours, *theirs):
        if one.fate != "ABORT":
            newest[one.key] = max(newest.get(one.key, -1), one.offset)
    there = {one.offset for one in theirs}
    return [one for one in ours if one.has_value and one.fate == "COMMIT" and newest[one.key] == one.offset and one.offset in there]


def take(log: DirectoryLog, offset: int) -> None:
    """Removes one record, as a cleaner would."""
    for segment in log.partition.segments:
        path = pathlib.Path(segment.path())
        parts = []
        for batch in iter_batches(path.read_bytes()):
            records = list(batch.records())
            kept = [record for record in records if record.offset != offset]
            if batch.is_control or len(kept) == len(records):
                parts.append(bytes(batch.memory))
            elif kept:
                parts.append(bytes(rebuild_batch(RecordBatch(bytes(batch.memory)), kept)))
        path.write_bytes(b"".join(parts))
        for index in path.parent.glob(f"{path.stem}.*index"):
            index.unlink()


def both(left: DirectoryLog, right: DirectoryLog) -> PartitionVerdict:
    """The verdict on two logs, which is also that on a mirror that is running."""
    verdict = diff_logs(left, right, SETTINGS)
    end = right.log_end_offset()
    parts = [PartToCompare(None, None, None, None)] if end > max(left.log_start_offset, right.log_start_offset) else []
    mirrored = diff_parts(left, right, ComparedChunks(parts, 0, end), SETTINGS)
    assert [one for one in mirrored.differences if one.kind == "key-lost"] == [one for one in verdict.differences if one.kind == "key-lost"]
    return verdict


@pytest.mark.parametrize("seed", range(25))
def test_a_surviving_key_that_the_mirror_lacks_is_lost_and_nothing_else(tmp_path: pathlib.Path, seed: int) -> None:
    told(tmp_path, 1_000 * seed)
    left, right = opened(tmp_path / "a"), opened(tmp_path / "b")
    assert both(left, right).difference_counts.get("key-lost", 0) == 0
    assert diff_logs(right, left, SETTINGS).difference_counts.get("key-lost", 0) == 0 or left.cleaned_offset > 0
    chance = random.Random(seed)
    candidates = [one for one in survivors(left, right) if one.offset < right.cleaned_offset]
    if not candidates:
        return
    chosen = chance.choice(candidates)
    take(right, chosen.offset)
    found = both(left, opened(tmp_path / "b"))
    assert chosen.key is not None
    told_of = [one for one in found.differences if one.kind == "key-lost"]
    assert len(told_of) == 1 and told_of[0].first_offset <= chosen.offset <= told_of[0].last_offset
    assert f"B lost the key with hash {hash_text(chosen.key)} (offset {chosen.offset}): no later record explains it" in told_of[0].detail
