"""AdminClient on the cluster itself: its nodes, its metadata quorum, the APIs of its brokers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kmirror.admin.admin_requests import AdminRequests, raise_for
from kmirror.admin.results import ClusterDescription, Node
from kmirror.common.topic_partition import CLUSTER_METADATA_TOPIC_NAME
from kmirror.common.uuid import Uuid
from kmirror.wire.messages import add_raft_voter, api_versions, describe_cluster, describe_quorum, remove_raft_voter, unregister_broker

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


class ClusterAdmin(AdminRequests):
    """The cluster and its nodes."""

    async def describe_cluster(self, *, include_fenced_brokers: bool = False) -> ClusterDescription:
        """Id, controller, and brokers (or, asked of controllers, those), sorted by id."""
        kind = CONTROLLERS if self._controllers else BROKERS
        request = describe_cluster.DescribeClusterRequest(endpoint_type=kind, include_fenced_brokers=include_fenced_brokers)
        response = await self._ask_any(request, self._timeout_ms)
        raise_for(response.error_code, response.error_message)
        nodes = {row.broker_id: Node(row.broker_id, row.host, row.port, row.rack) for row in response.brokers}
        fenced = frozenset(row.broker_id for row in response.brokers if row.is_fenced)
        self._nodes = {node_id: node for node_id, node in nodes.items() if node_id not in fenced} or self._nodes
        return ClusterDescription(response.cluster_id, response.controller_id, [nodes[node_id] for node_id in sorted(nodes)], fenced)

    async def unregister_broker(self, broker_id: int) -> None:
        """Forget a broker that does not run any more."""
        response = await self._ask_any(unregister_broker.UnregisterBrokerRequest(broker_id=broker_id), self._timeout_ms)
        raise_for(response.error_code, response.error_message)

    async def describe_metadata_quorum(self) -> QuorumInfo:
        """Leader, voters and observers of `__cluster_metadata`."""
        partition = describe_quorum.DescribeQuorumRequestPartitionData(partition_index=0)
        topic = describe_quorum.DescribeQuorumRequestTopicData(topic_name=CLUSTER_METADATA_TOPIC_NAME, partitions=[partition])
        response = await self._ask_any(describe_quorum.DescribeQuorumRequest(topics=[topic]), self._timeout_ms)
        raise_for(response.error_code, response.error_message)
        row = response.topics[0].partitions[0]
        raise_for(row.error_code, row.error_message)
        endpoints = {node.node_id: [(entry.name, entry.host, entry.port) for entry in node.listeners] for node in response.nodes}
        return QuorumInfo(
            row.leader_id, row.leader_epoch, row.high_watermark, _replicas(row.current_voters), _replicas(row.observers), endpoints
        )

    async def add_raft_voter(self, voter_id: int, directory_id: Uuid, endpoints: Sequence[tuple[str, str, int]]) -> None:
        """Make a running controller a voter; `endpoints` are listener names, hosts and ports."""
        request = add_raft_voter.AddRaftVoterRequest(
            timeout_ms=self._timeout_ms,
            voter_id=voter_id,
            voter_directory_id=directory_id,
            listeners=[add_raft_voter.Listener(*endpoint) for endpoint in endpoints],
        )
        response = await self._ask_any(request, self._timeout_ms)
        raise_for(response.error_code, response.error_message)

    async def remove_raft_voter(self, voter_id: int, directory_id: Uuid) -> None:
        """Make a voter an observer."""
        request = remove_raft_voter.RemoveRaftVoterRequest(voter_id=voter_id, voter_directory_id=directory_id)
        response = await self._ask_any(request, self._timeout_ms)
        raise_for(response.error_code, response.error_message)

    async def broker_api_versions(self, node: Node) -> api_versions.ApiVersionsResponse:
        """What a broker says of the versions that it serves."""
        return await self._client.api_versions(node.host, node.port, timeout_ms=self._timeout_ms)


def _replicas(rows: list[describe_quorum.ReplicaState]) -> list[QuorumReplica]:
    return [
        QuorumReplica(row.replica_id, row.replica_directory_id, row.log_end_offset, row.last_fetch_timestamp, row.last_caught_up_timestamp)
        for row in rows
    ]
