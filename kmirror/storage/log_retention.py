"""Which segments may be deleted: the oldest ones, up to the first that must stay.

A segment at or beyond the high watermark always stays, and so does an empty last segment. A segment
may be deleted if all of it lies below the log start offset (every topic), if the log without it
still has at least retention.bytes, or if its newest record is older than retention.ms (the last two
only with cleanup.policy=delete). Records without timestamps age by the file's time.

The log of a mirrored topic is deleted by its log start offset alone, which follows the source's, or
the leader's. Whatever time and size say here, the source may still have the records. The exception
is a log that this broker leads and that clients may write to (`is_writable_here`): a mirror that
was failed over. Its followers go on following its log start.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from kmirror.storage.local_log import LocalLog
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_io import LogIo
from kmirror.storage.log_offset_metadata import LogStartOffsetIncrementReason
from kmirror.storage.log_offsets import LogOffsets
from kmirror.storage.log_roll import LogRoll
from kmirror.storage.log_segment import LogSegment
from kmirror.storage.producer_state_manager import ProducerStateManager
from kmirror.storage.segment_files import delete_producer_snapshots

log = logging.getLogger(__name__)

Predicate = Callable[[LogSegment, LogSegment | None], bool]


def deletable_segments(
    segments: Sequence[LogSegment], predicate: Predicate, *, high_watermark: int, log_end_offset: int
) -> list[LogSegment]:
    """The oldest segments for which `predicate(segment, next segment)` is true, without a gap."""
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
    """None if the log is not too large."""
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


class LogRetention:
    """Deletes the old segments of one log. It owns nothing: the parts that it is made with do."""

    __slots__ = ("_io", "_local_log", "_offsets", "_producer_state_manager", "_roll", "is_writable_here")

    def __init__(
        self, local_log: LocalLog, offsets: LogOffsets, producer_state_manager: ProducerStateManager, roll: LogRoll, io: LogIo
    ) -> None:
        self._local_log = local_log
        self._offsets = offsets
        self._producer_state_manager = producer_state_manager
        self._roll = roll
        self._io = io
        self.is_writable_here = False
        """Whether this broker leads the partition, and clients may write to it."""

    def delete_old_segments(self) -> int:
        """Deletes the segments that retention allows to delete; returns their number."""
        config = self._local_log.config
        if not config.delete or self._is_front_of_another():
            return self._delete_old_segments(start_offset_breached(self._offsets.log_start_offset), "log start offset breach")
        deleted = self._delete_old_segments(start_offset_breached(self._offsets.log_start_offset), "log start offset breach")
        deleted += self._delete_old_segments(
            retention_size_breached(config, self._local_log.segments.size_in_bytes), "retention size breach"
        )
        now_ms = self._local_log.ports.clock.time_ms()
        return deleted + self._delete_old_segments(retention_ms_breached(config, now_ms), "retention time breach")

    def _is_front_of_another(self) -> bool:
        """Whether only the log start offset may delete."""
        return self._local_log.config.is_mirrored and not self.is_writable_here

    def _delete_old_segments(self, predicate: Predicate | None, reason: str) -> int:
        if predicate is None:
            return 0
        with self._io.guarded(f"Error while deleting segments for {self._local_log.topic_partition}"):
            deletable = deletable_segments(
                self._local_log.segments.values,
                predicate,
                high_watermark=self._offsets.high_watermark,
                log_end_offset=self._local_log.log_end_offset,
            )
            if deletable:
                log.info("%s: deleting segments %s due to %s", self._local_log.name, [segment.base_offset for segment in deletable], reason)
                self._delete_segments(deletable)
            return len(deletable)

    def _delete_segments(self, deletable: list[LogSegment]) -> None:
        to_delete = deletable
        if len(deletable) == self._local_log.segments.number_of_segments and self._roll.roll().base_offset == deletable[-1].base_offset:
            to_delete = deletable[:-1]
        if to_delete:
            next_segment = self._local_log.segments.higher_segment(to_delete[-1].base_offset)
            assert next_segment is not None, ("no segment is left", to_delete, self._local_log.topic_partition)
            self._offsets.maybe_increment_log_start_offset(next_segment.base_offset, LogStartOffsetIncrementReason.SEGMENT_DELETION)
            self._local_log.remove_and_delete_segments(to_delete)
        delete_producer_snapshots(self._local_log.folder, deletable, self._producer_state_manager)
