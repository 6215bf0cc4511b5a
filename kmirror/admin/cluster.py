"""AdminClient calls about the cluster itself: its nodes, its metadata quorum, its brokers' APIs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kmirror.admin.admin_requests import AdminRequests, raise_for
from kmirror.admin.results import ClusterDescription, Node
from kmirror.common.topic_partition import CLUSTER_METADATA_TOPIC_NAME
from kmirror.common.uuid import Uuid
from kmirror.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from kmirror.wire.messages.api_versions import ApiVersionsResponse
from kmirror.wire.messages.describe_cluster import DescribeClusterRequest
from kmirror.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    ReplicaState,
)
from kmirror.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from kmirror.wire.messages.unregister_broker import UnregisterBrokerRequest

BROKERS = 1
CONTROLLERS = 2


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A voter or an observer of the metadata log; -1 is unknown."""

    replica_id: int
    replica_directory_id: Uuid
    log_end_offset: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int


@dataclass(frozen=True, slots=True)
class QuorumInfo:
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: list[QuorumReplica]
    observers: list[QuorumReplica]
    endpoints: dict[int, list[tuple[str, str, int]]]
    """By node: listener name, host and port."""


async def describe_cluster(cluster: AdminRequests, *, include_fenced_brokers: bool = False) -> ClusterDescription:
    """Returns id, controller, and brokers sorted by id; controllers return controllers instead."""
    kind = CONTROLLERS if cluster.controllers else BROKERS
    request = DescribeClusterRequest(endpoint_type=kind, include_fenced_brokers=include_fenced_brokers)
    response = await cluster.ask_any(request)
    raise_for(response.error_code, response.error_message)
    nodes = {row.broker_id: Node(row.broker_id, row.host, row.port, row.rack) for row in response.brokers}
    fenced = frozenset(row.broker_id for row in response.brokers if row.is_fenced)
    cluster.nodes = {node_id: node for node_id, node in nodes.items() if node_id not in fenced} or cluster.nodes
    return ClusterDescription(response.cluster_id, response.controller_id, [nodes[node_id] for node_id in sorted(nodes)], fenced)


async def unregister_broker(cluster: AdminRequests, broker_id: int) -> None:
    """Makes the cluster forget a broker that no longer runs."""
    response = await cluster.ask_any(UnregisterBrokerRequest(broker_id=broker_id))
    raise_for(response.error_code, response.error_message)


async def describe_metadata_quorum(cluster: AdminRequests) -> QuorumInfo:
    """Returns leader, voters and observers of `__cluster_metadata`."""
    partition = DescribeQuorumRequestPartitionData(partition_index=0)
    topic = DescribeQuorumRequestTopicData(topic_name=CLUSTER_METADATA_TOPIC_NAME, partitions=[partition])
    response = await cluster.ask_any(DescribeQuorumRequest(topics=[topic]))
    raise_for(response.error_code, response.error_message)
    row = response.topics[0].partitions[0]
    raise_for(row.error_code, row.error_message)
    endpoints = {node.node_id: [(entry.name, entry.host, entry.port) for entry in node.listeners] for node in response.nodes}
    return QuorumInfo(
        row.leader_id, row.leader_epoch, row.high_watermark, _replicas(row.current_voters), _replicas(row.observers), endpoints
    )


async def add_raft_voter(cluster: AdminRequests, voter_id: int, directory_id: Uuid, endpoints: Sequence[tuple[str, str, int]]) -> None:
    """Makes a running controller a voter; `endpoints` are listener names, hosts and ports."""
    request = AddRaftVoterRequest(
        timeout_ms=cluster.timeout_ms,
        voter_id=voter_id,
        voter_directory_id=directory_id,
        listeners=[Listener(*endpoint) for endpoint in endpoints],
    )
    response = await cluster.ask_any(request)
    raise_for(response.error_code, response.error_message)


async def remove_raft_voter(cluster: AdminRequests, voter_id: int, directory_id: Uuid) -> None:
    """Makes a voter an observer."""
    request = RemoveRaftVoterRequest(voter_id=voter_id, voter_directory_id=directory_id)
    response = await cluster.ask_any(request)
    raise_for(response.error_code, response.error_message)


async def broker_api_versions(cluster: AdminRequests, node: Node) -> ApiVersionsResponse:
    """Returns a broker's answer about the versions that it serves."""
    return await cluster.client.api_versions(node.host, node.port, timeout_ms=cluster.timeout_ms)


def _replicas(rows: list[ReplicaState]) -> list[QuorumReplica]:
    return [
        QuorumReplica(row.replica_id, row.replica_directory_id, row.log_end_offset, row.last_fetch_timestamp, row.last_caught_up_timestamp)
        for row in rows
    ]
