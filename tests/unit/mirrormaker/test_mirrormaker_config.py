"""Properties of connectors, and the grammar of a driver's file."""

from __future__ import annotations

import re

import pytest

from kmirror.common.errors import ConfigError
from kmirror.mirrormaker.client_configs import is_secret
from kmirror.mirrormaker.connector_config import (
    CONNECTORS,
    K382,
    MirrorCheckpointConfig,
    MirrorHeartbeatConfig,
    MirrorSourceConfig,
    validate_checkpoint,
    validate_source,
)
from kmirror.mirrormaker.cycles import SourceAndTarget
from kmirror.mirrormaker.mirror_maker_config import MirrorMakerConfig
from kmirror.mirrormaker.property_names import current_names
from kmirror.mirrormaker.replication_policy import IdentityReplicationPolicy
from kmirror.mirrormaker.transforms import make_chain
from kmirror.mirrormaker.worker_config import WorkerConfig
from kmirror.network.config_providers import ConfigProviders
from kmirror.runtime.os_files import OsFileSystem

A_TO_B = SourceAndTarget("A", "B")
BASE = {"name": "n", "connector.class": "MirrorSourceConnector", "source.cluster.alias": "A", "target.cluster.alias": "B"}
FILE = {"clusters": "A, B", "A.bootstrap.servers": "a:9092", "B.bootstrap.servers": "b:9092", "A->B.enabled": "true"}


def driver(change: dict[str, str] | None = None) -> MirrorMakerConfig:
    return MirrorMakerConfig(FILE | (change or {}))


def source(change: dict[str, str] | None = None) -> MirrorSourceConfig:
    return MirrorSourceConfig(driver(change).connector_base_config(A_TO_B, "MirrorSourceConnector"))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("offset-syncs.topic.location", "here", "Invalid value here for configuration {}: String must be one of: source, target"),
        ("offset.lag.max", "x", "Invalid value x for configuration {}: Not a number of type LONG"),
        ("emit.offset-syncs.enabled", "yes", "Invalid value yes for configuration {}: Expected value to be either true or false"),
        ("tasks.max", "0", "Invalid value 0 for configuration {}: Value must be at least 1"),
        ("name", "", "Invalid value  for configuration {}: String may not be empty"),
        ("security.protocol", "TLS", "Invalid value TLS for configuration {}: String must be one of (case insensitive): SASL_SSL, "
         "PLAINTEXT, SSL, SASL_PLAINTEXT"),
        ("offset-syncs.topic.replication.factor", "40000", "Invalid value 40000 for configuration {}: Not a number of type SHORT"),
        ("topics", "a,,b", "Configuration '{}' values must not be empty."),
        ("errors.tolerance", "x", "Invalid value x for configuration {}: String must be one of: none, all"),
        ("metric.names.formats", "", "Configuration '{}' must not be empty. Valid values include: [legacy, new]"),
    ],
)  # fmt: skip
def test_a_wrong_property_is_refused_in_kafkas_words(name: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(message.format(name))}$"):
        MirrorSourceConfig(BASE | {name: value})


@pytest.mark.parametrize("missing", ["name", "connector.class", "source.cluster.alias"])
def test_a_missing_property_is_refused_in_kafkas_words(missing: str) -> None:
    props = {name: value for name, value in BASE.items() if name != missing}
    with pytest.raises(ConfigError, match=f'^Missing required configuration "{missing}" which has no default value.$'):
        MirrorSourceConfig(props)


def test_defaults_are_kafka_4s_or_the_kips_by_profile() -> None:
    four, kip = MirrorCheckpointConfig(BASE), MirrorCheckpointConfig(BASE, K382)
    assert (four.interval_ms("emit.checkpoints"), kip.interval_ms("emit.checkpoints")) == (60_000, 5_000)
    assert four.topic_filter().should_replicate_topic("t") and not kip.topic_filter().should_replicate_topic("t")
    assert MirrorHeartbeatConfig(BASE).interval_ms("emit.heartbeats") == 1_000
    assert four.interval_ms("sync.group.offsets") is None, "switched off"
    assert "heartbeats.topic.retention.ms" not in MirrorHeartbeatConfig(BASE).values
    assert MirrorHeartbeatConfig(BASE, K382).get_int("heartbeats.topic.retention.ms") == 86_400_000


def test_a_negative_interval_switches_off_and_none_is_refused_where_kafka_fails() -> None:
    assert MirrorSourceConfig(BASE | {"refresh.topics.interval.seconds": "-1"}).interval_ms("refresh.topics") is None
    assert MirrorHeartbeatConfig(BASE | {"emit.heartbeats.interval.seconds": "-1"}).interval_ms("emit.heartbeats") is None
    assert MirrorCheckpointConfig(BASE | {"emit.checkpoints.interval.seconds": "0"}).interval_ms("emit.checkpoints") == 0
    with pytest.raises(ConfigError, match=r"Invalid value 0 for configuration refresh\.topics\.interval\.seconds"):
        MirrorSourceConfig(BASE | {"refresh.topics.interval.seconds": "0"}).interval_ms("refresh.topics")


def test_it3_the_offset_syncs_topic_is_named_after_the_other_cluster() -> None:
    assert MirrorSourceConfig(BASE).offset_syncs_topic() == "mm2-offset-syncs.B.internal"
    assert MirrorCheckpointConfig(BASE | {"offset-syncs.topic.location": "target"}).offset_syncs_topic() == "mm2-offset-syncs.A.internal"


def test_it1_it2_heartbeats_and_checkpoints_topics() -> None:
    assert MirrorHeartbeatConfig(BASE).heartbeats_topic() == "heartbeats"
    assert MirrorCheckpointConfig(BASE).checkpoints_topic() == "A.checkpoints.internal"


def test_mc12_mc16_a_source_consumer_begins_at_the_earliest_and_never_commits() -> None:
    config = MirrorSourceConfig(BASE | {"source.cluster.bootstrap.servers": "a:1", "source.consumer.client.id": "me"})
    assert config.client_config("source", "consumer", "replication-consumer") == {
        "bootstrap.servers": "a:1",
        "enable.auto.commit": "false",
        "auto.offset.reset": "earliest",
        "client.id": "me|A->B|n|replication-consumer",
    }


def test_mc15_exactly_once_needs_read_committed() -> None:
    required = {"exactly.once.support": "required"}
    assert "isolation.level set to 'read_committed'" in validate_source(required)["exactly.once.support"]
    assert validate_source(required | {"source.consumer.isolation.level": "read_committed"}) == {}


def test_offset_syncs_that_are_off_cannot_be_configured_or_used() -> None:
    off = {"emit.offset-syncs.enabled": "false"}
    assert validate_source(off) == {} and validate_source(off | {"offset-syncs.topic.location": "target"})
    assert validate_checkpoint(off)["emit.offset-syncs.enabled"] == "MirrorCheckpointConnector can't run without offset syncs"
    assert validate_checkpoint(off | {"enabled": "false"}) == {}


def test_dg1_clusters_are_required_and_counted_once() -> None:
    with pytest.raises(ConfigError, match='^Missing required configuration "clusters" which has no default value.$'):
        MirrorMakerConfig({"topics": "t"})
    assert driver({"clusters": "A,B,A"}).clusters == ("A", "B")
    with pytest.raises(ConfigError, match=r"^Configuration 'clusters' values must not be empty\.$"):
        driver({"clusters": "A,,B"})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("listeners", "", "Invalid value for listeners, at least one URL is expected, ex: http://localhost:8080,https://localhost:8443."),
        ("rest.advertised.port", "x", "Invalid value x for configuration rest.advertised.port: Not a number of type INT"),
        ("config.providers", "file,,env", "Configuration 'config.providers' values must not be empty."),
    ],
)
def test_dg1_dg11_what_only_some_nodes_need_is_checked_on_all(name: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        driver({name: value})


@pytest.mark.parametrize("alias", ["a\\1", "a\\g<0>", "A.B", "A->B"])
def test_dg2_an_alias_may_be_any_text(alias: str) -> None:
    """A backslash in an alias ended the program with a traceback."""
    config = MirrorMakerConfig({"clusters": f"{alias},B", f"cluster.{alias}.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1"})
    assert config.cluster_props(alias)["bootstrap.servers"] == "a:1"
    assert config.worker_config(SourceAndTarget(alias, "B"))["group.id"] == f"{alias}-mm2"


def test_dg2_a_clusters_properties_go_to_its_clients_and_workers() -> None:
    change = {"B.offset.storage.replication.factor": "1", "A.consumer.fetch.max.bytes": "9"}
    props = source(change).originals
    assert props["source.cluster.bootstrap.servers"] == "a:9092" and props["source.consumer.fetch.max.bytes"] == "9"
    assert driver(change).worker_config(A_TO_B)["offset.storage.replication.factor"] == "1"


def test_dg3_dg4_dg6_a_flow_beats_a_cluster_which_beats_the_top_level() -> None:
    config = source({"offset.lag.max": "1", "A->B.offset.lag.max": "2", "B->A.offset.lag.max": "3"})
    assert config.get_int("offset.lag.max") == 2
    security = {"ssl.protocol": "top", "A.ssl.protocol": "cluster"}
    assert source({"ssl.protocol": "top"}).client_config("source", "admin")["ssl.protocol"] == "top"
    assert source(security).client_config("source", "admin")["ssl.protocol"] == "cluster"
    assert source(security).client_config("target", "admin")["ssl.protocol"] == "top"


def test_transformations_count_at_every_level_and_a_flow_beats_the_top_level() -> None:
    plain = {
        "transforms": "f,r",
        "transforms.f.type": "Filter",
        "transforms.r.type": "DropHeaders",
        "transforms.r.headers": "h",
        "predicates": "",
    }
    for name, kind in CONNECTORS.items():
        props = kind(
            driver(plain | {"A->B.transforms": "r", "A->B.transforms.r.headers": "i"}).connector_base_config(A_TO_B, name)
        ).originals
        assert [stage.java_class.rpartition(".")[2] for stage in make_chain(props).stages] == ["DropHeaders"]
        assert props["transforms.r.headers"] == "i" and props["transforms.f.type"] == "Filter"
    other = driver(plain | {"A->B.transforms": ""}).connector_base_config(A_TO_B, "MirrorSourceConnector")
    assert make_chain(other).stages == ()


@pytest.mark.parametrize(
    ("setting", "seen"),
    [
        ("A->B.ssl.protocol", "cluster"),
        ("A->B.source.cluster.ssl.protocol", "cluster"),
        ("A->B.admin.ssl.protocol", "cluster"),
        ("A->B.source.admin.ssl.protocol", "flow"),
    ],
)
def test_dg7_a_clusters_security_beats_a_flows_unless_it_names_side_and_client(setting: str, seen: str) -> None:
    config = source({"A.ssl.protocol": "cluster", setting: "flow"})
    assert config.client_config("source", "admin")["ssl.protocol"] == seen
    assert config.client_config("source", "consumer")["ssl.protocol"] == "cluster"


def test_dg7_a_flows_bare_security_setting_reaches_no_client() -> None:
    assert "ssl.protocol" not in source({"A->B.ssl.protocol": "flow"}).client_config("source", "admin")


def test_dg5_an_idle_flow_has_workers_for_its_heartbeats_unless_they_are_off() -> None:
    b_to_a = SourceAndTarget("B", "A")
    assert driver().cluster_pairs() == [A_TO_B, b_to_a]
    assert driver({"emit.heartbeats.enabled": "false"}).cluster_pairs() == [A_TO_B]
    assert driver({"B->A.emit.heartbeats": "false"}).cluster_pairs() == [A_TO_B]
    assert driver({"A->B.enabled": "true "}).is_enabled(A_TO_B) is False, "Kafka takes `true` alone"


def test_dg8_dg9_workers_have_defaults_and_some_top_level_properties() -> None:
    worker = driver({"task.shutdown.graceful.timeout.ms": "9", "offset.lag.max": "5"}).worker_config(A_TO_B)
    assert (worker["client.id"], worker["group.id"], worker["task.shutdown.graceful.timeout.ms"]) == ("A->B", "A-mm2", "9")
    names = [worker[f"{kind}.storage.topic"] for kind in ("offset", "status", "config")]
    assert names == ["mm2-offsets.A.internal", "mm2-status.A.internal", "mm2-configs.A.internal"]
    assert "offset.lag.max" not in worker and worker["value.converter"].endswith("ByteArrayConverter")


def test_dg10_references_are_resolved_for_workers_and_left_for_connectors() -> None:
    change = {"config.providers": "env", "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider"}
    config = driver(change | {"B.ssl.key.password": "${env:KEY}"})
    providers = ConfigProviders.from_props(config.raw, OsFileSystem(), {"KEY": "s3cret"})
    assert config.worker_config(A_TO_B, providers.resolve)["ssl.key.password"] == "s3cret"
    assert config.client_config("B", "admin", providers.resolve)["ssl.key.password"] == "s3cret"
    props = config.connector_base_config(A_TO_B, "MirrorSourceConnector")
    assert props["target.cluster.ssl.key.password"] == "${env:KEY}" and props["config.providers"] == "env"


def test_dg10_a_secret_is_never_printed() -> None:
    secrets = {"B.ssl.key.password": "s3cret", "A.sasl.jaas.config": "x s3cret", "A->B.producer.ssl.truststore.password": "s3cret"}
    assert "s3cret" not in repr(driver(secrets)) + str(driver(secrets))
    assert is_secret("target.producer.sasl.oauthbearer.client.credentials.client.secret") and not is_secret("topics")


def test_dg11_internal_rest_is_off() -> None:
    assert driver().enable_internal_rest is False and driver({"dedicated.mode.enable.internal.rest": "TRUE"}).enable_internal_rest


def test_dg12_a_node_serves_the_targets_it_is_told() -> None:
    assert driver().pairs_of_node(["B"]) == [A_TO_B]
    with pytest.raises(ConfigError, match=r"^No source->target replication flows\.$"):
        driver({"emit.heartbeats.enabled": "false"}).pairs_of_node(["A"])


def test_dg13_old_names_mean_what_the_new_ones_mean() -> None:
    old = {
        "clusters": "primary, backup",
        "cluster.primary.bootstrap.servers": "p:1",
        "cluster.backup.broker.list": "b:1",
        "primary->backup.enabled": "true",
        "primary->backup.topics.blacklist": "x",
        "groups.blacklist": "g",
        "emit.heartbeats": "false",
        "primary->backup.rename.topics": "false",
        "primary->backup.source.cluster.consumer.fetch.max.bytes": "7",
    }
    config = MirrorMakerConfig(old)
    flow = SourceAndTarget("primary", "backup")
    assert config.cluster_pairs() == [flow]
    resolved = MirrorSourceConfig(config.connector_base_config(flow, "MirrorSourceConnector"))
    assert resolved.client_config("target", "admin")["bootstrap.servers"] == "b:1"
    assert resolved.client_config("source", "consumer")["fetch.max.bytes"] == "7"
    assert isinstance(resolved.replication_policy, IdentityReplicationPolicy)
    checkpoint = MirrorCheckpointConfig(config.connector_base_config(flow, "MirrorCheckpointConnector"))
    assert not checkpoint.topic_filter().should_replicate_topic("x") and not checkpoint.group_filter().should_replicate_group("g")


def test_the_new_name_counts_where_a_file_has_both() -> None:
    assert current_names({"topics.exclude": "new", "topics.blacklist": "old"}) == {"topics.exclude": "new"}
    assert current_names({"topics.blacklist": "old", "topics.exclude": "new"}) == {"topics.exclude": "new"}


def test_every_connector_takes_what_the_driver_makes() -> None:
    for name, kind in CONNECTORS.items():
        assert kind(driver().connector_base_config(A_TO_B, name)).connector_name == name


@pytest.mark.parametrize(("support", "level"), [("enabled", "read_committed"), ("disabled", "read_uncommitted")])
def test_offsets_of_aborted_transactions_never_count_with_exactly_once_support(support: str, level: str) -> None:
    """A task went on behind records that the target does not show, as `B.consumer.isolation.level`
    said so.
    """
    props = driver({"B.exactly.once.source.support": support, "B.consumer.isolation.level": "read_uncommitted"}).worker_config(A_TO_B)
    assert WorkerConfig(props).storage_consumer("c")["isolation.level"] == level


@pytest.mark.parametrize("name", ["MirrorSinkConnector", "org.apache.kafka.connect.mirror.MirrorSinkConnector"])
def test_mc2_a_sinks_worker_is_at_the_source(name: str) -> None:
    config = driver(
        {"A->B.connector.class": name, "A->B.enabled": "true", "A.exactly.once.source.support": "enabled", "B.producer.acks": "1"}
    )
    props = config.worker_config(A_TO_B)
    worker = WorkerConfig(props, is_sink=True)
    assert props["bootstrap.servers"] == config.cluster_props("A")["bootstrap.servers"]
    assert (worker.group_id, worker.config_storage_topic, worker.offset_storage_topic) == (
        "B-mm2-sink", "mm2-sink-configs.B.internal", "mm2-sink-offsets.B.internal",
    )  # fmt: skip
    assert not worker.is_exactly_once
    source = MirrorSourceConfig(config.connector_base_config(A_TO_B, "MirrorSourceConnector"))
    assert (source.connector_name, source.originals["connector.class"].rpartition(".")[2]) == ("MirrorSinkConnector",) * 2
    assert config.connector_base_config(A_TO_B, "MirrorCheckpointConnector")["connector.class"].endswith(".MirrorCheckpointConnector")
    producer = worker.producer_of(source, "c")
    assert (producer["bootstrap.servers"], producer["acks"]) == (config.cluster_props("B")["bootstrap.servers"], "1")
    assert A_TO_B in config.pairs_of_node(["A"])
    with pytest.raises(ConfigError, match="No source->target replication flows"):
        config.pairs_of_node(["B"])
