"""Answers to ListOffsets from one log."""

from __future__ import annotations

from kmirror.common.sentinels import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
)
from kmirror.record.record import NO_TIMESTAMP
from kmirror.record.record_batch import RecordBatch
from kmirror.storage.batch_header import BatchHeader
from kmirror.storage.leader_epoch_file_cache import LeaderEpochFileCache
from kmirror.storage.log_offset_metadata import TimestampAndOffset
from kmirror.storage.log_segment import LogSegment
from kmirror.storage.log_segments import LogSegments
from kmirror.storage.segment_scan import scan_headers


def offset_for_timestamp(
    timestamp: int, *, segments: LogSegments, leader_epoch_cache: LeaderEpochFileCache, log_start_offset: int, log_end_offset: int
) -> TimestampAndOffset | None:
    """The offset for a special timestamp, or of the first record at least as new as `timestamp`;
    None if there is no such record.
    """
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
            return find_offset_by_timestamp(segment, timestamp, log_start_offset)
    return None


def _offset_of_max_timestamp(segments: LogSegments) -> TimestampAndOffset | None:
    newest = max(segments, key=lambda segment: segment.max_timestamp_so_far)
    return find_offset_of_max_timestamp(newest)


def find_offset_by_timestamp(segment: LogSegment, timestamp: int, starting_offset: int) -> TimestampAndOffset | None:
    """The first record with offset >= `starting_offset` and a timestamp >= `timestamp`."""
    if not segment.size:
        return None
    entry = segment.time_index.lookup(timestamp)
    position = segment.offset_index.lookup(max(entry.offset, starting_offset)).position
    for header in scan_headers(segment.file, position, segment.size):
        if header.max_timestamp >= timestamp and header.next_offset > starting_offset:
            for record in _read_batch(segment, header).records():
                if record.timestamp >= timestamp and record.offset >= starting_offset:
                    return TimestampAndOffset(record.timestamp, record.offset, _epoch(header))
    return None


def find_offset_of_max_timestamp(segment: LogSegment) -> TimestampAndOffset | None:
    """The first record that has the segment's largest timestamp."""
    if not segment.size:
        return None
    largest = segment.max_timestamp_and_offset
    position = segment.offset_index.lookup(largest.offset).position
    for header in scan_headers(segment.file, position, segment.size):
        if header.max_timestamp == largest.timestamp:
            for record in _read_batch(segment, header).records():
                if record.timestamp == largest.timestamp:
                    return TimestampAndOffset(record.timestamp, record.offset, _epoch(header))
            return None
    return None


def _read_batch(segment: LogSegment, header: BatchHeader) -> RecordBatch:
    return RecordBatch(segment.file.pread(header.size_in_bytes, header.position))


def _epoch(header: BatchHeader) -> int | None:
    return header.partition_leader_epoch if header.partition_leader_epoch >= 0 else None
