"""`StickyAssignor` and `CooperativeStickyAssignor`: balanced, and members keep what they can.

Both see what each member owned and in which generation. A partition that two members claim goes to
the one with the later generation; claimed twice in the same generation it counts as free. When all
members have the same topics `sticky_constrained` assigns, else `sticky_general`.

They differ in three points:

- Where the ownership comes from: "sticky" reads the user data (`user_data_v1`: what was last
  assigned, and the generation), because an eager member has given up everything before it joins;
  "cooperative-sticky" reads the subscription's own fields.
- The cooperative one may not hand a partition to its new owner while the old one has it. It leaves
  such partitions out; the old owner gives them up and joins again, and then they are free.
- The protocols that they support.

Racks (KIP-881) are not considered.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kmirror.clients.consumer.partition_assignor import (
    DEFAULT_GENERATION,
    Assignments,
    RebalanceProtocol,
    Subscription,
    by_topic,
    members_in_java_order,
)
from kmirror.clients.consumer.sticky_constrained import ConstrainedAssignment
from kmirror.clients.consumer.sticky_general import GeneralAssignment
from kmirror.common.topic_partition import TopicPartition


class MemberData(NamedTuple):
    """What a member owned, and in which generation; None if it did not say."""

    partitions: Sequence[TopicPartition]
    generation: int | None


class Claims(NamedTuple):
    """Who owns what, after doubtful claims were settled."""

    owned: Assignments
    claimed_twice: set[TopicPartition]
    max_generation: int


class StickyAssignor:
    """Implements `ConsumerPartitionAssignor`."""

    name = "sticky"
    supported_protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)

    def subscription_user_data(self, owned_partitions: Sequence[TopicPartition], generation_id: int) -> bytes | None:
        """What was last assigned, and its generation; None before the first assignment."""
        return None if generation_id == DEFAULT_GENERATION else user_data_v1(owned_partitions, generation_id)

    def assign(self, partitions_per_topic: Mapping[str, int], subscriptions: Mapping[str, Subscription]) -> Assignments:
        """See the module's docstring."""
        return _assign(partitions_per_topic, subscriptions, _sticky_members(subscriptions))[0]


class CooperativeStickyAssignor:
    """Implements `ConsumerPartitionAssignor`."""

    name = "cooperative-sticky"
    supported_protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER, RebalanceProtocol.COOPERATIVE)

    def subscription_user_data(self, owned_partitions: Sequence[TopicPartition], generation_id: int) -> bytes | None:
        """The generation (i32), for leaders that do not know the subscription's own field."""
        return struct.pack(">i", generation_id)

    def assign(self, partitions_per_topic: Mapping[str, int], subscriptions: Mapping[str, Subscription]) -> Assignments:
        """See the module's docstring."""
        assignments, moving = _assign(partitions_per_topic, subscriptions, _cooperative_members(subscriptions))
        if moving is None:
            moving = _moving(subscriptions, assignments)
        for partition, member in moving.items():
            assignments[member].remove(partition)
        return assignments


def _assign(
    partitions_per_topic: Mapping[str, int], subscriptions: Mapping[str, Subscription], members: Mapping[str, MemberData]
) -> tuple[Assignments, dict[TopicPartition, str] | None]:
    """The assignment; and the partitions that change hands with their new owner, or None if that
    was not noted."""
    order = members_in_java_order(subscriptions)
    claims = settle_claims(order, members, partitions_per_topic)
    if _all_equal(subscriptions, order):
        constrained = ConstrainedAssignment(partitions_per_topic, claims.owned, claims.claimed_twice)
        return constrained.build(), constrained.moving
    return GeneralAssignment(
        partitions_per_topic, subscriptions, claims.owned, _previous(members, order, claims.max_generation)
    ).build(), None


def settle_claims(order: Iterable[str], members: Mapping[str, MemberData], partitions_per_topic: Mapping[str, int]) -> Claims:
    """Gives each partition that still exists to the one member that may claim it."""
    owned: Assignments = {}
    owner: dict[TopicPartition, str] = {}
    claimed_twice: set[TopicPartition] = set()
    for member in order:
        generation = _generation(members[member])
        mine = owned[member] = []
        for partition in members[member].partitions:
            if partition.partition >= partitions_per_topic.get(partition.topic, 0):
                continue
            other = owner.get(partition)
            if other is None:
                mine.append(partition)
                owner[partition] = member
                continue
            other_generation = _generation(members[other])
            if generation < other_generation:
                continue
            if partition in owned[other]:
                owned[other].remove(partition)
            owner[partition] = member
            if generation == other_generation:
                claimed_twice.add(partition)
            else:
                mine.append(partition)
    return Claims(owned, claimed_twice, max((_generation(data) for data in members.values()), default=DEFAULT_GENERATION))


def _generation(data: MemberData) -> int:
    return DEFAULT_GENERATION if data.generation is None else data.generation


def _all_equal(subscriptions: Mapping[str, Subscription], order: Sequence[str]) -> bool:
    first = set(subscriptions[order[0]].topics) if order else set()
    return all(set(subscriptions[member].topics) == first for member in order)


def _previous(members: Mapping[str, MemberData], order: Iterable[str], max_generation: int) -> dict[TopicPartition, str]:
    """Who had a partition in the latest generation before the last one that anybody knows."""
    latest: dict[TopicPartition, tuple[int, str]] = {}
    for member in order:
        data = members[member]
        generation = _generation(data)
        if generation < max_generation:
            for partition in data.partitions:
                if partition not in latest or generation > latest[partition][0]:
                    latest[partition] = (generation, member)
    return {partition: member for partition, (_, member) in latest.items()}


def _moving(subscriptions: Mapping[str, Subscription], assignments: Assignments) -> dict[TopicPartition, str]:
    """The partitions that one member gains and another loses, with the one that gains."""
    added: dict[TopicPartition, str] = {}
    revoked: set[TopicPartition] = set()
    for member, assigned in assignments.items():
        owned = set(subscriptions[member].owned_partitions)
        added |= {partition: member for partition in assigned if partition not in owned}
        revoked |= owned.difference(assigned)
    return {partition: member for partition, member in added.items() if partition in revoked}


def _sticky_members(subscriptions: Mapping[str, Subscription]) -> dict[str, MemberData]:
    return {member: _read_user_data(subscription.user_data) for member, subscription in subscriptions.items()}


def _cooperative_members(subscriptions: Mapping[str, Subscription]) -> dict[str, MemberData]:
    members = {}
    for member, subscription in subscriptions.items():
        generation: int | None = subscription.generation_id
        if generation == DEFAULT_GENERATION:
            data = subscription.user_data
            generation = None if data is None else struct.unpack_from(">i", data)[0] if len(data) >= 4 else DEFAULT_GENERATION
        members[member] = MemberData(subscription.owned_partitions, generation)
    return members


def user_data_v1(partitions: Sequence[TopicPartition], generation_id: int) -> bytes:
    """topics: i32 count, then name (i16 length), partitions (i32 count, i32 each); generation i32."""
    topics = by_topic(partitions)
    parts = [struct.pack(">i", len(topics))]
    for topic, numbers in topics.items():
        name = topic.encode()
        parts.append(struct.pack(f">h{len(name)}si{len(numbers)}i", len(name), name, len(numbers), *numbers))
    parts.append(struct.pack(">i", generation_id))
    return b"".join(parts)


def _read_user_data(data: bytes | None) -> MemberData:
    """Reads v1, or v0, which has no generation. Bytes that are neither count as no claim of an
    unknown generation."""
    if not data:
        return MemberData((), None)
    try:
        (count,) = struct.unpack_from(">i", data)
        position = 4
        partitions: list[TopicPartition] = []
        for _ in range(count):
            (size,) = struct.unpack_from(">h", data, position)
            topic = data[position + 2 : position + 2 + size].decode()
            position += 2 + size
            (numbers,) = struct.unpack_from(">i", data, position)
            partitions += [TopicPartition(topic, number) for number in struct.unpack_from(f">{numbers}i", data, position + 4)]
            position += 4 + 4 * numbers
    except (struct.error, UnicodeDecodeError):
        return MemberData((), DEFAULT_GENERATION)
    generation = struct.unpack_from(">i", data, position)[0] if position + 4 <= len(data) else None
    return MemberData(partitions, generation)
