"""Producer state: sequences, epochs, markers, snapshots, expiry (Kafka's `ProducerStateManagerTest`
in spirit).
"""

from __future__ import annotations

import pathlib

import pytest
from support.logs.storage_doubles import StorageWorld

from kmirror.common.errors import ApiException, CorruptFileError, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.append_origin import AppendOrigin
from kmirror.storage.batch_header import BatchHeader
from kmirror.storage.log_offset_metadata import LogOffsetMetadata
from kmirror.storage.producer_snapshot_file import decode_producer_snapshot, encode_producer_snapshot
from kmirror.storage.producer_state_entry import BatchMetadata, CompletedTxn, ProducerStateEntry
from kmirror.storage.producer_state_manager import GRACE_AFTER_LOADING_MS, ProducerStateManager

PID = 17
CLIENT, REPLICATION = AppendOrigin.CLIENT, AppendOrigin.REPLICATION


@pytest.fixture
def world() -> StorageWorld:
    return StorageWorld()


@pytest.fixture
def manager(tmp_path: pathlib.Path, world: StorageWorld) -> ProducerStateManager:
    return ProducerStateManager(TopicPartition("t", 0), str(tmp_path), files=world.files, clock=world.clock)


def header(
    offset: int, *, sequence: int = 0, epoch: int = 0, count: int = 1, transactional: bool = False, timestamp: int = 5
) -> BatchHeader:
    attributes = 0x10 if transactional else 0
    return BatchHeader(offset, 50, 0, 2, 0, attributes, count - 1, timestamp, timestamp, PID, epoch, sequence, count, 0)


def append(manager: ProducerStateManager, batch: BatchHeader, origin: AppendOrigin = CLIENT) -> None:
    info = manager.prepare_update(PID, origin)
    info.append_data_batch(batch, LogOffsetMetadata(batch.base_offset))
    manager.update(info)
    manager.update_map_end_offset(batch.next_offset)


def end(
    manager: ProducerStateManager, offset: int, *, epoch: int = 0, coordinator_epoch: int = 0, transaction_version: int = 0
) -> CompletedTxn | None:
    info = manager.prepare_update(PID, AppendOrigin.COORDINATOR)
    marker = header(offset, epoch=epoch, transactional=True)
    completed = info.append_end_txn_marker(
        marker, is_abort=True, coordinator_epoch=coordinator_epoch, timestamp=9, transaction_version=transaction_version
    )
    manager.update(info)
    if completed is not None:
        manager.complete_txn(completed)
    return completed


def refused(manager: ProducerStateManager, batch: BatchHeader, origin: AppendOrigin = CLIENT) -> Errors:
    with pytest.raises(ApiException) as caught:
        append(manager, batch, origin)
    return caught.value.error


class TestSequences:
    def test_the_next_sequence_is_accepted_and_a_gap_is_not(self, manager: ProducerStateManager) -> None:
        append(manager, header(0, sequence=0, count=3))
        append(manager, header(3, sequence=3))
        assert refused(manager, header(4, sequence=5)) is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert refused(manager, header(4, sequence=3)) is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER

    def test_an_unknown_producer_may_start_anywhere(self, manager: ProducerStateManager) -> None:
        append(manager, header(0, sequence=44))

    def test_sequences_wrap_to_zero(self, manager: ProducerStateManager) -> None:
        append(manager, header(0, sequence=2**31 - 10, count=10))
        append(manager, header(10, sequence=0))
        append(manager, header(11, sequence=1))

    def test_a_batch_may_wrap_inside(self, manager: ProducerStateManager) -> None:
        append(manager, header(0, sequence=2**31 - 1, count=3))
        entry = manager.last_entry(PID)
        assert entry is not None and (entry.first_sequence, entry.last_sequence) == (2**31 - 1, 1)
        assert entry.find_duplicate_batch(0, 2**31 - 1, 1) is not None

    def test_a_new_epoch_starts_at_zero_and_an_old_one_is_fenced(self, manager: ProducerStateManager) -> None:
        append(manager, header(0, epoch=1))
        assert refused(manager, header(1, epoch=2, sequence=1)) is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
        append(manager, header(1, epoch=2, sequence=0))
        assert refused(manager, header(2, epoch=1, sequence=1)) is Errors.INVALID_PRODUCER_EPOCH
        append(manager, header(2, epoch=1, sequence=77), REPLICATION)

    def test_five_batches_are_remembered_for_duplicates(self, manager: ProducerStateManager) -> None:
        for number in range(7):
            append(manager, header(number, sequence=number))
        entry = manager.last_entry(PID)
        assert entry is not None
        assert [entry.find_duplicate_batch(0, number, number) is not None for number in range(7)] == [False, False, *[True] * 5]
        assert entry.find_duplicate_batch(1, 6, 6) is None

    def test_coordinators_are_not_asked_for_sequences(self, manager: ProducerStateManager) -> None:
        append(manager, header(0, sequence=-1), AppendOrigin.COORDINATOR)
        append(manager, header(1, sequence=-1), AppendOrigin.COORDINATOR)


class TestTransactions:
    def test_first_unstable_offset_waits_for_the_marker_and_for_the_high_watermark(self, manager: ProducerStateManager) -> None:
        append(manager, header(3, transactional=True))
        assert manager.first_unstable_offset == LogOffsetMetadata(3)
        completed = end(manager, 4)
        assert completed == CompletedTxn(PID, 3, 4, True)
        assert (manager.first_undecided_offset, manager.first_unstable_offset) == (None, LogOffsetMetadata(3))
        manager.on_high_watermark_updated(4)
        assert manager.first_unstable_offset is not None
        manager.on_high_watermark_updated(5)
        assert manager.first_unstable_offset is None

    def test_data_outside_the_open_transaction_is_refused(self, manager: ProducerStateManager) -> None:
        append(manager, header(0, transactional=True))
        assert refused(manager, header(1, sequence=1)) is Errors.INVALID_TXN_STATE

    def test_what_a_leader_accepted_ends_a_transaction_that_it_had_lost(self, manager: ProducerStateManager) -> None:
        append(manager, header(0, transactional=True))
        append(manager, header(1, sequence=1), REPLICATION)
        assert (manager.first_undecided_offset, manager.ongoing_transactions) == (None, [])
        append(manager, header(2, sequence=2, transactional=True), REPLICATION)
        assert end(manager, 3) == CompletedTxn(PID, 2, 3, True)

    def test_a_lost_transaction_and_the_next_one_may_come_in_one_append(self, manager: ProducerStateManager) -> None:
        info = manager.prepare_update(PID, REPLICATION)
        for offset, transactional in enumerate((True, False, True)):
            info.append_data_batch(header(offset, sequence=offset, transactional=transactional), LogOffsetMetadata(offset))
        manager.update(info)
        assert [transaction.first_offset.message_offset for transaction in manager.ongoing_transactions] == [2]

    def test_a_marker_without_data_completes_nothing(self, manager: ProducerStateManager) -> None:
        assert end(manager, 0) is None
        entry = manager.last_entry(PID)
        assert entry is not None and entry.last_timestamp == 9

    def test_an_old_coordinator_is_fenced(self, manager: ProducerStateManager) -> None:
        end(manager, 0, coordinator_epoch=5)
        with pytest.raises(ApiException) as caught:
            end(manager, 1, coordinator_epoch=4)
        assert caught.value.error is Errors.TRANSACTION_COORDINATOR_FENCED

    def test_markers_of_version_2_need_a_higher_epoch_unless_they_repeat(self, manager: ProducerStateManager) -> None:
        append(manager, header(0, transactional=True))
        with pytest.raises(ApiException) as caught:
            end(manager, 1, epoch=0, transaction_version=2)
        assert caught.value.error is Errors.INVALID_PRODUCER_EPOCH
        assert end(manager, 1, epoch=1, transaction_version=2) is not None
        assert end(manager, 2, epoch=1, transaction_version=2) is None

    def test_last_stable_offset_of_a_marker_counts_only_what_began_before_it(self, manager: ProducerStateManager) -> None:
        append(manager, header(0, transactional=True))
        completed = CompletedTxn(PID, 0, 2, True)
        assert manager.last_stable_offset(completed) == 3
        other = manager.prepare_update(99, REPLICATION)
        other.append_data_batch(header(1, transactional=True)._replace(producer_id=99), LogOffsetMetadata(1))
        manager.update(other)
        assert manager.last_stable_offset(completed) == 1

    def test_a_late_transaction_is_noticed(self, manager: ProducerStateManager) -> None:
        append(manager, header(0, transactional=True, timestamp=1000))
        assert not manager.has_late_transaction(1000 + 900_000 + 300_000)
        assert manager.has_late_transaction(1001 + 900_000 + 300_000)


class TestSnapshots:
    def test_round_trip_keeps_the_last_batch_and_the_open_transaction(self, manager: ProducerStateManager, world: StorageWorld) -> None:
        append(manager, header(0, sequence=0, transactional=True, timestamp=world.clock.now_ms))
        append(manager, header(1, sequence=1, count=4, transactional=True, timestamp=world.clock.now_ms))
        path = manager.take_snapshot()
        assert path is not None and path.endswith("/00000000000000000005.snapshot")
        assert manager.take_snapshot() is None
        (entry,) = decode_producer_snapshot(path, world.files.read_bytes(path))
        assert list(entry.batches) == [BatchMetadata(4, 4, 3, world.clock.now_ms)]
        assert entry.current_txn_first_offset == 0

    def test_order_is_that_of_a_java_hash_map(self, manager: ProducerStateManager, world: StorageWorld) -> None:
        for producer_id in (33, 16, 1, 17, 0):
            manager.load_producer_entry(ProducerStateEntry(producer_id))
        manager.update_map_end_offset(1)
        path = manager.take_snapshot()
        assert path is not None
        assert [entry.producer_id for entry in decode_producer_snapshot(path, world.files.read_bytes(path))] == [16, 0, 33, 1, 17]

    @pytest.mark.parametrize("damage", [b"", b"\0\2", b"\0\1\0\0"])
    def test_a_corrupt_snapshot_is_removed_and_the_next_older_one_used(
        self, manager: ProducerStateManager, world: StorageWorld, tmp_path: pathlib.Path, damage: bytes
    ) -> None:
        append(manager, header(0, timestamp=world.clock.now_ms))
        manager.take_snapshot()
        append(manager, header(1, sequence=1, timestamp=world.clock.now_ms))
        path = manager.take_snapshot()
        assert path is not None
        pathlib.Path(path).write_bytes(damage)
        with pytest.raises(CorruptFileError):
            decode_producer_snapshot(path, damage)
        manager.update_map_end_offset(9)
        manager.truncate_and_reload(0, 2, world.clock.now_ms)
        assert (manager.map_end_offset, not pathlib.Path(path).exists()) == (1, True)
        entry = manager.last_entry(PID)
        assert entry is not None and entry.last_data_offset == 0

    def test_idle_producers_are_dropped_by_time(self, manager: ProducerStateManager, world: StorageWorld) -> None:
        now = world.clock.now_ms
        append(manager, header(0, timestamp=now))
        manager.remove_expired_producers(now + 86_399_999)
        assert manager.producer_id_count == 1
        manager.remove_expired_producers(now + 86_400_000)
        assert manager.producer_id_count == 0

    def test_a_producer_of_old_records_was_forgotten_while_it_wrote(self, manager: ProducerStateManager, world: StorageWorld) -> None:
        now = world.clock.now_ms
        append(manager, header(0, timestamp=now - 2 * 86_400_000))
        manager.remove_expired_producers(now + 86_399_999)
        assert manager.producer_id_count == 1
        manager.remove_expired_producers(now + 86_400_000)
        assert manager.producer_id_count == 0

    def test_a_producer_of_old_records_was_forgotten_at_each_restart(self, manager: ProducerStateManager, world: StorageWorld) -> None:
        now = world.clock.now_ms
        append(manager, header(0, timestamp=now - 2 * 86_400_000))
        manager.take_snapshot()
        manager.update_map_end_offset(9)
        manager.truncate_and_reload(0, 1, now)
        manager.remove_expired_producers(now + GRACE_AFTER_LOADING_MS - 1)
        entry = manager.last_entry(PID)
        assert entry is not None and entry.find_duplicate_batch(0, 0, 0) is not None
        assert manager.producer_id_count == 0, "snapshots are written without it, as Kafka's"
        manager.remove_expired_producers(now + GRACE_AFTER_LOADING_MS)
        assert manager.last_entry(PID) is None

    def test_it_is_remembered_for_one_restart(self, manager: ProducerStateManager, world: StorageWorld) -> None:
        """Kafka's snapshots have no room for it, and Kafka forgets it at the first (decision 78)."""
        now = world.clock.now_ms
        append(manager, header(0, timestamp=now - 2 * 86_400_000))
        for end, is_known in ((1, True), (2, False)):
            manager.take_snapshot()
            manager.update_map_end_offset(9)
            manager.truncate_and_reload(0, end, now)
            assert (manager.last_entry(PID) is not None) is is_known
            manager.update_map_end_offset(2)  # others have written meanwhile, so there is a new snapshot

    def test_a_remembered_producer_is_back_with_its_next_batch(self, manager: ProducerStateManager, world: StorageWorld) -> None:
        now = world.clock.now_ms
        append(manager, header(0, timestamp=now - 2 * 86_400_000))
        manager.take_snapshot()
        manager.update_map_end_offset(9)
        manager.truncate_and_reload(0, 1, now)
        append(manager, header(1, sequence=1, timestamp=now - 2 * 86_400_000))
        manager.remove_expired_producers(now + GRACE_AFTER_LOADING_MS)
        assert manager.producer_id_count == 1
        with pytest.raises(ApiException) as caught:
            append(manager, header(2, sequence=7, timestamp=now))
        assert caught.value.error is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER

    def test_strays_are_removed_except_the_newest_above_the_last_base(self, manager: ProducerStateManager, tmp_path: pathlib.Path) -> None:
        for offset in (5, 10, 12, 20, 25):
            (tmp_path / f"{offset:020d}.snapshot").write_bytes(encode_producer_snapshot([]))
        manager.remove_stray_snapshots([10, 20])
        assert sorted(int(path.stem) for path in tmp_path.glob("*.snapshot")) == [10, 20, 25]

    def test_pid_reset_forgets_producers_and_transactions(self, manager: ProducerStateManager) -> None:
        append(manager, header(0, transactional=True))
        manager.apply_pid_reset()
        assert (manager.producer_id_count, manager.first_unstable_offset) == (0, None)
