"""SocketServer over the simulated network."""

from __future__ import annotations

import logging

import pytest
from support.brokers.network_doubles import PORT, RawPeer, ServerBench, api_versions_request, metadata_request, tiny_broker

from kmirror.network import server_connection
from kmirror.network.frames import FrameReader
from kmirror.network.request_context import CLOSE
from kmirror.network.socket_server import SocketServer, SocketServerLimits


class Bench(ServerBench):
    def serve(self, handler=None, **limits) -> SocketServer:
        return self.start(handler, limits=SocketServerLimits(**limits))


@pytest.fixture
def bench():
    bench = Bench()
    yield bench
    bench.world.close()


def test_pipelined_requests_are_answered_one_at_a_time_and_in_order(bench):
    in_progress, most = [], []

    async def slow(context) -> None:
        in_progress.append(context.header.correlation_id)
        most.append(len(in_progress))
        await bench.broker.sleep_ms(20 - context.header.correlation_id)
        in_progress.pop()

    bench.serve(tiny_broker(slow))
    peer = bench.peer()
    peer.connection.write([metadata_request(correlation_id) for correlation_id in range(10)])
    bench.run_ms(500)
    assert peer.correlation_ids() == list(range(10))
    assert set(most) == {1}
    assert not peer.lost


def test_a_connection_that_is_lost_inside_a_frame_gives_its_buffer_back(bench, monkeypatch):
    """Its cycles are found late by a node's collector: 600 of them with a megabyte each held 1.1
    GB.
    """
    readers = []

    def observed(on_frame, **options):
        readers.append(FrameReader(on_frame, **options))
        return readers[-1]

    monkeypatch.setattr(server_connection, "FrameReader", observed)
    bench.serve()
    peer = bench.peer()
    peer.connection.write([(1 << 20).to_bytes(4, "big"), bytes(100)])
    bench.run_ms(50)
    buffer = readers[0].get_buffer(0).obj
    with pytest.raises(BufferError):
        buffer.append(0)
    peer.connection.abort()
    bench.run_ms(50)
    buffer.append(0)


def test_a_slow_request_does_not_hold_up_other_connections(bench):
    async def slow(context) -> None:
        if context.header.correlation_id == 1:
            await bench.broker.sleep_ms(10_000)

    bench.serve(tiny_broker(slow))
    slow_peer, quick_peer = bench.peer(), bench.peer()
    slow_peer.connection.write([metadata_request(1)])
    bench.run_ms(50)
    quick_peer.connection.write([metadata_request(2)])
    bench.run_ms(50)
    assert quick_peer.correlation_ids() == [2]
    assert slow_peer.correlation_ids() == []


@pytest.mark.parametrize(
    ("garbage", "log_line"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "InvalidReceiveException: Invalid receive (size = 1195725856 larger than 104857600)"),
        (b"\xff\xff\xff\xff", "InvalidReceiveException: Invalid receive (size = -1)"),
        (b"\x00\x00\x00\x00", "InvalidReceiveException: Invalid receive (size = 0)"),
        (b"\x00\x00\x00\x02ab", "InvalidRequestException: "),
        (b"\x00\x00\x00\x0a\x30\x39\x00\x00\x00\x00\x00\x00\xff\xff", "InvalidRequestException: "),
        (b"\x00\x00\x00\x0a\x00\x03\x03\xe7\x00\x00\x00\x00\xff\xff", "InvalidRequestException: "),
    ],
    ids=["http", "negative size", "empty frame", "no header", "unknown API key", "unknown version"],
)
def test_garbage_closes_that_connection_only(bench, caplog, garbage, log_line):
    server = bench.serve()
    good, bad = bench.peer(), bench.peer()
    with caplog.at_level(logging.WARNING):
        bad.connection.write([garbage])
        bench.run_ms(50)
    assert bad.lost
    assert bad.received == b""
    assert log_line in caplog.text
    good.connection.write([metadata_request(5)])
    bench.run_ms(50)
    assert good.correlation_ids() == [5]
    assert server.connection_count == 1
    assert bench.world.loop.failures == []


def test_api_versions_of_an_unknown_version_reaches_the_handler(bench):
    bench.serve()
    peer = bench.peer()
    peer.connection.write([api_versions_request(9, 99)])
    bench.run_ms(50)
    assert peer.frames()[0][:6] == b"\x00\x00\x00\x09\x00\x23"


def test_close_from_the_handler_closes_without_an_answer(bench):
    async def refuse(context):
        return CLOSE

    bench.serve(refuse)
    peer = bench.peer()
    peer.connection.write([metadata_request(1)])
    bench.run_ms(50)
    assert peer.lost
    assert peer.received == b""


def test_no_answer_leaves_the_connection_open(bench):
    async def silent(context):
        return None

    bench.serve(silent)
    peer = bench.peer()
    peer.connection.write([metadata_request(1)])
    bench.run_ms(50)
    assert not peer.lost
    assert peer.received == b""


def test_a_handler_that_fails_is_reported_and_costs_only_its_connection(bench):
    async def fail(context):
        if context.header.correlation_id == 1:
            raise ValueError("broken handler")

    server = bench.serve(tiny_broker(fail))
    good, bad = bench.peer(), bench.peer()
    bad.connection.write([metadata_request(1)])
    good.connection.write([metadata_request(2)])
    bench.run_ms(50)
    assert bad.lost
    assert good.correlation_ids() == [2]
    assert [str(failure.error) for failure in bench.world.loop.failures] == ["broken handler"]
    assert server.connection_count == 1


def test_connections_of_one_address_are_limited(bench, caplog):
    server = bench.serve(max_connections_per_ip=2)
    with caplog.at_level(logging.INFO):
        peers = [bench.peer() for _ in range(3)]
        bench.run_ms(50)
    assert [peer.lost for peer in peers] == [False, False, True]
    assert "Rejected connection from 10.0.0.2, address already has the configured maximum of 2 connections." in caplog.text
    peers[0].connection.close()
    bench.run_ms(50)
    assert server.connection_count == 1
    fourth = bench.peer()
    fourth.connection.write([metadata_request(4)])
    bench.run_ms(50)
    assert fourth.correlation_ids() == [4]


def test_an_override_lifts_the_limit_of_one_address(bench):
    bench.serve(max_connections_per_ip=0, max_connections_per_ip_overrides={"10.0.0.2": 1})
    peers = [bench.peer(), bench.peer()]
    bench.run_ms(50)
    assert [peer.lost for peer in peers] == [False, True]


def test_beyond_max_connections_a_connection_waits_for_its_turn(bench):
    bench.serve(max_connections=1)
    first, second = bench.peer(), bench.peer()
    second.connection.write([metadata_request(2)])
    first.connection.write([metadata_request(1)])
    bench.run_ms(50)
    assert (first.correlation_ids(), second.correlation_ids()) == ([1], [])
    first.connection.close()
    bench.run_ms(50)
    assert second.correlation_ids() == [2]


def test_idle_connections_are_closed_and_busy_ones_are_not(bench):
    async def slow(context) -> None:
        await bench.broker.sleep_ms(5_000)

    bench.serve(tiny_broker(slow), connections_max_idle_ms=1_000)
    idle, busy = bench.peer(), bench.peer()
    busy.connection.write([metadata_request(1)])
    bench.run_ms(1_500)
    assert (idle.lost, busy.lost) == (True, False)
    bench.run_ms(4_000)
    assert busy.correlation_ids() == [1]
    bench.run_ms(1_500)
    assert busy.lost


def test_a_reader_that_does_not_read_stops_its_own_requests(bench):
    answered = []

    async def large(context):
        answered.append(context.header.correlation_id)
        return [(1 << 20).to_bytes(4, "big"), context.header.correlation_id.to_bytes(4, "big"), bytes((1 << 20) - 4)]

    bench.serve(large)
    peer = bench.peer()
    peer.connection.pause_reading()
    peer.connection.write([metadata_request(correlation_id) for correlation_id in range(20)])
    bench.run_ms(500)
    assert len(answered) <= 3
    peer.connection.resume_reading()
    bench.run_ms(2_000)
    assert peer.correlation_ids() == list(range(20))


def test_stop_answers_what_is_in_progress_within_its_grace(bench):
    async def slow(context) -> None:
        await bench.broker.sleep_ms(100)

    server = bench.serve(tiny_broker(slow))
    busy, idle = bench.peer(), bench.peer()
    busy.connection.write([metadata_request(1), metadata_request(2)])
    bench.run_ms(30)
    bench.world.loop.run_until_complete(bench.broker.spawn(server.stop(grace_ms=1_000), name="stop"))
    bench.run_ms(50)
    assert busy.correlation_ids() == [1]
    assert busy.lost
    assert idle.lost
    assert server.connection_count == 0


def test_a_request_is_carried_out_although_its_client_left(bench):
    done = []

    async def slow(context) -> None:
        await bench.broker.sleep_ms(100)
        done.append(context.header.correlation_id)

    server = bench.serve(tiny_broker(slow))
    peer = bench.peer()
    peer.connection.write([metadata_request(1)])
    bench.run_ms(20)
    peer.connection.abort()
    bench.run_ms(200)
    assert done == [1]
    assert server.connection_count == 0
    assert bench.world.loop.failures == []


def test_a_connection_that_is_cut_at_once_is_forgotten(bench):
    server = bench.serve()
    for _ in range(20):
        connecting = bench.client.spawn(bench.client.connect("broker", PORT, RawPeer), name="connect")
        while not server.connection_count:
            bench.world.loop.run_for_us(1)
        bench.world.network.reset("client", "broker")
        connecting.cancel()
        bench.run_ms(50)
        assert server.connection_count == 0
    assert bench.world.loop.failures == []
