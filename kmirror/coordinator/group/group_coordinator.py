"""The group coordinator of one broker: it finds a group's shard and waits for its answer (Kafka's
`GroupCoordinatorService`).

A group lives in partition abs(hash(group id)) mod n of `__consumer_offsets`, at the broker that
leads that partition. The handlers below check what needs no state, hand the request to the shard,
and wait: joins and syncs for other members, everything else for the high watermark. It serves
classic and consumer groups and, for share groups, all requests but their members' (`share`).
Streams groups are not served.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from kmirror.common.errors import ApiException, Errors
from kmirror.common.metrics import MetricsRegistry
from kmirror.common.topic_partition import GROUP_METADATA_TOPIC_NAME, TopicPartition, partition_for
from kmirror.common.uuid import Uuid
from kmirror.coordinator.common.coordinator_batches import ProducerIdAndEpoch
from kmirror.coordinator.common.coordinator_runtime import CoordinatorRuntime
from kmirror.coordinator.common.coordinator_runtime_metrics import CoordinatorRuntimeMetrics
from kmirror.coordinator.common.coordinator_shard import CoordinatorResult, ShardContext
from kmirror.coordinator.common.partition_log import PartitionLog
from kmirror.coordinator.group.classic_rebalance import GroupResult, OnCommitted, append_error
from kmirror.coordinator.group.consumer_group_heartbeat import throw_if_heartbeat_is_invalid
from kmirror.coordinator.group.consumer_group_manager import ASSIGNORS
from kmirror.coordinator.group.consumer_group_patterns import Requester
from kmirror.coordinator.group.coordinator_metadata_image import EMPTY_IMAGE, CoordinatorMetadataImage
from kmirror.coordinator.group.group_coordinator_config import GroupConfigManager, GroupCoordinatorConfig
from kmirror.coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from kmirror.coordinator.group.group_metrics import GroupCounts, GroupMetrics
from kmirror.coordinator.group.offset_metadata_manager import FetchedOffset
from kmirror.coordinator.group.share_group_offsets import ShareGroupOffsets
from kmirror.metadata.delta import MetadataDelta
from kmirror.metadata.image import RESOURCE_GROUP, ConfigResource, MetadataImage
from kmirror.runtime.api import Runtime
from kmirror.storage.producer_state_entry import VerificationGuard
from kmirror.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from kmirror.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kmirror.wire.messages.delete_groups import DeletableGroupResult
from kmirror.wire.messages.describe_groups import DescribedGroup
from kmirror.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kmirror.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kmirror.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kmirror.wire.messages.list_groups import ListedGroup
from kmirror.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kmirror.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kmirror.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kmirror.wire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

R = TypeVar("R")
OFFSET_COMMIT_TIMEOUT_MS = 5_000


class GroupCoordinator:
    """`on_metadata_update` follows the leadership of `__consumer_offsets`; the other methods answer
    requests.

    Methods raise ApiException with the error of the whole request (NOT_COORDINATOR,
    COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, INVALID_GROUP_ID, ...).
    """

    def __init__(
        self,
        runtime: Runtime,
        config: GroupCoordinatorConfig,
        log: PartitionLog,
        broker_id: int,
        metrics: MetricsRegistry | None = None,
    ) -> None:
        self._runtime = runtime
        self._config = config
        self._configs = GroupConfigManager(lambda: self._config, self._group_properties)
        self._broker_id = broker_id
        self._partition_count = 0
        self._topic_id = Uuid.ZERO
        self._metadata = MetadataImage.EMPTY
        self._image: CoordinatorMetadataImage = EMPTY_IMAGE
        self._counts: GroupCounts | None = None
        self._metrics = GroupMetrics(metrics, self._count)
        self.share: ShareGroupOffsets | None = None
        """Share groups, if the broker has a share coordinator; set once, before requests come."""
        self._shards: CoordinatorRuntime[GroupCoordinatorShard] = CoordinatorRuntime(
            runtime,
            name="group-coordinator",
            log=log,
            shard_factory=self._make_shard,
            metrics=None if metrics is None else CoordinatorRuntimeMetrics(metrics, "group-coordinator-metrics"),
        )

    def _make_shard(self, context: ShardContext) -> GroupCoordinatorShard:
        shard = GroupCoordinatorShard(
            self._configs, timer=context.timer, clock=self._runtime.clock, random=self._runtime.random, metrics=self._metrics
        )
        shard.groups.on_metadata_update(self._image, (), has_new_topics=False)
        return shard

    def _group_properties(self, group_id: str) -> Mapping[str, str]:
        return self._metadata.configs.props(ConfigResource(RESOURCE_GROUP, group_id))

    def _count(self) -> GroupCounts:
        """Returns the counts for the gauges; they are computed once for all gauges that are read in
        one turn."""
        if self._counts is None:
            self._counts = GroupCounts()
            for shard in self._shards.active_shards():
                shard.count(self._counts)
            self._runtime.call_soon(self._forget_counts)
        return self._counts

    def _forget_counts(self) -> None:
        self._counts = None

    def reconfigure(self, config: GroupCoordinatorConfig) -> None:
        """Replaces the broker's settings; groups use them from their next request on."""
        self._config = config

    async def shutdown(self) -> None:
        await self._shards.shutdown()

    def on_metadata_update(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Loads the shards whose partitions this broker leads, drops the others, and tells all
        shards of changed and deleted topics."""
        self._metadata = image
        self._image = CoordinatorMetadataImage(image)
        changed = [topic.name for topic in delta.topics.changed.values()]
        deleted = {name: topic_id for topic_id, name in delta.topics.deleted_ids.items()}
        for shard in self._shards.shards():
            shard.groups.on_metadata_update(self._image, [*changed, *deleted], has_new_topics=bool(delta.topics.created))
        if deleted:
            self._shards.run_everywhere("on-topics-deleted", lambda shard: shard.offsets.on_topics_deleted(deleted))
            topic_ids = list(delta.topics.deleted_ids)
            self._shards.run_everywhere("share-topics-deleted", lambda shard: shard.groups.share.on_topics_deleted(topic_ids))
        self._on_leadership_update(image)

    def _on_leadership_update(self, image: MetadataImage) -> None:
        topic = image.topics.topic(GROUP_METADATA_TOPIC_NAME)
        if topic is None or topic.id != self._topic_id:  # or it was deleted and created again at once
            for partition in range(self._partition_count):
                self._shards.schedule_unload(TopicPartition(GROUP_METADATA_TOPIC_NAME, partition))
        if topic is None:
            self._partition_count = 0
            return
        self._topic_id = topic.id
        self._partition_count = len(topic.partitions)
        for partition, registration in sorted(topic.partitions.items()):
            topic_partition = TopicPartition(GROUP_METADATA_TOPIC_NAME, partition)
            if registration.leader == self._broker_id:
                self._shards.schedule_load(topic_partition, registration.leader_epoch)
            else:
                self._shards.schedule_unload(topic_partition, registration.leader_epoch)

    def partition_for(self, group_id: str) -> int:
        """Returns the partition of `__consumer_offsets` that holds the group; raises ApiException
        NOT_COORDINATOR, as Kafka does, while the topic does not exist."""
        if self._partition_count == 0:
            raise ApiException(Errors.NOT_COORDINATOR)
        return partition_for(group_id, self._partition_count)

    def _shard_of(self, group_id: str) -> TopicPartition:
        return TopicPartition(GROUP_METADATA_TOPIC_NAME, self.partition_for(group_id))

    async def _write(
        self,
        topic_partition: TopicPartition,
        operation: Callable[[GroupCoordinatorShard, int], CoordinatorResult[R]],
        *,
        timeout_ms: int | None = None,
    ) -> R:
        try:
            return await self._shards.write(topic_partition, operation, timeout_ms=timeout_ms)
        except ApiException as error:
            raise _as_told(error) from error

    async def write_group(self, group_id: str, operation: Callable[[GroupCoordinatorShard], CoordinatorResult[R]]) -> R:
        """Decides in the group's shard and waits for the commit."""
        return await self._write(self._shard_of(group_id), lambda shard, _: operation(shard))

    async def read_group(self, group_id: str, operation: Callable[[GroupCoordinatorShard], R]) -> R:
        """Asks the group's shard."""
        return await self._read(self._shard_of(group_id), lambda shard, _: operation(shard))

    @property
    def image(self) -> CoordinatorMetadataImage:
        """The newest metadata."""
        return self._image

    async def _read(self, topic_partition: TopicPartition, operation: Callable[[GroupCoordinatorShard, int], R]) -> R:
        try:
            return await self._shards.read(topic_partition, operation)
        except ApiException as error:
            raise _as_told(error) from error

    # -- the consumer rebalance protocol -----------------------------------------------------------

    async def consumer_group_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, api_version: int, requester: Requester
    ) -> ConsumerGroupHeartbeatResponse:
        """Handles one heartbeat of a member (KIP-848)."""
        assignors = [name for name in self._configs.broker.consumer_assignors if name in ASSIGNORS]
        throw_if_heartbeat_is_invalid(request, api_version, assignors)
        return await self._write(self._shard_of(request.group_id), lambda shard, _: shard.groups.consumer_heartbeat(request, requester))

    async def describe_consumer_group(self, group_id: str) -> DescribedConsumerGroup:
        self._check_group_id(group_id)
        return await self._read(self._shard_of(group_id), lambda shard, _: shard.groups.describe_consumer_group(group_id))

    # -- the classic rebalance protocol ------------------------------------------------------------

    async def join_group(self, request: JoinGroupRequest, api_version: int, requester: Requester) -> JoinGroupResponse:
        """Waits until the generation begins (or an error is certain)."""
        if not request.group_id:
            return JoinGroupResponse(member_id=request.member_id, error_code=Errors.INVALID_GROUP_ID)
        config = self._configs.broker
        if not config.min_session_timeout_ms <= request.session_timeout_ms <= config.max_session_timeout_ms:
            return JoinGroupResponse(member_id=request.member_id, error_code=Errors.INVALID_SESSION_TIMEOUT)
        answer = self._runtime.create_future()
        respond = _once(answer.set_result, answer.done)
        await self._write_with_callback(request.group_id, lambda shard: shard.groups.join(request, api_version, requester, respond))
        response: JoinGroupResponse = await answer
        return response

    async def sync_group(self, request: SyncGroupRequest) -> SyncGroupResponse:
        """Waits until the leader's assignment is stored."""
        self._check_group_id(request.group_id)
        answer = self._runtime.create_future()
        respond = _once(answer.set_result, answer.done)
        await self._write_with_callback(request.group_id, lambda shard: shard.groups.sync(request, respond))
        response: SyncGroupResponse = await answer
        return response

    async def _write_with_callback(self, group_id: str, operation: Callable[[GroupCoordinatorShard], GroupResult]) -> None:
        """Runs `operation` as a write and calls its callback with the outcome of the append."""
        callbacks: list[OnCommitted] = []

        def run(shard: GroupCoordinatorShard, now_ms: int) -> GroupResult:
            result = operation(shard)
            if result.response is not None:
                callbacks.append(result.response)
            return result

        error = Errors.NONE
        try:
            await self._shards.write(self._shard_of(group_id), run)
        except ApiException as failed:
            if not callbacks:
                raise _as_told(failed) from failed
            error = failed.error
        for callback in callbacks:
            callback(error)

    async def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        self._check_group_id(request.group_id)
        return await self._write(self._shard_of(request.group_id), lambda shard, _: CoordinatorResult([], shard.groups.heartbeat(request)))

    async def leave_group(self, request: LeaveGroupRequest) -> LeaveGroupResponse:
        self._check_group_id(request.group_id)
        return await self._write(self._shard_of(request.group_id), lambda shard, _: shard.groups.leave(request))

    # -- offsets -----------------------------------------------------------------------------------

    async def commit_offsets(self, request: OffsetCommitRequest, api_version: int) -> OffsetCommitResponse:
        """Commits offsets. Group ids may be empty here, as with Kafka's old simple consumers."""
        return await self._write(
            self._shard_of(request.group_id),
            lambda shard, now_ms: shard.offsets.commit(request, api_version, now_ms),
            timeout_ms=OFFSET_COMMIT_TIMEOUT_MS,
        )

    async def commit_transactional_offsets(
        self, request: TxnOffsetCommitRequest, *, verification_guard: VerificationGuard | None = None
    ) -> TxnOffsetCommitResponse:
        """Commits within the producer's transaction (TxnOffsetCommit); the offsets are pending
        until `complete_transaction`.

        `verification_guard` comes from the log of the group's partition (`partition_for`), when the
        transaction was verified.
        """
        self._check_group_id(request.group_id)
        return await self._shards.write_transactional(
            self._shard_of(request.group_id),
            lambda shard, now_ms: shard.offsets.commit_transactional(request, now_ms),
            producer=ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
            verification_guard=verification_guard,
            timeout_ms=OFFSET_COMMIT_TIMEOUT_MS,
        )

    async def complete_transaction(
        self,
        topic_partition: TopicPartition,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        committed: bool,
        transaction_version: int = 0,
    ) -> None:
        """Writes a marker to a partition of `__consumer_offsets` (WriteTxnMarkers). It must go
        through here, because the pending offsets are here."""
        assert topic_partition.topic == GROUP_METADATA_TOPIC_NAME, f"a marker for {topic_partition} does not end offset commits"
        await self._shards.complete_transaction(
            topic_partition,
            producer=ProducerIdAndEpoch(producer_id, producer_epoch),
            coordinator_epoch=coordinator_epoch,
            committed=committed,
            transaction_version=transaction_version,
        )

    async def fetch_offsets(
        self,
        group_id: str,
        wanted: Mapping[str, Sequence[int]] | None,
        *,
        member_id: str | None = None,
        member_epoch: int = -1,
        require_stable: bool = False,
    ) -> dict[str, dict[int, FetchedOffset]]:
        """Returns the committed offsets of `wanted` partitions (None: of all that have one). An
        entry is None if nothing was committed, and UNSTABLE if a transaction is open and
        `require_stable` is set."""
        return await self._read(
            self._shard_of(group_id),
            lambda shard, _: shard.offsets.fetch(
                group_id, wanted, member_id=member_id, member_epoch=member_epoch, require_stable=require_stable
            ),
        )

    async def delete_offsets(self, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        self._check_group_id(request.group_id)
        return await self._write(self._shard_of(request.group_id), lambda shard, _: shard.offsets.delete(request))

    # -- groups ------------------------------------------------------------------------------------

    async def list_groups(self, states: Sequence[str], types: Sequence[str]) -> list[ListedGroup]:
        """Lists the groups of all shards of this broker; raises COORDINATOR_LOAD_IN_PROGRESS while
        one is loading. A shard that is unloaded meanwhile adds none."""
        listed: list[ListedGroup] = []
        for topic_partition in self._shards.partitions():
            try:
                listed += await self._read(topic_partition, lambda shard, _: shard.groups.list_groups(states, types))
            except ApiException as error:
                if error.error is not Errors.NOT_COORDINATOR:
                    raise
        return listed

    async def describe_group(self, group_id: str, api_version: int) -> DescribedGroup:
        return await self._read(self._shard_of(group_id), lambda shard, _: shard.groups.describe_group(group_id, api_version))

    async def delete_group(self, group_id: str) -> DeletableGroupResult:
        """Deletes a group. The empty id is valid, too: offsets that are committed without a group
        have it."""
        if self.share is not None:
            await self.share.delete_states_of_group(group_id)
        results = await self._write(self._shard_of(group_id), lambda shard, _: shard.delete_groups([group_id]))
        return results[0]

    @staticmethod
    def _check_group_id(group_id: str) -> None:
        if not group_id:
            raise ApiException(Errors.INVALID_GROUP_ID)


def _as_told(error: ApiException) -> ApiException:
    """Returns the error for a client when the log of the group's partition refused a record: it
    makes the client look for the coordinator again."""
    told = append_error(error.error)
    return error if told is error.error else ApiException(told)


def _once(complete: Callable[[R], None], is_done: Callable[[], bool]) -> Callable[[R], None]:
    """Returns `complete`, which is ignored once the waiter is gone or was answered."""

    def run(value: R) -> None:
        if not is_done():
            complete(value)

    return run
