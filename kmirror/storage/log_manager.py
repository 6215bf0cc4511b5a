"""All logs of a broker, in one or more log directories (Kafka's `LogManager`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kmirror.common.ports import Clock, FileSystem, Random
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.storage.log_cleaner import CleanerConfig, LogCleaner
from kmirror.storage.log_config import LogConfig
from kmirror.storage.ports import LogScheduler
from kmirror.storage.unified_log import UnifiedLog

BlockingStep = Callable[[], None]


@dataclass(frozen=True)
class LogManagerConfig:
    """Settings of the log layer, from the broker's properties; Kafka's defaults."""

    log_dirs: tuple[str, ...]
    cleaner: CleanerConfig = CleanerConfig()
    initial_task_delay_ms: int = 30_000
    retention_check_interval_ms: int = 300_000
    flush_check_interval_ms: int = 9_223_372_036_854_775_807
    flush_recovery_offset_checkpoint_interval_ms: int = 60_000
    flush_start_offset_checkpoint_interval_ms: int = 60_000
    max_transaction_timeout_ms: int = 900_000
    producer_id_expiration_ms: int = 86_400_000
    producer_id_expiration_check_interval_ms: int = 600_000
    stray_on_missing_partition_metadata: bool = False


class LogManager:
    """Owner of every `UnifiedLog` of this broker: loading, creation, deletion, retention, checkpoints, shutdown.

    Synchronous. The periodic tasks run through the `LogScheduler`; `load_steps`, `shutdown_steps` and the cleaner's
    steps may take long and are meant for `Runtime.run_blocking`.
    """

    def __init__(
        self,
        config: LogManagerConfig,
        *,
        files: FileSystem,
        clock: Clock,
        random: Random,
        scheduler: LogScheduler,
        default_log_config: LogConfig,
        topic_config: Callable[[str], Mapping[str, str]],
        on_log_dir_failure: Callable[[str, OSError], None] | None = None,
    ) -> None:
        """Creates missing log dirs, locks them and reads their directory ids; `topic_config` gives a topic's own (overriding) configs."""
        ...

    cleaner: LogCleaner | None
    @property
    def live_log_dirs(self) -> list[str]: ...
    def has_offline_log_dirs(self) -> bool: ...
    def is_log_dir_online(self, log_dir: str) -> bool: ...
    def directory_id(self, log_dir: str) -> Uuid | None: ...
    def directory_path(self, directory_id: Uuid) -> str | None: ...
    def directory_ids(self) -> list[Uuid]:
        """Of the live log dirs, in their order; for BrokerRegistration and BrokerHeartbeat."""
        ...

    def read_broker_epoch_from_clean_shutdown_files(self) -> int | None:
        """The epoch for PreviousBrokerEpoch; call before `startup`, which removes the markers. None unless all log dirs have the same one."""
        ...

    def startup(self, is_stray: Callable[[UnifiedLog], bool] = lambda log: False) -> None:
        """Load (and where needed recover) every log of the live dirs, then schedule the periodic tasks."""
        ...

    def load_steps(self, is_stray: Callable[[UnifiedLog], bool]) -> Iterator[BlockingStep]:
        """`startup` without the tasks, one log a step, for `run_blocking`."""
        ...

    def start_tasks(self) -> None: ...

    def shutdown(self, broker_epoch: int = -1) -> None:
        """Flush and close every log, write checkpoints, write the clean-shutdown marker of each dir, unlock."""
        ...

    def get_log(self, topic_partition: TopicPartition) -> UnifiedLog | None: ...
    def get_or_create_log(
        self,
        topic_partition: TopicPartition,
        *,
        topic_id: Uuid | None,
        is_new: bool = False,
        target_directory_id: Uuid | None = None,
    ) -> UnifiedLog:
        """KAFKA_STORAGE_ERROR where it may lie in an offline dir, INCONSISTENT_TOPIC_ID where the folder belongs to another topic id."""
        ...

    def all_logs(self) -> list[UnifiedLog]: ...
    def logs_by_topic(self, topic: str) -> list[UnifiedLog]: ...
    def logs_in_dir(self, log_dir: str) -> dict[TopicPartition, UnifiedLog]: ...
    def truncate_to(self, offsets: Mapping[TopicPartition, int]) -> None: ...
    def truncate_fully_and_start_at(self, topic_partition: TopicPartition, new_offset: int, *, log_start_offset: int | None = None) -> None: ...
    def async_delete(
        self,
        topic_partitions: Iterable[TopicPartition],
        *,
        is_stray: bool = False,
        on_error: Callable[[TopicPartition, Exception], None] | None = None,
    ) -> None:
        """Rename to `-delete` (removed after file.delete.delay.ms) or `-stray` (kept), and rewrite the checkpoints once per dir."""
        ...

    def update_topic_config(self, topic: str, overrides: Mapping[str, str]) -> None: ...
    def reconfigure_default_log_config(self, default_log_config: LogConfig) -> None: ...
    def checkpoint_log_recovery_offsets(self) -> None: ...
    def checkpoint_log_start_offsets(self) -> None: ...
    def read_high_watermarks(self, log_dir: str) -> dict[TopicPartition, int]: ...
    def checkpoint_high_watermarks(self, log_dir: str, high_watermarks: Mapping[TopicPartition, int]) -> None: ...
    def handle_log_dir_failure(self, log_dir: str, error: OSError) -> None: ...
    def cleanup_logs(self) -> int:
        """Retention on the logs that are not compacted; the number of segments deleted."""
        ...

    def delete_logs(self) -> None: ...
    def flush_dirty_logs(self) -> None: ...
