"""The compaction table against brute force: random compacted logs with transactions and resets,
whatever the cuts, the buckets and the memory.
"""

from __future__ import annotations

import pathlib
import random
import tempfile
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pytest
from support.logs.replay_stories import PARTITION, Story, random_slices, the_partition

from kmirror.common.crc32c import crc32c
from kmirror.common.ports import FileSystem
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.control_record import ControlRecordType
from kmirror.record.record_batch import RECORD_BATCH_OVERHEAD, RecordBatch, iter_batches
from kmirror.runtime.os_files import OsFileSystem
from kmirror.storage.offset_checkpoint_file import OffsetCheckpointFile
from kmirror.verify import spilled_rows
from kmirror.verify.planner import list_input
from kmirror.verify.replay import compaction, folder
from kmirror.verify.replay.compaction import KeyCounts, KeyLog, KeyScope, judge, merge
from kmirror.verify.replay.folder import ReplaySettings, replay_folder
from kmirror.verify.spilled_rows import NoRoomError
from kmirror.verify.transaction_spans import NEVER, TransactionSpan

FILES = OsFileSystem()
LIFE = ("roll", "epoch", "reset", "restart", "clean", "clean", "wait")
PURE = ReplaySettings(compacted_topics=("t",))


class Record(NamedTuple):
    offset: int
    key: bytes | None
    is_tombstone: bool
    state: str
    horizon: int | None


def records_of(path: pathlib.Path) -> list[Record]:
    """Every data record, one by one, and what became of its transaction."""
    found: list[Record] = []
    open_ones: dict[int, list[int]] = {}
    for segment in sorted(path.glob("*.log")):
        for batch in iter_batches(segment.read_bytes()):
            if not batch.is_control:
                for record in batch.records():
                    if batch.is_transactional:
                        open_ones.setdefault(batch.producer_id, []).append(len(found))
                    state = "open" if batch.is_transactional else "committed"
                    key = None if record.key is None else bytes(record.key)
                    found.append(Record(record.offset, key, record.value is None, state, batch.delete_horizon_ms))
                continue
            first = next(batch.records(), None)
            kind = None if first is None else ControlRecordType.parse(first.key)
            if kind in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
                ended = "aborted" if kind is ControlRecordType.ABORT else "committed"
                for row in open_ones.pop(batch.producer_id, []):
                    found[row] = found[row]._replace(state=ended)
            elif kind is ControlRecordType.MIRROR_PID_RESET:
                for rows in open_ones.values():
                    for row in rows:
                        found[row] = found[row]._replace(state="committed")
                open_ones.clear()
    return found


def told_story(folder: pathlib.Path, seed: int, *, others: tuple[str, ...] = LIFE, steps: int = 120) -> pathlib.Path:
    story = Story(folder, seed, others=others, policy="compact")
    story.tell(steps)
    story.end()
    return folder / str(PARTITION)


def bases_of(path: pathlib.Path) -> list[int]:
    return sorted(int(segment.stem) for segment in path.glob("*.log"))


def set_cleaned_offset(data_dir: pathlib.Path, offset: int) -> None:
    OffsetCheckpointFile(FILES, str(data_dir / "cleaner-offset-checkpoint")).write({PARTITION: offset})


def superseded_below(path: pathlib.Path, bound: int) -> list[int]:
    keyed = [record for record in records_of(path) if record.state == "committed" and record.key is not None and record.offset < bound]
    newest = {record.key: record.offset for record in keyed}
    return [record.offset for record in keyed if record.offset < newest[record.key]]


@pytest.mark.parametrize("seed", range(10))
def test_the_table_is_what_brute_force_says(tmp_path: pathlib.Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    path = told_story(tmp_path, seed)
    monkeypatch.setattr(compaction, "BUCKET_ROWS", (1, 20, 1 << 18)[seed % 3])
    tables = replay_folder(FILES, str(tmp_path), PURE)
    (row,), (log,) = tables.compaction, tables.logs
    records = [record for record in records_of(path) if record.offset >= log.log_start_offset]
    committed = [record for record in records if record.state == "committed"]
    keyed = [record for record in committed if record.key is not None]
    newest = {record.key: record for record in keyed}
    superseded = [record for record in keyed if newest[record.key] != record]
    reach = {record.key: record.offset for record in keyed if record.offset < row.first_uncleanable_offset}
    removable = [record for record in keyed if record.offset < reach.get(record.key, -1) and reach[record.key] >= row.first_dirty_offset]
    tombstones = [record for record in keyed if record.is_tombstone]
    horizons = [record.horizon for record in tombstones if record.horizon is not None]
    assert row.records == len(records) > 20
    assert (row.keys, row.live_keys) == (len(newest), sum(not record.is_tombstone for record in newest.values()))
    assert (row.superseded_records, row.removable_records) == (len(superseded), len(removable))
    assert row.aborted_records == sum(record.state == "aborted" for record in records)
    assert row.open_records == sum(record.state == "open" for record in records)
    assert (row.tombstones, row.tombstones_with_horizon) == (len(tombstones), len(horizons))
    assert row.tombstones_past_horizon == sum(horizon <= (log.max_timestamp or 0) for horizon in horizons)
    assert row.first_delete_horizon == min(horizons, default=None)
    assert row.cleaned_offset is None or row.first_dirty_offset == row.cleaned_offset
    assert tables.findings == []


@pytest.mark.parametrize("seed", range(10))
def test_two_records_of_a_key_below_the_checkpoint_are_found_and_nothing_else(tmp_path: pathlib.Path, seed: int) -> None:
    """The checkpoint is moved over what no pass has seen.

    Of a topic that never deletes all of it is looked at, of others not the first segment.
    """
    path = told_story(tmp_path, seed, others=LIFE if seed % 2 else ("roll", "epoch", "reset"))
    bases = bases_of(path)
    set_cleaned_offset(tmp_path, bases[-1])
    wrong = superseded_below(path, bases[-1])
    assert wrong or seed % 2, "a pass may have been everywhere"
    expected = [offset for offset in wrong if offset >= bases[1]]
    for checkpoint in (bases[-1], replay_folder(FILES, str(tmp_path), PURE).logs[0].log_end_offset):
        set_cleaned_offset(tmp_path, checkpoint)  # above the active segment's beginning no pass has been, whatever is said
        found = [finding for finding in replay_folder(FILES, str(tmp_path), PURE).findings if finding.table == "compaction"]
        assert [finding.first_offset for finding in found if finding.first_offset is not None] == expected[:3]
        assert all(finding.kind == "superseded" for finding in found) and (len(found) == 4) == (len(expected) > 3)
    (tmp_path / ".kafka_cleanshutdown").unlink()
    assert [each for each in replay_folder(FILES, str(tmp_path), PURE).findings if each.table == "compaction"] == []


def test_a_topic_that_never_deletes_is_looked_at_from_its_start(tmp_path: pathlib.Path) -> None:
    path = told_story(tmp_path, 3, others=("epoch",), steps=80)
    bases = bases_of(path)
    wrong = superseded_below(path, bases[-1])
    assert wrong[2] < bases[1]
    path.rename(tmp_path / "__consumer_offsets-0")
    OffsetCheckpointFile(FILES, str(tmp_path / "cleaner-offset-checkpoint")).write({TopicPartition("__consumer_offsets", 0): bases[-1]})
    tables = replay_folder(FILES, str(tmp_path))
    found = [finding.first_offset for finding in tables.findings if finding.table == "compaction"]
    assert found == [*wrong[:3], None]
    assert tables.logs[0].findings == sum(finding.log == tables.logs[0].log for finding in tables.findings)


@pytest.mark.parametrize("seed", range(6))
def test_any_cuts_and_any_memory_give_the_same(tmp_path: pathlib.Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    told_story(tmp_path, seed, others=("roll", "epoch"))
    partition = the_partition(tmp_path)
    scope = KeyScope(0, 0, 60, 20, 80, 1 << 60, (TransactionSpan(7, 5, 40), TransactionSpan(23, 90, NEVER)))
    whole = compaction.count_keys(FILES, KeyLog(random_slices(random.Random(1), partition, cuts=1), 0, scope), None)
    assert whole.keys and whole.superseded and whole.open and whole.kept_below_checkpoint and len(whole.examples) == 3
    monkeypatch.setattr(compaction, "BUCKET_ROWS", 10)
    monkeypatch.setattr(spilled_rows.SpilledRows.__init__, "__kwdefaults__", {"max_rows": 7})
    for number in range(3):
        pieces = random_slices(random.Random(seed * 10 + number), partition, cuts=20)
        log = KeyLog(pieces, 200, scope)
        assert log.bucket_bits > 3
        assert compaction.count_keys(FILES, log, tempfile.TemporaryFile) == whole
    with pytest.raises(NoRoomError):
        compaction.count_keys(FILES, KeyLog(pieces, 200, scope), None)


def test_counts_merge_in_any_order() -> None:
    chance = random.Random(5)
    scope = KeyScope(0, 3, 700, 500, 900, 0, ())
    rows = np.array([[key << 1 | chance.randrange(2), key * 7, offset, 10] for offset in range(1000) for key in [chance.randrange(90)]])
    whole = judge(rows, scope)
    assert len(whole.examples) == 3
    parts = [judge(rows[rows[:, 1] // 7 % 9 == number], scope) for number in range(9)]
    for _ in range(5):
        chance.shuffle(parts)
        merged = KeyCounts()
        for part in parts:
            merged = merge(part, merged)
        assert merged == whole


def test_keys_are_not_read_where_nobody_asks(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told_story(tmp_path, 1, steps=60)

    def never(*_: object) -> None:
        raise AssertionError("keys were read")

    monkeypatch.setattr(folder, "count_keys", never)
    assert replay_folder(FILES, str(tmp_path), ReplaySettings(read_keys=False)).compaction == []
    assert replay_folder(FILES, str(tmp_path), ReplaySettings(compacted_topics=("other",))).compaction == []
    (tmp_path / "cleaner-offset-checkpoint").unlink()
    assert replay_folder(FILES, str(tmp_path)).compaction == []


def test_a_damaged_log_has_findings_and_no_row(tmp_path: pathlib.Path) -> None:
    path = told_story(tmp_path, 2, steps=80)
    victim = sorted(path.glob("*.log"))[0]
    data = bytearray(victim.read_bytes())
    data[-1] ^= 1
    victim.write_bytes(data)
    tables = replay_folder(FILES, str(tmp_path), PURE)
    assert tables.compaction == [] and {finding.kind for finding in tables.findings} >= {"crc"}


def test_records_that_cannot_be_decoded_are_found_though_their_crc_holds(tmp_path: pathlib.Path) -> None:
    path = told_story(tmp_path, 2, steps=80)
    segments = sorted(path.glob("*.log"))
    plain = [
        (segment, position, batch)
        for segment in segments
        for position, batch in zip(*with_positions(segment))
        if not batch.is_control and batch.record_count and not batch.attributes & 7
    ]
    segment, position, batch = plain[0]
    data = bytearray(segment.read_bytes())
    data[position + RECORD_BATCH_OVERHEAD] ^= 2  # the length of the first record
    crc = crc32c(memoryview(data)[position + 21 : position + batch.size_in_bytes])
    data[position + 17 : position + 21] = crc.to_bytes(4, "big")
    segment.write_bytes(data)
    tables = replay_folder(FILES, str(tmp_path), PURE)
    (finding,) = tables.findings
    assert (finding.table, finding.kind, finding.file, finding.position) == ("compaction", "corrupt", str(segment), position)
    assert tables.compaction == [] and tables.logs[0].findings == 1


def with_positions(segment: pathlib.Path) -> tuple[list[int], list[RecordBatch]]:
    batches = list(iter_batches(segment.read_bytes()))
    return [sum(one.size_in_bytes for one in batches[:row]) for row in range(len(batches))], batches


@pytest.mark.parametrize("is_running", [True, False])
def test_a_segment_that_goes_before_its_keys_are_read_is_no_damage_under_a_running_broker(tmp_path: pathlib.Path, is_running: bool) -> None:
    path = told_story(tmp_path, 2, steps=80)
    if is_running:
        (tmp_path / ".kafka_cleanshutdown").unlink()

    class Engine(folder.ThisProcess):
        def count_keys(self, files: FileSystem, logs: Sequence[KeyLog]) -> Iterable[KeyCounts]:
            sorted(path.glob("*.log"))[0].unlink()
            return super().count_keys(files, logs)

    tables = folder.replay_cluster(FILES, list_input(FILES, str(tmp_path)), PURE, engine=Engine())
    assert tables.compaction == [] and {finding.kind for finding in tables.findings} == (set() if is_running else {"corrupt"})
