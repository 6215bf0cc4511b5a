"""Partitions that nobody ever wrote to: a folder and a topic id, no files, no descriptors; and what
the first append makes of them.
"""

from __future__ import annotations

import os
import pathlib

import pytest
from support.logs.storage_doubles import StorageWorld

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.storage.fetch_data_info import FetchIsolation
from kmirror.storage.lazy_file import LazyFile
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_manager import LogManager
from kmirror.storage.log_manager_config import LogManagerConfig
from kmirror.storage.log_offset_metadata import EpochAndOffset
from kmirror.storage.unified_log import UnifiedLog

T0 = TopicPartition("t", 0)
ID = Uuid(b"topic-id-16bytes")
OTHER_ID = Uuid(b"another-id-16byt")
METADATA = f"version: 0\ntopic_id: {ID}".encode()


class World:
    def __init__(self, tmp_path: pathlib.Path) -> None:
        self.world = StorageWorld()
        self.data = tmp_path / "data"
        self.folder = self.data / "t-0"

    def manager(self, *, defer_files: bool = True) -> LogManager:
        manager = LogManager(
            LogManagerConfig((str(self.data),), defer_files=defer_files),
            files=self.world.files,
            clock=self.world.clock,
            random=self.world.random,
            scheduler=self.world.scheduler,
            default_log_config=LogConfig(),
            topic_config=lambda topic: {},
        )
        manager.startup()
        return manager

    def crash(self, manager: LogManager) -> None:
        manager.handle_log_dir_failure(str(self.data), OSError(5, "crashed"))

    def files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(self.folder.iterdir())}


@pytest.fixture
def world(tmp_path: pathlib.Path) -> World:
    return World(tmp_path)


def append(log: UnifiedLog, count: int = 1, *, epoch: int = 0) -> None:
    records = [Record(index, 1_750_000_000_000, b"key", b"value") for index in range(count)]
    log.append_as_leader(build_batch(records), leader_epoch=epoch)
    log.update_high_watermark(log.log_end_offset)


def open_descriptors_below(folder: pathlib.Path) -> int:
    links = (os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd"))
    return sum(os.readlink(link).startswith(f"{folder}/") for link in links if os.path.lexists(link))


def test_a_new_log_has_a_folder_and_soon_its_id(world: World) -> None:
    log = world.manager().get_or_create_log(T0, topic_id=ID, is_new=True)
    log.maybe_assign_epoch_start_offset(3, 0)
    assert world.files() == {}
    world.world.scheduler.run_due()
    assert world.files() == {"partition.metadata": METADATA}
    assert (log.latest_epoch, log.log_end_offset, log.size, log.segments.number_of_segments) == (3, 0, 0, 1)
    assert log.end_offset_for_epoch(3) == EpochAndOffset(3, 0)
    assert log.read(0, 100, FetchIsolation.LOG_END, min_one_message=True).records.size == 0
    assert log.offset_for_timestamp(5) is None
    assert log.delete_old_segments() == 0
    log.flush(force_flush_active_segment=True)
    assert world.files() == {"partition.metadata": METADATA}


def test_the_first_append_makes_what_kafka_has_from_the_beginning(tmp_path: pathlib.Path) -> None:
    folders = []
    for defer_files in (True, False):
        world = World(tmp_path / str(defer_files))
        manager = world.manager(defer_files=defer_files)
        log = manager.get_or_create_log(T0, topic_id=ID, is_new=True)
        log.maybe_assign_epoch_start_offset(3, 0)
        world.world.scheduler.run_due()
        append(log, 3, epoch=3)
        running = {name: len(data) for name, data in world.files().items()}
        manager.shutdown()
        folders.append((running, world.files()))
    assert folders[0] == folders[1]


@pytest.mark.parametrize("ends_cleanly", [True, False])
def test_an_idle_log_comes_back_idle_under_its_id(world: World, ends_cleanly: bool) -> None:
    manager = world.manager()
    manager.get_or_create_log(T0, topic_id=ID, is_new=True)
    if ends_cleanly:
        manager.shutdown()
    else:
        world.world.scheduler.run_due()
        world.crash(manager)
    again = world.manager().get_log(T0)
    assert again is not None
    assert (again.topic_id, again.is_deferred) == (ID, True)


def test_a_crash_before_the_id_was_written_costs_nothing(world: World) -> None:
    manager = world.manager()
    manager.get_or_create_log(T0, topic_id=ID, is_new=True)
    world.crash(manager)
    assert world.files() == {}
    again = world.manager()
    log = again.get_or_create_log(T0, topic_id=OTHER_ID)
    append(log, 2)
    assert log.topic_id == OTHER_ID
    assert world.files()["partition.metadata"] == f"version: 0\ntopic_id: {OTHER_ID}".encode()


@pytest.mark.parametrize("torn", [b"", METADATA[:15], b"\xff\xfe"])
def test_a_torn_id_of_an_idle_log_is_written_anew(world: World, torn: bytes) -> None:
    world.folder.mkdir(parents=True)
    (world.folder / "partition.metadata").write_bytes(torn)
    log = world.manager().get_or_create_log(T0, topic_id=ID)
    append(log)
    assert world.files()["partition.metadata"] == METADATA


@pytest.mark.parametrize("torn", [b"", METADATA[:15]])
def test_a_torn_id_beside_the_one_that_was_to_replace_it(world: World, torn: bytes) -> None:
    """The power went in the first append: the folder holds what was noted, torn, and the safe file
    that was not renamed yet.
    """
    world.folder.mkdir(parents=True)
    (world.folder / "partition.metadata").write_bytes(torn)
    (world.folder / "partition.metadata.tmp").write_bytes(METADATA)
    log = world.manager().get_or_create_log(T0, topic_id=ID)
    append(log)
    assert world.files()["partition.metadata"] == METADATA
    assert "partition.metadata.tmp" not in world.files()


@pytest.mark.parametrize("torn", [b"", METADATA[:15]])
def test_a_deleted_idle_log_with_a_torn_id_goes_after_a_restart(world: World, torn: bytes) -> None:
    """Mirrors, seed 13311: the broker did not start any more."""
    manager = world.manager()
    manager.get_or_create_log(T0, topic_id=ID, is_new=True)
    world.world.scheduler.run_due()
    manager.async_delete([T0])
    [folder] = [path for path in world.data.iterdir() if path.is_dir()]
    (folder / "partition.metadata").write_bytes(torn)
    world.crash(manager)
    again = world.manager()
    assert again.get_log(T0) is None
    world.world.clock.now_ms += 120_000
    again.removal.delete_logs()
    assert not [path for path in world.data.iterdir() if path.is_dir()]


def test_an_idle_log_of_another_topic_is_refused(world: World) -> None:
    world.folder.mkdir(parents=True)
    (world.folder / "partition.metadata").write_bytes(METADATA)
    manager = world.manager()
    with pytest.raises(ApiException) as error:
        manager.get_or_create_log(T0, topic_id=OTHER_ID)
    assert error.value.error is Errors.INCONSISTENT_TOPIC_ID


def test_the_noted_id_is_synced_with_the_first_append(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    log = world.manager().get_or_create_log(T0, topic_id=ID, is_new=True)
    world.world.scheduler.run_due()
    synced: list[str] = []
    monkeypatch.setattr(type(world.world.files), "fsync_path", lambda files, path: synced.append(path))
    append(log)
    assert any(path.endswith("partition.metadata.tmp") for path in synced)
    assert any(path.endswith("leader-epoch-checkpoint.tmp") for path in synced)


def test_a_deleted_idle_log_goes(world: World) -> None:
    manager = world.manager()
    manager.get_or_create_log(T0, topic_id=ID, is_new=True)
    manager.async_delete([T0])
    [folder] = [path for path in world.data.iterdir() if path.is_dir()]
    assert folder.name.endswith("-delete")
    world.world.clock.now_ms += 120_000
    manager.removal.delete_logs()
    assert not [path for path in world.data.iterdir() if path.is_dir()]


def test_a_follower_that_starts_higher_up_makes_its_files_there(world: World) -> None:
    log = world.manager().get_or_create_log(T0, topic_id=ID, is_new=True)
    log.truncate_fully_and_start_at(500)
    world.world.scheduler.run_due()
    assert "00000000000000000500.log" in world.files()
    assert (log.log_start_offset, log.log_end_offset, log.is_deferred) == (500, 500, False)


def test_a_cut_of_an_idle_log_is_none(world: World) -> None:
    log = world.manager().get_or_create_log(T0, topic_id=ID, is_new=True)
    assert not log.truncate_to(0)
    assert log.is_deferred


def test_looking_for_batches_in_an_idle_log_makes_no_file(world: World) -> None:
    """It made an index; after a power loss that tore the id, which is not synced yet, the broker
    did not start any more.
    """
    log = world.manager().get_or_create_log(T0, topic_id=ID, is_new=True)
    world.world.scheduler.run_due()
    assert list(log.batch_headers(0)) == []
    assert log.batch_before(5) is None
    assert log.batch_containing(0) is None
    assert log.last_batch() is None
    assert world.files() == {"partition.metadata": METADATA}


def test_a_clean_restart_holds_no_descriptor_until_a_log_is_used(world: World) -> None:
    manager = world.manager()
    append(manager.get_or_create_log(T0, topic_id=ID, is_new=True), 5)
    assert open_descriptors_below(world.folder) > 0
    manager.shutdown()
    again = world.manager()
    assert open_descriptors_below(world.folder) == 0
    log = again.get_or_create_log(T0, topic_id=ID)
    assert log.log_end_offset == 5
    assert log.read(2, 1000, FetchIsolation.LOG_END, min_one_message=True).records.to_bytes()
    append(log, 2)
    assert log.log_end_offset == 7
    assert open_descriptors_below(world.folder) > 0


def test_a_log_that_was_not_used_is_not_synced_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = world.manager()
    append(manager.get_or_create_log(T0, topic_id=ID, is_new=True), 5)
    manager.shutdown()
    again = world.manager()
    opened: list[str] = []
    original = type(world.world.files).open
    monkeypatch.setattr(type(world.world.files), "open", lambda files, path, **how: opened.append(path) or original(files, path, **how))
    again.shutdown()
    assert [path for path in opened if path.endswith(".log")] == []


def test_a_lazy_file_reads_as_empty_until_it_is_written(tmp_path: pathlib.Path) -> None:
    files = StorageWorld().files
    path = tmp_path / "file"
    lazy = LazyFile(files, str(path), preallocated_size=64)
    assert (lazy.pread(10, 0), lazy.size(), lazy.exists, lazy.is_open) == (b"", 0, False, False)
    assert not path.exists()
    assert lazy.pwrite(b"abc", 0) == 3
    assert (lazy.size(), lazy.is_open) == (64, True)
    lazy.release()
    assert not lazy.is_open
    assert lazy.pread(3, 0) == b"abc"
    lazy.close()
    with pytest.raises(OSError, match="closed"):
        lazy.pread(1, 0)
    assert LazyFile(files, str(path)).initial_size == 64
