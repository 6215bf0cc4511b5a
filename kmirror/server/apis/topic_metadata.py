"""What Metadata and DescribeTopicPartitions return about a partition, seen from one listener."""

from __future__ import annotations

from typing import NamedTuple

from kmirror.common.errors import Errors
from kmirror.common.topic_partition import INTERNAL_TOPICS
from kmirror.metadata.registrations import PartitionRegistration
from kmirror.server.metadata_cache import MetadataCache

NO_LEADER_ID = -1


def is_internal(topic: str | None) -> bool:
    """Whether the topic belongs to a coordinator; clients cannot write to such topics."""
    return topic in INTERNAL_TOPICS


class PartitionView(NamedTuple):
    """One partition as the clients of a listener see it."""

    error: Errors
    leader_id: int
    offline_replicas: list[int]


def view_partition(
    cache: MetadataCache, registration: PartitionRegistration, listener_name: str, *, listener_errors: bool = True
) -> PartitionView:
    """Returns the partition's view.

    With `listener_errors` a live leader without this listener is LISTENER_NOT_FOUND; without it,
    for old clients, it is LEADER_NOT_AVAILABLE.
    """
    offline = [replica for replica in registration.replicas if _is_offline(cache, registration, replica, listener_name)]
    if cache.alive_node(registration.leader, listener_name) is not None:
        return PartitionView(Errors.NONE, registration.leader, offline)
    if cache.is_alive(registration.leader) and listener_errors:
        return PartitionView(Errors.LISTENER_NOT_FOUND, NO_LEADER_ID, offline)
    return PartitionView(Errors.LEADER_NOT_AVAILABLE, NO_LEADER_ID, offline)


def _is_offline(cache: MetadataCache, registration: PartitionRegistration, replica: int, listener_name: str) -> bool:
    broker = cache.image.cluster.broker(replica)
    if broker is None or broker.fenced or listener_name not in broker.listeners:
        return True
    return not broker.has_online_dir(registration.directory(replica))
