"""Which replica a consumer should read from (KIP-392): Kafka's `ReplicaSelector`s, chosen by
`replica.selector.class`.

Only a leader selects, only for consumers that say who they are (Fetch v11 and above), and only
among itself and the ISR members whose log holds the offset asked for: a replica behind the ISR
would make its consumers lag, and the leader would send them there again. The leader's answer then
names the replica and carries no records; the consumer turns to it until its metadata is due. If the
selector prefers the leader, the read is as without a selector.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from kmirror.common.errors import ConfigError
from kmirror.common.topic_partition import TopicPartition
from kmirror.metadata.registrations import BrokerRegistration
from kmirror.replica.partition import Partition
from kmirror.replica.replica_types import ClientMetadata

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER_ONLY = "org.apache.kafka.common.replica.LeaderSelector"


class ReplicaView(NamedTuple):
    """One replica as a selector sees it. `rack` None: the broker names none."""

    broker_id: int
    rack: str | None
    log_end_offset: int
    time_since_last_caught_up_ms: int


class ReplicaSelector(Protocol):
    def select(
        self, topic_partition: TopicPartition, client: ClientMetadata, replicas: list[ReplicaView], leader: ReplicaView
    ) -> ReplicaView:
        """One of `replicas`, among which is `leader`."""
        ...


class LeaderSelector:
    """Everybody reads from the leader."""

    def select(
        self, topic_partition: TopicPartition, client: ClientMetadata, replicas: list[ReplicaView], leader: ReplicaView
    ) -> ReplicaView:
        return leader


class RackAwareReplicaSelector:
    """Selects a replica in the client's rack: the leader if it is there, else the most caught-up
    one; the leader if the rack has none.
    """

    def select(
        self, topic_partition: TopicPartition, client: ClientMetadata, replicas: list[ReplicaView], leader: ReplicaView
    ) -> ReplicaView:
        same_rack = [replica for replica in replicas if client.rack_id and replica.rack == client.rack_id]
        if not same_rack or leader in same_rack:
            return leader
        return max(same_rack, key=lambda replica: (replica.log_end_offset, -replica.time_since_last_caught_up_ms, replica.broker_id))


def create_replica_selector(class_name: str | None) -> ReplicaSelector | None:
    """The selector of that (Java) name; None when none is configured. ConfigError for an unknown
    class.
    """
    if not class_name:
        return None
    if class_name == RACK_AWARE:
        return RackAwareReplicaSelector()
    if class_name == LEADER_ONLY:
        return LeaderSelector()
    raise ConfigError(f"Invalid value {class_name} for configuration replica.selector.class: Class {class_name} could not be found.")


def find_preferred_read_replica(
    selector: ReplicaSelector,
    partition: Partition,
    client: ClientMetadata,
    fetch_offset: int,
    *,
    broker_of: Callable[[int], BrokerRegistration | None],
    now_ms: int,
) -> int:
    """The broker to read from instead of this leader; -1: this leader. `broker_of` returns
    registered brokers.
    """

    def view(broker_id: int, log_end_offset: int, since_ms: int) -> ReplicaView | None:
        broker = broker_of(broker_id)
        if broker is None or broker.fenced or client.listener_name not in broker.listeners:
            return None
        return ReplicaView(broker_id, broker.rack, log_end_offset, since_ms)

    assert partition.leader_id is not None, "only a leader selects replicas"
    leader = view(partition.leader_id, partition.local_log.log_end_offset, 0)
    if leader is None:
        return -1
    replicas = [leader]
    for replica in partition.replicas.remote.values():
        if replica.broker_id in partition.replicas.in_sync and replica.log_start_offset <= fetch_offset <= replica.log_end_offset:
            found = view(replica.broker_id, replica.log_end_offset, now_ms - replica.caught_up_time_ms)
            if found is not None:
                replicas.append(found)
    selected = selector.select(partition.topic_partition, client, replicas, leader)
    return -1 if selected is leader else selected.broker_id
