"""Topics: ApiVersions, Metadata, CreateTopics, CreatePartitions, DeleteTopics,
DescribeTopicPartitions, DescribeCluster.
"""

from __future__ import annotations

import pytest
from harness import Pair
from steps import create_topic, learn_topic_ids

from kmirror.common.uuid import Uuid
from kmirror.wire.api_keys import API_TABLE, ApiKeys
from kmirror.wire.messages.api_versions import ApiVersionsRequest
from kmirror.wire.messages.create_partitions import CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic
from kmirror.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kmirror.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kmirror.wire.messages.describe_cluster import DescribeClusterRequest
from kmirror.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    TopicRequest,
)
from kmirror.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

pytestmark = pytest.mark.interop

LONG = "n" * 250
BAD_NAMES = ["", ".", "..", "with space", "sla/sh", "colon:", "ümlaut", LONG, "tab\t"]


def metadata(*names: str, **options: object) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], **options)  # type: ignore[arg-type]


def test_api_versions_says_the_same_of_every_api_that_kmirror_has(pair: Pair) -> None:
    not_ours = {int(key) for key in ApiKeys} - {entry.api_key for entry in pair.kmirror.ask(ApiVersionsRequest("a", "1"), 4).api_keys}

    def only_what_is_served(answer: dict) -> None:
        answer["api_keys"] = [entry for entry in answer["api_keys"] if entry["api_key"] not in not_ours]

    request = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
    pair.every_version(request, edit=only_what_is_served)
    for name, version in [("", ""), ("-a", "1"), ("a", "1-"), ("a b", "1"), ("a.b-c", "1.0-x")]:
        pair.every_version(ApiVersionsRequest(name, version), edit=only_what_is_served, note=repr((name, version)))


def test_api_versions_above_ours_is_answered_in_version_0(pair: Pair) -> None:
    frame = bytes.fromhex("0012 0063 00000001 0001 61 00".replace(" ", ""))
    for body in (b"", bytes.fromhex("026102310000"), b"\xff" * 30):
        raw = len(frame + body).to_bytes(4, "big") + frame + body
        apache, ours = (side.exchange(raw) for side in pair.sides)
        pair.note("ApiVersions v99", apache, ours)


def test_metadata(pair: Pair) -> None:
    create_topic(pair, "md-a", partitions=3)
    create_topic(pair, "md-b")
    learn_topic_ids(pair, "md-a", "md-b")
    pair.every_version(metadata("md-a", "md-b"))
    pair.every_version(metadata("md-b", "md-a", "md-a"), note="twice")
    pair.every_version(metadata("md-a", include_topic_authorized_operations=True), 8, note="operations")
    pair.every_version(metadata("md-a", include_cluster_authorized_operations=True), 8, 10, note="cluster operations")
    pair.every_version(metadata(), note="none")
    pair.every_version(metadata("md-unknown", allow_auto_topic_creation=False), 4, note="unknown")
    pair.every_version(metadata(*BAD_NAMES, allow_auto_topic_creation=False), 4, note="bad names")
    pair.every_version(metadata(*BAD_NAMES), note="bad names to create")
    pair.every_version(MetadataRequest(topics=None), 1, note="all")


def test_metadata_by_topic_id(pair: Pair) -> None:
    create_topic(pair, "md-id", partitions=2)
    learn_topic_ids(pair, "md-id")
    unknown = Uuid(bytes(range(16)))
    for topics in (
        lambda side: [MetadataRequestTopic(topic_id=side.topic_id("md-id"), name=None)],
        lambda side: [MetadataRequestTopic(topic_id=unknown, name=None)],
        lambda side: [MetadataRequestTopic(topic_id=side.topic_id("md-id"), name="md-id")],
        lambda side: [MetadataRequestTopic(topic_id=unknown, name=None), MetadataRequestTopic(name="md-id")],
    ):
        pair.every_version(lambda side, topics=topics: MetadataRequest(topics=topics(side)), 10)


def test_metadata_creates_topics(pair: Pair) -> None:
    for version in range(14):
        pair.same(metadata(f"auto-{version}"), version, note="first")


def topics_request(*topics: CreatableTopic, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=30000, validate_only=validate_only)


def topic(name: str, partitions: int = 1, factor: int = 1, **configs: str | None) -> CreatableTopic:
    entries = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, configs=entries)


def assigned(name: str, *brokers: list[int], indexes: list[int] | None = None, partitions: int = -1, factor: int = -1) -> CreatableTopic:
    places = indexes if indexes is not None else list(range(len(brokers)))
    assignments = [CreatableReplicaAssignment(index, ids) for index, ids in zip(places, brokers, strict=True)]
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, assignments=assignments)


REFUSED = [
    *(topic(name) for name in BAD_NAMES),
    topic("ct-exists"),
    topic("ct-p0", 0),
    topic("ct-p-2", -2),
    topic("ct-f0", 1, 0),
    topic("ct-f2", 1, 2),
    topic("ct-f-2", 1, -2),
    topic("ct.exists"),
    topic("ct_exists"),
    assigned("ct-a1", [1], [2]),
    assigned("ct-a2", [1, 1]),
    assigned("ct-a3", []),
    assigned("ct-a4", [1], indexes=[1]),
    assigned("ct-a5", [1], [1], indexes=[0, 0]),
    assigned("ct-a6", [1], partitions=1),
    assigned("ct-a7", [1], factor=1),
    assigned("ct-a8", [1], [1, 2]),
    assigned("ct-a9", [-1]),
    topic("ct-c1", unknown_config="1"),
    topic("ct-c2", retention_ms="abc"),
    topic("ct-c3", retention_ms="-2"),
    topic("ct-c4", cleanup_policy="never"),
    topic("ct-c5", retention_ms=None),
    topic("ct-c6", min_insync_replicas="0"),
    topic("ct-c7", compression_type="brotli"),
    topic("ct-c8", segment_bytes="10"),
    topic("ct-c9", min_cleanable_dirty_ratio="1.5"),
    topic("ct-c10", preallocate="yes"),
    topic("ct-c11", segment_bytes=""),
    topic("ct-c12", message_timestamp_type="Never"),
    topic("ct-c13", segment_bytes="99999999999"),
    topic("ct-c14", min_compaction_lag_ms="10", max_compaction_lag_ms="5"),
    topic("ct-c15", remote_storage_enable="true"),
    topic("ct-c16", compression_gzip_level="77"),
    topic("ct-c17", leader_replication_throttled_replicas="x"),
    topic("ct-c18", local_retention_ms="10", retention_ms="5"),
    topic("ct-c19", cleanup_policy=""),
    topic("ct-c20", cleanup_policy="compact,compact"),
    topic("ct-c21", cleanup_policy=" delete , compact "),
    topic("ct-c22", flush_messages="0"),
    topic("ct-c23", message_format_version="2.0"),
    topic("ct-c24", internal_segment_bytes="1000"),
    topic("ct-c25", retention_bytes="-5", retention_ms="zz"),
    topic("ct-c26", compression_zstd_level="100"),
    topic("ct-c27", compression_lz4_level="0"),
    topic("ct-c28", message_timestamp_before_max_ms="-1"),
    topic("ct-c29", errors_deadletterqueue_group_enable="true"),
    topic("ct-c30", remote_log_delete_on_disable="true"),
    topic("ct-c31", remote_log_copy_disable="true"),
    topic("ct-c32", retention_ms=" 77 "),
    topic("ct-c33", retention_ms="0x10"),
    topic("ct-c34", retention_ms="1.5"),
    topic("ct-c35", min_cleanable_dirty_ratio="a"),
    topic("ct-c36", index_interval_bytes="-1"),
    topic("ct-c37", file_delete_delay_ms="-1"),
    topic("ct-c38", preallocate="TRUE"),
    topic("ct-c39", unclean_leader_election_enable=" false"),
    topic("ct-c40", follower_replication_throttled_replicas="0:1,1:1"),
    topic("ct-c41", leader_replication_throttled_replicas="*"),
]


def test_create_topics_refuses_as_kafka_does(pair: Pair) -> None:
    create_topic(pair, "ct-exists")
    for request in REFUSED:
        pair.same(topics_request(request, validate_only=True), 7, note=f"{request.name[:10]!r} {request.configs}")
    for version in range(2, 8):
        pair.same(topics_request(*REFUSED, validate_only=True), version, note="all of them")


def test_create_topics_with_one_name_twice(pair: Pair) -> None:
    for version in range(2, 8):
        pair.same(topics_request(topic("ct-dup"), topic("ct-dup", 2), topic("ct-other"), validate_only=True), version)
        pair.same(topics_request(topic("ct-t1"), topic("ct-t1", 2), topic("ct-t2"), topic("ct-t2"), validate_only=True), version)


def test_create_topics_creates(pair: Pair) -> None:
    for version in range(2, 8):
        made = [
            topic(f"made-{version}", 2),
            assigned(f"assigned-{version}", [1], [1], [1]),
            topic(f"configured-{version}", 1, 1, cleanup_policy="compact", segment_bytes="1048576", retention_ms="86400000"),
        ]
        if version >= 4:
            made.append(topic(f"defaults-{version}", -1, -1))
        pair.same(topics_request(*made, validate_only=True), version, note="validate only")
        pair.same(topics_request(*made), version)
        pair.same(topics_request(*made), version, note="again")
        names = [entry.name for entry in made]
        learn_topic_ids(pair, *names)
        pair.same(metadata(*names, allow_auto_topic_creation=False), 8)
    pair.same(topics_request(), 7, note="nothing")
    pair.same(topics_request(topic("made.7")), 7, note="collides")
    pair.same(topics_request(topic("coll.ide"), topic("coll_ide")), 7, note="collide with each other")
    pair.same(topics_request(topic("defaults-2", -1, -1)), 2)


def partitions_request(*topics: CreatePartitionsTopic, validate_only: bool = False) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(topics=list(topics), timeout_ms=30000, validate_only=validate_only)


def test_create_partitions(pair: Pair) -> None:
    create_topic(pair, "cp", partitions=3)
    more = CreatePartitionsTopic
    place = CreatePartitionsAssignment
    cases = [
        more("cp", 3, None),
        more("cp", 2, None),
        more("cp", 0, None),
        more("cp", -1, None),
        more("cp-unknown", 3, None),
        more("", 3, None),
        more("cp", 4, [place([1])]),
        more("cp", 5, [place([1])]),
        more("cp", 4, [place([2])]),
        more("cp", 4, [place([1, 2])]),
        more("cp", 4, [place([])]),
        more("cp", 4, [place([1, 1])]),
        more("cp", 4, [place([1]), place([1])]),
        more("cp", 4, []),
        more("cp", 4, [place([-1])]),
    ]
    for case in cases:
        pair.every_version(partitions_request(case, validate_only=True), note=repr((case.name, case.count, case.assignments)))
    pair.every_version(partitions_request(more("cp", 4, None), more("cp", 5, None), more("cp-unknown", 2, None)), note="twice")
    for version in range(4):
        pair.same(partitions_request(more("cp", 4 + version, None)), version)
    pair.same(metadata("cp"), 12)


def test_delete_topics(pair: Pair) -> None:
    for version in range(1, 6):
        create_topic(pair, f"dt-{version}")
        names = [f"dt-{version}", "dt-unknown", "", "with space", f"dt-{version}"]
        pair.same(DeleteTopicsRequest(topic_names=names, timeout_ms=30000), version)
        pair.same(DeleteTopicsRequest(topic_names=["dt-unknown", "dt-unknown", "dt-u2"], timeout_ms=30000), version)
        pair.same(DeleteTopicsRequest(topic_names=[f"dt-{version}", "dt-unknown"], timeout_ms=30000), version, note="once")
        create_topic(pair, f"dt-{version}")  # the topic of this name was deleted by the request before
        pair.same(DeleteTopicsRequest(topic_names=[f"dt-{version}"], timeout_ms=30000), version, note="again")


def test_delete_topics_by_id(pair: Pair) -> None:
    create_topic(pair, "di-a")
    create_topic(pair, "di-b")
    create_topic(pair, "di-c")
    learn_topic_ids(pair, "di-a", "di-b", "di-c")
    unknown = Uuid(bytes(range(16)))
    state = DeleteTopicState
    for make in (
        lambda side: [state(name=None, topic_id=unknown)],
        lambda side: [state(name="di-a", topic_id=side.topic_id("di-a"))],
        lambda side: [state(name="di-a", topic_id=unknown)],
        lambda side: [state(name=None, topic_id=Uuid.ZERO)],
        lambda side: [state(name="di-a"), state(name=None, topic_id=side.topic_id("di-a"))],
        lambda side: [state(name=None, topic_id=unknown), state(name=None, topic_id=unknown)],
        lambda side: [state(name="di-nope"), state(name="di-nope")],
        lambda side: [state(name=None, topic_id=side.topic_id("di-b")), state(name="di-c"), state(name="di-nope")],
        lambda side: [state(name=None, topic_id=side.topic_id("di-b")), state(name="di-c")],
        lambda side: [state(name="")],
    ):
        pair.same(lambda side, make=make: DeleteTopicsRequest(topics=make(side), timeout_ms=30000), 6)


def test_describe_topic_partitions(pair: Pair) -> None:
    create_topic(pair, "dtp-a", partitions=3)
    create_topic(pair, "dtp-b", partitions=2)
    learn_topic_ids(pair, "dtp-a", "dtp-b")
    cursor = DescribeTopicPartitionsRequestCursor
    cases = [
        DescribeTopicPartitionsRequest([TopicRequest("dtp-a"), TopicRequest("dtp-b")], 100, None),
        DescribeTopicPartitionsRequest([TopicRequest("dtp-b"), TopicRequest("dtp-a")], 2, None),
        DescribeTopicPartitionsRequest([TopicRequest("dtp-b"), TopicRequest("dtp-a")], 2, cursor("dtp-a", 2)),
        DescribeTopicPartitionsRequest([TopicRequest("dtp-b"), TopicRequest("dtp-a")], 3, cursor("dtp-a", 0)),
        DescribeTopicPartitionsRequest([TopicRequest("dtp-a"), TopicRequest("dtp-a"), TopicRequest("nope")], 3, None),
        DescribeTopicPartitionsRequest([TopicRequest("nope")], 10, None),
        DescribeTopicPartitionsRequest([TopicRequest("dtp-a")], 0, None),
        DescribeTopicPartitionsRequest([TopicRequest("dtp-a")], -1, None),
        DescribeTopicPartitionsRequest([TopicRequest("dtp-a")], 10, cursor("dtp-a", 7)),
        DescribeTopicPartitionsRequest([TopicRequest("dtp-a")], 10, cursor("dtp-a", -1)),
        DescribeTopicPartitionsRequest([TopicRequest("dtp-a")], 10, cursor("dtp-b", 0)),
        DescribeTopicPartitionsRequest([TopicRequest("dtp-a")], 10, cursor("dt", 0)),
        DescribeTopicPartitionsRequest([TopicRequest("dtp-a")], 10, cursor("", 0)),
    ]
    for index, case in enumerate(cases):
        pair.same(case, 0, note=str(index))
    pair.same(DescribeTopicPartitionsRequest([], 10, cursor("dtp-a", 1)), 0, edit=lambda answer: keep(answer, "dtp"))
    pair.same(DescribeTopicPartitionsRequest([], 2000, None), 0, edit=lambda answer: keep(answer, "dtp"))


def keep(answer: dict, prefix: str) -> None:
    answer["topics"] = [topic for topic in answer["topics"] if str(topic["name"]).startswith(prefix)]


def test_describe_cluster(pair: Pair) -> None:
    for options in ({}, {"endpoint_type": 2}, {"endpoint_type": 3}, {"endpoint_type": 0}, {"include_cluster_authorized_operations": True}):
        lowest = 1 if "endpoint_type" in options else 0
        pair.every_version(DescribeClusterRequest(**options), lowest, note=repr(options))
    pair.same(DescribeClusterRequest(include_fenced_brokers=True), 2, note="fenced")


def test_versions_that_nobody_serves_close_the_connection(pair: Pair) -> None:
    for key, spec in API_TABLE.items():
        if key in (ApiKeys.API_VERSIONS, ApiKeys.PRODUCE):
            continue
        for version in (spec.lowest - 1, 99):
            frame = key.to_bytes(2, "big") + version.to_bytes(2, "big", signed=True) + bytes.fromhex("0000000100016100") + bytes(20)
            raw = len(frame).to_bytes(4, "big") + frame
            pair.note(f"{key.name} v{version}", *(side.exchange(raw) for side in pair.sides))
