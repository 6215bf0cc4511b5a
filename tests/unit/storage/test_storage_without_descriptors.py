"""A log whose process has no file descriptor left: Kafka holds its files open, so there flushes and
reads go on.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator

import pytest
from support.brokers.descriptor_doubles import all_descriptors_taken, in_a_process_of_its_own
from support.logs.storage_doubles import StorageWorld

from kmirror.common.errors import ApiException, Errors
from kmirror.record.append_origin import AppendOrigin
from kmirror.record.builder import build_batch
from kmirror.record.control_record import ControlRecordType, build_end_transaction_marker
from kmirror.record.record import Record
from kmirror.runtime.descriptors import SPARES
from kmirror.runtime.os_files import OsFileSystem
from kmirror.storage.fetch_data_info import FetchIsolation
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_offset_metadata import TimestampAndOffset
from kmirror.storage.log_open_options import LogOpenOptions
from kmirror.storage.offset_index import OffsetIndex
from kmirror.storage.producer_state_manager import ProducerStateManagerConfig
from kmirror.storage.unified_log import UnifiedLog

NOW = 1_750_000_000_000


@pytest.fixture
def spares() -> Iterator[None]:
    SPARES.keep(3)
    yield
    SPARES.keep(0)


def log_in(world: StorageWorld, folder: pathlib.Path, *, recovery_point: int = 0) -> UnifiedLog:
    return UnifiedLog.open(
        str(folder / "topic-0"),
        LogConfig(),
        world.ports,
        LogOpenOptions(
            recovery_point=recovery_point, producer_state_config=ProducerStateManagerConfig(transaction_verification_enabled=False)
        ),
    )


def append(log: UnifiedLog, count: int = 1) -> None:
    for _ in range(count):
        log.append_as_leader(build_batch([Record(0, NOW, b"k", b"v" * 3000, [], -1)], base_offset=0), leader_epoch=0)
    log.update_high_watermark(log.log_end_offset)


@in_a_process_of_its_own
def test_a_flush_without_a_free_descriptor_uses_a_spare_one(tmp_path: pathlib.Path, spares: None) -> None:
    world = StorageWorld(NOW)
    log = log_in(world, tmp_path)
    append(log, 5)
    with all_descriptors_taken():
        append(log)
        log.flush()
        assert log.recovery_point == 6
        log.roll()
        append(log)
        log.flush()
    assert (log.recovery_point, world.failures.offline_log_dirs) == (7, [])


@in_a_process_of_its_own
def test_a_flush_without_any_descriptor_fails_alone_and_is_made_up_for(tmp_path: pathlib.Path) -> None:
    world = StorageWorld(NOW)
    log = log_in(world, tmp_path)
    append(log, 5)
    with all_descriptors_taken():
        append(log)
        with pytest.raises(ApiException) as caught:
            log.flush()
        assert caught.value.error is Errors.KAFKA_STORAGE_ERROR
        append(log)
    assert (log.log_end_offset, log.recovery_point, world.failures.offline_log_dirs) == (7, 0, [])
    log.flush()
    assert log.recovery_point == 7


@in_a_process_of_its_own
def test_a_read_without_any_descriptor_fails_alone(tmp_path: pathlib.Path) -> None:
    world = StorageWorld(NOW)
    log = log_in(world, tmp_path)
    append(log, 5)
    log.flush()
    log.close()
    again = log_in(world, tmp_path, recovery_point=5)
    again.update_high_watermark(5)
    with all_descriptors_taken():
        with pytest.raises(ApiException) as reading:
            again.read(2, 10_000, FetchIsolation.LOG_END, min_one_message=True)
        with pytest.raises(ApiException) as searching:
            again.offset_for_timestamp(NOW)
    assert (reading.value.error, searching.value.error) == (Errors.KAFKA_STORAGE_ERROR, Errors.KAFKA_STORAGE_ERROR)
    assert world.failures.offline_log_dirs == []
    assert again.read(2, 10_000, FetchIsolation.LOG_END, min_one_message=True).records.size
    found = again.offset_for_timestamp(NOW)
    assert isinstance(found, TimestampAndOffset) and found.offset == 0


@in_a_process_of_its_own
def test_an_index_that_cannot_be_read_does_not_count_as_empty(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "0.index")
    index = OffsetIndex(OsFileSystem(), path, base_offset=0, max_index_size=800)
    index.append(7, 100)
    index.close()
    again = OffsetIndex(OsFileSystem(), path, base_offset=0, max_index_size=800)
    with all_descriptors_taken(), pytest.raises(OSError, match="open files"):
        again.lookup(7)
    assert again.lookup(7) == (7, 100)
    again.close()
    assert os.path.getsize(path) == 8


def test_aborted_transactions_hold_no_descriptor(tmp_path: pathlib.Path) -> None:
    log = log_in(StorageWorld(NOW), tmp_path)
    data = build_batch(
        [Record(0, NOW, b"k", b"v", [], 0)], base_offset=0, producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    log.append_as_leader(data, leader_epoch=0, origin=AppendOrigin.COORDINATOR)
    abort = build_end_transaction_marker(ControlRecordType.ABORT, coordinator_epoch=1, producer_id=5, producer_epoch=0, timestamp=NOW)
    log.append_as_leader(abort, leader_epoch=0, origin=AppendOrigin.COORDINATOR)
    log.flush()
    held = [os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")]
    assert [path for path in held if path.endswith(".txnindex")] == []
    assert (tmp_path / "topic-0" / f"{0:020}.txnindex").stat().st_size == 34
