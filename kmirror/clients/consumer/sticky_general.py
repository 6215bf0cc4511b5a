"""The sticky assignment where members are subscribed to different topics.

1. Members keep what they own and are still subscribed to.
2. Free partitions, those with the fewest possible owners first, go to the possible owner that has
   the fewest partitions (then by member id).
3. Partitions are moved until no move improves the balance: a partition leaves a member that has at
   least two more than another possible owner. It goes back to the member that had it a generation
   earlier if that one is still subscribed (Kafka does not look) and has at least two less, else to
   the possible owner with the fewest. First only
   the newly assigned ones are tried, unless something had to be taken away already; then all.
   Instead of a partition that would follow a move of the same topic in the opposite direction, the
   one that made that move goes back.
4. If members had partitions before, and the sum of all differences between two members is not
   smaller after step 3, step 3 is undone.

Partitions with one possible owner, and members that cannot gain or lose any, stay out of step 3.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence

from kmirror.clients.consumer.partition_assignor import Assignments, Subscription
from kmirror.common.java_hash_map import topic_partition_order
from kmirror.common.topic_partition import TopicPartition


class GeneralAssignment:
    """Builds one assignment. `previous` tells who had a partition before the last generation."""

    def __init__(
        self,
        partitions_per_topic: Mapping[str, int],
        subscriptions: Mapping[str, Subscription],
        owned: Assignments,
        previous: Mapping[TopicPartition, str],
    ) -> None:
        self._counts = partitions_per_topic
        self._subscriptions = subscriptions
        self._previous = previous
        self._current: Assignments = {member: [] for member in subscriptions}
        self._owner: dict[TopicPartition, str] = {}
        self._topics_of = {
            member: [topic for topic in dict.fromkeys(subscription.topics) if topic in partitions_per_topic]
            for member, subscription in subscriptions.items()
        }
        self._possible: dict[str, list[str]] = {topic: [] for topic in partitions_per_topic}
        for member, topics in self._topics_of.items():
            for topic in topics:
                self._possible[topic].append(member)
        self._had_to_revoke = self._keep(owned)
        order = sorted(partitions_per_topic, key=lambda topic: (len(self._possible[topic]), topic))
        self._all = [TopicPartition(topic, number) for topic in order for number in range(partitions_per_topic[topic])]
        self._ranks = sorted((len(partitions), member) for member, partitions in self._current.items())
        self._movements = _Movements()

    def _keep(self, owned: Assignments) -> bool:
        """Takes over what members own. Returns whether one had to lose something."""
        had_to_revoke = False
        for member, partitions in owned.items():
            for partition in partitions:
                if partition.topic in self._topics_of[member]:
                    if partition.partition < self._counts[partition.topic]:
                        self._current[member].append(partition)
                        self._owner[partition] = member
                elif partition.topic in self._counts:
                    had_to_revoke = True
        return had_to_revoke

    def build(self) -> Assignments:
        """Returns the partitions of each member."""
        if not self._ranks:
            return {}
        initializing = self._ranks[-1][0] == 0
        free = [partition for partition in self._all if partition not in self._owner]
        for partition in free:
            self._give_to_the_one_with_fewest(partition)
        movable = [partition for partition in self._all if len(self._possible[partition.topic]) > 1]
        movable_free = [partition for partition in free if len(self._possible[partition.topic]) > 1]
        fixed = {member: self._current[member] for member in list(self._current) if not self._can_take_part(member)}
        for member in fixed:
            self._unrank(member)
            del self._current[member]
        before = {member: list(partitions) for member, partitions in self._current.items()}
        if not self._had_to_revoke:
            self._reassign(movable_free)
        reassigned = self._reassign(movable)
        if not initializing and reassigned and _score(self._current) >= _score(before):
            self._current = before
        return self._current | fixed

    def _give_to_the_one_with_fewest(self, partition: TopicPartition) -> None:
        if self._possible[partition.topic]:
            member = self._fewest(partition.topic)
            self._unrank(member)
            self._current[member].append(partition)
            self._owner[partition] = member
            self._rank(member)

    def _fewest(self, topic: str) -> str:
        return next(member for _, member in self._ranks if topic in self._topics_of[member])

    def _rank(self, member: str) -> None:
        insort(self._ranks, (len(self._current[member]), member))

    def _unrank(self, member: str) -> None:
        del self._ranks[bisect_left(self._ranks, (len(self._current[member]), member))]

    def _most(self, member: str) -> int:
        return sum(self._counts[topic] for topic in self._topics_of[member])

    def _can_take_part(self, member: str) -> bool:
        partitions = self._current[member]
        return len(partitions) < self._most(member) or any(len(self._possible[partition.topic]) > 1 for partition in partitions)

    def _is_balanced(self) -> bool:
        if not self._ranks or self._ranks[0][0] >= self._ranks[-1][0] - 1:
            return True
        for count, member in self._ranks:
            if count == self._most(member):
                continue
            mine = set(self._current[member])
            for topic in self._topics_of[member]:
                for number in range(self._counts[topic]):
                    partition = TopicPartition(topic, number)
                    if partition not in mine and count + 1 < len(self._current.get(self._owner[partition], ())):
                        return False
        return True

    def _reassign(self, partitions: Sequence[TopicPartition]) -> bool:
        performed = False
        modified = True
        while modified:
            modified = False
            for partition in partitions:
                if self._is_balanced():
                    break
                if self._improve(partition):
                    modified = performed = True
        return performed

    def _improve(self, partition: TopicPartition) -> bool:
        owner = self._owner[partition]
        count = len(self._current[owner])
        before = self._previous.get(partition)
        may_have_it = before is not None and before in self._current and partition.topic in self._topics_of[before]
        if before is not None and may_have_it and count > len(self._current[before]) + 1:
            self._move(partition, before)
            return True
        if any(count > len(self._current[other]) + 1 for other in self._possible[partition.topic] if other in self._current):
            self._move(partition, self._fewest(partition.topic))
            return True
        return False

    def _move(self, partition: TopicPartition, new_owner: str) -> None:
        actual = self._movements.actual(partition, self._owner[partition], new_owner)
        old_owner = self._owner[actual]
        if old_owner == new_owner:
            return
        self._unrank(old_owner)
        self._unrank(new_owner)
        self._movements.note(actual, old_owner, new_owner)
        self._current[old_owner].remove(actual)
        self._current[new_owner].append(actual)
        self._owner[actual] = new_owner
        self._rank(new_owner)
        self._rank(old_owner)


class _Movements:
    """Which partition has moved from where to where, over all its moves."""

    def __init__(self) -> None:
        self._pair_of: dict[TopicPartition, tuple[str, str]] = {}
        self._by_topic: dict[str, dict[tuple[str, str], dict[TopicPartition, None]]] = {}

    def note(self, partition: TopicPartition, old_owner: str, new_owner: str) -> None:
        source = old_owner
        if partition in self._pair_of:
            source, _ = pair = self._pair_of.pop(partition)
            pairs = self._by_topic[partition.topic]
            del pairs[pair][partition]
            if not pairs[pair]:
                del pairs[pair]
            if source == new_owner:
                return
        self._pair_of[partition] = (source, new_owner)
        self._by_topic.setdefault(partition.topic, {}).setdefault((source, new_owner), {})[partition] = None

    def actual(self, partition: TopicPartition, old_owner: str, new_owner: str) -> TopicPartition:
        """The partition to move instead: one of the same topic that has moved the opposite way."""
        source = self._pair_of[partition][0] if partition in self._pair_of else old_owner
        opposite = self._by_topic.get(partition.topic, {}).get((new_owner, source))
        return topic_partition_order(opposite)[0] if opposite else partition


def _score(assignments: Assignments) -> int:
    """The sum of the differences in size over all pairs of members."""
    sizes = [len(partitions) for partitions in assignments.values()]
    return sum(abs(one - other) for index, one in enumerate(sizes) for other in sizes[index + 1 :])
