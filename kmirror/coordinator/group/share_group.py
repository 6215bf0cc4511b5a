"""A share group (KIP-932): its members, its epochs, and which partitions have persisted state
(Kafka's `ShareGroup`).

The share coordinator keeps the state itself (the group's start offset in a partition, and what was
delivered) in `__share_group_state`. The group knows which partitions have state, so that all of it
can be described and deleted:

    initializing   requested, not yet confirmed by the share coordinator
    initialized    the share coordinator has it
    deleting       being deleted; repeating the deletion requests it again

Members are known here only from the log (another broker may have served their heartbeats): they
leave when their session times out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from msgspec import Struct

from kmirror.common.errors import ApiException, Errors
from kmirror.common.uuid import Uuid
from kmirror.coordinator.group.consumer_group import CommitPartitionValidator

SHARE_PROTOCOL_TYPE = "share"
INITIAL_GROUP_EPOCH = 1
INITIAL_ASSIGNMENT_EPOCH = 1


class ShareGroupState(Enum):
    """States, with the names that ShareGroupDescribe and ListGroups print."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


class ShareGroupMember(Struct, frozen=True):
    """Changed with `msgspec.structs.replace`. `subscribed_topic_names` is sorted."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    assigned_partitions: Mapping[Uuid, tuple[int, ...]] = {}


class TopicPartitions(NamedTuple):
    """Partitions of one topic, sorted, and the topic's name at that time."""

    name: str
    partitions: tuple[int, ...]

    def plus(self, name: str, partitions: Iterable[int]) -> TopicPartitions:
        return TopicPartitions(name, tuple(sorted({*self.partitions, *partitions})))

    def minus(self, partitions: Iterable[int]) -> TopicPartitions:
        gone = set(partitions)
        return TopicPartitions(self.name, tuple(number for number in self.partitions if number not in gone))


class StatePartitions(Struct, frozen=True):
    """Which partitions have persisted state, by topic id; never changed in place."""

    initializing: Mapping[Uuid, TopicPartitions] = {}
    initialized: Mapping[Uuid, TopicPartitions] = {}
    deleting: tuple[Uuid, ...] = ()


class ShareGroup:
    """The state of one group. Anyone may read it; only replay (`ShareGroupReplay`) changes it."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = INITIAL_GROUP_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = INITIAL_ASSIGNMENT_EPOCH
        self.members: dict[str, ShareGroupMember] = {}
        self.state_partitions: StatePartitions | None = None

    @property
    def protocol_type(self) -> str:
        return SHARE_PROTOCOL_TYPE

    @property
    def state(self) -> ShareGroupState:
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    @property
    def is_empty(self) -> bool:
        return not self.members

    def validate_empty(self) -> None:
        if self.members:
            raise ApiException(Errors.NON_EMPTY_GROUP)

    def validate_delete_group(self) -> None:
        self.validate_empty()

    # -- consumer offsets, which share groups do not have ------------------------------------------

    def validate_offset_commit(
        self, member_id: str, group_instance_id: str | None, member_epoch: int, *, is_transactional: bool, api_version: int
    ) -> CommitPartitionValidator | None:
        raise self._not_a_consumer_group()

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        raise self._not_a_consumer_group()

    def validate_offset_delete(self) -> None:
        raise self._not_a_consumer_group()

    def is_subscribed_to(self, topic: str) -> bool:
        return any(topic in member.subscribed_topic_names for member in self.members.values())

    def _not_a_consumer_group(self) -> ApiException:
        return ApiException(Errors.GROUP_ID_NOT_FOUND, f"Group {self.group_id} is not a consumer group.")
