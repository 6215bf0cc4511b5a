"""How a log changes shape: roll, flush, retention, replacement by the cleaner, truncation. Part of `UnifiedLog`."""

from __future__ import annotations

import logging

from kmirror.storage.log_append_info import LogAppendInfo
from kmirror.storage.log_offset_metadata import (
    LogStartOffsetIncrementReason,
)
from kmirror.storage.log_retention import (
    Predicate,
    deletable_segments,
    retention_ms_breached,
    retention_size_breached,
    start_offset_breached,
)
from kmirror.storage.log_segment import LogSegment
from kmirror.storage.log_state import LogCut, LogState
from kmirror.storage.producer_state_rebuild import rebuild_producer_state
from kmirror.storage.segment_files import delete_producer_snapshots, replace_segments

log = logging.getLogger(__name__)


class LogMaintenance(LogState):
    """Adds to `LogState` what moves segments."""

    # roll, flush
    def _maybe_roll(self, messages_size: int, info: LogAppendInfo) -> LogSegment:
        segment = self.local_log.segments.active_segment
        should_roll = segment.should_roll(
            self.local_log.config,
            max_timestamp_in_messages=info.max_timestamp,
            max_offset_in_messages=info.last_offset,
            messages_size=messages_size,
            now_ms=self.local_log.ports.clock.time_ms(),
        )
        return self.roll(info.first_offset) if should_roll else segment

    def roll(self, expected_next_offset: int | None = None) -> LogSegment:
        """A new active segment at max(expected, log end); a producer snapshot at its base; the flush of the rest is scheduled."""
        with self._io(f"Error while rolling log segment for {self.topic_partition}"):
            self._make_files()
            new_segment = self.local_log.roll(expected_next_offset)
            self.producer_state_manager.update_map_end_offset(new_segment.base_offset)
            self.producer_state_manager.take_snapshot(sync=False)
            self._update_high_watermark_with_log_end_offset()
            base_offset = new_segment.base_offset

            def flush_log() -> None:
                if self._closed:
                    return
                self.producer_state_manager.sync_snapshots()
                self.flush_up_to_offset_exclusive(base_offset)

            self.local_log.ports.scheduler.schedule_once("flush-log", flush_log, 0)
            return new_segment

    def flush(self, *, force_flush_active_segment: bool = False) -> None:
        """fsync up to the log end; with `force_flush_active_segment` an active segment without data too (at shutdown)."""
        self._flush(self.log_end_offset, including=force_flush_active_segment)

    def flush_up_to_offset_exclusive(self, offset: int) -> None:
        self._flush(offset, including=False)

    def _flush(self, offset: int, *, including: bool) -> None:
        flush_offset = offset + 1 if including else offset
        with self._io(f"Error while flushing log for {self.topic_partition} with offset {offset}", leaves_log_alone=True):
            if flush_offset > self.local_log.recovery_point:
                self._timed_flush(flush_offset)
                self.local_log.mark_flushed(min(offset, self.log_end_offset))

    def _timed_flush(self, offset: int) -> None:
        ports = self.local_log.ports
        started_ns = ports.clock.monotonic_ns()
        self.local_log.flush(offset)
        if ports.on_flush is not None:
            ports.on_flush(ports.clock.monotonic_ns() - started_ns)

    # retention
    def delete_old_segments(self) -> int:
        """Remove what retention allows to remove; the number of segments."""
        if not self.config.delete:
            return self._delete_old_segments(start_offset_breached(self.log_start_offset), "log start offset breach")
        deleted = self._delete_old_segments(start_offset_breached(self.log_start_offset), "log start offset breach")
        deleted += self._delete_old_segments(retention_size_breached(self.config, self.size), "retention size breach")
        now_ms = self.local_log.ports.clock.time_ms()
        return deleted + self._delete_old_segments(retention_ms_breached(self.config, now_ms), "retention time breach")

    def _delete_old_segments(self, predicate: Predicate | None, reason: str) -> int:
        if predicate is None:
            return 0
        with self._io(f"Error while deleting segments for {self.topic_partition}"):
            deletable = deletable_segments(
                self.log_segments, predicate, high_watermark=self.high_watermark, log_end_offset=self.log_end_offset
            )
            if deletable:
                log.info("%s: deleting segments %s due to %s", self.name, [segment.base_offset for segment in deletable], reason)
                self._delete_segments(deletable)
            return len(deletable)

    def _delete_segments(self, deletable: list[LogSegment]) -> None:
        to_delete = deletable
        if len(deletable) == self.number_of_segments and self.roll().base_offset == deletable[-1].base_offset:
            to_delete = deletable[:-1]
        if to_delete:
            next_segment = self.segments.higher_segment(to_delete[-1].base_offset)
            assert next_segment is not None, ("no segment is left", to_delete, self.topic_partition)
            self.maybe_increment_log_start_offset(next_segment.base_offset, LogStartOffsetIncrementReason.SEGMENT_DELETION)
            self.local_log.remove_and_delete_segments(to_delete)
        delete_producer_snapshots(self.local_log.folder, deletable, self.producer_state_manager)

    def replace_segments(self, new_segments: list[LogSegment], old_segments: list[LogSegment]) -> None:
        """Put the cleaner's `.cleaned` segments in the place of the old ones."""
        with self._io(f"Error while replacing segments of {self.topic_partition}"):
            deleted = replace_segments(self.local_log.folder, self.segments, new_segments, old_segments)
            delete_producer_snapshots(self.local_log.folder, deleted, self.producer_state_manager)

    # truncation
    def truncate_to(self, target_offset: int, *, at_batch_boundary: bool = False) -> bool:
        """Make `target_offset` the log end; True if anything was cut.

        Kafka cuts whole batches but takes the target literally: inside a batch, the log end lies behind a gap.
        `at_batch_boundary` lowers such a target to the batch's base offset (rule C35, for topics of a mirror).
        The epoch cache is cut at the log end even if no batch is.

        A cut below the high watermark is durable on return. In Kafka only an unclean election makes one, here each failback: what
        consumers could read would be served again by a follower that a power loss gave it back, before it has asked its leader (KIP-392).
        It costs one fsync, and one of the folder where files go: a failback cuts thousands of partitions. The producer snapshot is left to the
        next flush of a sealed segment, or the close.
        """
        if target_offset < 0:
            raise ValueError(f"Cannot truncate partition {self.topic_partition} to a negative offset ({target_offset}).")
        with self._io(f"Error while truncating log to offset {target_offset} for {self.topic_partition}"):
            if at_batch_boundary:
                containing = self.batch_containing(target_offset)
                target_offset = target_offset if containing is None else min(target_offset, containing.base_offset)
            if target_offset >= self.log_end_offset:
                self.leader_epoch_cache.truncate_from_end_async_flush(self.log_end_offset)
                return False
            log.info("%s: truncating to offset %d", self.name, target_offset)
            was_read = target_offset < self.high_watermark
            first_base_offset = self.segments.first_segment_base_offset
            if first_base_offset is None or first_base_offset > target_offset:
                self.truncate_fully_and_start_at(target_offset)
            else:
                reaches_sealed_segments = target_offset < self.active_segment.base_offset
                files_go = reaches_sealed_segments or (self.producer_state_manager.latest_snapshot_offset or 0) > target_offset
                with self.truncation_guard(LogCut(target_offset, is_full=False, reaches_sealed_segments=reaches_sealed_segments)):
                    self._truncate_to(target_offset)
                    if was_read:
                        self.local_log.make_cut_durable(files_went=files_go)
            return True

    def _truncate_to(self, target_offset: int) -> None:
        deleted = self.local_log.truncate_to(target_offset)
        delete_producer_snapshots(self.local_log.folder, deleted, self.producer_state_manager)
        self.leader_epoch_cache.truncate_from_end_async_flush(target_offset)
        self.log_start_offset = min(target_offset, self.log_start_offset)
        self._rebuild_producer_state(target_offset)
        if self.high_watermark >= self.log_end_offset:
            self.update_high_watermark(self.log_end_offset_metadata)
        else:
            self._maybe_increment_first_unstable_offset()

    def truncate_fully_and_start_at(self, new_offset: int, *, log_start_offset: int | None = None) -> None:
        """An empty log that begins (and ends) at `new_offset`; durable on return as in `truncate_to`."""
        cut = LogCut(new_offset, is_full=True, reaches_sealed_segments=True)
        with self._io(f"Error while truncating the entire log for {self.topic_partition}"), self.truncation_guard(cut):
            log.info("%s: truncating fully, starting at offset %d", self.name, new_offset)
            was_read = self.log_start_offset < self.high_watermark
            self._make_files()
            self.local_log.truncate_fully_and_start_at(new_offset)
            if was_read:
                self.local_log.make_cut_durable(files_went=True)
            self.leader_epoch_cache.clear_and_flush()
            self.producer_state_manager.truncate_fully_and_start_at(new_offset)
            self.log_start_offset = new_offset if log_start_offset is None else log_start_offset
            self._rebuild_producer_state(new_offset)
            self.update_high_watermark(self.log_end_offset_metadata)

    def _rebuild_producer_state(self, last_offset: int) -> None:
        rebuild_producer_state(
            self.producer_state_manager,
            self.segments,
            log_start_offset=self.log_start_offset,
            last_offset=last_offset,
            now_ms=self.local_log.ports.clock.time_ms(),
            sync_snapshots=False,
        )
