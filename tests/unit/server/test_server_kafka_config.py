"""KafkaConfig: defaults, listeners, what is refused and with which words."""

from __future__ import annotations

import pytest

from kmirror.common.errors import ConfigError
from kmirror.server.broker_configs import broker_configs, dynamic_only_configs
from kmirror.server.kafka_config import KafkaConfig

COMBINED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093",
    "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "log.dirs": "/data/a,/data/b",
}


def config(**changes: str | None) -> KafkaConfig:
    props = dict(COMBINED)
    for name, value in changes.items():
        key = name.replace("_", ".")
        if value is None:
            props.pop(key)
        else:
            props[key] = value
    return KafkaConfig.from_props(props)


def test_a_combined_node() -> None:
    parsed = config()
    assert (parsed.is_broker, parsed.is_controller, parsed.node_id) == (True, True, 1)
    assert [str(listener) for listener in parsed.broker_listeners] == ["PLAINTEXT://localhost:9092"]
    assert [str(listener) for listener in parsed.controller_listeners] == ["CONTROLLER://localhost:9093"]
    assert parsed.controller_listeners[0].security_protocol == "PLAINTEXT"
    assert parsed.inter_broker_listener_name == "PLAINTEXT"
    assert parsed.quorum_voters == {1: ("localhost", 9093)}
    assert (parsed.log_dirs, parsed.metadata_log_dir) == (("/data/a", "/data/b"), "/data/a")


def test_directories_are_named_as_java_names_files() -> None:
    """`/data/a/` and `/data/a` counted as two directories with one id, and a node whose
    metadata.log.dir was written otherwise did not start.
    """
    parsed = config(log_dirs="/data/a/, /data//b///", metadata_log_dir="/data/a//")
    assert (parsed.log_dirs, parsed.metadata_log_dir) == (("/data/a", "/data/b"), "/data/a")
    assert config(log_dirs="/").log_dirs == ("/",)
    assert config(log_dirs=None, log_dir="rel/data/").log_dirs == ("rel/data",)


def test_defaults_are_kafkas() -> None:
    parsed = config()
    assert parsed.replica_config().replica_fetch_wait_max_ms == 500
    assert parsed.offsets_topic_num_partitions == 50
    assert (parsed.mirror_topic_num_partitions, parsed.mirror_topic_replication_factor) == (50, 3)
    assert parsed.default_log_config().segment_size == 1 << 30
    assert parsed.socket_server_limits().socket_request_max_bytes == 104_857_600
    assert parsed.get_int("log.retention.hours") == 168 and parsed.get_optional_int("log.retention.ms") is None
    assert len(broker_configs().keys) > 350
    assert set(dynamic_only_configs().keys) >= {"leader.replication.throttled.rate", "mirror.replication.throttled.rate"}


def test_topic_defaults_come_from_the_brokers_synonyms() -> None:
    parsed = config(log_retention_hours="1", log_segment_bytes="2000000", log_retention_ms="5000")
    log_config = parsed.default_log_config()
    assert (log_config.retention_ms, log_config.segment_size) == (5000, 2_000_000)


def test_unknown_names_are_kept_and_passwords_hidden() -> None:
    parsed = config(my_own_setting="x", ssl_key_password="secret")
    assert parsed.unknown == ["my.own.setting"]
    assert parsed.text("ssl.key.password") == "[hidden]"


def test_advertised_listeners() -> None:
    parsed = config(advertised_listeners="PLAINTEXT://public:19092")
    assert [str(listener) for listener in parsed.advertised_listeners] == ["PLAINTEXT://public:19092", "CONTROLLER://localhost:9093"]
    named = config(
        listeners="IN://:9092,OUT://:9094,CONTROLLER://:9093",
        listener_security_protocol_map="IN:PLAINTEXT,OUT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        inter_broker_listener_name="IN",
    )
    assert named.inter_broker_listener_name == "IN" and [listener.name for listener in named.broker_listeners] == ["IN", "OUT"]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"node_id": None}, 'Missing required configuration "node.id" which has no default value.'),
        ({"process_roles": "broker,king"}, "Invalid value king for configuration process.roles: String must be one of: broker, controller"),
        ({"node_id": "-3"}, "Invalid value -3 for configuration node.id: Value must be at least 0"),
        ({"num_partitions": "many"}, "Invalid value many for configuration num.partitions: Not a number of type INT"),
        ({"controller_quorum_voters": None}, "If using process.roles, either controller.quorum.bootstrap.servers must contain"),
        (
            {"controller_quorum_voters": "2@localhost:9093"},
            "the node id 1 must be included in the set of voters controller.quorum.voters=Set(2)",
        ),
        (
            {"listeners": "PLAINTEXT://localhost:9092"},
            "controller.listener.names must contain at least one value appearing in the 'listeners'",
        ),
        ({"listeners": "PLAINTEXT://a:1,PLAINTEXT://b:2,CONTROLLER://c:3"}, "Each listener must have a different name"),
        ({"listeners": "PLAINTEXT://a:1,CONTROLLER://c:1"}, "Each listener must have a different port"),
        ({"listeners": "nonsense"}, "Unable to parse nonsense to a broker endpoint"),
        ({"listeners": "FOO://a:1,CONTROLLER://c:3"}, "No security protocol defined for listener FOO"),
        ({"advertised_listeners": "PLAINTEXT://0.0.0.0:9092"}, "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0."),
        ({"inter_broker_listener_name": "IN"}, "inter.broker.listener.name must be a listener name defined in advertised.listeners."),
        ({"replica_lag_time_max_ms": "100"}, "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms"),
        ({"broker_id": "7"}, "You must set `node.id` to the same value as `broker.id`."),
        ({"log_cleaner_dedupe_buffer_size": "1000"}, "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."),
        ({"process_roles": "controller"}, "The listeners config must only contain KRaft controller listeners"),
        ({"process_roles": "broker"}, "the node id 1 must not be included in the set of voters"),
        ({"mirror_topic_num_partitions": "0"}, "Invalid value 0 for configuration mirror.topic.num.partitions: Value must be at least 1"),
    ],
)
def test_what_is_refused(changes: dict[str, str | None], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(**changes)
    assert text in str(caught.value)


def test_transaction_verification_was_known_and_not_handed_to_the_logs() -> None:
    assert config().log_manager_config().transaction_verification_enabled
    assert not config(transaction_partition_verification_enable="false").log_manager_config().transaction_verification_enabled


def test_a_property_without_effect_was_accepted_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    props = {"num.io.threads": "8", "listener.name.plaintext.ssl.provider": "x", "num.partitions": "2", "no.such.name": "1"}
    KafkaConfig.from_props(COMBINED | props).log_unused()
    unknown, idle = (record.getMessage() for record in caplog.records)
    assert "[no.such.name]" in unknown
    assert "[num.io.threads, listener.name.plaintext.ssl.provider]" in idle and "have no effect" in idle
    caplog.clear()
    KafkaConfig.from_props(COMBINED).log_unused()
    assert not caplog.records
