"""MirrorCoordinator: where the states of mirror partitions are kept (the KIP's MC).

The state of (mirror, topic id, partition) lives in the `__mirror_state` partition that the composite key hashes to (A6);
the leader of that partition is its coordinator. `MirrorCoordinator` is the part that runs on the coordinator's broker: it
loads and unloads shards on leader changes and answers ReadMirrorStates and WriteMirrorStates. `MirrorStateClient` is what
a partition's leader uses: it finds the coordinator and asks it, itself when that is this broker. An error in an answer is
an `ApiException`; COORDINATOR_NOT_AVAILABLE and its like mean "ask again".

Not in a shard's reach: the log of `__mirror_state` is never compacted (C1), so a shard replays everything ever written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import MIRROR_STATE_TOPIC_NAME, TopicPartition, partition_for
from kmirror.common.uuid import Uuid
from kmirror.coordinator.common.coordinator_runtime import CoordinatorRuntime, CoordinatorState
from kmirror.coordinator.common.coordinator_shard import CoordinatorResult
from kmirror.coordinator.common.partition_log import PartitionLog
from kmirror.metadata.image import MetadataImage
from kmirror.mirror.mirror_coordinator_shard import MirrorCoordinatorShard, PartitionKey, StateWrite, StoredState
from kmirror.mirror.mirror_state_machine import MirrorPartitionState
from kmirror.mirror.ports import BrokerChannel
from kmirror.network.client import DisconnectError, RequestTimeoutError, UnsupportedVersionError
from kmirror.runtime.api import Runtime, TaskScope
from kmirror.wire.messages import read_mirror_states, write_mirror_states


def coordinator_key(mirror_name: str, topic_id: Uuid, partition: int) -> str:
    """The string whose hash places a mirror partition, and FindCoordinator's key of type 3."""
    return f"{mirror_name}:{topic_id}:{partition}"


class MirrorPartitionId(NamedTuple):
    """A mirrored partition, addressed."""

    mirror_name: str
    topic: str
    topic_id: Uuid
    partition: int

    @property
    def key(self) -> PartitionKey:
        return (self.topic, self.partition)

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class MirrorCoordinator:
    """The coordinator's side on one broker."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        log: PartitionLog,
        image: Callable[[], MetadataImage],
        broker_id: int,
        request_timeout_ms: int,
    ) -> None:
        self._image = image
        self._broker_id = broker_id
        self._scope = TaskScope(runtime, "mirror-coordinator")
        self._runtime = runtime
        self._shards: CoordinatorRuntime[MirrorCoordinatorShard] = CoordinatorRuntime(
            runtime,
            name="mirror-coordinator-shards",
            log=log,
            shard_factory=lambda context: MirrorCoordinatorShard(),
            write_timeout_ms=request_timeout_ms,
            flush_single_replica=True,
            on_state_change=self._on_shard_state,
        )

    def state_partition(self, mirror_name: str, topic_id: Uuid, partition: int) -> TopicPartition:
        """The `__mirror_state` partition of a mirror partition; COORDINATOR_NOT_AVAILABLE while the topic does not exist."""
        return self._state_partition_of(coordinator_key(mirror_name, topic_id, partition))

    def sync_owner(self, mirror_name: str) -> int:
        """The broker that syncs a mirror's metadata: leader of the partition its name hashes to; -1 if there is none."""
        try:
            partition = self._state_partition_of(mirror_name)
        except ApiException:
            return -1
        registration = self._image().topics.partition(partition.topic, partition.partition)
        return -1 if registration is None else registration.leader

    def coordinator_broker(self, partition: MirrorPartitionId) -> int:
        """The broker that coordinates `partition`; COORDINATOR_NOT_AVAILABLE if its log has no leader."""
        where = self.state_partition(partition.mirror_name, partition.topic_id, partition.partition)
        registration = self._image().topics.partition(where.topic, where.partition)
        if registration is None or not registration.has_leader:
            raise ApiException(Errors.COORDINATOR_NOT_AVAILABLE)
        return registration.leader

    def on_metadata_update(self, image: MetadataImage, *, mirrors_deleted: bool) -> None:
        """Load what this broker leads, unload what it does not (level-triggered)."""
        topic = image.topics.topic(MIRROR_STATE_TOPIC_NAME)
        for number, registration in sorted(topic.partitions.items()) if topic is not None else ():
            topic_partition = TopicPartition(MIRROR_STATE_TOPIC_NAME, number)
            if registration.leader == self._broker_id:
                self._shards.schedule_load(topic_partition, registration.leader_epoch)
            else:
                self._shards.schedule_unload(topic_partition, registration.leader_epoch)
        if topic is None:
            for topic_partition in self._shards.active_partitions():
                self._shards.schedule_unload(topic_partition)
        if mirrors_deleted:
            for topic_partition in self._shards.active_partitions():
                self._delete_unknown_mirrors(topic_partition)

    async def read_states(self, mirror_name: str, partitions: Iterable[PartitionKey]) -> dict[PartitionKey, StoredState | Errors]:
        """Answer ReadMirrorStates for partitions that this broker coordinates; an error for each other one."""
        result: dict[PartitionKey, StoredState | Errors] = {}
        for where, keys in self._by_state_partition(mirror_name, partitions, result).items():
            try:
                found = await self._shards.read(where, partial(_read_shard, mirror_name, keys))
            except ApiException as error:
                result.update(dict.fromkeys(keys, error.error))
            else:
                result.update(found)
        return result

    async def write_states(
        self, mirror_name: str, writes: Iterable[StateWrite], removed_topics: Iterable[str] = ()
    ) -> dict[PartitionKey, Errors]:
        """Answer WriteMirrorStates. `removed_topics` are dropped from every shard of this broker."""
        result: dict[PartitionKey, Errors] = {}
        by_key = {(write.topic, write.partition): write for write in writes}
        removed = sorted(removed_topics)
        groups = self._by_state_partition(mirror_name, by_key, result)
        if removed:
            for where in self._shards.active_partitions():
                groups.setdefault(where, [])
        for where, keys in groups.items():
            batch = [by_key[key] for key in keys]
            try:
                written: dict[PartitionKey, Errors] = await self._shards.write(where, partial(_write_shard, mirror_name, batch, removed))
                result.update(written)
                if removed:
                    await self._shards.read(where, lambda shard, now_ms: shard.drop_topics(mirror_name, removed))
            except ApiException as error:
                result.update(dict.fromkeys(keys, error.error))
        return result

    async def shutdown(self) -> None:
        await self._scope.cancel()
        await self._shards.shutdown()

    def _state_partition_of(self, key: str) -> TopicPartition:
        topic = self._image().topics.topic(MIRROR_STATE_TOPIC_NAME)
        if topic is None or not topic.partitions:
            raise ApiException(Errors.COORDINATOR_NOT_AVAILABLE, f"{MIRROR_STATE_TOPIC_NAME} does not exist")
        return TopicPartition(MIRROR_STATE_TOPIC_NAME, partition_for(key, len(topic.partitions)))

    def _by_state_partition(
        self,
        mirror_name: str,
        partitions: Iterable[PartitionKey],
        result: dict[PartitionKey, StoredState | Errors] | dict[PartitionKey, Errors],
    ) -> dict[TopicPartition, list[PartitionKey]]:
        groups: dict[TopicPartition, list[PartitionKey]] = {}
        image = self._image()
        for topic_name, number in partitions:
            topic = image.topics.topic(topic_name)
            if topic is None:
                result[topic_name, number] = Errors.UNKNOWN_TOPIC_OR_PARTITION
                continue
            try:
                where = self.state_partition(mirror_name, topic.id, number)
            except ApiException as error:
                result[topic_name, number] = error.error
                continue
            groups.setdefault(where, []).append((topic_name, number))
        return groups

    def _on_shard_state(self, topic_partition: TopicPartition, state: CoordinatorState) -> None:
        if state is CoordinatorState.ACTIVE:
            self._delete_unknown_mirrors(topic_partition)

    def _delete_unknown_mirrors(self, topic_partition: TopicPartition) -> None:
        """D3-33: tombstones for mirrors that metadata no longer knows, also when they were deleted while nobody led the partition."""
        if not self._scope.closed:
            self._scope.spawn(self._tombstone(topic_partition), name=f"delete-{topic_partition}")

    async def _tombstone(self, topic_partition: TopicPartition) -> None:
        try:
            stored = await self._shards.read(topic_partition, lambda shard, now_ms: shard.mirror_names())
            known = set(self._image().configs.mirror_names())
            for mirror_name in stored:
                if mirror_name not in known:
                    await self._shards.write(topic_partition, partial(_delete_in_shard, mirror_name))
        except ApiException as error:
            if error.error not in (Errors.NOT_COORDINATOR, Errors.COORDINATOR_LOAD_IN_PROGRESS, Errors.COORDINATOR_NOT_AVAILABLE):
                self._runtime.report_failure(f"tombstones of deleted mirrors in {topic_partition}", error)


class MirrorStateClient:
    """Reads and writes the states of partitions at their coordinators, wherever these are (batched per coordinator, RS10)."""

    def __init__(self, coordinator: MirrorCoordinator, brokers: BrokerChannel, *, broker_id: int) -> None:
        self._coordinator = coordinator
        self._brokers = brokers
        self._broker_id = broker_id

    async def read(self, partitions: Iterable[MirrorPartitionId]) -> dict[PartitionKey, StoredState | Errors]:
        """What is stored of partitions of one mirror; an error code for those whose coordinator could not tell."""
        result: dict[PartitionKey, StoredState | Errors] = {}
        for broker_id, group in self._by_coordinator(partitions, result).items():
            mirror_name = group[0].mirror_name
            keys = [partition.key for partition in group]
            try:
                if broker_id == self._broker_id:
                    result.update(await self._coordinator.read_states(mirror_name, keys))
                else:
                    result.update(_read_response(await self._brokers.send(broker_id, _read_request(mirror_name, keys))))
            except ApiException as error:
                result.update(dict.fromkeys(keys, error.error))
            except (DisconnectError, RequestTimeoutError, UnsupportedVersionError):
                result.update(dict.fromkeys(keys, Errors.COORDINATOR_NOT_AVAILABLE))
        return result

    async def read_one(self, partition: MirrorPartitionId) -> StoredState:
        """As `read`, raising the error."""
        found = (await self.read([partition])).get(partition.key, Errors.COORDINATOR_NOT_AVAILABLE)
        if isinstance(found, Errors):
            raise ApiException(found)
        return found

    async def write_one(self, partition: MirrorPartitionId, write: StateWrite) -> None:
        """Store a state or an epoch; returns when it is committed. ApiException INVALID_REQUEST: the transition is not valid."""
        broker_id = self._coordinator.coordinator_broker(partition)
        if broker_id == self._broker_id:
            result = await self._coordinator.write_states(partition.mirror_name, [write])
        else:
            request = _write_request(partition.mirror_name, [write])
            result = _write_response(await self._brokers.send(broker_id, request))
        error = result.get(partition.key, Errors.COORDINATOR_NOT_AVAILABLE)
        if error is not Errors.NONE:
            raise ApiException(error)

    async def remove_topic(self, mirror_name: str, topic: str, brokers: Iterable[int]) -> None:
        """D3-34: tell every broker to forget a deleted topic."""
        request = write_mirror_states.WriteMirrorStatesRequest(mirror_name=mirror_name, removed_topics=[topic])
        for broker_id in brokers:
            if broker_id == self._broker_id:
                await self._coordinator.write_states(mirror_name, [], [topic])
            else:
                await self._brokers.send(broker_id, request)

    def _by_coordinator(
        self, partitions: Iterable[MirrorPartitionId], result: dict[PartitionKey, StoredState | Errors]
    ) -> dict[int, list[MirrorPartitionId]]:
        groups: dict[int, list[MirrorPartitionId]] = {}
        for partition in partitions:
            try:
                groups.setdefault(self._coordinator.coordinator_broker(partition), []).append(partition)
            except ApiException as error:
                result[partition.key] = error.error
        return groups


def _read_shard(mirror_name: str, keys: list[PartitionKey], shard: MirrorCoordinatorShard, now_ms: int) -> dict[PartitionKey, StoredState]:
    return shard.read(mirror_name, keys)


def _write_shard(
    mirror_name: str, writes: list[StateWrite], removed_topics: list[str], shard: MirrorCoordinatorShard, now_ms: int
) -> CoordinatorResult[dict[PartitionKey, Errors]]:
    return shard.write(mirror_name, writes, removed_topics)


def _delete_in_shard(mirror_name: str, shard: MirrorCoordinatorShard, now_ms: int) -> CoordinatorResult[None]:
    return shard.delete_mirror(mirror_name)


def _read_request(mirror_name: str, keys: Iterable[PartitionKey]) -> read_mirror_states.ReadMirrorStatesRequest:
    topics: dict[str, list[read_mirror_states.PartitionData]] = {}
    for topic, partition in keys:
        topics.setdefault(topic, []).append(read_mirror_states.PartitionData(partition_index=partition))
    data = [read_mirror_states.TopicData(name=name, partitions=partitions) for name, partitions in topics.items()]
    return read_mirror_states.ReadMirrorStatesRequest(mirror_name=mirror_name, topics=data)


def _read_response(response: read_mirror_states.ReadMirrorStatesResponse) -> Mapping[PartitionKey, StoredState | Errors]:
    if response.error_code:
        raise ApiException(Errors.for_code(response.error_code), response.error_message)
    result: dict[PartitionKey, StoredState | Errors] = {}
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code:
                result[topic.name, partition.partition_index] = Errors.for_code(partition.error_code)
            else:
                state = MirrorPartitionState.from_byte(partition.state)
                result[topic.name, partition.partition_index] = StoredState(state, partition.last_mirror_epoch)
    return result


def _write_request(mirror_name: str, writes: Iterable[StateWrite]) -> write_mirror_states.WriteMirrorStatesRequest:
    topics: dict[str, list[write_mirror_states.PartitionData]] = {}
    for write in writes:
        data = write_mirror_states.PartitionData(
            partition_index=write.partition, last_mirror_epoch=write.last_mirror_epoch, state=int(write.state)
        )
        topics.setdefault(write.topic, []).append(data)
    return write_mirror_states.WriteMirrorStatesRequest(
        mirror_name=mirror_name,
        topics=[write_mirror_states.TopicData(name=name, partitions=partitions) for name, partitions in topics.items()],
    )


def _write_response(response: write_mirror_states.WriteMirrorStatesResponse) -> dict[PartitionKey, Errors]:
    if response.error_code:
        raise ApiException(Errors.for_code(response.error_code), response.error_message)
    return {
        (topic.name, partition.partition_index): Errors.for_code(partition.error_code)
        for topic in response.topics
        for partition in topic.partitions
    }
