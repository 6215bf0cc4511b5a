"""Appending to a log, as leader and as follower, and the producers' transactions. Part of `UnifiedLog`.

An append is validated against a copy of the producer state, then written, then applied; the state never runs ahead of
the bytes. Order inside an append: epoch cache, roll, producers, `.log` and indexes, producer state, transaction index.
"""

from __future__ import annotations

from collections.abc import Sequence

from kmirror.common.errors import ApiException, CorruptFileError, Errors
from kmirror.common.ports import Buffer
from kmirror.record.append_origin import AppendOrigin
from kmirror.record.compression import CompressionType
from kmirror.record.record_batch import TimestampType
from kmirror.record.validation import validate_and_assign_offsets
from kmirror.storage.batch_header import BatchHeader
from kmirror.storage.log_append import (
    AnalyzedAppend,
    UnexpectedAppendOffsetError,
    analyze_and_validate_records,
    headers_after_validation,
)
from kmirror.storage.log_append_info import LogAppendInfo
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_maintenance import LogMaintenance
from kmirror.storage.log_offset_metadata import (
    LogOffsetMetadata,
)
from kmirror.storage.log_segment import LogSegment
from kmirror.storage.producer_state_entry import BatchMetadata, ProducerStateEntry, VerificationGuard
from kmirror.storage.producer_state_update import ProducerStateUpdate


class LogAppends(LogMaintenance):
    """Adds appends to `LogMaintenance`."""

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
        if not self._is_deferred:
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
            if self._is_deferred:
                self._make_files()
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
        if not self._is_deferred:
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
            self._assign_epochs(analyzed.raw_headers)  # before the files are made: then they are written with these, and once
            if self._is_deferred:
                self._make_files()
            return self._append(view if valid_bytes == len(view) else view[:valid_bytes], analyzed, AppendOrigin.REPLICATION, None, 0)
        except (OSError, CorruptFileError) as error:
            raise self._disk_error(f"Error while appending records to {self.topic_partition}", error) from error

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
            if header.is_transactional and header.has_producer_id:  # without a producer it is data like any other, as in Kafka
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
        _ensure_epoch_is_current(manager.last_entry(header.producer_id), header.producer_id, header.producer_epoch)
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
        """The guard to append with once the coordinator has confirmed the transaction; None if it is ongoing here already.
        INVALID_PRODUCER_EPOCH for an epoch before the one that this log has seen: the coordinator need not be asked."""
        _ensure_epoch_is_current(self.producer_state_manager.last_entry(producer_id), producer_id, epoch)
        if self.has_ongoing_transaction(producer_id, epoch):
            return None
        entry = self.producer_state_manager.maybe_create_verification_state_entry(
            producer_id, sequence=sequence, epoch=epoch, supports_epoch_bump=supports_epoch_bump
        )
        return entry.verification_guard

    def is_verification_guard_current(self, producer_id: int, verification_guard: VerificationGuard) -> bool:
        """False once the producer's transaction began or ended here since the guard was given."""
        entry = self.producer_state_manager.verification_state_entry(producer_id)
        return entry is not None and entry.verification_guard is verification_guard

    @property
    def producer_id_count(self) -> int:
        return self.producer_state_manager.producer_id_count

    def has_late_transaction(self, now_ms: int) -> bool:
        return self.producer_state_manager.has_late_transaction(now_ms)

    def remove_expired_producers(self, now_ms: int) -> None:
        """Every producer.id.expiration.check.interval.ms."""
        self.producer_state_manager.remove_expired_producers(now_ms)


def _ensure_epoch_is_current(entry: ProducerStateEntry | None, producer_id: int, epoch: int) -> None:
    """INVALID_PRODUCER_EPOCH for an epoch before the producer's last one here."""
    if entry is not None and epoch < entry.producer_epoch:
        raise ApiException(
            Errors.INVALID_PRODUCER_EPOCH,
            f"Epoch of producer {producer_id} is {epoch}, which is smaller than the last seen epoch {entry.producer_epoch}",
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
