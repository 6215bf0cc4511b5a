"""Settings of groups: the broker's own hold together, a group's lie within the broker's bounds, and
changes reach the coordinator.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.brokers.broker_doubles import BrokerWorld

from kmirror.common.errors import ApiException, ConfigError, Errors
from kmirror.metadata.resource_configs import validate_group_configs
from kmirror.server.kafka_config import KafkaConfig
from kmirror.server.room_settings import group_config
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kmirror.wire.messages.feature_level_record import FeatureLevelRecord

NODE = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@localhost:9093",
    "log.dirs": "/data",
}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("group.consumer.heartbeat.interval.ms", "1", "group.consumer.heartbeat.interval.ms must be greater than or equal to group.consumer.min.heartbeat.interval.ms"),
        ("group.consumer.session.timeout.ms", "70000", "group.consumer.session.timeout.ms must be less than or equal to group.consumer.max.session.timeout.ms"),
        ("group.consumer.max.session.timeout.ms", "1", "group.consumer.max.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms"),
        ("group.consumer.assignment.interval.ms", "15001", "group.consumer.assignment.interval.ms must be less than or equal to group.consumer.max.assignment.interval.ms"),
        ("group.consumer.assignors", "org.example.Mine", "org.example.Mine is not an assignor: group.consumer.assignors takes uniform, range"),
    ],
)  # fmt: skip
def test_the_brokers_settings_must_hold_together(name: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        KafkaConfig.from_props(NODE | {name: value})
    assert message in str(raised.value)


def test_the_coordinator_gets_what_the_properties_say() -> None:
    properties = {
        "group.consumer.assignors": "range,uniform",
        "group.consumer.migration.policy": "UPGRADE",
        "group.consumer.max.size": "7",
        "group.consumer.regex.refresh.interval.ms": "10000",
    }
    config = group_config(KafkaConfig.from_props(NODE | properties))
    assert config.consumer_assignors == ("range", "uniform") and config.consumer_max_size == 7
    assert config.consumer_migration_policy.is_upgrade_enabled and not config.consumer_migration_policy.is_downgrade_enabled
    assert config.consumer_regex_refresh_interval_ms == 10_000


@pytest.mark.parametrize(
    ("props", "message"),
    [
        ({"consumer.session.timeout.ms": "44999"}, "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms"),
        ({"consumer.heartbeat.interval.ms": "15001"}, "consumer.heartbeat.interval.ms must be less than or equal to group.consumer.max.heartbeat.interval.ms"),
        ({"streams.assignment.interval.ms": "15001"}, "streams.assignment.interval.ms must be less than or equal to group.streams.max.assignment.interval.ms"),
        ({"no.such": "1"}, "Unknown group config name: no.such"),
    ],
)  # fmt: skip
def test_a_groups_settings_lie_within_the_brokers_bounds(props: dict[str, str], message: str) -> None:
    with pytest.raises(ApiException) as raised:
        validate_group_configs(props)
    assert (raised.value.error, raised.value.message) == (Errors.INVALID_CONFIG, message)


def test_the_bounds_are_those_of_the_properties() -> None:
    validate_group_configs({"consumer.session.timeout.ms": "44999"}, {"group.consumer.min.session.timeout.ms": "40000"})
    with pytest.raises(ApiException, match="consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms"):
        validate_group_configs(
            {"consumer.session.timeout.ms": "4000"},
            {"group.consumer.min.session.timeout.ms": "1000", "group.consumer.heartbeat.interval.ms": "5000"},
        )


@pytest.mark.parametrize(
    ("level", "protocols", "is_enabled"), [(1, "classic,consumer", True), (0, "classic,consumer", False), (1, "classic", False)]
)
async def test_the_consumer_protocol_needs_its_feature_and_the_brokers_leave(
    tmp_path: Path, level: int, protocols: str, is_enabled: bool
) -> None:
    world = BrokerWorld(str(tmp_path), props={"group.coordinator.rebalance.protocols": protocols})
    world.apply(FeatureLevelRecord(name="group.version", feature_level=level))
    vars(world.apis)["authorize"] = lambda *asked: False
    response = await world.ask(ApiKeys.CONSUMER_GROUP_HEARTBEAT, ConsumerGroupHeartbeatRequest(group_id="g"), 1)
    assert response.error_code == (Errors.GROUP_AUTHORIZATION_FAILED if is_enabled else Errors.UNSUPPORTED_VERSION)
