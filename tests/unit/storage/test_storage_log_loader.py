"""Loading a folder in the states that the golden cases do not have: swaps in every stage, overflow,
log start beyond the end.
"""

from __future__ import annotations

import pathlib

import pytest
from support.logs.storage_doubles import StorageWorld

from kmirror.common.errors import CorruptFileError
from kmirror.common.uuid import Uuid
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.record.record_batch import iter_batches
from kmirror.storage.leader_epoch_checkpoint_file import EpochEntry, LeaderEpochCheckpointFile
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_open_options import LogOpenOptions
from kmirror.storage.unified_log import UnifiedLog

CONFIG = LogConfig(segment_size=300, max_index_size=800, index_interval=100)
ID = Uuid(b"topic-id-16bytes")


class Folder:
    """A partition's folder on disk, opened and closed at will."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.path.mkdir(parents=True)
        self.world = StorageWorld()

    def open(self, *, clean: bool = False, log_start_offset: int = 0, recovery_point: int = 0) -> UnifiedLog:
        return UnifiedLog.open(
            str(self.path),
            CONFIG,
            self.world.ports,
            LogOpenOptions(log_start_offset=log_start_offset, recovery_point=recovery_point, last_shutdown_clean=clean, topic_id=ID),
        )

    def write(self, base_offset: int, *batches: bytes | bytearray, suffix: str = "") -> None:
        (self.path / f"{base_offset:020d}.log{suffix}").write_bytes(b"".join(batches))
        for index in ("index", "timeindex"):
            (self.path / f"{base_offset:020d}.{index}{suffix}").write_bytes(b"")

    def names(self) -> list[str]:
        return sorted(path.name for path in self.path.iterdir())


def batch(offset: int, *, value: bytes = b"value", epoch: int = 0, timestamp: int = 1_750_000_000_000) -> bytearray:
    return build_batch([Record(offset, timestamp, b"key", value)], base_offset=offset, partition_leader_epoch=epoch)


def values(log: UnifiedLog) -> list[tuple[int, bytes]]:
    return [
        (record.offset, bytes(record.value or b""))
        for segment in log.log_segments
        for batch in iter_batches(segment.file.pread(segment.size, 0))
        for record in batch.records()
    ]


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> Folder:
    return Folder(tmp_path / "data" / "t-0")


def bases(log: UnifiedLog) -> list[int]:
    return [segment.base_offset for segment in log.log_segments]


def test_an_empty_folder_becomes_a_log_at_the_log_start(folder: Folder) -> None:
    log = folder.open(log_start_offset=7)
    assert (log.log_start_offset, log.log_end_offset, bases(log)) == (7, 7, [7])
    assert "leader-epoch-checkpoint" in folder.names()


def test_a_swap_takes_the_place_of_all_that_lies_in_its_range(folder: Folder) -> None:
    folder.write(0, batch(0, value=b"old"), batch(1, value=b"old"))
    folder.write(2, batch(2, value=b"old"))
    folder.write(3, batch(3))
    folder.write(0, batch(0, value=b"new"), batch(2, value=b"new"), suffix=".swap")
    log = folder.open()
    assert values(log) == [(0, b"new"), (2, b"new"), (3, b"value")]
    assert bases(log) == [0, 3]
    assert [name for name in folder.names() if name.endswith(".swap")] == []


def test_the_index_made_while_a_swap_is_opened_loses_its_suffix_too(folder: Folder) -> None:
    """A `.log.swap` whose index was renamed already, or never there: seen with Kafka 4.3, which
    leaves no `.index.swap` behind.
    """
    folder.write(0, batch(0, value=b"old"))
    folder.write(1, batch(1))
    folder.write(0, batch(0, value=b"new"), suffix=".swap")
    for index in ("index", "timeindex"):
        (folder.path / f"{0:020d}.{index}.swap").unlink()
    log = folder.open()
    assert values(log) == [(0, b"new"), (1, b"value")]
    assert {name for name in folder.names() if name.startswith(f"{0:020d}")} >= {f"{0:020d}.index", f"{0:020d}.log"}
    assert [name for name in folder.names() if name.endswith(".swap")] == []


def test_a_set_of_swaps_that_was_still_being_renamed_is_dropped(folder: Folder) -> None:
    """Highest first: with 0 still `.cleaned`, the `.swap` at 2 belongs to an incomplete set; the
    originals are all there.
    """
    folder.write(0, batch(0, value=b"old"), batch(2, value=b"old"))
    folder.write(0, batch(0, value=b"new"), suffix=".cleaned")
    folder.write(2, batch(2, value=b"new"), suffix=".swap")
    log = folder.open()
    assert values(log) == [(0, b"old"), (2, b"old")]
    assert [name for name in folder.names() if name.endswith((".swap", ".cleaned"))] == []


def test_a_swap_below_a_cleaned_file_is_completed(folder: Folder) -> None:
    """Two sets: the one at 0 was complete, the one at 2 was just being written."""
    folder.write(0, batch(0, value=b"old"))
    folder.write(2, batch(2, value=b"old"))
    folder.write(0, batch(0, value=b"new"), suffix=".swap")
    folder.write(2, batch(2, value=b"new"), suffix=".cleaned")
    log = folder.open()
    assert values(log) == [(0, b"new"), (2, b"old")]


def test_deleted_files_go(folder: Folder) -> None:
    folder.write(0, batch(0))
    (folder.path / f"{5:020d}.log.deleted").write_bytes(b"x")
    (folder.path / f"{5:020d}.snapshot.deleted").write_bytes(b"x")
    folder.open()
    assert [name for name in folder.names() if name.endswith(".deleted")] == []


def test_an_index_without_its_log_goes(folder: Folder) -> None:
    folder.write(0, batch(0))
    (folder.path / f"{9:020d}.txnindex").write_bytes(b"")
    folder.open()
    assert f"{9:020d}.txnindex" not in folder.names()


def test_a_log_that_ends_below_its_start_is_emptied(folder: Folder) -> None:
    folder.write(0, batch(0), batch(1))
    LeaderEpochCheckpointFile(folder.world.files, str(folder.path)).write([EpochEntry(0, 0)])
    log = folder.open(clean=True, log_start_offset=50, recovery_point=50)
    assert (log.log_start_offset, log.log_end_offset, bases(log), log.latest_epoch) == (50, 50, [50], None)
    assert f"{0:020d}.log.deleted" in folder.names()
    folder.world.scheduler.advance(60_000)
    assert [name for name in folder.names() if name.endswith(".deleted")] == []


def test_the_log_start_checkpoint_wins_over_the_first_segment(folder: Folder) -> None:
    folder.write(0, batch(0), batch(1), batch(2))
    LeaderEpochCheckpointFile(folder.world.files, str(folder.path)).write([EpochEntry(0, 0)])
    log = folder.open(clean=True, log_start_offset=2)
    assert (log.log_start_offset, log.log_end_offset) == (2, 3)
    assert log.leader_epoch_cache.epoch_entries == [EpochEntry(0, 2)]


def test_epochs_beyond_the_log_end_are_dropped(folder: Folder) -> None:
    folder.write(0, batch(0), batch(1))
    LeaderEpochCheckpointFile(folder.world.files, str(folder.path)).write([EpochEntry(0, 0), EpochEntry(3, 2), EpochEntry(4, 9)])
    log = folder.open(clean=True)
    assert log.leader_epoch_cache.epoch_entries == [EpochEntry(0, 0)]
    folder.world.scheduler.run_due()
    assert LeaderEpochCheckpointFile(folder.world.files, str(folder.path)).read() == [EpochEntry(0, 0)]


def test_recovery_stops_at_the_first_bad_segment_and_drops_what_follows(folder: Folder) -> None:
    broken = batch(3)
    broken[-1] ^= 1
    folder.write(0, batch(0), batch(1))
    folder.write(2, batch(2), broken)
    folder.write(4, batch(4))
    log = folder.open()
    assert (log.log_end_offset, log.recovery_point, bases(log)) == (3, 0, [0, 2])
    assert f"{4:020d}.log.deleted" in folder.names()


def test_below_the_recovery_point_nothing_is_looked_at(folder: Folder) -> None:
    broken = batch(1)
    broken[-1] ^= 1
    folder.write(0, batch(0), broken)
    folder.write(2, batch(2), batch(3))
    log = folder.open(recovery_point=2)
    assert (log.log_end_offset, log.recovery_point) == (4, 2)
    assert log.log_segments[0].size == len(batch(0)) + len(broken)


def test_a_segment_with_offsets_out_of_reach_is_split(folder: Folder) -> None:
    far = 1 << 31
    folder.write(0, batch(0), batch(5), batch(far), batch(far + 1))
    folder.write(far + 2, batch(far + 2))
    log = folder.open()
    assert bases(log) == [0, far, far + 2]
    assert [offset for offset, _ in values(log)] == [0, 5, far, far + 1, far + 2]
    assert log.log_end_offset == far + 3
    assert [name for name in folder.names() if name.endswith((".swap", ".cleaned"))] == []


def test_offsets_below_the_segments_base_stop_the_load(folder: Folder) -> None:
    folder.write(10, batch(10), batch(3))
    before = (folder.path / f"{10:020d}.log").read_bytes()
    with pytest.raises(CorruptFileError, match="a batch ends at offset 3, below the segment's base offset 10") as caught:
        folder.open(recovery_point=10)
    assert caught.value.position == len(batch(10))
    assert (folder.path / f"{10:020d}.log").read_bytes() == before


def test_offsets_that_do_not_ascend_empty_the_segment(folder: Folder) -> None:
    """As in Kafka: no index can be built over it, so it is cut to nothing."""
    folder.write(0, batch(0), batch(1))
    folder.write(2, batch(50, value=b"x" * 200), batch(51, value=b"x" * 200), batch(7, value=b"x" * 200))
    log = folder.open(recovery_point=2)
    assert (log.log_end_offset, bases(log), log.log_segments[1].size) == (2, [0, 2], 0)


def test_a_log_that_is_being_deleted_is_opened_without_recovery(tmp_path: pathlib.Path) -> None:
    folder = Folder(tmp_path / "data" / f"t-0.{'a' * 32}-delete")
    broken = batch(0)
    broken[-1] ^= 1
    folder.write(0, broken)
    log = folder.open()
    assert log.topic_partition == ("t", 0)
    assert log.log_segments[0].size == len(broken)
    log.delete()
    assert not folder.path.exists()


def test_what_a_load_repaired_stays_repaired(folder: Folder) -> None:
    folder.write(0, batch(0), batch(1))
    (folder.path / f"{0:020d}.index").unlink()
    first = folder.open()
    first.flush(force_flush_active_segment=True)
    first.close()
    files = {name: (folder.path / name).read_bytes() for name in folder.names()}
    second = folder.open(clean=True, recovery_point=2)
    second.close()
    assert {name: (folder.path / name).read_bytes() for name in folder.names()} == files


def test_a_transaction_below_the_log_start_does_not_keep_a_log_from_loading(folder: Folder) -> None:
    """A broker that crashed after DeleteRecords forgot the transaction at offset 0, and took a write
    without one. The next recovery reads both.
    """
    producer = {"producer_id": 7, "producer_epoch": 0}
    now = folder.world.clock.now_ms
    begun = build_batch([Record(0, now, None, b"begun")], base_offset=0, is_transactional=True, base_sequence=0, **producer)
    folder.write(0, begun, build_batch([Record(1, now, None, b"alone")], base_offset=1, base_sequence=1, **producer))
    log = folder.open(log_start_offset=1)
    assert (log.log_start_offset, log.log_end_offset) == (1, 2)
    assert values(log) == [(0, b"begun"), (1, b"alone")]
    log.update_high_watermark(2)
    assert log.last_stable_offset == 2
    entry = log.producer_state_manager.last_entry(7)
    assert entry is not None and (entry.last_sequence, entry.current_txn_first_offset) == (1, None)
