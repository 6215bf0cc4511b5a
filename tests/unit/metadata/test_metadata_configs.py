"""Config definitions: what Kafka 4.3's LogConfig, ClientMetricsConfigs and GroupConfig say, and the
KIP's mirror configs.
"""

from __future__ import annotations

import pytest

from kmirror.common.config import UpdateMode
from kmirror.common.errors import ApiException, Errors
from kmirror.metadata.configs import effective_topic_configs, topic_config, validate
from kmirror.metadata.delta import MetadataDelta
from kmirror.metadata.image import ConfigResource, MetadataImage, MetadataProvenance
from kmirror.metadata.resource_configs import MIRROR_CONFIGS, broker_update_mode, parse_acl_rule
from kmirror.metadata.topic_configs import TOPIC_CONFIGS, default_text
from kmirror.wire.messages.config_record import ConfigRecord

TOPIC, BROKER, METRICS, GROUP, MIRROR = 2, 4, 16, 32, 64


def problem(resource_type: int, name: str, props: dict[str, str]) -> tuple[Errors, str] | None:
    try:
        validate(ConfigResource(resource_type, name), props)
    except ApiException as error:
        return error.error, error.message
    return None


@pytest.mark.parametrize(
    ("props", "text"),
    [
        ({"segment.bytes": "100"}, "Invalid value 100 for configuration segment.bytes: Value must be at least 1048576"),
        ({"segment.bytes": ""}, "Invalid value  for configuration segment.bytes: Not a number of type INT"),
        ({"retention.ms": "-2"}, "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        ({"cleanup.policy": "foo"}, "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete"),
        ({"cleanup.policy": "compact,"}, "Configuration 'cleanup.policy' values must not be empty."),
        (
            {"min.cleanable.dirty.ratio": "1.5"},
            "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
        ),
        ({"unknown.config": "1"}, "Unknown topic config name: unknown.config"),
        (
            {"leader.replication.throttled.replicas": "abc"},
            "Invalid value [abc] for configuration leader.replication.throttled.replicas: leader.replication.throttled.replicas must be the literal "
            "'*' or a list of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
        ),
        (
            {"compression.gzip.level": "0"},
            "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
        ),
        (
            {"max.compaction.lag.ms": "5", "min.compaction.lag.ms": "10"},
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
        ),
        ({"message.format.version": "3.0"}, "Unknown topic config name: message.format.version"),
    ],
)
def test_topic_configs_refused_as_kafka_refuses_them(props: dict[str, str], text: str) -> None:
    assert problem(TOPIC, "t", props) == (Errors.INVALID_CONFIG, text)


@pytest.mark.parametrize(
    "props",
    [
        {"cleanup.policy": ""}, {"cleanup.policy": "compact,compact"}, {"cleanup.policy": "compact, delete"}, {"segment.ms": " 5 "},
        {"leader.replication.throttled.replicas": "*"}, {"leader.replication.throttled.replicas": "0:1,1:2"}, {"internal.segment.bytes": "100"},
        {"unclean.leader.election.enable": "TRUE"}, {"retention.bytes": "-5"}, {"mirror.replication.throttled.replicas": "*"},
        {"mirror.support.unclean.leader.election": "true"}, {"mirror.max.truncation.records": "-1"}, {"mirror.max.truncation.records": "0"},
    ],
)  # fmt: skip
def test_topic_configs_that_kafka_takes(props: dict[str, str]) -> None:
    assert problem(TOPIC, "t", props) is None


def test_topic_defaults() -> None:
    assert len(TOPIC_CONFIGS.keys) == 41, "34 of Kafka 4.3 and seven of mirroring"
    assert default_text("min.cleanable.dirty.ratio") == "0.5"
    assert default_text("max.message.bytes") == "1048588"
    assert default_text("message.timestamp.after.max.ms") == "3600000"
    assert default_text("leader.replication.throttled.replicas") == ""


@pytest.mark.parametrize(
    ("name", "props", "expected"),
    [
        (
            "cm",
            {"interval.ms": "5"},
            (Errors.INVALID_REQUEST, "Invalid value 5 for interval.ms, interval must be between 100 and 3600000 (1 hour)"),
        ),
        ("cm", {"match": "foo=bar"}, (Errors.INVALID_CONFIG, "Illegal client matching pattern: foo=bar")),
        ("cm", {"match": "client_id=("}, (Errors.INVALID_CONFIG, "Illegal client matching pattern: client_id=(")),
        ("cm", {"x": "1"}, (Errors.INVALID_REQUEST, "Unknown client metrics configuration: x")),
        ("", {}, (Errors.INVALID_REQUEST, "Subscription name can't be empty")),
        ("cm", {"interval.ms": "60000", "match": "client_software_name=abc", "metrics": "*"}, None),
    ],
)
def test_client_metrics(name: str, props: dict[str, str], expected: tuple[Errors, str] | None) -> None:
    assert problem(METRICS, name, props) == expected


def test_group_configs() -> None:
    assert problem(GROUP, "g", {"consumer.session.timeout.ms": "50000"}) is None
    assert problem(GROUP, "g", {"foo": "1"}) == (Errors.INVALID_CONFIG, "Unknown group config name: foo")
    assert problem(GROUP, "g", {"consumer.session.timeout.ms": "5000"}) is not None


@pytest.mark.parametrize("name", ["abc", "-1", "1.5"])
def test_broker_names_are_ids(name: str) -> None:
    found = problem(BROKER, name, {})
    assert found is not None
    assert found[0] is Errors.INVALID_REQUEST


def test_a_mirror_needs_its_source() -> None:
    assert problem(MIRROR, "m", {}) == (
        Errors.INVALID_CONFIG,
        'Missing required configuration "bootstrap.servers" which has no default value.',
    )
    assert problem(MIRROR, "m", {"bootstrap.servers": ""}) is not None
    assert problem(MIRROR, "m", {"bootstrap.servers": "localhost:9092,[::1]:9093"}) is None
    assert problem(MIRROR, "m", {"bootstrap.servers": "localhost"}) == (
        Errors.INVALID_CONFIG,
        "Invalid url in bootstrap.servers: localhost",
    )
    found = problem(MIRROR, "m", {"bootstrap.servers": "a:1", "no.such": "1"})
    assert found == (Errors.INVALID_CONFIG, "Unknown mirror config name: no.such")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("security.protocol", "HTTP"),
        ("mirror.groups.include", "("),
        ("mirror.acl.include", "NOPE;x"),
        ("mirror.acl.include", "a;b;c;d;e;f"),
    ],
)
def test_mirror_configs_that_make_no_sense(key: str, value: str) -> None:
    found = problem(MIRROR, "m", {"bootstrap.servers": "a:1", key: value})
    assert found is not None
    assert found[0] is Errors.INVALID_CONFIG


@pytest.mark.parametrize(
    "rules",
    ["*", "TOPIC;orders.*", "*;*;*;*;User:alice", "*;*;*;*;User:app-.*", "TOPIC;*;READ;ALLOW", "GROUP;consumer-.*;READ;ALLOW;User:bob",
     "TOPIC;orders.*,*;*;*;*;User:alice"],
)  # fmt: skip
def test_the_kips_acl_rules(rules: str) -> None:
    assert problem(MIRROR, "m", {"bootstrap.servers": "a:1", "mirror.acl.include": rules}) is None


def test_an_acl_rule_taken_apart() -> None:
    kind, name, operation, permission, principal = parse_acl_rule("topic;orders.*;Read")
    assert (kind, operation, permission, principal) == ("TOPIC", "READ", None, None)
    assert name is not None
    assert name.fullmatch("orders-1")


def test_secrets_of_a_mirror_are_sensitive_and_the_cluster_id_is_hidden() -> None:
    assert MIRROR_CONFIGS["sasl.jaas.config"].sensitive
    assert MIRROR_CONFIGS["source.cluster.id"].internal
    assert MIRROR_CONFIGS["mirror.acl.include"].default == ["*"]


def test_which_broker_configs_can_change() -> None:
    assert broker_update_mode("log.cleaner.threads") is UpdateMode.CLUSTER_WIDE
    assert broker_update_mode("listeners") is UpdateMode.PER_BROKER
    assert broker_update_mode("listener.name.internal.ssl.keystore.location") is UpdateMode.PER_BROKER
    assert broker_update_mode("node.id") is UpdateMode.READ_ONLY
    assert broker_update_mode("mirror.replication.throttled.rate") is UpdateMode.CLUSTER_WIDE


def test_later_layers_win() -> None:
    delta = MetadataDelta(MetadataImage.EMPTY)
    for kind, name, key, value in [
        (BROKER, "", "log.retention.ms", "2"),
        (BROKER, "1", "log.retention.ms", "3"),
        (TOPIC, "t", "retention.ms", "4"),
    ]:
        delta.replay(ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value))
    image = delta.apply(MetadataProvenance(3, 1, 1))
    static = {"log.retention.hours": "1", "log.retention.minutes": "1"}
    assert effective_topic_configs(image, "t", static)["retention.ms"] == "4"
    assert effective_topic_configs(image, "other", static, broker_id=1)["retention.ms"] == "3"
    assert topic_config(image, "other", "retention.ms", static) == "2"
    assert topic_config(MetadataImage.EMPTY, "other", "retention.ms", static) == "60000", "minutes win over hours"
    assert topic_config(MetadataImage.EMPTY, "other", "retention.ms", {}) == "604800000"
