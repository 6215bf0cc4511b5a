"""Rules outlive their nodes: broker and controller judge by them at once after a restart, from the
log and from a snapshot.
"""

from __future__ import annotations

import pytest
from support.brokers.acl_matrix import acl_of, message_of
from support.brokers.kmirror_side import AUTHORIZED, KmirrorSide

from kmirror import EmbeddedCluster
from kmirror.common.errors import Errors
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages.create_acls import CreateAclsRequest

TOPIC = {"topics": [{"name": "t", "num_partitions": 1, "replication_factor": 1}], "timeout_ms": 5000, "validate_only": True}


def topic_error(side: KmirrorSide, user: str) -> Errors:
    answer = side.ask(user, ApiKeys.CREATE_TOPICS, 7, message_of(ApiKeys.CREATE_TOPICS, TOPIC))
    return Errors.for_code(answer.topics[0].error_code)


@pytest.mark.parametrize("snapshot_bytes", ["20971520", "1"], ids=["log", "snapshot"])
def test_rules_are_there_after_a_restart(snapshot_bytes: str) -> None:
    config = AUTHORIZED | {"metadata.log.max.record.bytes.between.snapshots": snapshot_bytes}
    with EmbeddedCluster(config=config) as cluster:
        side = KmirrorSide(cluster)
        rules = CreateAclsRequest(creations=[acl_of("alice", "CREATE TOPIC t"), acl_of("alice", "DESCRIBE CLUSTER")])
        assert [row.error_code for row in side.ask(None, ApiKeys.CREATE_ACLS, 3, rules).results] == [0, 0]
        cluster.stop_node(0)
        cluster.start_node(0)
        assert topic_error(side, "alice") is Errors.NONE, "the controller knows the rule"
        assert topic_error(side, "bob") is Errors.TOPIC_AUTHORIZATION_FAILED
        described = message_of(ApiKeys.DESCRIBE_CLUSTER, {"include_cluster_authorized_operations": True})
        assert side.ask("alice", ApiKeys.DESCRIBE_CLUSTER, 1, described).cluster_authorized_operations == 1 << 8, "the broker knows it, too"
        assert side.ask("bob", ApiKeys.DESCRIBE_CLUSTER, 1, described).cluster_authorized_operations == 0
