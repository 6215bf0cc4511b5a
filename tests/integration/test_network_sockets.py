"""The network on real sockets of this machine: what the simulator cannot show (kernel buffers,
sendfile, addresses).
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
import sys
from dataclasses import dataclass

import pytest
from support.brokers.network_doubles import RawPeer, metadata_request, tiny_broker

from kmirror.network.client import DisconnectError, NetworkClient
from kmirror.network.socket_server import SocketServer, SocketServerLimits
from kmirror.runtime import sockets
from kmirror.runtime.asyncio_runtime import AsyncioRuntime, run
from kmirror.runtime.os_files import OsFile, OsFileSystem
from kmirror.server.kafka_config import KafkaConfig
from kmirror.wire.messages.metadata import MetadataRequest

SLICE_BYTES = 9 * 1024 * 1024 + 17


@dataclass
class Slice:
    """A FileSlice."""

    file: OsFile
    position: int
    size: int

    def to_bytes(self) -> bytes:
        return self.file.pread(self.size, self.position)


async def until(condition) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not happen in 5 seconds")


async def started(runtime: AsyncioRuntime, handler, host: str = "127.0.0.1") -> SocketServer:
    server = SocketServer(runtime, "PLAINTEXT", host, 0, handler)
    await server.start()
    return server


@pytest.mark.parametrize(("send_bytes", "receive_bytes"), [(20_000, 30_000), (-1, -1)])
def test_a_listeners_connections_have_buffers_of_the_size_that_was_set(monkeypatch, send_bytes, receive_bytes):
    """They had the system's whatever was set."""
    accepted: list[tuple[int, int]] = []
    made = sockets.SocketConnection.__init__

    def init(self, loop, sock, protocol) -> None:
        if sock.getsockname()[1] == ports[0]:
            accepted.append((sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF), sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)))
        made(self, loop, sock, protocol)

    monkeypatch.setattr(sockets.SocketConnection, "__init__", init)
    ports: list[int] = []

    async def main(runtime: AsyncioRuntime) -> None:
        limits = SocketServerLimits(socket_send_buffer_bytes=send_bytes, socket_receive_buffer_bytes=receive_bytes)
        server = SocketServer(runtime, "PLAINTEXT", "127.0.0.1", 0, tiny_broker(), limits=limits)
        await server.start()
        ports.append(server.port)
        client = NetworkClient(runtime, "tester")
        await client.send("127.0.0.1", server.port, MetadataRequest(), timeout_ms=5_000)
        client.close()
        await server.stop(grace_ms=100)

    run(main)
    of_kernel = 2 if sys.platform == "linux" else 1  # Linux doubles what it is asked for, for its own bookkeeping
    asked = (20_000 * of_kernel, 30_000 * of_kernel)
    assert len(accepted) == 1 and (accepted[0] == asked) is (send_bytes > 0)


def test_a_listeners_buffers_are_the_systems_until_they_are_set():
    """Kafka's defaults would fix them at 100 KiB and end the system's own fitting."""
    minimum = {"process.roles": "broker", "node.id": "1", "controller.quorum.voters": "9@localhost:9093", "controller.listener.names": "C"}

    def buffers(**sizes: str) -> tuple[int, int]:
        named = {f"socket.{name}.buffer.bytes": value for name, value in sizes.items()}
        limits = KafkaConfig.from_props(minimum | named).socket_server_limits()
        return limits.socket_send_buffer_bytes, limits.socket_receive_buffer_bytes

    assert (buffers(), buffers(send="7"), buffers(receive="8"), buffers(send="-1")) == ((-1, -1), (7, -1), (-1, 8), (-1, -1))


@pytest.mark.parametrize("uvloop", [False, True])
def test_requests_and_responses(uvloop):
    if uvloop:
        pytest.importorskip("uvloop", reason="uvloop is not installed")

    async def main(runtime: AsyncioRuntime) -> None:
        server = await started(runtime, tiny_broker())
        client = NetworkClient(runtime, "tester")
        for _ in range(50):
            assert (await client.send("127.0.0.1", server.port, MetadataRequest(), timeout_ms=5_000)).cluster_id == "tester"
        client.close()
        await server.stop(grace_ms=100)
        assert server.connection_count == 0

    run(main, prefer_uvloop=uvloop)


def test_file_slices_arrive_between_buffers_of_every_size(tmp_path):
    content = hashlib.shake_256(b"kmirror").digest(SLICE_BYTES)
    (tmp_path / "segment").write_bytes(content)

    async def main(runtime: AsyncioRuntime) -> None:
        file = OsFileSystem().open(str(tmp_path / "segment"), write=False)
        sizes = [0, 1, 100, 8192, 8193, 1 << 20, SLICE_BYTES]

        async def send_slices(context):
            body = [context.header.correlation_id.to_bytes(4, "big"), b"head", memoryview(b"er")]
            for size in sizes:
                body += [Slice(file, SLICE_BYTES - size, size), b"|", b""]
            total = 4 + 6 + sum(sizes) + len(sizes)
            return [total.to_bytes(4, "big"), *body]

        server = await started(runtime, send_slices)
        connection, peer = await runtime.connect("127.0.0.1", server.port, RawPeer)
        connection.write([metadata_request(1), metadata_request(2)])
        expected = b"header" + b"".join(content[SLICE_BYTES - size :] + b"|" for size in sizes)
        await until(lambda: len(peer.received) == 2 * (8 + len(expected)))
        assert [frame[4:] for frame in peer.frames()] == [expected, expected]
        await server.stop()

    run(main)


@pytest.mark.parametrize("fault", ["short", "closed"])
def test_a_slice_that_cannot_be_kept_ends_the_connection(tmp_path, fault):
    (tmp_path / "segment").write_bytes(bytes(1 << 20))

    async def main(runtime: AsyncioRuntime) -> None:
        file = OsFileSystem().open(str(tmp_path / "segment"))
        if fault == "closed":
            file.close()

        async def send_slice(context):
            return [(1 << 21).to_bytes(4, "big"), Slice(file, 0, 1 << 21)]

        server = await started(runtime, send_slice)
        connection, peer = await runtime.connect("127.0.0.1", server.port, RawPeer)
        connection.write([metadata_request(1)])
        await until(lambda: peer.lost)
        assert server.connection_count == 0
        await server.stop()

    run(main)


def test_a_slow_reader_is_waited_for_with_bounded_memory():
    unsent = []

    async def main(runtime: AsyncioRuntime) -> None:
        class Flooder(RawPeer):
            paused = False

            def pause_writing(self) -> None:
                self.paused = True

            def resume_writing(self) -> None:
                self.paused = False

        flooders = []

        def make() -> Flooder:
            flooders.append(Flooder())
            return flooders[-1]

        listening = await runtime.listen("127.0.0.1", 0, make)
        connection, peer = await runtime.connect("127.0.0.1", listening.port, RawPeer)
        await until(lambda: bool(flooders))
        connection.pause_reading()
        written = 0
        while not flooders[0].paused:
            flooders[0].connection.write([bytes(1 << 16)])
            written += 1 << 16
            await asyncio.sleep(0)
        unsent.append(flooders[0].connection.unsent_bytes)
        connection.resume_reading()
        await until(lambda: len(peer.received) == written)
        assert not flooders[0].paused
        flooders[0].connection.close()
        await until(lambda: peer.lost)
        listening.close()

    run(main)
    assert unsent[0] <= (1 << 20) + (1 << 16)


def test_close_sends_what_is_unsent_first():
    async def main(runtime: AsyncioRuntime) -> None:
        class Sender(RawPeer):
            def connection_made(self, connection) -> None:
                connection.write([bytes(20 << 20)])
                connection.close()

        listening = await runtime.listen("127.0.0.1", 0, Sender)
        _, peer = await runtime.connect("127.0.0.1", listening.port, RawPeer)
        await until(lambda: peer.lost)
        assert len(peer.received) == 20 << 20
        assert peer.error is None
        listening.close()

    run(main)


@pytest.mark.parametrize(
    ("host", "targets"), [("", ["127.0.0.1", "localhost"]), ("localhost", ["localhost", "127.0.0.1"]), ("127.0.0.1", ["127.0.0.1"])]
)
def test_listening_addresses(host, targets):
    async def main(runtime: AsyncioRuntime) -> None:
        server = await started(runtime, tiny_broker(), host)
        for target in targets:
            connection, peer = await runtime.connect(target, server.port, RawPeer)
            assert connection.peer_address == ("127.0.0.1", server.port)
            connection.write([metadata_request(3)])
            await until(lambda peer=peer: peer.correlation_ids() == [3])
        await server.stop()

    run(main)


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_every_interface_means_ipv6_too():
    async def main(runtime: AsyncioRuntime) -> None:
        server = await started(runtime, tiny_broker(), "")
        connection, peer = await runtime.connect("::1", server.port, RawPeer)
        connection.write([metadata_request(3)])
        await until(lambda: peer.correlation_ids() == [3])
        await server.stop()

    run(main)


def test_a_taken_port_says_so():
    async def main(runtime: AsyncioRuntime) -> None:
        server = await started(runtime, tiny_broker())
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1 port {server.port}: Address already in use"):
            await SocketServer(runtime, "SECOND", "127.0.0.1", server.port, tiny_broker()).start()
        await server.stop()
        client = NetworkClient(runtime, "tester")
        with pytest.raises(DisconnectError, match="cannot connect to 127.0.0.1"):
            await client.send("127.0.0.1", server.port, MetadataRequest(), timeout_ms=5_000)
        client.close()

    run(main)


def test_blocking_work_runs_beside_the_loop():
    async def main(runtime: AsyncioRuntime) -> None:
        import threading

        here = threading.get_ident()
        assert await runtime.run_blocking(threading.get_ident) != here

    run(main)


def test_a_connection_is_woken_when_as_much_is_there_as_it_asked_for_or_at_the_end():
    class Heard:
        def __init__(self) -> None:
            self.sizes: list[int] = []
            self.lost = False

        def connection_made(self, connection) -> None:
            self.connection = connection

        def get_buffer(self, size_hint: int) -> memoryview:
            return memoryview(bytearray(1_000))

        def buffer_updated(self, size: int) -> None:
            self.sizes.append(size)

        def connection_lost(self, error) -> None:
            self.lost = True

    async def main(runtime: AsyncioRuntime) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        _, heard = await runtime.connect("127.0.0.1", listener.getsockname()[1], Heard)
        peer, _address = listener.accept()
        assert heard.connection.wake_at(30)
        for _ in range(2):
            peer.send(b"x" * 10)
            await asyncio.sleep(0.05)
        assert heard.sizes == [], "20 bytes are not told"
        peer.send(b"x" * 10)
        await until(lambda: heard.sizes == [30])
        peer.send(b"x" * 7)
        await asyncio.sleep(0.05)
        assert heard.sizes == [30] and heard.connection.wake_at(1), "what is there is told when less is asked for"
        await until(lambda: heard.sizes == [30, 7])
        assert heard.connection.wake_at(30)
        peer.send(b"x" * 5)
        peer.close()
        await until(lambda: heard.lost)
        assert heard.sizes == [30, 7, 5] and not heard.connection.wake_at(2)
        listener.close()

    run(main)
