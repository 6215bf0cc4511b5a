"""Which segments may go: oldest first, up to the first that must stay.

A segment at or beyond the high watermark always stays, and so does an empty last segment. Rules: all of it lies below
the log start offset (every topic); the log without it is still at least retention.bytes; its newest record is older than
retention.ms (the two only with cleanup.policy=delete). Records without timestamps age by the file's time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_segment import LogSegment

Predicate = Callable[[LogSegment, LogSegment | None], bool]


def deletable_segments(
    segments: Sequence[LogSegment], predicate: Predicate, *, high_watermark: int, log_end_offset: int
) -> list[LogSegment]:
    """The oldest segments that `predicate(segment, next segment)` is true for, without a gap."""
    deletable: list[LogSegment] = []
    for index, segment in enumerate(segments):
        next_segment = segments[index + 1] if index + 1 < len(segments) else None
        upper_bound = log_end_offset if next_segment is None else next_segment.base_offset
        is_last_and_empty = next_segment is None and segment.size == 0
        if high_watermark < upper_bound or is_last_and_empty or not predicate(segment, next_segment):
            break
        deletable.append(segment)
    return deletable


def start_offset_breached(log_start_offset: int) -> Predicate:
    return lambda segment, next_segment: next_segment is not None and next_segment.base_offset <= log_start_offset


def retention_size_breached(config: LogConfig, size: int) -> Predicate | None:
    """None if no segment can be too much."""
    if config.retention_size < 0 or size < config.retention_size:
        return None
    excess = size - config.retention_size

    def breached(segment: LogSegment, next_segment: LogSegment | None) -> bool:
        nonlocal excess
        if excess < segment.size:
            return False
        excess -= segment.size
        return True

    return breached


def retention_ms_breached(config: LogConfig, now_ms: int) -> Predicate | None:
    if config.retention_ms < 0:
        return None
    return lambda segment, next_segment: now_ms - segment.largest_timestamp > config.retention_ms
