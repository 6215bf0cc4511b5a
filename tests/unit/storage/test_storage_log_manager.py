"""LogManager: directories, start, creation, deletion, truncation, tasks and shutdown."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable, Mapping
from itertools import pairwise

import pytest
from support.brokers.descriptor_doubles import open_files_below
from support.logs.storage_doubles import SeededRandom, StorageWorld

from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.runtime.os_files import OsFileSystem
from kmirror.storage.leader_epoch_checkpoint_file import LeaderEpochCheckpointFile
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_manager import LogManager
from kmirror.storage.log_manager_config import LogManagerConfig
from kmirror.storage.log_offset_metadata import LogStartOffsetIncrementReason
from kmirror.storage.meta_properties import MetaProperties, random_directory_id, write_meta_properties
from kmirror.storage.offset_checkpoint_file import OffsetCheckpointFile
from kmirror.storage.unified_log import UnifiedLog

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
ID = Uuid(b"topic-id-16bytes")
OTHER_ID = Uuid(b"another-id-16byt")
SMALL_SEGMENTS = {"internal.segment.bytes": "300"}


class Broker:
    """Log managers one after the other over the same directories."""

    def __init__(self, tmp_path: pathlib.Path, *, dirs: int = 1, topic_config: Mapping[str, str] | None = None) -> None:
        self.world = StorageWorld()
        self.dirs = [str(tmp_path / f"data{number}") for number in range(dirs)]
        self.topic_config = dict(topic_config or {})
        self.failures: list[str] = []

    def manager(
        self, *, start: bool = True, is_stray: Callable[[UnifiedLog], bool] = lambda log: False, files: OsFileSystem | None = None
    ) -> LogManager:
        manager = LogManager(
            LogManagerConfig(tuple(self.dirs)),
            files=files or self.world.files,
            clock=self.world.clock,
            random=self.world.random,
            scheduler=self.world.scheduler,
            default_log_config=LogConfig(),
            topic_config=lambda topic: self.topic_config,
            on_log_dir_failure=lambda log_dir, error: self.failures.append(log_dir),
        )
        if start:
            manager.startup(is_stray)
        return manager

    def crash(self, manager: LogManager) -> None:
        """All handles closed, nothing else written."""
        for log_dir in manager.live_log_dirs:
            manager.handle_log_dir_failure(log_dir, OSError(5, "crashed"))

    def checkpoint(self, name: str, number: int = 0) -> dict[TopicPartition, int]:
        return OffsetCheckpointFile(self.world.files, f"{self.dirs[number]}/{name}").read()


def append(log: UnifiedLog, count: int = 1, *, batches: int = 1, size: int = 10) -> None:
    for _ in range(batches):
        records = [Record(index, 1_750_000_000_000, f"key{index}".encode(), b"v" * size) for index in range(count)]
        log.append_as_leader(build_batch(records), leader_epoch=0)
    log.update_high_watermark(log.log_end_offset)


@pytest.fixture
def broker(tmp_path: pathlib.Path) -> Broker:
    return Broker(tmp_path)


def test_directories_are_made_and_locked(broker: Broker) -> None:
    manager = broker.manager()
    assert pathlib.Path(broker.dirs[0], ".lock").exists()
    with pytest.raises(KmirrorError, match=r"Failed to acquire lock on file \.lock in"):
        broker.manager()
    manager.shutdown()
    broker.manager().shutdown()


def test_no_usable_directory_is_one_clear_error(broker: Broker) -> None:
    pathlib.Path(broker.dirs[0]).write_text("a file")
    with pytest.raises(KmirrorError, match="none of the log directories can be created or used: .*data0"):
        broker.manager()


def test_a_directory_listed_twice_is_refused(broker: Broker) -> None:
    broker.dirs *= 2
    with pytest.raises(KmirrorError, match="Duplicate log directory found"):
        broker.manager()


def test_clean_restart(broker: Broker) -> None:
    manager = broker.manager()
    assert manager.read_broker_epoch_from_clean_shutdown_files() is None
    log = manager.get_or_create_log(T0, topic_id=ID, is_new=True)
    append(log, 3)
    manager.shutdown(broker_epoch=42)
    marker = pathlib.Path(broker.dirs[0], ".kafka_cleanshutdown")
    assert marker.read_text() == '{"version":0,"brokerEpoch":42}'
    assert broker.checkpoint("recovery-point-offset-checkpoint") == {T0: 3}
    again = broker.manager(start=False)
    assert again.read_broker_epoch_from_clean_shutdown_files() == 42
    again.startup()
    assert not marker.exists()
    reopened = again.get_log(T0)
    assert reopened is not None
    assert (reopened.log_end_offset, reopened.recovery_point, reopened.topic_id) == (3, 3, ID)
    again.shutdown()


def test_a_crash_loses_the_marker_and_recovers(broker: Broker) -> None:
    manager = broker.manager()
    append(manager.get_or_create_log(T0, topic_id=ID, is_new=True), 3)
    broker.crash(manager)
    assert not pathlib.Path(broker.dirs[0], ".kafka_cleanshutdown").exists()
    with pathlib.Path(broker.dirs[0], "t-0", "0" * 20 + ".log").open("ab") as file:
        file.write(b"half a batch")
    log = broker.manager().get_log(T0)
    assert log is not None
    assert (log.log_end_offset, log.recovery_point) == (3, 0)


def test_a_crash_while_loading_is_not_a_clean_shutdown(broker: Broker) -> None:
    """The second manager found no marker and did not get through all logs, so its shutdown leaves
    none.
    """
    manager = broker.manager()
    append(manager.get_or_create_log(T0, topic_id=ID, is_new=True), 1)
    broker.crash(manager)
    again = broker.manager(start=False)
    next(again.load_steps())
    again.shutdown()
    assert not pathlib.Path(broker.dirs[0], ".kafka_cleanshutdown").exists()


def test_topic_ids_must_agree(broker: Broker) -> None:
    manager = broker.manager()
    log = manager.get_or_create_log(T0, topic_id=ID, is_new=True)
    assert manager.get_or_create_log(T0, topic_id=ID) is log
    with pytest.raises(ApiException) as caught:
        manager.get_or_create_log(T0, topic_id=OTHER_ID)
    assert caught.value.error is Errors.INCONSISTENT_TOPIC_ID


def test_new_logs_go_where_the_controller_says_else_to_the_emptiest_dir(tmp_path: pathlib.Path) -> None:
    broker = Broker(tmp_path, dirs=2)
    ids = [random_directory_id(SeededRandom(seed)) for seed in (1, 2)]
    for path, directory_id in zip(broker.dirs, ids, strict=True):
        pathlib.Path(path).mkdir()
        write_meta_properties(broker.world.files, path, MetaProperties("c", 1, directory_id), time_ms=0)
    manager = broker.manager()
    assert manager.directory_ids() == ids
    assert [manager.directory_id(path) for path in broker.dirs] == ids
    assert manager.directory_path(ids[1]) == broker.dirs[1]
    first = manager.get_or_create_log(T0, topic_id=ID, is_new=True, target_directory_id=ids[1])
    second = manager.get_or_create_log(T1, topic_id=ID, is_new=True)
    third = manager.get_or_create_log(TopicPartition("t", 2), topic_id=ID, is_new=True, target_directory_id=Uuid(bytes(15) + b"\1"))
    assert [log.parent_dir for log in (first, second, third)] == [broker.dirs[1], broker.dirs[0], broker.dirs[0]]
    assert manager.logs_in_dir(broker.dirs[0]) == {T1: second, TopicPartition("t", 2): third}
    assert manager.logs_by_topic("t", range(9)) == [first, second, third]


def test_deleted_logs_go_after_the_delay(broker: Broker) -> None:
    manager = broker.manager()
    for partition in (T0, T1):
        append(manager.get_or_create_log(partition, topic_id=ID, is_new=True), 1)
    manager.async_delete([T0, TopicPartition("unknown", 0)])
    assert manager.get_log(T0) is None
    folders = [path.name for path in pathlib.Path(broker.dirs[0]).iterdir() if path.is_dir()]
    assert sorted(folder.partition(".")[0] for folder in folders) == ["t-0", "t-1"]
    assert any(folder.endswith("-delete") for folder in folders)
    assert list(broker.checkpoint("recovery-point-offset-checkpoint")) == [T1]
    again = manager.get_or_create_log(T0, topic_id=OTHER_ID, is_new=True)
    assert again.log_end_offset == 0
    broker.world.scheduler.advance(200_000)
    assert sorted(path.name for path in pathlib.Path(broker.dirs[0]).iterdir() if path.is_dir()) == ["t-0", "t-1"]
    manager.shutdown()


@pytest.mark.parametrize("killed", [False, True])
def test_what_waits_for_its_removal_is_closed_at_the_end(broker: Broker, tmp_path: pathlib.Path, *, killed: bool) -> None:
    """An application's tests start brokers by the hundred in one process."""
    broker.topic_config = SMALL_SEGMENTS
    manager = broker.manager()
    for topic_partition in (T0, T1):
        append(manager.get_or_create_log(topic_partition, topic_id=ID, is_new=True), batches=6, size=100)
    log = manager.get_log(T0)
    assert log is not None
    log.maybe_increment_log_start_offset(4, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)
    assert log.delete_old_segments() > 0
    manager.async_delete([T1])
    assert any("-delete/" in path for path in open_files_below(tmp_path))
    assert any(".deleted" in path for path in open_files_below(tmp_path))
    if killed:
        manager.kill()
    else:
        manager.shutdown()
    assert open_files_below(tmp_path) == []


def test_deleted_segments_follow_a_folder_that_is_renamed(broker: Broker) -> None:
    broker.topic_config = SMALL_SEGMENTS
    log = broker.manager().get_or_create_log(T0, topic_id=ID, is_new=True)
    append(log, batches=6, size=100)
    log.maybe_increment_log_start_offset(4, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)
    assert log.delete_old_segments() > 0
    log.rename_dir("t-0.a-future")
    deleted = [path.suffixes[0] for path in pathlib.Path(log.directory).glob("*.deleted")]
    assert {".log", ".index", ".timeindex", ".snapshot"} == set(deleted)
    broker.world.scheduler.advance(LogConfig().file_delete_delay_ms)
    assert list(pathlib.Path(log.directory).glob("*.deleted")) == []


def test_deleted_logs_go_one_a_turn(broker: Broker) -> None:
    """A topic of hundreds of partitions must not hold up the requests that wait."""
    manager = broker.manager()
    partitions = [TopicPartition("t", number) for number in range(5)]
    for partition in partitions:
        append(manager.get_or_create_log(partition, topic_id=ID, is_new=True), 1)
    manager.async_delete(partitions)
    scheduler = broker.world.scheduler
    seen: list[int] = []

    def look() -> None:
        """As a request that waits: it has its turn after each task that is due."""
        seen.append(sum(path.is_dir() for path in pathlib.Path(broker.dirs[0]).iterdir()))
        if seen[-1]:
            scheduler.schedule_once("look", look, 0)

    broker.world.clock.now_ms += 200_000
    scheduler.schedule_once("look", look, 0)
    scheduler.run_due()
    assert seen == [4, 3, 2, 1, 0]
    manager.shutdown()


def test_a_topic_of_a_thousand_partitions_was_synced_a_thousand_times_when_it_was_deleted(broker: Broker) -> None:
    """In one turn of the loop, which took seconds.

    The renames are on the disk before the checkpoints forget the logs.
    """

    class Watched(OsFileSystem):
        def __init__(self) -> None:
            super().__init__()
            self.done: list[str] = []

        def rename(self, source: str, destination: str) -> None:
            super().rename(source, destination)
            self.done.append("renamed" if destination.endswith("-delete") else pathlib.Path(destination).name)

        def fsync_path(self, path: str) -> None:
            super().fsync_path(path)
            if path == broker.dirs[0]:
                self.done.append("synced")

    files = Watched()
    manager = broker.manager(files=files)
    partitions = [TopicPartition("t", number) for number in range(5)]
    for partition in partitions:
        append(manager.get_or_create_log(partition, topic_id=ID, is_new=True), 1)
    files.done.clear()
    manager.async_delete(partitions)
    assert files.done[:6] == ["renamed"] * 5 + ["synced"] and "recovery-point-offset-checkpoint" in files.done[6:]
    manager.shutdown()


def test_a_deletion_that_a_restart_interrupted_is_finished(broker: Broker) -> None:
    manager = broker.manager()
    append(manager.get_or_create_log(T0, topic_id=ID, is_new=True), 1)
    manager.async_delete([T0])
    manager.shutdown()
    again = broker.manager()
    assert again.get_log(T0) is None
    broker.world.scheduler.advance(200_000)
    assert [path for path in pathlib.Path(broker.dirs[0]).iterdir() if path.is_dir()] == []


def test_a_late_epoch_flush_of_a_deleted_log_spares_its_successor(broker: Broker) -> None:
    manager = broker.manager()
    log = manager.get_or_create_log(T0, topic_id=ID, is_new=True)
    append(log, 2)
    log.maybe_assign_epoch_start_offset(3, 2)
    append(log, 2)
    log.truncate_to(1)
    manager.async_delete([T0])
    successor = manager.get_or_create_log(T0, topic_id=OTHER_ID, is_new=True)
    successor.maybe_assign_epoch_start_offset(9, 0)
    broker.world.scheduler.run_due()
    assert [entry.epoch for entry in LeaderEpochCheckpointFile(broker.world.files, successor.directory).read()] == [9]


def test_strays_are_renamed_kept_and_left_alone(broker: Broker) -> None:
    manager = broker.manager()
    append(manager.get_or_create_log(T0, topic_id=ID, is_new=True), 5)
    manager.shutdown()
    again = broker.manager(is_stray=lambda log: log.topic_id == ID)
    assert again.get_log(T0) is None
    again.shutdown()
    [stray] = [path for path in pathlib.Path(broker.dirs[0]).iterdir() if path.name.endswith("-stray")]
    before = {path.name: path.read_bytes() for path in stray.iterdir()}
    broker.manager().shutdown()
    assert {path.name: path.read_bytes() for path in stray.iterdir()} == before
    assert before["0" * 20 + ".log"]


@pytest.mark.parametrize("known_when_loaded", [True, False])
def test_a_move_of_a_stray_is_a_stray(tmp_path: pathlib.Path, known_when_loaded: bool) -> None:
    """The simulator's seed 360242: the topic was deleted while the broker was down; the half of a
    move was loaded, shown and kept for ever.
    """
    broker = Broker(tmp_path, dirs=2)
    manager = broker.manager()
    current = manager.get_or_create_log(T0, topic_id=ID, is_new=True)
    append(current, 5)
    append(manager.create_future_log(T0, next(path for path in broker.dirs if path != current.parent_dir), topic_id=ID), 2)
    manager.shutdown()
    again = broker.manager(is_stray=lambda log: known_when_loaded and log.topic_id == ID)
    if not known_when_loaded:
        assert again.future_log(T0) is not None
        again.set_strays_aside(lambda log: log.topic_id == ID)
    assert again.get_log(T0) is None and again.future_log(T0) is None and again.all_logs() == []
    again.shutdown()
    names = [path.name for folder in broker.dirs for path in pathlib.Path(folder).iterdir() if path.is_dir()]
    assert len(names) == 2 and all(name.endswith("-stray") for name in names)


def test_the_metadata_log_is_not_ours(broker: Broker) -> None:
    for name in ("__cluster_metadata-0", "remote-log-index-cache"):
        pathlib.Path(broker.dirs[0], name).mkdir(parents=True)
    manager = broker.manager()
    assert manager.all_logs() == []
    assert list(pathlib.Path(broker.dirs[0], "__cluster_metadata-0").iterdir()) == []


@pytest.mark.parametrize("name", ["holiday pictures", "lost+found", "holidays-2147483648"])
def test_a_folder_that_is_no_partition_stops_the_start(broker: Broker, name: str) -> None:
    pathlib.Path(broker.dirs[0], name).mkdir(parents=True)
    with pytest.raises(KmirrorError, match=f"{re.escape(name)} is not named <topic>-<partition>"):
        broker.manager()


def test_one_partition_in_two_dirs_stops_the_start(tmp_path: pathlib.Path) -> None:
    broker = Broker(tmp_path, dirs=2)
    for path in broker.dirs:
        pathlib.Path(path, "t-0").mkdir(parents=True)
    with pytest.raises(KmirrorError, match=r"Duplicate log directories for t-0 are found in both .*data1/t-0 and .*data0/t-0"):
        broker.manager()


def test_an_empty_folder_without_metadata_is_used(broker: Broker) -> None:
    """What a crash between the making of the folder and the first record leaves behind."""
    pathlib.Path(broker.dirs[0], "t-0").mkdir(parents=True)
    manager = broker.manager()
    log = manager.get_or_create_log(T0, topic_id=ID)
    assert log.topic_id == ID
    assert manager.refused == {}


def test_log_start_is_checkpointed_only_inside_of_the_first_segment(tmp_path: pathlib.Path) -> None:
    broker = Broker(tmp_path, topic_config=SMALL_SEGMENTS)
    manager = broker.manager()
    logs = [manager.get_or_create_log(partition, topic_id=ID, is_new=True) for partition in (T0, T1)]
    for log in logs:
        append(log, 2, batches=6)
    logs[0].maybe_increment_log_start_offset(1, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)
    logs[1].maybe_increment_log_start_offset(logs[1].log_segments[1].base_offset, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)
    logs[1].delete_old_segments()
    manager.checkpoints.write_log_start_offsets()
    assert broker.checkpoint("log-start-offset-checkpoint") == {T0: 1}
    manager.shutdown()
    again = broker.manager()
    assert [log.log_start_offset for log in again.all_logs()] == [1, logs[1].log_start_offset]


def test_truncation_rewrites_checkpoints(tmp_path: pathlib.Path) -> None:
    broker = Broker(tmp_path, topic_config={**SMALL_SEGMENTS, "cleanup.policy": "compact"})
    manager = broker.manager()
    log = manager.get_or_create_log(T0, topic_id=ID, is_new=True)
    append(log, 2, batches=10)
    log.flush()
    assert manager.cleaner is not None
    manager.cleaner.manager.update_checkpoint(log.parent_dir, T0, 16)
    log.truncate_to(4)
    assert log.log_end_offset == 4
    assert broker.checkpoint("recovery-point-offset-checkpoint") == {T0: 4}
    assert broker.checkpoint("cleaner-offset-checkpoint") == {T0: log.active_segment.base_offset}
    assert not manager.cleaner.manager.is_paused(T0)
    log.truncate_fully_and_start_at(100)
    assert (log.log_start_offset, log.log_end_offset) == (100, 100)
    assert broker.checkpoint("recovery-point-offset-checkpoint") == {T0: 4}  # never raised by a truncation
    assert broker.checkpoint("cleaner-offset-checkpoint")[T0] <= 4


def test_a_failed_directory_goes_offline_and_the_other_one_serves_on(tmp_path: pathlib.Path) -> None:
    broker = Broker(tmp_path, dirs=2)
    manager = broker.manager()
    first = manager.get_or_create_log(T0, topic_id=ID, is_new=True)
    second = manager.get_or_create_log(T1, topic_id=ID, is_new=True)
    failed = first.parent_dir
    first.local_log.ports.log_dir_failures.maybe_add_offline_log_dir(failed, "the disk died", OSError(5, "the disk died"))
    broker.world.scheduler.advance(1000)
    assert broker.failures == [failed]
    assert manager.live_log_dirs == [second.parent_dir]
    assert manager.offline_log_dirs == [failed]
    assert not manager.is_log_dir_online(failed)
    assert (manager.get_log(T0), manager.get_log(T1)) == (None, second)
    with pytest.raises(ApiException, match="are offline") as caught:
        manager.get_or_create_log(T0, topic_id=ID)
    assert caught.value.error is Errors.KAFKA_STORAGE_ERROR
    with pytest.raises(ApiException) as caught:
        manager.is_log_dir_online("/elsewhere")
    assert caught.value.error is Errors.LOG_DIR_NOT_FOUND
    assert manager.get_or_create_log(TopicPartition("new", 0), topic_id=ID, is_new=True).parent_dir == second.parent_dir
    manager.shutdown()
    assert not pathlib.Path(failed, ".kafka_cleanshutdown").exists()
    assert pathlib.Path(second.parent_dir, ".kafka_cleanshutdown").exists()


def test_retention_runs_by_itself_and_stops_with_the_manager(tmp_path: pathlib.Path) -> None:
    broker = Broker(tmp_path, topic_config={**SMALL_SEGMENTS, "retention.ms": "-1", "retention.bytes": "400"})
    manager = broker.manager()
    log = manager.get_or_create_log(T0, topic_id=ID, is_new=True)
    append(log, 2, batches=20)
    segments = log.segments.number_of_segments
    broker.world.scheduler.advance(31_000)
    assert log.segments.number_of_segments < segments
    assert log.log_start_offset == log.log_segments[0].base_offset > 0
    broker.world.scheduler.advance(120_000)
    assert broker.checkpoint("recovery-point-offset-checkpoint")[T0] == log.recovery_point
    manager.shutdown()
    broker.world.scheduler.advance(1_000_000)
    assert broker.world.scheduler.pending == []


def test_flush_ms_is_kept(tmp_path: pathlib.Path) -> None:
    broker = Broker(tmp_path, topic_config={"flush.ms": "1000"})
    manager = broker.manager()
    log = manager.get_or_create_log(T0, topic_id=ID, is_new=True)
    append(log, 2)
    manager.tasks.flush_dirty_logs()
    assert log.recovery_point == 0
    broker.world.clock.now_ms += 1000
    manager.tasks.flush_dirty_logs()
    assert log.recovery_point == 2


def test_topic_configs_reach_open_logs(broker: Broker) -> None:
    manager = broker.manager()
    log = manager.get_or_create_log(T0, topic_id=ID, is_new=True)
    manager.update_topic_config("t", {"retention.ms": "5"}, range(9))
    assert log.config.retention_ms == 5
    broker.topic_config = {"retention.ms": "7"}
    manager.reconfigure_default_log_config(LogConfig(max_message_size=1234))
    assert (log.config.retention_ms, log.config.max_message_size) == (7, 1234)


def test_a_default_for_small_records_kept_states_of_mirrors_out(broker: Broker) -> None:
    manager = broker.manager()
    log = manager.get_or_create_log(TopicPartition("__mirror_state", 0), topic_id=ID, is_new=True)
    manager.reconfigure_default_log_config(LogConfig(max_message_size=1234))
    assert log.config.max_message_size == LogConfig().max_message_size
    manager.update_topic_config("__mirror_state", {"retention.ms": "-1"}, [0])
    assert log.config.max_message_size == LogConfig().max_message_size
    manager.update_topic_config("__mirror_state", {"max.message.bytes": "9999999"}, [0])
    assert log.config.max_message_size == 9_999_999


def test_no_marker_where_a_log_could_not_be_closed(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = broker.manager()
    log = manager.get_or_create_log(T0, topic_id=ID, is_new=True)

    def broken() -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr(log, "close", broken)
    manager.shutdown()
    assert not pathlib.Path(broker.dirs[0], ".kafka_cleanshutdown").exists()
    log.close_handlers()


def test_a_disk_error_while_loading_costs_one_directory(tmp_path: pathlib.Path) -> None:
    broker = Broker(tmp_path, dirs=2)
    manager = broker.manager()
    for partition in (T0, T1):
        append(manager.get_or_create_log(partition, topic_id=ID, is_new=True), 1)
    manager.shutdown()

    class BrokenFiles(OsFileSystem):
        def read_bytes(self, path: str) -> bytes:
            if "data0/t-0/leader-epoch" in path:
                raise OSError(5, "broken disk", path)
            return super().read_bytes(path)

    again = broker.manager(files=BrokenFiles())
    assert again.live_log_dirs == [broker.dirs[1]]
    assert broker.failures == [broker.dirs[0]]
    assert [log.topic_partition for log in again.all_logs()] == [T1]
    again.shutdown()
    assert not pathlib.Path(broker.dirs[0], ".kafka_cleanshutdown").exists()


def test_a_periodic_task_that_failed_once_never_came_again(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = broker.manager(start=False)
    manager.get_or_create_log(T0, topic_id=ID, is_new=True)
    ran: list[str] = []

    def failing(name: str) -> Callable[..., int]:
        def task(*_: object) -> int:
            ran.append(name)
            raise ApiException(Errors.UNKNOWN_SERVER_ERROR, "once")

        return task

    tasks = {
        "cleanup_logs": manager.tasks,
        "write_recovery_points": manager.checkpoints,
        "remove_expired_producers": manager.tasks,
        "delete_logs": manager.removal,
    }
    for name, owner in tasks.items():
        monkeypatch.setattr(owner, name, failing(name))
    manager.start_tasks()
    pending = sorted(set(broker.world.scheduler.pending) - {"flush-metadata-file"})
    for _ in range(50):
        try:
            broker.world.scheduler.advance(manager.settings.config.initial_task_delay_ms)
        except ApiException:
            continue
    assert set(ran) == set(tasks)
    assert sorted(broker.world.scheduler.pending) == pending, "each is there again"


FIRST_RUNS_OF_KAFKA = {
    "kafka-log-retention": (30_000, 300_000),
    "kafka-recovery-point-checkpoint": (30_000, 60_000),
    "kafka-log-start-offset-checkpoint": (30_000, 60_000),
    "kafka-delete-logs": (30_000, 60_000),
    "PeriodicProducerExpirationCheck": (600_000, 600_000),
}
"""When Kafka 4.3 runs its periodic tasks with its default properties, in ms: the first time after
the start, and again."""
OUR_OWN_TASKS = {"log-dir-failures", "flush-metadata-file"}


def test_each_periodic_task_runs_first_when_kafkas_does(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, scheduler = broker.world.clock, broker.world.scheduler
    started_ms, runs = clock.now_ms, dict[str, list[int]]()
    schedule_once = scheduler.schedule_once

    def watched(name: str, fn: Callable[[], None], delay_ms: int) -> None:
        def run() -> None:
            runs.setdefault(name, []).append(clock.now_ms - started_ms)
            fn()

        schedule_once(name, run, delay_ms)

    monkeypatch.setattr(scheduler, "schedule_once", watched)
    manager = broker.manager(start=False)
    manager.get_or_create_log(T0, topic_id=ID, is_new=True)
    manager.start_tasks()
    scheduler.advance(1_200_000)
    firsts = {
        name: (times[0], *(after - before for before, after in pairwise(times[:2])))
        for name, times in runs.items()
        if name not in OUR_OWN_TASKS
    }
    assert firsts == FIRST_RUNS_OF_KAFKA


def test_the_producers_of_a_log_were_checked_by_the_clock_of_the_manager(broker: Broker) -> None:
    """Each log is checked when it has been open for an interval, as in Kafka."""
    manager = broker.manager()
    broker.world.scheduler.advance(400_000)
    log = manager.get_or_create_log(T0, topic_id=ID, is_new=True)
    old_ms = broker.world.clock.now_ms - 2 * 86_400_000
    log.append_as_leader(build_batch([Record(0, old_ms, b"k", b"v")], producer_id=7, producer_epoch=0, base_sequence=0), leader_epoch=0)
    checks: list[int] = []
    created_ms = broker.world.clock.now_ms
    remove = log.producer_state_manager.remove_expired_producers

    def remove_expired_producers(now_ms: int) -> None:
        checks.append(now_ms - created_ms)
        remove(now_ms)

    log.producer_state_manager.remove_expired_producers = remove_expired_producers  # type: ignore[method-assign]
    broker.world.scheduler.advance(1_300_000)
    assert checks == [600_000, 1_200_000]
    assert log.producer_state_manager.producer_id_count == 1
    manager.async_delete([T0])
    broker.world.scheduler.advance(1_300_000)
    assert len(checks) == 2, "a deleted log is not checked any more"
