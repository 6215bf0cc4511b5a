"""A consumer group (KIP-848): members, epochs, target assignment (Kafka's `ConsumerGroup`).

There are three epochs. The *group epoch* goes up when a member joins, leaves or changes its
subscription, or when topics change. The *assignment epoch* is the group epoch for which a target
assignment was computed. A *member epoch* is the assignment epoch that a member has reached. The
state follows from them:

    EMPTY        no members
    ASSIGNING    group epoch > assignment epoch: a new target assignment is due
    RECONCILING  some member has not reached its target
    STABLE       everybody has

The group changes only in replay. `current_partition_epoch` returns the epoch of the member that has
a partition or still has to give it up; a partition without one is free. Static members that left
temporarily (epoch -2) keep their partitions. Members may use the classic protocol while a group
moves from one protocol to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum

from kmirror.common.errors import ApiException, Errors
from kmirror.common.sentinels import NO_EPOCH
from kmirror.common.uuid import Uuid
from kmirror.coordinator.group.assignor import Assignment, SubscriptionType
from kmirror.coordinator.group.consumer_group_member import ConsumerGroupMember, Partitions
from kmirror.coordinator.group.topic_regex import ResolvedRegularExpression

CONSUMER_PROTOCOL_TYPE = "consumer"
OFFSET_COMMIT_WITH_EPOCHS_VERSION = 9

CommitPartitionValidator = Callable[[str, Uuid, int], None]
"""Raises ApiException if a member may not commit an offset for this partition (topic, its id,
partition) with the epoch in its request."""


class ConsumerGroupState(Enum):
    """States, with the names that ConsumerGroupDescribe and ListGroups print."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ConsumerGroup:
    """The state of one group. Anyone may read it; only replay (`ConsumerGroupReplay`) changes
    it."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = 1
        self.metadata_hash = 0
        self.assignment_epoch = NO_EPOCH
        self.assignment_timestamp_ms = 0
        self.members: dict[str, ConsumerGroupMember] = {}
        self.target_assignments: dict[str, Assignment] = {}
        self.resolved_regular_expressions: dict[str, ResolvedRegularExpression] = {}
        self.has_subscription_metadata_record = False
        self.is_metadata_fresh = False
        """Whether the metadata hash was compared after the last change of topics; soft state."""
        self._static_members: dict[str, str] = {}
        self._partition_epochs: dict[tuple[Uuid, int], int] = {}

    # -- queries -----------------------------------------------------------------------------------

    @property
    def protocol_type(self) -> str:
        return CONSUMER_PROTOCOL_TYPE

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.group_epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def is_empty(self) -> bool:
        return not self.members

    def member(self, member_id: str) -> ConsumerGroupMember:
        """Returns the member; raises UNKNOWN_MEMBER_ID if there is none."""
        member = self.members.get(member_id)
        if member is None:
            raise ApiException(Errors.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def static_member(self, instance_id: str | None) -> ConsumerGroupMember | None:
        member_id = None if instance_id is None else self._static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_assignment(self, member_id: str, instance_id: str | None = None) -> Assignment:
        """Returns a member's target, found by its instance id if it has one (its member id may be
        new)."""
        if instance_id is not None:
            member_id = self._static_members.get(instance_id, "")
        return self.target_assignments.get(member_id, {})

    def current_partition_epoch(self, topic_id: Uuid, partition: int) -> int:
        return self._partition_epochs.get((topic_id, partition), NO_EPOCH)

    def members_after(self, changed: ConsumerGroupMember | None = None, removed: Collection[str] = ()) -> dict[str, ConsumerGroupMember]:
        """Returns the members after `changed` is stored (a static one replaces its former self) and
        `removed` are gone."""
        gone = set(removed)
        if changed is not None and changed.instance_id is not None:
            gone.add(self._static_members.get(changed.instance_id, ""))
        members = {member_id: member for member_id, member in self.members.items() if member_id not in gone}
        if changed is not None:
            members[changed.member_id] = changed
        return members

    def subscribed_topics(self, members: Mapping[str, ConsumerGroupMember] | None = None) -> set[str]:
        """Returns the names that any member subscribes to, by name or by a resolved pattern. A set:
        never iterate over it without sorting."""
        members = self.members if members is None else members
        names: set[str] = set()
        for member in members.values():
            names.update(self.topics_of(member))
        return names

    def named_topics(self) -> Iterable[tuple[str, ...]]:
        """Yields the names that each member subscribes to, and the names that each pattern was
        resolved to."""
        yield from (member.subscribed_topic_names for member in self.members.values())
        yield from (resolved.topics for resolved in self.resolved_regular_expressions.values())

    def topics_of(self, member: ConsumerGroupMember) -> tuple[str, ...]:
        """Returns the names that a member subscribes to, including the topics of its pattern once
        that is resolved."""
        resolved = self.resolved_regular_expressions.get(member.subscribed_topic_regex)
        return member.subscribed_topic_names if resolved is None else member.subscribed_topic_names + resolved.topics

    def is_subscribed_to(self, topic: str) -> bool:
        return any(topic in self.topics_of(member) for member in self.members.values())

    def subscription_type(self, members: Mapping[str, ConsumerGroupMember] | None = None) -> SubscriptionType:
        members = self.members if members is None else members
        kinds = {(member.subscribed_topic_names, member.subscribed_topic_regex) for member in members.values()}
        return SubscriptionType.HOMOGENEOUS if len(kinds) <= 1 else SubscriptionType.HETEROGENEOUS

    def regular_expressions(self, members: Mapping[str, ConsumerGroupMember] | None = None) -> dict[str, int]:
        """Returns the patterns of `members`, with the number of members that use each."""
        counts: dict[str, int] = {}
        for member in (self.members if members is None else members).values():
            if member.subscribed_topic_regex:
                counts[member.subscribed_topic_regex] = counts.get(member.subscribed_topic_regex, 0) + 1
        return counts

    def preferred_server_assignor(self, members: Mapping[str, ConsumerGroupMember] | None = None) -> str | None:
        """Returns the assignor that most members ask for; None if no member asks for one."""
        votes: dict[str, int] = {}
        for member in (self.members if members is None else members).values():
            if member.server_assignor is not None:
                votes[member.server_assignor] = votes.get(member.server_assignor, 0) + 1
        return max(sorted(votes), key=lambda name: votes[name], default=None)

    def all_use_classic_protocol_except(self, member_ids: Iterable[str]) -> bool:
        excluded = set(member_ids)
        return all(member.uses_classic_protocol for member_id, member in self.members.items() if member_id not in excluded)

    def supports_classic_protocols(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member with these protocols fits the classic members: they need one protocol
        that all of them know."""
        wanted = set(names)
        if protocol_type != CONSUMER_PROTOCOL_TYPE or self.is_empty:
            return protocol_type == CONSUMER_PROTOCOL_TYPE and bool(wanted)
        known = [{name for name, _ in member.classic.protocols} for member in self.members.values() if member.classic is not None]
        return bool(wanted.intersection(*known))

    def is_waiting_on_unreleased_partition(self, member: ConsumerGroupMember) -> bool:
        """Whether another member still has a partition of this member's target."""
        return any(
            partition not in member.assigned_partitions.get(topic_id, {}) and self.current_partition_epoch(topic_id, partition) != NO_EPOCH
            for topic_id, partitions in self.target_assignment(member.member_id).items()
            for partition in partitions
        )

    # -- validation of requests for offsets --------------------------------------------------------

    def validate_offset_commit(
        self, member_id: str, group_instance_id: str | None, member_epoch: int, *, is_transactional: bool, api_version: int
    ) -> CommitPartitionValidator | None:
        """Raises ApiException if the member may not commit; otherwise returns the check to make for
        each partition, or None."""
        if member_epoch < 0 and self.is_empty:
            return None
        if is_transactional and member_epoch == -1 and not member_id and group_instance_id is None:
            return None
        member = self.member(member_id)
        if not is_transactional and not member.uses_classic_protocol and api_version < OFFSET_COMMIT_WITH_EPOCHS_VERSION:
            raise ApiException(
                Errors.UNSUPPORTED_VERSION, "OffsetCommit version 9 or above must be used by members using the consumer group protocol"
            )
        if member_epoch == member.member_epoch:
            return None
        if member_epoch > member.member_epoch:
            what = "generation id" if member.uses_classic_protocol else "member epoch"
            raise ApiException(_stale(member), f"Received {what} {member_epoch} is newer than current member epoch {member.member_epoch}.")
        return lambda topic, topic_id, partition: _check_assignment_epoch(member, member_epoch, topic, topic_id, partition)

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raises UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH or ILLEGAL_GENERATION; a request without a
        member comes from outside the group and is allowed."""
        if member_id is None and member_epoch < 0:
            return
        member = self.member(member_id or "")
        if member_epoch == member.member_epoch:
            return
        what = "generation id" if member.uses_classic_protocol else "member epoch"
        raise ApiException(
            _stale(member), f"The received {what} {member_epoch} does not match the expected member epoch {member.member_epoch}."
        )

    def validate_offset_delete(self) -> None:
        """Does nothing: offsets of topics that nobody subscribes to may always be deleted."""

    def validate_delete_group(self) -> None:
        if not self.is_empty:
            raise ApiException(Errors.NON_EMPTY_GROUP)

    # -- changes by replayed records ---------------------------------------------------------------

    def update_member(self, member: ConsumerGroupMember) -> None:
        self._release(self.members.get(member.member_id))
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self._static_members[member.instance_id] = member.member_id
        for topic_id, partition in _flat(member.assigned_partitions, member.partitions_pending_revocation):
            self._partition_epochs[(topic_id, partition)] = member.member_epoch

    def remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        self._release(member)
        if member is not None and member.instance_id is not None and self._static_members.get(member.instance_id) == member_id:
            del self._static_members[member.instance_id]

    def _release(self, member: ConsumerGroupMember | None) -> None:
        """Frees the partitions of a member's former self, unless somebody has them in another
        epoch."""
        if member is None:
            return
        for each in _flat(member.assigned_partitions, member.partitions_pending_revocation):
            if self._partition_epochs.get(each) == member.member_epoch:
                del self._partition_epochs[each]


def _stale(member: ConsumerGroupMember) -> Errors:
    return Errors.ILLEGAL_GENERATION if member.uses_classic_protocol else Errors.STALE_MEMBER_EPOCH


def _check_assignment_epoch(member: ConsumerGroupMember, member_epoch: int, topic: str, topic_id: Uuid, partition: int) -> None:
    assignment_epoch = member.assignment_epoch(topic_id, partition)
    if assignment_epoch is None:
        raise ApiException(_stale(member), f"Partition {topic}-{partition} is not assigned or pending revocation for member.")
    if member_epoch < assignment_epoch:
        what = "generation id" if member.uses_classic_protocol else "member epoch"
        raise ApiException(
            _stale(member),
            f"Received {what} {member_epoch} is older than assignment epoch {assignment_epoch} for partition {topic}-{partition}.",
        )


def _flat(*assignments: Partitions) -> Iterable[tuple[Uuid, int]]:
    return ((topic_id, partition) for partitions in assignments for topic_id, epochs in partitions.items() for partition in epochs)
