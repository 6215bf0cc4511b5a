"""Small values about offsets: an offset with its place on disk, a loaded log's offsets, and the
answers to look-ups by epoch and by timestamp.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from kmirror.common.sentinels import UNKNOWN_OFFSET

UNKNOWN_FILE_POSITION: Final = -1
MAX_RELATIVE_OFFSET: Final = (1 << 31) - 1


class LogOffsetMetadata(NamedTuple):
    """An offset, the base offset of its segment, and its byte position there (both -1 if not looked
    up).
    """

    message_offset: int
    segment_base_offset: int = UNKNOWN_OFFSET
    relative_position_in_segment: int = UNKNOWN_FILE_POSITION

    @property
    def message_offset_only(self) -> bool:
        return self.relative_position_in_segment == UNKNOWN_FILE_POSITION

    def on_older_segment(self, other: LogOffsetMetadata) -> bool:
        if self.message_offset_only or other.message_offset_only:
            return False
        return self.segment_base_offset < other.segment_base_offset

    def on_same_segment(self, other: LogOffsetMetadata) -> bool:
        return not self.message_offset_only and self.segment_base_offset == other.segment_base_offset

    def position_diff(self, other: LogOffsetMetadata) -> int:
        """Bytes from `other` to self; both must lie on the same segment."""
        assert self.on_same_segment(other), (self, other)
        return self.relative_position_in_segment - other.relative_position_in_segment


class LoadedLogOffsets(NamedTuple):
    """What `LogLoader.load` found (Kafka's `LoadedLogOffsets`)."""

    log_start_offset: int
    recovery_point: int
    next_offset_metadata: LogOffsetMetadata


class EpochAndOffset(NamedTuple):
    """A leader epoch and its end offset (Kafka's `OffsetAndEpoch`)."""

    leader_epoch: int
    offset: int


class TimestampAndOffset(NamedTuple):
    """An answer to ListOffsets: the record's timestamp and offset, and its leader epoch (None when
    unknown).
    """

    timestamp: int
    offset: int
    leader_epoch: int | None


class LogStartOffsetIncrementReason(Enum):
    """Why a log start moved, for the log line."""

    LEADER_OFFSET_INCREMENTED = "leader offset increment"
    SEGMENT_DELETION = "segment deletion"
    CLIENT_RECORD_DELETION = "client delete records request"
    SNAPSHOT_GENERATED = "snapshot generated"
