"""librdkafka pushes its metrics where a receiver is switched on, and is not asked to where none is."""

from __future__ import annotations

import time

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.wire.api_keys import ApiKeys

TELEMETRY = {ApiKeys.GET_TELEMETRY_SUBSCRIPTIONS, ApiKeys.PUSH_TELEMETRY}


def advertised(cluster: EmbeddedCluster) -> set[ApiKeys]:
    return cluster.call(lambda server: {served.api_key for served in server.broker.apis.served.ranges()})


def test_a_client_pushes_what_a_subscription_asks_for():
    with EmbeddedCluster(config={"kmirror.telemetry.receiver.enable": "true"}) as cluster:
        assert advertised(cluster) >= TELEMETRY
        cluster.call(lambda server: server.broker.apis.client_metrics.update_subscription("all", {"metrics": "*", "interval.ms": "100"}))
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "client.id": "pushing", "enable.metrics.push": True})
        producer.produce("telemetry", b"x")
        assert producer.flush(REACHED_S) == 0
        deadline = time.monotonic() + REACHED_S
        payloads: list[bytes] = []
        while not payloads and time.monotonic() < deadline:
            producer.poll(0.1)
            payloads = cluster.call(lambda server: list(server.broker.apis.client_metrics.receiver.last_payloads.values()))
        assert payloads, "nothing was pushed"
        assert cluster.metrics()["kafka.server:type=client-metrics"]["received-bytes-total"] >= len(payloads[0])


def test_telemetry_is_not_advertised_without_a_receiver():
    with EmbeddedCluster() as cluster:
        assert not advertised(cluster) & TELEMETRY
        assert AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics(timeout=10).brokers
