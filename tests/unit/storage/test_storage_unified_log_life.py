"""`UnifiedLog`: retention, truncation, recovery, what a broken disk does, and what a cut syncs."""

from __future__ import annotations

import errno
import pathlib
from typing import Any

import pytest
from support.logs.log_scenes import NOW, Logs, batch, error_of, produce, producer_batch
from support.logs.storage_doubles import StorageWorld

from kmirror.common.errors import ApiException, Errors
from kmirror.common.ports import File
from kmirror.common.uuid import Uuid
from kmirror.record.append_origin import AppendOrigin
from kmirror.runtime.os_files import OsFile, OsFileSystem
from kmirror.storage.fetch_data_info import FetchIsolation
from kmirror.storage.log_offset_metadata import EpochAndOffset, LogStartOffsetIncrementReason
from kmirror.storage.unified_log import UnifiedLog

TAKE_ALL = 2**31 - 1
COORDINATOR = AppendOrigin.COORDINATOR


class TestRetention:
    def filled(self, logs: Logs, **config: Any) -> UnifiedLog:
        log = logs.open(segment_size=200, **config)
        produce(log, *(batch(1, timestamp=NOW + number) for number in range(10)))
        assert log.segments.base_offsets == [0, 2, 4, 6, 8]
        return log

    def test_by_size_keeps_at_least_retention_bytes(self, logs: Logs) -> None:
        log = self.filled(logs, retention_size=5 * len(batch(1)), retention_ms=-1)
        assert log.delete_old_segments() == 2
        assert (log.log_start_offset, log.segments.base_offsets) == (4, [4, 6, 8])

    def test_by_time_all_of_it_rolls_first(self, logs: Logs) -> None:
        log = self.filled(logs, retention_ms=5)
        logs.world.clock.now_ms = NOW + 8
        assert log.delete_old_segments() == 1
        logs.world.clock.now_ms = NOW + 100
        assert log.delete_old_segments() == 4
        assert (log.log_start_offset, log.segments.base_offsets, log.delete_old_segments()) == (10, [10], 0)

    def test_never_beyond_the_high_watermark(self, logs: Logs) -> None:
        log = self.filled(logs, retention_ms=5)
        log.truncate_fully_and_start_at(0)
        for number in range(10):
            log.append_as_leader(batch(1, timestamp=NOW + number), leader_epoch=0)
        log.update_high_watermark(5)
        logs.world.clock.now_ms = NOW + 100
        assert log.delete_old_segments() == 2
        assert log.segments.base_offsets == [4, 6, 8]

    def test_compacted_topics_only_lose_what_lies_below_the_log_start(self, logs: Logs) -> None:
        log = self.filled(logs, retention_ms=5, delete=False, compact=True)
        logs.world.clock.now_ms = NOW + 100
        log.maybe_increment_log_start_offset(5, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)
        assert (log.delete_old_segments(), log.segments.base_offsets, log.log_start_offset) == (2, [4, 6, 8], 5)

    def test_records_without_time_age_by_the_file(self, logs: Logs) -> None:
        log = logs.open(retention_ms=1000)
        produce(log, batch(1, timestamp=-1))
        log.active_segment.set_last_modified_ms(NOW - 500)
        assert log.delete_old_segments() == 0
        log.active_segment.set_last_modified_ms(NOW - 1001)
        assert log.delete_old_segments() == 1

    def test_files_are_renamed_and_removed_after_the_delay(self, logs: Logs) -> None:
        log = self.filled(logs, retention_ms=5)
        logs.world.clock.now_ms = NOW + 8
        assert log.delete_old_segments() == 1
        deleted = [f"{0:020d}.{kind}.deleted" for kind in ("index", "log", "timeindex")]
        assert [name for name in logs.names() if name.endswith(".deleted")] == deleted
        logs.world.scheduler.advance(59_999)
        assert deleted[0] in logs.names()
        logs.world.scheduler.advance(1)
        assert not [name for name in logs.names() if name.startswith(f"{0:020d}")]

    def test_delete_records_above_the_high_watermark_is_refused(self, logs: Logs) -> None:
        log = self.filled(logs)
        log.append_as_leader(batch(1), leader_epoch=0)
        with pytest.raises(ApiException) as caught:
            log.maybe_increment_log_start_offset(11, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)
        assert caught.value.error is Errors.OFFSET_OUT_OF_RANGE
        assert not log.maybe_increment_log_start_offset(0, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)


class TestTruncation:
    def test_a_target_inside_a_batch_is_taken_literally_or_lowered(self, logs: Logs) -> None:
        log = logs.open()
        produce(log, batch(5), batch(5))
        assert log.truncate_to(8) and log.log_end_offset == 8
        assert [header.base_offset for header in log.batch_headers()] == [0]
        other = Logs(logs.root / "other")
        log = other.open()
        produce(log, batch(5), batch(5))
        assert log.truncate_to(8, at_batch_boundary=True) and log.log_end_offset == 5
        assert not log.truncate_to(5, at_batch_boundary=True)

    def test_no_effect_at_the_end_but_empty_epochs_go(self, logs: Logs) -> None:
        log = logs.open()
        produce(log, batch(2))
        log.maybe_assign_epoch_start_offset(7, 2)
        assert not log.truncate_to(2)
        assert log.latest_epoch == 0

    def test_across_segments(self, logs: Logs) -> None:
        log = logs.open(segment_size=200, index_interval=0)
        produce(log, *(batch(1) for _ in range(10)))
        log.flush()
        assert log.truncate_to(3)
        assert (log.segments.base_offsets, log.log_end_offset, log.high_watermark, log.recovery_point) == ([0, 2], 3, 3, 3)
        assert log.active_segment.offset_index.length == 10_485_760
        produce(log, batch(1), batch(1))
        assert [header.base_offset for header in log.batch_headers()] == [0, 1, 2, 3, 4]

    def test_below_the_first_segment_starts_anew(self, logs: Logs) -> None:
        log = logs.open()
        log.truncate_fully_and_start_at(20)
        produce(log, batch(1))
        assert log.truncate_to(10)
        assert (log.log_start_offset, log.log_end_offset, log.high_watermark, log.latest_epoch) == (10, 10, 10, None)
        with pytest.raises(ValueError, match="negative"):
            log.truncate_to(-1)

    def test_fully_at_the_same_base_and_with_a_log_start_inside(self, logs: Logs) -> None:
        log = logs.open()
        produce(log, producer_batch(0))
        log.truncate_fully_and_start_at(0)
        assert (log.log_end_offset, log.producer_state_manager.producer_id_count, log.segments.base_offsets) == (0, 0, [0])
        log.truncate_fully_and_start_at(30, log_start_offset=33)
        assert (log.log_start_offset, log.log_end_offset) == (33, 30)

    def test_end_offset_for_epoch(self, logs: Logs) -> None:
        log = logs.open()
        for epoch in (2, 4, 4, 7):
            produce(log, batch(1), epoch=epoch)
        found = [log.end_offset_for_epoch(epoch) for epoch in (1, 2, 3, 4, 6, 7, 8, -1)]
        expected = [(1, 0), (2, 1), (2, 1), (4, 3), (4, 3), (7, 4), None, None]
        assert found == [EpochAndOffset(*pair) if pair else None for pair in expected]


class TestLife:
    def test_topic_id(self, logs: Logs) -> None:
        log = logs.open()
        log.assign_topic_id(Uuid(b"a" * 16))
        produce(log, batch(1))
        assert (logs.root / "topic-0" / "partition.metadata").read_bytes().endswith(str(Uuid(b"a" * 16)).encode())
        with pytest.raises(ApiException) as caught:
            log.assign_topic_id(Uuid(b"b" * 16))
        assert caught.value.error is Errors.INCONSISTENT_TOPIC_ID
        log.close()
        assert logs.open(recovery_point=1).topic_id == Uuid(b"a" * 16)

    def test_rename_and_delete(self, logs: Logs) -> None:
        log = logs.open(index_interval=0)
        produce(log, batch(1), batch(1))
        log.rename_dir("topic-0.abc-delete")
        assert not (logs.root / "topic-0").exists() and log.name == "topic-0.abc-delete"
        assert [header.base_offset for header in log.batch_headers()] == [0, 1]
        log.delete()
        assert list(logs.root.iterdir()) == []

    def test_a_flush_goes_on_while_the_folder_is_renamed(self, logs: Logs) -> None:
        """A worker's (of a reset, of a topic that is deleted): it opened an index under its old
        name, and the log directory was lost.
        """

        class Slow(OsFileSystem):
            def fsync_path(self, path: str) -> None:
                super().fsync_path(path)
                if path == str(logs.root):
                    log.flush(force_flush_active_segment=True)

        logs.world = StorageWorld(NOW, files=Slow())
        log = logs.open(index_interval=0)
        produce(log, batch(1), batch(1))
        log.rename_dir("topic-0.abc-delete")
        assert log.recovery_point == 2

    def test_flush_messages(self, logs: Logs) -> None:
        log = logs.open(flush_interval=2)
        produce(log, batch(1))
        assert log.recovery_point == 0
        produce(log, batch(1))
        assert log.recovery_point == 2

    def test_high_watermark_is_clamped(self, logs: Logs) -> None:
        log = logs.open()
        produce(log, batch(5))
        assert (log.update_high_watermark(99), log.update_high_watermark(-5), log.maybe_update_high_watermark(0)) == (5, 0, None)
        assert log.maybe_increment_high_watermark(log.log_end_offset_metadata) is not None
        assert log.maybe_increment_high_watermark(log.log_end_offset_metadata) is None

    def test_a_failing_disk_takes_the_log_dir_offline(self, tmp_path: pathlib.Path) -> None:
        logs = Logs(tmp_path)
        files = FullDisk()
        logs.world = StorageWorld(NOW, files=files)
        log = logs.open()
        produce(log, batch(1))
        files.is_full = True
        assert error_of(log, batch(1)) is Errors.KAFKA_STORAGE_ERROR
        assert logs.world.failures.offline_log_dirs == [str(tmp_path)]
        files.is_full = False
        assert error_of(log, batch(1)) is Errors.KAFKA_STORAGE_ERROR
        with pytest.raises(ApiException):
            log.append_as_follower(batch(1, base_offset=1), leader_epoch=0)

    def test_damaged_bytes_are_an_error_that_names_file_and_position(self, logs: Logs) -> None:
        log = logs.open()
        produce(log, batch(1), batch(1))
        path = logs.root / "topic-0" / "00000000000000000000.log"
        data = bytearray(path.read_bytes())
        data[len(batch(1)) + 8 : len(batch(1)) + 12] = (3).to_bytes(4, "big")
        path.write_bytes(data)
        for read in (
            lambda: log.read(1, 100, FetchIsolation.LOG_END, min_one_message=True),
            log.last_batch,
            lambda: list(log.batch_headers()),
        ):
            with pytest.raises(ApiException, match=f"{path}: at byte {len(batch(1))}: ") as caught:
                read()
            assert caught.value.error is Errors.CORRUPT_MESSAGE
        assert logs.world.failures.offline_log_dirs == []


class FullDisk(OsFileSystem):
    """Writes fail with ENOSPC while `is_full`."""

    is_full = False

    def open(self, path: str, *, create: bool = False, exclusive: bool = False, write: bool = True) -> Any:
        return _FullDiskFile(self, super().open(path, create=create, exclusive=exclusive, write=write))


class _FullDiskFile:
    def __init__(self, disk: FullDisk, file: File) -> None:
        self._disk = disk
        self._file = file

    def __getattr__(self, name: str) -> Any:
        if self._disk.is_full and name in ("pwrite", "pwritev"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return getattr(self._file, name)


class TestFsyncsOfACut:
    """A failback cuts thousands of partitions below their high watermarks, on the loop."""

    @pytest.fixture
    def synced(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        paths: list[str] = []
        monkeypatch.setattr(OsFile, "fsync", lambda file: paths.append(pathlib.Path(file.path).suffix))
        return paths

    def test_a_cut_inside_the_active_segment_synced_the_folder_and_a_snapshot_too(self, logs: Logs, synced: list[str]) -> None:
        log = logs.open()
        produce(log, *(batch(1) for _ in range(5)))
        del synced[:]
        log.truncate_to(3)
        assert synced == [".log"]
        assert f"{3:020}.snapshot" in logs.names()
        log.close()
        assert synced[1:].count(".snapshot") == 1

    def test_the_folder_is_synced_where_segments_or_snapshots_go(self, logs: Logs, synced: list[str]) -> None:
        log = logs.open()
        produce(log, *(batch(1) for _ in range(3)))
        log.roll()
        produce(log, *(batch(1) for _ in range(3)))
        log.truncate_to(5)
        del synced[:]
        log.update_high_watermark(5)
        log.truncate_to(4)
        assert synced == [".log", ""], "the snapshot at 5 went: it may not come back and be taken for what is written there next"
        del synced[:]
        log.truncate_to(2)
        assert synced == [".log", ""]

    def test_a_snapshot_that_was_not_synced_yet_is_with_the_next_sealed_segment(self, logs: Logs, synced: list[str]) -> None:
        log = logs.open()
        produce(log, *(batch(1) for _ in range(5)))
        log.truncate_to(3)
        log.roll()
        del synced[:]
        logs.world.scheduler.run_due()
        assert synced.count(".snapshot") == 1, "at 3, of the cut and of the segment both"
