"""The uniform assignor, the default: it makes the members' partition counts as equal as their
subscriptions allow (Kafka's `UniformAssignor`).

Both algorithms are sticky: a partition moves only when balance needs it.

*Same topics for all* (homogeneous). With P partitions and M members, each keeps at most P // M, and
P % M members one more: first those that already hold more than P // M, so that they give up less.
The remaining partitions go to the members below their quota. Counts differ by at most one.

*Different topics* (heterogeneous). Each member keeps its partitions of the topics that it
subscribes to. Unowned partitions go to the topic's least loaded subscriber, topics with the fewest
choices first. Then partitions move from a topic's most loaded owner to its least loaded subscriber
while their loads differ by two or more. Each such move lowers the sum of the squared loads, so this
ends, and then no single move makes two members more equal.

Racks are ignored, as in Kafka 4.3 (but they are part of the metadata hash, so a change of racks
starts a new epoch).
"""

from __future__ import annotations

from kmirror.common.uuid import Uuid
from kmirror.coordinator.group.assignor import Assignment, GroupSpec, SubscriptionType, partition_count

Owners = dict[Uuid, list[str | None]]


class UniformAssignor:
    """Implements `PartitionAssignor`."""

    name = "uniform"

    def assign(self, group: GroupSpec) -> dict[str, Assignment]:
        if not group.members:
            return {}
        plan = _Plan(group)
        if group.subscription_type is SubscriptionType.HOMOGENEOUS:
            plan.fill_quotas()
        else:
            plan.fill_least_loaded()
            plan.balance()
        return plan.assignments()


class _Plan:
    """Who owns which partition while the assignment is made: `owners` by topic and partition,
    `loads` by member."""

    def __init__(self, group: GroupSpec) -> None:
        self.member_ids = sorted(group.members)
        self.subscribers: dict[Uuid, list[str]] = {}
        for member_id in self.member_ids:
            for topic_id in group.members[member_id].topic_ids:
                self.subscribers.setdefault(topic_id, []).append(member_id)
        self.owners: Owners = {topic_id: [None] * partition_count(group, topic_id) for topic_id in self.subscribers}
        self.loads = dict.fromkeys(self.member_ids, 0)
        for member_id in self.member_ids:
            self._keep(member_id, group)

    def _keep(self, member_id: str, group: GroupSpec) -> None:
        """Keeps the member's partitions of its topics, if they exist and nobody else kept them."""
        member = group.members[member_id]
        for topic_id in member.topic_ids:
            owners = self.owners[topic_id]
            for partition in sorted(member.assignment.get(topic_id, ())):
                if partition < len(owners) and owners[partition] is None:
                    self._give(topic_id, partition, member_id)

    def _give(self, topic_id: Uuid, partition: int, member_id: str) -> None:
        previous = self.owners[topic_id][partition]
        if previous is not None:
            self.loads[previous] -= 1
        self.owners[topic_id][partition] = member_id
        self.loads[member_id] += 1

    def _drop(self, topic_id: Uuid, partition: int) -> None:
        previous = self.owners[topic_id][partition]
        if previous is not None:
            self.loads[previous] -= 1
        self.owners[topic_id][partition] = None

    # -- the same topics for all -------------------------------------------------------------------

    def fill_quotas(self) -> None:
        total = sum(len(owners) for owners in self.owners.values())
        minimum, extra = divmod(total, len(self.member_ids))
        quotas = dict.fromkeys(self.member_ids, minimum)
        above = [member_id for member_id in self.member_ids if self.loads[member_id] > minimum]
        others = [member_id for member_id in self.member_ids if self.loads[member_id] <= minimum]
        for member_id in (above + others)[:extra]:
            quotas[member_id] += 1
        for topic_id, owners in reversed(self.owners.items()):
            for partition in reversed(range(len(owners))):
                owner = owners[partition]
                if owner is not None and self.loads[owner] > quotas[owner]:
                    self._drop(topic_id, partition)
        unfilled = [member_id for member_id in self.member_ids for _ in range(quotas[member_id] - self.loads[member_id])]
        free = [(topic_id, index) for topic_id, owners in self.owners.items() for index, owner in enumerate(owners) if owner is None]
        assert len(free) == len(unfilled), f"{len(free)} partitions for {len(unfilled)} free places"
        for (topic_id, partition), member_id in zip(free, unfilled, strict=True):
            self._give(topic_id, partition, member_id)

    # -- different topics --------------------------------------------------------------------------

    def _topics_in_order(self) -> list[Uuid]:
        """Returns topics with most partitions per subscriber first, then with fewest subscribers:
        those that leave the least choice."""
        subscribers, owners = self.subscribers, self.owners
        return sorted(owners, key=lambda topic: (-len(owners[topic]) / len(subscribers[topic]), len(subscribers[topic]), topic.raw))

    def fill_least_loaded(self) -> None:
        for topic_id in self._topics_in_order():
            for partition, owner in enumerate(self.owners[topic_id]):
                if owner is None:
                    self._give(topic_id, partition, min(self.subscribers[topic_id], key=self._load_and_id))

    def _load_and_id(self, member_id: str) -> tuple[int, str]:
        return (self.loads[member_id], member_id)

    def balance(self) -> None:
        topics = [topic_id for topic_id in self._topics_in_order() if len(self.subscribers[topic_id]) > 1]
        while any([self._balance_topic(topic_id) for topic_id in topics]):  # noqa: C419  every topic gets its turn in a round
            pass

    def _balance_topic(self, topic_id: Uuid) -> bool:
        """Moves partitions of one topic while that evens out two loads; returns whether any
        moved."""
        partitions: dict[str, list[int]] = {}
        for partition, owner in enumerate(self.owners[topic_id]):
            if owner is not None:
                partitions.setdefault(owner, []).append(partition)
        has_moved = False
        while partitions:
            most = max(partitions, key=self._load_and_id)
            least = min(self.subscribers[topic_id], key=self._load_and_id)
            if self.loads[most] - self.loads[least] < 2:
                break
            partition = partitions[most].pop()
            if not partitions[most]:
                del partitions[most]
            self._give(topic_id, partition, least)
            partitions.setdefault(least, []).append(partition)
            has_moved = True
        return has_moved

    def assignments(self) -> dict[str, Assignment]:
        result: dict[str, dict[Uuid, set[int]]] = {member_id: {} for member_id in self.member_ids}
        for topic_id, owners in self.owners.items():
            for partition, owner in enumerate(owners):
                assert owner is not None, f"{topic_id}-{partition} has no owner"
                result[owner].setdefault(topic_id, set()).add(partition)
        return {member: {topic: frozenset(partitions) for topic, partitions in topics.items()} for member, topics in result.items()}
