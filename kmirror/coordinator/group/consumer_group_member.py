"""A member of a consumer group (KIP-848), immutable (Kafka's `ConsumerGroupMember`).

`member_epoch` is the epoch of the target assignment that the member has reached: 0 when it joins,
-1 when it left, -2 when it is static and left temporarily. `state` says what it waits for:

    STABLE                 it has its target assignment (of the epoch `member_epoch`)
    UNREVOKED_PARTITIONS   it was told to give up `partitions_pending_revocation` and has not confirmed that yet
    UNRELEASED_PARTITIONS  it waits for partitions that other members have not given up yet
    UNKNOWN                a state that a newer coordinator stored; the member must start again

Each partition has an assignment epoch: the epoch in which the member got it. A commit with an older
epoch than the member's is accepted for partitions that it already had in that epoch.
"""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct

from kmirror.common.uuid import Uuid

Partitions = dict[Uuid, dict[int, int]]
"""Partitions by topic, each with its assignment epoch. Never changed in place."""

LEAVE_GROUP_MEMBER_EPOCH = -1
LEAVE_GROUP_STATIC_MEMBER_EPOCH = -2
JOIN_GROUP_MEMBER_EPOCH = 0


class MemberState(IntEnum):
    """States, with the numbers that records hold."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127

    @classmethod
    def of(cls, value: int) -> MemberState:
        return cls(value) if value in (0, 1, 2) else cls.UNKNOWN


class ClassicMember(Struct, frozen=True):
    """The fields of a member that uses the classic protocol: its protocols (name, metadata) in its
    order of preference."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class ConsumerGroupMember(Struct, frozen=True):
    """`subscribed_topic_names` is sorted; an empty `subscribed_topic_regex` means none. Changed
    with `msgspec.structs.replace`."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str = ""
    server_assignor: str | None = None
    assigned_partitions: Partitions = {}
    partitions_pending_revocation: Partitions = {}
    classic: ClassicMember | None = None

    @property
    def uses_classic_protocol(self) -> bool:
        return self.classic is not None

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    def assignment_epoch(self, topic_id: Uuid, partition: int) -> int | None:
        """Returns the epoch in which the member got a partition that it has or still has to give
        up; None for others."""
        epoch = self.assigned_partitions.get(topic_id, {}).get(partition)
        return self.partitions_pending_revocation.get(topic_id, {}).get(partition) if epoch is None else epoch
