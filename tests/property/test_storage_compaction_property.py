"""Compaction against the dict model, for any sequence of batches, producers, passes, restarts and
crashes in between.
"""

from __future__ import annotations

import pathlib
import tempfile

from compaction_model import ModelRecord, compacted, table
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.logs.storage_doubles import StorageWorld

from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.record.builder import build_batch
from kmirror.record.compression import CompressionType
from kmirror.record.record import Record
from kmirror.record.record_batch import iter_batches
from kmirror.storage.log_cleaner import CleanerConfig
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_manager import LogManager
from kmirror.storage.log_manager_config import LogManagerConfig
from kmirror.storage.unified_log import UnifiedLog

PARTITION = TopicPartition("t", 0)
DELETE_RETENTION_MS = 1000
CONFIG = LogConfig.from_props(
    {
        "cleanup.policy": "compact",
        "internal.segment.bytes": "400",
        "index.interval.bytes": "50",
        "segment.index.bytes": "800",
        "min.cleanable.dirty.ratio": "0.0",
        "delete.retention.ms": str(DELETE_RETENTION_MS),
    }
)
KEYS = st.integers(0, 6).map(lambda number: f"key{number}".encode())
VALUES = st.one_of(st.none(), st.binary(max_size=20))
BATCHES = st.tuples(
    st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=5),
    st.sampled_from([CompressionType.NONE, CompressionType.LZ4, CompressionType.GZIP]),
)
STEPS = st.one_of(BATCHES, st.sampled_from(["clean", "wait", "restart", "crash"]))
Batch = tuple[list[tuple[bytes, bytes | None]], CompressionType]


class Machine:
    """One log and what it was given."""

    def __init__(self, folder: pathlib.Path, dedupe_buffer_size: int) -> None:
        self.folder = folder
        self.world = StorageWorld()
        self.cleaner_config = CleanerConfig(dedupe_buffer_size=dedupe_buffer_size)
        self.appended: list[ModelRecord] = []
        self.manager, self.log = self.open()

    def open(self) -> tuple[LogManager, UnifiedLog]:
        manager = LogManager(
            LogManagerConfig((str(self.folder),), cleaner=self.cleaner_config),
            files=self.world.files,
            clock=self.world.clock,
            random=self.world.random,
            scheduler=self.world.scheduler,
            default_log_config=CONFIG,
            topic_config=lambda topic: {},
        )
        for step in manager.load_steps():
            step()
        log = manager.get_or_create_log(PARTITION, topic_id=Uuid(b"x" * 16), is_new=True)
        log.update_high_watermark(log.log_end_offset)
        return manager, log

    def append(self, batch: Batch) -> None:
        pairs, compression = batch
        records = [Record(delta, self.world.clock.now_ms + delta, key, value) for delta, (key, value) in enumerate(pairs)]
        info = self.log.append_as_leader(build_batch(records, compression=compression), leader_epoch=0)
        self.appended += [ModelRecord(info.first_offset + delta, key, value) for delta, (key, value) in enumerate(pairs)]
        self.log.update_high_watermark(self.log.log_end_offset)

    def clean(self) -> None:
        """One pass; what it leaves is what the model says, tombstones apart that it had to keep or
        was free to drop.
        """
        assert self.manager.cleaner is not None
        before = self.records()
        if not self.manager.cleaner.clean_filthiest_log():
            return
        end_offset = self.manager.cleaner.manager.all_cleaner_checkpoints()[PARTITION]
        after = self.records()
        kept = compacted(before, end_offset=end_offset, keep_tombstones=True)
        without_tombstones = [record for record in kept if record.offset >= end_offset or record.value is not None]
        assert [record for record in after if record.offset >= end_offset or record.value is not None] == without_tombstones
        assert [record for record in after if record not in kept] == []

    def restart(self, *, clean: bool) -> None:
        if clean:
            self.manager.shutdown()
        else:
            self.manager.handle_log_dir_failure(str(self.folder), OSError(5, "crash"))
        self.manager, self.log = self.open()

    def records(self) -> list[ModelRecord]:
        return [
            ModelRecord(record.offset, bytes(record.key), None if record.value is None else bytes(record.value))
            for segment in self.log.log_segments
            for batch in iter_batches(segment.file.pread(segment.size, 0))
            for record in batch.records()
            if record.key is not None
        ]

    def check(self) -> None:
        """The table never changes, offsets ascend, no record is changed, and reads go through every
        gap.
        """
        records = self.records()
        offsets = [record.offset for record in records]
        assert offsets == sorted(set(offsets))
        assert set(records) <= set(self.appended)
        assert table(records) == table(self.appended)
        assert self.log.log_end_offset == (self.appended[-1].offset + 1 if self.appended else 0)
        end_offsets = [segment.read_next_offset() for segment in self.log.log_segments]
        assert all(end <= segment.base_offset for end, segment in zip(end_offsets, self.log.log_segments[1:], strict=False))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(STEPS, max_size=40), slots=st.sampled_from([4, 8, 1000]))
def test_compaction_keeps_the_last_record_of_each_key(steps: list[Batch | str], slots: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(pathlib.Path(folder), dedupe_buffer_size=24 * slots)
        for step in steps:
            machine.world.clock.now_ms += 10
            if not isinstance(step, str):
                machine.append(step)
            elif step == "clean":
                machine.clean()
            elif step == "wait":
                machine.world.scheduler.advance(70_000)
            else:
                machine.restart(clean=step == "restart")
            machine.check()
        machine.manager.shutdown()
