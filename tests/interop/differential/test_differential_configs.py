"""Configs and the cluster: DescribeConfigs, IncrementalAlterConfigs, AlterConfigs,
ListConfigResources, DescribeQuorum, UpdateFeatures, ElectLeaders.
"""

from __future__ import annotations

import time

import pytest
from harness import Pair, Side
from steps import create_topic
from support.waiting import REACHED_S

from kmirror.wire.messages import alter_configs as ac
from kmirror.wire.messages import incremental_alter_configs as iac
from kmirror.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kmirror.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumRequestPartitionData, DescribeQuorumRequestTopicData
from kmirror.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kmirror.wire.messages.list_config_resources import ListConfigResourcesRequest
from kmirror.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

pytestmark = pytest.mark.interop

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
WHERE_THEY_RUN = {
    "advertised.listeners", "listeners", "log.dirs", "log.dir", "controller.quorum.voters", "listener.security.protocol.map",
    "inter.broker.listener.name", "process.roles", "node.id", "broker.id",
}  # fmt: skip


def describe(kind: int, name: str, *keys: str, synonyms: bool = True, documentation: bool = False) -> DescribeConfigsRequest:
    return DescribeConfigsRequest([DescribeConfigsResource(kind, name, list(keys) or None)], synonyms, documentation)


def drop_texts(answer: dict) -> None:
    """That there is a documentation is Kafka's; its words are ours (no text of another project is
    copied).
    """
    for result in answer["results"]:
        for config in result["configs"]:
            config["documentation"] = config["documentation"] is not None
    drop_places(answer)


def drop_places(answer: dict) -> None:
    for result in answer["results"]:
        result["configs"] = [config for config in result["configs"] if config["name"] not in WHERE_THEY_RUN]


def test_describe_topic_configs(pair: Pair) -> None:
    create_topic(pair, "dc", cleanup_policy="compact", retention_ms="1234567")
    pair.every_version(describe(TOPIC, "dc"))
    pair.every_version(describe(TOPIC, "dc", synonyms=False))
    pair.every_version(describe(TOPIC, "dc", documentation=True), 3, note="documentation", edit=drop_texts)
    pair.every_version(describe(TOPIC, "dc", "retention.ms", "nonsense", "cleanup.policy"))
    pair.every_version(DescribeConfigsRequest([DescribeConfigsResource(TOPIC, "dc", [])]), note="no keys")
    for kind, name in (
        (TOPIC, "nowhere"),
        (TOPIC, ""),
        (TOPIC, "sp ace"),
        (0, "x"),
        (99, "x"),
        (BROKER, "7"),
        (BROKER, "x"),
        (LOGGER, "7"),
    ):
        pair.every_version(describe(kind, name), note=repr((kind, name)))


def test_describe_broker_configs(pair: Pair) -> None:
    for version in (1, 4):
        pair.same(describe(BROKER, "1"), version, edit=drop_places)
    pair.same(describe(BROKER, "1", documentation=True), 4, edit=drop_texts, note="documentation")
    pair.same(describe(BROKER, "", documentation=True), 4, edit=drop_texts, note="default")


def test_describe_group_and_client_metrics_configs(pair: Pair) -> None:
    for kind in (GROUP, METRICS):
        pair.every_version(describe(kind, "thing", documentation=False), note=str(kind))
        pair.every_version(describe(kind, ""), note=f"{kind} empty")
        pair.same(describe(kind, "thing", documentation=True), 4, edit=drop_texts, note=f"{kind} documentation")


def incremental(kind: int, name: str, *changes: tuple[str, int, str | None], validate: bool = False) -> iac.IncrementalAlterConfigsRequest:
    configs = [iac.AlterableConfig(*change) for change in changes]
    return iac.IncrementalAlterConfigsRequest([iac.AlterConfigsResource(kind, name, configs)], validate)


CHANGES = [
    (TOPIC, "ia", ("retention.ms", SET, "1000")),
    (TOPIC, "ia", ("retention.ms", SET, "zz")),
    (TOPIC, "ia", ("retention.ms", SET, None)),
    (TOPIC, "ia", ("retention.ms", SET, "-9")),
    (TOPIC, "ia", ("nonsense", SET, "1")),
    (TOPIC, "ia", ("nonsense", DELETE, None)),
    (TOPIC, "ia", ("retention.ms", APPEND, "5")),
    (TOPIC, "ia", ("cleanup.policy", APPEND, "compact")),
    (TOPIC, "ia", ("cleanup.policy", SUBTRACT, "compact")),
    (TOPIC, "ia", ("cleanup.policy", SUBTRACT, "delete")),
    (TOPIC, "ia", ("cleanup.policy", APPEND, "what")),
    (TOPIC, "ia", ("cleanup.policy", DELETE, None)),
    (TOPIC, "ia", ("retention.ms", SET, "1"), ("retention.ms", SET, "2")),
    (TOPIC, "ia", ("retention.ms", SET, "1"), ("retention.bytes", SET, "x")),
    (TOPIC, "ia", ("", SET, "1")),
    (TOPIC, "ia", ("min.compaction.lag.ms", SET, "9"), ("max.compaction.lag.ms", SET, "3")),
    (
        TOPIC,
        "ia",
    ),
    (TOPIC, "nowhere", ("retention.ms", SET, "1")),
    (TOPIC, "", ("retention.ms", SET, "1")),
    (TOPIC, "sp ace", ("retention.ms", SET, "1")),
    (TOPIC, "ia", ("leader.replication.throttled.replicas", SET, "*")),
    (TOPIC, "ia", ("leader.replication.throttled.replicas", APPEND, "0:1")),
    (BROKER, "1", ("log.retention.ms", SET, "5000")),
    (BROKER, "1", ("log.retention.ms", SET, "x")),
    (BROKER, "1", ("node.id", SET, "3")),
    (BROKER, "1", ("nonsense", SET, "3")),
    (BROKER, "", ("log.retention.ms", SET, "6000")),
    (BROKER, "", ("listeners", SET, "x")),
    (BROKER, "", ("message.max.bytes", SET, "-1")),
    (BROKER, "9", ("log.retention.ms", SET, "6000")),
    (BROKER, "x", ("log.retention.ms", SET, "6000")),
    (BROKER, "", ("max.connections", SET, "abc")),
    (GROUP, "g", ("consumer.session.timeout.ms", SET, "50000")),
    (GROUP, "g", ("consumer.session.timeout.ms", SET, "1")),
    (GROUP, "g", ("consumer.heartbeat.interval.ms", SET, "x")),
    (GROUP, "g", ("nonsense", SET, "x")),
    (GROUP, "", ("consumer.session.timeout.ms", SET, "50000")),
    (METRICS, "m", ("interval.ms", SET, "1000")),
    (METRICS, "m", ("interval.ms", SET, "1")),
    (METRICS, "m", ("metrics", SET, "org.apache.kafka")),
    (METRICS, "m", ("match", SET, "nonsense")),
    (METRICS, "m", ("match", SET, "client_id=a.*")),
    (METRICS, "m", ("nonsense", SET, "1")),
    (METRICS, "", ("interval.ms", SET, "1000")),
    (0, "x", ("a", SET, "b")),
    (99, "x", ("a", SET, "b")),
]


def test_incremental_alter_configs(pair: Pair) -> None:
    create_topic(pair, "ia")
    for kind, name, *changes in CHANGES:
        for version in (0, 1):
            pair.same(incremental(kind, name, *changes, validate=True), version, note=repr((kind, name, changes, "validate")))
        pair.same(incremental(kind, name, *changes), 1, note=repr((kind, name, changes)))
    resource = iac.AlterConfigsResource(TOPIC, "ia", [iac.AlterableConfig("retention.ms", SET, "77")])
    pair.same(iac.IncrementalAlterConfigsRequest([resource, resource]), 1, note="twice")
    pair.same(iac.IncrementalAlterConfigsRequest([]), 1, note="nothing")


def await_topic_config(side: Side, topic: str, name: str, value: str, timeout_s: float = REACHED_S) -> None:
    """A broker takes its own dynamic settings when it reads them from the metadata log, a moment
    after the answer.
    """
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        config = side.ask(describe(TOPIC, topic, name), 4).results[0].configs[0]
        if config.value == value:
            return
        time.sleep(0.02)
    raise AssertionError(f"{side.name}: {name} of {topic} is {config.value}, not {value}")


def test_what_was_altered_is_described(pair: Pair) -> None:
    create_topic(pair, "wa")
    pair.same(incremental(TOPIC, "wa", ("retention.ms", SET, "1000"), ("cleanup.policy", APPEND, "compact")), 1)
    pair.same(incremental(BROKER, "", ("log.flush.interval.ms", SET, "99999")), 1)
    pair.same(incremental(BROKER, "1", ("log.flush.interval.ms", SET, "88888"), ("log.segment.bytes", SET, "1048577")), 1)
    pair.each(lambda side: await_topic_config(side, "wa", "flush.ms", "88888"))
    for kind, name in ((TOPIC, "wa"), (BROKER, ""), (BROKER, "1")):
        pair.same(describe(kind, name), 4, edit=drop_places, note=repr((kind, name)))
    pair.same(incremental(BROKER, "", ("log.flush.interval.ms", DELETE, None)), 1)
    pair.same(incremental(BROKER, "1", ("log.flush.interval.ms", DELETE, None), ("log.segment.bytes", DELETE, None)), 1)


def test_alter_configs(pair: Pair) -> None:
    create_topic(pair, "al")

    def change(kind: int, name: str, *configs: tuple[str, str | None], validate: bool = False) -> ac.AlterConfigsRequest:
        return ac.AlterConfigsRequest([ac.AlterConfigsResource(kind, name, [ac.AlterableConfig(*config) for config in configs])], validate)

    for request in (
        change(TOPIC, "al", ("retention.ms", "5"), validate=True),
        change(TOPIC, "al", ("retention.ms", "5"), ("retention.bytes", "6")),
        change(TOPIC, "al", ("retention.ms", None)),
        change(TOPIC, "al", ("nonsense", "1")),
        change(TOPIC, "al", ("retention.ms", "x")),
        change(TOPIC, "al"),
        change(TOPIC, "nowhere", ("retention.ms", "5")),
        change(BROKER, "1", ("log.retention.ms", "5")),
        change(BROKER, "8", ("log.retention.ms", "5")),
        change(99, "8", ("log.retention.ms", "5")),
    ):
        pair.every_version(request, note=repr(request.resources))
    pair.same(describe(TOPIC, "al", "retention.ms", "retention.bytes"), 4)
    pair.same(change(BROKER, "1"), 2)


def test_list_config_resources(pair: Pair) -> None:
    pair.same(ListConfigResourcesRequest(), 0)
    for types in ([METRICS], [GROUP], [BROKER], [LOGGER], [0], [99], [BROKER, GROUP]):
        pair.same(ListConfigResourcesRequest(types), 1, note=repr(types))


def test_describe_quorum(pair: Pair) -> None:
    def blank(answer: dict) -> None:
        for topic in answer["topics"]:
            for partition in topic["partitions"]:
                partition["leader_epoch"], partition["high_watermark"] = partition["leader_epoch"] > 0, partition["high_watermark"] > 0
                for replica in partition["current_voters"] + partition["observers"]:
                    replica["log_end_offset"] = replica["log_end_offset"] > 0

    part = DescribeQuorumRequestPartitionData
    for topics in ([("__cluster_metadata", 0)], [("__cluster_metadata", 1)], [("other", 0)], []):
        request = DescribeQuorumRequest([DescribeQuorumRequestTopicData(name, [part(index)]) for name, index in topics])
        pair.every_version(request, edit=blank, note=repr(topics))


def test_update_features(pair: Pair) -> None:
    for feature, level, kind in (
        ("metadata.version", 30, 1), ("metadata.version", 99, 1), ("metadata.version", 7, 1), ("metadata.version", 0, 1), ("nonsense", 1, 1),
        ("kraft.version", 1, 1), ("group.version", 1, 1), ("group.version", 0, 1), ("group.version", 0, 2), ("group.version", 0, 9), ("", 1, 1), ("group.version", -1, 1),
        ("transaction.version", 3, 1), ("metadata.version", 7, 2), ("metadata.version", 7, 3), ("share.version", 2, 1),
    ):  # fmt: skip
        request = UpdateFeaturesRequest(60000, [FeatureUpdateKey(feature, level, upgrade_type=kind)], True)
        pair.every_version(request, 1, note=repr((feature, level, kind)))
    twice = [FeatureUpdateKey("group.version", 1), FeatureUpdateKey("nonsense", 1)]
    pair.every_version(UpdateFeaturesRequest(60000, twice, True), 1, note="two")
    pair.every_version(UpdateFeaturesRequest(60000, [], True), 1, note="nothing")


def test_elect_leaders(pair: Pair) -> None:
    create_topic(pair, "el", partitions=2)
    for kind in (0, 1):
        for topics in ([TopicPartitions("el", [0, 1, 5])], [TopicPartitions("nowhere", [0])], [], [TopicPartitions("el", [])]):
            pair.every_version(ElectLeadersRequest(kind, topics, 5000), 1, note=repr((kind, topics)))
    pair.every_version(ElectLeadersRequest(0, None, 5000), note="all")
    pair.every_version(ElectLeadersRequest(1, None, 5000), 1, note="all unclean")
    pair.every_version(ElectLeadersRequest(7, [TopicPartitions("el", [0])], 5000), 1, note="type 7")
