"""A broker with two log directories and one partition that moves between them, step by step, beside
a model of what its log holds.

Time stands still until `advance`; the controller accepts a move when `accept` is called. `restart`
is a crash of the process on the same directories. What a power loss brings back of the future log
is recorded by `remember_future` and put there by `restart(old_future=True)`. Batches have different
values in equal epochs, as those of a mirror have after a failback, so offsets and epochs alone tell
nothing.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kmirror.common.errors import Errors
from kmirror.common.ports import FileSystem
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.record.record_batch import RecordBatch, iter_batches
from kmirror.replica.partition import Partition
from kmirror.runtime.os_files import OsFileSystem
from kmirror.storage.fetch_data_info import FetchIsolation
from kmirror.storage.log_offset_metadata import LogStartOffsetIncrementReason
from kmirror.storage.meta_properties import MetaProperties, write_meta_properties
from kmirror.storage.unified_log import UnifiedLog
from kmirror.wire.messages.config_record import ConfigRecord
from kmirror.wire.messages.partition_change_record import PartitionChangeRecord
from kmirror.wire.messages.partition_record import PartitionRecord
from kmirror.wire.messages.topic_record import TopicRecord
from support.brokers.broker_doubles import BrokerWorld

T0 = TopicPartition("t", 0)
TOPIC_ID = Uuid(b"topic-id-16bytes")
EPOCH = 1
Batches = list[tuple[int, int, bytes]]
"""(base offset, last offset, value)."""


class MoveMachine:
    """`leader` is the partition's leader: broker 1 is this one, broker 2 is in the metadata only."""

    def __init__(self, root: Path, *, leader: int = 1, max_bytes: int = 200, files: FileSystem | None = None) -> None:
        self._files = files or OsFileSystem()
        self.dirs = [str(root / name) for name in ("one", "two")]
        self._root = root
        self._leader = leader
        self._max_bytes = max_bytes
        for number, path in enumerate(self.dirs):
            self._files.make_dirs(path)
            directory_id = Uuid(bytes(15) + bytes([200 + number]))
            write_meta_properties(self._files, path, MetaProperties("test-cluster", 1, directory_id), time_ms=0)
        self.model: Batches = []
        self.count = 0
        self.epoch = 0
        self._start()

    def _start(self) -> None:
        props = {"log.dirs": ",".join(self.dirs), "replica.fetch.max.bytes": str(self._max_bytes), "log.segment.bytes": "1048576"}
        self.world = BrokerWorld(self.dirs[0], props=props, others=(2,), files=self._files)
        self.assigned: list[tuple[Uuid, Callable[[], None]]] = []
        self.manager = self.world.replica_manager
        self.moves = self.manager.alter_log_dirs
        self.moves.on_assignment = lambda topic, directory, done: self.assigned.append((directory, done))
        record = PartitionRecord(
            partition_id=0,
            topic_id=TOPIC_ID,
            replicas=[1, 2],
            isr=[1, 2],
            leader=self._leader,
            leader_epoch=self.epoch,
            partition_epoch=self.epoch,
        )
        mirror = ConfigRecord(resource_type=2, resource_name="t", name="mirror.name", value="m")
        self.world.apply(TopicRecord(name="t", topic_id=TOPIC_ID), mirror, record)

    # --- what there is
    # ------------------------------------------------------------------------------------------------

    @property
    def partition(self) -> Partition:
        return self.manager.get_partition_or_exception(T0)

    @property
    def log(self) -> UnifiedLog:
        return self.partition.local_log

    @property
    def future(self) -> UnifiedLog | None:
        return self.world.log_manager.future_log(T0)

    def content(self, log: UnifiedLog) -> Batches:
        batches: list[RecordBatch] = []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            info = log.read(offset, 1 << 24, FetchIsolation.LOG_END, min_one_message=True)
            batches += iter_batches(memoryview(info.records.to_bytes()))
            offset = batches[-1].next_offset
        assert all(batch.is_valid() for batch in batches)
        return [(batch.base_offset, batch.last_offset, bytes(next(iter(batch.records())).value or b"")) for batch in batches]

    def check(self) -> None:
        """The partition's log is the model's."""
        expected = [batch for batch in self.model if batch[1] >= self.log.log_start_offset]
        assert self.content(self.log) == expected
        assert self.log.log_end_offset == (self.model[-1][1] + 1 if self.model else self.log.log_start_offset)

    # --- steps
    # --------------------------------------------------------------------------------------------------------

    def append(self, records: int = 1) -> None:
        base = self.log.log_end_offset
        value = b"value-%d" % self.count
        self.count += 1
        built = build_batch(
            [Record(base + number, 1_750_000_000_000, None, value, [], -1) for number in range(records)],
            base_offset=base,
            partition_leader_epoch=EPOCH,
        )
        self.log.append_as_follower(built, leader_epoch=EPOCH)
        self.log.update_high_watermark(self.log.log_end_offset)
        self.model.append((base, base + records - 1, value))

    def cut(self, offset: int) -> None:
        self.log.truncate_to(offset, at_batch_boundary=True)
        self.model = [batch for batch in self.model if batch[1] < self.log.log_end_offset]

    def cut_fully(self, offset: int) -> None:
        self.log.truncate_fully_and_start_at(offset)
        self.model = []

    def move_log_start(self, offset: int) -> None:
        offset = min(offset, self.log.high_watermark)
        self.log.maybe_increment_log_start_offset(offset, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)

    def begin_move(self) -> None:
        target = self.dirs[1 - self.dirs.index(self.log.parent_dir)]
        assert self.moves.alter_replica_log_dir(T0, target) is Errors.NONE

    async def advance(self, ms: int) -> None:
        for _ in range(max(1, ms // 25)):
            self.world.runtime.advance(25)
            for _ in range(6):
                await asyncio.sleep(0)

    def accept(self) -> None:
        for _, done in self.assigned:
            done()
        self.assigned.clear()

    def new_epoch(self) -> None:
        self.epoch += 1
        change: Any = PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=self._leader)
        self.world.apply(change)

    def remember_future(self) -> None:
        """Remembers what is on disk of the future log, for a power loss to bring back
        (`old_future`).
        """
        shutil.rmtree(self._root / "old", ignore_errors=True)
        future = self.future
        if future is not None and not future.is_deferred:
            for segment in future.log_segments:
                segment.offset_index.write_pending()
                segment.time_index.write_pending()
            shutil.copytree(future.directory, self._root / "old")

    def restart(self, *, old_future: bool = False) -> None:
        future = self.future
        directory = None if future is None else Path(future.directory)
        self.stop()
        if old_future and directory is not None and (self._root / "old").exists():
            shutil.rmtree(directory)
            shutil.copytree(self._root / "old", directory)
        self._start()

    async def finish(self) -> None:
        """Runs until there is no future log any more."""
        for _ in range(400):
            if self.future is None:
                return
            self.accept()
            await self.advance(100)
        raise AssertionError(f"the move does not end: {self.future}, {self.log}")

    def stop(self) -> None:
        self.manager.kill()
        self.world.log_manager.kill()
