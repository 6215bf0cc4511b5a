"""`UnifiedLog`: appends, rolls, reads, retention, truncation, epochs, and what a broken disk does."""

from __future__ import annotations

import errno
import pathlib
from typing import Any

import pytest
from storage_doubles import StorageWorld

from kmirror.common.errors import ApiException, Errors
from kmirror.common.ports import File
from kmirror.common.uuid import Uuid
from kmirror.record.append_origin import AppendOrigin
from kmirror.record.builder import build_batch
from kmirror.record.compression import CompressionType
from kmirror.record.control_record import ControlRecordType, build_end_transaction_marker, build_mirror_pid_reset
from kmirror.record.record import Record
from kmirror.record.record_batch import iter_batches
from kmirror.runtime.os_files import OsFile, OsFileSystem
from kmirror.storage.fetch_data_info import AbortedTxn, FetchIsolation
from kmirror.storage.log_append import UnexpectedAppendOffsetError
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_offset_metadata import EpochAndOffset, LogStartOffsetIncrementReason, TimestampAndOffset
from kmirror.storage.producer_state_manager import ProducerStateManagerConfig
from kmirror.storage.unified_log import UnifiedLog

NOW = 1_750_000_000_000
TAKE_ALL = 2**31 - 1
COORDINATOR = AppendOrigin.COORDINATOR


def batch(count: int = 1, *, base_offset: int = 0, size: int = 10, timestamp: int = NOW, epoch: int = -1, **fields: Any) -> bytearray:
    records = [Record(base_offset + index, timestamp, b"k", bytes(size), [], -1) for index in range(count)]
    return build_batch(records, base_offset=base_offset, partition_leader_epoch=epoch, **fields)


def producer_batch(
    sequence: int, *, producer_id: int = 5, producer_epoch: int = 0, transactional: bool = False, count: int = 1
) -> bytearray:
    return batch(count, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=sequence, is_transactional=transactional)


def marker(control_type: ControlRecordType, producer_id: int = 5, producer_epoch: int = 0) -> bytearray:
    return build_end_transaction_marker(
        control_type, coordinator_epoch=1, producer_id=producer_id, producer_epoch=producer_epoch, timestamp=NOW
    )


class Logs:
    """Opens logs in a temporary log dir."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.world = StorageWorld(NOW)

    def open(
        self, *, verification: bool = False, clean: bool = True, recovery_point: int = 0, log_start_offset: int = 0, **config: Any
    ) -> UnifiedLog:
        return UnifiedLog.open(
            str(self.root / "topic-0"),
            LogConfig(**config),
            self.world.ports,
            last_shutdown_clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            producer_state_config=ProducerStateManagerConfig(transaction_verification_enabled=verification),
        )

    def names(self) -> list[str]:
        return sorted(path.name for path in (self.root / "topic-0").iterdir())


@pytest.fixture
def logs(tmp_path: pathlib.Path) -> Logs:
    return Logs(tmp_path)


def produce(log: UnifiedLog, *batches: bytearray, epoch: int = 0, origin: AppendOrigin = AppendOrigin.CLIENT) -> None:
    for records in batches:
        log.append_as_leader(records, leader_epoch=epoch, origin=origin)
    log.update_high_watermark(log.log_end_offset)


def error_of(log: UnifiedLog, records: bytearray, **options: Any) -> Errors:
    with pytest.raises(ApiException) as caught:
        log.append_as_leader(records, leader_epoch=0, **options)
    return caught.value.error


class TestAppendAsLeader:
    def test_offsets_and_epoch_are_assigned_and_crc_is_unchanged(self, logs: Logs) -> None:
        log = logs.open()
        produce(log, batch(3))
        info = log.append_as_leader(batch(2), leader_epoch=4)
        assert (info.first_offset, info.last_offset, info.log_append_time, info.num_messages) == (3, 4, -1, 2)
        header = log.last_batch()
        assert header is not None and (header.base_offset, header.partition_leader_epoch) == (3, 4)
        assert log.leader_epoch_cache.epoch_entries == [(0, 0), (4, 3)]

    def test_read_only_buffers_are_copied(self, logs: Logs) -> None:
        log = logs.open()
        data = bytes(batch(1))
        produce(log, batch(2))
        assert log.append_as_leader(data, leader_epoch=0).first_offset == 2
        assert data == bytes(batch(1))

    def test_what_clients_may_not_send(self, logs: Logs) -> None:
        log = logs.open(max_message_size=200, segment_size=150)
        damaged = batch(1)
        damaged[-1] ^= 1
        assert error_of(log, damaged) is Errors.CORRUPT_MESSAGE
        assert error_of(log, batch(1, base_offset=1)) is Errors.INVALID_RECORD
        assert error_of(log, batch(1, size=300)) is Errors.MESSAGE_TOO_LARGE
        assert error_of(log, batch(1, size=100)) is Errors.RECORD_LIST_TOO_LARGE
        assert error_of(log, marker(ControlRecordType.COMMIT)) is Errors.INVALID_RECORD
        assert error_of(log, build_mirror_pid_reset("x", timestamp=NOW)) is Errors.INVALID_RECORD
        assert error_of(log, bytearray(batch(1)) + b"\0" * 30) is Errors.CORRUPT_MESSAGE
        assert log.log_end_offset == 0

    def test_duplicates_of_the_last_five_batches_are_answered_with_their_offsets(self, logs: Logs) -> None:
        log = logs.open()
        produce(log, *(producer_batch(sequence) for sequence in range(6)))
        again = log.append_as_leader(producer_batch(2), leader_epoch=0)
        assert (again.is_duplicate, again.first_offset, again.last_offset, again.log_append_time) == (True, 2, 2, NOW)
        assert error_of(log, producer_batch(0)) is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert error_of(log, producer_batch(8)) is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert log.log_end_offset == 6

    def test_only_the_last_batch_is_remembered_after_a_restart(self, logs: Logs) -> None:
        log = logs.open()
        produce(log, *(producer_batch(sequence) for sequence in range(3)))
        log.close()
        log = logs.open(recovery_point=3)
        assert log.append_as_leader(producer_batch(2), leader_epoch=0).is_duplicate
        assert error_of(log, producer_batch(1)) is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER

    def test_transactional_batches_need_a_verified_or_ongoing_transaction(self, logs: Logs) -> None:
        log = logs.open(verification=True)
        assert error_of(log, producer_batch(0, transactional=True)) is Errors.INVALID_TXN_STATE
        guard = log.maybe_start_transaction_verification(5, 0, 0)
        log.append_as_leader(producer_batch(0, transactional=True), leader_epoch=0, verification_guard=guard)
        assert log.maybe_start_transaction_verification(5, 1, 0) is None
        log.append_as_leader(producer_batch(1, transactional=True), leader_epoch=0)
        produce(log, marker(ControlRecordType.COMMIT), origin=COORDINATOR)
        assert error_of(log, producer_batch(2, transactional=True), verification_guard=guard) is Errors.INVALID_TXN_STATE

    def test_log_append_time(self, logs: Logs) -> None:
        log = logs.open(message_timestamp_type="LogAppendTime")
        logs.world.clock.now_ms += 99
        info = log.append_as_leader(batch(1), leader_epoch=0)
        header = log.last_batch()
        assert info.log_append_time == NOW + 99 and header is not None and header.max_timestamp == NOW + 99

    def test_the_topics_codec_is_applied(self, logs: Logs) -> None:
        log = logs.open(compression_type="zstd")
        produce(log, batch(3, size=100))
        header = log.last_batch()
        assert header is not None and header.compression_id == CompressionType.ZSTD
        produce(log, marker(ControlRecordType.COMMIT), origin=COORDINATOR)
        header = log.last_batch()
        assert header is not None and header.compression_id == 0

    def test_raft_leader_appends_keep_their_offsets_and_must_carry_the_epoch(self, logs: Logs) -> None:
        log = logs.open()
        info = log.append_as_leader(batch(2, base_offset=7, epoch=3), leader_epoch=3, origin=AppendOrigin.RAFT_LEADER)
        assert (info.first_offset, log.log_end_offset) == (7, 9)
        assert error_of(log, batch(1, base_offset=9, epoch=2), origin=AppendOrigin.RAFT_LEADER) is Errors.INVALID_RECORD


class TestAppendAsFollower:
    def test_bytes_are_written_as_they_are_gaps_and_cut_tail_included(self, logs: Logs) -> None:
        log = logs.open()
        chunk = bytes(batch(2, base_offset=0, epoch=1)) + bytes(batch(1, base_offset=9, epoch=3))
        info = log.append_as_follower(chunk + bytes(batch(1, base_offset=10))[:-3], leader_epoch=3)
        assert (info.first_offset, info.last_offset, info.valid_bytes, log.log_end_offset) == (0, 9, len(chunk), 10)
        assert (logs.root / "topic-0" / "00000000000000000000.log").read_bytes() == chunk
        assert log.leader_epoch_cache.epoch_entries == [(1, 0), (3, 9)]

    def test_a_batch_above_the_epoch_of_the_fetch_and_what_follows_is_skipped(self, logs: Logs) -> None:
        log = logs.open()
        chunk = b"".join(bytes(batch(1, base_offset=offset, epoch=epoch)) for offset, epoch in ((0, 1), (1, 2), (2, 1)))
        info = log.append_as_follower(chunk, leader_epoch=1)
        assert (info.last_offset, info.skipped_higher_epoch, log.log_end_offset) == (0, True, 1)
        info = log.append_as_follower(chunk[len(chunk) // 3 :], leader_epoch=1)
        assert (info.num_messages, info.skipped_higher_epoch, log.log_end_offset) == (0, True, 1)

    def test_offsets_below_the_log_end_or_out_of_order_are_refused(self, logs: Logs) -> None:
        log = logs.open()
        log.append_as_follower(batch(2), leader_epoch=TAKE_ALL)
        with pytest.raises(UnexpectedAppendOffsetError) as caught:
            log.append_as_follower(batch(3, base_offset=1), leader_epoch=TAKE_ALL)
        assert (caught.value.first_offset, caught.value.last_offset) == (1, 3)
        with pytest.raises(ApiException, match="Out of order offsets"):
            log.append_as_follower(batch(1, base_offset=5) + batch(1, base_offset=4), leader_epoch=TAKE_ALL)

    def test_corrupt_batches_are_refused_whole(self, logs: Logs) -> None:
        log = logs.open()
        second = batch(1, base_offset=1)
        second[70] ^= 1
        with pytest.raises(ApiException) as caught:
            log.append_as_follower(batch(1) + second, leader_epoch=TAKE_ALL)
        assert (caught.value.error, log.log_end_offset) == (Errors.CORRUPT_MESSAGE, 0)

    def test_a_lower_epoch_is_taken_and_drops_the_higher_cache_entry(self, logs: Logs) -> None:
        log = logs.open()
        log.maybe_assign_epoch_start_offset(9, 0)
        log.append_as_follower(batch(1, epoch=4), leader_epoch=9)
        assert (log.latest_epoch, log.latest_batch_epoch(), log.largest_batch_epoch()) == (4, 4, 4)
        log.maybe_assign_epoch_start_offset(11, 1)
        assert (log.latest_epoch, log.latest_batch_epoch()) == (11, 4)


class TestMirrorPidReset:
    def chunk(self) -> bytes:
        """p5 opens a transaction, p6 aborts one; reset; p5 produces anew, outside any transaction."""
        parts = [
            producer_batch(0, transactional=True),
            producer_batch(0, producer_id=6, transactional=True),
            marker(ControlRecordType.ABORT, 6),
            build_mirror_pid_reset("source", timestamp=NOW),
            producer_batch(0),
        ]
        for offset, part in enumerate(parts):
            part[0:8] = offset.to_bytes(8, "big")
            part[12:16] = (1).to_bytes(4, "big")
        return b"".join(parts)

    def check(self, log: UnifiedLog) -> None:
        log.update_high_watermark(log.log_end_offset)
        manager = log.producer_state_manager
        assert sorted(manager.active_producers) == [5]
        assert (manager.ongoing_transactions, log.last_stable_offset, log.log_end_offset) == ([], 5, 5)
        assert manager.active_producers[5].current_txn_first_offset is None
        assert log.collect_aborted_transactions(0, 5) == [AbortedTxn(6, 1, 2, 0)]

    def test_in_one_follower_append(self, logs: Logs) -> None:
        log = logs.open()
        log.append_as_follower(self.chunk(), leader_epoch=1)
        assert log.producer_state_manager.unreplicated_transactions == []
        self.check(log)

    def test_in_separate_appends(self, logs: Logs) -> None:
        log = logs.open()
        for part in iter_batches(self.chunk()):
            log.append_as_follower(part.memory, leader_epoch=1)
        self.check(log)

    @pytest.mark.parametrize("recovery_point", [0, 5])
    def test_in_recovery(self, logs: Logs, recovery_point: int) -> None:
        log = logs.open()
        log.append_as_follower(self.chunk(), leader_epoch=1)
        log.flush()
        log.close_handlers()
        self.check(logs.open(clean=False, recovery_point=recovery_point))

    def test_in_a_rebuild_and_undone_when_it_is_cut_off(self, logs: Logs) -> None:
        log = logs.open()
        log.append_as_follower(self.chunk(), leader_epoch=1)
        log.append_as_follower(batch(1, base_offset=5), leader_epoch=1)
        log.truncate_to(5)
        self.check(log)
        log.truncate_to(4)
        assert (log.producer_state_manager.active_producers, log.last_stable_offset) == ({}, 4)
        log.truncate_to(3)
        assert (log.last_stable_offset, sorted(log.producer_state_manager.active_producers)) == (0, [5, 6])

    def test_on_the_leader(self, logs: Logs) -> None:
        log = logs.open()
        produce(log, producer_batch(0, transactional=True))
        assert (log.last_stable_offset, log.has_ongoing_transaction(5, 0)) == (0, True)
        produce(log, build_mirror_pid_reset("", timestamp=NOW), origin=COORDINATOR)
        assert (log.last_stable_offset, log.has_ongoing_transaction(5, 0)) == (2, False)


class TestRoll:
    def bases(self, log: UnifiedLog) -> list[int]:
        return log.segments.base_offsets

    def test_by_size(self, logs: Logs) -> None:
        log = logs.open(segment_size=200)
        produce(log, *(batch(1) for _ in range(5)))
        assert self.bases(log) == [0, 2, 4]

    def test_by_record_time_and_by_wall_clock(self, logs: Logs) -> None:
        log = logs.open(segment_ms=1000)
        produce(log, batch(1), batch(1, timestamp=NOW + 1000), batch(1, timestamp=NOW + 1001), batch(1, timestamp=NOW))
        assert self.bases(log) == [0, 2]
        other = Logs(logs.root / "other")
        log = other.open(segment_ms=1000)
        produce(log, batch(1, timestamp=-1))
        other.world.clock.now_ms += 1001
        produce(log, batch(1, timestamp=-1))
        assert self.bases(log) == [0, 1]

    def test_compacted_topics_roll_in_time_for_max_compaction_lag(self, logs: Logs) -> None:
        log = logs.open(compact=True, max_compaction_lag_ms=500)
        produce(log, batch(1), batch(1, timestamp=NOW + 501))
        assert self.bases(log) == [0, 1]

    def test_by_a_full_offset_index_and_by_a_full_time_index(self, logs: Logs) -> None:
        log = logs.open(max_index_size=36, index_interval=0)
        produce(log, *(batch(1) for _ in range(8)))
        assert self.bases(log) == [0, 5]
        other = Logs(logs.root / "other")
        log = other.open(max_index_size=36, index_interval=0)
        produce(log, *(batch(1, timestamp=NOW + number) for number in range(5)))
        assert self.bases(log) == [0, 3]

    def test_a_long_follower_append_may_fill_the_indexes(self, logs: Logs) -> None:
        log = logs.open(max_index_size=24, index_interval=0)
        log.append_as_follower(
            b"".join(bytes(batch(1, base_offset=offset, timestamp=NOW + offset)) for offset in range(20)), leader_epoch=TAKE_ALL
        )
        log.append_as_follower(batch(1, base_offset=20), leader_epoch=TAKE_ALL)
        assert (self.bases(log), log.log_segments[0].offset_index.entries) == ([0, 20], 3)
        assert [header.base_offset for header in map(log.batch_containing, range(21)) if header] == list(range(21))

    def test_by_an_offset_too_far_from_the_base(self, logs: Logs) -> None:
        log = logs.open()
        for offset in (0, 2**31 - 1, 2**31):
            log.append_as_follower(batch(1, base_offset=offset), leader_epoch=TAKE_ALL)
        assert self.bases(log) == [0, 2**31]

    def test_a_roll_trims_indexes_takes_a_snapshot_and_schedules_the_flush(self, logs: Logs) -> None:
        log = logs.open(index_interval=0)
        produce(log, batch(1), batch(1))
        log.roll()
        folder = logs.root / "topic-0"
        assert (folder / "00000000000000000000.index").stat().st_size == 8
        assert (folder / "00000000000000000000.timeindex").stat().st_size == 12
        assert (folder / "00000000000000000002.snapshot").exists()
        assert log.recovery_point == 0
        logs.world.scheduler.run_due()
        assert log.recovery_point == 2
        produce(log, batch(1))
        assert (folder / "00000000000000000002.index").stat().st_size == 10_485_760
        assert (folder / "00000000000000000002.timeindex").stat().st_size == 10_485_756

    def test_segments_hold_one_descriptor_each(self, logs: Logs) -> None:
        files = RememberingFiles()
        logs.world = StorageWorld(NOW, files=files)
        log = logs.open(segment_size=200, index_interval=0)
        produce(log, *(batch(1) for _ in range(20)))
        logs.world.scheduler.run_due()
        held = [file.path for file in files.opened if not file.closed]
        assert len([path for path in held if path.endswith(".log")]) == log.number_of_segments
        assert [path for path in held if path.endswith("index")] == [], "an index is open only while something is done to it"

    def test_an_empty_active_segment_with_full_indexes_is_made_anew(self, logs: Logs) -> None:
        log = logs.open(max_index_size=7)
        produce(log, batch(1))
        assert self.bases(log) == [0]
        assert "00000000000000000000.log.deleted" in logs.names()

    def test_preallocated_logs_are_trimmed(self, logs: Logs) -> None:
        log = logs.open(preallocate=True, segment_size=5000)
        produce(log, batch(1))
        path = logs.root / "topic-0" / "00000000000000000000.log"
        assert path.stat().st_size == 5000
        log.close()
        assert path.stat().st_size == len(batch(1))


class TestRead:
    def test_isolation_limits(self, logs: Logs) -> None:
        log = logs.open()
        produce(log, batch(1), producer_batch(0, transactional=True), batch(1))
        log.append_as_leader(batch(1), leader_epoch=0)
        sizes = [log.read(0, 10_000, isolation, min_one_message=True).records.size // len(batch(1)) for isolation in FetchIsolation]
        assert sizes == [4, 3, 1]
        assert log.read(1, 10_000, FetchIsolation.TXN_COMMITTED, min_one_message=True).records.size == 0
        assert log.read(4, 10_000, FetchIsolation.LOG_END, min_one_message=True).fetch_offset_metadata == log.log_end_offset_metadata

    def test_the_first_batch_begins_at_or_below_the_offset_and_may_exceed_the_limit(self, logs: Logs) -> None:
        log = logs.open()
        produce(log, batch(5), batch(5))
        info = log.read(3, 10, FetchIsolation.LOG_END, min_one_message=True)
        assert (info.records.to_bytes()[:8], info.records.size, info.first_entry_incomplete) == (bytes(8), len(batch(5)), False)
        info = log.read(3, 10, FetchIsolation.LOG_END, min_one_message=False)
        assert (info.records.size, info.first_entry_incomplete) == (10, True)
        assert info.fetch_offset_metadata == (3, 0, 0)

    def test_outside_the_log(self, logs: Logs) -> None:
        log = logs.open()
        produce(log, batch(5))
        log.maybe_increment_log_start_offset(2, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)
        for offset in (1, 6):
            with pytest.raises(ApiException) as caught:
                log.read(offset, 1, FetchIsolation.LOG_END, min_one_message=True)
            assert caught.value.error is Errors.OFFSET_OUT_OF_RANGE

    def test_aborted_transactions_over_several_segments(self, logs: Logs) -> None:
        log = logs.open(segment_size=200, index_interval=0)
        produce(log, producer_batch(0, transactional=True), producer_batch(0, producer_id=6, transactional=True))
        produce(log, batch(1), marker(ControlRecordType.ABORT, 6), marker(ControlRecordType.ABORT), batch(1), origin=COORDINATOR)
        first = log.read(0, 10_000, FetchIsolation.TXN_COMMITTED, min_one_message=True)
        assert first.aborted_transactions == [AbortedTxn(6, 1, 3, 0), AbortedTxn(5, 0, 4, 5)]
        assert log.read(4, 10_000, FetchIsolation.TXN_COMMITTED, min_one_message=True).aborted_transactions == [AbortedTxn(5, 0, 4, 5)]
        assert log.read(5, 10_000, FetchIsolation.TXN_COMMITTED, min_one_message=True).aborted_transactions == []
        assert log.read(0, 10_000, FetchIsolation.HIGH_WATERMARK, min_one_message=True).aborted_transactions is None

    def test_a_slice_stays_readable_after_its_segment_was_renamed(self, logs: Logs) -> None:
        log = logs.open(retention_ms=10)
        produce(log, batch(1))
        info = log.read(0, 1000, FetchIsolation.LOG_END, min_one_message=True)
        logs.world.clock.now_ms += 100
        assert log.delete_old_segments() == 1
        assert len(info.records.to_bytes()) == len(batch(1))


class TestListOffsets:
    def test_special_timestamps(self, logs: Logs) -> None:
        log = logs.open()
        produce(log, batch(2, timestamp=NOW), batch(2, timestamp=NOW + 50), epoch=3)
        produce(log, batch(2, timestamp=NOW + 20), epoch=4)
        assert log.offset_for_timestamp(-2) == log.offset_for_timestamp(-4) == TimestampAndOffset(-1, 0, 3)
        assert log.offset_for_timestamp(-1) == TimestampAndOffset(-1, 6, 4)
        assert log.offset_for_timestamp(-3) == TimestampAndOffset(NOW + 50, 2, 3)
        assert log.offset_for_timestamp(-5) == TimestampAndOffset(-1, -1, -1)

    def test_by_time_over_segments_and_above_the_log_start(self, logs: Logs) -> None:
        log = logs.open(segment_size=300, index_interval=0)
        produce(log, *(batch(1, timestamp=NOW + 10 * number) for number in range(10)))
        assert log.number_of_segments > 2
        for number in range(10):
            assert log.offset_for_timestamp(NOW + 10 * number - 5) == TimestampAndOffset(NOW + 10 * number, number, 0)
        assert log.offset_for_timestamp(NOW + 91) is None
        log.maybe_increment_log_start_offset(2, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)
        assert log.offset_for_timestamp(0) == TimestampAndOffset(NOW + 20, 2, 0)

    def test_an_empty_log(self, logs: Logs) -> None:
        log = logs.open()
        assert (log.offset_for_timestamp(0), log.offset_for_timestamp(-3)) == (None, None)
        assert log.offset_for_timestamp(-1) == TimestampAndOffset(-1, 0, None)


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
        assert (log.log_end_offset, log.producer_id_count, log.segments.base_offsets) == (0, 0, [0])
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
        """A worker's (of a reset, of a topic that is deleted): it opened an index under its old name, and the log directory was lost."""

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

    def test_high_watermark_is_clamped_and_its_listener_told(self, logs: Logs) -> None:
        log = logs.open()
        seen: list[int] = []
        log.set_offsets_listener(seen.append)
        produce(log, batch(5))
        assert (log.update_high_watermark(99), log.update_high_watermark(-5), log.maybe_update_high_watermark(0)) == (5, 0, None)
        assert log.maybe_increment_high_watermark(log.log_end_offset_metadata) is not None
        assert log.maybe_increment_high_watermark(log.log_end_offset_metadata) is None
        assert seen == [5, 5, 0, 0, 0, 5]

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


class RememberingFiles(OsFileSystem):
    """Remembers every file that was opened."""

    def __init__(self) -> None:
        self.opened: list[OsFile] = []

    def open(self, path: str, *, create: bool = False, exclusive: bool = False, write: bool = True) -> OsFile:
        self.opened.append(super().open(path, create=create, exclusive=exclusive, write=write))
        return self.opened[-1]


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
