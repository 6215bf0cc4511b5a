"""One partition's log: segments, leader epochs, producers, high watermark (Kafka's `UnifiedLog`,
without tiers).

The offsets, in order: log start <= last stable offset <= high watermark <= log end. Retention and
DeleteRecords move the log start, appends and truncation the log end. The high watermark moves by
replication: the owner sets it. The last stable offset is the first offset of the oldest transaction
that is open, or completed by a marker that the high watermark has not passed. Without one it is the
high watermark. Everything below it is decided.

Its parts, each with one task; each takes the others that it needs:

    LocalLog        segments, log end, recovery point          LogOffsets      log start, high watermark, last stable offset
    LogAppends      appending as leader and as follower        LogRoll         a new active segment; flushing
    LogTruncation   cuts, and the guard around them            LogRetention    deleting old segments
    LogTopicId      topic id, what an idle log puts off        LogBatchLookup  finding batches by offset
    LogIo           what an error of the disk becomes          VerificationGuards, LeaderEpochFileCache, ProducerStateManager

This class puts them together for the other rooms. Reading, renaming, deleting and closing are its
own work. Everything below the folder belongs to one `UnifiedLog` and is changed only by its
synchronous methods, on one loop.

Not here: the read-only flag and the mirror leader epoch (Partition), checkpoints of several logs
(LogManager), compaction (LogCleaner), message formats v0 and v1.
"""

from __future__ import annotations

from collections.abc import Iterator

from kmirror.common.errors import CorruptFileError
from kmirror.common.ports import FileSlice
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.storage.batch_header import BatchHeader
from kmirror.storage.fetch_data_info import AbortedTxn, FetchDataInfo, FetchIsolation
from kmirror.storage.leader_epoch_checkpoint_file import LeaderEpochCheckpointFile
from kmirror.storage.leader_epoch_file_cache import UNDEFINED_EPOCH_OFFSET
from kmirror.storage.log_appends import LogAppends
from kmirror.storage.log_batch_lookup import LogBatchLookup
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_file_names import FUTURE_DIR_SUFFIX
from kmirror.storage.log_io import LogIo
from kmirror.storage.log_offset_lookup import offset_for_timestamp
from kmirror.storage.log_offset_metadata import EpochAndOffset, LogOffsetMetadata, LogStartOffsetIncrementReason, TimestampAndOffset
from kmirror.storage.log_offsets import LogOffsets
from kmirror.storage.log_open_options import NEW_LOG, LogOpenOptions
from kmirror.storage.log_opening import OpenedLog, open_log_folder
from kmirror.storage.log_retention import LogRetention
from kmirror.storage.log_roll import LogRoll
from kmirror.storage.log_segment import LogSegment
from kmirror.storage.log_segments import LogSegments
from kmirror.storage.log_topic_id import LogTopicId
from kmirror.storage.log_truncation import LogTruncation
from kmirror.storage.ports import LogPorts
from kmirror.storage.segment_files import delete_producer_snapshots, replace_segments
from kmirror.storage.verification_guards import VerificationGuards


class UnifiedLog:
    """One partition's log; owns the parts above. Errors are ApiException with Kafka's code
    (OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE ...).
    """

    def __init__(self, opened: OpenedLog) -> None:
        """Use `UnifiedLog.open` to make one."""
        self.local_log = local_log = opened.local_log
        self.leader_epoch_cache = epochs = opened.leader_epoch_cache
        self.producer_state_manager = producers = opened.producer_state_manager
        self._io = io = LogIo(local_log)
        self._offsets = offsets = LogOffsets(local_log, epochs, producers, io, log_start_offset=opened.log_start_offset)
        self._topic_id = topic_id = LogTopicId(
            local_log, epochs, opened.topic_id, noted_topic_id=opened.noted_topic_id, is_deferred=opened.is_deferred
        )
        self._batches = LogBatchLookup(local_log, io)
        self._roll = LogRoll(local_log, offsets, producers, topic_id, io)
        self._retention = LogRetention(local_log, offsets, producers, self._roll, io)
        self.truncation = LogTruncation(local_log, offsets, epochs, producers, topic_id, self._batches, io)
        self.verification_guards = VerificationGuards(producers)
        appends = LogAppends(local_log, offsets, epochs, producers, topic_id, self._roll, self.verification_guards, io)
        # Bound, not forwarded, to save a call in each append.
        self.append_as_leader = appends.append_as_leader
        self.append_as_follower = appends.append_as_follower

    @classmethod
    def open(
        cls,
        directory: str,
        config: LogConfig,
        ports: LogPorts,
        options: LogOpenOptions = NEW_LOG,
    ) -> UnifiedLog:
        """Creates the folder or loads its log (recovering it after an unclean stop), through
        `LogLoader`. CorruptFileError where Kafka refuses to start, or if the log cannot be read up
        to the options' `committed_offset`.
        """
        return cls(open_log_folder(directory, config, ports, options))

    # what it is
    @property
    def directory(self) -> str:
        """The partition's folder."""
        return self.local_log.directory

    @property
    def parent_dir(self) -> str:
        """The log dir that the folder lies in."""
        return self.local_log.parent_dir

    @property
    def name(self) -> str:
        return self.local_log.name

    @property
    def topic_partition(self) -> TopicPartition:
        return self.local_log.topic_partition

    @property
    def config(self) -> LogConfig:
        return self.local_log.config

    @property
    def cleaning_config(self) -> LogConfig:
        """What the cleaner goes by: a copy of another cluster's log is cleaned no more than that
        one is, unless this broker leads it and clients may write to it.
        """
        config = self.local_log.config
        return config if config.while_mirrored is None or self._retention.is_writable_here else config.while_mirrored

    @property
    def is_future(self) -> bool:
        return self.name.endswith(FUTURE_DIR_SUFFIX)

    @property
    def segments(self) -> LogSegments:
        return self.local_log.segments

    @property
    def log_segments(self) -> list[LogSegment]:
        return self.local_log.segments.values

    @property
    def active_segment(self) -> LogSegment:
        return self.local_log.segments.active_segment

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return self.local_log.segments.size_in_bytes

    @property
    def recovery_point(self) -> int:
        return self.local_log.recovery_point

    def update_config(self, config: LogConfig) -> LogConfig:
        """Sets the config; returns the old one."""
        old, self.local_log.config = self.local_log.config, config
        return old

    # topic id
    @property
    def topic_id(self) -> Uuid | None:
        return self._topic_id.value

    @property
    def is_deferred(self) -> bool:
        """True while the log has no files besides `partition.metadata`: nothing was ever
        appended.
        """
        return self._topic_id.is_deferred

    def assign_topic_id(self, topic_id: Uuid) -> None:
        """Set the topic id; INCONSISTENT_TOPIC_ID if the log has another one."""
        self._topic_id.assign(topic_id)

    def note_topic_id(self) -> None:
        """Writes the id of an idle log, for a restart; does nothing if it is written already.

        An I/O error takes the dir offline.
        """
        if self._topic_id.is_deferred and not self._io.is_closed:
            with self._io.guarded(f"Error while writing partition metadata of {self.topic_partition}"):
                self._topic_id.write()

    # offsets
    @property
    def log_start_offset(self) -> int:
        return self._offsets.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.local_log.next_offset_metadata.message_offset

    @property
    def log_end_offset_metadata(self) -> LogOffsetMetadata:
        return self.local_log.next_offset_metadata

    @property
    def is_empty(self) -> bool:
        return self.log_start_offset == self.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self._offsets.high_watermark_metadata.message_offset

    @property
    def high_watermark_metadata(self) -> LogOffsetMetadata:
        """With its position, looked up when that is not known."""
        return self._offsets.fetch_high_watermark_metadata()

    @property
    def first_unstable_offset(self) -> int | None:
        unstable = self._offsets.first_unstable_offset_metadata
        return None if unstable is None else unstable.message_offset

    @property
    def last_stable_offset(self) -> int:
        return self._offsets.last_stable_offset

    @property
    def last_stable_offset_metadata(self) -> LogOffsetMetadata:
        """With its position, looked up when that is not known."""
        return self._offsets.fetch_last_stable_offset_metadata()

    def update_high_watermark(self, high_watermark: int | LogOffsetMetadata) -> int:
        """Sets the high watermark, clamped to [log start, log end]; returns the new value."""
        return self._offsets.update_high_watermark(high_watermark)

    def maybe_increment_high_watermark(self, new_high_watermark: LogOffsetMetadata) -> LogOffsetMetadata | None:
        """For leaders: raises the high watermark. Returns the old one if it moved (or only its
        segment changed).
        """
        return self._offsets.maybe_increment_high_watermark(new_high_watermark)

    def maybe_update_high_watermark(self, high_watermark: int) -> int | None:
        """For followers: sets the high watermark. Returns the new one if it changed."""
        return self._offsets.maybe_update_high_watermark(high_watermark)

    def maybe_convert_to_offset_metadata(self, offset: int) -> LogOffsetMetadata:
        """`offset` with its segment and position, or the bare offset if the log does not hold
        it.
        """
        return self._offsets.maybe_convert_to_offset_metadata(offset)

    def maybe_increment_log_start_offset(self, new_log_start_offset: int, reason: LogStartOffsetIncrementReason) -> bool:
        """Raises the log start; OFFSET_OUT_OF_RANGE above the high watermark. True if it moved."""
        return self._offsets.maybe_increment_log_start_offset(new_log_start_offset, reason)

    # epochs
    @property
    def latest_epoch(self) -> int | None:
        """The latest epoch in the epoch cache. It may have begun without a batch;
        `latest_batch_epoch` never does.
        """
        return self.leader_epoch_cache.latest_epoch

    def maybe_assign_epoch_start_offset(self, leader_epoch: int, start_offset: int) -> None:
        """Notes that a leader epoch begins; if that is new, it is written and synced before this
        returns.
        """
        with self._io.guarded(f"Error while writing the leader epochs of {self.topic_partition}"):
            self.leader_epoch_cache.assign(leader_epoch, start_offset)

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochAndOffset | None:
        """(largest epoch <= the requested one, its end offset); None if the requested one is above
        all known epochs.
        """
        found = self.leader_epoch_cache.end_offset_for(leader_epoch, self.log_end_offset)
        return None if found.offset == UNDEFINED_EPOCH_OFFSET else found

    # read
    def read(self, start_offset: int, max_length: int, isolation: FetchIsolation, *, min_one_message: bool) -> FetchDataInfo:
        """Reads a slice of whole batches (the last may be cut) from the one that contains
        `start_offset`, below the isolation's limit.

        With `min_one_message` the first batch is returned whole, whatever its size.
        OFFSET_OUT_OF_RANGE outside the log.
        """
        offsets = self._offsets
        if start_offset < offsets.log_start_offset:
            raise offsets.below_log_start(start_offset)
        if isolation is FetchIsolation.LOG_END:
            limit = self.local_log.next_offset_metadata
        elif isolation is FetchIsolation.HIGH_WATERMARK:
            limit = offsets.fetch_high_watermark_metadata()
        else:
            limit = offsets.fetch_last_stable_offset_metadata()
        try:
            return self.local_log.read(
                start_offset,
                max_length,
                limit,
                min_one_message=min_one_message,
                include_aborted_transactions=isolation is FetchIsolation.TXN_COMMITTED,
            )
        except (OSError, CorruptFileError) as error:
            raise self._io.error_of(f"Exception while reading from {self.topic_partition}", error, leaves_log_alone=True) from error

    def read_bytes(self, records: FileSlice) -> bytes:
        """The bytes of a slice from `read`, for a caller that cannot send it as a file."""
        with self._io.guarded(f"Exception while reading from {self.topic_partition}", leaves_log_alone=True):
            return records.to_bytes()

    def collect_aborted_transactions(self, start_offset: int, upper_bound_offset: int) -> list[AbortedTxn]:
        return self.local_log.collect_aborted_transactions(start_offset, upper_bound_offset)

    def offset_for_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        """The offset for a timestamp: -2 earliest, -1 latest (log end; the caller knows the
        isolation level), -3 max timestamp, -4 earliest local, -5 latest tiered; else of the first
        record at least as new.
        """
        with self._io.guarded(f"Error while fetching offset by timestamp for {self.topic_partition}", leaves_log_alone=True):
            return offset_for_timestamp(
                timestamp,
                segments=self.segments,
                leader_epoch_cache=self.leader_epoch_cache,
                log_start_offset=self.log_start_offset,
                log_end_offset=self.log_end_offset,
            )

    # batches by offset
    def last_batch(self) -> BatchHeader | None:
        """Header of the last batch in the log; None if there is none (the log end may lie beyond
        it).
        """
        return self._batches.last_batch()

    def batch_containing(self, offset: int) -> BatchHeader | None:
        """Header of the first batch whose last offset is >= `offset`: the one that contains it or,
        after a gap, the next one.
        """
        return self._batches.batch_containing(offset)

    def batch_before(self, offset: int) -> BatchHeader | None:
        """Header of the last batch whose base offset is < `offset`; None if there is none."""
        return self._batches.batch_before(offset)

    def batch_headers(self, start_offset: int = 0) -> Iterator[BatchHeader]:
        """Yields the headers of all batches from the one that contains `start_offset` to the log
        end.
        """
        return self._batches.batch_headers(start_offset)

    def latest_batch_epoch(self) -> int | None:
        """Leader epoch of the last batch, not the epoch cache's; None without batches (C5)."""
        return self._batches.latest_batch_epoch()

    # segments
    def roll(self, expected_next_offset: int | None = None) -> LogSegment:
        """Begins a new active segment at max(expected, log end)."""
        return self._roll.roll(expected_next_offset)

    def flush(self, *, force_flush_active_segment: bool = False) -> None:
        """Syncs the log up to its end; with `force_flush_active_segment` also an active segment
        without data (at shutdown).
        """
        self._roll.flush(force_flush_active_segment=force_flush_active_segment)

    def note_writable(self, *, is_writable: bool) -> None:
        """Notes whether this broker leads the partition, and clients may write to it: only then do
        time and size delete from the log of a mirrored topic.
        """
        self._retention.is_writable_here = is_writable

    def delete_old_segments(self) -> int:
        """Deletes the segments that retention allows to delete; returns their number."""
        return self._retention.delete_old_segments()

    def truncate_to(self, target_offset: int, *, at_batch_boundary: bool = False) -> bool:
        """Cuts the log so that it ends at `target_offset`, durably if consumers could read beyond
        it; True if anything was cut.
        """
        return self.truncation.truncate_to(target_offset, at_batch_boundary=at_batch_boundary)

    def truncate_fully_and_start_at(self, new_offset: int, *, log_start_offset: int | None = None) -> None:
        """Empties the log so that it begins (and ends) at `new_offset`; durable on return as in
        `truncate_to`.
        """
        self.truncation.truncate_fully_and_start_at(new_offset, log_start_offset=log_start_offset)

    def replace_segments(self, new_segments: list[LogSegment], old_segments: list[LogSegment]) -> None:
        """Replaces the old segments by the cleaner's `.cleaned` ones."""
        with self._io.guarded(f"Error while replacing segments of {self.topic_partition}"):
            deleted = replace_segments(self.local_log.folder, new_segments, old_segments)
            delete_producer_snapshots(self.local_log.folder, deleted, self.producer_state_manager)

    # life
    def rename_dir(self, name: str, *, synced: bool = True) -> None:
        """Renames the folder.

        Scheduled work (an epoch flush) then goes to the renamed folder, never to a new one with the
        old name.
        """
        with self._io.guarded(f"Error while renaming dir for {self.topic_partition}"):
            self._topic_id.write()
            if not self.local_log.rename_dir(name, synced=synced):
                return
            files = self.local_log.ports.files
            self.producer_state_manager.update_parent_dir(self.directory)
            self._topic_id.follow_renamed_folder()
            self.leader_epoch_cache.with_checkpoint(LeaderEpochCheckpointFile(files, self.directory, deferred=self._topic_id.is_deferred))

    def delete(self) -> None:
        """Removes the folder and everything in it, now."""
        with self._io.guarded(f"Error while deleting log for {self.topic_partition}"):
            self._io.is_closed = True
            self.leader_epoch_cache.clear()
            deleted = self.local_log.delete_all_segments()
            delete_producer_snapshots(self.local_log.folder, deleted, self.producer_state_manager, later=False)
            self.local_log.delete_dir()

    def close(self) -> None:
        """Closes the log: a producer snapshot at the log end, final index entries, trimmed files.

        For a clean shutdown, flush first.
        """
        with self._io.guarded(f"Error while closing log for {self.topic_partition}"):
            self._io.is_closed = True
            self._topic_id.write()
            self.producer_state_manager.take_snapshot()
            self.producer_state_manager.sync_snapshots()
            self.segments.close()

    def close_handlers(self) -> None:
        """Closes the files as they are (the log directory is offline)."""
        self._io.is_closed = True
        self.segments.close_handlers()

    def __repr__(self) -> str:
        return (
            f"UnifiedLog(directory={self.directory}, topic_id={self.topic_id}, log_start_offset={self.log_start_offset}, "
            f"last_stable_offset={self.last_stable_offset}, high_watermark={self.high_watermark}, log_end_offset={self.log_end_offset})"
        )
