"""Muting by an answer, and quotas on new connections, over the simulated network."""

from __future__ import annotations

import pytest
from support.brokers.network_doubles import ServerBench, metadata_request, tiny_broker
from support.logs.storage_doubles import ManualClock

from kmirror.common.metrics import MetricsRegistry
from kmirror.network.connection_quotas import ACCEPTED, IDLE_ADDRESS_MS, UNLIMITED, ConnectionQuotas, ConnectionVerdict
from kmirror.network.request_context import Answer
from kmirror.network.socket_server import SocketServer


class Bench(ServerBench):
    def __init__(self) -> None:
        super().__init__()
        self.metrics = MetricsRegistry(self.broker.clock)

    def serve(self, handler=None, **quotas) -> SocketServer:
        return self.start(handler, connection_quotas=ConnectionQuotas(self.broker.clock, self.metrics, **quotas))


@pytest.fixture
def bench():
    bench = Bench()
    yield bench
    bench.world.close()


def throttling(throttle_time_ms: int, sent: list[int]):
    answer = tiny_broker()

    async def handle(context) -> Answer:
        return Answer(await answer(context), throttle_time_ms, sent.append)

    return handle


def test_a_throttled_connection_gets_its_response_at_once_and_is_not_read_until_the_time_is_over(bench):
    sent: list[int] = []
    bench.serve(throttling(1_000, sent))
    peer, other = bench.peer(), bench.peer()
    peer.connection.write([metadata_request(1), metadata_request(2)])
    bench.run_ms(100)
    assert peer.correlation_ids() == [1] and len(sent) == 1
    peer.connection.write([metadata_request(3)])
    other.connection.write([metadata_request(7)])
    bench.run_ms(800)
    assert peer.correlation_ids() == [1] and other.correlation_ids() == [7], "only its own connection is muted"
    bench.run_ms(200)
    assert peer.correlation_ids() == [1, 2]
    bench.run_ms(1_000)
    assert peer.correlation_ids() == [1, 2, 3]


def test_a_connection_that_is_lost_while_it_is_muted_leaves_nothing_behind(bench):
    server = bench.serve(throttling(60_000, []))
    peer = bench.peer()
    peer.connection.write([metadata_request(1)])
    bench.run_ms(100)
    peer.connection.abort()
    bench.run_ms(100)
    assert server.connection_count == 0
    stopping = bench.broker.spawn(server.stop(), name="stop")
    bench.world.loop.run_until_complete(stopping)


def test_a_muted_connection_does_not_hold_up_the_shutdown(bench):
    server = bench.serve(throttling(60_000, []))
    peer = bench.peer()
    peer.connection.write([metadata_request(1)])
    bench.run_ms(100)
    bench.world.loop.run_until_complete(bench.broker.spawn(server.stop(grace_ms=100), name="stop"))
    bench.run_ms(100)
    assert peer.lost and peer.correlation_ids() == [1]


def test_connections_above_the_brokers_rate_wait_before_they_are_read(bench):
    bench.serve(broker_rate=1)
    peers = [bench.peer() for _ in range(12)]
    for peer in peers:
        peer.connection.write([metadata_request(1)])
    bench.run_ms(50)
    assert [len(peer.received) > 0 for peer in peers] == [True] * 10 + [False] * 2, "ten seconds' worth at once"
    bench.run_ms(1_100)
    assert all(peer.correlation_ids() == [1] for peer in peers), "at most one window later the others are read"


def test_an_address_above_its_rate_is_closed_after_a_while(bench):
    server = bench.serve()
    server._connection_quotas.set_address_rate(None, 1)
    peers = [bench.peer() for _ in range(11)]
    for peer in peers:
        peer.connection.write([metadata_request(1)])
    bench.run_ms(50)
    assert [len(peer.received) > 0 for peer in peers] == [True] * 10 + [False]
    assert not peers[10].lost
    bench.run_ms(1_200)
    assert peers[10].lost and not peers[0].lost
    assert server.connection_count == 10


def test_rates_of_listeners_and_addresses_are_counted_apart():
    clock = ManualClock()
    metrics = MetricsRegistry(clock)
    quotas = ConnectionQuotas(
        clock, metrics, listener_rates={"A": UNLIMITED, "B": 1}, broker_rate=2, protected_listener="A", samples=11, window_ms=1_000
    )
    assert all(quotas.admit("A", "1.1.1.1") == ACCEPTED for _ in range(100)), "brokers among themselves do not count for the node"
    assert [quotas.admit("B", "1.1.1.1").delay_ms for _ in range(11)] == [0] * 10 + [1_000]
    quotas.set_listener_rate("B", UNLIMITED)
    quotas.set_broker_rate(UNLIMITED)
    quotas.set_address_rate("1.1.1.2", 1)
    assert quotas.admit("B", "1.1.1.1") == ACCEPTED
    assert [quotas.admit("B", "1.1.1.2") for _ in range(11)][-1] == ConnectionVerdict(1_000, refused=True)
    quotas.set_address_rate("1.1.1.2", None)
    assert quotas.admit("B", "1.1.1.2") == ACCEPTED
    beans = metrics.mbeans()
    assert beans["kafka.server:type=socket-server-metrics,listener=B"]["connection-accept-throttle-time"] == 1_000.0
    assert beans["kafka.server:type=socket-server-metrics,listener=B"]["ip-connection-accept-throttle-time"] == 1_000.0


def test_without_a_limit_nothing_is_counted():
    metrics = MetricsRegistry(ManualClock())
    quotas = ConnectionQuotas(ManualClock(), metrics, listener_rates={"A": UNLIMITED})
    assert quotas.admit("A", "1.1.1.1") is ACCEPTED
    assert metrics.mbeans()["kafka.server:type=socket-server-metrics,listener=A"] == {"connection-accept-rate": 0.0}


def test_addresses_that_were_idle_for_an_hour_are_forgotten_and_not_looked_for_with_every_new_one(monkeypatch):
    clock = ManualClock()
    metrics = MetricsRegistry(clock)
    quotas = ConnectionQuotas(clock, metrics)
    quotas.set_address_rate(None, 100)
    sweeps = []
    forget = ConnectionQuotas._forget_idle
    monkeypatch.setattr(ConnectionQuotas, "_forget_idle", lambda self, now_ms: (sweeps.append(now_ms), forget(self, now_ms)))
    for number in range(200):
        assert quotas.admit("PLAINTEXT", f"10.0.0.{number}") == ACCEPTED
    assert len(sweeps) == 1 and len(quotas._addresses) == 200
    clock.now_ms += IDLE_ADDRESS_MS + 1
    quotas.admit("PLAINTEXT", "10.0.1.1")
    assert list(quotas._addresses) == ["10.0.1.1"] and len(sweeps) == 2
