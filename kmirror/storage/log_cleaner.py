"""Compaction of logs in the background (Kafka's `LogCleaner`, its states and its candidate selection)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kmirror.common.ports import Clock, FileSystem
from kmirror.common.topic_partition import TopicPartition
from kmirror.storage.unified_log import UnifiedLog


@dataclass(frozen=True)
class CleanerConfig:
    """log.cleaner.* of the broker; Kafka's defaults."""

    enable: bool = True
    threads: int = 1
    dedupe_buffer_size: int = 134_217_728
    dedupe_buffer_load_factor: float = 0.9
    io_buffer_size: int = 524_288
    max_message_size: int = 1_048_588
    backoff_ms: int = 15_000


class CleaningJob(Protocol):
    """One pass over one log. `while job.advance(): await run_blocking(job.work)`: `work` may run on a worker, `advance` only on the loop."""

    def advance(self) -> bool:
        """Apply the last `work` and prepare the next one; False when the pass is over (finished, or aborted)."""
        ...

    def work(self) -> None:
        """Read sealed segments and write .cleaned files; touches no state of the log."""
        ...


class LogCleaner:
    """Synchronous; whoever drives it (server's cleaner task, the simulator, a test) calls `next_job` every backoff_ms while it returns None."""

    def __init__(
        self,
        config: CleanerConfig,
        *,
        files: FileSystem,
        clock: Clock,
        log_dirs: Sequence[str],
        logs: Mapping[TopicPartition, UnifiedLog],
    ) -> None: ...

    def next_job(self) -> CleaningJob | None:
        """The job for the filthiest compacted log, or None; also runs retention on compact,delete logs and start-offset deletion on compacted ones."""
        ...

    def clean_filthiest_log(self) -> bool:
        """One whole job, inline; False when nothing is to be cleaned."""
        ...

    def abort_cleaning(self, topic_partition: TopicPartition) -> None: ...
    def abort_and_pause_cleaning(self, topic_partition: TopicPartition) -> None: ...
    def resume_cleaning(self, topic_partitions: Iterable[TopicPartition]) -> None: ...
