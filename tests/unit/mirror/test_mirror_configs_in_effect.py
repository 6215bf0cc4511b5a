"""Topic configs are compared in effect (C17): two clusters with the same overrides may delete and
refuse differently, because their brokers' defaults differ.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from support.mirrors.mirror_sync_doubles import SyncBench
from support.mirrors.source_double import SourceDouble

from kmirror.common.errors import Errors
from kmirror.common.uuid import Uuid
from kmirror.metadata.lossy_configs import LOSSY_CONFIGS, has_same_effect, keeps_most, value_in_force
from kmirror.metadata.registrations import BrokerRegistration
from kmirror.metadata.topic_configs import TOPIC_CONFIG_SYNONYMS, TOPIC_CONFIGS, default_text
from kmirror.mirror.source.source_configs import SourceTopicConfigs
from kmirror.mirror.sync.config_sync import in_effect
from kmirror.mirror.sync.destination_defaults import DestinationDefaults
from kmirror.wire.messages import describe_configs

HOUR = "3600000"
WEEK = "604800000"
NAMES = "mirror.source.defaults"


@pytest.fixture
def benches() -> Iterator[list[SyncBench]]:
    made: list[SyncBench] = []
    yield made
    for bench in made:
        bench.close()


def mirrored(benches: list[SyncBench], here: dict[str, str], there: dict[str, str], **overrides: str) -> tuple[SyncBench, SourceDouble]:
    """Topic t in mirror m, with the brokers' defaults of both sides."""
    bench = SyncBench(static_topic_configs=here)
    benches.append(bench)
    source = bench.make_mirror("m", SourceDouble())
    source.defaults = there
    source.topic("t", **overrides)
    bench.topic("t", mirror="m")
    return bench, source


@pytest.mark.parametrize(
    ("name", "here", "there"),
    [
        ("retention.ms", HOUR, WEEK),
        ("retention.bytes", "1000", "-1"),
        ("cleanup.policy", "compact", "delete"),
        ("cleanup.policy", "delete", "compact"),
        ("delete.retention.ms", "1", "86400000"),
        ("min.compaction.lag.ms", "0", "500"),
        ("max.compaction.lag.ms", "9", "9223372036854775807"),
        ("segment.ms", "1000", WEEK),
        ("segment.bytes", "1048576", "1073741824"),
        ("message.timestamp.after.max.ms", HOUR, "9223372036854775807"),
        ("message.timestamp.before.max.ms", HOUR, "9223372036854775807"),
        ("max.message.bytes", "1000", "1048588"),
        ("min.cleanable.dirty.ratio", "0.0", "0.5"),
    ],
)
def test_a_default_that_differs_becomes_an_override_and_stays_after_the_failover(
    benches: list[SyncBench], name: str, here: str, there: str
) -> None:
    bench, _ = mirrored(benches, {name: here}, {name: there})
    assert bench.cycle(times=2) == {}
    assert bench.configs("t") == {name: there, NAMES: name}
    bench.set_config("t", "mirror.name", "m.removed")
    bench.cycle(times=2)
    assert bench.configs("t") == {name: there, NAMES: name}


def test_a_default_of_this_cluster_that_only_kafkas_own_contradicts_differs_too(benches: list[SyncBench]) -> None:
    """The source has said nothing in its properties, and its value is Kafka's."""
    bench, _ = mirrored(benches, {"retention.ms": HOUR}, {"retention.ms": WEEK, "retention.bytes": "-1"})
    bench.cycle()
    assert bench.configs("t") == {"retention.ms": WEEK, NAMES: "retention.ms"}


def test_equal_defaults_need_no_override_and_an_old_one_goes(benches: list[SyncBench]) -> None:
    bench, source = mirrored(
        benches, {"cleanup.policy": "delete", "retention.ms": HOUR}, {"retention.ms": HOUR, "cleanup.policy": "delete"}
    )
    source.defaults["retention.ms"] = WEEK
    bench.cycle()
    assert bench.configs("t") == {"retention.ms": WEEK, NAMES: "retention.ms"}
    source.defaults["retention.ms"] = HOUR
    bench.cycle()
    assert bench.configs("t") == {}


def test_an_override_there_is_no_default(benches: list[SyncBench]) -> None:
    bench, _ = mirrored(benches, {"retention.ms": HOUR}, {"retention.ms": "5"}, retention_ms=WEEK)
    bench.cycle()
    assert bench.configs("t") == {"retention.ms": WEEK}


def test_a_policy_that_compacts_is_an_override_although_both_sides_have_it(benches: list[SyncBench]) -> None:
    """No cleaner works on a mirror by a default (FEA2b)."""
    bench, _ = mirrored(benches, {"cleanup.policy": "compact"}, {"cleanup.policy": "compact"})
    bench.cycle()
    assert bench.configs("t") == {"cleanup.policy": "compact", NAMES: "cleanup.policy"}


def test_what_the_cleaner_goes_by_is_the_sources_even_if_excluded(benches: list[SyncBench]) -> None:
    """An override of ours must not clean what the source keeps, and the exclude list is about ours."""
    there = {"cleanup.policy": "delete", "min.compaction.lag.ms": "500", "min.cleanable.dirty.ratio": "x"}
    bench, source = mirrored(benches, {"min.compaction.lag.ms": "0"}, there, cleanup_policy="compact,delete", delete_retention_ms="7")
    bench.cycle()
    assert bench.cleaning("t") == "cleanup.policy=compact,delete;delete.retention.ms=7;min.compaction.lag.ms=500"
    bench.alter_mirror("m", mirror_topic_properties_exclude=".*")
    source.topics["t"].configs["delete.retention.ms"] = "8"
    bench.cycle()
    assert bench.cleaning("t") == "cleanup.policy=compact,delete;delete.retention.ms=8;min.compaction.lag.ms=500"
    source.topics["t"].configs["cleanup.policy"] = "delete"
    bench.cycle()
    assert bench.cleaning("t") is None


def test_what_the_mirror_excludes_is_left_alone(benches: list[SyncBench]) -> None:
    """By default that is message.timestamp.type, min.insync.replicas and unclean elections (CFG2)."""
    there = {"message.timestamp.type": "LogAppendTime", "min.insync.replicas": "3", "unclean.leader.election.enable": "true"}
    bench, _ = mirrored(benches, {"retention.ms": HOUR}, {**there, "retention.ms": WEEK})
    bench.alter_mirror("m", mirror_topic_properties_exclude="retention.ms,min.*,unclean.*,message.timestamp.type")
    bench.cycle()
    assert bench.configs("t") == {}


def test_a_source_that_may_not_be_asked_changes_nothing(benches: list[SyncBench]) -> None:
    bench, source = mirrored(benches, {"retention.ms": HOUR}, {"retention.ms": WEEK})
    source.topics["t"].config_error = Errors.TOPIC_AUTHORIZATION_FAILED
    assert bench.cycle() == {"topic_config": 1}
    assert bench.configs("t") == {}


def test_brokers_of_the_source_that_differ_give_what_keeps_most(benches: list[SyncBench], caplog: pytest.LogCaptureFixture) -> None:
    bench, source = mirrored(benches, {}, {"retention.ms": WEEK, "cleanup.policy": "delete"})
    source.defaults_of[11] = {"retention.ms": "-1", "cleanup.policy": "compact"}
    with caplog.at_level(logging.WARNING):
        bench.cycle(times=3)
    assert bench.configs("t") == {"cleanup.policy": "", "retention.ms": "-1", NAMES: "cleanup.policy,retention.ms"}
    told = [record.getMessage() for record in caplog.records]
    assert [text for text in told if "retention.ms" in text] == [
        f"mirror m: the source's brokers have different defaults of retention.ms ({WEEK}; -1); topic t gets -1, which keeps most"
    ]


def test_another_broker_is_asked_about_a_topic_that_leaves_the_config_to_it(benches: list[SyncBench]) -> None:
    bench, source = mirrored(benches, {}, {"retention.ms": WEEK, "max.message.bytes": "7"}, retention_ms="5")
    source.defaults_of[11] = {"retention.ms": "-1", "max.message.bytes": "9000000"}
    source.topic("u", max_message_bytes="1048588")
    bench.topic("u", mirror="m")
    bench.cycle()
    assert bench.configs("t") == {"retention.ms": "5", "max.message.bytes": "9000000", NAMES: "max.message.bytes"}
    assert bench.configs("u") == {"max.message.bytes": "1048588", "retention.ms": "-1", NAMES: "retention.ms"}


def test_a_broker_of_the_source_that_is_down_keeps_nobody_waiting(benches: list[SyncBench]) -> None:
    bench, source = mirrored(benches, {"retention.ms": HOUR}, {"retention.ms": WEEK})
    bench.cycle()
    source.down.add(11)
    assert bench.cycle() == {}
    assert bench.configs("t")["retention.ms"] == WEEK


def test_a_source_before_3_6_takes_timestamps_that_this_cluster_refuses_by_default(benches: list[SyncBench]) -> None:
    bench, _ = mirrored(benches, {}, {"message.timestamp.difference.max.ms": "9223372036854775807", "retention.ms": WEEK})
    bench.cycle()
    assert bench.configs("t") == {"message.timestamp.after.max.ms": "9223372036854775807", NAMES: "message.timestamp.after.max.ms"}


def test_a_value_that_is_not_valid_here_is_left_out_and_not_named(benches: list[SyncBench]) -> None:
    bench, _ = mirrored(benches, {}, {"segment.bytes": "14"})
    assert bench.cycle() == {}
    assert bench.configs("t") == {}


class OtherBrokers:
    """The brokers of this cluster, as DescribeConfigs shows them. A broker without properties does
    not answer.
    """

    def __init__(self, properties: dict[int, dict[str, str]]) -> None:
        self.properties = properties
        self.asked: list[int] = []

    async def send(self, broker_id: int, request: describe_configs.DescribeConfigsRequest) -> describe_configs.DescribeConfigsResponse:
        self.asked.append(broker_id)
        if broker_id not in self.properties:
            raise OSError("gone")
        entries = [
            describe_configs.DescribeConfigsResourceResult(
                name=name,
                value="dynamic",
                config_source=2,
                synonyms=[
                    describe_configs.DescribeConfigsSynonym(name=name, value="dynamic", source=2),
                    describe_configs.DescribeConfigsSynonym(name=name, value=value, source=4),
                ],
            )
            for name, value in self.properties[broker_id].items()
        ]
        row = describe_configs.DescribeConfigsResult(resource_name=str(broker_id), resource_type=4, configs=entries)
        return describe_configs.DescribeConfigsResponse(results=[row])


def test_each_broker_of_this_cluster_counts_and_is_asked_once(benches: list[SyncBench]) -> None:
    bench = SyncBench(static_topic_configs={"retention.ms": WEEK})
    benches.append(bench)
    image = bench.image()
    others = OtherBrokers({2: {"log.retention.hours": "1"}})
    for broker_id in (1, 2, 3):
        image.cluster.brokers[broker_id] = BrokerRegistration(broker_id, broker_id * 10, Uuid.ZERO, {}, {}, fenced=False)
    defaults = DestinationDefaults(others, lambda: image, bench.config)
    for _ in range(2):
        assert bench.run(defaults.of_all()) == [{"retention.ms": WEEK}, {"retention.ms": HOUR}]
    assert others.asked == [2, 3, 3], "what is known is not asked again"
    source = SourceTopicConfigs({}, {"retention.ms": (WEEK,)})
    assert in_effect(source, bench.run(defaults.of_all())) == {"retention.ms": WEEK}


# --- how values compare


@pytest.mark.parametrize("name", LOSSY_CONFIGS)
def test_every_config_that_loses_has_a_default_and_an_order(name: str) -> None:
    default = default_text(name)
    assert default is not None and name in TOPIC_CONFIG_SYNONYMS and name in TOPIC_CONFIGS
    assert value_in_force(name, {}) == default
    assert keeps_most(name, [default, default]) == default


@pytest.mark.parametrize(
    ("name", "values", "most"),
    [
        ("retention.ms", ["5", "-1", "7"], "-1"),
        ("retention.bytes", ["100", "50"], "100"),
        ("segment.jitter.ms", ["0", "9"], "0"),
        ("unclean.leader.election.enable", ["true", "false"], "false"),
        ("cleanup.policy", ["compact,delete", "delete"], "delete"),
        ("cleanup.policy", ["compact", "delete"], ""),
        ("message.timestamp.type", ["LogAppendTime", "CreateTime"], "CreateTime"),
        ("min.insync.replicas", ["2", "1"], "1"),
        ("retention.ms", ["5", "long"], "5"),
    ],
)
def test_what_keeps_most(name: str, values: list[str], most: str) -> None:
    assert keeps_most(name, values) == most


def test_equal_in_effect_is_not_equal_in_text() -> None:
    assert has_same_effect("cleanup.policy", "compact,delete", "delete, compact")
    assert has_same_effect("min.cleanable.dirty.ratio", "0.50", "0.5")
    assert not has_same_effect("cleanup.policy", "compact", "delete")
    assert not has_same_effect("retention.ms", "5", "five") and has_same_effect("retention.ms", "five", "five")
