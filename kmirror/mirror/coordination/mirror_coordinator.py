"""MirrorCoordinator: keeps the states of mirror partitions (the KIP's MC).

The state of (mirror, topic id, partition) lives in the `__mirror_state` partition that the
composite key hashes to; the leader of that partition is its coordinator (A6). `MirrorCoordinator`
is the part that runs on the coordinator's broker: it loads and unloads shards on leader changes and
answers ReadMirrorStates and WriteMirrorStates (`mirror_state_client` is the other end).

A request's partitions are spread over many `__mirror_state` partitions. Each of these gets one
batch of records for its whole part of the request, and all of them are awaited together, not one
after the other. Writes of last mirror epochs are decided separately from writes of states: the
epochs' record carries the mirror's whole map. When that grows beyond max.message.bytes, the write
of an epoch is refused and its partition stays STOPPING, but no other partition's state has to wait
(C26).

States are placed by the number of partitions that `__mirror_state` was created with. An internal
config of the topic records that number: the controller writes it when it creates the topic, or the
leader of partition 0 does if an older version created it (`mirror_metadata_manager`). Until then,
the number that this broker saw first counts. If the topic was grown anyway (the controller refuses
that), all states stay where they are, and the log says so.

The log of `__mirror_state` is never compacted, so a shard replays everything ever written (C1).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from kmirror.common.errors import ApiException, Errors
from kmirror.common.lasting_conditions import LastingConditions
from kmirror.common.sentinels import NO_LAST_MIRROR_EPOCH
from kmirror.common.topic_partition import MIRROR_STATE_TOPIC_NAME, TopicPartition, partition_for
from kmirror.common.uuid import Uuid
from kmirror.coordinator.common.coordinator_runtime import NO_FAILURE, CoordinatorRuntime, CoordinatorState
from kmirror.coordinator.common.coordinator_shard import CoordinatorResult
from kmirror.coordinator.common.partition_log import PartitionLog
from kmirror.metadata.image import MetadataImage, TopicImage
from kmirror.metadata.mirror_names import MIRROR_NAME_CONFIG, MIRROR_STATE_PARTITIONS_CONFIG, association_of, is_unclean_election_supported
from kmirror.mirror.coordination.mirror_coordinator_shard import MirrorCoordinatorShard, PartitionKey, StateWrite, StoredState
from kmirror.mirror.coordination.mirror_partition_id import MirrorPartitionId, coordinator_key
from kmirror.mirror.coordination.state_offset_tag import ANY_LEADER_EPOCH
from kmirror.mirror.mirror_state_machine import MirrorPartitionState
from kmirror.runtime.api import Runtime, TaskScope, run_together
from kmirror.runtime.supervision import Supervised

TOMBSTONE_BACKOFF_MS = 500

_log = logging.getLogger(__name__)


class MirrorCoordinator:
    """The coordinator's side on one broker: owns its shards, and deletes the states of ended
    mirrors.
    """

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
        self._state_topic: TopicImage | None = None
        self._seen_first: tuple[Uuid, int] | None = None
        self._is_growth_told = False
        self._ended: dict[TopicPartition, set[str]] = {}
        self._scope = TaskScope(runtime, "mirror-coordinator")
        self._runtime = runtime
        self._conditions = LastingConditions(_log, runtime.clock.monotonic_ms)
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
        """The `__mirror_state` partition of a mirror partition; COORDINATOR_NOT_AVAILABLE while the
        topic does not exist.
        """
        return self.state_partition_of(coordinator_key(mirror_name, topic_id, partition))

    def sync_owner(self, mirror_name: str) -> int:
        """The broker that syncs a mirror's metadata: leader of the partition its name hashes to; -1
        if there is none.
        """
        try:
            partition = self.state_partition_of(mirror_name)
        except ApiException:
            return -1
        registration = self._image().topics.partition(partition.topic, partition.partition)
        return -1 if registration is None else registration.leader

    def coordinator_broker(self, partition: MirrorPartitionId) -> int:
        """The broker that coordinates `partition`; COORDINATOR_NOT_AVAILABLE if its log has no
        leader.
        """
        where = self.state_partition(partition.mirror_name, partition.topic_id, partition.partition)
        registration = self._image().topics.partition(where.topic, where.partition)
        if registration is None or not registration.has_leader:
            raise ApiException(Errors.COORDINATOR_NOT_AVAILABLE)
        return registration.leader

    def on_metadata_update(self, image: MetadataImage, *, ended_mirrors: Iterable[str]) -> None:
        """Load what this broker leads, unload what it does not (level-triggered; nothing to do
        while `__mirror_state` is the same). `ended_mirrors`: mirrors that were deleted, even if
        metadata has a new mirror of that name by now.
        """
        topic = image.topics.topic(MIRROR_STATE_TOPIC_NAME)
        if topic is not self._state_topic:
            self._state_topic = topic
            self._note_partition_count(topic)
            self._follow_leaders(topic)
        ended = frozenset(ended_mirrors)
        if ended:
            for topic_partition in self._shards.partitions():
                self._ended.setdefault(topic_partition, set()).update(ended)
            for topic_partition in self._shards.active_partitions():
                self._delete_ended_mirrors(topic_partition)

    @property
    def unrecorded_partition_count(self) -> int | None:
        """The partition count that states are placed by, if the topic's config does not record it;
        None if it does, or if there is no topic.
        """
        topic = self._image().topics.topic(MIRROR_STATE_TOPIC_NAME)
        return None if topic is None or _recorded_partition_count(self._image()) is not None else self._partition_count(topic)

    def _note_partition_count(self, topic: TopicImage | None) -> None:
        if topic is None or not topic.partitions:
            return
        if self._seen_first is None or self._seen_first[0] != topic.id:
            self._seen_first, self._is_growth_told = (topic.id, len(topic.partitions)), False
        count = self._partition_count(topic)
        if count != len(topic.partitions) and not self._is_growth_told:
            self._is_growth_told = True
            _log.error(
                "%s has %d partitions but was created with %d. The states of mirrors stay in those; the other partitions are not used",
                MIRROR_STATE_TOPIC_NAME,
                len(topic.partitions),
                count,
            )

    def _partition_count(self, topic: TopicImage) -> int:
        """The partition count that states are placed by."""
        recorded = _recorded_partition_count(self._image())
        if recorded is not None:
            return recorded
        seen = self._seen_first
        return seen[1] if seen is not None and seen[0] == topic.id else len(topic.partitions)

    def _follow_leaders(self, topic: TopicImage | None) -> None:
        if topic is None:
            self._ended.clear()
            for topic_partition in self._shards.partitions():
                self._shards.schedule_unload(topic_partition)
            return
        for number, registration in sorted(topic.partitions.items()):
            topic_partition = TopicPartition(MIRROR_STATE_TOPIC_NAME, number)
            if registration.leader == self._broker_id:
                self._shards.schedule_load(topic_partition, registration.leader_epoch)
            else:
                self._ended.pop(topic_partition, None)
                self._shards.schedule_unload(topic_partition, registration.leader_epoch)

    async def read_states(self, mirror_name: str, partitions: Iterable[PartitionKey]) -> dict[PartitionKey, StoredState | Errors]:
        """Answers ReadMirrorStates for the partitions that this broker coordinates; every other
        partition gets an error.
        """
        result: dict[PartitionKey, StoredState | Errors] = {}
        groups = self._by_state_partition(mirror_name, partitions, result)
        reads = [self._read_group(mirror_name, where, keys) for where, keys in groups.items()]
        for found in await run_together(self._runtime, "read-mirror-states", reads):
            result.update(found)
        return result

    async def _read_group(
        self, mirror_name: str, where: TopicPartition, keys: list[PartitionKey]
    ) -> dict[PartitionKey, StoredState] | dict[PartitionKey, Errors]:
        try:
            self._check_not_ended(mirror_name, where)
            return await self._shards.read(where, partial(_read_shard, mirror_name, keys))
        except ApiException as error:
            return dict.fromkeys(keys, error.error)

    async def write_states(
        self,
        mirror_name: str,
        writes: Iterable[StateWrite],
        removed_topics: Iterable[str] = (),
        *,
        offsets: dict[PartitionKey, int] | None = None,
    ) -> dict[PartitionKey, Errors]:
        """Answer WriteMirrorStates.

        `removed_topics` are dropped from every shard of this broker, after the writes. For each
        partition that was written, `offsets` receives the offset that its next write must follow.
        """
        result: dict[PartitionKey, Errors] = {}
        by_key = {(write.topic, write.partition): write for write in writes}
        groups = self._by_state_partition(mirror_name, by_key, result)
        batches = []
        for where, keys in groups.items():
            for with_epoch in (False, True):
                batch = [by_key[key] for key in keys if (by_key[key].last_mirror_epoch != NO_LAST_MIRROR_EPOCH) is with_epoch]
                if batch:
                    batches.append(self._write_group(mirror_name, where, batch, offsets))
        for written in await run_together(self._runtime, "write-mirror-states", batches):
            result.update(written)
        removed = sorted(removed_topics)
        if removed:
            removals = [self._remove_topics(mirror_name, where, removed) for where in self._shards.active_partitions()]
            await run_together(self._runtime, "remove-mirror-topics", removals)
        return result

    async def _write_group(
        self, mirror_name: str, where: TopicPartition, writes: list[StateWrite], offsets: dict[PartitionKey, int] | None
    ) -> dict[PartitionKey, Errors]:
        deposed = {(write.topic, write.partition): Errors.INVALID_REQUEST for write in writes if self._is_of_deposed_leader(write)}
        writes = [write for write in writes if (write.topic, write.partition) not in deposed]
        try:
            self._check_not_ended(mirror_name, where)
            return deposed | await self._shards.write(where, partial(self._write_shard, mirror_name, writes, [], offsets))
        except ApiException as error:
            if error.error is Errors.RECORD_LIST_TOO_LARGE:
                _log.error("mirror %s: the last mirror epochs do not fit into a record of %s: %s", mirror_name, where, error.message)
            return deposed | {(write.topic, write.partition): error.error for write in writes}

    def _is_of_deposed_leader(self, write: StateWrite) -> bool:
        """Whether the sender has lost the leadership without knowing it yet: another broker leads
        the partition, or the sender leads it again in a later epoch (D3-26).
        """
        registration = self._image().topics.partition(write.topic, write.partition)
        return registration is not None and ANY_LEADER_EPOCH < write.leader_epoch < registration.leader_epoch

    def _write_shard(
        self,
        mirror_name: str,
        writes: list[StateWrite],
        removed_topics: list[str],
        offsets: dict[PartitionKey, int] | None,
        shard: MirrorCoordinatorShard,
        now_ms: int,
    ) -> CoordinatorResult[dict[PartitionKey, Errors]]:
        return shard.write(
            mirror_name,
            writes,
            removed_topics,
            may_prepare=partial(self._may_prepare, mirror_name),
            is_in_mirror=partial(self._is_in_mirror, mirror_name),
            offsets=offsets,
        )

    def _is_in_mirror(self, mirror_name: str, topic: str) -> bool:
        image = self._image()
        association = None if image.topics.topic(topic) is None else association_of(image.configs.topic(topic))
        return association is not None and association.mirror_name == mirror_name

    def _may_prepare(self, mirror_name: str, topic: str, current: MirrorPartitionState) -> bool:
        """Whether metadata has a reason for PREPARING: an operator who adds a stopped topic (D3-4),
        or an unclean election where that is supported (D3-31).
        """
        configs = self._image().configs.topic(topic)
        if current is MirrorPartitionState.STOPPED:
            return configs.get(MIRROR_NAME_CONFIG) == mirror_name
        return is_unclean_election_supported(configs)

    async def _remove_topics(self, mirror_name: str, where: TopicPartition, topics: list[str]) -> None:
        try:
            await self._shards.write(where, partial(self._write_shard, mirror_name, [], topics, None))
            self._conditions.end((mirror_name, where, *topics))
        except ApiException as error:
            text = f"topics {', '.join(topics)} are still in {where}: {error.error.name}"
            self._conditions.tell((mirror_name, where, *topics), text, subject=f"mirror {mirror_name}")

    async def shutdown(self) -> None:
        await self._scope.cancel()
        await self._shards.shutdown()

    def state_partition_of(self, key: str) -> TopicPartition:
        """The `__mirror_state` partition that a key hashes to (also a key of FindCoordinator);
        COORDINATOR_NOT_AVAILABLE while the topic does not exist.
        """
        topic = self._image().topics.topic(MIRROR_STATE_TOPIC_NAME)
        if topic is None or not topic.partitions:
            raise ApiException(Errors.COORDINATOR_NOT_AVAILABLE, f"{MIRROR_STATE_TOPIC_NAME} does not exist")
        return TopicPartition(MIRROR_STATE_TOPIC_NAME, partition_for(key, self._partition_count(topic)))

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
            self._delete_ended_mirrors(topic_partition, was_loaded=True)

    def _check_not_ended(self, mirror_name: str, where: TopicPartition) -> None:
        """Until the states of an ended mirror are deleted, what is stored under its name belongs to
        the old mirror, not to a new one. The mirror may have ended while `where` was loading.
        """
        if mirror_name in self._ended.get(where, ()):
            raise ApiException(Errors.COORDINATOR_LOAD_IN_PROGRESS)

    def _delete_ended_mirrors(self, topic_partition: TopicPartition, *, was_loaded: bool = False) -> None:
        """Writes tombstones for mirrors that metadata no longer knows, including those deleted
        while nobody led the partition, and for mirrors that ended, and were created again, since
        this broker has led it (D3-33).
        """
        if not self._scope.closed:
            name = f"delete-{topic_partition}"
            work = Supervised(self._runtime, partial(self._tombstone, topic_partition, was_loaded), name=f"mirror/{name}", may_return=True)
            self._scope.spawn(work.run(), name=name)

    async def _tombstone(self, topic_partition: TopicPartition, was_loaded: bool) -> None:
        """Retries while too few replicas are in sync, as long as this broker coordinates the
        partition. If its log directory fails, the next coordinator of the partition does it.
        """
        while True:
            try:
                return await self._shards.write(topic_partition, partial(self._delete_ended, topic_partition, was_loaded))
            except ApiException as error:
                if error.error is Errors.NOT_ENOUGH_REPLICAS:
                    await self._runtime.sleep_ms(TOMBSTONE_BACKOFF_MS)
                    continue
                if error.error not in NO_FAILURE:
                    self._runtime.report_failure(f"tombstones of deleted mirrors in {topic_partition}", error)
                return None

    def _delete_ended(self, where: TopicPartition, was_loaded: bool, shard: MirrorCoordinatorShard, now_ms: int) -> CoordinatorResult[None]:
        """Looks and writes in one step: a new mirror may be created under the same name, and it
        must neither find the deleted mirror's states nor lose its own. A mirror can only be deleted
        when all its partitions are STOPPED, so any other state belongs to the new one.

        While nobody led the partition, a mirror may have been deleted and created again, or topics
        deleted, without any record of that among their states. The states left over belong to
        topics without a `mirror.name`: deleting a mirror clears it (D6), and nobody can add a topic
        before this coordinator answers with its state. If such a topic still exists, only its
        STOPPED states are deleted: this broker's metadata may be older than its leader's.
        """
        image = self._image()
        names = set(image.configs.mirror_names())
        known, ended = names.intersection(shard.mirror_names()), self._ended.get(where, set())
        gone = [name for name in shard.mirror_names() if name not in known or (name in ended and shard.is_all_stopped(name))]
        results: list[CoordinatorResult[Any]] = [shard.delete_mirror(name) for name in gone]
        for name in sorted(known.difference(gone)) if was_loaded else ():
            topics = [topic for topic in shard.topics(name) if association_of(image.configs.topic(topic)) is None]
            if topics:
                results.append(shard.write(name, [], topics, is_in_mirror=lambda topic: image.topics.topic(topic) is not None))
        return CoordinatorResult(
            [record for result in results for record in result.records], None, on_appended=partial(self._on_ended_deleted, where, results)
        )

    def _on_ended_deleted(self, where: TopicPartition, results: Iterable[CoordinatorResult[Any]]) -> None:
        self._ended.pop(where, None)
        for result in results:
            if result.on_appended is not None:
                result.on_appended()


def _recorded_partition_count(image: MetadataImage) -> int | None:
    value = image.configs.topic(MIRROR_STATE_TOPIC_NAME).get(MIRROR_STATE_PARTITIONS_CONFIG)
    return None if value is None else int(value)


def _read_shard(mirror_name: str, keys: list[PartitionKey], shard: MirrorCoordinatorShard, now_ms: int) -> dict[PartitionKey, StoredState]:
    return shard.read(mirror_name, keys)
