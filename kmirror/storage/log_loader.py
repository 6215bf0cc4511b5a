"""Opening a partition's folder: leftovers of swaps, crash recovery, producer state, log start (Kafka's `LogLoader`)."""

from __future__ import annotations

from dataclasses import dataclass

from kmirror.common.ports import Clock, FileSystem, Random
from kmirror.common.uuid import Uuid
from kmirror.storage.log_config import LogConfig
from kmirror.storage.ports import LogScheduler
from kmirror.storage.unified_log import UnifiedLog


def load_log(
    log_dir: str,
    config: LogConfig,
    *,
    files: FileSystem,
    clock: Clock,
    random: Random,
    scheduler: LogScheduler,
    log_start_offset: int = 0,
    recovery_point: int = 0,
    had_clean_shutdown: bool = True,
    topic_id: Uuid | None = None,
    max_transaction_timeout_ms: int = 900_000,
    producer_id_expiration_ms: int = 86_400_000,
    producer_id_expiration_check_interval_ms: int = 600_000,
) -> UnifiedLog:
    """Open (creating what is missing), recover where needed and hand out the log in the folder `<log dir>/<topic>-<partition>`.

    CorruptFileError names the file and position where Kafka refuses to start.
    """
    ...
