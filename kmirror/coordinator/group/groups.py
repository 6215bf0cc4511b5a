"""The groups of one shard, of all protocols, and what their managers share: topics, settings,
timers, clock, randomness."""

from __future__ import annotations

from collections.abc import Iterable

from kmirror.common.errors import ApiException, Errors
from kmirror.common.ports import Clock, Random
from kmirror.common.uuid import Uuid
from kmirror.coordinator.common.coordinator_shard import CoordinatorTimer
from kmirror.coordinator.group.classic_group import ClassicGroup
from kmirror.coordinator.group.consumer_group import ConsumerGroup
from kmirror.coordinator.group.coordinator_metadata_image import EMPTY_IMAGE, CoordinatorMetadataImage
from kmirror.coordinator.group.group_coordinator_config import GroupConfigManager, GroupCoordinatorConfig
from kmirror.coordinator.group.share_group import ShareGroup

Group = ClassicGroup | ConsumerGroup | ShareGroup


class GroupsByTopic:
    """Which consumer groups name a topic, in a member's subscription or in a pattern that was
    resolved. Each occurrence counts."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, int]] = {}

    def add(self, group_id: str, topics: Iterable[str]) -> None:
        for topic in topics:
            counts = self._counts.setdefault(topic, {})
            counts[group_id] = counts.get(group_id, 0) + 1

    def remove(self, group_id: str, topics: Iterable[str]) -> None:
        for topic in topics:
            counts = self._counts[topic]
            counts[group_id] -= 1
            if not counts[group_id]:
                del counts[group_id]
                if not counts:
                    del self._counts[topic]

    def topics(self) -> Iterable[str]:
        return self._counts.keys()

    def groups(self, topic: str) -> Iterable[str]:
        return self._counts.get(topic, ())


class Groups:
    """Groups by id. `image` is the newest metadata; `last_image_with_new_topics` is the version at
    which a topic was last created."""

    def __init__(self, configs: GroupConfigManager, *, timer: CoordinatorTimer, clock: Clock, random: Random) -> None:
        self.configs = configs
        self.timer = timer
        self.clock = clock
        self.random = random
        self.by_id: dict[str, Group] = {}
        self.by_topic = GroupsByTopic()
        self.image: CoordinatorMetadataImage = EMPTY_IMAGE
        self.last_image_with_new_topics = -1

    @property
    def config(self) -> GroupCoordinatorConfig:
        """The broker's present settings."""
        return self.configs.broker

    def group(self, group_id: str) -> Group:
        """Returns the group; raises GROUP_ID_NOT_FOUND if there is none."""
        group = self.by_id.get(group_id)
        if group is None:
            raise ApiException(Errors.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    def classic_group(self, group_id: str) -> ClassicGroup:
        """Returns the group; raises GROUP_ID_NOT_FOUND if there is none, or if it is of another
        kind."""
        group = self.group(group_id)
        if not isinstance(group, ClassicGroup):
            raise ApiException(Errors.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a classic group.")
        return group

    def consumer_group(self, group_id: str) -> ConsumerGroup:
        """Returns the group; raises GROUP_ID_NOT_FOUND if there is none, or if it is of another
        kind."""
        group = self.group(group_id)
        if not isinstance(group, ConsumerGroup):
            raise ApiException(Errors.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        return group

    def share_group(self, group_id: str) -> ShareGroup:
        """Returns the group; raises GROUP_ID_NOT_FOUND if there is none, or if it is of another
        kind."""
        group = self.group(group_id)
        if not isinstance(group, ShareGroup):
            raise ApiException(Errors.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
        return group

    def mark_metadata_fresh(self, group_id: str) -> None:
        """Notes that a consumer group's metadata hash was compared with the present topics."""
        group = self.by_id.get(group_id)
        if isinstance(group, ConsumerGroup):
            group.is_metadata_fresh = True

    def new_member_id(self) -> str:
        return str(Uuid.random(self.random))
