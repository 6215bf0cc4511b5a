"""The permissions of cluster mirroring (KIP-1279, rows ACL11 to ACL27 as far as one cluster shows them), and where they are missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from acl_matrix import acl_of, message_of
from kmirror_side import AUTHORIZED, KmirrorSide

from kmirror import EmbeddedCluster
from kmirror.common.errors import Errors
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages.create_acls import CreateAclsRequest


class Row(NamedTuple):
    api_key: ApiKeys
    version: int
    fields: dict[str, Any]
    needs: str
    error: Errors


K = ApiKeys
MIRROR, CLUSTER = Errors.MIRROR_AUTHORIZATION_FAILED, Errors.CLUSTER_AUTHORIZATION_FAILED
TOPICS = {"mirror_name": "m", "topics": [{"topic_name": "t"}]}
ALTERED = {"resources": [{"resource_type": 64, "resource_name": "m", "configs": [{"name": "mirror.topics.exclude", "value": "x"}]}]}
DESCRIBED = {"resources": [{"resource_type": 64, "resource_name": "m", "configuration_keys": None}]}
ROWS = [
    Row(K.CREATE_MIRROR, 0, {"mirror_name": "m"}, "CREATE CLUSTER_MIRROR m", MIRROR),
    Row(K.DELETE_MIRROR, 0, {"mirror_name": "m"}, "ALTER CLUSTER_MIRROR m", MIRROR),
    Row(K.ADD_TOPICS_TO_MIRROR, 0, TOPICS, "ALTER CLUSTER_MIRROR m", MIRROR),
    Row(K.REMOVE_TOPICS_FROM_MIRROR, 0, TOPICS, "ALTER CLUSTER_MIRROR m", MIRROR),
    Row(K.PAUSE_MIRROR_TOPICS, 0, TOPICS, "ALTER CLUSTER_MIRROR m", MIRROR),
    Row(K.RESUME_MIRROR_TOPICS, 0, TOPICS, "ALTER CLUSTER_MIRROR m", MIRROR),
    Row(K.DESCRIBE_CONFIGS, 4, DESCRIBED, "DESCRIBE_CONFIGS CLUSTER_MIRROR m", MIRROR),
    Row(K.INCREMENTAL_ALTER_CONFIGS, 1, ALTERED, "ALTER_CONFIGS CLUSTER_MIRROR m", MIRROR),
    Row(K.READ_MIRROR_STATES, 0, {"mirror_name": "m"}, "CLUSTER_ACTION CLUSTER", CLUSTER),
    Row(K.WRITE_MIRROR_STATES, 0, {"mirror_name": "m"}, "CLUSTER_ACTION CLUSTER", CLUSTER),
    Row(K.BUMP_LEADER_EPOCHS, 0, {}, "CLUSTER_ACTION CLUSTER", CLUSTER),
    Row(K.FIND_COORDINATOR, 7, {"key_type": 3, "coordinator_keys": ["m:AAAAAAAAAAAAAAAAAAAAAQ:0"]}, "CLUSTER_ACTION CLUSTER", CLUSTER),
]


@pytest.fixture(scope="module")
def side() -> Iterator[KmirrorSide]:
    with EmbeddedCluster(mirroring=True, config=AUTHORIZED) as cluster:
        made = KmirrorSide(cluster)
        topics = [{"name": "t", "num_partitions": 1, "replication_factor": 1}]
        made.ask(None, K.CREATE_TOPICS, 7, message_of(K.CREATE_TOPICS, {"topics": topics, "timeout_ms": 5000}))
        rules = [acl_of(f"u{number}", row.needs) for number, row in enumerate(ROWS)]
        rules += [acl_of("seer", "DESCRIBE CLUSTER_MIRROR seen*"), acl_of("seer", "CREATE CLUSTER_MIRROR *")]
        answer = made.ask(None, K.CREATE_ACLS, 3, CreateAclsRequest(creations=rules))
        assert {row.error_code for row in answer.results} == {0}
        yield made


def errors_of(value: Any) -> set[Errors]:
    """All error codes anywhere in an answer."""
    found = {Errors.for_code(value.error_code)} if getattr(value, "error_code", 0) else set()
    for name in getattr(value, "__struct_fields__", ()):
        for entry in getattr(value, name) if isinstance(getattr(value, name), list) else ():
            found |= errors_of(entry)
    return found


@pytest.mark.parametrize("number", range(len(ROWS)), ids=lambda number: ROWS[number].api_key.name)
def test_the_permission_is_needed_and_is_enough(side: KmirrorSide, number: int) -> None:
    row = ROWS[number]
    assert errors_of(side.ask("nobody", row.api_key, row.version, message_of(row.api_key, row.fields))) == {row.error}
    allowed = errors_of(side.ask(f"u{number}", row.api_key, row.version, message_of(row.api_key, row.fields)))
    assert row.error not in allowed and Errors.TOPIC_AUTHORIZATION_FAILED not in allowed - {Errors.UNKNOWN_MIRROR}


def test_mirrors_that_may_not_be_described_are_left_out_of_lists_and_refused_by_name(side: KmirrorSide) -> None:
    for name in ("seen-1", "hidden-1"):
        created = {"mirror_name": name, "config": [{"name": "bootstrap.servers", "value": "127.0.0.1:1"}]}
        assert errors_of(side.ask("seer", K.CREATE_MIRROR, 0, message_of(K.CREATE_MIRROR, created))) == set()
    listed = side.ask("seer", K.LIST_MIRRORS, 0, message_of(K.LIST_MIRRORS, {}))
    assert [row.mirror_name for row in listed.mirrors] == ["seen-1"]
    described = side.ask("seer", K.DESCRIBE_MIRRORS, 0, message_of(K.DESCRIBE_MIRRORS, {"mirror_names": []}))
    assert [row.mirror_name for row in described.mirrors] == ["seen-1"]
    both = side.ask("seer", K.DESCRIBE_MIRRORS, 0, message_of(K.DESCRIBE_MIRRORS, {"mirror_names": ["seen-1", "hidden-1"]}))
    assert {row.mirror_name: Errors.for_code(row.error_code) for row in both.mirrors} == {"seen-1": Errors.NONE, "hidden-1": MIRROR}


def test_topics_of_a_mirror_have_to_be_readable(side: KmirrorSide) -> None:
    rule = CreateAclsRequest(creations=[acl_of("half", "ALTER CLUSTER_MIRROR *")])
    side.ask(None, K.CREATE_ACLS, 3, rule)
    created = {"mirror_name": "m2", "config": [{"name": "bootstrap.servers", "value": "127.0.0.1:1"}]}
    assert errors_of(side.ask(None, K.CREATE_MIRROR, 0, message_of(K.CREATE_MIRROR, created))) == set()
    asked = message_of(K.PAUSE_MIRROR_TOPICS, {"mirror_name": "m2", "topics": [{"topic_name": "t"}]})
    assert errors_of(side.ask("half", K.PAUSE_MIRROR_TOPICS, 0, asked)) == {Errors.TOPIC_AUTHORIZATION_FAILED}
