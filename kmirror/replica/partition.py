"""One partition as this broker sees it (skeleton; bodies follow)."""

from __future__ import annotations

from kmirror.common.ports import Buffer
from kmirror.replica.replica_types import EpochEndOffset, FetchParams, FetchPartition, FetchPartitionData, ListOffsetsResult
from kmirror.storage.unified_log import LogAppendInfo, UnifiedLog


class Partition:
    topic: str
    partition_id: int
    log: UnifiedLog | None
    leader_epoch: int
    leader_id: int | None
    partition_epoch: int
    assigned_replicas: list[int]
    in_sync_replicas: list[int]
    is_leader: bool
    mirror_leader_epoch: int
    """The source leader epoch that the mirror fetcher appends under; -1 when this is not a mirror partition."""

    @property
    def is_read_only(self) -> bool: ...

    def set_read_only(self, reason: ReadOnlyReason | None) -> None:
        """Set by `mirror`: None = writable, UNKNOWN_STATE = produce answers NOT_LEADER_OR_FOLLOWER, MIRROR_TOPIC = READ_ONLY_TOPIC.
        Becoming read-only fails the pending produces with NOT_LEADER_OR_FOLLOWER."""

    def fail_pending_produces(self) -> None:
        """All acks=all produces that wait answer NOT_LEADER_OR_FOLLOWER (decisions D1 PREPARING: before each cut)."""

    def append_records_to_leader(self, records: Buffer, *, origin: AppendOrigin, required_acks: int) -> LogAppendInfo:
        """Append as the leader; ApiException otherwise."""

    def append_records_to_follower_or_mirror(self, records: Buffer, *, leader_epoch: int) -> LogAppendInfo:
        """Unchanged bytes from the leader, or (leader of a mirror partition) from the source; moves the HW of a mirror leader."""

    def fetch_records(self, params: FetchParams, fetch: FetchPartition, max_bytes: int, *, min_one_message: bool) -> FetchPartitionData: ...

    def last_offset_for_leader_epoch(self, current_leader_epoch: int | None, leader_epoch: int) -> EpochEndOffset: ...

    def fetch_offset_for_timestamp(self, timestamp: int, isolation: int | None, current_leader_epoch: int | None) -> ListOffsetsResult: ...

    def delete_records_on_leader(self, offset: int) -> int:
        """The new low watermark."""

    def truncate_to(self, offset: int) -> None: ...

    def truncate_fully_and_start_at(self, offset: int) -> None: ...
