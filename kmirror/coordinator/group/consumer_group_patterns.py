"""Subscriptions by pattern in consumer groups: when they are resolved, and what that changes
(Kafka's `GroupMetadataManager`).

A pattern is not resolved within the heartbeat that brought it, since all topics must be examined.
Instead the heartbeat schedules `<group>-regex`, for all patterns of the group, if a pattern is new,
if topics were created since the last run, or if `group.consumer.regex.refresh.interval.ms` has
passed since then; at most every 10 s. Only topics that the member of the triggering heartbeat may
describe count. The result is stored as a record per pattern; the group epoch goes up when it
changes. The record is removed with the pattern's last member.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final

from msgspec import Struct

from kmirror.coordinator.common.coordinator_shard import CoordinatorResult
from kmirror.coordinator.group.consumer_group import ConsumerGroup
from kmirror.coordinator.group.consumer_group_member import ConsumerGroupMember
from kmirror.coordinator.group.consumer_group_records import (
    group_epoch_record,
    regular_expression_record,
    regular_expression_tombstone,
)
from kmirror.coordinator.group.group_change import GroupChange
from kmirror.coordinator.group.group_metrics import GroupMetrics
from kmirror.coordinator.group.groups import Groups
from kmirror.coordinator.group.topic_regex import (
    DescribableTopics,
    ResolvedRegularExpression,
    resolve_regular_expressions,
    throw_if_regular_expression_is_invalid,
)

REGEX_BATCH_REFRESH_MIN_INTERVAL_MS: Final = 10_000


class Requester(Struct, frozen=True):
    """The sender of a request: its client id and address, and which topics it may describe."""

    client_id: str
    client_host: str
    describable_topics: DescribableTopics = list


class RegexUpdate(Enum):
    """The effect of a heartbeat on a member's pattern. RESOLVED: its topics are already known, so
    the group epoch can go up at once."""

    NO_CHANGE = 0
    UPDATED = 1
    RESOLVED = 2


class GroupPatterns:
    """Handles patterns of one shard's groups."""

    def __init__(self, groups: Groups, metrics: GroupMetrics) -> None:
        self._groups = groups
        self._metrics = metrics
        self._timer = groups.timer
        self._clock = groups.clock

    def update(
        self,
        group: ConsumerGroup,
        member: ConsumerGroupMember,
        updated: ConsumerGroupMember,
        requester: Requester,
        change: GroupChange,
    ) -> RegexUpdate:
        """Records a changed pattern, and has the group's patterns resolved if that is due."""
        old, new = member.subscribed_topic_regex, updated.subscribed_topic_regex
        update, is_unknown = RegexUpdate.NO_CHANGE, False
        used = group.regular_expressions()
        if old != new:
            update = RegexUpdate.UPDATED
            if old and used.get(old, 0) == 1:
                change.records.append(regular_expression_tombstone(group.group_id, old))
            if new and new not in used:
                throw_if_regular_expression_is_invalid(new)
                is_unknown = True
            elif not new or new in group.resolved_regular_expressions:
                update = RegexUpdate.RESOLVED
        if is_unknown or used:
            self._maybe_schedule_resolution(group, updated, requester, is_unknown=is_unknown)
        return update

    def _maybe_schedule_resolution(
        self, group: ConsumerGroup, updated: ConsumerGroupMember, requester: Requester, *, is_unknown: bool
    ) -> None:
        key = f"{group.group_id}-regex"
        if self._timer.is_scheduled(key):
            return
        now_ms = self._clock.time_ms()
        last = next(iter(group.resolved_regular_expressions.values()), None)
        if last is not None and now_ms <= last.timestamp_ms + REGEX_BATCH_REFRESH_MIN_INTERVAL_MS:
            return
        patterns = sorted(group.regular_expressions(group.members_after(updated)))
        is_stale = (
            is_unknown
            or last is None
            or len(patterns) != len(group.resolved_regular_expressions)
            or last.version < self._groups.last_image_with_new_topics
            or now_ms > last.timestamp_ms + self._groups.config.consumer_regex_refresh_interval_ms
        )
        if is_stale and patterns:
            self._timer.schedule(key, 0, lambda: self._resolve(group.group_id, patterns, requester))

    def _resolve(self, group_id: str, patterns: Sequence[str], requester: Requester) -> CoordinatorResult[None]:
        group = self._groups.by_id.get(group_id)
        if not isinstance(group, ConsumerGroup):
            return CoordinatorResult([], None)
        image = self._groups.image
        used = group.regular_expressions()
        resolved = resolve_regular_expressions(
            [pattern for pattern in patterns if pattern in used],
            image.topic_names(),
            requester.describable_topics,
            version=image.version,
            now_ms=self._clock.time_ms(),
        )
        change = GroupChange()
        change.records += [regular_expression_record(group_id, pattern, each) for pattern, each in resolved.items()]
        before = group.resolved_regular_expressions
        has_changed = any(before.get(pattern, ResolvedRegularExpression()).topics != each.topics for pattern, each in resolved.items())
        metadata_hash = image.metadata_hash(_topics_with(group, before | resolved))
        if has_changed or metadata_hash != group.metadata_hash:
            change.records.append(group_epoch_record(group_id, group.group_epoch + 1, metadata_hash))
            change.on_appended.append(lambda: self._groups.mark_metadata_fresh(group_id))
            self._metrics.consumer_rebalance()
        return change.result(None)


def _topics_with(group: ConsumerGroup, resolved: dict[str, ResolvedRegularExpression]) -> set[str]:
    """Returns the topics that the group subscribes to with these resolved patterns."""
    names: set[str] = set()
    for member in group.members.values():
        names.update(member.subscribed_topic_names)
        names.update(resolved.get(member.subscribed_topic_regex, ResolvedRegularExpression()).topics)
    return names
