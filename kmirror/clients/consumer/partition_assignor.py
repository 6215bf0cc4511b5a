"""What client-side assignors get and return (Kafka's `ConsumerPartitionAssignor`).

The leader of a classic group assigns for all members. Every function here is pure: equal input
gives equal output, whatever the order of the mappings. Where Kafka's result depends on the order in
which a Java `HashMap` iterates over member ids, that order is computed (`members_in_java_order`),
so a group whose leader changes between this client and a Java client keeps its assignment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, Protocol

from kmirror.common.java_hash_map import hash_map_order
from kmirror.common.topic_partition import TopicPartition

DEFAULT_GENERATION: Final = -1

Assignments = dict[str, list[TopicPartition]]
"""The partitions of each member, by member id."""


class RebalanceProtocol(IntEnum):
    """EAGER: a member gives everything up before it joins again. COOPERATIVE: it keeps what it
    owns until it is told what to give up (KIP-429)."""

    EAGER = 0
    COOPERATIVE = 1


@dataclass(frozen=True, slots=True)
class Subscription:
    """What one member said of itself when it joined. `generation_id` is -1 if it said none."""

    topics: Sequence[str]
    owned_partitions: Sequence[TopicPartition] = ()
    generation_id: int = DEFAULT_GENERATION
    user_data: bytes | None = None
    rack_id: str | None = None
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class GroupAssignment:
    """The result of an assignor. `user_data` goes to every member."""

    partitions: Assignments = field(default_factory=dict)
    user_data: bytes | None = None


class ConsumerPartitionAssignor(Protocol):
    """One strategy. `supported_protocols` is in ascending order."""

    name: str
    supported_protocols: tuple[RebalanceProtocol, ...]

    def subscription_user_data(self, owned_partitions: Sequence[TopicPartition], generation_id: int) -> bytes | None:
        """The bytes that a member sends along when it joins: what it was last assigned, and in
        which generation (-1 before the first)."""
        ...

    def assign(self, partitions_per_topic: Mapping[str, int], subscriptions: Mapping[str, Subscription]) -> Assignments:
        """Assigns all partitions of the subscribed topics. Topics that do not exist are not in
        `partitions_per_topic`."""
        ...


def members_in_java_order(member_ids: Iterable[str]) -> list[str]:
    """The members in the order in which Java's `HashMap` iterates over them."""
    return hash_map_order(sorted(member_ids))


def members_in_rank_order(subscriptions: Mapping[str, Subscription]) -> list[str]:
    """Static members by instance id, then dynamic ones by member id (Kafka's `MemberInfo`)."""

    def rank(member_id: str) -> tuple[bool, str]:
        instance_id = subscriptions[member_id].group_instance_id
        return (instance_id is None, member_id if instance_id is None else instance_id)

    return sorted(subscriptions, key=rank)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers by topic, both in order of first appearance."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in partitions:
        grouped.setdefault(topic, []).append(partition)
    return grouped
