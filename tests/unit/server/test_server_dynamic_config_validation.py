"""What a broker's dynamic settings may become, and Kafka's words for what they may not."""

from __future__ import annotations

from typing import Any

import pytest

from kmirror.common.errors import ApiException, Errors
from kmirror.metadata.image import RESOURCE_BROKER, ConfigResource, ConfigurationsImage
from kmirror.network.socket_server import SocketServerLimits
from kmirror.server.dynamic_broker_config import DynamicBrokerConfig, reconfigure_sockets
from kmirror.server.dynamic_config_validation import effective_config, validate_broker_settings
from kmirror.server.kafka_config import KafkaConfig

WRAPPED = "Invalid value org.apache.kafka.common.config.ConfigException: {} for configuration Invalid dynamic configuration"


def config(**props: str) -> KafkaConfig:
    base = {
        "process.roles": "broker,controller", "node.id": "1", "controller.quorum.voters": "1@localhost:9093", "log.dirs": "/tmp/x",
        "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093", "controller.listener.names": "CONTROLLER",
    }  # fmt: skip
    return KafkaConfig.from_props(base | {name.replace("_", "."): value for name, value in props.items()})


def refusal(proposed: dict[str, str], *, is_default: bool = False, own: dict[str, str] | None = None) -> str | None:
    configs = ConfigurationsImage({ConfigResource(RESOURCE_BROKER, "1"): own or {}})
    try:
        validate_broker_settings(config(), configs, proposed, is_default=is_default)
    except ApiException as error:
        assert error.error is Errors.INVALID_REQUEST
        return error.message
    return None


@pytest.mark.parametrize(
    ("proposed", "text"),
    [
        ({"node.id": "3"}, "Cannot update these configs dynamically: [node.id]"),
        ({"ssl.keystore.password": "x"}, "These security configs can be dynamically updated only per-listener using the listener prefix: [ssl.keystore.password]"),
        ({"log.retention.ms": "x"}, "Invalid value x for configuration log.retention.ms: Not a number of type LONG"),
        ({"log.retention.ms": "0"}, "requirement failed: log.retention.ms must be unlimited (-1) or, greater than or equal to 1"),
        ({"log.roll.ms": "0"}, "requirement failed: log.roll.ms must be greater than or equal to 1"),
        ({"log.cleaner.dedupe.buffer.size": "1"}, "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."),
        ({"max.connections.per.ip": "0"}, "requirement failed: max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set."),
        ({"max.connections.per.ip.overrides": "a:b"}, 'For input string: "b"'),
        ({"max.connections": "0"}, WRAPPED.format("Invalid max.connections 0")),
        ({"listener.name.plaintext.max.connections": "x"}, "Invalid value x for configuration max.connections: Not a number of type INT"),
        ({"num.io.threads": "17"}, WRAPPED.format("Dynamic thread count update validation failed for num.io.threads=17, value should not be greater than double the current value 8")),
        ({"num.io.threads": "3"}, WRAPPED.format("Dynamic thread count update validation failed for num.io.threads=3, value should be at least half the current value 8")),
        ({"log.cleaner.threads": "3"}, WRAPPED.format("Log cleaner threads cannot be increased to more than double the current value 1")),
    ],
)  # fmt: skip
def test_what_is_refused(proposed: dict[str, str], text: str) -> None:
    assert refusal(proposed) == text


@pytest.mark.parametrize(
    "proposed",
    [
        {"num.io.threads": "16"}, {"num.io.threads": "4"}, {"log.cleaner.threads": "2"}, {"nobody.knows": "x"}, {"max.connections": "1"},
        {"listener.name.plaintext.max.connections": "5"}, {"listener.name.plaintext.ssl.keystore.password": "x"},
        {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:5"}, {"leader.replication.throttled.rate": "1000"},
    ],
)  # fmt: skip
def test_what_is_taken(proposed: dict[str, str]) -> None:
    assert refusal(proposed) is None


def test_a_setting_of_one_broker_is_none_of_the_cluster() -> None:
    text = "Cannot update these configs at default cluster level, broker id must be specified: [listeners]"
    assert refusal({"listeners": "PLAINTEXT://:1"}, is_default=True) == text


def test_thread_counts_are_held_against_what_holds_now() -> None:
    own = {"num.io.threads": "16"}
    assert refusal({"num.io.threads": "32"}, own=own) is None
    assert refusal({"num.io.threads": "4"}, own=own) is not None
    assert refusal({}, own=own) is None, "back to the file's 8"


def test_the_nearer_level_decides_and_read_only_settings_stay_as_started() -> None:
    effective = effective_config(
        config(log_retention_ms="5"), {"log.retention.ms": "6", "max.connections": "9"}, {"log.retention.ms": "7", "node.id": "3"}
    )
    assert (effective.get_int("log.retention.ms"), effective.get_int("max.connections"), effective.node_id) == (7, 9, 1)


class Listening:
    def __init__(self, name: str) -> None:
        self.listener_name = name
        self.limits = SocketServerLimits()

    def update_limits(self, limits: SocketServerLimits) -> None:
        self.limits = limits


def test_connection_limits_reach_the_listeners() -> None:
    sockets: Any = [Listening("PLAINTEXT"), Listening("OTHER")]
    dynamic = DynamicBrokerConfig(config(), reconfigure_sockets(sockets))
    own = {"max.connections": "50", "max.connections.per.ip": "3", "listener.name.other.max.connections": "10"}
    dynamic._apply({"max.connections": "70"}, own)
    assert [(s.limits.max_connections, s.limits.max_connections_per_ip) for s in sockets] == [(50, 3), (10, 3)]
    dynamic._apply({"max.connections": "70"}, {})
    assert [s.limits.max_connections for s in sockets] == [70, 70]


def test_what_slipped_through_is_left_out_and_the_rest_holds() -> None:
    dynamic = DynamicBrokerConfig(config())
    dynamic._apply({"log.retention.ms": "zz", "max.connections": "70"}, {"log.roll.ms": "0", "num.io.threads": "9"})
    current = dynamic.current
    assert (current.get_optional_int("log.retention.ms"), current.get_int("max.connections"), current.get_int("num.io.threads")) == (
        None,
        70,
        9,
    )
