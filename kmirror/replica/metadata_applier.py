"""Turns a metadata delta into what this broker's partitions do (Kafka's `ReplicaManager.applyDelta`).

Order, as in Kafka: deletions first (a topic may come back under the same name), then leaders, then followers. Configs of
topics go to their logs. Logs are made as soon as the partition is assigned, for followers too, so that their high
watermark is in the checkpoint from the beginning.

Read-only by default: a partition whose topic has a `mirror.name` answers NOT_LEADER_OR_FOLLOWER to clients from the
moment this broker leads it until `mirror` has loaded its state (C38). When the name goes away it becomes writable.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicIdPartition, TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.metadata.delta import MetadataDelta
from kmirror.metadata.features import MIRROR_VERSION
from kmirror.metadata.image import RESOURCE_BROKER, RESOURCE_TOPIC, ConfigResource, MetadataImage, TopicImage
from kmirror.metadata.registrations import DIRECTORY_UNASSIGNED, BrokerRegistration, PartitionRegistration
from kmirror.metadata.topics_delta import LocalReplicaChanges
from kmirror.replica.partition import Partition, ReadOnlyReason
from kmirror.storage.unified_log import UnifiedLog

if TYPE_CHECKING:
    from kmirror.replica.alter_log_dirs import AssignmentListener
    from kmirror.replica.replica_manager import ReplicaManager

MIRROR_NAME_CONFIG = "mirror.name"

_log = logging.getLogger(__name__)


class InitialFetchState(NamedTuple):
    """Where a follower begins: the leader, the epoch it follows it in, and the first offset to fetch."""

    topic_id: Uuid
    leader_id: int
    current_leader_epoch: int
    fetch_offset: int


class FetcherManager(Protocol):
    """The fetchers of followers (`replica.fetcher_manager`); absent on a broker without peers."""

    def add_fetcher_for_partitions(self, partitions: dict[TopicPartition, InitialFetchState]) -> None: ...

    def remove_fetcher_for_partitions(self, partitions: list[TopicPartition]) -> None: ...

    def on_brokers_changed(self) -> None:
        """Leaders that were not known may be known now."""
        ...

    def shutdown_idle_fetchers(self) -> None:
        """End the fetchers that have nothing to fetch."""
        ...


class MetadataApplier:
    def __init__(self, replica_manager: ReplicaManager) -> None:
        self.fetcher_manager: FetcherManager | None = None
        self.on_assignment: AssignmentListener | None = None
        self._replica_manager = replica_manager
        self._log_manager = replica_manager.log_manager
        self._image = MetadataImage.EMPTY
        self._checkpointed: dict[str, dict[TopicPartition, int]] = {}

    @property
    def is_mirroring_enabled(self) -> bool:
        """Whether mirror.version is at least 1."""
        return self._image.features.level(MIRROR_VERSION) >= 1

    def exists_in_metadata(self, topic_partition: TopicPartition) -> bool:
        return self._image.topics.partition(topic_partition.topic, topic_partition.partition) is not None

    def is_replica_eligible(self, broker_id: int, broker_epoch: int, directory_id: Uuid) -> bool:
        """May join an ISR: registered, active, (unless -1) fetching in the broker epoch we know, and its directory online."""
        broker = self._image.cluster.broker(broker_id)
        return broker is not None and broker.active and broker_epoch in (-1, broker.epoch) and broker.has_online_dir(directory_id)

    def broker(self, broker_id: int) -> BrokerRegistration | None:
        """A registered broker."""
        return self._image.cluster.broker(broker_id)

    def alive_broker_epoch(self, broker_id: int) -> int | None:
        """The epoch of a broker that is registered and not fenced."""
        broker = self._image.cluster.broker(broker_id)
        return None if broker is None or broker.fenced else broker.epoch

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self._image = image
        self._checkpointed = {}
        changes = delta.topics.local_changes(self._replica_manager.config.broker_id)
        self._delete(changes, delta)
        self._apply_throttled_rates(delta)
        self._apply_topic_configs(delta)
        for (topic, number), (topic_id, registration) in changes.leaders.items():
            led = TopicIdPartition(topic_id, topic, number)
            try:
                self._make_leader(led, registration)
            except ApiException as error:
                self._skip(led, error)
        to_stop: list[TopicPartition] = []
        to_fetch: dict[TopicPartition, InitialFetchState] = {}
        for (topic, number), (topic_id, registration) in changes.followers.items():
            followed = TopicIdPartition(topic_id, topic, number)
            try:
                self._make_follower(followed, registration, to_stop, to_fetch)
            except ApiException as error:
                self._skip(followed, error)
        if self.fetcher_manager is not None:
            if to_stop:
                self.fetcher_manager.remove_fetcher_for_partitions(to_stop)
            to_fetch = {followed: state for followed, state in to_fetch.items() if followed in self._replica_manager.partitions}
            if to_fetch:
                self.fetcher_manager.add_fetcher_for_partitions(to_fetch)
            if delta.cluster.changed_brokers:
                self.fetcher_manager.on_brokers_changed()
            if changes.leaders or changes.deletes or to_stop:
                self.fetcher_manager.shutdown_idle_fetchers()

    # --- topics that go ---------------------------------------------------------------------------------------------

    def _delete(self, changes: LocalReplicaChanges, delta: MetadataDelta) -> None:
        if not changes.deletes:
            return
        deleted = [TopicPartition(topic, number) for topic, number, _ in changes.deletes]
        if self.fetcher_manager is not None:
            self.fetcher_manager.remove_fetcher_for_partitions(deleted)
        for topic_partition in deleted:
            self._replica_manager.alter_log_dirs.cancel(topic_partition)
            self._drop(topic_partition)
        self._log_manager.async_delete(
            [topic_partition for topic_partition in deleted if self._log_manager.get_log(topic_partition) is not None],
            on_error=lambda topic_partition, error: _log.error("Unable to delete replica %s: %s", topic_partition, error),
        )
        for topic in {topic_partition.topic: None for topic_partition in deleted}:
            if delta.topics.topic_was_deleted(topic):
                self._replica_manager.stats.remove_topic(topic)
                self._replica_manager.quotas.update_topic(topic, {}, self._replica_manager.config.broker_id)

    def _drop(self, topic_partition: TopicPartition) -> None:
        manager = self._replica_manager
        partition = manager.partitions.pop(topic_partition, None)
        manager.offline_partitions.pop(topic_partition, None)
        if partition is not None:
            partition.leader_id = None
            manager.follower_fetches.changes.forget((partition.topic_id, topic_partition.partition))
        manager.complete_delayed(topic_partition)
        for listener in manager.listeners(topic_partition):
            listener.on_deleted(topic_partition)
        manager.forget_listeners(topic_partition)

    # --- topics that come or change ---------------------------------------------------------------------------------

    def _apply_throttled_rates(self, delta: MetadataDelta) -> None:
        broker_id = str(self._replica_manager.config.broker_id)
        if any(ConfigResource(RESOURCE_BROKER, name) in delta.configs.changed for name in ("", broker_id)):
            configs = self._image.configs
            self._replica_manager.quotas.update_rates({**configs.cluster_default(), **configs.broker(int(broker_id))})

    def _apply_topic_configs(self, delta: MetadataDelta) -> None:
        for resource, changed in delta.configs.changed.items():
            topic = self._image.topics.topic(resource.name) if resource.type == RESOURCE_TOPIC else None
            if topic is None:
                continue
            configs = self._image.configs.topic(resource.name)
            self._log_manager.update_topic_config(resource.name, configs, topic.partitions)
            self._replica_manager.quotas.update_topic(resource.name, configs, self._replica_manager.config.broker_id)
            if MIRROR_NAME_CONFIG in changed:
                self._apply_mirror_name(topic)

    def _apply_mirror_name(self, topic: TopicImage) -> None:
        """`mirror.name` came or went on a topic that is here already."""
        has_mirror_name = MIRROR_NAME_CONFIG in self._image.configs.topic(topic.name)
        for number in topic.partitions:
            partition = self._replica_manager.partitions.get(TopicPartition(topic.name, number))
            if partition is None or partition.has_mirror_name == has_mirror_name:
                continue
            partition.has_mirror_name = has_mirror_name
            partition.set_read_only(ReadOnlyReason.MIRROR_STATE_UNKNOWN if has_mirror_name and partition.is_leader else None)

    def _make_leader(self, topic: TopicIdPartition, registration: PartitionRegistration) -> None:
        manager = self._replica_manager
        topic_partition = topic.topic_partition
        if self.fetcher_manager is not None:
            self.fetcher_manager.remove_fetcher_for_partitions([topic_partition])
        partition = self._get_or_create_partition(topic)
        log = None if partition is None else self._get_or_create_log(partition, topic, registration)
        if log is None or partition is None:
            return
        if partition.make_leader(registration, log) and partition.has_mirror_name:
            partition.set_read_only(ReadOnlyReason.MIRROR_STATE_UNKNOWN)
        manager.alter_log_dirs.resume(partition)
        manager.complete_delayed(topic_partition)

    def _make_follower(
        self,
        topic: TopicIdPartition,
        registration: PartitionRegistration,
        to_stop: list[TopicPartition],
        to_fetch: dict[TopicPartition, InitialFetchState],
    ) -> None:
        manager = self._replica_manager
        topic_partition = topic.topic_partition
        partition = self._get_or_create_partition(topic)
        log = None if partition is None else self._get_or_create_log(partition, topic, registration)
        if log is None or partition is None:
            return
        is_new_leader_epoch = partition.make_follower(registration, log)
        manager.alter_log_dirs.resume(partition)
        partition.set_read_only(None)
        for listener in manager.listeners(topic_partition):
            listener.on_becoming_follower(topic_partition)
        if self._shall_stop_fetching(registration):
            to_stop.append(topic_partition)
        elif is_new_leader_epoch:
            to_stop.append(topic_partition)
            fetch_offset = log.high_watermark if log.latest_epoch is None else log.log_end_offset
            to_fetch[topic_partition] = InitialFetchState(topic.topic_id, registration.leader, registration.leader_epoch, fetch_offset)
        manager.fail_pending_produces(topic_partition)
        manager.complete_delayed(topic_partition)

    def _shall_stop_fetching(self, registration: PartitionRegistration) -> bool:
        """Without a leader there is nobody to fetch from; a broker that leaves does not come back into an ISR."""
        us = self._image.cluster.broker(self._replica_manager.config.broker_id)
        is_leaving = us is not None and us.in_controlled_shutdown and self._replica_manager.config.broker_id not in registration.isr
        return not registration.has_leader or is_leaving

    def _get_or_create_partition(self, topic: TopicIdPartition) -> Partition | None:
        """None for a partition in an offline log directory; a new topic of the same name is another partition."""
        manager = self._replica_manager
        offline_id = manager.offline_partitions.get(topic.topic_partition)
        if offline_id is not None:
            if offline_id == topic.topic_id:
                _log.warning("Skipped the state change of %s: it is in an offline log directory", topic)
                return None
            del manager.offline_partitions[topic.topic_partition]
        partition = manager.partitions.get(topic.topic_partition)
        if partition is None:
            partition = self._replica_manager.create_partition(topic)
        partition.has_mirror_name = MIRROR_NAME_CONFIG in self._image.configs.topic(topic.topic)
        return partition

    def _get_or_create_log(self, partition: Partition, topic: TopicIdPartition, registration: PartitionRegistration) -> UnifiedLog | None:
        """The partition's log; None (and the partition offline) when its directory is gone."""
        if partition.log is not None:
            return partition.log
        broker_id = self._replica_manager.config.broker_id
        directory = registration.directory(broker_id)
        try:
            self._maybe_take_over_future_log(topic.topic_partition, directory)
            log = self._log_manager.get_or_create_log(
                topic.topic_partition,
                topic_id=topic.topic_id,
                is_new=registration.partition_epoch == 0,
                target_directory_id=None if directory == DIRECTORY_UNASSIGNED else directory,
            )
            log.update_high_watermark(self._checkpointed_high_watermark(log, topic.topic_partition))
        except ApiException as error:
            self._skip(topic, error)
            return None
        actual = self._log_manager.directory_id(log.parent_dir)
        if self.on_assignment is not None and actual is not None and actual != directory:
            self.on_assignment(topic, actual, lambda: None)
        return log

    def _maybe_take_over_future_log(self, topic_partition: TopicPartition, directory: Uuid) -> None:
        """The old directory was lost after the controller took the new one: what was being moved is what there is."""
        future = self._log_manager.future_log(topic_partition)
        if future is None or self._log_manager.get_log(topic_partition) is not None:
            return
        if self._log_manager.directory_id(future.parent_dir) == directory:
            self._log_manager.replace_current_with_future_log(topic_partition)

    def _skip(self, topic: TopicIdPartition, error: ApiException) -> None:
        """One partition's log cannot be worked on; the others of the delta are not touched by that."""
        _log.error("Skipped the state change of %s: %s", topic, error.message)
        if error.error is Errors.KAFKA_STORAGE_ERROR:
            if self.fetcher_manager is not None:
                self.fetcher_manager.remove_fetcher_for_partitions([topic.topic_partition])
            self._mark_offline(topic.topic_partition, topic.topic_id)

    def _mark_offline(self, topic_partition: TopicPartition, topic_id: Uuid) -> None:
        manager = self._replica_manager
        partition = manager.partitions.pop(topic_partition, None)
        if partition is not None:
            partition.leader_id = None
            partition.log = None
        manager.offline_partitions[topic_partition] = topic_id
        manager.fail_pending_produces(topic_partition, Errors.KAFKA_STORAGE_ERROR)
        for listener in manager.listeners(topic_partition):
            listener.on_failed(topic_partition)
        manager.complete_delayed(topic_partition)

    def handle_log_dir_failure(self, log_dir: str) -> None:
        """Every partition with its log there goes offline: it answers KAFKA_STORAGE_ERROR, and is fetched no more."""
        failed = {
            topic_partition: partition.topic_id
            for topic_partition, partition in self._replica_manager.partitions.items()
            if partition.log is not None and partition.log.parent_dir == log_dir
        }
        if self.fetcher_manager is not None:
            self.fetcher_manager.remove_fetcher_for_partitions(list(failed))
        for topic_partition, topic_id in failed.items():
            self._mark_offline(topic_partition, topic_id)
        _log.warning("Broker %d stopped %d partitions in %s", self._replica_manager.config.broker_id, len(failed), log_dir)

    def _checkpointed_high_watermark(self, log: UnifiedLog, topic_partition: TopicPartition) -> int:
        checkpoint = self._checkpointed.get(log.parent_dir)
        if checkpoint is None:
            checkpoint = self._checkpointed[log.parent_dir] = self._log_manager.read_high_watermarks(log.parent_dir)
        return checkpoint.get(topic_partition, 0)
