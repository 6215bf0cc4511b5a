"""Applies the dynamic configs that replication uses: throttles, the configs of topics' logs, and
`mirror.name`.

Kafka has `BrokerConfigHandler` and `TopicConfigHandler` for this.

A partition is read-only by default: if its topic gets a `mirror.name`, it answers
NOT_LEADER_OR_FOLLOWER to clients until `mirror` has loaded its state. When the name goes away it
becomes writable (C38).
"""

from __future__ import annotations

from kmirror.common.topic_partition import TopicPartition
from kmirror.metadata.delta import MetadataDelta
from kmirror.metadata.image import RESOURCE_BROKER, RESOURCE_TOPIC, ConfigResource, MetadataImage, TopicImage
from kmirror.metadata.mirror_names import MIRROR_NAME_CONFIG
from kmirror.replica.hosted_partitions import HostedPartitions
from kmirror.replica.partition import ReadOnlyReason
from kmirror.replica.replication_quota_manager import ReplicationQuotaManagers
from kmirror.storage.log_manager import LogManager


class ConfigApplier:
    """Passes each changed config to the part that uses it; owns no configs."""

    def __init__(self, broker_id: int, log_manager: LogManager, hosted: HostedPartitions, quotas: ReplicationQuotaManagers) -> None:
        self._broker_id = broker_id
        self._log_manager = log_manager
        self._hosted = hosted
        self._quotas = quotas

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self._apply_throttled_rates(delta, image)
        self._apply_topic_configs(delta, image)

    def forget_topic(self, topic: str) -> None:
        """The topic was deleted."""
        self._quotas.update_topic(topic, {}, self._broker_id)

    def _apply_throttled_rates(self, delta: MetadataDelta, image: MetadataImage) -> None:
        names = ("", str(self._broker_id))
        if any(ConfigResource(RESOURCE_BROKER, name) in delta.configs.changed for name in names):
            self._quotas.update_rates({**image.configs.cluster_default(), **image.configs.broker(self._broker_id)})

    def _apply_topic_configs(self, delta: MetadataDelta, image: MetadataImage) -> None:
        for resource, changed in delta.configs.changed.items():
            topic = image.topics.topic(resource.name) if resource.type == RESOURCE_TOPIC else None
            if topic is None:
                continue
            configs = image.configs.topic(resource.name)
            self._log_manager.update_topic_config(resource.name, configs, topic.partitions)
            self._quotas.update_topic(resource.name, configs, self._broker_id)
            if MIRROR_NAME_CONFIG in changed:
                self._apply_mirror_name(topic, has_mirror_name=MIRROR_NAME_CONFIG in configs)

    def _apply_mirror_name(self, topic: TopicImage, *, has_mirror_name: bool) -> None:
        """Applies a `mirror.name` that was set or removed on a topic that is already here."""
        for number in topic.partitions:
            partition = self._hosted.get(TopicPartition(topic.name, number))
            if partition is None or partition.has_mirror_name == has_mirror_name:
                continue
            partition.has_mirror_name = has_mirror_name
            partition.set_read_only(ReadOnlyReason.MIRROR_STATE_UNKNOWN if has_mirror_name and partition.is_leader else None)
