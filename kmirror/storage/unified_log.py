"""One partition's log: segments, leader epochs, producers, high watermark (Kafka's `UnifiedLog`, without tiers).

The offsets, in order: log start <= last stable offset <= high watermark <= log end. The log start moves by retention and
DeleteRecords, the log end by appends and truncation, the high watermark by replication (the owner says so). The last
stable offset is the first offset of the oldest transaction that is open, or completed by a marker that the high
watermark has not passed, else the high watermark: everything below it is decided.

An append is validated against a copy of the producer state, then written, then applied; the state never runs ahead of
the bytes. Order inside an append: epoch cache, roll, producers, `.log` and indexes, producer state, transaction index.

Who owns what: this class owns everything below the folder and is changed only by its synchronous methods, on one loop.
An OSError takes the log directory offline (`LogDirFailureChannel`) and becomes KAFKA_STORAGE_ERROR.

What is not here: the read-only flag and the mirror epoch (Partition), checkpoints of several logs (LogManager),
compaction (LogCleaner), message formats v0 and v1.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from kmirror.common.errors import ApiException, Errors
from kmirror.common.ports import Buffer
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.record.append_origin import AppendOrigin
from kmirror.record.compression import CompressionType
from kmirror.record.record_batch import TimestampType
from kmirror.record.validation import validate_and_assign_offsets
from kmirror.storage.batch_header import BatchHeader, RawHeader
from kmirror.storage.fetch_data_info import AbortedTxn, FetchDataInfo, FetchIsolation
from kmirror.storage.leader_epoch_checkpoint_file import LeaderEpochCheckpointFile
from kmirror.storage.leader_epoch_file_cache import UNDEFINED_EPOCH_OFFSET, LeaderEpochFileCache
from kmirror.storage.local_log import LocalLog
from kmirror.storage.log_append import (
    AnalyzedAppend,
    UnexpectedAppendOffsetError,
    analyze_and_validate_records,
    headers_after_validation,
)
from kmirror.storage.log_append_info import LogAppendInfo
from kmirror.storage.log_batch_lookup import LogBatchLookup
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_file_names import FUTURE_DIR_SUFFIX, parse_topic_partition_name
from kmirror.storage.log_loader import LogLoader
from kmirror.storage.log_offset_lookup import offset_for_timestamp
from kmirror.storage.log_offset_metadata import (
    EpochAndOffset,
    LogOffsetMetadata,
    LogOffsetSnapshot,
    LogStartOffsetIncrementReason,
    TimestampAndOffset,
)
from kmirror.storage.log_retention import (
    Predicate,
    deletable_segments,
    retention_ms_breached,
    retention_size_breached,
    start_offset_breached,
)
from kmirror.storage.log_segment import LogSegment
from kmirror.storage.log_segments import LogSegments
from kmirror.storage.partition_metadata_file import PartitionMetadataFile
from kmirror.storage.ports import LogPorts
from kmirror.storage.producer_state_entry import BatchMetadata, CompletedTxn, VerificationGuard
from kmirror.storage.producer_state_manager import ProducerStateManager, ProducerStateManagerConfig
from kmirror.storage.producer_state_rebuild import rebuild_producer_state
from kmirror.storage.producer_state_update import ProducerStateUpdate
from kmirror.storage.segment_files import delete_producer_snapshots, replace_segments, storage_error

log = logging.getLogger(__name__)


class UnifiedLog(LogBatchLookup):
    """Errors: ApiException with Kafka's code (OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE ...)."""

    def __init__(
        self,
        local_log: LocalLog,
        *,
        log_start_offset: int,
        leader_epoch_cache: LeaderEpochFileCache,
        producer_state_manager: ProducerStateManager,
        topic_id: Uuid | None = None,
    ) -> None:
        """Takes over a loaded log; `UnifiedLog.open` is the usual way."""
        self.local_log = local_log
        self.leader_epoch_cache = leader_epoch_cache
        self.producer_state_manager = producer_state_manager
        self.log_start_offset = log_start_offset
        self.topic_id = topic_id
        self._high_watermark = LogOffsetMetadata(log_start_offset)
        self._first_unstable_offset: LogOffsetMetadata | None = None
        self._on_high_watermark_updated: Callable[[int], None] | None = None
        self._closed = False
        self._partition_metadata_file = PartitionMetadataFile(local_log.ports.files, local_log.directory)
        self._update_log_start_offset(log_start_offset)
        self._maybe_increment_first_unstable_offset()
        self._initialize_topic_id()

    @classmethod
    def open(
        cls,
        directory: str,
        config: LogConfig,
        ports: LogPorts,
        *,
        log_start_offset: int = 0,
        recovery_point: int = 0,
        last_shutdown_clean: bool = True,
        topic_id: Uuid | None = None,
        producer_state_config: ProducerStateManagerConfig | None = None,
        max_transaction_timeout_ms: int = 900_000,
    ) -> UnifiedLog:
        """Create the folder or load what is in it (recovering it after an unclean stop), through `LogLoader`.

        `log_start_offset` and `recovery_point` are the checkpointed ones. CorruptFileError where Kafka refuses to start.
        """
        ports.files.make_dirs(directory)
        topic_partition = parse_topic_partition_name(directory)
        segments = LogSegments(topic_partition)
        cache = LeaderEpochFileCache(topic_partition, LeaderEpochCheckpointFile(ports.files, directory), ports.scheduler)
        manager = ProducerStateManager(
            topic_partition,
            directory,
            files=ports.files,
            clock=ports.clock,
            config=producer_state_config,
            max_transaction_timeout_ms=max_transaction_timeout_ms,
        )
        offsets = LogLoader(
            directory,
            topic_partition,
            config,
            ports,
            segments=segments,
            leader_epoch_cache=cache,
            producer_state_manager=manager,
            had_clean_shutdown=last_shutdown_clean,
            log_start_offset_checkpoint=log_start_offset,
            recovery_point_checkpoint=recovery_point,
        ).load()
        local_log = LocalLog(
            directory,
            topic_partition,
            config,
            ports,
            segments=segments,
            recovery_point=offsets.recovery_point,
            next_offset_metadata=offsets.next_offset_metadata,
        )
        return cls(
            local_log,
            log_start_offset=offsets.log_start_offset,
            leader_epoch_cache=cache,
            producer_state_manager=manager,
            topic_id=topic_id,
        )

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

    # topic id
    def _initialize_topic_id(self) -> None:
        if self._partition_metadata_file.exists():
            file_topic_id = self._partition_metadata_file.read()
            self._check_topic_id(file_topic_id, self.topic_id)
            self.topic_id = file_topic_id
        elif self.topic_id is not None:
            self._record_topic_id(self.topic_id)

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
    def last_stable_offset_lag(self) -> int:
        return self.high_watermark - self.last_stable_offset

    @property
    def last_stable_offset_metadata(self) -> LogOffsetMetadata:
        unstable = self._first_unstable_offset
        if unstable is None or unstable.message_offset >= self.high_watermark:
            return self.high_watermark_metadata
        if unstable.message_offset_only:
            unstable = self._first_unstable_offset = self.maybe_convert_to_offset_metadata(unstable.message_offset)
        return unstable

    def fetch_offset_snapshot(self) -> LogOffsetSnapshot:
        return LogOffsetSnapshot(
            self.log_start_offset, self.log_end_offset_metadata, self.high_watermark_metadata, self.last_stable_offset_metadata
        )

    def set_offsets_listener(self, on_high_watermark_updated: Callable[[int], None] | None) -> None:
        self._on_high_watermark_updated = on_high_watermark_updated

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
            raise ValueError(
                f"High watermark {new_high_watermark} update exceeds current log end offset {self.log_end_offset_metadata}"
            )
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
        if self._on_high_watermark_updated is not None:
            self._on_high_watermark_updated(metadata.message_offset)
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

    # append
    def append_as_leader(
        self,
        records: Buffer,
        *,
        leader_epoch: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        verification_guard: VerificationGuard | None = None,
        transaction_version: int = 0,
    ) -> LogAppendInfo:
        """Assign offsets and the leader epoch, validate as Kafka does, write.

        `records` is patched in place when it is a writable buffer and the bytes are kept; it must not be used again.
        `transaction_version` is that of a marker's coordinator. A duplicate of one of the producer's last 5 batches is
        not written; its result carries the offsets of the first one.
        """
        self._check_online()
        self._partition_metadata_file.maybe_flush()
        view = memoryview(records)
        analyzed = analyze_and_validate_records(
            view,
            origin=origin,
            leader_epoch=leader_epoch,
            max_message_size=self.config.max_message_size,
            topic_partition=self.topic_partition,
        )
        if not analyzed.raw_headers:
            return analyzed.info
        with self._io(f"Error while appending records to {self.topic_partition}"):
            view = view[: analyzed.info.valid_bytes]
            if origin is not AppendOrigin.RAFT_LEADER:
                view, analyzed = self._validate_and_assign_offsets(view, analyzed, leader_epoch, origin)
            else:
                self._check_given_offsets(analyzed)
            self._assign_epochs(analyzed.raw_headers)
            if len(view) > self.config.segment_size:
                raise ApiException(
                    Errors.RECORD_LIST_TOO_LARGE,
                    f"Message batch size is {len(view)} bytes in append to partition {self.topic_partition}, "
                    f"which exceeds the maximum configured segment size of {self.config.segment_size}.",
                )
            return self._append(view, analyzed, origin, verification_guard, transaction_version)

    def append_as_follower(self, records: Buffer, *, leader_epoch: int) -> LogAppendInfo:
        """Write the bytes as they are (one pwrite).

        Batches whose epoch is above `leader_epoch`, the epoch of the fetch (for a mirror: the mirror leader epoch; pass
        2**31-1 to take everything), and all behind them are skipped. `UnexpectedAppendOffsetError` below the log end.
        """
        self._check_online()
        self._partition_metadata_file.maybe_flush()
        view = memoryview(records)
        analyzed = analyze_and_validate_records(
            view, origin=AppendOrigin.REPLICATION, leader_epoch=leader_epoch, max_message_size=None, topic_partition=self.topic_partition
        )
        if not analyzed.raw_headers:
            return analyzed.info
        valid_bytes = analyzed.info.valid_bytes
        try:
            self._check_given_offsets(analyzed)
            self._assign_epochs(analyzed.raw_headers)
            return self._append(view if valid_bytes == len(view) else view[:valid_bytes], analyzed, AppendOrigin.REPLICATION, None, 0)
        except OSError as error:
            raise self._storage_error(f"Error while appending records to {self.topic_partition}", error) from error

    def _validate_and_assign_offsets(
        self, records: memoryview, analyzed: AnalyzedAppend, leader_epoch: int, origin: AppendOrigin
    ) -> tuple[memoryview, AnalyzedAppend]:
        config = self.config
        source = analyzed.info.source_compression
        now_ms = self.local_log.ports.clock.time_ms()
        target, level = _target_compression(config, source)
        first_offset = self.log_end_offset
        result = validate_and_assign_offsets(
            bytearray(records) if records.readonly else records,
            offset=first_offset,
            now_ms=now_ms,
            source_compression=source,
            target_compression=target,
            target_compression_level=level,
            compact=config.compact,
            timestamp_type=TimestampType.LOG_APPEND_TIME if config.log_append_time else TimestampType.CREATE_TIME,
            timestamp_before_max_ms=config.message_timestamp_before_max_ms,
            timestamp_after_max_ms=config.message_timestamp_after_max_ms,
            partition_leader_epoch=leader_epoch,
            origin=origin,
            topic_partition=self.topic_partition,
        )
        if result.message_size_maybe_changed and len(result.records) > config.max_message_size:
            raise ApiException(
                Errors.MESSAGE_TOO_LARGE,
                f"Message batch size is {len(result.records)} bytes in append to partition {self.topic_partition} "
                f"which exceeds the maximum configured size of {config.max_message_size}.",
            )
        view = memoryview(result.records)
        info = analyzed.info
        info.first_offset = first_offset
        info.last_offset = result.next_offset - 1
        info.max_timestamp = result.max_timestamp_ms
        info.last_leader_epoch = leader_epoch
        info.valid_bytes = len(view)
        if config.log_append_time:
            info.log_append_time = result.log_append_time_ms
        return view, AnalyzedAppend(info, headers_after_validation(view), analyzed.has_producer_state)

    def _check_given_offsets(self, analyzed: AnalyzedAppend) -> None:
        first_offset = analyzed.info.first_offset
        if first_offset < self.log_end_offset:
            raise UnexpectedAppendOffsetError(
                f"Unexpected offset in append to {self.topic_partition}. First offset {first_offset} is less than the next offset "
                f"{self.log_end_offset}. Last offset in append: {analyzed.info.last_offset}. Log start offset = {self.log_start_offset}",
                first_offset=first_offset,
                last_offset=analyzed.info.last_offset,
            )

    def _append(
        self,
        records: memoryview,
        analyzed: AnalyzedAppend,
        origin: AppendOrigin,
        verification_guard: VerificationGuard | None,
        transaction_version: int,
    ) -> LogAppendInfo:
        info = analyzed.info
        info.log_start_offset = self.log_start_offset
        segment = self._maybe_roll(len(records), info)
        update: ProducerStateUpdate | None = None
        if analyzed.has_producer_state:
            update = ProducerStateUpdate(self.producer_state_manager, origin, transaction_version=transaction_version)
            duplicate = self._analyze_producer_state(update, records, analyzed.headers, segment, origin, verification_guard)
            if duplicate is not None:
                return _duplicate_info(info, duplicate)
        self.local_log.append(info.last_offset, analyzed.raw_headers, records)
        if self._high_watermark.message_offset >= self.log_end_offset:
            self._update_high_watermark_with_log_end_offset()
        if update is not None:
            update.apply(segment.update_txn_index)
            self.producer_state_manager.update_map_end_offset(info.last_offset + 1)
            self._maybe_increment_first_unstable_offset()
        else:
            self.producer_state_manager.update_map_end_offset(info.last_offset + 1)
        if self.local_log.unflushed_messages >= self.config.flush_interval:
            self.flush()
        return info

    def _analyze_producer_state(
        self,
        update: ProducerStateUpdate,
        records: memoryview,
        headers: Sequence[BatchHeader],
        segment: LogSegment,
        origin: AppendOrigin,
        verification_guard: VerificationGuard | None,
    ) -> BatchMetadata | None:
        """Gather (and validate) producer state; the first append's metadata if this one is a duplicate of it."""
        segment_size = segment.size
        for header in headers:
            if header.has_producer_id and origin is AppendOrigin.CLIENT:
                entry = self.producer_state_manager.last_entry(header.producer_id)
                duplicate = entry and entry.find_duplicate_batch(header.producer_epoch, header.base_sequence, header.last_sequence)
                if duplicate:
                    return duplicate
            if header.is_transactional:
                if origin in (AppendOrigin.CLIENT, AppendOrigin.COORDINATOR):
                    self._check_transaction_verified(header, verification_guard)
                position = segment_size + header.position
                first_offset = LogOffsetMetadata(header.base_offset, segment.base_offset, position)
                update.add(header, records, header.position, first_offset)
            else:
                update.add(header, records, header.position)
        return None

    def _check_transaction_verified(self, header: BatchHeader, verification_guard: VerificationGuard | None) -> None:
        manager = self.producer_state_manager
        if header.is_control or not manager.config.transaction_verification_enabled:
            return
        if self.has_ongoing_transaction(header.producer_id, header.producer_epoch):
            return
        entry = manager.last_entry(header.producer_id)
        if entry is not None and header.producer_epoch < entry.producer_epoch:
            raise ApiException(
                Errors.INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {header.producer_id} is {header.producer_epoch}, which is smaller than the last seen epoch {entry.producer_epoch}",
            )
        verification = manager.verification_state_entry(header.producer_id)
        if verification_guard is None or verification is None or verification.verification_guard is not verification_guard:
            raise ApiException(Errors.INVALID_TXN_STATE, "Record was not part of an ongoing transaction")

    # transactions and producers
    def has_ongoing_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        entry = self.producer_state_manager.last_entry(producer_id)
        return entry is not None and entry.current_txn_first_offset is not None and entry.producer_epoch == producer_epoch

    def maybe_start_transaction_verification(
        self, producer_id: int, sequence: int, epoch: int, *, supports_epoch_bump: bool = False
    ) -> VerificationGuard | None:
        """The guard to append with once the coordinator has confirmed the transaction; None if it is ongoing here already."""
        if self.has_ongoing_transaction(producer_id, epoch):
            return None
        entry = self.producer_state_manager.maybe_create_verification_state_entry(
            producer_id, sequence=sequence, epoch=epoch, supports_epoch_bump=supports_epoch_bump
        )
        return entry.verification_guard

    @property
    def producer_id_count(self) -> int:
        return self.producer_state_manager.producer_id_count

    def has_late_transaction(self, now_ms: int) -> bool:
        return self.producer_state_manager.has_late_transaction(now_ms)

    def remove_expired_producers(self, now_ms: int) -> None:
        """Every producer.id.expiration.check.interval.ms."""
        self.producer_state_manager.remove_expired_producers(now_ms)

    # read
    def read(self, start_offset: int, max_length: int, isolation: FetchIsolation, *, min_one_message: bool) -> FetchDataInfo:
        """A slice of whole batches (the last may be cut) from the one that contains `start_offset`, below the isolation's limit.

        With `min_one_message` the first batch is given whole whatever its size. OFFSET_OUT_OF_RANGE outside the log.
        """
        self._check_log_start_offset(start_offset)
        if isolation is FetchIsolation.LOG_END:
            limit = self.local_log.next_offset_metadata
        elif isolation is FetchIsolation.HIGH_WATERMARK:
            limit = self.high_watermark_metadata
        else:
            limit = self.last_stable_offset_metadata
        try:
            return self.local_log.read(
                start_offset,
                max_length,
                limit,
                min_one_message=min_one_message,
                include_aborted_transactions=isolation is FetchIsolation.TXN_COMMITTED,
            )
        except OSError as error:
            raise self._storage_error(f"Exception while reading from {self.topic_partition}", error) from error

    def _check_log_start_offset(self, offset: int) -> None:
        if offset < self.log_start_offset:
            raise ApiException(
                Errors.OFFSET_OUT_OF_RANGE,
                f"Received request for offset {offset} for partition {self.topic_partition}, "
                f"but we only have log segments starting from offset: {self.log_start_offset}.",
            )

    def collect_aborted_transactions(self, start_offset: int, upper_bound_offset: int) -> list[AbortedTxn]:
        return self.local_log.collect_aborted_transactions(start_offset, upper_bound_offset)

    def offset_for_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        """-2 earliest, -1 latest (log end; the caller knows the isolation level), -3 max timestamp, -4 earliest local, -5 latest tiered;
        else the first record that is at least as new."""
        with self._io(f"Error while fetching offset by timestamp for {self.topic_partition}"):
            return offset_for_timestamp(
                timestamp,
                segments=self.segments,
                leader_epoch_cache=self.leader_epoch_cache,
                log_start_offset=self.log_start_offset,
                log_end_offset=self.log_end_offset,
            )

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
            new_segment = self.local_log.roll(expected_next_offset)
            self.producer_state_manager.update_map_end_offset(new_segment.base_offset)
            snapshot = self.producer_state_manager.take_snapshot(sync=False)
            self._update_high_watermark_with_log_end_offset()
            base_offset = new_segment.base_offset

            def flush_log() -> None:
                if self._closed:
                    return
                files = self.local_log.ports.files
                if snapshot is not None and files.exists(snapshot):
                    files.fsync_path(snapshot)
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
        with self._io(f"Error while flushing log for {self.topic_partition} with offset {offset}"):
            if flush_offset > self.local_log.recovery_point:
                self.local_log.flush(flush_offset)
                self.local_log.mark_flushed(min(offset, self.log_end_offset))

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
            first_base_offset = self.segments.first_segment_base_offset
            if first_base_offset is None or first_base_offset > target_offset:
                self.truncate_fully_and_start_at(target_offset)
            else:
                self._truncate_to(target_offset)
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
            self._forget_positions()

    def truncate_fully_and_start_at(self, new_offset: int, *, log_start_offset: int | None = None) -> None:
        """An empty log that begins (and ends) at `new_offset`."""
        with self._io(f"Error while truncating the entire log for {self.topic_partition}"):
            log.info("%s: truncating fully, starting at offset %d", self.name, new_offset)
            self.local_log.truncate_fully_and_start_at(new_offset)
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
        )

    def _forget_positions(self) -> None:
        """Producer state was rebuilt: unstable offsets may have changed."""
        self._maybe_increment_first_unstable_offset()

    # life
    def take_producer_snapshot(self) -> None:
        self.producer_state_manager.take_snapshot()

    def rename_dir(self, name: str) -> None:
        """Rename the folder. What is still scheduled (an epoch flush) goes there, never to a new folder of the old name."""
        with self._io(f"Error while renaming dir for {self.topic_partition}"):
            self._partition_metadata_file.maybe_flush()
            if not self.local_log.rename_dir(name):
                return
            files = self.local_log.ports.files
            self.producer_state_manager.update_parent_dir(self.directory)
            self._partition_metadata_file = PartitionMetadataFile(files, self.directory)
            self.leader_epoch_cache.with_checkpoint(LeaderEpochCheckpointFile(files, self.directory))

    def delete(self) -> None:
        """Remove the folder and everything in it, now."""
        with self._io(f"Error while deleting log for {self.topic_partition}"):
            self._closed = True
            self.leader_epoch_cache.clear()
            deleted = self.local_log.delete_all_segments()
            delete_producer_snapshots(self.local_log.folder, deleted, self.producer_state_manager, later=False)
            self.local_log.delete_dir()

    def close(self) -> None:
        """Producer snapshot at the log end, final index entries, trimmed files. Flush before, for a clean shutdown."""
        with self._io(f"Error while closing log for {self.topic_partition}"):
            self._on_high_watermark_updated = None
            self._closed = True
            self._partition_metadata_file.maybe_flush()
            self.producer_state_manager.take_snapshot()
            self.segments.close()

    def close_handlers(self) -> None:
        """Close the files as they are (the log directory is offline)."""
        self._closed = True
        self.segments.close_handlers()

    # errors
    def _check_online(self) -> None:
        if self.local_log.ports.log_dir_failures.has_offline_log_dir(self.parent_dir):
            raise ApiException(
                Errors.KAFKA_STORAGE_ERROR, f"The log dir {self.parent_dir} is already offline due to a previous IO exception."
            )

    def _storage_error(self, message: str, error: OSError) -> ApiException:
        return storage_error(self.parent_dir, self.local_log.ports, f"{message} in dir {self.parent_dir}", error)

    @contextmanager
    def _io(self, message: str) -> Iterator[None]:
        self._check_online()
        try:
            yield
        except OSError as error:
            raise self._storage_error(message, error) from error

    def __repr__(self) -> str:
        return (
            f"UnifiedLog(directory={self.directory}, topic_id={self.topic_id}, log_start_offset={self.log_start_offset}, "
            f"last_stable_offset={self.last_stable_offset}, high_watermark={self.high_watermark}, log_end_offset={self.log_end_offset})"
        )


def _target_compression(config: LogConfig, source: CompressionType) -> tuple[CompressionType, int | None]:
    """The codec (and its level) in which the topic wants its batches."""
    if config.compression_type == "producer":
        return source, None
    if config.compression_type == "uncompressed":
        return CompressionType.NONE, None
    target = CompressionType.for_name(config.compression_type)
    level = {"gzip": config.compression_gzip_level, "lz4": config.compression_lz4_level, "zstd": config.compression_zstd_level}
    return target, level.get(config.compression_type)


def _duplicate_info(info: LogAppendInfo, duplicate: BatchMetadata) -> LogAppendInfo:
    info.first_offset = duplicate.first_offset
    info.last_offset = duplicate.last_offset
    info.log_append_time = duplicate.timestamp
    info.is_duplicate = True
    return info


__all__ = ["CompletedTxn", "UnifiedLog"]
