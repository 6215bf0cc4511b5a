"""The registry of the partitions that this broker hosts (Kafka's `HostedPartition` and
`allPartitions`).

A partition is *online* when its log is served here, or *offline* when the directory of its log has
failed; for an offline one only the topic id is kept, to distinguish it from a new topic of the same
name. `MetadataApplier` adds and removes partitions; everything else looks them up.
"""

from __future__ import annotations

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.replica.metadata_view import MetadataView
from kmirror.replica.partition import Partition


class HostedPartitions:
    """Owns the hosted partitions; none is in both `online` and `offline`. `metadata` distinguishes
    a partition of other brokers from one that does not exist.
    """

    def __init__(self, metadata: MetadataView) -> None:
        self.online: dict[TopicPartition, Partition] = {}
        self.offline: dict[TopicPartition, Uuid] = {}
        self._metadata = metadata

    def get(self, topic_partition: TopicPartition) -> Partition | None:
        """The partition, if it is hosted here and online."""
        return self.online.get(topic_partition)

    def get_or_exception(self, topic_partition: TopicPartition) -> Partition:
        """The partition; ApiException KAFKA_STORAGE_ERROR if it is offline; NOT_LEADER_OR_FOLLOWER
        or UNKNOWN_TOPIC_OR_PARTITION if it is not hosted here.
        """
        partition = self.online.get(topic_partition)
        if partition is not None:
            return partition
        if topic_partition in self.offline:
            raise ApiException(Errors.KAFKA_STORAGE_ERROR, f"Partition {topic_partition} is in an offline log directory")
        if self._metadata.contains(topic_partition):
            raise ApiException(Errors.NOT_LEADER_OR_FOLLOWER, f"Error while fetching partition state for {topic_partition}")
        raise ApiException(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"Partition {topic_partition} doesn't exist")

    def add(self, partition: Partition) -> None:
        self.online[partition.topic_partition] = partition

    def remove(self, topic_partition: TopicPartition) -> Partition | None:
        """Removes a deleted partition; returns it if it was online, and then it no longer leads."""
        partition = self.online.pop(topic_partition, None)
        self.offline.pop(topic_partition, None)
        if partition is not None:
            partition.leader_id = None
        return partition

    def mark_offline(self, topic_partition: TopicPartition, topic_id: Uuid) -> None:
        """Marks a partition whose log directory has failed: it no longer leads, and its log is not
        touched again.
        """
        partition = self.online.pop(topic_partition, None)
        if partition is not None:
            partition.leader_id = None
            partition.log = None
        self.offline[topic_partition] = topic_id

    def online_in(self, log_dir: str) -> dict[TopicPartition, Partition]:
        """The partitions whose logs are in this directory."""
        return {
            topic_partition: partition
            for topic_partition, partition in self.online.items()
            if partition.log is not None and partition.log.parent_dir == log_dir
        }
