"""What was appended, and with which result."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from kmirror.record.append_origin import AppendOrigin as AppendOrigin
from kmirror.record.compression import CompressionType
from kmirror.record.record import NO_TIMESTAMP


class LogAppendInfo(Struct):
    """The result of an append.

    For a duplicate, `is_duplicate` is set, and offsets and time are those of the first append.
    """

    first_offset: int
    last_offset: int
    last_leader_epoch: int | None = None
    max_timestamp: int = NO_TIMESTAMP
    log_append_time: int = NO_TIMESTAMP
    """With LogAppendTime, the broker's time; for a duplicate, the first batch's max timestamp; else
    -1. Part of the Produce response.
    """
    log_start_offset: int = 0
    source_compression: CompressionType = CompressionType.NONE
    valid_bytes: int = 0
    record_errors: list[Any] = []
    is_duplicate: bool = False
    skipped_higher_epoch: bool = False
    """A replicated append stopped before a batch whose leader epoch is above the epoch of the fetch
    (KAFKA-18723).
    """

    @property
    def num_messages(self) -> int:
        """The number of offsets used, gaps included; 0 if nothing was appended."""
        return self.last_offset - self.first_offset + 1 if self.first_offset >= 0 and self.last_offset >= 0 else 0
