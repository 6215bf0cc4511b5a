"""Cutting a log back to an offset, or emptying it. Bytes, indexes, leader epochs, producers and
offsets are cut together.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from kmirror.storage.leader_epoch_file_cache import LeaderEpochFileCache
from kmirror.storage.local_log import LocalLog
from kmirror.storage.log_batch_lookup import LogBatchLookup
from kmirror.storage.log_io import LogIo
from kmirror.storage.log_offsets import LogOffsets
from kmirror.storage.log_topic_id import LogTopicId
from kmirror.storage.producer_state_manager import ProducerStateManager
from kmirror.storage.producer_state_rebuild import rebuild_producer_state
from kmirror.storage.segment_files import delete_producer_snapshots

log = logging.getLogger(__name__)


class LogCut(NamedTuple):
    """A cut that is about to be made.

    The log ends at `target_offset` afterwards. If `is_full`, nothing stays and the log also begins
    there.
    """

    target_offset: int
    is_full: bool
    reaches_sealed_segments: bool


TruncationGuard = Callable[[LogCut], AbstractContextManager[None]]


def _no_guard(cut: LogCut) -> AbstractContextManager[None]:
    return nullcontext()


class LogTruncation:
    """Cuts one log; owner of the guard that is entered around every cut."""

    __slots__ = ("_batches", "_io", "_leader_epoch_cache", "_local_log", "_offsets", "_producer_state_manager", "_topic_id", "guard")

    def __init__(
        self,
        local_log: LocalLog,
        offsets: LogOffsets,
        leader_epoch_cache: LeaderEpochFileCache,
        producer_state_manager: ProducerStateManager,
        topic_id: LogTopicId,
        batches: LogBatchLookup,
        io: LogIo,
    ) -> None:
        self.guard: TruncationGuard = _no_guard
        """Entered around every cut, no matter who asks for it; `LogManager` sets its own."""
        self._local_log = local_log
        self._offsets = offsets
        self._leader_epoch_cache = leader_epoch_cache
        self._producer_state_manager = producer_state_manager
        self._topic_id = topic_id
        self._batches = batches
        self._io = io

    def truncate_to(self, target_offset: int, *, at_batch_boundary: bool = False) -> bool:
        """Cuts the log so that it ends at `target_offset`; True if anything was cut.

        Kafka cuts whole batches but takes the target literally: with a target inside a batch, the
        log ends after a gap. `at_batch_boundary` lowers such a target to the batch's base offset,
        for topics of a mirror (C35). The epoch cache is cut at the log end even if no batch is cut.

        A cut below the high watermark is durable on return. In Kafka only an unclean election
        causes one, here each failback does. Otherwise a power loss could restore on a follower
        records that consumers had read, and it would serve them (KIP-392) before it has asked its
        leader. This costs one fsync, and one of the folder if files are removed: a failback cuts
        thousands of partitions. The producer snapshot is left to the next flush of a sealed
        segment, or to the close.
        """
        if target_offset < 0:
            raise ValueError(f"Cannot truncate partition {self._local_log.topic_partition} to a negative offset ({target_offset}).")
        with self._io.guarded(f"Error while truncating log to offset {target_offset} for {self._local_log.topic_partition}"):
            if at_batch_boundary:
                containing = self._batches.batch_containing(target_offset)
                target_offset = target_offset if containing is None else min(target_offset, containing.base_offset)
            if target_offset >= self._local_log.log_end_offset:
                self._leader_epoch_cache.truncate_from_end_async_flush(self._local_log.log_end_offset)
                return False
            log.info("%s: truncating to offset %d", self._local_log.name, target_offset)
            was_read = target_offset < self._offsets.high_watermark
            first_base_offset = self._local_log.segments.first_segment_base_offset
            if first_base_offset is None or first_base_offset > target_offset:
                self.truncate_fully_and_start_at(target_offset)
            else:
                reaches_sealed_segments = target_offset < self._local_log.segments.active_segment.base_offset
                files_go = reaches_sealed_segments or (self._producer_state_manager.latest_snapshot_offset or 0) > target_offset
                with self.guard(LogCut(target_offset, is_full=False, reaches_sealed_segments=reaches_sealed_segments)):
                    self._truncate_to(target_offset)
                    if was_read:
                        self._local_log.make_cut_durable(files_went=files_go)
            return True

    def _truncate_to(self, target_offset: int) -> None:
        deleted = self._local_log.truncate_to(target_offset)
        delete_producer_snapshots(self._local_log.folder, deleted, self._producer_state_manager)
        self._leader_epoch_cache.truncate_from_end_async_flush(target_offset)
        self._offsets.log_start_offset = min(target_offset, self._offsets.log_start_offset)
        self._rebuild_producer_state(target_offset)
        if self._offsets.high_watermark >= self._local_log.log_end_offset:
            self._offsets.update_high_watermark(self._local_log.next_offset_metadata, is_cut=True)
        else:
            self._offsets.maybe_increment_first_unstable_offset()

    def truncate_fully_and_start_at(self, new_offset: int, *, log_start_offset: int | None = None) -> None:
        """Empties the log so that it begins (and ends) at `new_offset`; durable on return as in
        `truncate_to`.
        """
        cut = LogCut(new_offset, is_full=True, reaches_sealed_segments=True)
        with self._io.guarded(f"Error while truncating the entire log for {self._local_log.topic_partition}"), self.guard(cut):
            log.info("%s: truncating fully, starting at offset %d", self._local_log.name, new_offset)
            was_read = self._offsets.log_start_offset < self._offsets.high_watermark
            self._topic_id.make_files()
            self._local_log.truncate_fully_and_start_at(new_offset)
            if was_read:
                self._local_log.make_cut_durable(files_went=True)
            self._leader_epoch_cache.clear_and_flush()
            self._producer_state_manager.truncate_fully_and_start_at(new_offset)
            self._offsets.log_start_offset = new_offset if log_start_offset is None else log_start_offset
            self._rebuild_producer_state(new_offset)
            self._offsets.update_high_watermark(self._local_log.next_offset_metadata, is_cut=True)

    def _rebuild_producer_state(self, last_offset: int) -> None:
        rebuild_producer_state(
            self._producer_state_manager,
            self._local_log.segments,
            log_start_offset=self._offsets.log_start_offset,
            last_offset=last_offset,
            now_ms=self._local_log.ports.clock.time_ms(),
            sync_snapshots=False,
        )
