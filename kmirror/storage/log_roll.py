"""Beginning a new active segment, and flushing a log up to an offset.

The scheduler flushes the old segment soon after a roll, and then the recovery point moves up.
"""

from __future__ import annotations

from kmirror.storage.local_log import LocalLog
from kmirror.storage.log_append_info import LogAppendInfo
from kmirror.storage.log_io import LogIo
from kmirror.storage.log_offsets import LogOffsets
from kmirror.storage.log_segment import LogSegment
from kmirror.storage.log_topic_id import LogTopicId
from kmirror.storage.producer_state_manager import ProducerStateManager


class LogRoll:
    """Rolls and flushes one log. It owns nothing: the parts that it is made with do."""

    __slots__ = ("_io", "_local_log", "_offsets", "_producer_state_manager", "_topic_id")

    def __init__(
        self, local_log: LocalLog, offsets: LogOffsets, producer_state_manager: ProducerStateManager, topic_id: LogTopicId, io: LogIo
    ) -> None:
        self._local_log = local_log
        self._offsets = offsets
        self._producer_state_manager = producer_state_manager
        self._topic_id = topic_id
        self._io = io

    def maybe_roll(self, messages_size: int, info: LogAppendInfo) -> LogSegment:
        segment = self._local_log.segments.active_segment
        should_roll = segment.should_roll(
            self._local_log.config,
            max_timestamp_in_messages=info.max_timestamp,
            max_offset_in_messages=info.last_offset,
            messages_size=messages_size,
            now_ms=self._local_log.ports.clock.time_ms(),
        )
        return self.roll(info.first_offset) if should_roll else segment

    def roll(self, expected_next_offset: int | None = None) -> LogSegment:
        """Begins a new active segment at max(expected, log end), takes a producer snapshot at its
        base, and schedules the flush of what lies before it.
        """
        with self._io.guarded(f"Error while rolling log segment for {self._local_log.topic_partition}"):
            self._topic_id.make_files()
            new_segment = self._local_log.roll(expected_next_offset)
            self._producer_state_manager.update_map_end_offset(new_segment.base_offset)
            self._producer_state_manager.take_snapshot(sync=False)
            self._offsets.update_high_watermark_with_log_end_offset()
            base_offset = new_segment.base_offset

            def flush_log() -> None:
                if self._io.is_closed:
                    return
                self._producer_state_manager.sync_snapshots()
                self.flush_up_to_offset_exclusive(base_offset)

            self._local_log.ports.scheduler.schedule_once("flush-log", flush_log, 0)
            return new_segment

    def flush(self, *, force_flush_active_segment: bool = False) -> None:
        """Syncs the log up to its end; with `force_flush_active_segment` also an active segment
        without data (at shutdown).
        """
        self._flush(self._local_log.log_end_offset, including=force_flush_active_segment)

    def flush_up_to_offset_exclusive(self, offset: int) -> None:
        self._flush(offset, including=False)

    def _flush(self, offset: int, *, including: bool) -> None:
        flush_offset = offset + 1 if including else offset
        with self._io.guarded(
            f"Error while flushing log for {self._local_log.topic_partition} with offset {offset}", leaves_log_alone=True
        ):
            if flush_offset > self._local_log.recovery_point:
                self._timed_flush(flush_offset)
                self._local_log.mark_flushed(min(offset, self._local_log.log_end_offset))

    def _timed_flush(self, offset: int) -> None:
        ports = self._local_log.ports
        started_ns = ports.clock.monotonic_ns()
        self._local_log.flush(offset)
        if ports.on_flush is not None:
            ports.on_flush(ports.clock.monotonic_ns() - started_ns)
