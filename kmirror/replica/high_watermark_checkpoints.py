"""Checkpoints of high watermarks: `replication-offset-checkpoint` in each log directory.

They are written every `replica.high.watermark.checkpoint.interval.ms` by a worker, and at shutdown
at once. A log that is opened begins with the high watermark of the checkpoint (`assigned_logs`).
"""

from __future__ import annotations

import asyncio
import functools

from kmirror.common.topic_partition import TopicPartition
from kmirror.replica.hosted_partitions import HostedPartitions
from kmirror.runtime.api import Runtime
from kmirror.runtime.supervision import Supervised
from kmirror.storage.log_manager import LogManager


class HighWatermarkCheckpoints:
    """Owns the task that writes, and the write that is under way on a worker."""

    def __init__(self, runtime: Runtime, log_manager: LogManager, hosted: HostedPartitions, *, interval_ms: int) -> None:
        self._runtime = runtime
        self._log_manager = log_manager
        self._hosted = hosted
        self._interval_ms = interval_ms
        self._task: asyncio.Task[None] | None = None
        self._write: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = Supervised(self._runtime, self._run, name="highwatermark-checkpoint").start()

    def cancel(self) -> None:
        """Stops the task; a write that is under way on a worker goes on."""
        if self._task is not None:
            self._task.cancel()

    async def write_last(self) -> None:
        """Writes once more, after `cancel` and after the worker has finished with the same
        files.
        """
        if self._write is not None:
            await self._write
        for log_dir, high_watermarks in self._by_log_dir().items():
            self._log_manager.checkpoint_high_watermarks(log_dir, high_watermarks)

    async def _run(self) -> None:
        while True:
            await self._runtime.sleep_ms(self._interval_ms)
            for log_dir, high_watermarks in self._by_log_dir().items():
                write = functools.partial(self._log_manager.checkpoint_high_watermarks, log_dir, high_watermarks)
                self._write = self._runtime.spawn(self._runtime.run_blocking(write), name="highwatermark-checkpoint-write")
                await asyncio.shield(self._write)
                self._write = None

    def _by_log_dir(self) -> dict[str, dict[TopicPartition, int]]:
        by_dir: dict[str, dict[TopicPartition, int]] = {log_dir: {} for log_dir in self._log_manager.live_log_dirs}
        for topic_partition, partition in self._hosted.online.items():
            log = partition.log
            if log is not None and log.parent_dir in by_dir:
                by_dir[log.parent_dir][topic_partition] = log.high_watermark
        return by_dir
