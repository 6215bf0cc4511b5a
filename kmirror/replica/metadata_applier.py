"""Turns a metadata delta into what this broker's partitions do (Kafka's
`ReplicaManager.applyDelta`).

Order, as in Kafka: deletions first (a topic may come back under the same name), then configs, then
leaders, then followers. A partition whose log cannot be used does not keep the others from their
roles.

Partitions are read-only by default: one whose topic has a `mirror.name` answers
NOT_LEADER_OR_FOLLOWER to clients from the moment this broker leads it until `mirror` has loaded its
state (C38).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicIdPartition, TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.metadata.delta import MetadataDelta
from kmirror.metadata.image import MetadataImage
from kmirror.metadata.mirror_names import MIRROR_NAME_CONFIG
from kmirror.metadata.registrations import PartitionRegistration
from kmirror.metadata.topics_delta import LocalReplicaChanges
from kmirror.replica.alter_log_dirs import ReplicaAlterLogDirs
from kmirror.replica.assigned_logs import AssignedLogs
from kmirror.replica.broker_topic_stats import BrokerTopicStats
from kmirror.replica.config_applier import ConfigApplier
from kmirror.replica.fetcher_manager import FetcherManager, InitialFetchState
from kmirror.replica.hosted_partitions import HostedPartitions
from kmirror.replica.metadata_view import MetadataView
from kmirror.replica.partition import Partition, ReadOnlyReason
from kmirror.replica.partition_listener import PartitionListeners
from kmirror.replica.purgatories import Purgatories

_log = logging.getLogger(__name__)


class MetadataApplier:
    """Gives partitions their roles; the parts that it is given own them. `server` sets
    `fetcher_manager` on a broker with peers; `create_partition` makes a partition without a log.
    """

    def __init__(
        self,
        broker_id: int,
        metadata: MetadataView,
        hosted: HostedPartitions,
        listeners: PartitionListeners,
        purgatories: Purgatories,
        logs: AssignedLogs,
        configs: ConfigApplier,
        moves: ReplicaAlterLogDirs,
        stats: BrokerTopicStats,
        *,
        create_partition: Callable[[TopicIdPartition], Partition],
    ) -> None:
        self.fetcher_manager: FetcherManager | None = None
        self._broker_id = broker_id
        self._metadata = metadata
        self._hosted = hosted
        self._listeners = listeners
        self._purgatories = purgatories
        self._logs = logs
        self._configs = configs
        self._moves = moves
        self._stats = stats
        self._create_partition = create_partition

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self._metadata.image = image
        self._logs.begin_delta()
        changes = delta.topics.local_changes(self._broker_id)
        self._delete(changes, delta)
        self._configs.apply(delta, image)
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
            to_fetch = {followed: state for followed, state in to_fetch.items() if followed in self._hosted.online}
            if to_fetch:
                self.fetcher_manager.add_fetcher_for_partitions(to_fetch)
            if delta.cluster.changed_brokers:
                self.fetcher_manager.on_brokers_changed()
            if changes.leaders or changes.deletes or to_stop:
                self.fetcher_manager.shutdown_idle_fetchers()

    # --- topics that go
    # ---------------------------------------------------------------------------------------------

    def _delete(self, changes: LocalReplicaChanges, delta: MetadataDelta) -> None:
        if not changes.deletes:
            return
        deleted = [TopicPartition(topic, number) for topic, number, _ in changes.deletes]
        if self.fetcher_manager is not None:
            self.fetcher_manager.remove_fetcher_for_partitions(deleted)
        for topic_partition in deleted:
            self._moves.cancel(topic_partition)
            self._drop(topic_partition)
        self._logs.delete(deleted)
        for topic in {topic_partition.topic: None for topic_partition in deleted}:
            if delta.topics.topic_was_deleted(topic):
                self._stats.remove_topic(topic)
                self._configs.forget_topic(topic)

    def _drop(self, topic_partition: TopicPartition) -> None:
        partition = self._hosted.remove(topic_partition)
        if partition is not None:
            self._purgatories.follower_fetches.changes.forget((partition.topic_id, topic_partition.partition))
        self._purgatories.complete_delayed(topic_partition)
        for listener in self._listeners.of(topic_partition):
            listener.on_deleted(topic_partition)
        self._listeners.forget(topic_partition)

    # --- topics that come or change
    # ---------------------------------------------------------------------------------

    def _make_leader(self, topic: TopicIdPartition, registration: PartitionRegistration) -> None:
        topic_partition = topic.topic_partition
        if self.fetcher_manager is not None:
            self.fetcher_manager.remove_fetcher_for_partitions([topic_partition])
        partition = self._get_or_create_partition(topic)
        if partition is None:
            return
        log = self._logs.get_or_create(topic, registration) if partition.log is None else partition.log
        if partition.make_leader(registration, log) and partition.has_mirror_name:
            partition.set_read_only(ReadOnlyReason.MIRROR_STATE_UNKNOWN)
        self._moves.resume(partition)
        self._purgatories.complete_delayed(topic_partition)

    def _make_follower(
        self,
        topic: TopicIdPartition,
        registration: PartitionRegistration,
        to_stop: list[TopicPartition],
        to_fetch: dict[TopicPartition, InitialFetchState],
    ) -> None:
        topic_partition = topic.topic_partition
        partition = self._get_or_create_partition(topic)
        if partition is None:
            return
        log = self._logs.get_or_create(topic, registration) if partition.log is None else partition.log
        is_new_leader_epoch = partition.make_follower(registration, log)
        self._moves.resume(partition)
        partition.set_read_only(None)
        for listener in self._listeners.of(topic_partition):
            listener.on_becoming_follower(topic_partition)
        if self._shall_stop_fetching(registration):
            to_stop.append(topic_partition)
        elif is_new_leader_epoch:
            to_stop.append(topic_partition)
            fetch_offset = log.high_watermark if log.latest_epoch is None else log.log_end_offset
            to_fetch[topic_partition] = InitialFetchState(topic.topic_id, registration.leader, registration.leader_epoch, fetch_offset)
        self._purgatories.fail_pending_produces(topic_partition)
        self._purgatories.complete_delayed(topic_partition)

    def _shall_stop_fetching(self, registration: PartitionRegistration) -> bool:
        """Whether to stop fetching: without a leader there is nobody to fetch from, and a broker in
        controlled shutdown does not come back into an ISR.
        """
        us = self._metadata.broker(self._broker_id)
        is_leaving = us is not None and us.in_controlled_shutdown and self._broker_id not in registration.isr
        return not registration.has_leader or is_leaving

    def _get_or_create_partition(self, topic: TopicIdPartition) -> Partition | None:
        """The partition; None if it is in an offline log directory. A new topic of the same name is
        another partition.
        """
        topic_partition = topic.topic_partition
        offline_id = self._hosted.offline.get(topic_partition)
        if offline_id is not None:
            if offline_id == topic.topic_id:
                _log.warning("Skipped the state change of %s: its log directory is offline", topic)
                return None
            del self._hosted.offline[topic_partition]
        partition = self._hosted.get(topic_partition)
        if partition is None:
            partition = self._create_partition(topic)
            self._hosted.add(partition)
        partition.has_mirror_name = MIRROR_NAME_CONFIG in self._metadata.image.configs.topic(topic.topic)
        return partition

    def _skip(self, topic: TopicIdPartition, error: ApiException) -> None:
        """Skips one partition whose log cannot be used; the others of the delta are not
        affected.
        """
        _log.error("Skipped the state change of %s: %s", topic, error.message)
        if error.error is Errors.KAFKA_STORAGE_ERROR:
            if self.fetcher_manager is not None:
                self.fetcher_manager.remove_fetcher_for_partitions([topic.topic_partition])
            self._mark_offline(topic.topic_partition, topic.topic_id)

    def _mark_offline(self, topic_partition: TopicPartition, topic_id: Uuid) -> None:
        self._hosted.mark_offline(topic_partition, topic_id)
        self._purgatories.fail_pending_produces(topic_partition, Errors.KAFKA_STORAGE_ERROR)
        for listener in self._listeners.of(topic_partition):
            listener.on_failed(topic_partition)
        self._purgatories.complete_delayed(topic_partition)

    def handle_log_dir_failure(self, log_dir: str) -> None:
        """Takes every partition with its log there offline: it answers KAFKA_STORAGE_ERROR, and is
        no longer fetched.
        """
        failed = self._hosted.online_in(log_dir)
        if self.fetcher_manager is not None:
            self.fetcher_manager.remove_fetcher_for_partitions(list(failed))
        for topic_partition, partition in failed.items():
            self._mark_offline(topic_partition, partition.topic_id)
        _log.warning("Broker %d stopped %d partitions in %s", self._broker_id, len(failed), log_dir)
