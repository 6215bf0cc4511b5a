"""The disk fails under a running broker: the directory goes offline, whatever was being done, and
nothing else does.

What was appended before is there at the next start; the other directory's log goes on. One test a
kind of access.
"""

from __future__ import annotations

import errno
import pathlib
from collections.abc import Callable

import pytest
from support.logs.failing_files import FailingFiles
from support.logs.log_scenes import NOW, batch, marker, producer_batch
from support.logs.storage_doubles import StorageWorld

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.record.append_origin import AppendOrigin
from kmirror.record.control_record import ControlRecordType
from kmirror.runtime.os_files import OsFileSystem
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_manager import LogManager
from kmirror.storage.log_manager_config import LogManagerConfig
from kmirror.storage.log_offset_metadata import LogStartOffsetIncrementReason
from kmirror.storage.unified_log import UnifiedLog

T0, U0 = TopicPartition("t", 0), TopicPartition("u", 0)
TOPIC_ID = Uuid(b"topic-id-16bytes")
CONFIG = LogConfig(segment_size=2000, index_interval=100, max_index_size=240, flush_ms=1, file_delete_delay_ms=1000)


class Broker:
    """Two directories with a log each."""

    def __init__(self, root: pathlib.Path) -> None:
        self.dirs = tuple(str(root / name) for name in ("a", "b"))
        self.world = StorageWorld(NOW, files=FailingFiles(OsFileSystem()))
        self.told: list[str] = []
        self.manager = self.start()
        logs = [self.manager.get_or_create_log(each, topic_id=TOPIC_ID, is_new=True) for each in (T0, U0)]
        self.log, self.other = logs
        self.failed, self.healthy = self.log.parent_dir, self.other.parent_dir
        assert self.failed != self.healthy
        for log in logs:
            for number in range(8):
                append(log, number)

    @property
    def files(self) -> FailingFiles:
        assert isinstance(self.world.files, FailingFiles)
        return self.world.files

    def start(self) -> LogManager:
        manager = LogManager(
            LogManagerConfig(log_dirs=self.dirs, transaction_verification_enabled=False),
            files=self.world.files,
            clock=self.world.clock,
            random=self.world.random,
            scheduler=self.world.scheduler,
            default_log_config=CONFIG,
            topic_config=lambda topic: {},
            on_log_dir_failure=lambda log_dir, error: self.told.append(log_dir),
        )
        manager.startup()
        return manager


def append(log: UnifiedLog, number: int) -> None:
    log.append_as_leader(batch(1, size=100 + number), leader_epoch=1)
    log.update_high_watermark(log.log_end_offset)


def abort_a_transaction(broker: Broker) -> None:
    broker.log.append_as_leader(producer_batch(0, transactional=True), leader_epoch=1)
    broker.log.append_as_leader(marker(ControlRecordType.ABORT), leader_epoch=1, origin=AppendOrigin.COORDINATOR)


def late_epochs(broker: Broker) -> None:
    broker.log.leader_epoch_cache.truncate_from_start_async_flush(3)
    broker.world.scheduler.run_due()


def late_topic_id(broker: Broker) -> None:
    broker.manager.factory.open(f"{broker.failed}/v-0", CONFIG, topic_id=TOPIC_ID)
    broker.world.scheduler.run_due()


def late_flush(broker: Broker) -> None:
    broker.log.roll()
    broker.world.scheduler.run_due()


def remove_segments(broker: Broker) -> None:
    broker.log.roll()
    broker.log.maybe_increment_log_start_offset(8, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)
    broker.log.delete_old_segments()
    broker.world.scheduler.advance(5000)


Act = Callable[[Broker], object]
KINDS: dict[str, tuple[str, str, Act]] = {
    "append": ("pwrite", ".log", lambda broker: append(broker.log, 9)),
    "append of an aborted transaction": ("create", ".txnindex", abort_a_transaction),
    "flush": ("fsync", ".log", lambda broker: broker.log.flush()),
    "periodic flush": ("fsync", ".log", lambda broker: (broker.world.scheduler.advance(10), broker.manager.tasks.flush_dirty_logs())),
    "roll": ("create", ".log", lambda broker: broker.log.roll()),
    "producer snapshot of a roll": ("write_bytes", ".snapshot", lambda broker: broker.log.roll()),
    "flush behind a roll": ("fsync", ".log", late_flush),
    "index of a roll": ("truncate", "index", lambda broker: broker.log.roll()),
    "leader epoch": ("write_bytes", "leader-epoch-checkpoint", lambda broker: broker.log.maybe_assign_epoch_start_offset(2, 8)),
    "late leader epochs": ("write_bytes", "leader-epoch-checkpoint", late_epochs),
    "topic id": ("write_bytes", "partition.metadata", late_topic_id),
    "recovery points": ("write_bytes", "recovery-point", lambda broker: broker.manager.checkpoints.write_recovery_points()),
    "log starts": ("rename", "log-start-offset", lambda broker: broker.manager.checkpoints.write_log_start_offsets()),
    "high watermarks": (
        "fsync",
        "replication-offset",
        lambda broker: broker.manager.checkpoint_high_watermarks(broker.failed, {T0: 3}),
    ),
    "reading high watermarks": ("read_bytes", "replication-offset", lambda broker: broker.manager.read_high_watermarks(broker.failed)),
    "cleaner's checkpoint": (
        "write_bytes",
        "cleaner-offset",
        lambda broker: broker.manager.cleaner and broker.manager.cleaner.manager.update_checkpoint(broker.failed, T0, 3),
    ),
    "retention": ("rename", ".log", remove_segments),
    "removal of segments": ("remove", ".log", remove_segments),
    "cut": ("truncate", ".log", lambda broker: broker.log.truncate_to(3)),
    "cut of everything": ("create", ".log", lambda broker: broker.log.truncate_fully_and_start_at(20)),
    "deletion of a topic": ("rename", "/t-0", lambda broker: broker.manager.async_delete([T0])),
    "sync behind deletions": ("fsync", "", lambda broker: broker.manager.async_delete([T0])),
    "future log": (
        "make_dirs",
        "-future",
        lambda broker: broker.manager.create_future_log(U0, broker.failed, topic_id=TOPIC_ID),
    ),
}
MAY_HAVE_CUT = ("cut", "cut of everything", "retention", "removal of segments", "deletion of a topic", "sync behind deletions")


@pytest.mark.parametrize("error_number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("kind", list(KINDS))
def test_an_error_of_the_disk_takes_its_directory_offline_and_nothing_else(tmp_path: pathlib.Path, kind: str, error_number: int) -> None:
    broker = Broker(tmp_path)
    operation, path_part, act = KINDS[kind]
    if kind not in ("flush", "periodic flush"):
        broker.world.scheduler.run_due()
    broker.files.fail(0, error_number, goes_on=True, operations=(operation,), path_part=path_part, under=broker.failed)
    try:
        act(broker)
    except ApiException as error:
        assert error.error is Errors.KAFKA_STORAGE_ERROR
    assert broker.files.failures, "the disk did not fail"
    assert broker.manager.failed_log_dirs == [broker.failed]
    broker.manager.handle_reported_failures()
    assert broker.manager.failed_log_dirs == [broker.failed]
    assert (broker.manager.offline_log_dirs, broker.told) == ([broker.failed], [broker.failed])
    assert broker.manager.get_log(T0) is None
    with pytest.raises(ApiException) as refused:
        append(broker.log, 1)
    assert refused.value.error is Errors.KAFKA_STORAGE_ERROR
    append(broker.other, 8)
    broker.manager.tasks.flush_dirty_logs()
    broker.manager.checkpoints.write_recovery_points()
    broker.manager.shutdown(1)
    broker.files.fail(None)
    again = broker.start()
    other, log = again.get_log(U0), again.get_log(T0)
    assert other is not None and other.log_end_offset == 9
    if kind not in MAY_HAVE_CUT:
        assert log is not None and log.log_end_offset >= 8
        assert [header.base_offset for header in log.batch_headers()][:8] == list(range(8))
    again.shutdown(1)


@pytest.mark.parametrize("operation", ["create", "write_bytes", "fsync"])
def test_a_marker_that_cannot_be_written_makes_the_next_start_look_through_the_logs(tmp_path: pathlib.Path, operation: str) -> None:
    broker = Broker(tmp_path)
    broker.files.fail(0, errno.ENOSPC, goes_on=True, operations=(operation,), path_part=".kafka_cleanshutdown")
    broker.manager.shutdown(1)
    broker.files.fail(None)
    again = broker.start()
    assert [log.log_end_offset for log in again.current_logs()] == [8, 8]
    again.shutdown(1)
