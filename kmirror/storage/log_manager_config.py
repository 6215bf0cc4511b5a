"""The settings of a `LogManager`."""

from __future__ import annotations

from msgspec import Struct

from kmirror.storage.log_cleaner import CleanerConfig


class LogManagerConfig(Struct, frozen=True):
    """The log settings of a broker, from its properties, with Kafka's defaults."""

    log_dirs: tuple[str, ...]
    cleaner: CleanerConfig = CleanerConfig()
    initial_task_delay_ms: int = 30_000
    retention_check_interval_ms: int = 300_000
    flush_check_interval_ms: int = (1 << 63) - 1
    flush_recovery_offset_checkpoint_interval_ms: int = 60_000
    flush_start_offset_checkpoint_interval_ms: int = 60_000
    max_transaction_timeout_ms: int = 900_000
    producer_id_expiration_ms: int = 86_400_000
    producer_id_expiration_check_interval_ms: int = 600_000
    transaction_verification_enabled: bool = True
    stray_on_missing_partition_metadata: bool = False
    defer_files: bool = False
    """A partition that nobody has written to has only a folder and its topic id. Kafka creates its
    empty files at once.
    """
