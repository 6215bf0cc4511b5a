"""The plug is pulled at any operation of a cleaning pass: what was flushed before the pass is still
there, as a table.
"""

from __future__ import annotations

import contextlib

from compaction_model import ModelRecord, table
from hypothesis import given, settings
from hypothesis import strategies as st
from support.logs.storage_doubles import SeededRandom, StorageWorld

from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.record.record_batch import iter_batches
from kmirror.sim.disk import SimDisk
from kmirror.sim.owners import NodeKilledError
from kmirror.storage.log_cleaner import CleanerConfig
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_manager import LogManager
from kmirror.storage.log_manager_config import LogManagerConfig
from kmirror.storage.unified_log import UnifiedLog

PARTITION = TopicPartition("t", 0)
CONFIG = LogConfig(compact=True, delete=False, segment_size=300, max_index_size=800, index_interval=100, min_cleanable_ratio=0.0)


class DyingDisk(SimDisk):
    """Takes its node down at the n-th operation after `arm`."""

    _operations_left: int | None = None
    _power_loss = False

    def arm(self, operations_left: int, *, power_loss: bool) -> None:
        self._operations_left = operations_left
        self._power_loss = power_loss

    def check(self, operation: str, path: str) -> None:
        if self._operations_left is not None:
            self._operations_left -= 1
            if self._operations_left < 0:
                self.die()
        super().check(operation, path)

    def die(self) -> None:
        if self._operations_left is not None:
            self._operations_left = None
            self.detach(power_loss=self._power_loss)


def start(world: StorageWorld, disk: SimDisk) -> tuple[LogManager, UnifiedLog]:
    manager = LogManager(
        LogManagerConfig(("/data",), cleaner=CleanerConfig(dedupe_buffer_size=24_000)),
        files=disk,
        clock=world.clock,
        random=world.random,
        scheduler=world.scheduler,
        default_log_config=CONFIG,
        topic_config=lambda topic: {},
    )
    for step in manager.load_steps():
        step()
    log = manager.get_or_create_log(PARTITION, topic_id=Uuid(b"x" * 16), is_new=True)
    log.update_high_watermark(log.log_end_offset)
    return manager, log


def records(log: UnifiedLog) -> list[ModelRecord]:
    return [
        ModelRecord(record.offset, bytes(record.key or b""), None if record.value is None else bytes(record.value))
        for segment in log.log_segments
        for batch in iter_batches(segment.file.pread(segment.size, 0))
        for record in batch.records()
    ]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    count=st.integers(6, 40),
    operations=st.integers(0, 400),
    power_loss=st.booleans(),
)
def test_a_crash_in_a_cleaning_pass_loses_nothing(seed: int, count: int, operations: int, power_loss: bool) -> None:
    world = StorageWorld()
    disk = DyingDisk(world.clock, SeededRandom(seed), note=lambda text: None)
    world.files = disk
    disk.make_dirs("/data")
    disk.fsync_path("/")
    manager, log = start(world, disk)
    appended: list[ModelRecord] = []
    for index in range(count):
        key, value = f"key{index * 7 % 5}".encode(), None if index % 6 == 5 else b"x" * 30
        info = log.append_as_leader(build_batch([Record(0, world.clock.now_ms, key, value)]), leader_epoch=0)
        appended.append(ModelRecord(info.first_offset, key, value))
        log.update_high_watermark(log.log_end_offset)
        world.scheduler.run_due()
    log.flush()
    manager.checkpoints.write_recovery_points()
    disk.fsync_path("/data")
    disk.fsync_path("/data/t-0")
    assert manager.cleaner is not None
    disk.arm(operations, power_loss=power_loss)
    with contextlib.suppress(NodeKilledError):
        while manager.cleaner.clean_filthiest_log():
            world.scheduler.advance(1000)
        world.scheduler.advance(100_000)
    disk.die()
    disk.attach()
    restarted_world = StorageWorld(world.clock.now_ms, files=disk)
    restarted, reopened = start(restarted_world, disk)
    kept = records(reopened)
    assert set(kept) <= set(appended)
    assert [record.offset for record in kept] == sorted({record.offset for record in kept})
    assert table(kept) == table(appended)
    assert reopened.log_end_offset == count
    assert [name for name in disk.list_dir("/data/t-0") if name.endswith((".cleaned", ".swap"))] == []
    assert restarted.cleaner is not None
    while restarted.cleaner.clean_filthiest_log():
        pass
    assert table(records(reopened)) == table(appended)
    restarted.shutdown()
