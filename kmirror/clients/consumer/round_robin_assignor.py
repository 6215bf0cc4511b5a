"""`RoundRobinAssignor`: all partitions of all topics dealt out one by one.

The members sit in a circle (static ones by instance id, then dynamic ones by member id). Topics are
taken by name, partitions by number. Each partition goes to the next member of the circle that is
subscribed to its topic; the circle goes on from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kmirror.clients.consumer.partition_assignor import Assignments, RebalanceProtocol, Subscription, members_in_rank_order
from kmirror.common.topic_partition import TopicPartition


class RoundRobinAssignor:
    """Implements `ConsumerPartitionAssignor`."""

    name = "roundrobin"
    supported_protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)

    def subscription_user_data(self, owned_partitions: Sequence[TopicPartition], generation_id: int) -> bytes | None:
        """Nothing: it does not look at what members had."""
        return None

    def assign(self, partitions_per_topic: Mapping[str, int], subscriptions: Mapping[str, Subscription]) -> Assignments:
        """See the module's docstring."""
        circle = members_in_rank_order(subscriptions)
        assignments: Assignments = {member: [] for member in circle}
        subscribed = {topic for subscription in subscriptions.values() for topic in subscription.topics}
        place = 0
        for topic in sorted(subscribed & partitions_per_topic.keys()):
            for number in range(partitions_per_topic[topic]):
                while topic not in subscriptions[circle[place]].topics:
                    place = (place + 1) % len(circle)
                assignments[circle[place]].append(TopicPartition(topic, number))
                place = (place + 1) % len(circle)
        return assignments
