"""What the leader of a classic group does for all members: it assigns the partitions, and watches
the topics.
"""

from __future__ import annotations

from kmirror.clients.cluster_client import ClusterClient
from kmirror.clients.consumer.consumer_config import ConsumerConfig
from kmirror.clients.consumer.consumer_protocol import deserialize_subscription, serialize_assignment
from kmirror.common.errors import ApiException, Errors
from kmirror.wire.messages.join_group import JoinGroupResponse
from kmirror.wire.messages.sync_group import SyncGroupRequestAssignment


class GroupLeader:
    """Owns the numbers of partitions that the last assignment was made for."""

    def __init__(self, cluster: ClusterClient, config: ConsumerConfig) -> None:
        self._cluster = cluster
        self._config = config
        self._watched: dict[str, int] = {}

    def has_grown(self) -> bool:
        """Whether a topic of the group has another number of partitions by now."""
        return any(self._cluster.partition_count(topic) != count for topic, count in self._watched.items())

    async def assign(self, join: JoinGroupResponse, protocol_name: str) -> list[SyncGroupRequestAssignment]:
        """Returns what each member gets. ApiException if the assignor is unknown, or a topic's
        partitions cannot be learned; the assignor's and the protocol's errors go through.
        """
        assignor = next((one for one in self._config.assignors if one.name == protocol_name), None)
        if assignor is None:
            raise ApiException(Errors.INCONSISTENT_GROUP_PROTOCOL, f"Coordinator selected invalid assignment protocol: {protocol_name}")
        subscriptions = {
            member.member_id: deserialize_subscription(bytes(member.metadata), group_instance_id=member.group_instance_id)
            for member in join.members
        }
        topics = sorted({topic for subscription in subscriptions.values() for topic in subscription.topics})
        if any(not self._cluster.partition_count(topic) for topic in topics):
            await self._cluster.request_update(topics)
        self._watched = {topic: self._cluster.partition_count(topic) for topic in topics}
        assigned = assignor.assign({topic: count for topic, count in self._watched.items() if count}, subscriptions)
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=serialize_assignment(partitions))
            for member_id, partitions in assigned.items()
        ]
