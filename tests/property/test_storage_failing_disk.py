"""Any call to the disk may fail while logs are loaded, and nothing is lost by it.

A log directory is filled (two topics: segments, transactions with an aborted one, producer
snapshots, an interrupted swap, a moved log start, a torn tail, no clean shutdown), and copied. On
each copy one call of the load fails, or that one and all behind it, with each kind of error; then
the directory is loaded again without a fault. What is there afterwards is what a load without any
fault finds: the `.log` files byte for byte, the offsets, producers and epochs. Found outside: a
full disk at restart (`ENOSPC` while an index was rebuilt) was taken for a corrupt segment, which
was emptied; a cluster's metadata went with it.
"""

from __future__ import annotations

import copy
import errno

import pytest
from support.logs.failing_files import FailingFiles
from support.logs.log_scenes import NOW, batch, marker, producer_batch
from support.logs.storage_doubles import ManualClock, SeededRandom, StorageWorld

from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.record.append_origin import AppendOrigin
from kmirror.record.control_record import ControlRecordType
from kmirror.sim.disk import SimDisk
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_manager import LogManager
from kmirror.storage.log_manager_config import LogManagerConfig
from kmirror.storage.log_offset_metadata import LogStartOffsetIncrementReason
from kmirror.storage.meta_properties import MetaProperties, write_meta_properties
from kmirror.storage.unified_log import UnifiedLog

ERRORS = (errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EACCES)
CONFIG = LogConfig(segment_size=900, index_interval=100, max_index_size=240)
DIRS = ("/d1", "/d2")
TOPIC_ID = Uuid(b"topic-id-16bytes")
Seen = dict[str, object]


def new_disk() -> SimDisk:
    disk = SimDisk(ManualClock(NOW), SeededRandom(1), note=lambda text: None)
    for number, path in enumerate(DIRS):
        disk.make_dirs(path)
        properties = MetaProperties("cluster", 1, Uuid(bytes(15) + bytes([200 + number])))
        write_meta_properties(disk, path, properties, time_ms=NOW)
    return disk


def open_manager(world: StorageWorld) -> LogManager:
    return LogManager(
        LogManagerConfig(log_dirs=DIRS, transaction_verification_enabled=False),
        files=world.files,
        clock=world.clock,
        random=world.random,
        scheduler=world.scheduler,
        default_log_config=CONFIG,
        topic_config=lambda topic: {},
    )


def fill(log: UnifiedLog, *, epoch: int) -> None:
    for number in range(6):
        log.append_as_leader(batch(2, size=60), leader_epoch=epoch + number // 3)
        log.append_as_leader(producer_batch(number, producer_id=7, transactional=True), leader_epoch=epoch + number // 3)
        kind = ControlRecordType.ABORT if number % 2 else ControlRecordType.COMMIT
        log.append_as_leader(marker(kind, producer_id=7), leader_epoch=epoch + number // 3, origin=AppendOrigin.COORDINATOR)
        log.append_as_leader(producer_batch(number, producer_id=5), leader_epoch=epoch + number // 3)
    log.update_high_watermark(log.log_end_offset)


def filled_disk(*, clean: bool, torn: bool) -> SimDisk:
    disk = new_disk()
    world = StorageWorld(NOW, files=disk)
    manager = open_manager(world)
    manager.startup()
    for name in ("t", "u"):
        log = manager.get_or_create_log(TopicPartition(name, 0), topic_id=TOPIC_ID, is_new=True)
        fill(log, epoch=0)
        log.flush()
        if name == "t":
            fill_more(log)
            log.maybe_increment_log_start_offset(4, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)
    manager.checkpoints.write_recovery_points()
    manager.checkpoints.write_log_start_offsets()
    world.scheduler.run_due()
    if clean:
        manager.shutdown(3)
    else:
        manager.kill()
    if torn:
        for path in DIRS:
            for folder in [name for name in disk.list_dir(path) if name.startswith("t-")]:
                tear(disk, f"{path}/{folder}")
    disk.detach(power_loss=False)
    disk.attach()
    return disk


def fill_more(log: UnifiedLog) -> None:
    """What no checkpoint knows of yet."""
    for number in range(6, 9):
        log.append_as_leader(producer_batch(number, producer_id=5), leader_epoch=2)
    log.append_as_leader(batch(3, size=60), leader_epoch=3)


def tear(disk: SimDisk, folder: str) -> None:
    last = [name for name in disk.list_dir(folder) if name.endswith(".log")][-1]
    file = disk.open(f"{folder}/{last}")
    file.pwrite(bytes(batch(2, size=40))[:70], file.size())
    file.close()


def interrupt_a_swap(disk: SimDisk) -> None:
    """As the cleaner leaves a segment when the process dies before the last rename."""
    folder = next(f"{path}/{name}" for path in DIRS for name in disk.list_dir(path) if name == "u-0")
    first = [name for name in disk.list_dir(folder) if name.endswith(".log")][0].removesuffix(".log")
    for suffix in ("log", "index", "timeindex"):
        disk.rename(f"{folder}/{first}.{suffix}", f"{folder}/{first}.{suffix}.swap")
    disk.write_bytes(f"{folder}/{first}.log.deleted", b"")


def load(world: StorageWorld) -> LogManager:
    """All that a start does with the logs."""
    manager = open_manager(world)
    manager.startup()
    world.scheduler.run_due()
    manager.handle_reported_failures()
    return manager


def seen(disk: SimDisk, manager: LogManager) -> Seen:
    found: Seen = {"offline": manager.offline_log_dirs, "refused": manager.refused}
    for log in sorted(manager.current_logs(), key=lambda each: each.topic_partition):
        producers = log.producer_state_manager
        found[str(log.topic_partition)] = (
            log.directory,
            log.topic_id,
            log.log_start_offset,
            log.log_end_offset,
            {key: (entry.producer_epoch, entry.last_sequence) for key, entry in producers.active_producers.items()},
            [txn.first_offset.message_offset for txn in producers.ongoing_transactions],
            [(each.base_offset, each.size, each.offset_index.entries, each.time_index.entries) for each in log.log_segments],
            log.collect_aborted_transactions(log.log_start_offset, log.log_end_offset),
            [log.end_offset_for_epoch(epoch) for epoch in range(5)],
        )
    for path in DIRS:
        for folder in disk.list_dir(path):
            if disk.is_dir(f"{path}/{folder}"):
                for name in disk.list_dir(f"{path}/{folder}"):
                    if name.endswith(".log"):
                        found[f"{path}/{folder}/{name}"] = disk.contents(f"{path}/{folder}/{name}")
    return found


def without_a_fault(disk: SimDisk) -> Seen:
    disk = copy.deepcopy(disk)
    manager = load(StorageWorld(NOW, files=disk))
    found = seen(disk, manager)
    assert not found["offline"] and len(manager.current_logs()) == 2
    return found


def load_with_a_fault(files: FailingFiles, world: StorageWorld) -> None:
    """The directory that fails is offline afterwards, and nothing else; where all failed the start
    says so in one line.
    """
    try:
        manager = load(world)
    except KmirrorError as error:
        assert "none of the log directories can be created or used" in str(error), error
        assert files.failures
        return
    if files.failures:
        known = {path for path in DIRS if any(f" {path}" in failed for failed in files.failed)}
        assert set(manager.offline_log_dirs) <= known, (manager.offline_log_dirs, files.failed)
    manager.kill()


def scenes() -> dict[str, SimDisk]:
    swap = filled_disk(clean=False, torn=False)
    interrupt_a_swap(swap)
    return {"unclean": filled_disk(clean=False, torn=True), "clean": filled_disk(clean=True, torn=False), "swap": swap}


SCENES = scenes()


@pytest.mark.parametrize("goes_on", [False, True])
@pytest.mark.parametrize("scene", list(SCENES))
def test_a_fault_at_any_call_of_a_load_loses_nothing(scene: str, goes_on: bool) -> None:
    disk = SCENES[scene]
    expected = without_a_fault(disk)
    number, failed = 0, True
    while failed:
        error_number = ERRORS[number % len(ERRORS)]
        tried = copy.deepcopy(disk)
        files = FailingFiles(tried)
        files.fail(number, error_number, goes_on=goes_on)
        load_with_a_fault(files, StorageWorld(NOW, files=files))
        failed = files.failures > 0
        tried.detach(power_loss=False)
        tried.attach()
        again = load(StorageWorld(NOW, files=tried))
        assert seen(tried, again) == expected, (number, error_number, files.failed[:3])
        number += 3 if goes_on else 1
    assert number > 150, "the load makes far more calls than that"
