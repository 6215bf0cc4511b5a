"""What the running controller's listener answers: forwarded requests, ACLs, descriptions, voters."""

from __future__ import annotations

import pathlib
from typing import Any

from support.brokers.controller_node import Node, scenario
from support.brokers.metadata_doubles import CLUSTER_ID

from kmirror.common.errors import Errors
from kmirror.common.kafka_principal import KafkaPrincipal
from kmirror.common.uuid import Uuid
from kmirror.controller.controller_apis import ControllerApis
from kmirror.controller.metadata_log import METADATA_LOG_FOLDER
from kmirror.controller.request_context import ControllerRequestContext
from kmirror.metadata.authorizer.standard_authorizer import StandardAuthorizer
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.framing import RequestHeader, encode_request, read_response
from kmirror.wire.messages.add_raft_voter import AddRaftVoterRequest
from kmirror.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kmirror.wire.messages.api_versions import ApiVersionsRequest
from kmirror.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from kmirror.wire.messages.create_acls import AclCreation, CreateAclsRequest
from kmirror.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kmirror.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kmirror.wire.messages.default_principal_data import DefaultPrincipalData
from kmirror.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kmirror.wire.messages.describe_acls import DescribeAclsRequest
from kmirror.wire.messages.describe_cluster import DescribeClusterRequest
from kmirror.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from kmirror.wire.messages.elect_leaders import ElectLeadersRequest
from kmirror.wire.messages.envelope import EnvelopeRequest
from kmirror.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from kmirror.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kmirror.wire.messages.update_raft_voter import UpdateRaftVoterRequest
from kmirror.wire.primitives import Writer


def test_the_controller_lists_rules_for_those_who_may(tmp_path: pathlib.Path) -> None:
    async def test(node: Node) -> None:
        any_rule = DescribeAclsRequest(1, None, 1, None, None, 1, 1)
        refused = await node.ask(ApiKeys.DESCRIBE_ACLS, any_rule, 3)
        assert (refused.error_code, refused.error_message) == (Errors.SECURITY_DISABLED, "No Authorizer is configured on the broker")
        authorizer = StandardAuthorizer(super_users=["User:root"])
        authorizer.complete_initial_load()
        node.apis = ControllerApis(node.controller, authorizer)
        root = ControllerRequestContext(principal=KafkaPrincipal("User", "root"))
        creations = [AclCreation(2, topic, 3, "User:a", "*", operation, 3) for topic in "tu" for operation in (3, 4)]
        await node.ask(ApiKeys.CREATE_ACLS, CreateAclsRequest(creations), 3, root)
        listed = await node.ask(ApiKeys.DESCRIBE_ACLS, any_rule, 3, root)
        assert [(each.resource_name, [acl.operation for acl in each.acls]) for each in listed.resources] == [("t", [3, 4]), ("u", [3, 4])]
        mallory = ControllerRequestContext(principal=KafkaPrincipal("User", "mallory"))
        refused = await node.ask(ApiKeys.DESCRIBE_ACLS, any_rule, 3, mallory)
        assert refused.error_code == Errors.CLUSTER_AUTHORIZATION_FAILED and refused.resources == []

    scenario(test, tmp_path)


def envelope(key: ApiKeys, version: int, request: Any, *, principal: bytes | None = None) -> EnvelopeRequest:
    parts = encode_request(RequestHeader(key, version, 42, "client"), request)
    frame = b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]
    out = Writer()
    DefaultPrincipalData(type="User", name="alice").write(out, 0)
    serialized = b"\0\0" + out.to_bytes() if principal is None else principal
    return EnvelopeRequest(request_data=frame[4:], request_principal=serialized, client_host_address=bytes([10, 0, 0, 1]))


def test_a_forwarded_request_is_answered_in_its_own_version(tmp_path: pathlib.Path) -> None:
    async def test(node: Node) -> None:
        await node.start_broker()
        request = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])
        answer = await node.ask(ApiKeys.ENVELOPE, envelope(ApiKeys.CREATE_TOPICS, 5, request))
        assert answer.error_code == 0
        correlation_id, response = read_response(ApiKeys.CREATE_TOPICS, 5, memoryview(answer.response_data))
        assert correlation_id == 42
        assert (response.topics[0].name, response.topics[0].error_code) == ("t", 0)

    scenario(test, tmp_path)


def test_envelopes_that_cannot_be_opened(tmp_path: pathlib.Path) -> None:
    async def test(node: Node) -> None:
        request = CreateTopicsRequest()
        for wrapped, code in [
            (EnvelopeRequest(request_data=b"\x00"), Errors.INVALID_REQUEST),
            (envelope(ApiKeys.BROKER_HEARTBEAT, 0, BrokerHeartbeatRequest()), Errors.INVALID_REQUEST),
            (envelope(ApiKeys.CREATE_TOPICS, 5, request, principal=b"\0"), Errors.PRINCIPAL_DESERIALIZATION_FAILURE),
            (envelope(ApiKeys.CREATE_TOPICS, 5, request, principal=b"\0\x09\0"), Errors.PRINCIPAL_DESERIALIZATION_FAILURE),
        ]:
            assert (await node.ask(ApiKeys.ENVELOPE, wrapped)).error_code == code

    scenario(test, tmp_path)


def test_what_the_listener_serves(tmp_path: pathlib.Path) -> None:
    async def served(node: Node) -> set[int]:
        return {entry.api_key for entry in (await node.ask(ApiKeys.API_VERSIONS, ApiVersionsRequest(), 4)).api_keys}

    async def plain(node: Node) -> None:
        keys = await served(node)
        assert {ApiKeys.FETCH, ApiKeys.BROKER_REGISTRATION, ApiKeys.ENVELOPE} <= keys
        assert ApiKeys.CREATE_MIRROR not in keys
        assert ApiKeys.PRODUCE not in keys
        refused = await node.ask(ApiKeys.CREATE_MIRROR, None)
        assert refused.error_code == Errors.UNSUPPORTED_VERSION

    async def mirroring(node: Node) -> None:
        assert {ApiKeys.CREATE_MIRROR, ApiKeys.BUMP_LEADER_EPOCHS} <= await served(node)

    scenario(plain, tmp_path / "plain")
    scenario(mirroring, tmp_path / "mirroring", unstable_api_versions_enable=True)


def test_quorum_and_cluster_described(tmp_path: pathlib.Path) -> None:
    async def test(node: Node) -> None:
        await node.fetch(0)
        topics = [DescribeQuorumRequestTopicData(topic_name="__cluster_metadata", partitions=[DescribeQuorumRequestPartitionData()])]
        answer = await node.ask(ApiKeys.DESCRIBE_QUORUM, DescribeQuorumRequest(topics=topics), 2)
        partition = answer.topics[0].partitions[0]
        assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (1, 1, node.controller.high_watermark)
        assert [replica.replica_id for replica in partition.current_voters] == [1]
        assert [replica.replica_id for replica in partition.observers] == [5]
        controllers = await node.ask(ApiKeys.DESCRIBE_CLUSTER, DescribeClusterRequest(endpoint_type=2), 1)
        assert [(b.broker_id, b.port) for b in controllers.brokers] == [(1, 9093)]
        brokers = await node.ask(ApiKeys.DESCRIBE_CLUSTER, DescribeClusterRequest(endpoint_type=1), 1)
        assert brokers.error_code == Errors.MISMATCHED_ENDPOINT_TYPE

    scenario(test, tmp_path)


def test_a_static_quorum_becomes_a_dynamic_one(tmp_path: pathlib.Path) -> None:
    """kraft.version 1: the log names its voter from there on, and a restart finds it (KIP-853)."""
    directory_id = Uuid(b"d" * 16)

    async def test(node: Node) -> None:
        update = FeatureUpdateKey(feature="kraft.version", max_version_level=1, upgrade_type=1)
        response = await node.ask(ApiKeys.UPDATE_FEATURES, UpdateFeaturesRequest(feature_updates=[update]), 2)
        assert (response.error_code, response.error_message) == (0, None)
        for restarted in (False, True):
            if restarted:
                await node.restart()
            assert node.controller.log.kraft_version == 1
            voters = node.controller.log.voters
            assert voters is not None
            assert [(voter.voter_id, voter.voter_directory_id) for voter in voters.voters] == [(1, directory_id)]
            versions = await node.ask(ApiKeys.API_VERSIONS, ApiVersionsRequest(), 4)
            finalized = {feature.name: feature.max_version_level for feature in versions.finalized_features}
            assert finalized["kraft.version"] == 1
            assert '"data_version":1' in (tmp_path / METADATA_LOG_FOLDER / "quorum-state").read_text()

    scenario(test, tmp_path, directory_id=str(directory_id))


def test_the_one_voter_stays_the_one_voter(tmp_path: pathlib.Path) -> None:
    directory_id, other = Uuid(b"d" * 16), Uuid(b"e" * 16)

    async def add(node: Node, **fields: Any) -> tuple[int, str | None]:
        request = AddRaftVoterRequest(**({"cluster_id": CLUSTER_ID, "voter_id": 5, "voter_directory_id": other} | fields))
        response = await node.ask(ApiKeys.ADD_RAFT_VOTER, request)
        return response.error_code, response.error_message

    async def remove(node: Node, voter_id: int, voter_directory_id: Uuid) -> tuple[int, str | None]:
        request = RemoveRaftVoterRequest(cluster_id=CLUSTER_ID, voter_id=voter_id, voter_directory_id=voter_directory_id)
        response = await node.ask(ApiKeys.REMOVE_RAFT_VOTER, request)
        return response.error_code, response.error_message

    async def test(node: Node) -> None:
        static = "voter because the kraft.version feature is 0"
        assert await add(node) == (Errors.UNSUPPORTED_VERSION, f"Cluster doesn't support adding {static}")
        assert await remove(node, 5, other) == (Errors.UNSUPPORTED_VERSION, f"Cluster doesn't support removing {static}")
        text = f'The given id "x" doesn\'t match the cluster id "{CLUSTER_ID}"'
        assert await add(node, cluster_id="x") == (Errors.INCONSISTENT_CLUSTER_ID, text)
        assert await remove(node, 1, Uuid.ZERO) == (Errors.INVALID_REQUEST, "Remove voter request didn't include a valid voter")
        update = FeatureUpdateKey(feature="kraft.version", max_version_level=1, upgrade_type=1)
        await node.ask(ApiKeys.UPDATE_FEATURES, UpdateFeaturesRequest(feature_updates=[update]), 2)
        us = f"ReplicaKey(id=1, directoryId={directory_id})"
        them = f"ReplicaKey(id=5, directoryId={other})"
        assert await remove(node, 5, other) == (Errors.VOTER_NOT_FOUND, f"Cannot remove voter {them} from the set of voters [{us}]")
        assert (await add(node, voter_id=1))[0] == Errors.DUPLICATE_VOTER
        assert (await add(node))[0] == Errors.INVALID_REQUEST
        changed = UpdateRaftVoterRequest(cluster_id=CLUSTER_ID, current_leader_epoch=node.controller.epoch, voter_id=5)
        answer = await node.ask(ApiKeys.UPDATE_RAFT_VOTER, changed)
        assert (answer.error_code, answer.current_leader.leader_id, answer.current_leader.port) == (Errors.VOTER_NOT_FOUND, 1, 9093)
        changed.voter_id = 1
        assert (await node.ask(ApiKeys.UPDATE_RAFT_VOTER, changed)).error_code == 0

    scenario(test, tmp_path, directory_id=str(directory_id))


def test_a_request_without_any_time_was_carried_out(tmp_path: pathlib.Path) -> None:
    """Kafka answers REQUEST_TIMED_OUT to a timeout of 0 or less, and does nothing."""

    async def test(node: Node) -> None:
        for timeout_ms in (0, -1):
            create = CreateTopicsRequest([CreatableTopic("t", 1, 1)], timeout_ms=timeout_ms)
            (topic,) = (await node.ask(ApiKeys.CREATE_TOPICS, create, 7)).topics
            assert (topic.error_code, topic.error_message) == (Errors.REQUEST_TIMED_OUT, None)
            delete = DeleteTopicsRequest([DeleteTopicState("u")], timeout_ms=timeout_ms)
            (deleted,) = (await node.ask(ApiKeys.DELETE_TOPICS, delete, 6)).responses
            assert (deleted.error_code, deleted.error_message) == (Errors.REQUEST_TIMED_OUT, None)
            elect = ElectLeadersRequest(0, None, timeout_ms=timeout_ms)
            elected = await node.ask(ApiKeys.ELECT_LEADERS, elect, 2)
            assert elected.error_code == Errors.REQUEST_TIMED_OUT
            grow = CreatePartitionsRequest([CreatePartitionsTopic("u", 2, None)], timeout_ms=timeout_ms)
            (grown,) = (await node.ask(ApiKeys.CREATE_PARTITIONS, grow, 3)).results
            assert grown.error_code == Errors.REQUEST_TIMED_OUT
            move = AlterPartitionReassignmentsRequest(timeout_ms, True, [ReassignableTopic("u", [ReassignablePartition(0, [1])])])
            moved = await node.ask(ApiKeys.ALTER_PARTITION_REASSIGNMENTS, move, 1)
            assert moved.error_code == moved.responses[0].partitions[0].error_code == Errors.REQUEST_TIMED_OUT
        assert not node.controller.image.topics.by_name

    scenario(test, tmp_path)


def test_topics_that_come_twice_are_refused_before_anybody_looks_at_the_time(
    tmp_path: pathlib.Path,
) -> None:
    """As Kafka does; one other topic is enough to make all of them late."""

    async def test(node: Node) -> None:
        twice = [CreatableTopic("t", 1, 1)] * 2
        for key, version, request, errors in (
            (ApiKeys.CREATE_TOPICS, 7, CreateTopicsRequest(twice, 0), [42]),
            (ApiKeys.CREATE_TOPICS, 7, CreateTopicsRequest([*twice, CreatableTopic("u", 1, 1)], 0), [7] * 3),
            (ApiKeys.CREATE_TOPICS, 7, CreateTopicsRequest([CreatableTopic("__cluster_metadata", 1, 1)], 0), [42]),
            (ApiKeys.DELETE_TOPICS, 6, DeleteTopicsRequest([DeleteTopicState("t")] * 2, timeout_ms=0), [42]),
            (ApiKeys.DELETE_TOPICS, 4, DeleteTopicsRequest(topic_names=["t", "t"], timeout_ms=0), [42]),
            (ApiKeys.CREATE_PARTITIONS, 3, CreatePartitionsRequest([CreatePartitionsTopic("t", 2, None)] * 2, 0), [42]),
        ):
            answer = await node.ask(key, request, version)
            rows = getattr(answer, {ApiKeys.CREATE_TOPICS: "topics", ApiKeys.DELETE_TOPICS: "responses"}.get(key, "results"))
            assert [row.error_code for row in rows] == errors, request

    scenario(test, tmp_path)
