"""The HTTP endpoint over the simulated network: what it answers, and what it does with what is not
HTTP.
"""

from __future__ import annotations

import json

import pytest
from support.brokers.network_doubles import RawPeer
from support.brokers.prometheus_text import check_exposition
from support.logs.storage_doubles import ManualClock

from kmirror.common.errors import ConfigError
from kmirror.common.health import NOTHING_LOOKED_AT, Health
from kmirror.common.metrics import MetricName, MetricsRegistry, sensor_metric
from kmirror.server.http_server import IDLE_MS
from kmirror.server.metrics_exposition import json_steps, prometheus_steps, whole
from kmirror.server.node_http import NodeHttp, parse_http_listener
from kmirror.sim.loop import SimLoop
from kmirror.sim.runtime import SimWorld


class Bench:
    def __init__(self) -> None:
        self.world = SimWorld(SimLoop(3))
        self.node = self.world.node("node").boot()
        self.client = self.world.node("client").boot()
        self.reasons: list[str] = []
        self.looked_at = ["the broker"]
        self.metrics = metrics = MetricsRegistry(self.node.clock)
        metrics.counter(MetricName("g", "t", "m")).increment(3)
        self.http = NodeHttp(self.node, "node:8080", metrics, lambda: Health(self.reasons, self.looked_at))
        self.world.loop.run_until_complete(self.node.spawn(self.http.start(), name="start"))

    def peer(self) -> RawPeer:
        connecting = self.client.spawn(self.client.connect("node", 8080, RawPeer), name="connect")
        return self.world.loop.run_until_complete(connecting)[1]

    def ask(self, request: str, peer: RawPeer | None = None) -> tuple[str, bytes]:
        """Status line and body."""
        peer = peer or self.peer()
        peer.received.clear()
        peer.connection.write([request.encode()])
        self.world.loop.run_for_us(50_000)
        head, _, body = bytes(peer.received).partition(b"\r\n\r\n")
        return head.split(b"\r\n")[0].decode(), body


@pytest.fixture
def bench():
    bench = Bench()
    yield bench
    bench.world.close()


_SERIES = b'# HELP g_t_Count Attribute Count of the MBeans g:type=t.\n# TYPE g_t_Count counter\ng_t_Count{name="m"} 3\n'


def test_metrics_and_health(bench):
    assert bench.ask("GET /metrics HTTP/1.1\r\n\r\n") == ("HTTP/1.1 200 OK", _SERIES)
    assert json.loads(bench.ask("GET /metrics.json?x=1 HTTP/1.1\r\n\r\n")[1]) == {"g:type=t,name=m": {"Count": 3}}
    whole_page = {"ready": True, "reasons": [], "warnings": [], "looked_at": ["the broker"], "not_looked_at": []}
    assert json.loads(bench.ask("GET /health HTTP/1.1\r\n\r\n")[1]) == {"live": True, **whole_page}
    bench.reasons.append("the broker is fenced")
    status, body = bench.ask("GET /health/ready HTTP/1.1\r\n\r\n")
    assert status == "HTTP/1.1 503 Service Unavailable"
    assert json.loads(body) == {**whole_page, "ready": False, "reasons": ["the broker is fenced"]}
    assert bench.ask("GET /health/live HTTP/1.1\r\n\r\n")[0] == "HTTP/1.1 200 OK", "alive, but not to be sent clients"


def test_a_page_that_looked_at_nothing_is_not_ready(bench):
    bench.looked_at.clear()
    status, body = bench.ask("GET /health/ready HTTP/1.1\r\n\r\n")
    assert status == "HTTP/1.1 503 Service Unavailable" and json.loads(body)["reasons"] == [NOTHING_LOOKED_AT]


def test_a_connection_is_kept_alive_and_answers_what_is_pipelined(bench):
    peer = bench.peer()
    assert bench.ask("HEAD /metrics HTTP/1.1\r\n\r\n", peer) == ("HTTP/1.1 200 OK", b"")
    bench.ask("GET /health/live HTTP/1.1\r\n\r\nGET /health/live HTTP/1.1\r\n\r\n", peer)
    assert peer.received.count(b"HTTP/1.1 200 OK") == 2 and not peer.lost
    bench.ask("GET /health/live HTTP/1.1\r\nConnection: close\r\n\r\n", peer)
    assert peer.lost
    other = bench.peer()
    bench.world.loop.run_for_us((IDLE_MS + 1_000) * 1000)
    assert other.lost, "a minute without a request"


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        ("GET /nowhere HTTP/1.1\r\n\r\n", "404 Not Found"),
        ("POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "405 Method Not Allowed"),
        ("GET /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "405 Method Not Allowed"),
        ("GET /metrics HTTP/3\r\n\r\n", "505 HTTP Version Not Supported"),
        ("what is this\r\n\r\n", "400 Bad Request"),
        ("\x00\x00\x00\x10\x00\x12\r\n\r\n", "400 Bad Request"),
        ("GET /" + "a" * 9_000, "431 Request Header Fields Too Large"),
    ],
)
def test_what_is_not_a_get_of_a_known_path(bench, request_text, status):
    assert bench.ask(request_text)[0] == f"HTTP/1.1 {status}"
    assert bench.ask("GET /health/live HTTP/1.1\r\n\r\n")[0] == "HTTP/1.1 200 OK", "others are not disturbed"


def test_series_are_named_as_the_jmx_exporter_names_them():
    metrics = MetricsRegistry(ManualClock())
    metrics.meter(MetricName("kafka.server", "BrokerTopicMetrics", "BytesInPerSec", (("topic", 'a"b\\c'),))).mark(7)
    metrics.gauge(sensor_metric("Produce", "byte-rate", (("user", "alice"), ("client-id", ""))), lambda: float("nan"))
    metrics.gauge(sensor_metric("app-info", "version"), lambda: "4.3.0")
    lines = whole(prometheus_steps(metrics)).splitlines()
    assert 'kafka_server_BrokerTopicMetrics_Count{name="BytesInPerSec",topic="a\\"b\\\\c"} 7' in lines
    assert 'kafka_server_Produce_byte_rate{user="alice"} NaN' in lines
    assert not [line for line in lines if "app_info" in line], "a text is no number"
    assert json.loads(whole(json_steps(metrics)))["kafka.server:type=Produce,user=alice"] == {"byte-rate": None}


def test_every_series_has_a_help_and_a_type():
    metrics = MetricsRegistry(ManualClock())
    metrics.meter(MetricName("kafka.server", "BrokerTopicMetrics", "BytesInPerSec")).mark(7)
    metrics.gauge(sensor_metric("m", "request-total"), lambda: 3)
    metrics.gauge(MetricName("kmirror", "MirrorPartition", "Lag", (("mirror", "m"),)), lambda: 3)
    text = whole(prometheus_steps(metrics))
    check_exposition(text)
    lines = text.splitlines()
    assert "# TYPE kafka_server_BrokerTopicMetrics_Count counter" in lines and "# TYPE kafka_server_m_request_total counter" in lines
    assert "# TYPE kafka_server_BrokerTopicMetrics_OneMinuteRate gauge" in lines
    assert "# HELP kafka_server_BrokerTopicMetrics_Count Attribute Count of the MBeans kafka.server:type=BrokerTopicMetrics." in lines
    (help_line,) = (line for line in lines if line.startswith("# HELP kmirror_MirrorPartition_Value "))
    assert "absent while it is not known" in help_line


@pytest.mark.parametrize("mirror", ["m", "dr.one", "a-fetcher-0-mirror-b-metrics", "1-2-3"])
def test_a_mirrors_name_is_a_label_wherever_an_mbean_has_it(mirror):
    metrics = MetricsRegistry(ManualClock())
    connection = (("broker-id", "2"), ("fetcher-id", "0"))
    metrics.gauge(sensor_metric(f"mirror-broker-1-fetcher-0-mirror-{mirror}-metrics", "request-total", connection), lambda: 1)
    client_id = f"MirrorFetcherThread-2-0-{mirror}"
    metrics.gauge(MetricName("kafka.server", "FetcherLagMetrics", "ConsumerLag", (("clientId", client_id), ("topic", "t"))), lambda: 2)
    metrics.gauge(MetricName("kafka.server", "FetcherLagMetrics", "ConsumerLag", (("clientId", "consumer"),)), lambda: 3)
    text, spelled = whole(prometheus_steps(metrics)), whole(prometheus_steps(metrics, spelled_as_mbeans=True))
    assert f'kafka_server_mirror_fetcher_metrics_request_total{{mirror="{mirror}",broker_id="2",fetcher_id="0"}} 1\n' in text
    assert f'{{name="ConsumerLag",mirror="{mirror}",clientId="{client_id}",topic="t"}} 2\n' in text
    assert '{name="ConsumerLag",clientId="consumer"} 3\n' in text and "mirror=" not in spelled
    check_exposition(text)
    check_exposition(spelled)


def test_the_listener_is_host_and_port():
    assert parse_http_listener("0.0.0.0:8080") == ("0.0.0.0", 8080)
    assert parse_http_listener("[::1]:0") == ("::1", 0)
    for wrong in ("8080", "host:", "host:x", "host:70000"):
        with pytest.raises(ConfigError, match=r"kmirror\.http\.listener: Value must be of the form host:port"):
            parse_http_listener(wrong)


def test_many_metrics_are_told_in_steps_and_nothing_is_lost(bench):
    """A scrape of ten thousand partitions must not hold up requests; what is asked meanwhile waits
    for its turn.
    """
    metrics = bench.metrics
    metrics.add_collector(lambda: ((MetricName("g", "many", "m", (("partition", str(number)),)), number) for number in range(9_000)))
    assert sum(1 for _ in prometheus_steps(metrics)) > 20 and sum(1 for _ in json_steps(metrics)) > 40
    peer = bench.peer()
    peer.connection.write([b"GET /metrics HTTP/1.1\r\n\r\nGET /metrics.json HTTP/1.1\r\n\r\nGET /health/live HTTP/1.1\r\n\r\n"])
    bench.world.loop.run_for_us(2_000_000)
    assert peer.received.count(b"HTTP/1.1 200 OK") == 3
    first, second, _ = bytes(peer.received).split(b"HTTP/1.1 200 OK")[1:]
    assert first.count(b"g_many_Value{") == 9_000 and b'g_many_Value{name="m",partition="8999"} 8999\n' in first
    assert len(json.loads(second.partition(b"\r\n\r\n")[2])) == 9_001


def test_a_client_that_asks_on_without_reading_answers_grew_the_memory(bench):
    """Its requests are read no further while what it was answered is not taken."""
    bench.metrics.counter(MetricName("g", "t", "x" * 40_000))
    peer = bench.peer()
    peer.connection.pause_reading()
    sent = 0
    for _ in range(20):
        peer.connection.write([b"GET /metrics HTTP/1.1\r\n\r\n" * 50])
        sent += 50
        bench.world.loop.run_for_us(10_000)
    (connection,) = bench.http._server._connections
    assert len(connection._received) <= 3 * 8_192
    assert connection._connection.unsent_bytes <= (1 << 20) + 100_000
    peer.connection.resume_reading()
    bench.world.loop.run_for_us(20_000_000)
    assert peer.received.count(b"HTTP/1.1 200 OK") == sent, "nothing is lost"
