"""Topics that are made, and the configs and access rules that follow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kmirror.admin.acls import AclBinding
from kmirror.admin.results import ConfigEntry, ConfigOperation, ConfigSource
from kmirror.common.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.acl_sync import is_without_authorizer, target_acls
from kmirror.mirrormaker.config_sync import config_changes, new_topic_configs, topics_to_configure
from kmirror.mirrormaker.cycles import SourceAndTarget, TopicSelection
from kmirror.mirrormaker.replication_policy import DefaultReplicationPolicy, IdentityReplicationPolicy
from kmirror.mirrormaker.topic_creation import (
    NewRemoteTopic,
    source_topics,
    target_topics,
    task_groups,
    task_partitions,
    topic_changes,
    topics_changed,
)
from kmirror.mirrormaker.topic_filters import DefaultConfigPropertyFilter, DefaultTopicFilter

FLOW = TopicSelection(SourceAndTarget("A", "B"), DefaultReplicationPolicy(), DefaultTopicFilter.from_props({}))
KEEP = DefaultConfigPropertyFilter.from_props({})
COPY_DEFAULTS = DefaultConfigPropertyFilter.from_props({"use.defaults.from": "source"})


def entry(name: str, value: str | None, source: ConfigSource, *, secret: bool = False, read_only: bool = False) -> ConfigEntry:
    return ConfigEntry(name, value, source, is_sensitive=secret, is_read_only=read_only, is_default=source is ConfigSource.DEFAULT_CONFIG)


ENTRIES = [
    entry("retention.ms", "1000", ConfigSource.DYNAMIC_TOPIC_CONFIG),
    entry("segment.bytes", "99", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
    entry("cleanup.policy", "delete", ConfigSource.DEFAULT_CONFIG),
    entry("compression.type", "zstd", ConfigSource.STATIC_BROKER_CONFIG),
    entry("secret.thing", None, ConfigSource.DYNAMIC_TOPIC_CONFIG, secret=True),
    entry("fixed.thing", "1", ConfigSource.DYNAMIC_TOPIC_CONFIG, read_only=True),
    entry("min.insync.replicas", "2", ConfigSource.DYNAMIC_TOPIC_CONFIG),
]


def test_sy1_configs_are_set_defaults_deleted_and_the_rest_left_alone() -> None:
    assert config_changes(ENTRIES, KEEP) == [
        ("retention.ms", ConfigOperation.SET, "1000"),
        ("segment.bytes", ConfigOperation.SET, "99"),
        ("cleanup.policy", ConfigOperation.DELETE, None),
    ]


def test_sy1_with_defaults_from_the_source_they_are_set() -> None:
    assert ("cleanup.policy", ConfigOperation.SET, "delete") in config_changes(ENTRIES, COPY_DEFAULTS)


def test_sy1_only_topics_that_exist_at_the_target_are_configured() -> None:
    assert topics_to_configure({"t": "A.t", "u": "A.u"}, ["A.u", "t"]) == ["u"]


def test_rt4_a_new_topic_gets_the_sources_configs_without_defaults() -> None:
    assert new_topic_configs(ENTRIES, KEEP) == {"retention.ms": "1000", "segment.bytes": "99"}
    assert new_topic_configs(ENTRIES, COPY_DEFAULTS)["cleanup.policy"] == "delete"


READ = AclBinding(ResourceType.TOPIC, "t", PatternType.LITERAL, "User:x", "*", AclOperation.READ, AclPermissionType.ALLOW)
DENY = replace(READ, permission_type=AclPermissionType.DENY)


@pytest.mark.parametrize(
    ("binding", "copied"),
    [
        (READ, replace(READ, name="A.t")),
        (replace(READ, operation=AclOperation.WRITE), None),
        (replace(DENY, operation=AclOperation.WRITE), replace(DENY, name="A.t", operation=AclOperation.WRITE)),
        (replace(READ, operation=AclOperation.ALL), replace(READ, name="A.t")),
        (replace(DENY, operation=AclOperation.ALL), replace(DENY, name="A.t", operation=AclOperation.ALL)),
        (replace(READ, operation=AclOperation.ALTER), replace(READ, name="A.t", operation=AclOperation.ALTER)),
        (replace(READ, pattern_type=PatternType.PREFIXED), None),
        (replace(READ, resource_type=ResourceType.GROUP), None),
        (replace(READ, name="__x"), None),
        (replace(READ, name="B.t"), None),
        (replace(READ, name="*"), replace(READ, name="A.*")),
    ],
    ids=["read", "write", "deny-write", "all", "deny-all", "alter", "prefixed", "group", "internal", "cycle", "star"],
)
def test_sy2_sy3_who_may_read_the_source_may_read_the_remote_topic_and_nobody_may_write(
    binding: AclBinding, copied: AclBinding | None
) -> None:
    assert target_acls([binding], FLOW) == ([] if copied is None else [copied])


def test_sy4_a_source_without_authorizer_is_no_failure() -> None:
    assert is_without_authorizer(ApiException(Errors.SECURITY_DISABLED))
    assert not is_without_authorizer(ApiException(Errors.CLUSTER_AUTHORIZATION_FAILED))


def test_rt2_rt4_missing_topics_and_partitions_are_made_and_none_removed() -> None:
    changes = topic_changes(FLOW, {"new": 3, "grown": 4, "same": 2, "shrunk": 1}, {"A.grown": 2, "A.same": 2, "A.shrunk": 5, "A.gone": 1})
    assert changes.new_topics == [NewRemoteTopic("new", "A.new", 3, 2)] and changes.new_partitions == {"A.grown": 4}


def test_rt3_the_target_has_one_topic_for_each_source_topic_and_checkpoints_are_none_of_them() -> None:
    names = ["A.t", "t", "C.t", "A.checkpoints.internal", "A.heartbeats"]
    assert target_topics(FLOW, names) == ["A.t", "A.heartbeats"]
    assert source_topics(FLOW, ["t", "B.t", "__x", "C.heartbeats"]) == ["t", "C.heartbeats"]


def test_rt3_with_the_identity_policy_every_topic_of_the_target_counts_or_none() -> None:
    known = FLOW._replace(policy=IdentityReplicationPolicy(source_cluster_alias="A"))
    assert target_topics(known, ["t"]) == ["t"] and target_topics(FLOW._replace(policy=IdentityReplicationPolicy()), ["t"]) == []


def test_mc11_a_refresh_acts_when_either_side_changed() -> None:
    assert not topics_changed(FLOW, {"t": 1}, {"t": 1}, {"A.t": 1})
    assert topics_changed(FLOW, {"t": 1}, {"t": 2}, {"A.t": 2}) and topics_changed(FLOW, {"t": 1}, {"t": 1}, {})


def test_mc10_partitions_are_dealt_and_groups_are_cut() -> None:
    sizes = {"t0": 8, "t1": 2, "t2": 2}
    partitions = [TopicPartition(topic, number) for topic, count in sizes.items() for number in range(count)]
    tasks = task_partitions(partitions, 3)
    assert [str(partition) for partition in tasks[0]] == ["t0-0", "t0-3", "t0-6", "t1-1"]
    assert len(task_partitions(partitions, 99)) == 12 and task_partitions([], 3) == []
    assert task_groups("abcde", 3) == [["a", "b"], ["c", "d"], ["e"]] and task_groups([], 2) == []
