"""SKELETON (signatures are final; bodies follow). One partition's log: Kafka's `UnifiedLog` without tiers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kmirror.common.ports import Buffer
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.storage.batch_header import BatchHeader
from kmirror.storage.fetch_data_info import AbortedTxn, FetchDataInfo, FetchIsolation
from kmirror.storage.log_append_info import AppendOrigin, LogAppendInfo
from kmirror.storage.log_offset_metadata import (
    EpochAndOffset,
    LogOffsetMetadata,
    LogOffsetSnapshot,
    LogStartOffsetIncrementReason,
    TimestampAndOffset,
)
from kmirror.storage.ports import LogPorts


class UnifiedLog:
    """Errors: ApiException with Kafka's code (OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE ...)."""

    @classmethod
    def open(
        cls,
        directory: str,
        config: "LogConfig",
        ports: LogPorts,
        *,
        log_start_offset: int = 0,
        recovery_point: int = 0,
        last_shutdown_clean: bool = True,
        topic_id: Uuid | None = None,
        producer_state_config: "ProducerStateManagerConfig | None" = None,
        max_transaction_timeout_ms: int = 900_000,
    ) -> "UnifiedLog":
        """Create the folder or load what is in it (recovering it after an unclean stop), through `LogLoader`."""
        ...

    directory: str
    """The partition's folder; `.parent_dir` the log dir, `.name` the folder's name."""
    topic_partition: TopicPartition
    topic_id: Uuid | None
    config: "LogConfig"
    log_start_offset: int
    producer_state_manager: "ProducerStateManager"
    leader_epoch_cache: "LeaderEpochFileCache"
    is_read_only: bool
    # properties
    parent_dir: str
    name: str
    recovery_point: int
    high_watermark: int
    high_watermark_metadata: LogOffsetMetadata
    last_stable_offset: int
    last_stable_offset_lag: int
    first_unstable_offset: int | None
    log_end_offset: int
    log_end_offset_metadata: LogOffsetMetadata
    latest_epoch: int | None
    size: int
    number_of_segments: int
    active_segment: "LogSegment"
    log_segments: list["LogSegment"]
    is_future: bool
    last_flush_time_ms: int
    producer_id_count: int

    # append
    def append_as_leader(
        self, records: Buffer, *, leader_epoch: int, origin: AppendOrigin = AppendOrigin.CLIENT, verification_guard: object | None = None
    ) -> LogAppendInfo:
        """Assign offsets and the leader epoch, validate as Kafka does, write. `records` is patched in place when it is a
        writable buffer and the bytes are kept; it must not be used again."""
        ...

    def append_as_follower(self, records: Buffer, *, leader_epoch: int) -> LogAppendInfo:
        """Write the bytes as they are (one pwrite). Batches whose epoch is above `leader_epoch`, the epoch of the fetch
        (for a mirror: the mirror leader epoch; pass 2**31-1 to take everything), and all after them are skipped."""
        ...

    def maybe_assign_epoch_start_offset(self, leader_epoch: int, start_offset: int) -> None: ...

    # offsets
    def update_high_watermark(self, high_watermark: int | LogOffsetMetadata) -> int:
        """Clamped to [log start, log end]; the new value."""
        ...

    def maybe_increment_high_watermark(self, new_high_watermark: LogOffsetMetadata) -> LogOffsetMetadata | None:
        """The old one if it moved (or only its segment changed)."""
        ...

    def maybe_update_high_watermark(self, high_watermark: int) -> int | None:
        """For followers: the new one if it changed."""
        ...

    def maybe_increment_log_start_offset(self, new_log_start_offset: int, reason: LogStartOffsetIncrementReason) -> bool: ...
    def fetch_offset_snapshot(self) -> LogOffsetSnapshot: ...
    def maybe_convert_to_offset_metadata(self, offset: int) -> LogOffsetMetadata: ...
    def set_offsets_listener(self, on_high_watermark_updated: Callable[[int], None] | None) -> None: ...

    # read
    def read(self, start_offset: int, max_length: int, isolation: FetchIsolation, *, min_one_message: bool) -> FetchDataInfo: ...
    def collect_aborted_transactions(self, start_offset: int, upper_bound_offset: int) -> list[AbortedTxn]: ...
    def offset_for_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        """-2 earliest, -1 latest (log end; the caller knows the isolation level), -3 max timestamp, -4 earliest local, -5 latest tiered."""
        ...

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochAndOffset | None: ...
    def last_batch(self) -> BatchHeader | None:
        """Header of the last batch in the log; None when there is none (log end may lie beyond it)."""
        ...

    def batch_containing(self, offset: int) -> BatchHeader | None:
        """Header of the first batch whose last offset is >= `offset` (the one that contains it, or follows a gap)."""
        ...

    def batch_before(self, offset: int) -> BatchHeader | None:
        """Header of the last batch whose base offset is < `offset`; None if there is none (C36b steps back with it)."""
        ...

    def batch_headers(self, start_offset: int) -> Iterator[BatchHeader]:
        """Headers of all batches from the one containing `start_offset` to the log end."""
        ...

    def latest_batch_epoch(self) -> int | None:
        """Epoch of the last batch (C5: never a cache entry); None without batches."""
        ...

    def largest_batch_epoch(self) -> int | None:
        """Largest epoch of any batch: a scan over all headers."""
        ...

    # transactions and producers
    def has_ongoing_transaction(self, producer_id: int, producer_epoch: int) -> bool: ...
    def maybe_start_transaction_verification(self, producer_id: int, sequence: int, epoch: int) -> object: ...
    def has_late_transaction(self, now_ms: int) -> bool: ...
    def remove_expired_producers(self, now_ms: int) -> None: ...

    # shape
    def truncate_to(self, target_offset: int, *, at_batch_boundary: bool = False) -> bool:
        """True if anything was cut. `at_batch_boundary` lowers a target inside a batch to its base offset (C35)."""
        ...

    def truncate_fully_and_start_at(self, new_offset: int, *, log_start_offset: int | None = None) -> None: ...
    def roll(self, expected_next_offset: int | None = None) -> "LogSegment": ...
    def delete_old_segments(self) -> int: ...
    def flush(self, *, force_flush_active_segment: bool = False) -> None: ...
    def update_config(self, config: "LogConfig") -> "LogConfig": ...
    def assign_topic_id(self, topic_id: Uuid) -> None: ...
    def replace_segments(self, new_segments: list["LogSegment"], old_segments: list["LogSegment"]) -> None: ...
    def rename_dir(self, name: str, *, should_reinitialize: bool) -> None: ...
    def delete(self) -> None: ...
    def close(self) -> None: ...
    def close_handlers(self) -> None: ...
