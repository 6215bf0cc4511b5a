"""The sticky assignment where all members are subscribed to the same topics.

With P partitions and M members each gets `P // M` (the minimum) or one more (the maximum);
`P % M` members get the maximum.

1. Members keep what they own, up to the maximum while fewer than `P % M` have it, else up to the
   minimum. What is above that may be taken away. Own partitions are kept by number, then topic.
2. Free partitions, by topic and number, are dealt to the members below the minimum, by member id,
   one each in turn; a member that has reached the minimum leaves the circle.
3. The rest goes one each to members with exactly the minimum: first those that owned it, by member
   id, then those that reached it in step 2, in that order.

`moving` holds the partitions that go from one member to another: a cooperative member must give
them up first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from kmirror.clients.consumer.partition_assignor import Assignments
from kmirror.common.topic_partition import TopicPartition


class ConstrainedAssignment:
    """Builds one assignment. `owned` is in the order in which members are looked at."""

    def __init__(self, partitions_per_topic: Mapping[str, int], owned: Assignments, claimed_twice: Set[TopicPartition]) -> None:
        self.moving: dict[TopicPartition, str] = {}
        self._partitions_per_topic = partitions_per_topic
        self._owned = owned
        self._claimed_twice = claimed_twice
        total = sum(partitions_per_topic.values())
        self._minimum, self._over_expected = divmod(total, len(owned)) if owned else (0, 0)
        self._maximum = self._minimum + (self._over_expected > 0)
        self._over_count = 0
        self._result: Assignments = {member: [] for member in owned}
        self._revocable: dict[TopicPartition, str] = {}
        self._below: list[str] = []
        self._exactly: list[str] = []

    def build(self) -> Assignments:
        """Returns the partitions of each member."""
        for member, partitions in self._owned.items():
            kept = sorted((one for one in partitions if one not in self._claimed_twice), key=lambda one: (one.partition, one.topic))
            self._keep(member, kept)
        self._below.sort()
        self._exactly.sort()
        self._deal(self._free())
        return self._result

    def _keep(self, member: str, owned: Sequence[TopicPartition]) -> None:
        may_exceed = self._over_count < self._over_expected
        if len(owned) < self._minimum:
            quota = len(owned)
            self._below.append(member)
        elif len(owned) >= self._maximum and may_exceed:
            quota = self._maximum
            self._over_count += 1
            if self._over_count == self._over_expected:
                self._exactly.clear()
        else:
            quota = self._minimum
            if may_exceed:
                self._exactly.append(member)
        self._result[member] += owned[:quota]
        self._revocable |= dict.fromkeys(owned[quota:], member)

    def _free(self) -> list[TopicPartition]:
        taken = {partition for partitions in self._result.values() for partition in partitions}
        everything = (
            TopicPartition(topic, number)
            for topic in sorted(self._partitions_per_topic)
            for number in range(self._partitions_per_topic[topic])
        )
        return [partition for partition in everything if partition not in taken]

    def _deal(self, free: Sequence[TopicPartition]) -> None:
        place = 0
        for partition in free:
            if self._below:
                place %= len(self._below)
                member = self._below[place]
                self._give(partition, member)
                if len(self._result[member]) == self._minimum:
                    self._exactly.append(self._below.pop(place))
                else:
                    place += 1
            else:
                self._give(partition, self._exactly.pop(0))

    def _give(self, partition: TopicPartition, member: str) -> None:
        self._result[member].append(partition)
        if self._revocable.get(partition, member) != member or partition in self._claimed_twice:
            self.moving[partition] = member
