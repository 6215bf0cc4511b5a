"""The range assignor: each topic's partitions in one run per subscriber (Kafka's `RangeAssignor`).

Subscribers are sorted: static members by instance id come before dynamic ones by member id. So
partition n of two topics with the same subscribers and partition count goes to the same member
(joins need that). The first `count % subscribers` of them get one more. Apart from that order the
assignor is not sticky.
"""

from __future__ import annotations

from kmirror.common.uuid import Uuid
from kmirror.coordinator.group.assignor import Assignment, GroupSpec, partition_count


class RangeAssignor:
    """Implements `PartitionAssignor`."""

    name = "range"

    def assign(self, group: GroupSpec) -> dict[str, Assignment]:
        order = sorted(group.members, key=lambda member_id: _rank(group, member_id))
        assignments: dict[str, Assignment] = {member_id: {} for member_id in order}
        subscribers: dict[Uuid, list[str]] = {}
        for member_id in order:
            for topic_id in group.members[member_id].topic_ids:
                subscribers.setdefault(topic_id, []).append(member_id)
        for topic_id, members in subscribers.items():
            quota, extra = divmod(partition_count(group, topic_id), len(members))
            start = 0
            for index, member_id in enumerate(members):
                end = start + quota + (index < extra)
                if start < end:
                    assignments[member_id][topic_id] = frozenset(range(start, end))
                start = end
        return assignments


def _rank(group: GroupSpec, member_id: str) -> tuple[bool, str]:
    instance_id = group.members[member_id].instance_id
    return (instance_id is None, member_id if instance_id is None else instance_id)
