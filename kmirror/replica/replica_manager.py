"""All partitions of one broker: appends, fetches, deletions, and what waits for them.

Everything here is synchronous except waiting. `append_records` and `fetch_messages` do their work when called and return
a future that is done already when there is nothing to wait for; otherwise a `Delayed*` operation in a purgatory, keyed by
partition, completes it. Whoever moves a log or a watermark calls `complete_delayed(topic_partition)`.

Metadata comes in through `apply_delta` (`replica.metadata_applier`). Read-only rules live in `Partition`; here they only
become error codes. High watermarks are checkpointed every `replica.high.watermark.checkpoint.interval.ms` and at shutdown.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

from kmirror.common.errors import ApiException, Errors
from kmirror.common.metrics import MetricsRegistry
from kmirror.common.ports import Buffer
from kmirror.common.topic_partition import INTERNAL_TOPICS, MIRROR_STATE_TOPIC_NAME, TopicIdPartition, TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.metadata.delta import MetadataDelta
from kmirror.metadata.image import MetadataImage
from kmirror.record.validation import RecordValidationException
from kmirror.replica.alter_log_dirs import AssignmentListener, ReplicaAlterLogDirs
from kmirror.replica.alter_partition import AlterPartitionManager, IsrMeters
from kmirror.replica.broker_topic_stats import BrokerTopicStats
from kmirror.replica.delayed_delete_records import DelayedDeleteRecords, DeleteRecordsPartitionStatus
from kmirror.replica.delayed_fetch import DelayedFetch
from kmirror.replica.delayed_operation import DelayedOperationPurgatory
from kmirror.replica.delayed_produce import DelayedProduce, ProducePartitionStatus
from kmirror.replica.follower_fetches import FollowedPartitions, FollowerFetches
from kmirror.replica.log_reads import LogReads
from kmirror.replica.metadata_applier import FetcherManager, MetadataApplier
from kmirror.replica.partition import HIGH_WATERMARK_OFFSET, Partition
from kmirror.replica.replica_manager_metrics import ReplicaManagerMetrics
from kmirror.replica.replica_types import (
    DeleteRecordsResult,
    FetchInfos,
    FetchParams,
    FetchResults,
    PartitionResponse,
    ReplicaConfig,
)
from kmirror.replica.replication_quota_manager import ReplicationQuotaManagers
from kmirror.runtime.api import Runtime
from kmirror.runtime.supervision import Supervised
from kmirror.storage.log_append_info import AppendOrigin
from kmirror.storage.log_manager import LogManager
from kmirror.storage.log_offset_metadata import LogStartOffsetIncrementReason
from kmirror.storage.producer_state_entry import VerificationGuard

_log = logging.getLogger(__name__)


class PartitionListener(Protocol):
    """Told what happens to one partition (coordinators, mirrors)."""

    def on_high_watermark_updated(self, topic_partition: TopicPartition, offset: int) -> None: ...

    def on_failed(self, topic_partition: TopicPartition) -> None:
        """Its log directory went offline."""
        ...

    def on_deleted(self, topic_partition: TopicPartition) -> None: ...

    def on_becoming_follower(self, topic_partition: TopicPartition) -> None: ...


class ReplicaManager:
    """`log_manager` is started before and shut down after this by its owner."""

    def __init__(
        self,
        config: ReplicaConfig,
        runtime: Runtime,
        log_manager: LogManager,
        metrics: MetricsRegistry,
        *,
        alter_partition_manager: AlterPartitionManager | None = None,
    ) -> None:
        self.config = config
        self.runtime = runtime
        self.log_manager = log_manager
        self.metrics = metrics
        self.stats = BrokerTopicStats(metrics)
        self.partitions: dict[TopicPartition, Partition] = {}
        self.offline_partitions: dict[TopicPartition, Uuid] = {}
        self.delayed_produces: DelayedOperationPurgatory[DelayedProduce] = DelayedOperationPurgatory("Produce", runtime)
        self.delayed_fetches: DelayedOperationPurgatory[DelayedFetch] = DelayedOperationPurgatory("Fetch", runtime)
        self.delayed_delete_records: DelayedOperationPurgatory[DelayedDeleteRecords] = DelayedOperationPurgatory("DeleteRecords", runtime)
        self._listeners: dict[TopicPartition, list[PartitionListener]] = {}
        self.quotas = ReplicationQuotaManagers(
            metrics,
            runtime.clock,
            window_count=config.replication_quota_window_num,
            window_size_seconds=config.replication_quota_window_size_seconds,
            alter_log_dirs_window_count=config.alter_log_dirs_replication_quota_window_num,
            alter_log_dirs_window_size_seconds=config.alter_log_dirs_replication_quota_window_size_seconds,
        )
        self.alter_log_dirs = ReplicaAlterLogDirs(self)
        self._alter_partition_manager = alter_partition_manager
        if alter_partition_manager is not None:
            alter_partition_manager.meters = IsrMeters(metrics)
        self._metadata_applier = MetadataApplier(self)
        self._checkpoint_task: asyncio.Task[None] | None = None
        self._checkpoint_write: asyncio.Task[None] | None = None
        self._isr_task: asyncio.Task[None] | None = None
        self._metrics = ReplicaManagerMetrics(self, metrics)
        self.reads = LogReads(
            self,
            broker_of=self._metadata_applier.broker,
            expirations={False: self._metrics.consumer_fetch_expirations, True: self._metrics.follower_fetch_expirations},
        )
        self.follower_fetches = FollowerFetches(self, self._metrics.follower_fetch_expirations)

    # --- life -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start checkpointing high watermarks and shrinking ISRs."""
        self._checkpoint_task = Supervised(self.runtime, self._checkpoint_loop, name="highwatermark-checkpoint").start()
        self._isr_task = Supervised(self.runtime, self._shrink_isr_loop, name="isr-expiration").start()

    async def shutdown(self) -> None:
        """Stop the tasks, answer what waits, checkpoint the high watermarks."""
        self.kill()
        if self._checkpoint_write is not None:
            await self._checkpoint_write  # the worker's write of the same files ends first
        self.checkpoint_high_watermarks()

    def kill(self) -> None:
        """Stop the tasks and whatever waits; nothing is written."""
        for task in (self._checkpoint_task, self._isr_task):
            if task is not None:
                task.cancel()
        self.alter_log_dirs.kill()
        self.follower_fetches.shutdown()
        self.delayed_fetches.shutdown()
        self.delayed_produces.shutdown()
        self.delayed_delete_records.shutdown()

    async def _checkpoint_loop(self) -> None:
        while True:
            await self.runtime.sleep_ms(self.config.high_watermark_checkpoint_interval_ms)
            for log_dir, high_watermarks in self._high_watermarks_by_dir().items():
                write = functools.partial(self.log_manager.checkpoint_high_watermarks, log_dir, high_watermarks)
                self._checkpoint_write = self.runtime.spawn(self.runtime.run_blocking(write), name="highwatermark-checkpoint-write")
                await asyncio.shield(self._checkpoint_write)
                self._checkpoint_write = None

    async def _shrink_isr_loop(self) -> None:
        while True:
            await self.runtime.sleep_ms(self.config.replica_lag_time_max_ms // 2)
            for partition in list(self.partitions.values()):
                partition.maybe_shrink_isr()

    def checkpoint_high_watermarks(self) -> None:
        """Write `replication-offset-checkpoint` of every log dir now."""
        for log_dir, high_watermarks in self._high_watermarks_by_dir().items():
            self.log_manager.checkpoint_high_watermarks(log_dir, high_watermarks)

    def _high_watermarks_by_dir(self) -> dict[str, dict[TopicPartition, int]]:
        by_dir: dict[str, dict[TopicPartition, int]] = {log_dir: {} for log_dir in self.log_manager.live_log_dirs}
        for topic_partition, partition in self.partitions.items():
            log = partition.log
            if log is not None and log.parent_dir in by_dir:
                by_dir[log.parent_dir][topic_partition] = log.high_watermark
        return by_dir

    def set_fetcher_manager(self, fetcher_manager: FetcherManager) -> None:
        """Followers fetch from now on (a broker without peers has no fetchers). Call it before the first delta."""
        self._metadata_applier.fetcher_manager = fetcher_manager

    def apply_delta(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Make leaders and followers, create, update and delete logs. `server`'s metadata publisher calls this first."""
        self._metadata_applier.apply(delta, image)

    def set_assignment_listener(self, on_assignment: AssignmentListener) -> None:
        """Told of each log that is, or shall be, in another directory than the metadata says. Call it before the first delta."""
        self._metadata_applier.on_assignment = on_assignment
        self.alter_log_dirs.on_assignment = on_assignment

    def handle_log_dir_failure(self, log_dir: str) -> None:
        """The log manager stopped serving `log_dir`: its partitions go offline."""
        self._metadata_applier.handle_log_dir_failure(log_dir)
        self.alter_log_dirs.handle_log_dir_failure()

    # --- partitions -------------------------------------------------------------------------------------------------

    @property
    def is_mirroring_enabled(self) -> bool:
        """Whether topics of this cluster may mirror another one's (mirror.version)."""
        return self._metadata_applier.is_mirroring_enabled

    def get_partition(self, topic_partition: TopicPartition) -> Partition | None:
        """The partition, if it is hosted here and online."""
        return self.partitions.get(topic_partition)

    def get_partition_or_exception(self, topic_partition: TopicPartition) -> Partition:
        """ApiException KAFKA_STORAGE_ERROR when offline, UNKNOWN_TOPIC_OR_PARTITION or NOT_LEADER_OR_FOLLOWER when not hosted."""
        partition = self.partitions.get(topic_partition)
        if partition is not None:
            return partition
        if topic_partition in self.offline_partitions:
            raise ApiException(Errors.KAFKA_STORAGE_ERROR, f"Partition {topic_partition} is in an offline log directory")
        if self._metadata_applier.exists_in_metadata(topic_partition):
            raise ApiException(Errors.NOT_LEADER_OR_FOLLOWER, f"Error while fetching partition state for {topic_partition}")
        raise ApiException(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"Partition {topic_partition} doesn't exist")

    def create_partition(self, topic_partition: TopicIdPartition) -> Partition:
        """A partition without a log yet; `MetadataApplier` then makes it leader or follower."""
        partition = Partition(
            topic_partition.topic_partition,
            topic_partition.topic_id,
            self.config,
            self.runtime.clock,
            on_progress=self.complete_delayed,
            on_high_watermark=self._notify_high_watermark,
            on_read_only=self.fail_pending_produces,
            alter_partition_manager=self._alter_partition_manager,
            brokers=self._metadata_applier,
        )
        self.partitions[topic_partition.topic_partition] = partition
        return partition

    def maybe_add_listener(self, topic_partition: TopicPartition, listener: PartitionListener) -> bool:
        """False when the partition is not hosted here."""
        if topic_partition not in self.partitions:
            return False
        listeners = self._listeners.setdefault(topic_partition, [])
        if listener not in listeners:
            listeners.append(listener)
        return True

    def remove_listener(self, topic_partition: TopicPartition, listener: PartitionListener) -> None:
        listeners = self._listeners.get(topic_partition, [])
        if listener in listeners:
            listeners.remove(listener)

    def listeners(self, topic_partition: TopicPartition) -> list[PartitionListener]:
        return list(self._listeners.get(topic_partition, ()))

    def forget_listeners(self, topic_partition: TopicPartition) -> None:
        self._listeners.pop(topic_partition, None)

    def _notify_high_watermark(self, topic_partition: TopicPartition, offset: int) -> None:
        for listener in self.listeners(topic_partition):
            listener.on_high_watermark_updated(topic_partition, offset)

    def complete_delayed(self, topic_partition: TopicPartition) -> None:
        """A log, a watermark or a role changed: whatever waits for this partition looks again."""
        self.complete_delayed_together([topic_partition])

    def complete_delayed_together(self, topic_partitions: Sequence[TopicPartition]) -> None:
        """The same for partitions that changed in one step: a follower's fetch that waits for some of them is answered with all."""
        partitions = [self.partitions[each] for each in topic_partitions if each in self.partitions]
        self.follower_fetches.note_changes(partitions)
        for topic_partition in topic_partitions:
            self.delayed_fetches.check_and_complete(topic_partition)
            self.delayed_produces.check_and_complete(topic_partition)
            self.delayed_delete_records.check_and_complete(topic_partition)

    def fail_pending_produces(self, topic_partition: TopicPartition, error: Errors = Errors.NOT_LEADER_OR_FOLLOWER) -> None:
        """Produces that wait for this partition's ISR answer `error` for it."""
        for operation in self.delayed_produces.watched_for_key(topic_partition):
            operation.fail_partition(topic_partition, error)

    # --- append -----------------------------------------------------------------------------------------------------

    def append_records(
        self,
        *,
        timeout_ms: int,
        required_acks: int,
        origin: AppendOrigin,
        entries: Mapping[TopicPartition, Buffer],
        internal_topics_allowed: bool = False,
        verification_guards: Mapping[TopicPartition, VerificationGuard] | None = None,
        transaction_version: int = 0,
    ) -> asyncio.Future[dict[TopicPartition, PartitionResponse]]:
        """Append now; the future is done at once unless `required_acks` is -1 and a follower still has to fetch it.

        Every error is in its partition's response. A buffer of `entries` is patched in place and must not be used again.
        `verification_guards` are those of verified transactions; `transaction_version` is that of markers.
        """
        future: asyncio.Future[dict[TopicPartition, PartitionResponse]] = self.runtime.create_future()
        if required_acks not in (-1, 0, 1):
            future.set_result({topic_partition: PartitionResponse(Errors.INVALID_REQUIRED_ACKS) for topic_partition in entries})
            return future
        responses: dict[TopicPartition, PartitionResponse] = {}
        pending: dict[TopicPartition, ProducePartitionStatus] = {}
        for topic_partition, records in entries.items():
            response, partition = self._append(
                topic_partition,
                records,
                origin,
                required_acks=required_acks,
                internal_topics_allowed=internal_topics_allowed,
                verification_guard=None if verification_guards is None else verification_guards.get(topic_partition),
                transaction_version=transaction_version,
            )
            responses[topic_partition] = response
            if required_acks == -1 and partition is not None:
                done, error = partition.check_enough_replicas_reach_offset(response.last_offset + 1)
                if not done:
                    pending[topic_partition] = ProducePartitionStatus(response, partition, response.last_offset + 1)
                elif error is not Errors.NONE:
                    response.error = error
        for topic_partition, response in responses.items():
            if response.error is Errors.NONE:
                self.complete_delayed(topic_partition)
        if pending:
            operation = DelayedProduce(timeout_ms, pending, responses, future, self._metrics.produce_expirations)
            self.delayed_produces.try_complete_else_watch(operation, pending)
        else:
            future.set_result(responses)
        return future

    def _append(
        self,
        topic_partition: TopicPartition,
        records: Buffer,
        origin: AppendOrigin,
        *,
        required_acks: int,
        internal_topics_allowed: bool,
        verification_guard: VerificationGuard | None,
        transaction_version: int,
    ) -> tuple[PartitionResponse, Partition | None]:
        is_allowed = internal_topics_allowed and topic_partition.topic != MIRROR_STATE_TOPIC_NAME  # the coordinator appends by itself
        if topic_partition.topic in INTERNAL_TOPICS and not is_allowed:
            return PartitionResponse(Errors.INVALID_TOPIC_EXCEPTION), None
        try:
            partition = self.get_partition_or_exception(topic_partition)
            info = partition.append_records_to_leader(
                records,
                origin=origin,
                required_acks=required_acks,
                verification_guard=verification_guard,
                transaction_version=transaction_version,
            )
        except ApiException as error:
            return self._refused(topic_partition, error), None
        self.stats.appended(topic_partition.topic, size_in_bytes=len(records), messages=info.num_messages)
        response = PartitionResponse(
            Errors.NONE,
            base_offset=info.first_offset,
            log_append_time_ms=info.log_append_time,
            log_start_offset=info.log_start_offset,
            last_offset=info.last_offset,
        )
        return response, partition

    def _refused(self, topic_partition: TopicPartition, error: ApiException) -> PartitionResponse:
        """Kafka tells the client the text only of record errors; the log start offset where the partition was reached."""
        partition = self.partitions.get(topic_partition)
        log = None if partition is None or not partition.is_leader else partition.log
        if error.error in _CLIENT_MISTAKES:
            _log.debug("Append to %s refused: %s", topic_partition, error.message)
        else:
            _log.error("Error processing append operation on partition %s: %s: %s", topic_partition, error.error.name, error.message)
            self.stats.topic(topic_partition.topic).failed_produce_requests.mark()
            self.stats.all_topics.failed_produce_requests.mark()
        if not isinstance(error, RecordValidationException):
            log_start_offset = -1 if log is None or error.error in _CLIENT_MISTAKES else log.log_start_offset
            return PartitionResponse(error.error, log_start_offset=log_start_offset)
        return PartitionResponse(
            error.error,
            log_start_offset=-1 if log is None else log.log_start_offset,
            record_errors=error.record_errors,
            error_message=error.message,
        )

    # --- fetch ------------------------------------------------------------------------------------------------------

    def fetch_messages(
        self, params: FetchParams, fetch_infos: FetchInfos, followed: FollowedPartitions | None = None
    ) -> asyncio.Future[FetchResults]:
        """Read now, or when there are `params.min_bytes`, or after `params.max_wait_ms`. The order of `fetch_infos` is kept.

        With `followed`, a follower's session, other partitions of it are waited for as well, and may come in the results.
        """
        if followed is not None:
            return self.follower_fetches.fetch(params, followed, fetch_infos)
        return self.reads.fetch_messages(params, fetch_infos)

    # --- delete records ---------------------------------------------------------------------------------------------

    def delete_records(
        self, timeout_ms: int, offsets: Mapping[TopicPartition, int], *, internal_topics_allowed: bool = False
    ) -> asyncio.Future[dict[TopicPartition, DeleteRecordsResult]]:
        """Raise log start offsets (-1: to the high watermark) and wait until live followers did the same."""
        future: asyncio.Future[dict[TopicPartition, DeleteRecordsResult]] = self.runtime.create_future()
        results: dict[TopicPartition, DeleteRecordsResult] = {}
        pending: dict[TopicPartition, DeleteRecordsPartitionStatus] = {}
        for topic_partition, offset in offsets.items():
            try:
                partition, required_offset = self._delete_records(topic_partition, offset, internal_topics_allowed=internal_topics_allowed)
                low_watermark = partition.low_watermark()
            except ApiException as error:
                results[topic_partition] = DeleteRecordsResult(error.error)
                continue
            if low_watermark >= required_offset:
                results[topic_partition] = DeleteRecordsResult(Errors.NONE, low_watermark)
            else:
                pending[topic_partition] = DeleteRecordsPartitionStatus(required_offset, partition)
        if pending:
            operation = DelayedDeleteRecords(timeout_ms, pending, results, future, self._metrics.delete_records_expirations)
            self.delayed_delete_records.try_complete_else_watch(operation, list(pending))
        else:
            future.set_result(results)
        return future

    def _delete_records(self, topic_partition: TopicPartition, offset: int, *, internal_topics_allowed: bool) -> tuple[Partition, int]:
        if topic_partition.topic in INTERNAL_TOPICS and not internal_topics_allowed:
            raise ApiException(Errors.INVALID_TOPIC_EXCEPTION, f"Cannot delete records of internal topic {topic_partition.topic}")
        partition = self.get_partition_or_exception(topic_partition)
        log = partition.leader_log
        partition.check_writable()
        if not log.config.delete or topic_partition.topic == MIRROR_STATE_TOPIC_NAME:
            raise ApiException(
                Errors.POLICY_VIOLATION, f"Records of partition {topic_partition} can not be deleted due to the configured policy"
            )
        required_offset = log.high_watermark if offset == HIGH_WATERMARK_OFFSET else offset
        if required_offset < 0:
            raise ApiException(Errors.OFFSET_OUT_OF_RANGE, f"The offset {required_offset} for partition {topic_partition} is not valid")
        log.maybe_increment_log_start_offset(required_offset, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)
        self.follower_fetches.note_changes([partition])
        return partition, required_offset


_CLIENT_MISTAKES = frozenset(
    (
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.NOT_LEADER_OR_FOLLOWER,
        Errors.MESSAGE_TOO_LARGE,
        Errors.RECORD_LIST_TOO_LARGE,
        Errors.CORRUPT_MESSAGE,
        Errors.KAFKA_STORAGE_ERROR,
        Errors.READ_ONLY_TOPIC,
    )
)
"""Errors that are expected to happen: no line in the log, and no offset in the answer (Kafka's UNKNOWN_LOG_APPEND_INFO)."""
