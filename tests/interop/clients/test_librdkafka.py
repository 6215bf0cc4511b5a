"""librdkafka (confluent-kafka) against an embedded cluster: administration, produce with every
codec, fetch, groups.
"""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, ShareConsumer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def cluster():
    with EmbeddedCluster() as running:
        yield running


@pytest.fixture(scope="module")
def admin(cluster):
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers})


def create(admin: AdminClient, topic: str, partitions: int = 1, **config: str) -> None:
    admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(REACHED_S)


def consume(cluster: EmbeddedCluster, topic: str, count: int, group: str, **settings: object) -> list[tuple[bytes | None, bytes | None]]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest", **settings})
    consumer.subscribe([topic])
    got: list[tuple[bytes | None, bytes | None]] = []
    deadline = time.monotonic() + REACHED_S
    while time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None:
            assert message.error() is None, message.error()
            got.append((message.key(), message.value()))
        if len(got) == count:
            break
    consumer.commit(asynchronous=False)
    consumer.close()
    return got


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("idempotent", [False, True])
def test_what_is_produced_is_consumed_with_every_codec(cluster, admin, codec: str, idempotent: bool) -> None:
    topic = f"codec-{codec}-{idempotent}".lower()
    create(admin, topic, 2)
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "compression.type": codec,
            "enable.idempotence": idempotent,
            "linger.ms": 20,
        }
    )
    failures: list[object] = []
    for number in range(500):
        producer.produce(
            topic,
            key=f"k{number}".encode(),
            value=(f"v{number}" * 20).encode(),
            headers=[("h", b"1"), ("none", None)],
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(REACHED_S) == 0 and not failures
    got = consume(cluster, topic, 500, f"group-{topic}")
    assert sorted(got) == sorted((f"k{number}".encode(), (f"v{number}" * 20).encode()) for number in range(500))


def test_topics_are_created_described_altered_and_deleted(cluster, admin) -> None:
    create(admin, "life", 3, **{"retention.ms": "12345", "cleanup.policy": "compact"})
    described = admin.list_topics("life", timeout=10).topics["life"]
    assert sorted(described.partitions) == [0, 1, 2]
    resource = ConfigResource(ResourceType.TOPIC, "life")
    configs = admin.describe_configs([resource])[resource].result(REACHED_S)
    assert (configs["retention.ms"].value, configs["cleanup.policy"].value) == ("12345", "compact")
    change = ConfigResource(
        ResourceType.TOPIC,
        "life",
        incremental_configs=[ConfigEntry("retention.ms", "777", incremental_operation=AlterConfigOpType.SET)],
    )
    admin.incremental_alter_configs([change])[change].result(REACHED_S)
    assert admin.describe_configs([resource])[resource].result(REACHED_S)["retention.ms"].value == "777"
    admin.create_partitions([NewPartitions("life", 5)])["life"].result(REACHED_S)
    assert len(admin.list_topics("life", timeout=10).topics["life"].partitions) == 5
    admin.delete_topics(["life"])["life"].result(REACHED_S)
    assert "life" not in admin.list_topics(timeout=10).topics


def test_errors_are_kafkas(cluster, admin) -> None:
    create(admin, "once")
    with pytest.raises(KafkaException) as raised:
        create(admin, "once")
    assert raised.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    with pytest.raises(KafkaException) as raised:
        create(admin, "bad/name")
    assert raised.value.args[0].code() == KafkaError.TOPIC_EXCEPTION
    with pytest.raises(KafkaException) as raised:
        create(admin, "bad-config", **{"retention.ms": "never"})
    assert raised.value.args[0].code() == KafkaError.INVALID_CONFIG
    with pytest.raises(KafkaException) as raised:
        admin.create_topics([NewTopic("three", 1, 3)])["three"].result(REACHED_S)
    assert raised.value.args[0].code() == KafkaError.INVALID_REPLICATION_FACTOR
    with pytest.raises(KafkaException) as raised:
        admin.delete_topics(["missing-topic"])["missing-topic"].result(REACHED_S)
    assert raised.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_offsets_are_listed_and_records_deleted(cluster, admin) -> None:
    create(admin, "offsets")
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(10):
        producer.produce("offsets", value=b"x", timestamp=1_750_000_000_000 + number)
        producer.flush(10)
    partition = TopicPartition("offsets", 0)
    for spec, expected in (
        (OffsetSpec.earliest(), 0),
        (OffsetSpec.latest(), 10),
        (OffsetSpec.for_timestamp(1_750_000_000_004), 4),
        (OffsetSpec.max_timestamp(), 9),
    ):
        assert admin.list_offsets({partition: spec})[partition].result(REACHED_S).offset == expected
    assert admin.delete_records([TopicPartition("offsets", 0, 6)])[TopicPartition("offsets", 0, 6)].result(REACHED_S).low_watermark == 6
    assert admin.list_offsets({partition: OffsetSpec.earliest()})[partition].result(REACHED_S).offset == 6


def test_a_group_goes_on_where_it_committed(cluster, admin) -> None:
    create(admin, "resume")
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(20):
        producer.produce("resume", value=str(number).encode())
    producer.flush(10)
    assert len(consume(cluster, "resume", 20, "resumed")) == 20
    for number in range(20, 25):
        producer.produce("resume", value=str(number).encode())
    producer.flush(10)
    assert [value for _, value in consume(cluster, "resume", 5, "resumed")] == [str(number).encode() for number in range(20, 25)]
    groups = admin.list_consumer_groups().result(REACHED_S).valid
    assert "resumed" in {group.group_id for group in groups}


def test_a_share_consumer_waited_for_ever_without_an_error(cluster: EmbeddedCluster) -> None:
    create(AdminClient({"bootstrap.servers": cluster.bootstrap_servers}), "not-shared")
    consumer = ShareConsumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "not-shared"})
    consumer.subscribe(["not-shared"])
    deadline = time.monotonic() + REACHED_S
    with pytest.raises(KafkaException) as caught:
        while time.monotonic() < deadline:
            consumer.poll(timeout=0.2)
    assert caught.value.args[0].code() == KafkaError.UNSUPPORTED_VERSION
    consumer.close()
