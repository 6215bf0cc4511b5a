"""`UnifiedLog`: appends, rolls, reads, offsets by time and epoch."""

from __future__ import annotations

import pytest
from support.logs.log_scenes import NOW, Logs, batch, error_of, marker, produce, producer_batch
from support.logs.storage_doubles import StorageWorld

from kmirror.common.errors import ApiException, Errors
from kmirror.record.append_origin import AppendOrigin
from kmirror.record.compression import CompressionType
from kmirror.record.control_record import ControlRecordType, build_mirror_pid_reset
from kmirror.record.record_batch import iter_batches
from kmirror.runtime.os_files import OsFile, OsFileSystem
from kmirror.storage.fetch_data_info import AbortedTxn, FetchIsolation
from kmirror.storage.log_append import UnexpectedAppendOffsetError
from kmirror.storage.log_offset_metadata import LogStartOffsetIncrementReason, TimestampAndOffset
from kmirror.storage.unified_log import UnifiedLog

TAKE_ALL = 2**31 - 1
COORDINATOR = AppendOrigin.COORDINATOR


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
        guard = log.verification_guards.maybe_start(5, 0, 0)
        log.append_as_leader(producer_batch(0, transactional=True), leader_epoch=0, verification_guard=guard)
        assert log.verification_guards.maybe_start(5, 1, 0) is None
        log.append_as_leader(producer_batch(1, transactional=True), leader_epoch=0)
        produce(log, marker(ControlRecordType.COMMIT), origin=COORDINATOR)
        assert error_of(log, producer_batch(2, transactional=True), verification_guard=guard) is Errors.INVALID_TXN_STATE

    def test_the_coordinator_was_asked_about_an_epoch_that_the_log_knows_to_be_old(self, logs: Logs) -> None:
        """It answers CONCURRENT_TRANSACTIONS while markers are written, so a fenced producer would
        have come again and again.
        """
        log = logs.open(verification=True)
        guard = log.verification_guards.maybe_start(5, 0, 1)
        log.append_as_leader(producer_batch(0, transactional=True, producer_epoch=1), leader_epoch=0, verification_guard=guard)
        with pytest.raises(ApiException) as caught:
            log.verification_guards.maybe_start(5, 0, 0)
        assert caught.value.error is Errors.INVALID_PRODUCER_EPOCH

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
        assert (log.latest_epoch, log.latest_batch_epoch()) == (4, 4)
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
        assert (log.last_stable_offset, log.verification_guards.has_ongoing_transaction(5, 0)) == (0, True)
        produce(log, build_mirror_pid_reset("", timestamp=NOW), origin=COORDINATOR)
        assert (log.last_stable_offset, log.verification_guards.has_ongoing_transaction(5, 0)) == (2, False)


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
        assert len([path for path in held if path.endswith(".log")]) == log.segments.number_of_segments
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


class RememberingFiles(OsFileSystem):
    """Remembers every file that was opened."""

    def __init__(self) -> None:
        self.opened: list[OsFile] = []

    def open(self, path: str, *, create: bool = False, exclusive: bool = False, write: bool = True) -> OsFile:
        self.opened.append(super().open(path, create=create, exclusive=exclusive, write=write))
        return self.opened[-1]


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
        assert log.segments.number_of_segments > 2
        for number in range(10):
            assert log.offset_for_timestamp(NOW + 10 * number - 5) == TimestampAndOffset(NOW + 10 * number, number, 0)
        assert log.offset_for_timestamp(NOW + 91) is None
        log.maybe_increment_log_start_offset(2, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)
        assert log.offset_for_timestamp(0) == TimestampAndOffset(NOW + 20, 2, 0)

    def test_an_empty_log(self, logs: Logs) -> None:
        log = logs.open()
        assert (log.offset_for_timestamp(0), log.offset_for_timestamp(-3)) == (None, None)
        assert log.offset_for_timestamp(-1) == TimestampAndOffset(-1, 0, None)
