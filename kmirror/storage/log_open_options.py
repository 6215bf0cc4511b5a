"""What the owner of a log knows when it opens it: checkpoints, how the broker stopped, settings."""

from __future__ import annotations

from typing import NamedTuple

from kmirror.common.uuid import Uuid
from kmirror.storage.producer_state_manager import ProducerStateManagerConfig


class LogOpenOptions(NamedTuple):
    """What a log is opened with, beside its folder, its config and its ports. The defaults are
    those of a new log.
    """

    log_start_offset: int = 0
    """The checkpointed log start."""
    recovery_point: int = 0
    """The checkpointed recovery point: everything below it was flushed."""
    last_shutdown_clean: bool = True
    """Without a clean shutdown the log is recovered from the recovery point on."""
    topic_id: Uuid | None = None
    producer_state_config: ProducerStateManagerConfig | None = None
    max_transaction_timeout_ms: int = 900_000
    defer_files: bool = False
    """A partition that nobody has written to gets its files only with the first append."""
    committed_offset: int = 0
    """The log must be readable up to here; recovery does not cut below it."""


NEW_LOG = LogOpenOptions()
