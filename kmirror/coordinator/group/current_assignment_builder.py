"""How a member gets from its present partitions to its target, one heartbeat at a time (Kafka's
`CurrentAssignmentBuilder`).

One rule governs all steps: a member gets a partition only when nobody else has it. So a member
first gives up the partitions that it should not have any more, and then gets those that are free.
The effect of a heartbeat in each state:

    | state                 | the member confirmed | the target epoch is | what happens                                    |
    |-----------------------|----------------------|---------------------|-------------------------------------------------|
    | STABLE                | -                    | the member's        | nothing, but topics it left are taken away      |
    | STABLE                | -                    | newer               | NEXT                                            |
    | UNREVOKED_PARTITIONS  | no                   | any                 | nothing, but topics it left are taken away      |
    | UNREVOKED_PARTITIONS  | yes                  | any                 | NEXT                                            |
    | UNRELEASED_PARTITIONS | -                    | any                 | NEXT                                            |
    | UNKNOWN               | owns nothing         | any                 | NEXT                                            |
    | UNKNOWN               | owns something       | any                 | FENCED_MEMBER_EPOCH                             |

NEXT: if the member must give up partitions, it becomes UNREVOKED_PARTITIONS in its old epoch, until
its heartbeat no longer names these partitions as owned. Otherwise it moves to the target's epoch
with the partitions that it keeps and those that are free; it is UNRELEASED_PARTITIONS while other
members still have part of its target, else STABLE. A heartbeat without a list of owned partitions
confirms nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec import structs

from kmirror.common.errors import ApiException, Errors
from kmirror.common.uuid import Uuid
from kmirror.coordinator.group.assignor import Assignment
from kmirror.coordinator.group.consumer_group_member import ConsumerGroupMember, MemberState, Partitions

CurrentPartitionEpoch = Callable[[Uuid, int], int]
"""Returns the epoch of the member that has a partition; -1 if nobody has it."""


class OwnedTopicPartitions(Protocol):
    """Partitions of one topic as a heartbeat names them."""

    @property
    def topic_id(self) -> Uuid: ...

    @property
    def partitions(self) -> list[int]: ...


class CurrentAssignmentBuilder:
    """One step of one member. `subscribed_topic_ids` are the existing topics that it subscribes to,
    by name or pattern."""

    def __init__(
        self,
        member: ConsumerGroupMember,
        *,
        target_assignment_epoch: int,
        target_assignment: Assignment,
        subscribed_topic_ids: Sequence[Uuid],
        has_subscription_changed: bool,
        current_partition_epoch: CurrentPartitionEpoch,
        owned_topic_partitions: Sequence[OwnedTopicPartitions] | None,
    ) -> None:
        self._member = member
        self._target_epoch = target_assignment_epoch
        self._target = target_assignment
        self._subscribed_topic_ids = frozenset(subscribed_topic_ids)
        self._has_subscription_changed = has_subscription_changed
        self._current_partition_epoch = current_partition_epoch
        self._owned = owned_topic_partitions

    def build(self) -> ConsumerGroupMember:
        """Returns the member after this heartbeat; the same object if nothing changes."""
        member = self._member
        if member.state is MemberState.STABLE and member.member_epoch == self._target_epoch:
            return self._without_left_topics() if self._has_subscription_changed else member
        if member.state is MemberState.UNREVOKED_PARTITIONS and self._owns_any(member.partitions_pending_revocation):
            return self._without_left_topics() if self._has_subscription_changed else member
        if member.state is MemberState.UNKNOWN and (self._owned is None or self._owned):
            raise ApiException(
                Errors.FENCED_MEMBER_EPOCH,
                "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin.",
            )
        return self._next(self._target_epoch if member.state is MemberState.UNKNOWN else member.member_epoch)

    def _owns_any(self, partitions: Mapping[Uuid, Mapping[int, int]]) -> bool:
        """Whether the member may still work on one of `partitions`: it named one as owned, or did
        not say what it owns."""
        if self._owned is None:
            return True
        return any(partition in partitions.get(owned.topic_id, {}) for owned in self._owned for partition in owned.partitions)

    def _without_left_topics(self) -> ConsumerGroupMember:
        """Makes the member give up, before there is a new target, partitions of topics that it no
        longer subscribes to."""
        member = self._member
        left = {topic: epochs for topic, epochs in member.assigned_partitions.items() if topic not in self._subscribed_topic_ids}
        if not left:
            return member
        kept = {topic: epochs for topic, epochs in member.assigned_partitions.items() if topic not in left}
        pending = dict(member.partitions_pending_revocation)
        for topic_id, epochs in left.items():
            pending[topic_id] = pending.get(topic_id, {}) | epochs
        changes = {"member_epoch": member.member_epoch, "previous_member_epoch": member.member_epoch, "assigned_partitions": kept}
        if self._owns_any(pending):
            changes |= {"state": MemberState.UNREVOKED_PARTITIONS, "partitions_pending_revocation": pending}
        return structs.replace(member, **changes)

    def _next(self, member_epoch: int) -> ConsumerGroupMember:
        kept, revoked = self._keep_and_revoke()
        if revoked and self._owns_any(revoked):
            return structs.replace(
                self._member,
                state=MemberState.UNREVOKED_PARTITIONS,
                member_epoch=member_epoch,
                previous_member_epoch=self._member.member_epoch,
                assigned_partitions=kept,
                partitions_pending_revocation=revoked,
            )
        assigned, is_waiting = self._with_free_partitions(kept)
        return structs.replace(
            self._member,
            state=MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE,
            member_epoch=self._target_epoch,
            previous_member_epoch=self._member.member_epoch,
            assigned_partitions=assigned,
            partitions_pending_revocation={},
        )

    def _target_of(self, topic_id: Uuid) -> frozenset[int]:
        return self._target.get(topic_id, frozenset()) if topic_id in self._subscribed_topic_ids else frozenset()

    def _keep_and_revoke(self) -> tuple[Partitions, Partitions]:
        kept: Partitions = {}
        revoked: Partitions = {}
        for topic_id, epochs in self._member.assigned_partitions.items():
            target = self._target_of(topic_id)
            for partition, epoch in epochs.items():
                (kept if partition in target else revoked).setdefault(topic_id, {})[partition] = epoch
        return kept, revoked

    def _with_free_partitions(self, kept: Partitions) -> tuple[Partitions, bool]:
        """Returns the partitions that the member keeps with those of its target that are free (or
        were its own until now), and whether some are still missing."""
        assigned = {topic_id: dict(epochs) for topic_id, epochs in kept.items()}
        is_waiting = False
        for topic_id in sorted(self._target, key=lambda topic_id: topic_id.raw):
            for partition in sorted(self._target_of(topic_id)):
                if partition in kept.get(topic_id, {}):
                    continue
                is_its_own = partition in self._member.partitions_pending_revocation.get(topic_id, {})
                if is_its_own or self._current_partition_epoch(topic_id, partition) == -1:
                    assigned.setdefault(topic_id, {})[partition] = self._target_epoch
                else:
                    is_waiting = True
        return assigned, is_waiting
