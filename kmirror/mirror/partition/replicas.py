"""How far this cluster's own replicas of a mirror partition are, for the waits of D4 and D5.

Only the current ISR counts (with `mirror.support.unclean.leader.election` every assigned replica).
It is read again at each look, so a replica that drops out blocks nothing. A follower's log end
counts only if it was reported in the current leader epoch, in which the follower has verified its
log again (C36b): what it reported before the leader's log was cut says nothing about its log now.
"""

from __future__ import annotations

from kmirror.common.sentinels import UNKNOWN_OFFSET
from kmirror.replica.partition import Partition


def counted_replicas(partition: Partition, *, all_replicas: bool) -> list[int]:
    """The other replicas that must be waited for, sorted."""
    members = partition.assigned_replicas if all_replicas else partition.in_sync_replicas
    return sorted(broker_id for broker_id in members if broker_id != partition.leader_id)


def behind(partition: Partition, offset: int, *, all_replicas: bool = False) -> list[int]:
    """Replicas that do not have everything below `offset` yet."""
    return [
        broker_id for broker_id in counted_replicas(partition, all_replicas=all_replicas) if log_end_offset(partition, broker_id) < offset
    ]


def not_cut(partition: Partition, offset: int, *, all_replicas: bool = False) -> list[int]:
    """Replicas that may still hold something beyond `offset`."""
    late = []
    for broker_id in counted_replicas(partition, all_replicas=all_replicas):
        known = log_end_offset(partition, broker_id)
        if known == UNKNOWN_OFFSET or known > offset:
            late.append(broker_id)
    return late


def outside_isr(partition: Partition) -> list[int]:
    """Assigned replicas that are not in sync."""
    return sorted(set(partition.assigned_replicas) - set(partition.in_sync_replicas))


def log_end_offset(partition: Partition, broker_id: int) -> int:
    replica = partition.replicas.remote.get(broker_id)
    return replica.log_end_offset if replica is not None and replica.has_fetched_in_epoch else UNKNOWN_OFFSET
