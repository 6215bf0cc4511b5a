"""`RangeAssignor`: each topic's partitions in one run per subscriber. Kafka's first default.

The subscribers of a topic are sorted (static members by instance id, then dynamic ones by member
id). Each gets `count // subscribers` partitions in a row; the first `count % subscribers` get one
more. So partition n of two topics with equal subscribers and counts goes to the same member.

Racks (KIP-881) are not considered: all partitions count as being in every rack.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kmirror.clients.consumer.partition_assignor import Assignments, RebalanceProtocol, Subscription, members_in_rank_order
from kmirror.common.topic_partition import TopicPartition


class RangeAssignor:
    """Implements `ConsumerPartitionAssignor`."""

    name = "range"
    supported_protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)

    def subscription_user_data(self, owned_partitions: Sequence[TopicPartition], generation_id: int) -> bytes | None:
        """Nothing: it does not look at what members had."""
        return None

    def assign(self, partitions_per_topic: Mapping[str, int], subscriptions: Mapping[str, Subscription]) -> Assignments:
        """See the module's docstring."""
        order = members_in_rank_order(subscriptions)
        assignments: Assignments = {member: [] for member in order}
        for topic in sorted(partitions_per_topic):
            members = [member for member in order if topic in subscriptions[member].topics]
            if not members:
                continue
            quota, extra = divmod(partitions_per_topic[topic], len(members))
            start = 0
            for index, member in enumerate(members):
                end = start + quota + (index < extra)
                assignments[member] += [TopicPartition(topic, number) for number in range(start, end)]
                start = end
        return assignments
