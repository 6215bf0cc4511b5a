"""Settings of groups: the broker's (Kafka's `GroupCoordinatorConfig`) and those of single groups
(`GroupConfigManager`).

A group's own config (resource type GROUP) overrides the broker's. It was validated when it was set,
but the broker's bounds may have changed since; a value outside them counts as the nearest bound.
Changes apply from the group's next request on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

from msgspec import Struct

CONSUMER_SESSION_TIMEOUT_MS: Final = "consumer.session.timeout.ms"
CONSUMER_HEARTBEAT_INTERVAL_MS: Final = "consumer.heartbeat.interval.ms"
SHARE_SESSION_TIMEOUT_MS: Final = "share.session.timeout.ms"
CONSUMER_ASSIGNMENT_INTERVAL_MS: Final = "consumer.assignment.interval.ms"


class ConsumerGroupMigrationPolicy(Enum):
    """Whether a group with members may move to the other protocol."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def is_upgrade_enabled(self) -> bool:
        return self in (ConsumerGroupMigrationPolicy.UPGRADE, ConsumerGroupMigrationPolicy.BIDIRECTIONAL)

    @property
    def is_downgrade_enabled(self) -> bool:
        return self in (ConsumerGroupMigrationPolicy.DOWNGRADE, ConsumerGroupMigrationPolicy.BIDIRECTIONAL)


class GroupCoordinatorConfig(Struct, frozen=True):
    """The broker's settings; Kafka's names and defaults (`group.*`, `offsets.*`, `offset.*`)."""

    max_size: int = 2**31 - 1
    initial_rebalance_delay_ms: int = 3_000
    new_member_join_timeout_ms: int = 300_000
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    offset_metadata_max_size: int = 4_096
    offsets_retention_ms: int = 10_080 * 60_000
    offsets_retention_check_interval_ms: int = 600_000
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    consumer_max_size: int = 2**31 - 1
    consumer_session_timeout_ms: int = 45_000
    consumer_min_session_timeout_ms: int = 45_000
    consumer_max_session_timeout_ms: int = 60_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_min_heartbeat_interval_ms: int = 5_000
    consumer_max_heartbeat_interval_ms: int = 15_000
    consumer_assignment_interval_ms: int = 1_000
    consumer_min_assignment_interval_ms: int = 0
    consumer_max_assignment_interval_ms: int = 15_000
    consumer_regex_refresh_interval_ms: int = 600_000
    share_session_timeout_ms: int = 45_000
    share_min_session_timeout_ms: int = 45_000
    share_max_session_timeout_ms: int = 60_000
    consumer_migration_policy: ConsumerGroupMigrationPolicy = ConsumerGroupMigrationPolicy.BIDIRECTIONAL


GroupProperties = Callable[[str], Mapping[str, str]]
"""The dynamic config of a group, by its id."""


class GroupConfigManager:
    """The config in force for a group. `broker` is called each time, because some of its settings
    are dynamic."""

    def __init__(self, broker: Callable[[], GroupCoordinatorConfig], properties: GroupProperties) -> None:
        self._broker = broker
        self._properties = properties

    @property
    def broker(self) -> GroupCoordinatorConfig:
        return self._broker()

    def consumer_session_timeout_ms(self, group_id: str) -> int:
        broker = self.broker
        value = self._value(group_id, CONSUMER_SESSION_TIMEOUT_MS)
        if value is None:
            return broker.consumer_session_timeout_ms
        return _clamped(value, broker.consumer_min_session_timeout_ms, broker.consumer_max_session_timeout_ms)

    def consumer_heartbeat_interval_ms(self, group_id: str) -> int:
        broker = self.broker
        value = self._value(group_id, CONSUMER_HEARTBEAT_INTERVAL_MS)
        if value is None:
            return broker.consumer_heartbeat_interval_ms
        return _clamped(value, broker.consumer_min_heartbeat_interval_ms, broker.consumer_max_heartbeat_interval_ms)

    def consumer_assignment_interval_ms(self, group_id: str) -> int:
        broker = self.broker
        value = self._value(group_id, CONSUMER_ASSIGNMENT_INTERVAL_MS)
        if value is None:
            return broker.consumer_assignment_interval_ms
        return _clamped(value, broker.consumer_min_assignment_interval_ms, broker.consumer_max_assignment_interval_ms)

    def share_session_timeout_ms(self, group_id: str) -> int:
        broker = self.broker
        value = self._value(group_id, SHARE_SESSION_TIMEOUT_MS)
        if value is None:
            return broker.share_session_timeout_ms
        return _clamped(value, broker.share_min_session_timeout_ms, broker.share_max_session_timeout_ms)

    def _value(self, group_id: str, name: str) -> int | None:
        text = self._properties(group_id).get(name)
        return None if text is None else int(text)


def _clamped(value: int, lowest: int, highest: int) -> int:
    return max(lowest, min(value, highest))
