"""The cleaner: what it may touch, when it must stop, and what a crash in the middle of a swap
leaves.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any, cast

import pytest
from support.logs.cleaning import DAY_MS, Cleaning, T, batches, offsets

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import MIRROR_STATE_TOPIC_NAME, TopicPartition
from kmirror.record.append_origin import AppendOrigin
from kmirror.record.builder import build_batch
from kmirror.record.compression import CompressionType
from kmirror.record.control_record import build_mirror_pid_reset
from kmirror.record.record import Record
from kmirror.record.record_batch import RecordBatch
from kmirror.server.broker_metrics import cleaner_readings
from kmirror.storage.cleaner_offset_map import OffsetMap
from kmirror.storage.cleaner_record_keys import MIN_RECORDS_FOR_COLUMNS, record_keys
from kmirror.storage.unified_log import UnifiedLog


@pytest.fixture
def cleaning(tmp_path: pathlib.Path) -> Cleaning:
    return Cleaning(tmp_path)


def test_a_pass_leaves_the_last_of_each_key_and_the_active_segment(cleaning: Cleaning) -> None:
    log = cleaning.log()
    cleaning.fill(log)
    active = log.active_segment.base_offset
    assert cleaning.cleaner.clean_filthiest_log()
    assert offsets(log) == [active - 2, active - 1, *range(active, 12)]
    assert cleaning.checkpoint() == {T: active}
    assert not cleaning.cleaner.clean_filthiest_log()
    assert cleaning.file_names(".cleaned") == cleaning.file_names(".swap") == []


def test_nothing_at_or_above_the_high_watermark_is_cleaned(cleaning: Cleaning) -> None:
    """So it is for a read-only mirror partition: its high watermark and LSO bound the cleaner like
    any other's.
    """
    log = cleaning.log()
    cleaning.fill(log)
    log.truncate_fully_and_start_at(0)
    for offset in range(12):
        batch = build_batch([Record(offset, cleaning.world.clock.now_ms, b"key", b"x" * 20)], base_offset=offset, partition_leader_epoch=5)
        log.append_as_follower(batch, leader_epoch=5)
    log.update_high_watermark(5)
    high_watermark_segment = max(segment.base_offset for segment in log.log_segments if segment.base_offset <= 5)
    assert high_watermark_segment > 0
    assert cleaning.cleaner.clean_filthiest_log()
    assert offsets(log) == [high_watermark_segment - 1, *range(high_watermark_segment, 12)]


def test_mirror_state_is_never_cleaned(cleaning: Cleaning) -> None:
    log = cleaning.log(TopicPartition(MIRROR_STATE_TOPIC_NAME, 0))
    cleaning.fill(log, 30)
    assert cleaning.cleaner.next_job() is None
    assert offsets(log) == list(range(30))


def test_a_log_that_is_not_compacted_is_left_alone(tmp_path: pathlib.Path) -> None:
    cleaning = Cleaning(tmp_path, {"cleanup.policy": "delete"})
    cleaning.fill(cleaning.log(), 30)
    assert cleaning.cleaner.next_job() is None


def test_the_dirty_ratio_must_be_above_the_minimum(tmp_path: pathlib.Path) -> None:
    cleaning = Cleaning(tmp_path, {"min.cleanable.dirty.ratio": "1.0"})
    cleaning.fill(cleaning.log(), 30)
    assert cleaning.cleaner.next_job() is None


def test_max_compaction_lag_overrules_the_ratio(tmp_path: pathlib.Path) -> None:
    cleaning = Cleaning(tmp_path, {"min.cleanable.dirty.ratio": "1.0", "max.compaction.lag.ms": "60000"})
    cleaning.fill(cleaning.log(), 30)
    assert cleaning.cleaner.next_job() is None
    cleaning.world.clock.now_ms += 60_001
    assert cleaning.cleaner.clean_filthiest_log()


def test_min_compaction_lag_keeps_young_segments(tmp_path: pathlib.Path) -> None:
    cleaning = Cleaning(tmp_path, {"min.compaction.lag.ms": "60000"})
    log = cleaning.log()
    cleaning.fill(log, 6)
    cleaning.world.clock.now_ms += 60_000
    cleaning.fill(log, 12)
    young = [segment.base_offset for segment in log.log_segments if segment.largest_timestamp == cleaning.world.clock.now_ms]
    assert 0 < young[0] < log.active_segment.base_offset
    assert cleaning.cleaner.clean_filthiest_log()
    assert offsets(log) == [young[0] - 2, young[0] - 1, *range(young[0], 18)]


def test_the_filthiest_log_comes_first(cleaning: Cleaning) -> None:
    small, large = cleaning.log(), cleaning.log(TopicPartition("t", 1))
    cleaning.fill(small, 12)
    assert cleaning.cleaner.clean_filthiest_log()
    cleaning.fill(small, 3)
    cleaning.fill(large, 12)
    job = cleaning.cleaner.next_job()
    assert job is not None
    assert job.candidate.log is large
    job.run_inline()


def test_a_full_offset_map_ends_the_pass_early(tmp_path: pathlib.Path) -> None:
    cleaning = Cleaning(tmp_path, dedupe_buffer_size=24 * 5)
    log = cleaning.log()
    cleaning.fill(log, 30, keys=10)
    assert cleaning.cleaner.clean_filthiest_log()
    assert cleaning.checkpoint() == {T: 4}
    while cleaning.cleaner.clean_filthiest_log():
        pass
    assert cleaning.checkpoint() == {T: log.active_segment.base_offset}


def test_tombstones_live_until_their_horizon(tmp_path: pathlib.Path) -> None:
    cleaning = Cleaning(tmp_path, {"delete.retention.ms": "1000"})
    log = cleaning.log()
    cleaning.put(log, "gone", b"x" * 30)
    tombstone = cleaning.put(log, "gone", None)
    cleaning.fill(log, 12)
    assert cleaning.cleaner.clean_filthiest_log()
    [kept] = [batch for batch in batches(log) if batch.base_offset == tombstone]
    assert kept.delete_horizon_ms == cleaning.world.clock.now_ms + 1000
    assert next(kept.records()).timestamp == cleaning.world.clock.now_ms
    cleaning.world.clock.now_ms += 999
    cleaning.fill(log, 12)
    assert cleaning.cleaner.clean_filthiest_log()
    assert tombstone in offsets(log)
    cleaning.world.clock.now_ms += 1
    cleaning.fill(log, 12)
    assert cleaning.cleaner.clean_filthiest_log()
    assert tombstone not in offsets(log)


def test_records_without_a_key_are_dropped(cleaning: Cleaning) -> None:
    log = cleaning.log()
    batch = build_batch([Record(0, cleaning.world.clock.now_ms, None, b"no key")], partition_leader_epoch=0)
    log.append_as_follower(batch, leader_epoch=0)
    cleaning.fill(log, 12)
    assert cleaning.cleaner.clean_filthiest_log()
    assert 0 not in offsets(log)
    assert cleaning.cleaner.last_stats.invalid_messages_read == 1


def test_a_pid_reset_is_kept_for_ever(cleaning: Cleaning) -> None:
    log = cleaning.log()
    cleaning.fill(log, 2)
    reset = build_mirror_pid_reset("lBq12jYZRp-9wF3M9MPopg", timestamp=cleaning.world.clock.now_ms)
    log.append_as_leader(reset, leader_epoch=0, origin=AppendOrigin.COORDINATOR)
    for _ in range(3):
        cleaning.fill(log, 12)
        cleaning.world.clock.now_ms += 2 * DAY_MS
        assert cleaning.cleaner.clean_filthiest_log()
    assert [batch.base_offset for batch in batches(log) if batch.is_control] == [2]


def test_live_producers_keep_their_last_sequence(cleaning: Cleaning) -> None:
    log = cleaning.log()
    record = Record(0, cleaning.world.clock.now_ms, b"key0", b"x")
    log.append_as_leader(build_batch([record], producer_id=77, producer_epoch=3, base_sequence=0), leader_epoch=0)
    cleaning.fill(log, 12)
    assert cleaning.cleaner.clean_filthiest_log()
    first = batches(log)[0]
    assert (first.base_offset, first.record_count, first.size_in_bytes) == (0, 0, 61)
    assert (first.producer_id, first.producer_epoch, first.base_sequence, first.last_sequence) == (77, 3, 0, 0)
    first.ensure_valid()


def test_truncation_aborts_a_running_pass(cleaning: Cleaning) -> None:
    log = cleaning.log()
    cleaning.fill(log, 24)
    job = cleaning.cleaner.next_job()
    assert job is not None
    assert job.advance()
    job.work()
    assert job.advance()
    job.work()  # the first group's .cleaned files are there
    assert cleaning.file_names(".cleaned")
    log.truncate_to(4)  # as fetchers and the mirror do
    assert cleaning.cleaner.next_job() is None, "one run at a time on a partition, aborted or not"
    assert not job.advance()
    assert offsets(log) == [0, 1, 2, 3]
    assert cleaning.file_names(".cleaned") == []
    assert cleaning.checkpoint() == {}
    cleaning.fill(log, 12)
    assert cleaning.cleaner.clean_filthiest_log()


def test_deletion_aborts_a_running_pass(cleaning: Cleaning) -> None:
    log = cleaning.log()
    cleaning.fill(log, 24)
    job = cleaning.cleaner.next_job()
    assert job is not None
    assert job.advance()
    job.work()
    assert job.advance()
    cleaning.manager.async_delete([T])
    job.work()  # on a worker that has not noticed yet: its folder has another name now
    assert not job.advance()
    assert cleaning.world.failures.offline_log_dirs == []
    again = cleaning.log()
    cleaning.fill(again, 12)
    assert cleaning.cleaner.clean_filthiest_log()
    cleaning.world.scheduler.advance(100_000)


def test_cancel_leaves_no_files(cleaning: Cleaning) -> None:
    log = cleaning.log()
    cleaning.fill(log, 24)
    job = cleaning.cleaner.next_job()
    assert job is not None
    job.advance()
    job.work()
    job.advance()
    job.work()
    job.cancel()
    assert cleaning.file_names(".cleaned") == []
    assert offsets(log) == list(range(24))
    assert cleaning.cleaner.clean_filthiest_log()


def test_paused_partitions_wait(cleaning: Cleaning) -> None:
    cleaning.fill(cleaning.log(), 24)
    cleaning.cleaner.abort_and_pause_cleaning(T)
    cleaning.cleaner.abort_and_pause_cleaning(T)
    cleaning.cleaner.resume_cleaning([T])
    assert cleaning.cleaner.next_job() is None
    cleaning.cleaner.resume_cleaning([T])
    assert cleaning.cleaner.clean_filthiest_log()


def test_a_corrupt_partition_is_left_alone_and_named(cleaning: Cleaning, caplog: pytest.LogCaptureFixture) -> None:
    log, other = cleaning.log(), cleaning.log(TopicPartition("t", 1))
    cleaning.fill(log, 24)
    cleaning.fill(other, 12)
    log.log_segments[0].file.pwrite(b"\xff\xff", 68)
    before = (cleaning.data_dir / str(T) / ("0" * 20 + ".log")).read_bytes()
    while cleaning.cleaner.clean_filthiest_log():
        pass
    assert list(cleaning.cleaner.manager.uncleanable_partitions()) == [T]
    assert "00000000000000000000.log" in caplog.text
    assert (cleaning.data_dir / str(T) / ("0" * 20 + ".log")).read_bytes() == before
    assert cleaning.file_names(".cleaned") == []
    assert other.topic_partition in cleaning.checkpoint()
    cleaning.manager.async_delete([T])
    assert cleaning.cleaner.manager.uncleanable_partitions() == {}


def test_a_broken_disk_takes_the_directory_offline(cleaning: Cleaning, monkeypatch: pytest.MonkeyPatch) -> None:
    log = cleaning.log()
    cleaning.fill(log, 24)
    cleaning.world.scheduler.run_due()

    def broken(path: str, mtime_ms: int) -> None:
        raise OSError(5, "broken disk", path)

    monkeypatch.setattr(cleaning.world.files, "set_mtime_ms", broken)
    assert cleaning.cleaner.clean_filthiest_log()
    assert cleaning.cleaner.next_job() is None, "the log is not chosen again before its directory is taken offline"
    cleaning.manager.handle_reported_failures()
    assert cleaning.manager.live_log_dirs == []


def test_a_checkpoint_beyond_the_log_means_clean_everything(cleaning: Cleaning) -> None:
    log = cleaning.log()
    cleaning.fill(log, 24)
    cleaning.cleaner.manager.update_checkpoint(str(cleaning.data_dir), T, 1000)
    job = cleaning.cleaner.next_job()
    assert job is not None
    assert job.candidate.first_dirty_offset == 0
    assert cleaning.checkpoint() == {T: 0}


def test_no_longer_compacted_means_no_longer_cleaned(cleaning: Cleaning) -> None:
    log = cleaning.log()
    cleaning.fill(log, 24)
    job = cleaning.cleaner.next_job()
    assert job is not None
    job.advance()
    cleaning.manager.update_topic_config("t", {**cleaning.topic_config, "cleanup.policy": "delete"}, [0])
    job.work()
    assert not job.advance()
    assert offsets(log) == list(range(24))


@pytest.mark.parametrize("stop", ["cleaned", "swap, old files there", "swap, old files deleted", "half of the swap renamed"])
def test_a_crash_in_the_middle_of_a_swap(cleaning: Cleaning, stop: str, tmp_path: pathlib.Path) -> None:
    """Files are put as a crash at that point would leave them; the restart gives the log before or
    after the swap, nothing else.
    """
    log = cleaning.log()
    cleaning.fill(log, 24)
    log.flush()
    folder = cleaning.data_dir / str(T)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    all_offsets = offsets(log)
    job = cleaning.cleaner.next_job()
    assert job is not None
    job.advance()
    job.work()
    job.advance()
    group = job.candidate.log.log_segments
    job.work()
    cleaned = {path.name.removesuffix(".cleaned"): path.read_bytes() for path in folder.iterdir() if path.name.endswith(".cleaned")}
    assert job.advance()
    after_offsets = offsets(log)
    replaced = {segment.base_offset for segment in group} - {segment.base_offset for segment in log.log_segments}
    cleaning.manager.handle_log_dir_failure(str(cleaning.data_dir), OSError(5, "crash"))
    for path in folder.iterdir():
        path.unlink()
    gone = {f"{base:020d}" for base in [*replaced, 0]} if stop in ("swap, old files deleted", "half of the swap renamed") else set()
    for name, data in before.items():
        (folder / (f"{name}.deleted" if name[:20] in gone and not name.endswith(".snapshot") else name)).write_bytes(data)
    for name, data in cleaned.items():
        is_renamed = stop.startswith("half") and name.endswith(".log")
        (folder / (name if is_renamed else name + (".cleaned" if stop == "cleaned" else ".swap"))).write_bytes(data)
    cleaning.manager = cleaning.start()
    restarted = cleaning.manager.get_log(T)
    assert restarted is not None
    assert offsets(restarted) == (all_offsets if stop == "cleaned" else after_offsets)
    assert restarted.log_end_offset == 24
    assert [name for name in cleaning.file_names("") if name.endswith((".swap", ".cleaned", ".deleted"))] == []


def test_offset_map_knows_its_capacity() -> None:
    offset_map = OffsetMap(24 * 3 + 5)
    assert offset_map.slots == 3
    assert offset_map.get(b"a") == -1
    offset_map.put(b"a", 7)
    offset_map.put(memoryview(b"a"), 9)
    assert (offset_map.get(b"a"), len(offset_map), offset_map.latest_offset) == (9, 1, 9)
    assert offset_map.utilization == pytest.approx(1 / 3)
    offset_map.update_latest_offset(20)
    assert offset_map.latest_offset == 20
    offset_map.clear()
    assert (offset_map.get(b"a"), len(offset_map), offset_map.latest_offset) == (-1, 0, -1)


@pytest.mark.parametrize("count", [1, MIN_RECORDS_FOR_COLUMNS - 1, MIN_RECORDS_FOR_COLUMNS, 100])
@pytest.mark.parametrize("compression", [CompressionType.NONE, CompressionType.LZ4])
def test_keys_are_the_same_from_columns_and_from_records(count: int, compression: CompressionType) -> None:
    records = [
        Record(
            5 + 2 * index, 1000 + index, None if index % 7 == 3 else b"key" * (index % 4), None if index % 5 == 1 else b"v" * (index % 3)
        )
        for index in range(count)
    ]
    batch = RecordBatch(build_batch(records, base_offset=5, compression=compression))
    expected = [(record.offset, record.key, record.value is not None) for record in records]
    assert [(row.offset, None if row.key is None else bytes(row.key), row.has_value) for row in record_keys(batch)] == expected


def test_what_the_metrics_say_of_the_last_pass_and_of_partitions_that_are_left_alone(tmp_path: pathlib.Path) -> None:
    cleaning = Cleaning(tmp_path, {"max.compaction.lag.ms": "60000"}, dedupe_buffer_size=100 * 24)
    clock, data_dir = cleaning.world.clock, str(cleaning.data_dir)

    def values() -> dict[str, int]:
        readings = cleaner_readings(cleaning.cleaner, cleaning.manager, cast(Any, clock))
        return {name.name: value for name, value in readings if isinstance(value, int)}

    cleaning.fill(cleaning.log(), 24, keys=30)
    clock.now_ms += 60_000 + 5_000
    assert cleaning.cleaner.clean_filthiest_log()
    found = values()
    assert (found["max-compaction-delay-secs"], found["uncleanable-bytes"]) == (5, 0)
    assert found["max-buffer-utilization-percent"] == len(offsets(cleaning.manager.logs_in_dir(data_dir)[T])) - 3
    broken = cleaning.log(TopicPartition("t", 1))
    cleaning.fill(broken, 24)
    broken.log_segments[0].file.pwrite(b"\xff\xff", 68)
    while cleaning.cleaner.clean_filthiest_log():
        pass
    found = values()
    sealed = sum(segment.size for segment in broken.log_segments[:-1])
    assert (found["uncleanable-partitions-count"], found["uncleanable-bytes"]) == (1, sealed)


def test_a_compacted_log_in_a_directory_that_failed_ended_the_cleaner_for_all_others(tmp_path: pathlib.Path) -> None:
    cleaning = Cleaning(tmp_path, {"cleanup.policy": "compact,delete", "retention.ms": "1000"})
    failing, other = cleaning.log(), cleaning.log(TopicPartition("t", 1))
    for log in (failing, other):
        cleaning.fill(log)
    cleaning.world.clock.now_ms += DAY_MS
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(failing), "delete_old_segments", _raise_for(failing, type(failing).delete_old_segments))
        assert cleaning.cleaner.delete_old_segments() > 0
    assert other.log_start_offset == other.log_end_offset and failing.log_start_offset == 0


def _raise_for(failing: UnifiedLog, delete: Callable[[UnifiedLog], int]) -> Callable[[UnifiedLog], int]:
    def delete_old_segments(log: UnifiedLog) -> int:
        if log is failing:
            raise ApiException(Errors.KAFKA_STORAGE_ERROR, "the log dir is offline")
        return delete(log)

    return delete_old_segments


def test_a_mistake_of_a_pass_leaves_its_partition_alone_and_lets_go_of_it(cleaning: Cleaning, monkeypatch: pytest.MonkeyPatch) -> None:
    log = cleaning.log()
    cleaning.fill(log)
    monkeypatch.setattr(UnifiedLog, "replace_segments", lambda *arguments: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        cleaning.cleaner.clean_filthiest_log()
    assert cleaning.cleaner.manager.uncleanable_partitions().keys() == {T}
    assert cleaning.file_names(".cleaned") == []
    assert cleaning.cleaner.next_job() is None, "the next look is at the others"
