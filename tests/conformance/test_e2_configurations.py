"""Configurations of topics and brokers (E2, CFG8 to CFG12, CFG15, CFG19, CFG20), and the configs
APIs that know mirrors (A2, A9).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.mirrors.mirror_harness import create_mirror, create_topic, send, wait_for

from kmirror import EmbeddedCluster
from kmirror.common.errors import ConfigError, Errors
from kmirror.network.client import UnsupportedVersionError
from kmirror.server.broker_configs import broker_configs, dynamic_only_configs
from kmirror.server.kafka_config import KafkaConfig
from kmirror.wire.messages import alter_configs as legacy
from kmirror.wire.messages import create_topics as topics
from kmirror.wire.messages import describe_configs as describe
from kmirror.wire.messages import incremental_alter_configs as alter
from kmirror.wire.messages import list_config_resources
from kmirror.wire.primitives import Writer

E = Errors
TOPIC, BROKER, MIRROR = 2, 4, 64
BOOLEAN, STRING, INT, SHORT, LONG, LIST, PASSWORD = 1, 2, 3, 4, 5, 7, 9
DYNAMIC_TOPIC, DYNAMIC_BROKER, DYNAMIC_DEFAULT, STATIC, DEFAULT = 1, 2, 3, 4, 5
MINIMUM = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
}
MAX_LONG = "9223372036854775807"


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(mirroring=True, config={"mirror.topic.num.partitions": "2"}) as made:
        create_topic(made.bootstrap_servers, "t")
        create_mirror(made.bootstrap_servers, "m", "127.0.0.1:1")
        yield made


@pytest.fixture(scope="module")
def plain() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as made:
        create_topic(made.bootstrap_servers, "t")
        yield made


def entries(cluster: EmbeddedCluster, kind: int, name: str, *keys: str, version: int | None = None) -> dict[str, Any]:
    resource = describe.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
    request = describe.DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=(version or 5) >= 3)
    (result,) = send(cluster.bootstrap_servers, request, version=version).results
    assert (result.error_code, result.resource_type, result.resource_name) == (0, kind, name), result
    return {entry.name: entry for entry in result.configs}


def shown(cluster: EmbeddedCluster, kind: int, name: str, key: str) -> tuple[str | None, int, int, bool, bool]:
    """Value, type, source, read-only, sensitive; documentation is there."""
    entry = entries(cluster, kind, name, key)[key]
    assert entry.documentation
    return entry.value, entry.config_type, entry.config_source, entry.read_only, entry.is_sensitive


def change(
    cluster: EmbeddedCluster, kind: int, name: str, key: str, value: str | None, *, version: int | None = None, operation: int = 0
) -> tuple[Errors, str | None]:
    """The result of setting (or, with null, removing) one config."""
    config = alter.AlterableConfig(name=key, config_operation=1 if value is None else operation, value=value)
    resource = alter.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
    (row,) = send(cluster.bootstrap_servers, alter.IncrementalAlterConfigsRequest(resources=[resource]), version=version).responses
    return E.for_code(row.error_code), row.error_message


@pytest.mark.parametrize("value", ["m", "m.paused", "m.removed", ""])
def test_cfg8_mirror_name_is_not_settable(cluster: EmbeddedCluster, value: str) -> None:
    assert change(cluster, TOPIC, "t", "mirror.name", value)[0] is E.INVALID_REQUEST
    assert change(cluster, TOPIC, "t", "mirror.name", None)[0] is E.INVALID_REQUEST
    old = legacy.AlterConfigsResource(
        resource_type=TOPIC, resource_name="t", configs=[legacy.AlterableConfig(name="mirror.name", value=value)]
    )
    assert send(cluster.bootstrap_servers, legacy.AlterConfigsRequest(resources=[old])).responses[0].error_code == E.INVALID_REQUEST
    config = topics.CreatableTopicConfig(name="mirror.name", value=value)
    wanted = topics.CreatableTopic(name="u", num_partitions=1, replication_factor=1, configs=[config])
    answer = send(cluster.bootstrap_servers, topics.CreateTopicsRequest(topics=[wanted], timeout_ms=9_000))
    assert answer.topics[0].error_code == E.INVALID_REQUEST
    assert cluster.call(lambda server: server.broker.metadata_cache.image.configs.topic("t").get("mirror.name")) is None


@pytest.mark.item("B34")
def test_cfg8_mirror_name_is_not_shown_and_survives_a_replacement_of_all_configs(cluster: EmbeddedCluster) -> None:
    create_topic(cluster.bootstrap_servers, "owned")
    cluster._call(_associate(cluster, "owned"))
    assert "mirror.name" not in entries(cluster, TOPIC, "owned")
    assert entries(cluster, TOPIC, "owned", "mirror.name") == {}
    config = legacy.AlterableConfig(name="retention.ms", value="1000000")
    old = legacy.AlterConfigsResource(resource_type=TOPIC, resource_name="owned", configs=[config])
    assert send(cluster.bootstrap_servers, legacy.AlterConfigsRequest(resources=[old])).responses[0].error_code == 0
    image = cluster.call(lambda server: server.broker.metadata_cache.image)
    assert dict(image.configs.topic("owned")) == {"mirror.name": "m", "retention.ms": "1000000"}


async def _associate(cluster: EmbeddedCluster, topic: str) -> None:
    """As a broker may (B5), without the states that a request would look at."""
    server: Any = cluster.nodes[0].server
    config = alter.AlterableConfig(name="mirror.name", config_operation=0, value="m")
    resource = alter.AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=[config])
    answer = await server.broker.apis.controller.send(alter.IncrementalAlterConfigsRequest(resources=[resource]))
    assert answer.responses[0].error_code == 0


def test_cfg9_throttled_replicas(cluster: EmbeddedCluster) -> None:
    key = "mirror.replication.throttled.replicas"
    assert shown(cluster, TOPIC, "t", key) == ("", LIST, DEFAULT, False, False)
    for value in ("0:1", "0:1,3:4", "*"):
        assert change(cluster, TOPIC, "t", key, value) == (E.NONE, None)
        wait_for(value, lambda value=value: shown(cluster, TOPIC, "t", key) == (value, LIST, DYNAMIC_TOPIC, False, False))
    for value in ("0", "a:b", "0:1:2", "0:1,*", "0-1"):
        assert change(cluster, TOPIC, "t", key, value)[0] is E.INVALID_CONFIG, value
    assert change(cluster, TOPIC, "t", key, None) == (E.NONE, None)


def test_cfg10_support_of_unclean_leader_election(cluster: EmbeddedCluster) -> None:
    key = "mirror.support.unclean.leader.election"
    assert shown(cluster, TOPIC, "t", key) == ("false", BOOLEAN, DEFAULT, False, False)
    assert change(cluster, TOPIC, "t", key, "true") == (E.NONE, None)
    wait_for("true", lambda: shown(cluster, TOPIC, "t", key) == ("true", BOOLEAN, DYNAMIC_TOPIC, False, False))
    assert change(cluster, TOPIC, "t", key, "maybe")[0] is E.INVALID_CONFIG


STATIC_CONFIGS = [
    pytest.param("mirror.topic.num.partitions", "50", INT, "2", "0", id="CFG11"),
    pytest.param("mirror.topic.replication.factor", "3", SHORT, "1", "0", id="CFG12"),
]


@pytest.mark.parametrize(("key", "default", "kind", "value", "bad"), STATIC_CONFIGS)
def test_static_broker_config(cluster: EmbeddedCluster, key: str, default: str, kind: int, value: str, bad: str) -> None:
    """Default, bounds, and no change while the broker runs; the state topic is made with it."""
    assert KafkaConfig.from_props(MINIMUM).text(key) == default
    with pytest.raises(ConfigError, match=key):
        KafkaConfig.from_props(MINIMUM | {key: bad})
    with pytest.raises(ConfigError, match=key):
        KafkaConfig.from_props(MINIMUM | {key: "x"})
    assert shown(cluster, BROKER, "1", key) == (value, kind, STATIC, True, False)
    for level in ("1", ""):
        assert change(cluster, BROKER, level, key, "5") == (E.INVALID_REQUEST, f"Cannot update these configs dynamically: [{key}]")
    state = cluster.call(lambda server: server.broker.metadata_cache.image.topics.topic("__mirror_state"))
    assert (len(state.partitions), len(state.partitions[0].replicas)) == (2, 1)


def test_cfg12_the_replication_factor_is_a_short() -> None:
    with pytest.raises(ConfigError, match="mirror.topic.replication.factor"):
        KafkaConfig.from_props(MINIMUM | {"mirror.topic.replication.factor": "32768"})


def test_cfg15_throttled_rate_is_set_at_run_time_for_one_broker_or_all(cluster: EmbeddedCluster) -> None:
    """The rate can be set for one broker (CLI14), or as the cluster's default (THR2).

    In a properties file it has no effect.
    """
    key = "mirror.replication.throttled.rate"
    assert key in dynamic_only_configs() and key not in broker_configs()
    assert entries(cluster, BROKER, "1", key).get(key) is None or shown(cluster, BROKER, "1", key)[:3] == (MAX_LONG, LONG, DEFAULT)
    assert change(cluster, BROKER, "", key, "2000000") == (E.NONE, None)
    wait_for("the default", lambda: shown(cluster, BROKER, "", key) == ("2000000", LONG, DYNAMIC_DEFAULT, False, False))
    assert change(cluster, BROKER, "1", key, "100000000") == (E.NONE, None)
    wait_for("the broker's", lambda: shown(cluster, BROKER, "1", key) == ("100000000", LONG, DYNAMIC_BROKER, False, False))
    sources = [synonym.source for synonym in entries(cluster, BROKER, "1", key)[key].synonyms]
    assert sources[:2] == [DYNAMIC_BROKER, DYNAMIC_DEFAULT]
    for bad in ("-1", "x", "9223372036854775808"):
        assert change(cluster, BROKER, "1", key, bad)[0] is E.INVALID_REQUEST, bad
    for level in ("1", ""):
        assert change(cluster, BROKER, level, key, None) == (E.NONE, None)


@pytest.mark.parametrize(
    "key",
    [pytest.param("unstable.api.versions.enable", id="CFG19"), pytest.param("unstable.feature.versions.enable", id="CFG20")],
)
def test_unstable_switch(cluster: EmbeddedCluster, plain: EmbeddedCluster, key: str) -> None:
    """False, a boolean, static; internal, so DescribeConfigs shows it only where it is set (what it
    does: test_e11_feature_level).
    """
    assert KafkaConfig.from_props(MINIMUM).text(key) == "false"
    with pytest.raises(ConfigError, match=key):
        KafkaConfig.from_props(MINIMUM | {key: "yes"})
    assert shown(cluster, BROKER, "1", key) == ("true", BOOLEAN, STATIC, True, False)
    assert entries(plain, BROKER, "1", key) == {}
    assert change(cluster, BROKER, "1", key, "false")[0] is E.INVALID_REQUEST


def test_configs_of_mirroring_are_not_shown_where_it_is_switched_off(plain: EmbeddedCluster) -> None:
    for kind, name in ((BROKER, "1"), (TOPIC, "t")):
        assert [key for key in entries(plain, kind, name) if key.startswith("mirror.")] == []


def written(message: Any, version: int) -> bytes:
    out = Writer()
    message.write(out, version)
    return b"".join(bytes(part) for part in out.parts())


@pytest.mark.item("B32")
def test_a2_the_new_versions_of_the_configs_apis_have_the_bytes_of_those_before(cluster: EmbeddedCluster, plain: EmbeddedCluster) -> None:
    resource = describe.DescribeConfigsResource(resource_type=MIRROR, resource_name="m", configuration_keys=["a"])
    described = describe.DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=True)
    assert written(described, 5) == written(described, 4)
    config = alter.AlterableConfig(name="mirror.groups.include", config_operation=0, value="x")
    changed = alter.IncrementalAlterConfigsRequest(
        resources=[alter.AlterConfigsResource(resource_type=MIRROR, resource_name="m", configs=[config])], validate_only=True
    )
    assert written(changed, 2) == written(changed, 1)
    for request, version in ((described, 5), (changed, 2)):
        send(cluster.bootstrap_servers, request, version=version)
        with pytest.raises(UnsupportedVersionError):
            send(plain.bootstrap_servers, request, version=version)


def test_a2_mirrors_are_a_type_of_resource_at_every_version(cluster: EmbeddedCluster) -> None:
    for version in range(1, 6):
        found = entries(cluster, MIRROR, "m", version=version)
        assert {name: entry.value for name, entry in found.items()} == {"bootstrap.servers": "127.0.0.1:1"}
    for version in range(3):
        assert change(cluster, MIRROR, "m", "mirror.groups.include", "g.*", version=version) == (E.NONE, None)
        assert change(cluster, MIRROR, "m", "mirror.groups.include", None, version=version) == (E.NONE, None)
    listed = send(cluster.bootstrap_servers, list_config_resources.ListConfigResourcesRequest(resource_types=[MIRROR]), version=1)
    assert [(row.resource_name, row.resource_type) for row in listed.config_resources] == [("m", MIRROR)]
    everything = send(cluster.bootstrap_servers, list_config_resources.ListConfigResourcesRequest(resource_types=[]), version=1)
    assert ("m", MIRROR) in [(row.resource_name, row.resource_type) for row in everything.config_resources]


def test_a9_unknown_and_internal_configs_of_a_mirror(cluster: EmbeddedCluster) -> None:
    """INVALID_CONFIG for what is none; the remembered cluster id is for brokers; a mirror stays
    complete; passwords are not told.
    """
    assert change(cluster, MIRROR, "m", "nonsense", "x")[0] is E.INVALID_CONFIG
    assert change(cluster, MIRROR, "m", "source.cluster.id", "x")[0] is E.INVALID_REQUEST
    assert change(cluster, MIRROR, "m", "bootstrap.servers", None)[0] is E.INVALID_CONFIG
    assert change(cluster, MIRROR, "m", "bootstrap.servers", "")[0] is E.INVALID_CONFIG
    assert change(cluster, MIRROR, "gone", "mirror.groups.include", "x") == (E.UNKNOWN_MIRROR, "The mirror 'gone' does not exist.")
    assert change(cluster, MIRROR, "m", "ssl.key.password", "secret") == (E.NONE, None)
    wait_for("the password", lambda: "ssl.key.password" in entries(cluster, MIRROR, "m"))
    assert shown(cluster, MIRROR, "m", "ssl.key.password") == (None, PASSWORD, DYNAMIC_BROKER, False, True)
    assert all(synonym.value is None for synonym in entries(cluster, MIRROR, "m")["ssl.key.password"].synonyms)
    assert shown(cluster, MIRROR, "m", "bootstrap.servers") == ("127.0.0.1:1", LIST, DYNAMIC_BROKER, False, False)
    assert change(cluster, MIRROR, "m", "ssl.key.password", None) == (E.NONE, None)
    assert "source.cluster.id" not in entries(cluster, MIRROR, "m")
