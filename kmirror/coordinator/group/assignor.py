"""What a server-side assignor is: members and topics in, who shall have which partitions out (Kafka's `ConsumerGroupPartitionAssignor`).

Assignors are pure functions and name no epoch: the group's epoch goes up, an assignor computes the *target* assignment of that epoch, and
`CurrentAssignmentBuilder` brings each member there. Every partition of a topic that somebody subscribes to gets exactly one owner among
the subscribers. Members and topics come in a fixed order, so the result depends on nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Protocol

from msgspec import Struct

from kmirror.common.errors import KmirrorError
from kmirror.common.uuid import Uuid

Assignment = dict[Uuid, frozenset[int]]
"""Partitions by topic. A topic without partitions is absent."""


class SubscriptionType(Enum):
    """Whether all members subscribe to the same topics."""

    HOMOGENEOUS = "Homogeneous"
    HETEROGENEOUS = "Heterogeneous"


class MemberSpec(Struct, frozen=True):
    """A member as an assignor sees it: its topics (sorted by id) and the partitions of its last target assignment."""

    topic_ids: tuple[Uuid, ...]
    assignment: Mapping[Uuid, frozenset[int]] = {}
    instance_id: str | None = None
    rack_id: str | None = None


class GroupSpec(Struct, frozen=True):
    """A group as an assignor sees it. `partition_counts` has every topic that a member names."""

    members: dict[str, MemberSpec]
    subscription_type: SubscriptionType
    partition_counts: Mapping[Uuid, int]


class PartitionAssignorException(KmirrorError):
    """The assignor cannot assign, e.g. because a topic is missing."""


class PartitionAssignor(Protocol):
    """`name` is what clients and `group.consumer.assignors` call it."""

    name: str

    def assign(self, group: GroupSpec) -> dict[str, Assignment]:
        """The target assignment of every member."""
        ...


def partition_count(group: GroupSpec, topic_id: Uuid) -> int:
    """How many partitions a topic has; PartitionAssignorException if it is not there."""
    count = group.partition_counts.get(topic_id)
    if count is None:
        raise PartitionAssignorException(f"Members are subscribed to topic {topic_id} which doesn't exist in the topic metadata.")
    return count
