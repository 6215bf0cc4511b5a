"""Names of remote and internal topics, and cycles."""

from __future__ import annotations

import pytest

from kmirror.common.errors import ConfigError
from kmirror.mirrormaker.cycles import SourceAndTarget, TopicSelection, is_cycle
from kmirror.mirrormaker.replication_policy import (
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    ReplicationPolicy,
    replication_policy,
)
from kmirror.mirrormaker.topic_filters import DefaultTopicFilter

DEFAULT = DefaultReplicationPolicy()
IDENTITY = IdentityReplicationPolicy(source_cluster_alias="A")


@pytest.mark.parametrize(
    ("topic", "source", "upstream", "original"),
    [
        ("t", None, None, "t"),
        ("A.t", "A", "t", "t"),
        ("B.A.t", "B", "A.t", "t"),
        ("my.topic", "my", "topic", "topic"),
        ("a.", None, None, "a."),
        (".a", "", "a", "a"),
        ("..", None, None, ".."),
        ("a..b", "a", ".b", "b"),
        ("", None, None, ""),
        ("B.A.heartbeats", "B", "A.heartbeats", "heartbeats"),
    ],
)
def test_rp2_to_rp4_of_the_default_policy_split_at_the_first_separator_as_java_does(
    topic: str, source: str | None, upstream: str | None, original: str
) -> None:
    assert (DEFAULT.topic_source(topic), DEFAULT.upstream_topic(topic), DEFAULT.original_topic(topic)) == (source, upstream, original)


def test_rp1_rt1_the_remote_name_begins_with_the_sources_alias() -> None:
    assert DEFAULT.format_remote_topic("us-west", "us-east.topic1") == "us-west.us-east.topic1"


def test_cy5_a_local_topic_with_a_dot_counts_as_remote() -> None:
    assert DEFAULT.topic_source("my.topic") == "my"


def test_rp1_to_rp4_of_the_identity_policy_keep_every_name_but_heartbeats() -> None:
    assert IDENTITY.format_remote_topic("A", "t") == IDENTITY.upstream_topic("t") == IDENTITY.original_topic("t") == "t"
    assert IDENTITY.topic_source("t") == "A" and IdentityReplicationPolicy().topic_source("t") is None
    assert IDENTITY.format_remote_topic("A", "heartbeats") == "A.heartbeats"
    assert IDENTITY.topic_source("B.heartbeats") == "B" and IDENTITY.upstream_topic("B.heartbeats") == "heartbeats"
    assert IDENTITY.format_remote_topic("A", "my-heartbeats") == "A.my-heartbeats", "Kafka looks at the end of the name only"


@pytest.mark.parametrize(
    ("topic", "internal"),
    [("__x", True), (".x", True), ("x-internal", False), ("x.internal", False), ("mm2-offset-syncs.B.internal", True), ("x", False),
     ("A.checkpoints.internal", True), ("heartbeats", False), ("internal", False)],
)  # fmt: skip
def test_rt7_rp5_internal_topics_are_kafkas_and_mirrormakers(topic: str, *, internal: bool) -> None:
    assert DEFAULT.is_internal_topic(topic) is IDENTITY.is_internal_topic(topic) is internal


def test_rp6_internal_names_have_the_separator_unless_kip_690_switches_it_off() -> None:
    assert (DEFAULT.offset_syncs_topic("B"), DEFAULT.checkpoints_topic("A")) == ("mm2-offset-syncs.B.internal", "A.checkpoints.internal")
    dash = replication_policy({"replication.policy.separator": "_"})
    assert (dash.offset_syncs_topic("B"), dash.checkpoints_topic("A")) == ("mm2-offset-syncs_B_internal", "A_checkpoints_internal")
    assert dash.is_checkpoints_topic("A_checkpoints_internal") and not dash.is_checkpoints_topic("A.checkpoints.internal")
    assert dash.is_mm2_internal_topic("mm2-x_internal") and dash.is_heartbeats_topic("B_A_heartbeats")
    old = replication_policy({"replication.policy.separator": "_", "replication.policy.internal.topic.separator.enabled": "false"})
    assert old.checkpoints_topic("A") == "A.checkpoints.internal" and old.format_remote_topic("A", "t") == "A_t"


def test_rp6_the_switch_of_internal_names_is_read_only_beside_a_separator() -> None:
    policy = replication_policy({"replication.policy.internal.topic.separator.enabled": "false"})
    assert policy.checkpoints_topic("A") == "A.checkpoints.internal"


@pytest.mark.parametrize(
    "name", ["LegacyReplicationPolicy", "org.apache.kafka.mirror.LegacyReplicationPolicy", "IdentityReplicationPolicy"]
)
def test_the_old_names_of_the_identity_policy_are_known(name: str) -> None:
    policy = replication_policy({"replication.policy.class": name, "source.cluster.alias": "A"})
    assert isinstance(policy, IdentityReplicationPolicy) and policy.topic_source("t") == "A"


def test_a_policy_that_does_not_exist_is_refused_in_kafkas_words() -> None:
    text = "Invalid value x.Y for configuration replication.policy.class: Class x.Y could not be found."
    with pytest.raises(ConfigError, match=text):
        replication_policy({"replication.policy.class": "x.Y"})


@pytest.mark.parametrize(
    ("topic", "target", "cycle"), [("t", "B", False), ("B.t", "B", True), ("C.B.t", "B", True), ("A.C.t", "B", False), ("C.A.t", "A", True)]
)
def test_cy1_cy2_a_topic_does_not_go_back_to_a_cluster_it_came_through(topic: str, target: str, *, cycle: bool) -> None:
    assert is_cycle(DEFAULT, target, topic) is cycle


def test_cy4_the_identity_policy_sees_cycles_of_heartbeats_only() -> None:
    policy = IdentityReplicationPolicy(source_cluster_alias="A")
    assert not is_cycle(policy, "B", "t") and is_cycle(policy, "B", "B.heartbeats")
    assert is_cycle(policy, "A", "t"), "its own source is the one alias that it knows"


def selection(
    source: str, target: str, policy: ReplicationPolicy = DEFAULT, *, heartbeats: bool = True, topics: str = ".*"
) -> TopicSelection:
    return TopicSelection(SourceAndTarget(source, target), policy, DefaultTopicFilter.from_props({"topics": topics}), heartbeats)


def flood(clusters: str, rounds: int = 10) -> dict[str, set[str]]:
    """What every cluster has once each ordered pair replicated until nothing changed."""
    topics = {cluster: {"t", "heartbeats"} for cluster in clusters}
    for _ in range(rounds):
        before = {cluster: set(names) for cluster, names in topics.items()}
        for source in clusters:
            for target in clusters:
                if source != target:
                    flow = selection(source, target)
                    topics[target] |= {flow.remote_topic(name) for name in topics[source] if flow.should_replicate_topic(name)}
        if topics == before:
            return topics
    raise AssertionError("topics never stop to grow")


def test_cy3_in_a_full_mesh_no_alias_occurs_twice_and_the_topics_are_finite() -> None:
    topics = flood("ABC")
    assert {name for name in topics["C"] if name.endswith(".t")} == {"A.t", "B.t", "A.B.t", "B.A.t"}
    assert all(len(set(parts)) == len(parts) for names in topics.values() for parts in (name.split(".") for name in names))


def test_cy6_a_diamond_gives_the_same_records_under_two_names() -> None:
    topics = flood("ABC")
    assert {"B.A.t", "A.t"} <= topics["C"]


def test_fi4_heartbeats_pass_a_filter_that_leaves_them_out_unless_switched_off() -> None:
    assert selection("A", "B", topics="orders").should_replicate_topic("C.heartbeats")
    assert not selection("A", "B", topics="orders", heartbeats=False).should_replicate_topic("C.heartbeats")
    assert not selection("A", "B", topics="orders").should_replicate_topic("B.heartbeats"), "a cycle stays one"
    assert not selection("A", "B", topics=".*").should_replicate_topic("A.checkpoints.internal"), "internal beats the filter"
