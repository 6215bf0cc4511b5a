"""Loading a partition's folder: leftovers, crash recovery, log start, producer state (Kafka's
`LogLoader`).

In this order:

1. *Leftovers.* `.deleted` files are removed. A `.cleaned` file is a half-written replacement. It is
   removed, and with it every `.swap` at or above the lowest `.cleaned` offset: replacements are
   renamed to `.swap` from the highest offset down, so those belong to a set that was never
   complete. Any other `.swap` set was complete: the segments that it replaces (all within its
   offset range) are removed, and it takes their place.
2. *Segments* are opened in the order of their names. An index without a `.log` is removed. A `.log`
   without `.index`, or with a transaction index that makes no sense, is recovered at once. A
   missing `.timeindex` is created, empty. A disk error is never taken for corrupt bytes: it ends the
   loading, and nothing is cut, emptied or renamed because of it. The offset index that recovery was
   rebuilding is removed, so that the next start rebuilds it.
3. *Recovery*, only if there was no clean shutdown: every segment from the one that holds the
   recovery point on is scanned, its indexes are rebuilt, and it is cut at the first batch that is
   not valid; later segments are then removed. Nothing below the recovery point is checked.
4. *Log start.* A log that ends below the checkpointed log start is emptied and starts there. The
   epoch cache is cut to [log start, log end].
5. *Producer state*: stray snapshots are removed, then the state is rebuilt from the newest good
   snapshot and the batches after it.

A segment with offsets beyond base + 2^31 - 1 (written by very old brokers) is split, and the step
is repeated. A segment with offsets below its base cannot be split: Kafka does not start then, and
here `CorruptFileError` names the file.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from kmirror.common.errors import CorruptFileError
from kmirror.common.topic_partition import TopicPartition
from kmirror.storage.leader_epoch_file_cache import LeaderEpochFileCache
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_file_names import (
    CLEANED_FILE_SUFFIX,
    DELETE_DIR_SUFFIX,
    DELETED_FILE_SUFFIX,
    SWAP_FILE_SUFFIX,
    is_index_file,
    is_log_file,
    log_file,
    offset_from_file_name,
    time_index_file,
)
from kmirror.storage.log_offset_metadata import LoadedLogOffsets, LogOffsetMetadata
from kmirror.storage.log_open_options import LogOpenOptions
from kmirror.storage.log_segment import LogSegment
from kmirror.storage.log_segment_recovery import InvalidOffsetError, LogSegmentOffsetOverflowError
from kmirror.storage.log_segments import LogSegments
from kmirror.storage.ports import LogPorts
from kmirror.storage.producer_state_manager import ProducerStateManager
from kmirror.storage.producer_state_rebuild import rebuild_producer_state
from kmirror.storage.segment_files import LogFolder, delete_producer_snapshots, delete_segments, split_overflowed_segment

_LOGGER: Final = logging.getLogger(__name__)
_SNAPSHOT_DELETED_SUFFIX: Final = ".checkpoint.deleted"
LONG_MAX: Final = (1 << 63) - 1
Result = TypeVar("Result")


class LogLoader:
    """Loads one log; used once, by `UnifiedLog.open`. Fills `segments`, the epoch cache and the
    producer state, which are empty before.
    """

    def __init__(
        self,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        ports: LogPorts,
        options: LogOpenOptions,
        *,
        segments: LogSegments,
        leader_epoch_cache: LeaderEpochFileCache,
        producer_state_manager: ProducerStateManager,
    ) -> None:
        self._folder = LogFolder(directory, topic_partition, config, ports, segments)
        self._directory = directory
        self._topic_partition = topic_partition
        self._config = config
        self._ports = ports
        self._files = ports.files
        self._segments = segments
        self._leader_epoch_cache = leader_epoch_cache
        self._producer_state_manager = producer_state_manager
        self._had_clean_shutdown = options.last_shutdown_clean
        self._log_start_offset_checkpoint = options.log_start_offset
        self._recovery_point_checkpoint = options.recovery_point
        self._defer_files = options.defer_files
        self._committed_offset = options.committed_offset

    def load(self) -> LoadedLogOffsets:
        """Loads the log and returns its offsets.

        OSError if the disk fails; CorruptFileError where Kafka refuses to start.
        """
        self._complete_swaps(self._remove_temporary_files_and_collect_swap_files())
        self._retry_on_offset_overflow(self._load_segment_files)
        if self._directory.endswith(DELETE_DIR_SUFFIX):
            recovery_point = log_end_offset = self._open_log_to_be_deleted()
        else:
            recovery_point, log_end_offset = self._retry_on_offset_overflow(self._recover_log)
            self._make_room_in_indexes(self._segments.active_segment)
        log_start_offset = max(self._log_start_offset_checkpoint, self._segments.base_offsets[0])
        self._leader_epoch_cache.truncate_from_end_async_flush(log_end_offset)
        self._leader_epoch_cache.truncate_from_start_async_flush(self._log_start_offset_checkpoint)
        self._load_producer_state(log_start_offset, log_end_offset)
        for segment in self._segments:
            segment.release_file()
        active = self._segments.active_segment
        return LoadedLogOffsets(log_start_offset, recovery_point, LogOffsetMetadata(log_end_offset, active.base_offset, active.size))

    def _make_room_in_indexes(self, active: LogSegment) -> None:
        if self._defer_files and self._had_clean_shutdown:
            active.resize_indexes_before_append(self._config.max_index_size)
        else:
            active.resize_indexes(self._config.max_index_size)

    # leftovers

    def _names(self) -> list[str]:
        return [name for name in self._files.list_dir(self._directory) if not self._files.is_dir(f"{self._directory}/{name}")]

    def _remove(self, name: str) -> None:
        self._files.remove(f"{self._directory}/{name}")

    def _remove_temporary_files_and_collect_swap_files(self) -> list[str]:
        names = self._names()
        cleaned = [name for name in names if name.endswith(CLEANED_FILE_SUFFIX)]
        deleted = [name for name in names if name.endswith(DELETED_FILE_SUFFIX) and not name.endswith(_SNAPSHOT_DELETED_SUFFIX)]
        swaps = [name for name in names if name.endswith(SWAP_FILE_SUFFIX)]
        min_cleaned_offset = min((offset_from_file_name(name) for name in cleaned), default=None)
        incomplete = [name for name in swaps if min_cleaned_offset is not None and offset_from_file_name(name) >= min_cleaned_offset]
        for name in (*deleted, *incomplete, *cleaned):
            _LOGGER.info("%s: removing the leftover file %s", self._topic_partition, name)
            self._remove(name)
        return [name for name in swaps if name not in incomplete]

    def _complete_swaps(self, swap_files: list[str]) -> None:
        """Removes what complete `.swap` segments replace, then gives all `.swap` files their final
        names.
        """
        ranges: list[tuple[int, int]] = []
        for name in swap_files:
            if is_log_file(name.removesuffix(SWAP_FILE_SUFFIX)):
                segment = self._folder.open_segment(offset_from_file_name(name), SWAP_FILE_SUFFIX)
                _LOGGER.info("%s: completing the interrupted swap of %s", self._topic_partition, name)
                ranges.append((segment.base_offset, segment.read_next_offset()))
                segment.close_handlers()
        if ranges:
            self._remove_replaced(min(start for start, _ in ranges), max(end for _, end in ranges))
        swaps = [name for name in self._names() if name.endswith(SWAP_FILE_SUFFIX)]  # opening a segment may have created its index
        for name in sorted(swaps, key=lambda name: not is_log_file(name.removesuffix(SWAP_FILE_SUFFIX))):
            # The .log files come first: while a .log.swap is left, the next start takes indexes
            # without the suffix for files that it replaces.
            self._files.rename(f"{self._directory}/{name}", f"{self._directory}/{name.removesuffix(SWAP_FILE_SUFFIX)}")

    def _remove_replaced(self, start_offset: int, end_offset: int) -> None:
        for name in self._names():
            prefix = name.partition(".")[0]
            if not name.endswith(SWAP_FILE_SUFFIX) and prefix.isdecimal() and start_offset <= int(prefix) < end_offset:
                _LOGGER.info("%s: removing %s, which is replaced", self._topic_partition, name)
                self._remove(name)

    # segments

    def _retry_on_offset_overflow(self, step: Callable[[], Result]) -> Result:
        while True:
            try:
                return step()
            except LogSegmentOffsetOverflowError:
                continue  # the segment was split where it was found

    def _split(self, segment: LogSegment, overflow: LogSegmentOffsetOverflowError) -> None:
        if not segment.has_overflow():
            raise CorruptFileError(
                overflow.path,
                overflow.position,
                f"a batch ends at offset {overflow.offset}, below the segment's base offset {segment.base_offset}",
            ) from overflow
        _LOGGER.info("%s: splitting %s: %s", self._topic_partition, segment.path, overflow)
        result = split_overflowed_segment(self._folder, segment)
        self._delete_producer_snapshots(result.deleted_segments)

    def _load_segment_files(self) -> None:
        self._segments.close()
        self._segments.clear()
        for name in self._names():
            if is_index_file(name):
                if not self._files.exists(log_file(self._directory, offset_from_file_name(name))):
                    _LOGGER.warning("%s: removing the index file %s, which has no log file", self._topic_partition, name)
                    self._remove(name)
            elif is_log_file(name):
                self._load_segment(offset_from_file_name(name))

    def _load_segment(self, base_offset: int) -> None:
        time_index_is_new = not self._files.exists(time_index_file(self._directory, base_offset))
        segment = self._folder.open_segment(base_offset)
        problem = segment.sanity_problem(time_index_file_newly_created=time_index_is_new)
        recovered_anyway = not self._had_clean_shutdown and base_offset >= self._recovery_point_checkpoint
        if problem is not None and not recovered_anyway:
            _LOGGER.warning("%s: recovering segment %d and rebuilding its indexes: %s", self._topic_partition, base_offset, problem)
            self._recover_segment(segment)
        elif self._had_clean_shutdown:
            segment.mark_synced()
        self._segments.add(segment)

    def _recover_segment(self, segment: LogSegment, before_cut: Callable[[int], None] | None = None) -> int:
        """Rebuilds the indexes and cuts the segment at its first invalid batch; returns the number
        of bytes cut.

        A segment that spans too many offsets is split, and LogSegmentOffsetOverflowError is raised:
        the segments must be examined again.
        """
        producer_state_manager = ProducerStateManager(
            self._topic_partition,
            self._directory,
            files=self._files,
            clock=self._ports.clock,
            config=self._producer_state_manager.config,
            max_transaction_timeout_ms=self._producer_state_manager.max_transaction_timeout_ms,
        )
        rebuild_producer_state(
            producer_state_manager,
            self._segments,
            log_start_offset=self._log_start_offset_checkpoint,
            last_offset=segment.base_offset,
            now_ms=self._ports.clock.time_ms(),
        )
        try:
            bytes_truncated = segment.recover(producer_state_manager, self._leader_epoch_cache, before_cut)
        except OSError:
            segment.forget_indexes()
            raise
        except LogSegmentOffsetOverflowError as error:
            self._split(segment, error)
            raise
        producer_state_manager.take_snapshot()
        return bytes_truncated

    # recovery

    def _recover_log(self) -> tuple[int, int]:
        """(recovery point, log end offset)."""
        if not self._had_clean_shutdown:
            self._recover_unflushed_segments()
        log_end_offset = self._delete_segments_if_log_start_greater_than_log_end()
        self._check_committed(log_end_offset or 0, self._directory)
        if self._segments.is_empty:
            self._segments.add(self._folder.open_segment(self._log_start_offset_checkpoint))
        if log_end_offset is not None and self._had_clean_shutdown:
            return log_end_offset, log_end_offset
        if log_end_offset is None:
            log_end_offset = self._segments.active_segment.read_next_offset()
        return min(self._recovery_point_checkpoint, log_end_offset), log_end_offset

    def _recover_unflushed_segments(self) -> None:
        unflushed = self._segments.values_between(self._recovery_point_checkpoint, LONG_MAX)
        for index, segment in enumerate(unflushed):
            _LOGGER.info(
                "%s: recovering unflushed segment %d (%d of %d)", self._topic_partition, segment.base_offset, index + 1, len(unflushed)
            )
            before_cut = functools.partial(self._before_cut, segment, unflushed[index + 1 :])
            try:
                bytes_truncated = self._recover_segment(segment, before_cut)
            except InvalidOffsetError as error:
                _LOGGER.warning("%s: emptying segment %d, it is corrupt: %s", self._topic_partition, segment.base_offset, error)
                before_cut(segment.base_offset)
                bytes_truncated = segment.truncate_to(segment.base_offset)
            if bytes_truncated > 0:
                _LOGGER.warning(
                    "%s: segment %d is corrupt, truncated to offset %d",
                    self._topic_partition,
                    segment.base_offset,
                    segment.read_next_offset(),
                )
                return

    def _before_cut(self, segment: LogSegment, later: Sequence[LogSegment], end_offset: int) -> None:
        """Prepares a cut of `segment`, after which the log ends at `end_offset`."""
        self._check_committed(end_offset, segment.path)
        self._discard_durably(later)

    def _check_committed(self, end_offset: int, path: str) -> None:
        """CorruptFileError, before anything is cut, if the cut would lose records that are known to
        be committed.
        """
        if end_offset < self._committed_offset:
            raise CorruptFileError(
                path,
                0,
                f"only the batches up to offset {end_offset} can be read, but the offsets up to {self._committed_offset} were "
                "committed. Nothing was changed. Restore the file from a backup of the directory, or bring its disk back",
            )

    def _discard_durably(self, later: Sequence[LogSegment]) -> None:
        """Removes the segments after the one that is about to be cut, durably and before the cut.
        If a power loss brought them back, the log would have a hole that nobody could detect.
        """
        present = [segment for segment in later if self._segments.get(segment.base_offset) is segment]
        if present:
            self._remove_and_delete_segments(present)
            self._files.fsync_path(self._directory)

    def _delete_segments_if_log_start_greater_than_log_end(self) -> int | None:
        """The log end offset; None if there are no segments, or if all were removed because the log
        ended below its start.
        """
        if self._segments.is_empty:
            return None
        log_end_offset = self._segments.active_segment.read_next_offset()
        if log_end_offset >= self._log_start_offset_checkpoint:
            return log_end_offset
        _LOGGER.warning(
            "%s: removing all segments, the log ends at %d, below its start offset %d",
            self._topic_partition,
            log_end_offset,
            self._log_start_offset_checkpoint,
        )
        self._remove_and_delete_segments(self._segments.values)
        self._leader_epoch_cache.clear_and_flush()
        self._producer_state_manager.truncate_fully_and_start_at(self._log_start_offset_checkpoint)
        return None

    def _open_log_to_be_deleted(self) -> int:
        if self._segments.is_empty:
            self._segments.add(self._folder.open_segment(0))
        return 0

    def _remove_and_delete_segments(self, segments: list[LogSegment]) -> None:
        for segment in segments:
            self._segments.remove(segment.base_offset)
        delete_segments(self._folder, segments)
        self._delete_producer_snapshots(segments)

    def _delete_producer_snapshots(self, segments: list[LogSegment]) -> None:
        delete_producer_snapshots(self._folder, segments, self._producer_state_manager)

    # producer state

    def _load_producer_state(self, log_start_offset: int, log_end_offset: int) -> None:
        assert self._producer_state_manager.is_empty, f"producer state of {self._topic_partition} before it was loaded"
        self._producer_state_manager.remove_stray_snapshots(self._segments.base_offsets)
        rebuild_producer_state(
            self._producer_state_manager,
            self._segments,
            log_start_offset=log_start_offset,
            last_offset=log_end_offset,
            now_ms=self._ports.clock.time_ms(),
            reload_from_clean_shutdown=self._had_clean_shutdown,
        )
