"""Appending to a log, as leader and as follower.

An append is validated against a copy of the producer state, then written, then applied, so the
state never runs ahead of the bytes. Order inside an append: epoch cache, roll, producers, `.log`
and indexes, producer state, transaction index.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kmirror.common.errors import ApiException, CorruptFileError, Errors
from kmirror.common.ports import Buffer
from kmirror.record.append_origin import AppendOrigin
from kmirror.record.compression import CompressionType
from kmirror.record.record_batch import TimestampType
from kmirror.record.validation import validate_and_assign_offsets
from kmirror.storage.batch_header import BatchHeader, RawHeader
from kmirror.storage.leader_epoch_file_cache import LeaderEpochFileCache
from kmirror.storage.local_log import LocalLog
from kmirror.storage.log_append import (
    AnalyzedAppend,
    UnexpectedAppendOffsetError,
    analyze_and_validate_records,
    headers_after_validation,
)
from kmirror.storage.log_append_info import LogAppendInfo
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_io import LogIo
from kmirror.storage.log_offset_metadata import LogOffsetMetadata
from kmirror.storage.log_offsets import LogOffsets
from kmirror.storage.log_roll import LogRoll
from kmirror.storage.log_segment import LogSegment
from kmirror.storage.log_topic_id import LogTopicId
from kmirror.storage.producer_state_entry import BatchMetadata, VerificationGuard
from kmirror.storage.producer_state_manager import ProducerStateManager
from kmirror.storage.producer_state_update import ProducerStateUpdate
from kmirror.storage.verification_guards import VerificationGuards


class LogAppends:
    """Appends to one log; its two public methods are `UnifiedLog`'s own. It owns nothing: it
    changes the parts that it is made with.
    """

    __slots__ = (
        "_io",
        "_leader_epoch_cache",
        "_local_log",
        "_offsets",
        "_producer_state_manager",
        "_roll",
        "_topic_id",
        "_verification_guards",
    )

    def __init__(
        self,
        local_log: LocalLog,
        offsets: LogOffsets,
        leader_epoch_cache: LeaderEpochFileCache,
        producer_state_manager: ProducerStateManager,
        topic_id: LogTopicId,
        roll: LogRoll,
        verification_guards: VerificationGuards,
        io: LogIo,
    ) -> None:
        self._local_log = local_log
        self._offsets = offsets
        self._leader_epoch_cache = leader_epoch_cache
        self._producer_state_manager = producer_state_manager
        self._topic_id = topic_id
        self._roll = roll
        self._verification_guards = verification_guards
        self._io = io

    def append_as_leader(
        self,
        records: Buffer,
        *,
        leader_epoch: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        verification_guard: VerificationGuard | None = None,
        transaction_version: int = 0,
    ) -> LogAppendInfo:
        """Assigns offsets and the leader epoch, validates as Kafka does, and writes.

        A writable `records` buffer is patched in place if the bytes are kept; the caller must not
        use it again. `transaction_version` is that of a marker's coordinator. A duplicate of one of
        the producer's last 5 batches is not written; the result carries the offsets of the first
        one.
        """
        self._io.check_online()
        topic_id = self._topic_id
        if not topic_id.is_deferred:
            topic_id.partition_metadata_file.maybe_flush()
        view = memoryview(records)
        analyzed = analyze_and_validate_records(
            view,
            origin=origin,
            leader_epoch=leader_epoch,
            max_message_size=self._local_log.config.max_message_size,
            topic_partition=self._local_log.topic_partition,
        )
        if not analyzed.raw_headers:
            return analyzed.info
        with self._io.guarded(f"Error while appending records to {self._local_log.topic_partition}"):
            view = view[: analyzed.info.valid_bytes]
            if origin is not AppendOrigin.RAFT_LEADER:
                view, analyzed = self._validate_and_assign_offsets(view, analyzed, leader_epoch, origin)
            else:
                self._check_given_offsets(analyzed)
            if topic_id.is_deferred:
                topic_id.make_files()
            self._assign_epochs(analyzed.raw_headers)
            if len(view) > self._local_log.config.segment_size:
                raise ApiException(
                    Errors.RECORD_LIST_TOO_LARGE,
                    f"Message batch size is {len(view)} bytes in append to partition {self._local_log.topic_partition}, "
                    f"which exceeds the maximum configured segment size of {self._local_log.config.segment_size}.",
                )
            return self._append(view, analyzed, origin, verification_guard, transaction_version)

    def append_as_follower(self, records: Buffer, *, leader_epoch: int) -> LogAppendInfo:
        """Writes the bytes as they are (one pwrite).

        Batches whose epoch is above `leader_epoch`, and all after them, are skipped. `leader_epoch`
        is the epoch of the fetch (for a mirror the mirror leader epoch; 2**31-1 takes everything).
        `UnexpectedAppendOffsetError` below the log end.
        """
        self._io.check_online()
        topic_id = self._topic_id
        if not topic_id.is_deferred:
            topic_id.partition_metadata_file.maybe_flush()
        view = memoryview(records)
        analyzed = analyze_and_validate_records(
            view,
            origin=AppendOrigin.REPLICATION,
            leader_epoch=leader_epoch,
            max_message_size=None,
            topic_partition=self._local_log.topic_partition,
        )
        if not analyzed.raw_headers:
            return analyzed.info
        valid_bytes = analyzed.info.valid_bytes
        try:
            self._check_given_offsets(analyzed)
            self._assign_epochs(analyzed.raw_headers)  # first, so that new files are written once, with these epochs
            if topic_id.is_deferred:
                topic_id.make_files()
            return self._append(view if valid_bytes == len(view) else view[:valid_bytes], analyzed, AppendOrigin.REPLICATION, None, 0)
        except (OSError, CorruptFileError) as error:
            raise self._io.error_of(f"Error while appending records to {self._local_log.topic_partition}", error) from error

    def _validate_and_assign_offsets(
        self, records: memoryview, analyzed: AnalyzedAppend, leader_epoch: int, origin: AppendOrigin
    ) -> tuple[memoryview, AnalyzedAppend]:
        config = self._local_log.config
        source = analyzed.info.source_compression
        now_ms = self._local_log.ports.clock.time_ms()
        target, level = _target_compression(config, source)
        first_offset = self._local_log.log_end_offset
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
            topic_partition=self._local_log.topic_partition,
        )
        if result.message_size_maybe_changed and len(result.records) > config.max_message_size:
            raise ApiException(
                Errors.MESSAGE_TOO_LARGE,
                f"Message batch size is {len(result.records)} bytes in append to partition {self._local_log.topic_partition} "
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

    def _assign_epochs(self, headers: Iterable[RawHeader]) -> None:
        latest = self._leader_epoch_cache.latest_epoch
        for header in headers:
            if header[2] != latest and header[2] >= 0:
                self._leader_epoch_cache.assign(header[2], header[0])
                latest = self._leader_epoch_cache.latest_epoch

    def _check_given_offsets(self, analyzed: AnalyzedAppend) -> None:
        first_offset = analyzed.info.first_offset
        log_end_offset = self._local_log.next_offset_metadata.message_offset
        if first_offset < log_end_offset:
            raise UnexpectedAppendOffsetError(
                f"Unexpected offset in append to {self._local_log.topic_partition}. First offset {first_offset} is less than the next "
                f"offset {log_end_offset}. Last offset in append: {analyzed.info.last_offset}. "
                f"Log start offset = {self._offsets.log_start_offset}",
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
        info.log_start_offset = self._offsets.log_start_offset
        segment = self._roll.maybe_roll(len(records), info)
        update: ProducerStateUpdate | None = None
        if analyzed.has_producer_state:
            update = ProducerStateUpdate(self._producer_state_manager, origin, transaction_version=transaction_version)
            duplicate = self._analyze_producer_state(update, records, analyzed.headers, segment, origin, verification_guard)
            if duplicate is not None:
                return _duplicate_info(info, duplicate)
        self._local_log.append(info.last_offset, analyzed.raw_headers, records)
        offsets = self._offsets
        if offsets.high_watermark_metadata.message_offset >= self._local_log.next_offset_metadata.message_offset:
            offsets.update_high_watermark_with_log_end_offset()
        if update is not None:
            update.apply(segment.update_txn_index)
            self._producer_state_manager.update_map_end_offset(info.last_offset + 1)
            offsets.maybe_increment_first_unstable_offset()
        else:
            self._producer_state_manager.update_map_end_offset(info.last_offset + 1)
        if self._local_log.unflushed_messages >= self._local_log.config.flush_interval:
            self._roll.flush()
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
        """Gathers (and validates) the producer state. Returns the first append's metadata if this
        append is a duplicate.
        """
        segment_size = segment.size
        for header in headers:
            if header.has_producer_id and origin is AppendOrigin.CLIENT:
                entry = self._producer_state_manager.last_entry(header.producer_id)
                duplicate = entry and entry.find_duplicate_batch(header.producer_epoch, header.base_sequence, header.last_sequence)
                if duplicate:
                    return duplicate
            if header.is_transactional and header.has_producer_id:  # without a producer id it is ordinary data, as in Kafka
                if origin in (AppendOrigin.CLIENT, AppendOrigin.COORDINATOR):
                    self._verification_guards.check(header, verification_guard)
                position = segment_size + header.position
                first_offset = LogOffsetMetadata(header.base_offset, segment.base_offset, position)
                update.add(header, records, header.position, first_offset)
            else:
                update.add(header, records, header.position)
        return None


def _target_compression(config: LogConfig, source: CompressionType) -> tuple[CompressionType, int | None]:
    """The codec (and its level) that the topic stores."""
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
