"""A log manager whose cleaner runs when the test says so."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

from kmirror.common.ports import FileSystem
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.record.append_origin import AppendOrigin
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.record.record_batch import RecordBatch, iter_batches
from kmirror.storage.log_cleaner import CleanerConfig, LogCleaner
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_manager import LogManager
from kmirror.storage.log_manager_config import LogManagerConfig
from kmirror.storage.offset_checkpoint_file import OffsetCheckpointFile
from kmirror.storage.unified_log import UnifiedLog
from support.logs.storage_doubles import StorageWorld

T = TopicPartition("t", 0)


ID = Uuid(b"topic-id-16bytes")


DAY_MS = 86_400_000


class Cleaning:
    """A LogManager over one directory whose topics are compacted in segments of about three
    batches.
    """

    def __init__(
        self,
        tmp_path: pathlib.Path,
        topic_config: Mapping[str, str] | None = None,
        *,
        dedupe_buffer_size: int = 1 << 20,
        files: FileSystem | None = None,
    ) -> None:
        self.world = StorageWorld(files=files)
        self.data_dir = tmp_path / "data"
        self.topic_config = {
            "cleanup.policy": "compact",
            "internal.segment.bytes": "300",
            "min.cleanable.dirty.ratio": "0.01",
            "segment.index.bytes": "800",
            **(topic_config or {}),
        }
        self.cleaner_config = CleanerConfig(dedupe_buffer_size=dedupe_buffer_size)
        self.manager = self.start()

    def start(self) -> LogManager:
        manager = LogManager(
            LogManagerConfig((str(self.data_dir),), cleaner=self.cleaner_config),
            files=self.world.files,
            clock=self.world.clock,
            random=self.world.random,
            scheduler=self.world.scheduler,
            default_log_config=LogConfig(),
            topic_config=lambda topic: self.topic_config,
        )
        for step in manager.load_steps():
            step()
        return manager

    def crash_and_restart(self) -> UnifiedLog:
        self.manager.handle_log_dir_failure(str(self.data_dir), OSError(5, "crash"))
        self.manager = self.start()
        log = self.manager.get_log(T)
        assert log is not None
        return log

    @property
    def cleaner(self) -> LogCleaner:
        assert self.manager.cleaner is not None
        return self.manager.cleaner

    def log(self, partition: TopicPartition = T) -> UnifiedLog:
        return self.manager.get_or_create_log(partition, topic_id=ID, is_new=True)

    def fill(self, log: UnifiedLog, batches: int = 12, *, keys: int = 2) -> None:
        """`batches` batches of one record each, over `keys` keys."""
        for _ in range(batches):
            self.put(log, f"key{log.log_end_offset % keys}", b"x" * 20)

    def put(self, log: UnifiedLog, key: str | None, value: bytes | None) -> int:
        record = Record(0, self.world.clock.now_ms, key.encode() if key is not None else None, value)
        log.append_as_leader(build_batch([record]), leader_epoch=0, origin=AppendOrigin.COORDINATOR)
        log.update_high_watermark(log.log_end_offset)
        return log.log_end_offset - 1

    def checkpoint(self) -> dict[TopicPartition, int]:
        return OffsetCheckpointFile(self.world.files, str(self.data_dir / "cleaner-offset-checkpoint")).read()

    def file_names(self, suffix: str) -> list[str]:
        return [path.name for path in sorted((self.data_dir / str(T)).iterdir()) if path.name.endswith(suffix)]


def batches(log: UnifiedLog) -> list[RecordBatch]:
    return [batch for segment in log.log_segments for batch in iter_batches(segment.file.pread(segment.size, 0))]


def offsets(log: UnifiedLog) -> list[int]:
    return [record.offset for batch in batches(log) for record in batch.records()]
