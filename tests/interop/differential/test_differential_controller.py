"""What the controller decides: reassignments, features with all their levels, voters, broker
settings; and its own listener.
"""

from __future__ import annotations

import pytest
from harness import Pair, Side
from steps import await_published, create_topic

from kmirror.common.uuid import Uuid
from kmirror.wire.messages import alter_partition_reassignments as alter
from kmirror.wire.messages import incremental_alter_configs as iac
from kmirror.wire.messages import list_partition_reassignments as listing
from kmirror.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from kmirror.wire.messages.api_versions import ApiVersionsRequest
from kmirror.wire.messages.describe_cluster import DescribeClusterRequest
from kmirror.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kmirror.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from kmirror.wire.messages.unregister_broker import UnregisterBrokerRequest
from kmirror.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

pytestmark = pytest.mark.interop

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)
SOMEBODY = Uuid(b"somebody-else-16")


def test_reassignments(pair: Pair) -> None:
    create_topic(pair, "ra", partitions=2)
    for topic, target in (
        ("ra", (0, None)), ("ra", (0, [1])), ("ra", (0, [])), ("ra", (0, [1, 1])), ("ra", (0, [9])), ("ra", (0, [1, 2])), ("ra", (0, [-1])),
        ("ra", (7, [1])), ("ra", (7, None)), ("nowhere", (0, [1])), ("", (0, [1])),
    ):  # fmt: skip
        wanted = [alter.ReassignableTopic(topic, [alter.ReassignablePartition(*target)])]
        for may_change_factor in (True, False):
            request = alter.AlterPartitionReassignmentsRequest(topics=wanted, allow_replication_factor_change=may_change_factor)
            pair.every_version(request, 0 if may_change_factor else 1, note=repr((topic, target, may_change_factor)))
    pair.every_version(alter.AlterPartitionReassignmentsRequest(topics=[]), note="nothing")
    asked = listing.ListPartitionReassignmentsTopics
    for topics in (None, [], [asked("ra", [0, 1, 9]), asked("nowhere", [0])]):
        pair.every_version(listing.ListPartitionReassignmentsRequest(topics=topics), note=repr(topics))


def test_feature_levels(pair: Pair) -> None:
    for updates in (
        [("metadata.version", 29, 1)], [("metadata.version", 29, 2)], [("metadata.version", 22, 3)], [("metadata.version", 30, 2)], [("metadata.version", 6, 2)],
        [("metadata.version", 31, 1)], [("metadata.version", 22, 2), ("eligible.leader.replicas.version", 0, 2)],
        [("kraft.version", 1, 1)], [("kraft.version", 0, 1)], [("kraft.version", 0, 2)], [("kraft.version", 2, 1)],
        [("transaction.version", 0, 1)], [("transaction.version", 0, 2)], [("transaction.version", 1, 3)], [("transaction.version", 3, 1)],
        [("eligible.leader.replicas.version", 0, 2)], [("eligible.leader.replicas.version", 1, 1)], [("eligible.leader.replicas.version", 2, 1)],
        [("share.version", 0, 2)], [("share.version", 2, 1)], [("streams.version", 0, 2)], [("nonsense", 0, 2)], [("nonsense", 0, 1)], [("nonsense", 1, 1)],
        [("group.version", 0, 2), ("nonsense", 1, 1)], [("group.version", 0, 0)], [("group.version", 1, 1), ("group.version", 0, 2)], [],
    ):  # fmt: skip
        keys = [FeatureUpdateKey(name, level, upgrade_type=kind) for name, level, kind in updates]
        pair.every_version(UpdateFeaturesRequest(60_000, keys, True), 1, note=repr(updates))


def test_features_that_change_are_shown(pair: Pair) -> None:
    for level, kind in ((1, 2), (2, 1)):
        key = FeatureUpdateKey("transaction.version", level, upgrade_type=kind)
        pair.same(UpdateFeaturesRequest(60_000, [key], False), 2)
    await_published(pair)
    assert pair.controllers is not None
    pair.same(ApiVersionsRequest("a", "1"), 4, edit=only_features)
    pair.controllers.same(ApiVersionsRequest("a", "1"), 4, edit=only_features)
    for line in pair.controllers.report():
        pair.note(line, None, "differs")


def only_features(answer: dict) -> None:
    """Which APIs are served is compared elsewhere, and mirror.version is KIP-1279's."""
    answer.pop("api_keys")
    for name in ("supported_features", "finalized_features"):
        answer[name] = [feature for feature in answer[name] if feature["name"] != "mirror.version"]


def test_voters(pair: Pair) -> None:
    def cluster_id(side: Side) -> str:
        assert pair.controllers is not None
        return str(side.ask(DescribeClusterRequest(False, 1), 1).cluster_id)

    for directory_id in (SOMEBODY, Uuid.ZERO):
        pair.same(
            lambda side, directory_id=directory_id: AddRaftVoterRequest(
                cluster_id(side), 1000, 5, directory_id, [Listener("CONTROLLER", "localhost", 1)]
            ),
            0,
            note=f"add {directory_id}",
        )
        pair.same(
            lambda side, directory_id=directory_id: RemoveRaftVoterRequest(cluster_id(side), 5, directory_id),
            0,
            note=f"remove {directory_id}",
        )
    pair.same(AddRaftVoterRequest("x", 1000, 5, SOMEBODY, [Listener("CONTROLLER", "localhost", 1)]), 0, note="add elsewhere")
    pair.same(RemoveRaftVoterRequest("x", 5, SOMEBODY), 0, note="remove elsewhere")
    pair.same(UnregisterBrokerRequest(9), 0)


BROKER_CHANGES = [
    ("1", ("min.insync.replicas", SET, "2")), ("", ("min.insync.replicas", DELETE, None)), ("", ("min.insync.replicas", SET, "x")),
    ("", ("unclean.leader.election.enable", SET, "true")), ("", ("unclean.leader.election.enable", SET, "zz")), ("", ("unclean.leader.election.enable", DELETE, None)),
    ("1", ("ssl.keystore.password", SET, "abc")), ("", ("ssl.keystore.password", SET, "abc")), ("1", ("log.cleaner.threads", SET, "50")),
    ("1", ("num.io.threads", SET, "100")), ("1", ("num.io.threads", SET, "3")), ("1", ("num.io.threads", SET, "16")), ("1", ("num.io.threads", SET, "0")),
    ("1", ("num.network.threads", SET, "100")), ("1", ("num.replica.fetchers", SET, "9")), ("1", ("num.replica.fetchers", SET, "2")),
    ("1", ("num.recovery.threads.per.data.dir", SET, "100")), ("1", ("background.threads", SET, "1")), ("1", ("background.threads", SET, "5")),
    ("1", ("background.threads", DELETE, None)), ("1", ("num.io.threads", DELETE, None)), ("1", ("num.replica.fetchers", DELETE, None)),
    ("1", ("max.connections", SET, "0")), ("1", ("max.connections.per.ip", SET, "0")), ("1", ("max.connections.per.ip.overrides", SET, "a:b")),
    ("1", ("log.retention.ms", SET, "0")), ("1", ("log.message.timestamp.type", SET, "x")), ("1", ("log.cleanup.policy", SET, "x")),
    ("1", ("message.max.bytes", SET, "5"), ("node.id", SET, "4")), ("1", ("leader.replication.throttled.rate", SET, "1000")),
    ("1", ("leader.replication.throttled.rate", SET, "-1")), ("1", ("leader.replication.throttled.rate", DELETE, None)),
    ("1", ("log.cleaner.dedupe.buffer.size", SET, "1")), ("1", ("log.roll.ms", SET, "0")), ("1", ("log.segment.bytes", SET, "1")),
    ("", ("log.cleanup.policy", APPEND, "compact")), ("", ("log.cleanup.policy", DELETE, None)),
    ("1", ("listener.name.plaintext.max.connections", SET, "7")), ("1", ("listener.name.plaintext.max.connections", SET, "x")),
    ("1", ("listener.name.plaintext.max.connections", DELETE, None)), ("1", ("nonsense.x", SET, "7")), ("1", ("nonsense.x", DELETE, None)),
]  # fmt: skip


def test_broker_settings(pair: Pair) -> None:
    for name, *changes in BROKER_CHANGES:
        configs = [iac.AlterableConfig(*change) for change in changes]
        for validate in (True, False):
            request = iac.IncrementalAlterConfigsRequest([iac.AlterConfigsResource(BROKER, name, configs)], validate)
            pair.same(request, 1, note=repr((name, changes, validate)))


def test_too_long_a_value(pair: Pair) -> None:
    create_topic(pair, "tl")
    for operation in (SET, APPEND):
        replicas = ",".join(f"{1_000_000 + operation * 10_000 + number}:1" for number in range(3000))
        change = iac.AlterableConfig("follower.replication.throttled.replicas", operation, replicas)
        pair.same(iac.IncrementalAlterConfigsRequest([iac.AlterConfigsResource(TOPIC, "tl", [change])], False), 1, note=str(operation))


def test_the_controllers_own_listener(controllers: Pair) -> None:
    for endpoint_type in (1, 2, 7):
        controllers.every_version(DescribeClusterRequest(False, endpoint_type), 1, note=str(endpoint_type))
    controllers.same(UpdateFeaturesRequest(60_000, [FeatureUpdateKey("metadata.version", 29, upgrade_type=2)], True), 2)
    controllers.same(listing.ListPartitionReassignmentsRequest(topics=None), 0)
    for name in ("1", ""):
        request = iac.IncrementalAlterConfigsRequest(
            [iac.AlterConfigsResource(BROKER, name, [iac.AlterableConfig("log.retention.ms", DELETE, None)])]
        )
        controllers.same(request, 1, note=name)
    for kind, name, keys in (
        (BROKER, "1", ["node.id", "log.retention.hours", "nope", "log.cleaner.threads"]), (BROKER, "", None), (BROKER, "7", None), (BROKER, "x", None),
        (TOPIC, "nowhere", None), (8, "", None), (99, "x", None),
    ):  # fmt: skip
        wanted = DescribeConfigsRequest([DescribeConfigsResource(kind, name, keys)], True, False)
        controllers.same(wanted, 4, note=repr((kind, name)))
