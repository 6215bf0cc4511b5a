"""Answers to ListOffsets from one log."""

from __future__ import annotations

from typing import Final

from kmirror.record.record import NO_TIMESTAMP
from kmirror.storage.leader_epoch_file_cache import LeaderEpochFileCache
from kmirror.storage.log_offset_metadata import TimestampAndOffset
from kmirror.storage.log_segments import LogSegments

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL_TIMESTAMP: Final = -4
LATEST_TIERED_TIMESTAMP: Final = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP: Final = -6


def offset_for_timestamp(
    timestamp: int, *, segments: LogSegments, leader_epoch_cache: LeaderEpochFileCache, log_start_offset: int, log_end_offset: int
) -> TimestampAndOffset | None:
    """The offset for a special timestamp, or of the first record at least as new; None if there is no such record."""
    if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        earliest = leader_epoch_cache.earliest_entry
        epoch = earliest.epoch if earliest is not None and earliest.start_offset <= log_start_offset else None
        return TimestampAndOffset(NO_TIMESTAMP, log_start_offset, epoch)
    if timestamp == LATEST_TIMESTAMP:
        return TimestampAndOffset(NO_TIMESTAMP, log_end_offset, leader_epoch_cache.latest_epoch)
    if timestamp in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
        return TimestampAndOffset(NO_TIMESTAMP, -1, -1)
    if timestamp == MAX_TIMESTAMP:
        return _offset_of_max_timestamp(segments)
    for segment in segments:
        if segment.largest_timestamp >= timestamp:
            return segment.find_offset_by_timestamp(timestamp, log_start_offset)
    return None


def _offset_of_max_timestamp(segments: LogSegments) -> TimestampAndOffset | None:
    newest = max(segments, key=lambda segment: segment.max_timestamp_so_far)
    return newest.find_offset_of_max_timestamp()
