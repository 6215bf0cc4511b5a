"""The interface of server-side assignors: from members and topics to an assignment of partitions
(Kafka's `ConsumerGroupPartitionAssignor`).

Assignors are pure functions and know no epochs: when the group epoch goes up, an assignor computes
the *target* assignment of that epoch, and `CurrentAssignmentBuilder` brings each member there.
Every partition of a topic that somebody subscribes to gets exactly one owner among the subscribers.
Members and topics come in a fixed order, so the result depends on nothing else.
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
    """A member as an assignor sees it: its topics (sorted by id) and its partitions in the last
    target assignment."""

    topic_ids: tuple[Uuid, ...]
    assignment: Mapping[Uuid, frozenset[int]] = {}
    instance_id: str | None = None
    rack_id: str | None = None


class GroupSpec(Struct, frozen=True):
    """A group as an assignor sees it. `partition_counts` has every topic that a member subscribes
    to."""

    members: dict[str, MemberSpec]
    subscription_type: SubscriptionType
    partition_counts: Mapping[Uuid, int]


class PartitionAssignorException(KmirrorError):
    """The assignor cannot assign, e.g. because a topic is missing."""


class PartitionAssignor(Protocol):
    """`name` is the assignor's name in requests and in `group.consumer.assignors`."""

    name: str

    def assign(self, group: GroupSpec) -> dict[str, Assignment]:
        """Returns the target assignment of every member."""
        ...


def partition_count(group: GroupSpec, topic_id: Uuid) -> int:
    """Returns how many partitions a topic has; raises PartitionAssignorException if the topic is
    missing."""
    count = group.partition_counts.get(topic_id)
    if count is None:
        raise PartitionAssignorException(f"Members are subscribed to topic {topic_id} which doesn't exist in the topic metadata.")
    return count
