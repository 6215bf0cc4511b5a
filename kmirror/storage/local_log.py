"""The segments of one log as an append-only file with a start and an end (Kafka's `LocalLog`).

It knows nothing of epochs, producers or the high watermark; `UnifiedLog` adds these. It does not
handle I/O errors either: an OSError passes through, and `UnifiedLog` takes the log directory
offline.
"""

from __future__ import annotations

from collections.abc import Sequence

from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.ports import Buffer
from kmirror.common.topic_partition import TopicPartition
from kmirror.storage.batch_header import RawHeader
from kmirror.storage.fetch_data_info import AbortedTxn, FetchDataInfo
from kmirror.storage.file_records import FileRecords
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_file_names import DELETED_FILE_SUFFIX
from kmirror.storage.log_offset_metadata import LogOffsetMetadata
from kmirror.storage.log_segment import LogSegment
from kmirror.storage.log_segments import LogSegments
from kmirror.storage.ports import LogPorts
from kmirror.storage.segment_files import LogFolder, delete_segment_files, delete_segments


class LocalLog:
    """Owner of the segments, the log end offset and the recovery point."""

    def __init__(
        self,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        ports: LogPorts,
        *,
        segments: LogSegments,
        recovery_point: int,
        next_offset_metadata: LogOffsetMetadata,
    ) -> None:
        self.directory = directory
        self.parent_dir = directory.rpartition("/")[0]
        self.topic_partition = topic_partition
        self.config = config
        self.ports = ports
        self.segments = segments
        self.recovery_point = recovery_point
        self.next_offset_metadata = next_offset_metadata
        self.last_flush_time_ms = ports.clock.time_ms()

    @property
    def name(self) -> str:
        return self.directory.rpartition("/")[2]

    @property
    def folder(self) -> LogFolder:
        return LogFolder(self.directory, self.topic_partition, self.config, self.ports, self.segments)

    @property
    def log_end_offset(self) -> int:
        return self.next_offset_metadata.message_offset

    @property
    def unflushed_messages(self) -> int:
        return self.log_end_offset - self.recovery_point

    def update_recovery_point(self, offset: int) -> None:
        self.recovery_point = offset

    def update_log_end_offset(self, offset: int) -> None:
        active = self.segments.active_segment
        self.next_offset_metadata = LogOffsetMetadata(offset, active.base_offset, active.size)
        self.recovery_point = min(self.recovery_point, offset)

    # append and read
    def append(self, last_offset: int, headers: Sequence[RawHeader], records: Buffer) -> None:
        active = self.segments.active_segment
        active.append(last_offset, headers, records)
        self.next_offset_metadata = LogOffsetMetadata(last_offset + 1, active.base_offset, active.size)

    def read(
        self,
        start_offset: int,
        max_length: int,
        max_offset_metadata: LogOffsetMetadata,
        *,
        min_one_message: bool,
        include_aborted_transactions: bool,
    ) -> FetchDataInfo:
        """Reads up to `max_length` bytes below `max_offset_metadata`; nothing at or above it.

        OFFSET_OUT_OF_RANGE outside the segments.
        """
        segment = self.segments.floor_segment(start_offset)
        if start_offset > self.log_end_offset or segment is None:
            raise ApiException(
                Errors.OFFSET_OUT_OF_RANGE,
                f"Received request for offset {start_offset} for partition {self.topic_partition}, "
                f"but we only have log segments upto {self.log_end_offset}.",
            )
        if start_offset == max_offset_metadata.message_offset:
            return self._empty(max_offset_metadata, segment, include_aborted_transactions)
        if start_offset > max_offset_metadata.message_offset:
            return self._empty(self.convert_to_offset_metadata(start_offset), segment, include_aborted_transactions)
        while segment is not None:
            max_position = _max_position(segment, max_offset_metadata)
            info = segment.read(start_offset, max_length, max_position, min_one_message=min_one_message, bounded=True)
            if info is not None:
                if include_aborted_transactions:
                    info.aborted_transactions = self._aborted_transactions(start_offset, segment, info)
                return info
            segment = self.segments.higher_segment(segment.base_offset)
        return self._empty(self.next_offset_metadata, self.segments.active_segment, include_aborted_transactions)

    def convert_to_offset_metadata(self, offset: int) -> LogOffsetMetadata:
        """Segment and position of `offset`; OFFSET_OUT_OF_RANGE outside the log."""
        end = self.next_offset_metadata
        return self.read(offset, 1, end, min_one_message=False, include_aborted_transactions=False).fetch_offset_metadata

    def _empty(self, metadata: LogOffsetMetadata, segment: LogSegment, include_aborted_transactions: bool) -> FetchDataInfo:
        return FetchDataInfo(metadata, FileRecords(segment.file, 0, 0), False, [] if include_aborted_transactions else None)

    def _aborted_transactions(self, start_offset: int, segment: LogSegment, info: FetchDataInfo) -> list[AbortedTxn]:
        position = info.fetch_offset_metadata.relative_position_in_segment
        upper_bound = segment.fetch_upper_bound_offset(position, info.records.size)
        if upper_bound is None:
            higher = self.segments.higher_segment(segment.base_offset)
            upper_bound = self.log_end_offset if higher is None else higher.base_offset
        return self.collect_aborted_transactions(start_offset, upper_bound)

    def collect_aborted_transactions(self, start_offset: int, upper_bound_offset: int) -> list[AbortedTxn]:
        """The aborted transactions that overlap [start, upper bound), from the indexes of the
        segments from that of `start` on.
        """
        found: list[AbortedTxn] = []
        segment = self.segments.floor_segment(start_offset)
        while segment is not None:
            result = segment.collect_aborted_txns(start_offset, upper_bound_offset)
            found += result.aborted_transactions
            if result.is_complete:
                break
            segment = self.segments.higher_segment(segment.base_offset)
        return found

    # roll
    def roll(self, expected_next_offset: int | None = None) -> LogSegment:
        """Begins a new active segment at max(expected, log end offset)."""
        new_offset = max(expected_next_offset or 0, self.log_end_offset)
        active = self.segments.active_segment
        if self.segments.contains(new_offset):
            if active.base_offset != new_offset or active.size:
                raise KmirrorError(
                    f"Trying to roll a new log segment for topic partition {self.topic_partition} with start offset {new_offset} "
                    f"=max(provided offset = {expected_next_offset}, LEO = {self.log_end_offset}) while it already exists. "
                    f"Existing segment is {self.segments.get(new_offset)}."
                )
            new_segment = self._create_and_delete_segment(new_offset, active)
        else:
            assert new_offset > active.base_offset, ("a new segment lies behind the active one", new_offset, active, self.topic_partition)
            delete_segment_files(self.ports.files, self.directory, new_offset)
            active.on_become_inactive_segment()
            new_segment = self.folder.open_segment(new_offset)
            self.segments.add(new_segment)
        self.update_log_end_offset(self.log_end_offset)
        return new_segment

    def _create_and_delete_segment(self, new_offset: int, old: LogSegment) -> LogSegment:
        """Adds an empty segment at `new_offset` and then deletes `old`, so that there always is an
        active one.
        """
        if new_offset == old.base_offset:
            old.change_file_suffixes("", DELETED_FILE_SUFFIX)
        new_segment = self.folder.open_segment(new_offset)
        self.segments.add(new_segment)
        if new_offset != old.base_offset:
            self.segments.remove(old.base_offset)
        delete_segments(self.folder, [old])
        return new_segment

    # flush
    def flush(self, offset: int) -> None:
        """Syncs the segments that hold [recovery point, offset), and the folder if one of them is
        new.
        """
        recovery_point = self.recovery_point
        if recovery_point > offset:
            return
        segments = self.segments.values_between(recovery_point, offset)
        for segment in segments:
            segment.flush()
        if any(segment.base_offset >= recovery_point and not segment.is_deferred for segment in segments) and self.ports.files.is_dir(
            self.directory
        ):
            self.ports.files.fsync_path(self.directory)

    def mark_flushed(self, offset: int) -> None:
        if offset > self.recovery_point:
            self.recovery_point = offset
            self.last_flush_time_ms = self.ports.clock.time_ms()

    # removal
    def remove_and_delete_segments(self, segments: Sequence[LogSegment], *, later: bool = True) -> None:
        for segment in segments:
            self.segments.remove(segment.base_offset)
        if segments:
            delete_segments(self.folder, segments, later=later)

    def truncate_to(self, target_offset: int) -> list[LogSegment]:
        """Cuts the log so that it ends at `target_offset`; returns the segments that were
        removed.
        """
        deletable = self.segments.filter(lambda segment: segment.base_offset > target_offset)
        self.remove_and_delete_segments(deletable)
        self.segments.active_segment.truncate_to(target_offset)
        self.update_log_end_offset(target_offset)
        return deletable

    def truncate_fully_and_start_at(self, new_offset: int) -> list[LogSegment]:
        """Replaces all segments by an empty one at `new_offset`; returns the old ones."""
        old = self.segments.values
        self.remove_and_delete_segments(old[:-1])
        self._create_and_delete_segment(new_offset, old[-1])
        self.update_log_end_offset(new_offset)
        return old

    def make_cut_durable(self, *, files_went: bool) -> None:
        """Syncs a cut by `truncate_to` or `truncate_fully_and_start_at`, so that a power loss
        brings back neither the bytes that were cut nor the files that were removed.
        """
        segment = self.segments.active_segment
        if not segment.is_deferred:
            segment.file.fsync()
        if files_went and self.ports.files.is_dir(self.directory):
            self.ports.files.fsync_path(self.directory)

    def rename_dir(self, name: str, *, synced: bool = True) -> bool:
        """Renames the folder inside its log dir; False if it already has that name.

        With `synced=False` the caller renames many folders and syncs their log dir afterwards.
        """
        directory = f"{self.parent_dir}/{name}"
        if directory == self.directory:
            return False
        self.segments.close_index_handlers()
        self.ports.files.rename(self.directory, directory)
        self.directory = directory
        self.segments.update_parent_dir(directory)  # before the fsync: a flush on a worker opens the indexes by their names
        if synced:
            self.ports.files.fsync_path(self.parent_dir)
        return True

    def delete_all_segments(self) -> list[LogSegment]:
        deletable = self.segments.values
        self.remove_and_delete_segments(deletable, later=False)
        return deletable

    def delete_dir(self) -> None:
        assert self.segments.is_empty, ("the folder of a log with segments is not removed", self.directory, self.segments.base_offsets)
        if self.ports.files.is_dir(self.directory):
            self.ports.files.remove_tree(self.directory)


def _max_position(segment: LogSegment, max_offset: LogOffsetMetadata) -> int | None:
    """The position at which a read of `segment` must end; None if the whole segment lies beyond
    `max_offset`, or if that has no position.
    """
    if max_offset.segment_base_offset == segment.base_offset:
        return max_offset.relative_position_in_segment
    if not max_offset.message_offset_only and max_offset.segment_base_offset > segment.base_offset:
        return segment.size
    return None
