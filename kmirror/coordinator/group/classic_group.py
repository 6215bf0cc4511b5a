"""A classic group: members, generation, and the five states of the rebalance protocol (Kafka's
`ClassicGroup`).

    EMPTY ── join ──> PREPARING_REBALANCE ── all joined or time is up ──> COMPLETING_REBALANCE ── leader synced ──> STABLE
      ^                    |        ^                                          |                                      |
      └── nobody is left ──┘        └───────────────── join, leave, expiry ────┴──────────────────────────────────────┘

Membership is soft state: it changes in memory, and one GroupMetadata record per generation restores
it after a load. A deleted group becomes `DEAD`, so that code which still refers to it gets an
error. A member waits for at most one response: to its join (until the generation begins) or to its
sync (until the leader's assignment is stored). Both are callbacks kept with the member. Names
chosen by clients (protocols, assignments) are bytes that only clients understand, except that a
"consumer" subscription is read for its topics (offset expiry and OffsetDelete need them).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final

from msgspec import Struct, field

from kmirror.common.errors import ApiException, Errors
from kmirror.coordinator.group.consumer_group import CommitPartitionValidator
from kmirror.coordinator.group.consumer_protocol import deserialize_subscription
from kmirror.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from kmirror.wire.messages.sync_group import SyncGroupResponse
from kmirror.wire.primitives import ProtocolReadError

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
UNKNOWN_MEMBER_ID: Final = ""

JoinCallback = Callable[[JoinGroupResponse], None]
SyncCallback = Callable[[SyncGroupResponse], None]


class ClassicGroupState(Enum):
    """States, with the names that DescribeGroups and ListGroups print."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_VALID_PREVIOUS: Final[dict[ClassicGroupState, frozenset[ClassicGroupState]]] = {
    ClassicGroupState.EMPTY: frozenset({ClassicGroupState.PREPARING_REBALANCE}),
    ClassicGroupState.PREPARING_REBALANCE: frozenset(
        {ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.EMPTY}
    ),
    ClassicGroupState.COMPLETING_REBALANCE: frozenset({ClassicGroupState.PREPARING_REBALANCE}),
    ClassicGroupState.STABLE: frozenset({ClassicGroupState.COMPLETING_REBALANCE}),
    ClassicGroupState.DEAD: frozenset(ClassicGroupState),
}


class ClassicGroupMember(Struct):
    """One member. `protocols` is in the member's order of preference; timeouts are milliseconds."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: list[tuple[str, bytes]]
    assignment: bytes = b""
    is_new: bool = False
    awaiting_join: JoinCallback | None = None
    awaiting_sync: SyncCallback | None = None

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """A member that waits for our response need not heartbeat, unless it is new: a new one may
        be expired while it waits."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    def matches(self, protocols: Sequence[tuple[str, bytes]]) -> bool:
        return list(protocols) == self.protocols

    def metadata(self, protocol_name: str) -> bytes:
        """Returns the member's metadata for `protocol_name`; raises KeyError if it does not know
        that protocol."""
        return dict(self.protocols)[protocol_name]

    def vote(self, candidates: set[str]) -> str:
        """Returns the member's favourite among the protocols that everyone supports."""
        return next(name for name, _ in self.protocols if name in candidates)


class ClassicGroup(Struct):
    """The state of one group. Only the classic group managers and loading change it."""

    group_id: str
    state: ClassicGroupState = ClassicGroupState.EMPTY
    current_state_timestamp_ms: int | None = None
    generation_id: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str | None = None
    members: dict[str, ClassicGroupMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    pending_join_members: dict[str, None] = field(default_factory=dict)
    pending_sync_members: dict[str, None] = field(default_factory=dict)
    new_member_added: bool = False
    subscribed_topics: frozenset[str] | None = None
    previous_state: ClassicGroupState = ClassicGroupState.EMPTY

    # -- states ------------------------------------------------------------------------------------

    def transition_to(self, state: ClassicGroupState, now_ms: int) -> None:
        assert self.state in _VALID_PREVIOUS[state], f"group {self.group_id} cannot go from {self.state} to {state}"
        self.previous_state, self.state, self.current_state_timestamp_ms = self.state, state, now_ms

    def is_in(self, *states: ClassicGroupState) -> bool:
        return self.state in states

    @property
    def can_rebalance(self) -> bool:
        return ClassicGroupState.PREPARING_REBALANCE is not self.state is not ClassicGroupState.DEAD

    # -- members -----------------------------------------------------------------------------------

    def add(self, member: ClassicGroupMember, callback: JoinCallback | None = None) -> None:
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self.pending_join_members.pop(member.member_id, None)
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        member.awaiting_join = callback

    def remove(self, member_id: str) -> ClassicGroupMember | None:
        member = self.members.pop(member_id, None)
        if member is not None and member.group_instance_id is not None:
            self.static_members.pop(member.group_instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_join_members.pop(member_id, None)
        self.pending_sync_members.pop(member_id, None)
        return member

    def replace_static_member(self, instance_id: str, old_member_id: str, new_member_id: str) -> ClassicGroupMember:
        """Replaces a static member that came back under a new id: the old id is fenced, and its
        waits fail with FENCED_INSTANCE_ID."""
        member = self.members.pop(old_member_id)
        if member.awaiting_join is not None:
            self.complete_join(member, JoinGroupResponse(member_id=old_member_id, error_code=Errors.FENCED_INSTANCE_ID))
        if member.awaiting_sync is not None:
            self.complete_sync(member, SyncGroupResponse(error_code=Errors.FENCED_INSTANCE_ID))
        member.member_id = new_member_id
        self.members[new_member_id] = member
        self.static_members[instance_id] = new_member_id
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id
        if self.pending_sync_members.pop(old_member_id, self) is None:
            self.pending_sync_members[new_member_id] = None
        return member

    def validate_member(self, member_id: str, instance_id: str | None, operation: str) -> None:
        """Raises FENCED_INSTANCE_ID or UNKNOWN_MEMBER_ID unless the member is who it claims to be
        (Kafka's `validateMember`)."""
        if instance_id is not None:
            existing = self.static_members.get(instance_id)
            if existing is None:
                raise ApiException(Errors.UNKNOWN_MEMBER_ID)
            if existing != member_id:
                raise ApiException(
                    Errors.FENCED_INSTANCE_ID,
                    f"{operation} of static member {member_id} with instance id {instance_id}: the instance belongs to {existing}",
                )
        if member_id not in self.members:
            raise ApiException(Errors.UNKNOWN_MEMBER_ID)

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def has_all_members_joined(self) -> bool:
        waiting = sum(member.awaiting_join is not None for member in self.members.values())
        return len(self.members) <= waiting and not self.pending_join_members

    def maybe_elect_new_joined_leader(self) -> bool:
        """Whether a leader has rejoined. If the old one has not, another member that has rejoined
        becomes the leader."""
        if not self.members:
            return False
        leader = self.members.get(self.leader_id or "")
        if leader is not None and (leader.awaiting_join is not None or leader.is_static):
            return True
        joined = next((member.member_id for member in self.members.values() if member.awaiting_join is not None), None)
        if joined is None:
            return False
        self.leader_id = joined
        return True

    # -- protocols ---------------------------------------------------------------------------------

    def candidate_protocols(self) -> set[str]:
        """Returns the protocols that every member supports."""
        members = list(self.members.values())
        return set.intersection(*({name for name, _ in member.protocols} for member in members)) if members else set()

    def supports_protocols(self, protocol_type: str, names: set[str]) -> bool:
        """Whether somebody with these protocols can join. Without members nobody objects, also while
        the group waits for one that was given its id and has not joined yet.
        """
        if self.state is ClassicGroupState.EMPTY:
            return bool(protocol_type) and bool(names)
        return protocol_type == self.protocol_type and bool(names & self.candidate_protocols() if self.members else names)

    def select_protocol(self) -> str:
        """Returns the protocol with the most votes; ties go to the one that was voted for first."""
        candidates = self.candidate_protocols()
        if not candidates:
            raise ApiException(Errors.INCONSISTENT_GROUP_PROTOCOL)
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def init_next_generation(self, now_ms: int) -> None:
        self.generation_id += 1
        self.pending_sync_members.clear()
        if not self.members:
            self.protocol_name = None
            self.subscribed_topics = frozenset() if self.protocol_type == CONSUMER_PROTOCOL_TYPE else None
            self.transition_to(ClassicGroupState.EMPTY, now_ms)
            return
        self.protocol_name = self.select_protocol()
        self.subscribed_topics = self.compute_subscribed_topics()
        self.transition_to(ClassicGroupState.COMPLETING_REBALANCE, now_ms)

    def compute_subscribed_topics(self) -> frozenset[str] | None:
        """Returns the topics of all members' subscriptions; None if they cannot be known (another
        protocol, unreadable metadata)."""
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            try:
                topics.update(deserialize_subscription(member.metadata(self.protocol_name)).topics)
            except (ProtocolReadError, KeyError):
                return None
        return frozenset(topics)

    def is_subscribed_to(self, topic: str) -> bool:
        return self.subscribed_topics is not None and topic in self.subscribed_topics

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicGroupState.EMPTY

    @property
    def is_simple(self) -> bool:
        """Whether the group only has offsets, because nobody ever joined it."""
        return self.is_empty and self.protocol_type is None and not self.pending_join_members

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    # -- validation of requests for offsets and for deletion ---------------------------------------

    def validate_offset_commit(
        self, member_id: str, group_instance_id: str | None, generation_id: int, *, is_transactional: bool, api_version: int
    ) -> CommitPartitionValidator | None:
        """Raises ApiException if the member may not commit. Returns None, because single partitions
        need no check."""
        if self.is_in(ClassicGroupState.DEAD):
            raise ApiException(Errors.COORDINATOR_NOT_AVAILABLE)
        if generation_id < 0 and self.is_empty:
            return None
        if generation_id >= 0 or member_id or group_instance_id is not None:
            self.validate_member(member_id, group_instance_id, "txn-offset-commit" if is_transactional else "offset-commit")
            if generation_id != self.generation_id:
                raise ApiException(Errors.ILLEGAL_GENERATION)
        elif not is_transactional and not self.is_empty:
            raise ApiException(Errors.UNKNOWN_MEMBER_ID)
        if not is_transactional and self.is_in(ClassicGroupState.COMPLETING_REBALANCE):
            raise ApiException(Errors.REBALANCE_IN_PROGRESS)
        return None

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        self._throw_if_dead()

    def validate_offset_delete(self) -> None:
        """Raises NON_EMPTY_GROUP if the members' subscriptions cannot be known."""
        self._throw_if_dead()
        if not self.is_empty and not self.uses_consumer_protocol:
            raise ApiException(Errors.NON_EMPTY_GROUP)

    def validate_delete_group(self) -> None:
        self._throw_if_dead()
        if not self.is_empty:
            raise ApiException(Errors.NON_EMPTY_GROUP)

    def _throw_if_dead(self) -> None:
        if self.is_in(ClassicGroupState.DEAD):
            raise ApiException(Errors.GROUP_ID_NOT_FOUND, f"Group {self.group_id} is in dead state.")

    # -- responses ---------------------------------------------------------------------------------

    def member_list(self) -> list[JoinGroupResponseMember]:
        """Returns what the leader gets: everyone's metadata for the selected protocol."""
        assert self.protocol_name is not None, f"group {self.group_id} has members but no protocol"
        return [
            JoinGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.group_instance_id, metadata=member.metadata(self.protocol_name)
            )
            for member in self.members.values()
        ]

    def complete_join(self, member: ClassicGroupMember, response: JoinGroupResponse) -> None:
        callback, member.awaiting_join = member.awaiting_join, None
        if callback is not None:
            callback(response)

    def complete_sync(self, member: ClassicGroupMember, response: SyncGroupResponse) -> None:
        callback, member.awaiting_sync = member.awaiting_sync, None
        if callback is not None:
            callback(response)
