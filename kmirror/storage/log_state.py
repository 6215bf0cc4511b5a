"""What every part of `UnifiedLog` shares: what the log is, its offsets and epochs, and how an I/O error is reported."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from kmirror.common.errors import ApiException, CorruptFileError, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.storage.batch_header import RawHeader
from kmirror.storage.leader_epoch_file_cache import UNDEFINED_EPOCH_OFFSET, LeaderEpochFileCache
from kmirror.storage.local_log import LocalLog
from kmirror.storage.log_batch_lookup import LogBatchLookup
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_file_names import FUTURE_DIR_SUFFIX
from kmirror.storage.log_offset_metadata import (
    EpochAndOffset,
    LogOffsetMetadata,
    LogStartOffsetIncrementReason,
)
from kmirror.storage.log_segment import LogSegment
from kmirror.storage.log_segments import LogSegments
from kmirror.storage.partition_metadata_file import PartitionMetadataFile
from kmirror.storage.producer_state_manager import ProducerStateManager

log = logging.getLogger(__name__)


class LogCut(NamedTuple):
    """A cut that is about to be made. `target_offset`: the log's end behind it; of a full one nothing stays, and the log begins there."""

    target_offset: int
    is_full: bool
    reaches_sealed_segments: bool


TruncationGuard = Callable[[LogCut], AbstractContextManager[None]]


def _no_guard(cut: LogCut) -> AbstractContextManager[None]:
    return nullcontext()


class LogState(LogBatchLookup):
    """Base of `UnifiedLog`: owner of the high watermark, the log start, the last stable offset and the epoch cache."""

    def __init__(
        self,
        local_log: LocalLog,
        *,
        log_start_offset: int,
        leader_epoch_cache: LeaderEpochFileCache,
        producer_state_manager: ProducerStateManager,
        topic_id: Uuid | None = None,
        deferred: bool = False,
    ) -> None:
        """Takes over a loaded log; `UnifiedLog.open` is the usual way. A `deferred` one has nothing but its folder and perhaps its id."""
        self.local_log = local_log
        self.leader_epoch_cache = leader_epoch_cache
        self.producer_state_manager = producer_state_manager
        self.log_start_offset = log_start_offset
        self.topic_id = topic_id
        self._high_watermark = LogOffsetMetadata(log_start_offset)
        self._first_unstable_offset: LogOffsetMetadata | None = None
        self.truncation_guard: TruncationGuard = _no_guard
        """Entered around every cut, whoever asks for it; `LogManager` puts its own here."""
        self._closed = False
        self._is_deferred = deferred
        self._partition_metadata_file = PartitionMetadataFile(local_log.ports.files, local_log.directory)
        self._update_log_start_offset(log_start_offset)
        self._maybe_increment_first_unstable_offset()
        self._initialize_topic_id()

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
        return self.directory.rpartition("/")[2]

    @property
    def topic_partition(self) -> TopicPartition:
        return self.local_log.topic_partition

    @property
    def config(self) -> LogConfig:
        return self.local_log.config

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
    def number_of_segments(self) -> int:
        return self.local_log.segments.number_of_segments

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return self.local_log.segments.size_in_bytes

    @property
    def recovery_point(self) -> int:
        return self.local_log.recovery_point

    @property
    def last_flush_time_ms(self) -> int:
        return self.local_log.last_flush_time_ms

    def update_config(self, config: LogConfig) -> LogConfig:
        """The config from now on; the old one."""
        old, self.local_log.config = self.local_log.config, config
        return old

    # files
    @property
    def is_deferred(self) -> bool:
        """True while the log has no files besides `partition.metadata`: nothing was ever appended."""
        return self._is_deferred

    def _make_files(self) -> None:
        """What an idle log puts off: its leader epochs and the files of its first segment."""
        if self._is_deferred:
            self._is_deferred = False
            self._partition_metadata_file.maybe_flush()
            self.leader_epoch_cache.end_deferral()
            self.active_segment.create_files()

    def note_topic_id(self) -> None:
        """Write the id of an idle log, for a restart; nothing where it is written already. An I/O error takes the dir offline."""
        if self._is_deferred and not self._closed:
            with self._io(f"Error while writing partition metadata of {self.topic_partition}"):
                self._partition_metadata_file.note()

    # topic id
    def _initialize_topic_id(self) -> None:
        if self._is_deferred:
            if self.topic_id is not None:
                self._partition_metadata_file.record(self.topic_id)
            return
        if self._partition_metadata_file.exists():
            file_topic_id = self._partition_metadata_file.read()
            self._check_topic_id(file_topic_id, self.topic_id)
            self.topic_id = file_topic_id
        elif self.topic_id is not None:
            self._record_topic_id(self.topic_id)

    def _take_noted_topic_id(self, noted: Uuid, assigned: Uuid | None) -> None:
        self._check_topic_id(noted, assigned)
        self.topic_id = noted
        self._partition_metadata_file.record_noted(noted)

    def assign_topic_id(self, topic_id: Uuid) -> None:
        """Set the topic id; INCONSISTENT_TOPIC_ID if the log has another one."""
        self._check_topic_id(self.topic_id, topic_id)
        if self.topic_id is None:
            self.topic_id = topic_id
            self._record_topic_id(topic_id)

    def _check_topic_id(self, known: Uuid | None, assigned: Uuid | None) -> None:
        if known is not None and assigned is not None and known != assigned:
            raise ApiException(
                Errors.INCONSISTENT_TOPIC_ID,
                f"Tried to assign topic ID {assigned} to log for topic partition {self.topic_partition},"
                f"but log already contained topic ID {known}",
            )

    def _record_topic_id(self, topic_id: Uuid) -> None:
        self._partition_metadata_file.record(topic_id)
        if self._is_deferred:
            return
        self.local_log.ports.scheduler.schedule_once("flush-metadata-file", self._partition_metadata_file.maybe_flush, 0)

    # offsets
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
        return self._high_watermark.message_offset

    @property
    def high_watermark_metadata(self) -> LogOffsetMetadata:
        """With its position, looked up when that is not known."""
        if self._high_watermark.message_offset_only:
            self._set_high_watermark(self.maybe_convert_to_offset_metadata(self.high_watermark))
        return self._high_watermark

    @property
    def first_unstable_offset(self) -> int | None:
        return None if self._first_unstable_offset is None else self._first_unstable_offset.message_offset

    @property
    def last_stable_offset(self) -> int:
        unstable = self._first_unstable_offset
        high_watermark = self._high_watermark.message_offset
        return high_watermark if unstable is None or unstable.message_offset >= high_watermark else unstable.message_offset

    @property
    def last_stable_offset_metadata(self) -> LogOffsetMetadata:
        unstable = self._first_unstable_offset
        if unstable is None or unstable.message_offset >= self.high_watermark:
            return self.high_watermark_metadata
        if unstable.message_offset_only:
            unstable = self._first_unstable_offset = self.maybe_convert_to_offset_metadata(unstable.message_offset)
        return unstable

    def update_high_watermark(self, high_watermark: int | LogOffsetMetadata) -> int:
        """Clamped to [log start, log end]; the new value."""
        wanted = high_watermark if isinstance(high_watermark, LogOffsetMetadata) else LogOffsetMetadata(high_watermark)
        if wanted.message_offset < self.log_start_offset:
            wanted = LogOffsetMetadata(self.log_start_offset)
        elif wanted.message_offset >= self.log_end_offset:
            wanted = self.log_end_offset_metadata
        self._set_high_watermark(wanted)
        return wanted.message_offset

    def maybe_increment_high_watermark(self, new_high_watermark: LogOffsetMetadata) -> LogOffsetMetadata | None:
        """The old one if it moved (or only its segment changed). For leaders."""
        if new_high_watermark.message_offset > self.log_end_offset:
            raise ValueError(f"High watermark {new_high_watermark} update exceeds current log end offset {self.log_end_offset_metadata}")
        old = self.high_watermark_metadata
        moved = old.message_offset < new_high_watermark.message_offset
        if moved or (old.message_offset == new_high_watermark.message_offset and old.on_older_segment(new_high_watermark)):
            self._set_high_watermark(new_high_watermark)
            return old
        return None

    def maybe_update_high_watermark(self, high_watermark: int) -> int | None:
        """The new one if it changed. For followers."""
        old = self.high_watermark
        new = self.update_high_watermark(high_watermark)
        return None if new == old else new

    def _set_high_watermark(self, metadata: LogOffsetMetadata) -> None:
        assert metadata.message_offset >= 0, ("negative high watermark", metadata, self.topic_partition)
        if metadata.message_offset < self.high_watermark:
            log.warning("%s: non-monotonic update of high watermark from %s to %s", self.name, self._high_watermark, metadata)
        self._high_watermark = metadata
        self.producer_state_manager.on_high_watermark_updated(metadata.message_offset)
        self._maybe_increment_first_unstable_offset()

    def _update_high_watermark_with_log_end_offset(self) -> None:
        if self._high_watermark.message_offset >= self.log_end_offset:
            self._set_high_watermark(self.log_end_offset_metadata)

    def _maybe_increment_first_unstable_offset(self) -> None:
        unstable = self.producer_state_manager.first_unstable_offset
        if unstable is not None and (unstable.message_offset_only or unstable.message_offset < self.log_start_offset):
            unstable = self.maybe_convert_to_offset_metadata(max(unstable.message_offset, self.log_start_offset))
        self._first_unstable_offset = unstable

    def maybe_convert_to_offset_metadata(self, offset: int) -> LogOffsetMetadata:
        """With segment and position, or the bare offset where the log does not hold it."""
        try:
            return self.local_log.convert_to_offset_metadata(offset)
        except ApiException as error:
            if error.error is not Errors.OFFSET_OUT_OF_RANGE:
                raise
            return LogOffsetMetadata(offset)
        except (OSError, CorruptFileError) as error:
            raise self._disk_error(f"Error while looking up offset {offset} of {self.topic_partition}", error) from error

    def maybe_increment_log_start_offset(self, new_log_start_offset: int, reason: LogStartOffsetIncrementReason) -> bool:
        """Move the log start up; OFFSET_OUT_OF_RANGE above the high watermark. True if it moved.

        Checkpointed later by the log manager; segments below it go with the next retention run.
        """
        with self._io(f"Exception while increasing log start offset for {self.topic_partition} to {new_log_start_offset}"):
            if new_log_start_offset > self.high_watermark:
                raise ApiException(
                    Errors.OFFSET_OUT_OF_RANGE,
                    f"Cannot increment the log start offset to {new_log_start_offset} of partition {self.topic_partition} "
                    f"since it is larger than the high watermark {self.high_watermark}",
                )
            if new_log_start_offset <= self.log_start_offset:
                return False
            self._update_log_start_offset(new_log_start_offset)
            log.info("%s: incremented log start offset to %d due to %s", self.name, new_log_start_offset, reason.value)
            self.leader_epoch_cache.truncate_from_start_async_flush(new_log_start_offset)
            self.producer_state_manager.on_log_start_offset_incremented(new_log_start_offset)
            self._maybe_increment_first_unstable_offset()
            return True

    def _update_log_start_offset(self, offset: int) -> None:
        self.log_start_offset = offset
        if self.high_watermark < offset:
            self.update_high_watermark(offset)
        if self.local_log.recovery_point < offset:
            self.local_log.update_recovery_point(offset)

    # epochs
    @property
    def latest_epoch(self) -> int | None:
        """Of the epoch cache: it may have begun without a batch (`latest_batch_epoch` has one)."""
        return self.leader_epoch_cache.latest_epoch

    def maybe_assign_epoch_start_offset(self, leader_epoch: int, start_offset: int) -> None:
        """Note that a leader epoch begins; written and synced before this returns if it is news."""
        with self._io(f"Error while writing the leader epochs of {self.topic_partition}"):
            self.leader_epoch_cache.assign(leader_epoch, start_offset)

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochAndOffset | None:
        """(largest epoch <= the one asked for, its end); None if it is above all that are known."""
        found = self.leader_epoch_cache.end_offset_for(leader_epoch, self.log_end_offset)
        return None if found.offset == UNDEFINED_EPOCH_OFFSET else found

    def _assign_epochs(self, headers: Iterable[RawHeader]) -> None:
        latest = self.leader_epoch_cache.latest_epoch
        for header in headers:
            if header[2] != latest and header[2] >= 0:
                self.leader_epoch_cache.assign(header[2], header[0])
                latest = self.leader_epoch_cache.latest_epoch
