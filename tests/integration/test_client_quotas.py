"""Quotas as clients meet them: librdkafka is told how long it is muted, is muted for as long, and
loses nothing.
"""

from __future__ import annotations

import socket
import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from support.brokers.network_doubles import frame_of
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.common.metrics import sensor_metric
from kmirror.metadata.image import ClientQuotaEntity
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.framing import RequestHeader, encode_request, read_response
from kmirror.wire.messages import alter_client_quotas as acq
from kmirror.wire.messages import incremental_alter_configs as iac
from kmirror.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kmirror.wire.messages.metadata import MetadataRequest

SHORT_WINDOW = {"quota.window.num": "2", "controller.quota.window.num": "2"}


@pytest.fixture(scope="module")
def cluster():
    with EmbeddedCluster(config=SHORT_WINDOW) as running:
        yield running


def set_quota(cluster: EmbeddedCluster, client_id: str, **values: float) -> None:
    """By the API, as an operator does; returns when the broker applies it."""
    entity = [acq.AlterClientQuotasRequestEntityData("client-id", client_id)]
    ops = [acq.OpData(key, value, False) for key, value in values.items()]
    response = ask(cluster, acq.AlterClientQuotasRequest([acq.AlterClientQuotasRequestEntryData(entity, ops)]), 1)
    assert response.entries[0].error_code == 0, response
    expected = ClientQuotaEntity((("client-id", client_id),))
    deadline = time.monotonic() + REACHED_S
    while cluster.call(lambda server: server.broker.metadata_cache.image.client_quotas.get(expected)) != values:
        assert time.monotonic() < deadline, "the broker did not hear of the quota"
        time.sleep(0.01)


def ask(cluster: EmbeddedCluster, message, version: int, *, client_id: str = "operator", connection: socket.socket | None = None):
    header = RequestHeader(ApiKeys(type(message).API_KEY), version, 1, client_id)
    with connection or socket.create_connection(("127.0.0.1", cluster.nodes[0].port), 10) as peer:
        return exchange(peer, header, message)


def exchange(peer: socket.socket, header: RequestHeader, message):
    peer.sendall(frame_of(encode_request(header, message)))
    size = int.from_bytes(received(peer, 4), "big")
    return read_response(header.api_key, header.api_version, memoryview(received(peer, size)))[1]


def received(peer: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = peer.recv(size - len(data))
        assert part, "the broker closed the connection"
        data += part
    return data


def test_a_producer_is_told_of_its_throttling_and_everything_arrives(cluster):
    set_quota(cluster, "slow", producer_byte_rate=100_000.0)
    throttled: list[float] = []
    settings = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "client.id": "slow",
        "throttle_cb": lambda event: throttled.append(event.throttle_time),
    }
    producer = Producer(settings)
    for _ in range(8):
        producer.produce("throttled", b"x" * 20_000)
        producer.flush(20)
    producer.poll(0.1)
    assert throttled, "librdkafka was not told"
    low, high = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "w"}).get_watermark_offsets(
        TopicPartition("throttled", 0), timeout=10
    )
    assert (low, high) == (0, 8)
    bean = cluster.metrics()["kafka.server:type=Produce,client-id=slow"]
    assert bean["throttle-time"] > 0


def test_a_throttled_consumer_gets_everything_in_the_end(cluster):
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(10):
        producer.produce("read-slowly", str(number).encode() + b"x" * 20_000)
    producer.flush(20)
    set_quota(cluster, "reader", consumer_byte_rate=100_000.0)
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "client.id": "reader", "group.id": "r", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["read-slowly"])
    values = []
    deadline = time.monotonic() + REACHED_S
    while len(values) < 10 and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            values.append(message.value()[:1])
    consumer.close()
    assert values == [str(number).encode() for number in range(10)]
    assert cluster.metrics()["kafka.server:type=Fetch,client-id=reader"]["throttle-time"] > 0


def test_request_time_above_its_share_mutes_the_connection(cluster):
    set_quota(cluster, "busy", request_percentage=0.000001)
    with socket.create_connection(("127.0.0.1", cluster.nodes[0].port), 10) as peer:
        header = RequestHeader(ApiKeys.METADATA, 9, 1, "busy")
        first = exchange(peer, header, MetadataRequest())
        assert first.throttle_time_ms == 1_000, "a window at most"
        peer.settimeout(0.4)
        peer.sendall(frame_of(encode_request(header, MetadataRequest())))
        with pytest.raises(TimeoutError):
            peer.recv(1)
        peer.settimeout(10)
        assert received(peer, 4), "answered when the time is over"


def test_topics_above_the_mutation_quota_are_refused_or_throttled(cluster):
    set_quota(cluster, "creator", controller_mutation_rate=1.0)

    def create(name: str, version: int):
        return ask(cluster, CreateTopicsRequest([CreatableTopic(name, 4, 1)], 10_000), version, client_id="creator")

    assert create("mutation-a", 7).topics[0].error_code == 0
    refused = create("mutation-b", 7)
    assert refused.topics[0].error_code == 89 and 1_000 < refused.throttle_time_ms <= 2_000
    permissive = create("mutation-c", 5)
    assert permissive.topics[0].error_code == 0 and permissive.throttle_time_ms > 3_000
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "client.id": "creator"})
    created = admin.create_topics([NewTopic("mutation-d", 1, 1)])
    assert created["mutation-d"].result() is None, "its version of the request is throttled, not refused"


def test_the_connection_rate_is_a_dynamic_setting(cluster):
    """Kept by the controller, applied by the broker; per listener, too."""
    resource = iac.AlterConfigsResource(4, "", [iac.AlterableConfig("max.connection.creation.rate", 0, "7")])
    assert ask(cluster, iac.IncrementalAlterConfigsRequest([resource], False), 1).responses[0].error_code == 0
    name = sensor_metric("socket-server-metrics", "broker-connection-accept-rate")
    deadline = time.monotonic() + REACHED_S
    while cluster.call(lambda server: server.metrics.get(name).config.quota) != 7.0:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    resource.configs[0].config_operation = 1
    assert ask(cluster, iac.IncrementalAlterConfigsRequest([resource], False), 1).responses[0].error_code == 0
    while cluster.call(lambda server: server.metrics.get(name).config.quota) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
