"""Garbage on the port (issue part 3.2): the connection that sent it is closed or answered, every
other one goes on, nothing leaks.
"""

from __future__ import annotations

import logging
import random
import socket
import struct
import time
from collections.abc import Iterator

import pytest

from kmirror import EmbeddedCluster

API_VERSIONS_V0 = bytes.fromhex("0012000000000007ffff")


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as running:
        yield running


def connect(cluster: EmbeddedCluster) -> socket.socket:
    return socket.create_connection(("127.0.0.1", cluster.nodes[0].port), 5)


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def read_frame(connection: socket.socket) -> bytes | None:
    """The next frame; None when the broker closed the connection."""
    data = b""
    try:
        while len(data) < 4 or len(data) < 4 + struct.unpack(">i", data[:4])[0]:
            part = connection.recv(65536)
            if not part:
                return None
            data += part
    except ConnectionError:
        return None
    return data[4:]


def assert_served(connection: socket.socket) -> None:
    connection.sendall(framed(API_VERSIONS_V0))
    answer = read_frame(connection)
    assert answer is not None and answer[:6] == bytes.fromhex("000000070000")


GARBAGE = {
    "negative size": struct.pack(">i", -1),
    "zero size": struct.pack(">i", 0),
    "oversized": struct.pack(">i", 101 << 20),
    "largest size": struct.pack(">i", 2**31 - 1),
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a TLS hello": bytes.fromhex("1603010200010001fc0303") + bytes(500),
    "unknown API key": framed(struct.pack(">hhih", 999, 0, 1, -1)),
    "negative API key": framed(struct.pack(">hhih", -1, 0, 1, -1)),
    "unknown version": framed(struct.pack(">hhih", 3, 99, 1, -1)),
    "negative version": framed(struct.pack(">hhih", 3, -1, 1, -1)),
    "header cut short": framed(b"\0\x03\0"),
    "client id longer than the frame": framed(struct.pack(">hhih", 3, 1, 1, 30000) + b"abc"),
    "client id of negative length": framed(struct.pack(">hhih", 3, 1, 1, -7)),
    "client id that is not UTF-8": framed(struct.pack(">hhih", 3, 1, 1, 2) + b"\xff\xfe" + b"\0\0\0\x01\0\x05ab"),
    "absurd array length": framed(struct.pack(">hhihi", 3, 1, 1, -1, 2**31 - 1)),
    "absurd compact array length": framed(struct.pack(">hhih", 3, 12, 1, -1) + b"\0\xff\xff\xff\xff\x0f"),
    "tag section of absurd length": framed(struct.pack(">hhih", 3, 12, 1, -1) + b"\xff\xff\xff\xff\x0f"),
    "body cut short": framed(struct.pack(">hhihih", 3, 1, 1, -1, 1, 500)),
}


@pytest.mark.parametrize("name", list(GARBAGE))
def test_garbage_closes_its_own_connection_only(cluster: EmbeddedCluster, name: str, caplog: pytest.LogCaptureFixture) -> None:
    with connect(cluster) as other, connect(cluster) as sender:
        assert_served(other)
        caplog.set_level(logging.WARNING, logger="kmirror")
        sender.sendall(GARBAGE[name])
        assert read_frame(sender) is None
        assert_served(other)
    assert any("Closing socket" in record.getMessage() for record in caplog.records)


def test_random_bytes_never_stop_the_broker(cluster: EmbeddedCluster) -> None:
    chance = random.Random(12)
    with connect(cluster) as other:
        for number in range(200):
            with connect(cluster) as sender:
                body = chance.randbytes(chance.randrange(200))
                if number % 2:
                    body = struct.pack(">hhi", chance.randrange(93), chance.randrange(14), 1) + body
                sender.sendall(framed(body) if number % 4 else body)
                sender.shutdown(socket.SHUT_WR)
            if number % 20 == 0:
                assert_served(other)
        assert_served(other)


def test_a_slow_drip_is_served_when_it_is_complete(cluster: EmbeddedCluster) -> None:
    with connect(cluster) as slow, connect(cluster) as other:
        for byte in framed(API_VERSIONS_V0):
            slow.sendall(bytes([byte]))
            time.sleep(0.005)
            assert_served(other)
        assert read_frame(slow) is not None


def test_connections_and_tasks_are_gone_when_their_clients_are(cluster: EmbeddedCluster) -> None:
    def settled(count: int) -> bool:
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            if open_sockets(cluster) <= count:
                return True
            time.sleep(0.05)
        return False

    with connect(cluster) as probe:
        assert_served(probe)
        before = open_sockets(cluster)
        senders = [connect(cluster) for _ in range(50)]
        for number, sender in enumerate(senders):
            sender.sendall(list(GARBAGE.values())[number % len(GARBAGE)] if number % 3 else framed(API_VERSIONS_V0)[:7])
        for sender in senders:
            sender.close()
        assert settled(before)
        assert_served(probe)


def open_sockets(cluster: EmbeddedCluster) -> int:
    """Established connections to the broker's port, as the operating system counts them."""
    port = f":{cluster.nodes[0].port:04X}"
    with open("/proc/net/tcp", encoding="ascii") as table:
        return sum(fields[1].endswith(port) and fields[3] in ("01", "08") for fields in map(str.split, table) if len(fields) > 3)
