"""One partition's log: segments, leader epochs, producers, high watermark (Kafka's `UnifiedLog`, without tiers).

The offsets, in order: log start <= last stable offset <= high watermark <= log end. The log start moves by retention and
DeleteRecords, the log end by appends and truncation, the high watermark by replication (the owner says so). The last
stable offset is the first offset of the oldest transaction that is open, or completed by a marker that the high
watermark has not passed, else the high watermark: everything below it is decided.

Built in four layers, one file each: `LogState` (offsets, epochs), `LogMaintenance` (roll, flush, retention, truncation),
`LogAppends`, and this one (opening, reading, closing).

Who owns what: this class owns everything below the folder and is changed only by its synchronous methods, on one loop.
An OSError takes the log directory offline (`LogDirFailureChannel`) and becomes KAFKA_STORAGE_ERROR.

What is not here: the read-only flag and the mirror epoch (Partition), checkpoints of several logs (LogManager),
compaction (LogCleaner), message formats v0 and v1.
"""

from __future__ import annotations

from kmirror.common.errors import ApiException, CorruptFileError, Errors
from kmirror.common.ports import FileSlice
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.storage.checkpoint_file import parent_dir
from kmirror.storage.fetch_data_info import AbortedTxn, FetchDataInfo, FetchIsolation
from kmirror.storage.idle_folder import idle_folder
from kmirror.storage.leader_epoch_checkpoint_file import LeaderEpochCheckpointFile
from kmirror.storage.leader_epoch_file_cache import LeaderEpochFileCache
from kmirror.storage.local_log import LocalLog
from kmirror.storage.log_appends import LogAppends
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_file_names import parse_topic_partition_name
from kmirror.storage.log_loader import LogLoader
from kmirror.storage.log_offset_lookup import offset_for_timestamp
from kmirror.storage.log_offset_metadata import LogOffsetMetadata, TimestampAndOffset
from kmirror.storage.log_segments import LogSegments
from kmirror.storage.partition_metadata_file import PartitionMetadataFile
from kmirror.storage.ports import LogPorts, guarded_ports
from kmirror.storage.producer_state_manager import ProducerStateManager, ProducerStateManagerConfig
from kmirror.storage.segment_files import delete_producer_snapshots


class UnifiedLog(LogAppends):
    """Errors: ApiException with Kafka's code (OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE ...)."""

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
        defer_files: bool = False,
        committed_offset: int = 0,
    ) -> UnifiedLog:
        """Create the folder or load what is in it (recovering it after an unclean stop), through `LogLoader`.

        With `defer_files` a partition that nobody ever wrote to gets its files with the first append only.
        `log_start_offset` and `recovery_point` are the checkpointed ones. CorruptFileError where Kafka refuses to start, and
        where the log cannot be read up to `committed_offset`.
        """
        topic_partition = parse_topic_partition_name(directory)
        ports = guarded_ports(ports, parent_dir(directory), str(topic_partition))
        if defer_files and log_start_offset == 0:
            found = idle_folder(ports.files, directory)
            if found.is_idle:
                return cls._open_idle(
                    directory,
                    topic_partition,
                    config,
                    ports,
                    topic_id=topic_id,
                    found_topic_id=found.topic_id,
                    producer_state_config=producer_state_config,
                    max_transaction_timeout_ms=max_transaction_timeout_ms,
                )
        ports.files.make_dirs(directory)
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
            defer_files=defer_files,
            committed_offset=committed_offset,
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

    @classmethod
    def _open_idle(
        cls,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        ports: LogPorts,
        *,
        topic_id: Uuid | None,
        found_topic_id: Uuid | None,
        producer_state_config: ProducerStateManagerConfig | None,
        max_transaction_timeout_ms: int,
    ) -> UnifiedLog:
        """A log that nothing was ever appended to: there is nothing to load, and no file is made before the first append."""
        segments = LogSegments(topic_partition)
        cache = LeaderEpochFileCache(
            topic_partition, LeaderEpochCheckpointFile(ports.files, directory, deferred=True), ports.scheduler, deferred=True
        )
        manager = ProducerStateManager(
            topic_partition,
            directory,
            files=ports.files,
            clock=ports.clock,
            config=producer_state_config,
            max_transaction_timeout_ms=max_transaction_timeout_ms,
            has_snapshots=False,
        )
        local_log = LocalLog(
            directory, topic_partition, config, ports, segments=segments, recovery_point=0, next_offset_metadata=LogOffsetMetadata(0, 0, 0)
        )
        segments.add(local_log.folder.open_segment(0, deferred=True))
        log = cls(
            local_log,
            log_start_offset=0,
            leader_epoch_cache=cache,
            producer_state_manager=manager,
            topic_id=topic_id if found_topic_id is None else None,
            deferred=True,
        )
        if found_topic_id is not None:
            log._take_noted_topic_id(found_topic_id, topic_id)
        return log

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
        except (OSError, CorruptFileError) as error:
            raise self._disk_error(f"Exception while reading from {self.topic_partition}", error, leaves_log_alone=True) from error

    def read_bytes(self, records: FileSlice) -> bytes:
        """Of a slice that `read` gave, for one who cannot send it as it is."""
        with self._io(f"Exception while reading from {self.topic_partition}", leaves_log_alone=True):
            return records.to_bytes()

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
        with self._io(f"Error while fetching offset by timestamp for {self.topic_partition}", leaves_log_alone=True):
            return offset_for_timestamp(
                timestamp,
                segments=self.segments,
                leader_epoch_cache=self.leader_epoch_cache,
                log_start_offset=self.log_start_offset,
                log_end_offset=self.log_end_offset,
            )

    # life
    def rename_dir(self, name: str, *, synced: bool = True) -> None:
        """Rename the folder. What is still scheduled (an epoch flush) goes there, never to a new folder of the old name."""
        with self._io(f"Error while renaming dir for {self.topic_partition}"):
            if self._is_deferred:
                self._partition_metadata_file.note()
            else:
                self._partition_metadata_file.maybe_flush()
            if not self.local_log.rename_dir(name, synced=synced):
                return
            files = self.local_log.ports.files
            self.producer_state_manager.update_parent_dir(self.directory)
            self._partition_metadata_file = PartitionMetadataFile(files, self.directory)
            if self._is_deferred and self.topic_id is not None:
                self._partition_metadata_file.record_noted(self.topic_id)
            self.leader_epoch_cache.with_checkpoint(LeaderEpochCheckpointFile(files, self.directory, deferred=self._is_deferred))

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
            self._closed = True
            if self._is_deferred:
                self._partition_metadata_file.note()
            else:
                self._partition_metadata_file.maybe_flush()
            self.producer_state_manager.take_snapshot()
            self.producer_state_manager.sync_snapshots()
            self.segments.close()

    def close_handlers(self) -> None:
        """Close the files as they are (the log directory is offline)."""
        self._closed = True
        self.segments.close_handlers()

    def __repr__(self) -> str:
        return (
            f"UnifiedLog(directory={self.directory}, topic_id={self.topic_id}, log_start_offset={self.log_start_offset}, "
            f"last_stable_offset={self.last_stable_offset}, high_watermark={self.high_watermark}, log_end_offset={self.log_end_offset})"
        )
