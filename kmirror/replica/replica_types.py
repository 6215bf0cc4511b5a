"""The values that go in and out of `ReplicaManager`: produce results, fetch parameters and results,
settings.

Names are Kafka's (`PartitionResponse`, `FetchParams`, `FetchPartitionData`, `LogReadResult`). All
offsets are Kafka offsets, all sizes bytes. Errors are `Errors` codes, never exceptions: one
partition's error is not another's.
"""

from __future__ import annotations

from msgspec import Struct, field

from kmirror.common.errors import Errors
from kmirror.common.ports import Buffer, FileSlice
from kmirror.common.topic_partition import TopicIdPartition
from kmirror.common.uuid import Uuid
from kmirror.record.validation import RecordError
from kmirror.storage.fetch_data_info import AbortedTxn, FetchIsolation

CONSUMER_REPLICA_ID = -1
DEBUGGING_REPLICA_ID = -2
"""Asks any replica, not only the leader (ListOffsets)."""

NO_MIRROR_LEADER_EPOCH = -1


class ReplicaConfig(Struct, frozen=True):
    """The broker settings that replication uses; `server.kafka_config` fills it from Kafka's
    property names."""

    broker_id: int = 0
    high_watermark_checkpoint_interval_ms: int = 5_000
    replica_lag_time_max_ms: int = 30_000
    replica_fetch_max_bytes: int = 1_048_576
    replica_fetch_response_max_bytes: int = 10_485_760
    replica_fetch_min_bytes: int = 1
    replica_fetch_wait_max_ms: int = 500
    replica_fetch_backoff_ms: int = 1_000
    num_replica_fetchers: int = 1
    num_replica_alter_log_dirs_threads: int = 1
    replica_selector_class: str | None = None
    replication_quota_window_num: int = 11
    replication_quota_window_size_seconds: int = 1
    alter_log_dirs_replication_quota_window_num: int = 11
    alter_log_dirs_replication_quota_window_size_seconds: int = 1


class PartitionResponse(Struct):
    """The result of a produce to one partition."""

    error: Errors
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: list[RecordError] = field(default_factory=list)
    error_message: str | None = None
    last_offset: int = -1


class DeleteRecordsResult(Struct, frozen=True):
    """The result of DeleteRecords for one partition; the low watermark is -1 on an error."""

    error: Errors
    low_watermark: int = -1


class FetchPartition(Struct, frozen=True):
    """What a fetch asks of one partition."""

    topic_id: Uuid
    fetch_offset: int
    log_start_offset: int
    max_bytes: int
    current_leader_epoch: int | None = None
    last_fetched_epoch: int | None = None
    mirror_leader_epoch: int = NO_MIRROR_LEADER_EPOCH


class ClientMetadata(Struct, frozen=True):
    """Who fetches, to choose the replica that it should read from (KIP-392)."""

    rack_id: str
    client_id: str
    client_address: str
    principal: str
    listener_name: str


class FetchParams(Struct, frozen=True):
    """What a fetch asks of all its partitions. `replica_id` >= 0 is a follower, -1 a consumer.

    A consumer with `client_metadata` (Fetch v11 and above) may read from followers, anyone else
    only from the leader. `hides_epochs`: leader epochs above the partition's own are hidden
    (`client_epochs`), except from a client that compares its log with ours.
    """

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation: FetchIsolation
    replica_epoch: int = -1
    client_metadata: ClientMetadata | None = None
    hides_epochs: bool = False

    @property
    def is_from_follower(self) -> bool:
        return self.replica_id >= 0

    @property
    def fetch_only_leader(self) -> bool:
        return self.replica_id >= 0 or self.client_metadata is None


class DivergingEpoch(Struct, frozen=True):
    """Where the follower's log diverges from the leader's: the largest common epoch and its end
    offset at the leader.
    """

    epoch: int
    end_offset: int


class FetchPartitionData(Struct):
    """What a fetch answers for one partition. `records` is a slice of a file, never read here.

    `is_settled`: a follower with a session needs no further look at the partition until it changes.
    """

    error: Errors
    high_watermark: int = -1
    log_start_offset: int = -1
    records: FileSlice | Buffer | None = None
    diverging_epoch: DivergingEpoch | None = None
    last_stable_offset: int = -1
    aborted_transactions: list[AbortedTxn] | None = None
    preferred_read_replica: int = -1
    mirror_leader_epoch: int = NO_MIRROR_LEADER_EPOCH
    is_settled: bool = False

    @property
    def size_in_bytes(self) -> int:
        """The size of the records."""
        records = self.records
        if records is None:
            return 0
        return len(records) if isinstance(records, (bytes, bytearray, memoryview)) else records.size


class EpochEndOffset(Struct, frozen=True):
    """The answer to OffsetForLeaderEpoch for one partition; -1 / -1 when the epoch is unknown."""

    error: Errors
    leader_epoch: int = -1
    end_offset: int = -1


class ListOffsetsResult(Struct, frozen=True):
    """The answer to ListOffsets for one partition."""

    error: Errors
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


FetchInfos = list[tuple[TopicIdPartition, FetchPartition]]
FetchResults = list[tuple[TopicIdPartition, FetchPartitionData]]
