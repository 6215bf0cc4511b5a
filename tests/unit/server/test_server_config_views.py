"""What DescribeConfigs shows where Kafka's own hash maps and units decide (`config_views`).

The orders and values are those of Kafka 4.3; the interop suite compares all of them.
"""

from __future__ import annotations

from kmirror.metadata.delta import MetadataDelta
from kmirror.metadata.image import MetadataImage, MetadataProvenance
from kmirror.server.config_views import ConfigViews
from kmirror.server.kafka_config import KafkaConfig
from kmirror.wire.messages.config_record import ConfigRecord

PROPS = {
    "process.roles": "broker",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://localhost:9092",
    "log.dirs": "/data",
}


def views(props: dict[str, str], *changes: tuple[str, str, str]) -> ConfigViews:
    """The configs of a broker; a change is the broker's id or nothing, a name and a value."""
    delta = MetadataDelta(MetadataImage())
    for broker, name, value in changes:
        delta.replay(ConfigRecord(resource_type=4, resource_name=broker, name=name, value=value))
    return ConfigViews(KafkaConfig.from_props(PROPS | props), delta.apply(MetadataProvenance(9, 1, 0)))


def values(shown: ConfigViews) -> dict[str, str | None]:
    return {entry.name: entry.value for entry in shown.broker()}


def test_all_configs_come_in_the_order_of_kafkas_hash_map() -> None:
    assert [entry.name for entry in views({}).broker()][:4] == [
        "log.cleaner.min.compaction.lag.ms",
        "offsets.topic.num.partitions",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "remote.log.metadata.manager.listener.name",
    ]
    assert [entry.name for entry in views({}).group("g")][:4] == [
        "consumer.session.timeout.ms",
        "consumer.assignment.interval.ms",
        "share.auto.offset.reset",
        "share.renew.acknowledge.enable",
    ]


def test_a_setting_that_is_internal_comes_before_all_others() -> None:
    shown = views({"server.max.startup.time.ms": "60000"}).broker()
    assert shown[0].name == "server.max.startup.time.ms"
    assert "server.max.startup.time.ms" not in [entry.name for entry in views({}).broker()]


def test_what_is_set_at_runtime_takes_the_place_of_the_files_other_units() -> None:
    file = {"log.retention.hours": "100", "log.retention.minutes": "7000", "log.roll.hours": "50"}
    assert values(views(file))["log.retention.hours"] == "100"
    changed = values(views(file, ("", "log.retention.ms", "300000000")))
    assert changed["log.retention.ms"] == "300000000"
    assert (changed["log.retention.hours"], changed["log.retention.minutes"]) == ("168", None)
    assert changed["log.roll.hours"] == "50"
    of_broker = values(views(file, ("1", "log.roll.ms", "1000")))
    assert (of_broker["log.roll.hours"], of_broker["log.retention.hours"]) == ("168", "100")


def test_synonyms_go_on_naming_what_the_file_says() -> None:
    file = {"log.retention.hours": "100", "log.retention.minutes": "7000"}
    changes = (("", "log.retention.ms", "3"), ("1", "log.retention.ms", "2"))
    entries = {entry.name: entry for entry in views(file, *changes).broker()}
    assert [tuple(synonym) for synonym in entries["log.retention.ms"].synonyms] == [
        ("log.retention.ms", "2", 2),
        ("log.retention.ms", "3", 3),
        ("log.retention.minutes", "7000", 4),
        ("log.retention.hours", "100", 4),
        ("log.retention.hours", "168", 5),
    ]
