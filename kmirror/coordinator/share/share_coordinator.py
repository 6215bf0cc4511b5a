"""The share coordinator of one broker: it keeps the state of share partitions (Kafka's
`ShareCoordinatorService`, KIP-932).

The state of (group, topic id, partition) lives in the `__share_group_state` partition that the text
`group:topicId:partition` hashes to, at the broker that leads it. The topic is never compacted: a
snapshot makes older records superfluous, and every
`share.coordinator.state.topic.prune.interval.ms` the log start is raised to the lowest snapshot
that is still needed. Share partitions that are not written would hold it back, so they get a new
snapshot every `share.coordinator.cold.partition.snapshot.interval.ms`. Both rounds run while
`share.version` is on. The states of deleted topics are removed when the deletion is seen, or when
their log is loaded after it.

A request names many share partitions, each with its own answer; a request that is invalid as a
whole (no group, no topic) gets an empty answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from kmirror.common.errors import ApiException, Errors
from kmirror.common.java_hash_map import java_hash_map_order, java_uuid_hash
from kmirror.common.metrics import MetricsRegistry
from kmirror.common.topic_partition import SHARE_GROUP_STATE_TOPIC_NAME, TopicPartition, partition_for
from kmirror.common.uuid import Uuid
from kmirror.coordinator.common.coordinator_runtime import CoordinatorRuntime, CoordinatorState
from kmirror.coordinator.common.coordinator_runtime_metrics import CoordinatorRuntimeMetrics
from kmirror.coordinator.common.coordinator_shard import CoordinatorResult
from kmirror.coordinator.common.partition_log import PartitionLog
from kmirror.coordinator.group.classic_rebalance import append_error
from kmirror.coordinator.share.share_coordinator_config import ShareCoordinatorConfig
from kmirror.coordinator.share.share_coordinator_metrics import TYPE, ShareCoordinatorMetrics
from kmirror.coordinator.share.share_coordinator_shard import ShareCoordinatorShard
from kmirror.coordinator.share.share_partition_key import SharePartitionKey
from kmirror.metadata.delta import MetadataDelta
from kmirror.metadata.features import SHARE_VERSION
from kmirror.metadata.image import MetadataImage
from kmirror.runtime.api import Runtime, TaskScope, run_together
from kmirror.runtime.supervision import Supervised
from kmirror.wire.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)


class _Result(Protocol):
    def __init__(self, *, partition: int, error_code: int = ..., error_message: str | None = ...) -> None: ...


R = TypeVar("R", bound=_Result)
Ask = Callable[[TopicPartition, SharePartitionKey, Any], Awaitable[R]]


class ShareCoordinator:
    """`on_metadata_update` follows the leadership of `__share_group_state`; `start` begins the
    rounds; the other methods answer requests."""

    def __init__(
        self,
        runtime: Runtime,
        config: ShareCoordinatorConfig,
        *,
        log: PartitionLog,
        broker_id: int,
        metrics: MetricsRegistry,
    ) -> None:
        self._runtime = runtime
        self._config = config
        self._log = log
        self._broker_id = broker_id
        self._image = MetadataImage.EMPTY
        self._topic_id = Uuid.ZERO
        self._partition_count = 0
        self._pruned: dict[TopicPartition, int] = {}
        self._metrics = ShareCoordinatorMetrics(metrics)
        self._scope = TaskScope(runtime, "share-coordinator")
        self._shards: CoordinatorRuntime[ShareCoordinatorShard] = CoordinatorRuntime(
            runtime,
            name="share-coordinator-shards",
            log=log,
            shard_factory=lambda context: ShareCoordinatorShard(config, self._topic_partition_count, self._metrics.written),
            write_timeout_ms=config.write_timeout_ms,
            on_state_change=self._on_state_change,
            metrics=CoordinatorRuntimeMetrics(metrics, TYPE),
        )

    def _topic_partition_count(self, topic_id: Uuid) -> int | None:
        topic = self._image.topics.topic_by_id(topic_id)
        return None if topic is None else len(topic.partitions)

    # -- start and stop ----------------------------------------------------------------------------

    def start(self) -> None:
        for name, rounds in (("prune", self._prune_rounds), ("cold-snapshots", self._cold_snapshot_rounds)):
            self._scope.spawn(Supervised(self._runtime, rounds, name=f"share-coordinator/{name}").run(), name=name)

    async def shutdown(self) -> None:
        await self._scope.cancel()
        await self._shards.shutdown()

    def on_metadata_update(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Loads the shards whose partitions this broker leads, drops the others, and removes the
        states of deleted topics."""
        self._image = image
        deleted = list(delta.topics.deleted_ids)
        if deleted:
            self._shards.run_everywhere("on-topics-deleted", lambda shard: shard.on_topics_deleted(deleted))
        topic = image.topics.topic(SHARE_GROUP_STATE_TOPIC_NAME)
        if topic is None or topic.id != self._topic_id:  # or it was deleted and created again at once
            for topic_partition in self._shards.partitions():
                self._pruned.pop(topic_partition, None)
                self._shards.schedule_unload(topic_partition)
        self._topic_id = Uuid.ZERO if topic is None else topic.id
        partitions = {} if topic is None else topic.partitions
        for number in range(max(self._partition_count, len(partitions))):
            topic_partition = TopicPartition(SHARE_GROUP_STATE_TOPIC_NAME, number)
            registration = partitions.get(number)
            if registration is not None and registration.leader == self._broker_id:
                self._shards.schedule_load(topic_partition, registration.leader_epoch)
            else:
                self._pruned.pop(topic_partition, None)
                self._shards.schedule_unload(topic_partition, None if registration is None else registration.leader_epoch)
        self._partition_count = len(partitions)

    def _on_state_change(self, topic_partition: TopicPartition, state: CoordinatorState) -> None:
        if state is CoordinatorState.ACTIVE and not self._scope.closed:
            self._shards.run(topic_partition, "forget-deleted-topics", self._forget_deleted_topics)

    def _forget_deleted_topics(self, shard: ShareCoordinatorShard) -> CoordinatorResult[None]:
        """Removes states of topics that were deleted while nobody led the shard's partition."""
        topic_ids = {key.topic_id: None for key in shard.states()}
        return shard.on_topics_deleted([topic_id for topic_id in topic_ids if self._topic_partition_count(topic_id) is None])

    def partition_for(self, key: SharePartitionKey) -> TopicPartition:
        """Returns the partition that keeps the state of `key`; raises NOT_COORDINATOR, as
        Kafka does, while the topic does not exist."""
        if self._partition_count == 0:
            raise ApiException(Errors.NOT_COORDINATOR)
        return TopicPartition(SHARE_GROUP_STATE_TOPIC_NAME, partition_for(str(key), self._partition_count))

    # -- periodic rounds ---------------------------------------------------------------------------

    @property
    def _is_enabled(self) -> bool:
        return self._image.features.level(SHARE_VERSION) > 0

    async def _prune_rounds(self) -> None:
        while True:
            await self._runtime.sleep_ms(self._config.prune_interval_ms)
            for topic_partition in self._shards.active_partitions() if self._is_enabled else ():
                await self.prune(topic_partition)

    async def prune(self, topic_partition: TopicPartition) -> None:
        """Deletes records that newer snapshots have made superfluous; after a failure the next
        round does it."""
        try:
            offset = await self._shards.read(topic_partition, lambda shard, _: shard.last_redundant_offset())
            if offset is None or self._pruned.get(topic_partition) == offset:
                return
            await self._log.delete_records(topic_partition, offset)
        except ApiException:
            return
        self._pruned[topic_partition] = offset
        self._metrics.pruned(topic_partition, offset)

    async def _cold_snapshot_rounds(self) -> None:
        while True:
            await self._runtime.sleep_ms(self._config.cold_partition_snapshot_interval_ms)
            if self._is_enabled:
                await self.snapshot_cold_partitions()

    async def snapshot_cold_partitions(self) -> None:
        """Runs one round over all shards; snapshots that cannot be written now are written in the
        next round."""
        for topic_partition in self._shards.active_partitions():
            try:
                await self._shards.write(topic_partition, lambda shard, now_ms: shard.snapshot_cold_partitions(now_ms))
            except ApiException:
                continue

    # -- requests ----------------------------------------------------------------------------------

    async def initialize_state(
        self, request: initialize_share_group_state.InitializeShareGroupStateRequest
    ) -> initialize_share_group_state.InitializeShareGroupStateResponse:
        async def ask(
            where: TopicPartition, key: SharePartitionKey, data: initialize_share_group_state.PartitionData
        ) -> initialize_share_group_state.PartitionResult:
            return await self._shards.write(where, lambda shard, now_ms: shard.initialize(key, data, now_ms))

        module = initialize_share_group_state
        answers = await self._each(request, ask, module.PartitionResult, "Unable to initialize share group state")
        return module.InitializeShareGroupStateResponse(results=[module.InitializeStateResult(*answer) for answer in answers])

    async def write_state(
        self, request: write_share_group_state.WriteShareGroupStateRequest
    ) -> write_share_group_state.WriteShareGroupStateResponse:
        async def ask(
            where: TopicPartition, key: SharePartitionKey, data: write_share_group_state.PartitionData
        ) -> write_share_group_state.PartitionResult:
            return await self._shards.write(where, lambda shard, now_ms: shard.write(key, data, now_ms))

        module = write_share_group_state
        started_ms = self._runtime.clock.monotonic_ms()
        answers = await self._each(request, ask, module.PartitionResult, "Unable to write share group state")
        if answers:
            self._metrics.write_took(self._runtime.clock.monotonic_ms() - started_ms)
        return module.WriteShareGroupStateResponse(results=[module.WriteStateResult(*answer) for answer in answers])

    async def read_state(
        self, request: read_share_group_state.ReadShareGroupStateRequest
    ) -> read_share_group_state.ReadShareGroupStateResponse:
        async def ask(
            where: TopicPartition, key: SharePartitionKey, data: read_share_group_state.PartitionData
        ) -> read_share_group_state.PartitionResult:
            return await self._shards.write(where, lambda shard, now_ms: shard.read(key, data, now_ms))

        module = read_share_group_state
        answers = await self._each(request, ask, module.PartitionResult, "Unable to read share group state")
        return module.ReadShareGroupStateResponse(results=[module.ReadStateResult(*answer) for answer in answers])

    async def read_state_summary(
        self, request: read_share_group_state_summary.ReadShareGroupStateSummaryRequest
    ) -> read_share_group_state_summary.ReadShareGroupStateSummaryResponse:
        async def ask(where: TopicPartition, key: SharePartitionKey, data: Any) -> read_share_group_state_summary.PartitionResult:
            return await self._shards.read(where, lambda shard, _: shard.read_summary(key))

        module = read_share_group_state_summary
        answers = await self._each(request, ask, module.PartitionResult, "Unable to read share group state summary")
        return module.ReadShareGroupStateSummaryResponse(results=[module.ReadStateSummaryResult(*answer) for answer in answers])

    async def delete_state(
        self, request: delete_share_group_state.DeleteShareGroupStateRequest
    ) -> delete_share_group_state.DeleteShareGroupStateResponse:
        async def ask(where: TopicPartition, key: SharePartitionKey, data: Any) -> delete_share_group_state.PartitionResult:
            return await self._shards.write(where, lambda shard, _: shard.delete(key))

        module = delete_share_group_state
        answers = await self._each(request, ask, module.PartitionResult, "Unable to delete share group state")
        return module.DeleteShareGroupStateResponse(results=[module.DeleteStateResult(*answer) for answer in answers])

    async def _each(self, request: Any, ask: Ask[R], result: type[R], failed: str) -> list[tuple[Uuid, list[R]]]:
        """Calls `ask` for all share partitions at the same time; returns the answers in Kafka's
        order."""
        if not request.group_id or not request.topics or not all(topic.partitions for topic in request.topics):
            return []
        wanted: dict[Uuid, dict[int, Any]] = {}
        for topic in request.topics:
            wanted.setdefault(topic.topic_id, {}).update({data.partition: data for data in topic.partitions})

        async def one(key: SharePartitionKey, data: Any) -> R:
            try:
                return await ask(self.partition_for(key), key, data)
            except ApiException as error:
                told = append_error(error.error)
                return result(partition=key.partition, error_code=told, error_message=f"{failed}: {error.message}")

        keys = [
            SharePartitionKey(request.group_id, topic_id, number)
            for topic_id in java_hash_map_order(wanted, java_uuid_hash)
            for number in java_hash_map_order(wanted[topic_id], lambda number: number & 0xFFFFFFFF)
        ]
        asked = [one(key, wanted[key.topic_id][key.partition]) for key in keys]
        answers: dict[Uuid, list[R]] = {}
        for key, answer in zip(keys, await run_together(self._runtime, "share-partitions", asked), strict=True):
            answers.setdefault(key.topic_id, []).append(answer)
        return list(answers.items())
