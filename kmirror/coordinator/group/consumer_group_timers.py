"""Names of the timers of a consumer group's members; `consumer_group_manager` says what each is
for."""

from __future__ import annotations


def session_timeout_key(group_id: str, member_id: str) -> str:
    return f"session-timeout-{group_id}-{member_id}"


def rebalance_timeout_key(group_id: str, member_id: str) -> str:
    return f"rebalance-timeout-{group_id}-{member_id}"


def join_timeout_key(group_id: str, member_id: str) -> str:
    return f"consumer-group-join-{group_id}-{member_id}"


def sync_timeout_key(group_id: str, member_id: str) -> str:
    return f"consumer-group-sync-{group_id}-{member_id}"


def member_timer_keys(group_id: str, member_id: str) -> tuple[str, ...]:
    """Returns the keys of all timers of a member."""
    return tuple(key(group_id, member_id) for key in (session_timeout_key, rebalance_timeout_key, join_timeout_key, sync_timeout_key))
