"""`PartitionLog` over the broker's `ReplicaManager`: the internal topics' partitions that this
broker leads.

An append is made with origin coordinator and acks -1 and returns once it is in the local log: the
caller waits for the high watermark itself. `append` is synchronous although acks are -1, so the
state machine's decision and its record are one step.
"""

from __future__ import annotations

from collections.abc import Callable

from kmirror.common.errors import ApiException, Errors
from kmirror.common.ports import Buffer
from kmirror.common.topic_partition import TopicPartition
from kmirror.replica.replica_manager import ReplicaManager
from kmirror.runtime.api import Runtime
from kmirror.storage.fetch_data_info import FetchIsolation
from kmirror.storage.log_append_info import AppendOrigin
from kmirror.storage.producer_state_entry import VerificationGuard
from kmirror.storage.unified_log import UnifiedLog

DELETE_RECORDS_TIMEOUT_MS = 30_000


class _Listener:
    """`PartitionListener` that passes on high watermarks."""

    def __init__(self, on_high_watermark: Callable[[int], None]) -> None:
        self._on_high_watermark = on_high_watermark

    def on_high_watermark_updated(self, topic_partition: TopicPartition, offset: int) -> None:
        self._on_high_watermark(offset)

    def on_failed(self, topic_partition: TopicPartition) -> None:
        """Does nothing: the metadata update that follows unloads the shard."""

    def on_deleted(self, topic_partition: TopicPartition) -> None:
        """Does nothing: the metadata update that deleted the topic unloads the shard."""

    def on_becoming_follower(self, topic_partition: TopicPartition) -> None:
        """Does nothing: the metadata update that moved the leadership unloads the shard."""


class ReplicaManagerLog:
    """Implements `PartitionLog`. Errors are those of `get_partition_or_exception` and of the
    append."""

    def __init__(self, runtime: Runtime, replica_manager: ReplicaManager) -> None:
        self._runtime = runtime
        self._replica_manager = replica_manager

    def _log(self, topic_partition: TopicPartition) -> UnifiedLog:
        return self._replica_manager.get_partition_or_exception(topic_partition).leader_log

    def log_start_offset(self, topic_partition: TopicPartition) -> int:
        return self._log(topic_partition).log_start_offset

    def log_end_offset(self, topic_partition: TopicPartition) -> int:
        return self._log(topic_partition).log_end_offset

    def high_watermark(self, topic_partition: TopicPartition) -> int:
        return self._log(topic_partition).high_watermark

    def read(self, topic_partition: TopicPartition, offset: int, max_bytes: int) -> Buffer:
        data = self._log(topic_partition).read(offset, max_bytes, FetchIsolation.LOG_END, min_one_message=True)
        return data.records.to_bytes()

    def append(
        self,
        topic_partition: TopicPartition,
        batch: Buffer,
        *,
        leader_epoch: int,
        verification_guard: VerificationGuard | None = None,
        transaction_version: int = 0,
    ) -> int:
        partition = self._replica_manager.get_partition_or_exception(topic_partition)
        if partition.leader_epoch != leader_epoch:
            raise ApiException(Errors.NOT_LEADER_OR_FOLLOWER)
        info = partition.append_records_to_leader(
            batch,
            origin=AppendOrigin.COORDINATOR,
            required_acks=-1,
            verification_guard=verification_guard,
            transaction_version=transaction_version,
        )
        self._replica_manager.complete_delayed(topic_partition)
        return info.last_offset + 1

    async def flush_if_single_replica(self, topic_partition: TopicPartition) -> None:
        partition = self._replica_manager.get_partition_or_exception(topic_partition)
        if len(partition.in_sync_replicas) == 1:
            log = partition.leader_log
            await self._runtime.run_blocking(lambda: log.flush(force_flush_active_segment=True))

    async def delete_records(self, topic_partition: TopicPartition, before_offset: int) -> None:
        offsets = {topic_partition: before_offset}
        results = await self._replica_manager.delete_records(DELETE_RECORDS_TIMEOUT_MS, offsets, internal_topics_allowed=True)
        if results[topic_partition].error is not Errors.NONE:
            raise ApiException(results[topic_partition].error)

    def max_batch_size(self, topic_partition: TopicPartition) -> int:
        size: int = self._log(topic_partition).config.max_message_size
        return size

    def add_listener(self, topic_partition: TopicPartition, listener: Callable[[int], None]) -> Callable[[], None]:
        registered = _Listener(listener)
        if not self._replica_manager.maybe_add_listener(topic_partition, registered):
            raise ApiException(Errors.NOT_LEADER_OR_FOLLOWER)
        return lambda: self._replica_manager.remove_listener(topic_partition, registered)
