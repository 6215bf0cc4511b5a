"""The group coordinator of one broker: which shard a group belongs to, and what waits for whom (Kafka's `GroupCoordinatorService`).

A group lives in partition abs(hash(group id)) mod n of `__consumer_offsets`, at the broker that leads that partition. The
handlers below check what needs no state, hand the request to the shard, and wait: joins and syncs for other members,
everything else for the high watermark. Serves classic groups; consumer, share and streams groups are not served yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import GROUP_METADATA_TOPIC_NAME, TopicPartition, partition_for
from kmirror.coordinator.common.coordinator_runtime import CoordinatorRuntime, ProducerIdAndEpoch
from kmirror.coordinator.common.coordinator_shard import CoordinatorResult, ShardContext
from kmirror.coordinator.common.partition_log import PartitionLog
from kmirror.coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from kmirror.coordinator.group.group_metadata_manager import GroupConfig, GroupResult, OnCommitted
from kmirror.coordinator.group.group_records import OffsetAndMetadata
from kmirror.metadata.delta import MetadataDelta
from kmirror.metadata.image import MetadataImage
from kmirror.runtime.api import Runtime
from kmirror.storage.producer_state_entry import VerificationGuard
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
    """`on_metadata_update` follows the leadership of `__consumer_offsets`; the rest answers requests.

    Methods raise ApiException with the error of the whole request (NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE, INVALID_GROUP_ID, ...).
    """

    def __init__(self, runtime: Runtime, config: GroupConfig, log: PartitionLog, broker_id: int) -> None:
        self._runtime = runtime
        self._config = config
        self._broker_id = broker_id
        self._partition_count = 0
        self._shards: CoordinatorRuntime[GroupCoordinatorShard] = CoordinatorRuntime(
            runtime, name="group-coordinator", log=log, shard_factory=self._make_shard
        )

    def _make_shard(self, context: ShardContext) -> GroupCoordinatorShard:
        return GroupCoordinatorShard(self._config, timer=context.timer, clock=self._runtime.clock, random=self._runtime.random)

    async def shutdown(self) -> None:
        await self._shards.shutdown()

    def on_metadata_update(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Load the shards whose partitions this broker leads, drop the others."""
        topic = image.topics.topic(GROUP_METADATA_TOPIC_NAME)
        if topic is None:
            for partition in range(self._partition_count):
                self._shards.schedule_unload(TopicPartition(GROUP_METADATA_TOPIC_NAME, partition))
            self._partition_count = 0
            return
        self._partition_count = len(topic.partitions)
        for partition, registration in sorted(topic.partitions.items()):
            topic_partition = TopicPartition(GROUP_METADATA_TOPIC_NAME, partition)
            if registration.leader == self._broker_id:
                self._shards.schedule_load(topic_partition, registration.leader_epoch)
            else:
                self._shards.schedule_unload(topic_partition, registration.leader_epoch)

    def partition_for(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that holds the group; ApiException while the topic does not exist."""
        if self._partition_count == 0:
            raise ApiException(Errors.COORDINATOR_NOT_AVAILABLE)
        return partition_for(group_id, self._partition_count)

    def _shard_of(self, group_id: str) -> TopicPartition:
        return TopicPartition(GROUP_METADATA_TOPIC_NAME, self.partition_for(group_id))

    # -- the rebalance protocol -------------------------------------------------------------------------------------

    async def join_group(self, request: JoinGroupRequest, api_version: int, client_id: str, client_host: str) -> JoinGroupResponse:
        """Waits until the generation begins (or an error is certain)."""
        self._check_group_id(request.group_id)
        if not self._config.min_session_timeout_ms <= request.session_timeout_ms <= self._config.max_session_timeout_ms:
            return JoinGroupResponse(member_id=request.member_id, error_code=Errors.INVALID_SESSION_TIMEOUT)
        answer = self._runtime.create_future()
        respond = _once(answer.set_result, answer.done)
        await self._write_with_callback(
            request.group_id, lambda shard: shard.groups.join(request, api_version, client_id, client_host, respond)
        )
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
        """Run `operation` as a write and tell its callback how the append went."""
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
                raise
            error = failed.error
        for callback in callbacks:
            callback(error)

    async def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        self._check_group_id(request.group_id)
        return await self._shards.write(
            self._shard_of(request.group_id), lambda shard, _: CoordinatorResult([], shard.groups.heartbeat(request))
        )

    async def leave_group(self, request: LeaveGroupRequest) -> LeaveGroupResponse:
        self._check_group_id(request.group_id)
        return await self._shards.write(self._shard_of(request.group_id), lambda shard, _: shard.groups.leave(request))

    # -- offsets ----------------------------------------------------------------------------------------------------

    async def commit_offsets(self, request: OffsetCommitRequest) -> OffsetCommitResponse:
        """Group ids may be empty here, as in Kafka's simple consumers of old."""
        return await self._shards.write(
            self._shard_of(request.group_id),
            lambda shard, now_ms: shard.offsets.commit(request, now_ms),
            timeout_ms=OFFSET_COMMIT_TIMEOUT_MS,
        )

    async def commit_transactional_offsets(
        self, request: TxnOffsetCommitRequest, *, verification_guard: VerificationGuard | None = None
    ) -> TxnOffsetCommitResponse:
        """Commit within the producer's transaction (TxnOffsetCommit); the offsets are pending until `complete_transaction`.

        `verification_guard` is what the log of the group's partition (`partition_for`) gave when the transaction was verified.
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
        """A marker for a partition of `__consumer_offsets` (WriteTxnMarkers): it must go through here, where the offsets are."""
        assert topic_partition.topic == GROUP_METADATA_TOPIC_NAME, f"a marker for {topic_partition} does not end offset commits"
        await self._shards.complete_transaction(
            topic_partition,
            producer=ProducerIdAndEpoch(producer_id, producer_epoch),
            coordinator_epoch=coordinator_epoch,
            committed=committed,
            transaction_version=transaction_version,
        )

    async def fetch_offsets(self, group_id: str, wanted: dict[str, list[int]] | None) -> dict[str, dict[int, OffsetAndMetadata | None]]:
        """Committed offsets of `wanted` partitions (None: of all that have one); None where nothing was committed."""

        def read(shard: GroupCoordinatorShard, _: int) -> dict[str, dict[int, OffsetAndMetadata | None]]:
            if wanted is None:
                return {topic: dict(partitions) for topic, partitions in shard.offsets.offsets(group_id).items()}
            return {topic: {index: shard.offsets.offset(group_id, topic, index) for index in indexes} for topic, indexes in wanted.items()}

        return await self._shards.read(self._shard_of(group_id), read)

    async def delete_offsets(self, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        self._check_group_id(request.group_id)
        return await self._shards.write(self._shard_of(request.group_id), lambda shard, _: shard.offsets.delete(request))

    # -- groups -----------------------------------------------------------------------------------------------------

    async def list_groups(self, states: Sequence[str], types: Sequence[str]) -> list[ListedGroup]:
        """Groups of every shard that is loaded here; COORDINATOR_LOAD_IN_PROGRESS while one is loading is the caller's to see."""
        listed: list[ListedGroup] = []
        for topic_partition in self._shards.active_partitions():
            listed += await self._shards.read(topic_partition, lambda shard, _: shard.list_groups(states, types))
        return listed

    async def describe_group(self, group_id: str, api_version: int) -> DescribedGroup:
        return await self._shards.read(self._shard_of(group_id), lambda shard, _: shard.describe_group(group_id, api_version))

    async def delete_group(self, group_id: str) -> DeletableGroupResult:
        self._check_group_id(group_id)
        results = await self._shards.write(self._shard_of(group_id), lambda shard, _: shard.delete_groups([group_id]))
        return results[0]

    @staticmethod
    def _check_group_id(group_id: str) -> None:
        if not group_id:
            raise ApiException(Errors.INVALID_GROUP_ID)


def _once(complete: Callable[[R], None], is_done: Callable[[], bool]) -> Callable[[R], None]:
    """`complete`, ignored when the waiter is gone or was answered."""

    def run(value: R) -> None:
        if not is_done():
            complete(value)

    return run
