"""What a flow copies besides records, against Apache Kafka's own classes: access rules, configs of topics,
groups, and how the work is dealt to tasks.
"""

from __future__ import annotations

import pytest
from support.mirrormaker.apaches_rules import Apache, Question, compare

from kmirror.admin.acls import AclBinding
from kmirror.admin.results import ConfigEntry, ConfigSource
from kmirror.common.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.acl_sync import target_acls
from kmirror.mirrormaker.config_sync import config_changes, new_topic_configs
from kmirror.mirrormaker.cycles import SourceAndTarget, TopicSelection
from kmirror.mirrormaker.replication_policy import replication_policy
from kmirror.mirrormaker.topic_creation import task_groups, task_partitions
from kmirror.mirrormaker.topic_filters import DefaultConfigPropertyFilter, DefaultGroupFilter, DefaultTopicFilter

pytestmark = pytest.mark.interop

POLICIES = ("DefaultReplicationPolicy", "IdentityReplicationPolicy")
RESOURCES = [
    ("TOPIC", "LITERAL", "t"), ("TOPIC", "LITERAL", "*"), ("TOPIC", "PREFIXED", "t"), ("TOPIC", "LITERAL", "B.t"), ("TOPIC", "LITERAL", "other"),
    ("TOPIC", "LITERAL", "heartbeats"), ("TOPIC", "LITERAL", "__consumer_offsets"), ("TOPIC", "LITERAL", "mm2-configs.A.internal"),
    ("GROUP", "LITERAL", "t"), ("CLUSTER", "LITERAL", "kafka-cluster"),
]  # fmt: skip
KINDS = (("tasks", "source"), ("tasks", "checkpoint"))
OPERATIONS = [one.name for one in AclOperation if one.name not in ("UNKNOWN", "ANY")]


@pytest.mark.item("SY2")
def test_sy2_rules_of_access_are_changed_alike(apache: Apache) -> None:
    questions: list[Question] = [
        ("acl", policy, resource, name, pattern, operation, permission)
        for policy in POLICIES
        for resource, pattern, name in RESOURCES
        for operation in OPERATIONS
        for permission in ("ALLOW", "DENY")
    ]
    ours = []
    for _, policy, resource, name, pattern, operation, permission in questions:
        topics = DefaultTopicFilter.from_props({"topics": "t.*, [*], B.t"})
        made = replication_policy({"replication.policy.class": policy, "source.cluster.alias": "A"})
        rule = AclBinding(
            ResourceType[str(resource)], str(name), PatternType[str(pattern)], "User:u", "*", AclOperation[str(operation)],
            AclPermissionType[str(permission)],
        )  # fmt: skip
        found = target_acls([rule], TopicSelection(SourceAndTarget("A", "B"), made, topics))
        ours.append(" ".join(f"{one.name} {one.operation.name} {one.permission_type.name}" for one in found) or "-")
    theirs = apache(questions)
    assert len(set(theirs)) > 10
    compare(questions, theirs, ours)


@pytest.mark.item("SY1", "FI3")
def test_sy1_fi3_configs_are_chosen_alike(apache: Apache) -> None:
    """The last word is what is done to a topic that is there, if the config is kept at all."""
    names = [
        "retention.ms",
        "min.insync.replicas",
        "message.timestamp.type",
        "MESSAGE.TIMESTAMP.TYPE",
        "follower.replication.throttled.replicas",
    ]
    options = [{}, *({"use.defaults.from": value} for value in ("source", "target", "SOURCE", " source ", "x")), {"config.properties.exclude": ""},
               {"config.properties.exclude": "ret.*,x", "use.defaults.from": "source"}]  # fmt: skip
    cases = [
        (name, source, read_only, sensitive, props)
        for name in names
        for source in ConfigSource
        if source not in (ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG, ConfigSource.DYNAMIC_GROUP_CONFIG)
        for read_only in (False, True)
        for sensitive in (False, True)
        for props in options
    ]
    questions = [
        ("config", name, source.name, str(read_only).lower(), str(sensitive).lower(), *(f"{key}={value}" for key, value in props.items()))
        for name, source, read_only, sensitive, props in cases
    ]
    ours = []
    for name, source, read_only, sensitive, props in cases:
        entry = ConfigEntry(name, "7", source, is_read_only=read_only, is_sensitive=sensitive)
        chosen = DefaultConfigPropertyFilter.from_props(props)
        changed, new = config_changes([entry], chosen), new_topic_configs([entry], chosen)
        is_set = source != ConfigSource.DEFAULT_CONFIG or chosen.should_replicate_source_default(name)
        assert all((operation.name == "SET") is is_set for _, operation, _ in changed)
        ours.append(f"{str(bool(changed)).lower()} {str(bool(new)).lower()} {'SET' if is_set else 'DELETE'}")
    compare(questions, apache(questions), ours)


@pytest.mark.item("FI2")
def test_fi2_groups_are_chosen_alike(apache: Apache) -> None:
    groups = ["g", "console-consumer-7", "connect-x", "__g", "mm2-g", "", " ", "a,b", "G", "x-g", "connect", "gg"]
    options = [{}, {"groups": "g.*"}, {"groups": "g,x-.*", "groups.exclude": "x.*"}, {"groups": ""}, {"groups.exclude": ""}, {"groups": "g", "groups.exclude": "g"},
               {"groups": "(?i)G"}, {"groups": "g,,x"}, {"groups": "("}, {"groups": " g , gg "}]  # fmt: skip
    cases = [(group, props) for group in groups for props in options]
    ours = []
    for group, props in cases:
        try:
            ours.append(str(DefaultGroupFilter.from_props(props).should_replicate_group(group)).lower())
        except KmirrorError:
            ours.append("error")
    questions = [("group", group, *(f"{name}={value}" for name, value in props.items())) for group, props in cases]
    compare(questions, [one if one in ("true", "false") else "error" for one in apache(questions)], ours)


@pytest.mark.item("MC10")
def test_mc10_tasks_get_the_same_shares(apache: Apache) -> None:
    """Topics are listed in turn, so that the order counts."""
    base = ["name=n", "connector.class=c", "source.cluster.alias=A", "target.cluster.alias=B"]
    shapes = [(tasks, count) for tasks in (1, 2, 3, 7, 100) for count in (0, 1, 2, 5, 12, 30)]
    questions: list[Question] = [(kind, kind_of, tasks, count, *base) for kind, kind_of in KINDS for tasks, count in shapes]
    ours = []
    for _, kind, tasks, count, *_rest in questions:
        if kind == "source":
            partitions = [TopicPartition(f"t{number % 3}", number // 3) for number in range(int(str(count)))]
            shares = [",".join(map(str, one)) for one in task_partitions(partitions, int(str(tasks)))]
        else:
            shares = [",".join(one) for one in task_groups([f"g{number}" for number in range(int(str(count)))], int(str(tasks)))]
        ours.append("; ".join(f"{share} {index}" for index, share in enumerate(shares)))
    compare(questions, apache(questions), ours)
