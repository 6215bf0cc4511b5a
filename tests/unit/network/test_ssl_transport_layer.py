"""The TLS filter, back to back over connections in memory: handshakes, large transfers, back
pressure, closing, garbage.
"""

from __future__ import annotations

import ssl
from collections import deque
from pathlib import Path
from types import SimpleNamespace

import pytest

from kmirror.embedded_security import Security
from kmirror.network.security.authentication_errors import SslHandshakeError
from kmirror.network.security.distinguished_name import subject_of
from kmirror.network.security.leaf_context import LeafContext
from kmirror.network.security.ssl_factory import client_context, server_context
from kmirror.network.security.ssl_transport_layer import READ_SIZE_HINT, SslTransportLayer
from kmirror.runtime.os_files import OsFileSystem


class Wire:
    """The connection below one layer: what is written goes to the other end when `Loop.run` moves
    it.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.other: Wire
        self.above: SslTransportLayer
        self.pending: deque[bytes] = deque()
        self.held = self.closed = self.reading_paused = False
        self.peer_address = self.local_address = ("127.0.0.1", 9)

    @property
    def unsent_bytes(self) -> int:
        return sum(len(data) for data in self.pending)

    def write(self, parts) -> None:
        if not self.closed:
            self.pending.extend(bytes(part) for part in parts)

    def pause_reading(self) -> None:
        self.reading_paused = True

    def resume_reading(self) -> None:
        self.reading_paused = False

    def close(self) -> None:
        self.closed = True

    abort = close


class Loop:
    """Moves bytes, `chunk` at a time, until nothing moves; and the callbacks that a runtime would
    run.
    """

    def __init__(self, *, chunk: int = 1 << 16) -> None:
        self._chunk = chunk
        self._soon: deque = deque()
        self.wires: list[Wire] = []
        self.runtime = SimpleNamespace(call_soon=self._soon.append)

    def run(self) -> None:
        moved = True
        while moved:
            moved = bool(self._soon)
            while self._soon:
                self._soon.popleft()()
            for wire in self.wires:
                moved = self._move(wire) or moved

    def _move(self, wire: Wire) -> bool:
        target = wire.other
        if not wire.pending or wire.held or target.reading_paused:
            return False
        data = wire.pending.popleft()
        for position in range(0, len(data), self._chunk):
            piece = data[position : position + self._chunk]
            if not target.closed:
                target.above.get_buffer(0)[: len(piece)] = piece
                target.above.buffer_updated(len(piece))
        return True


class Upper:
    """The protocol above: keeps what it gets, into buffers of a size of its own."""

    def __init__(self, *, buffer_size: int = 1000) -> None:
        self.received = bytearray()
        self.connection = None
        self.lost: list[Exception | None] = []
        self.writing_paused = False
        self.pause_after: int | None = None
        self._buffer = memoryview(bytearray(buffer_size))

    def connection_made(self, connection) -> None:
        self.connection = connection

    def get_buffer(self, size_hint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, size: int) -> None:
        self.received += self._buffer[:size]
        if self.pause_after is not None and len(self.received) >= self.pause_after:
            self.connection.pause_reading()

    def pause_writing(self) -> None:
        self.writing_paused = True

    def resume_writing(self) -> None:
        self.writing_paused = False

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.append(error)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tls")
    Security.ssl(users=["alice"]).prepare(made)
    return made


def stores(folder: Path, owner: str | None) -> dict[str, str | None]:
    values: dict[str, str | None] = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(folder / "ca.pem")}
    if owner is not None:
        values |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(folder / f"{owner}.pem")}
    return values


class Pair:
    """A client and a server layer with a loop between them."""

    def __init__(
        self,
        folder: Path,
        *,
        client_auth: str = "none",
        owner: str | None = None,
        chunk: int = 1 << 16,
        host: str = "localhost",
        curve: str | None = None,
        **more: str,
    ) -> None:
        self.loop = Loop(chunk=chunk)
        self.handshakes: list[SslHandshakeError | None] = []
        self.server_upper, self.client_upper = Upper(), Upper()
        files = OsFileSystem()
        context = server_context(stores(folder, "broker"), files, client_auth=client_auth)
        if curve is not None:
            context.set_ecdh_curve(curve)
        self.server_context = context
        self.server = SslTransportLayer(
            self.loop.runtime,
            context,
            self.server_upper,
            scratch=memoryview(bytearray(READ_SIZE_HINT)),
            server_side=True,
            on_handshake=lambda layer, error: self.handshakes.append(error),
        )
        self.client = SslTransportLayer(
            self.loop.runtime,
            client_context(stores(folder, owner) | more, files),
            self.client_upper,
            scratch=memoryview(bytearray(READ_SIZE_HINT)),
            server_side=False,
            server_hostname=host,
        )
        self.server_wire, self.client_wire = Wire(self.loop), Wire(self.loop)
        self.loop.wires = [self.server_wire, self.client_wire]
        for wire, other, layer in ((self.server_wire, self.client_wire, self.server), (self.client_wire, self.server_wire, self.client)):
            wire.other, wire.above = other, layer
        self.server.connection_made(self.server_wire)
        self.client.connection_made(self.client_wire)


@pytest.mark.parametrize("chunk", [1, 1 << 16])
def test_both_directions_also_byte_by_byte(folder: Path, chunk: int) -> None:
    pair = Pair(folder, chunk=chunk)
    pair.client.write([b"hel", memoryview(b"lo"), bytearray(b"!")])
    pair.loop.run()
    pair.server.write([b"welcome"])
    pair.loop.run()
    assert (bytes(pair.server_upper.received), bytes(pair.client_upper.received)) == (b"hello!", b"welcome")
    assert pair.handshakes == [None] and pair.server.peer_certificate() is None and "TLSv1.3" in pair.server.cipher()


def test_a_client_certificate_names_the_client(folder: Path) -> None:
    pair = Pair(folder, client_auth="required", owner="alice")
    pair.loop.run()
    certificate = pair.server.peer_certificate()
    assert certificate is not None and subject_of(certificate) == "CN=alice"


def certificates_sent(pair: Pair, *, by_client: bool = False) -> int:
    """How many certificates the server sent, or the client."""
    tls = (pair.server if by_client else pair.client)._tls
    return len((tls if hasattr(tls, "get_unverified_chain") else tls._sslobj).get_unverified_chain())


@pytest.mark.parametrize("client_auth", ["none", "requested", "required"])
@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("chunk", [1, 1 << 16])
def test_the_trusted_root_is_not_sent(folder: Path, client_auth: str, protocol: str, chunk: int) -> None:
    """The chain that is sent is the key store's, as Kafka's; OpenSSL would complete it."""
    more = {"ssl.enabled.protocols": protocol}
    pair = Pair(folder, client_auth=client_auth, owner="alice", chunk=chunk, **more)
    pair.loop.run()
    assert pair.handshakes == [None] and protocol in pair.server.cipher()
    assert certificates_sent(pair) == 1
    certificate = pair.server.peer_certificate()
    assert (certificate is None) == (client_auth == "none")
    assert certificate is None or subject_of(certificate) == "CN=alice"


def test_the_root_is_not_sent_and_clients_are_checked_after_a_second_hello_too(folder: Path) -> None:
    """A server that takes another group of keys than the client began with asks for a new hello."""
    pair = Pair(folder, client_auth="required", owner="alice", curve="secp521r1")
    assert isinstance(pair.server_context, LeafContext)
    pair.loop.run()
    assert pair.handshakes == [None] and certificates_sent(pair) == 1
    certificate = pair.server.peer_certificate()
    assert certificate is not None and subject_of(certificate) == "CN=alice"


@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
def test_a_client_adds_who_signed_a_certificate_that_comes_alone(folder: Path, tmp_path: Path, protocol: str) -> None:
    """A limit that docs/MIRRORING.md tells. A chain of two is sent as the key store has it."""
    Security.ssl(users=["mallory"]).prepare(tmp_path)
    two = tmp_path / "two.pem"
    two.write_bytes((folder / "alice.pem").read_bytes() + (tmp_path / "ca.pem").read_bytes())
    for store in (folder / "alice.pem", two):
        more = {"ssl.keystore.location": str(store), "ssl.enabled.protocols": protocol}
        pair = Pair(folder, client_auth="required", owner="alice", **more)
        pair.loop.run()
        assert pair.handshakes == [None] and certificates_sent(pair, by_client=True) == 2
        tls = pair.server._tls
        chain = (tls if hasattr(tls, "get_unverified_chain") else tls._sslobj).get_unverified_chain()
        last = chain[-1] if isinstance(chain[-1], bytes) else ssl.PEM_cert_to_DER_cert(chain[-1].public_bytes())
        signer = folder if store != two else tmp_path
        assert last == ssl.PEM_cert_to_DER_cert((signer / "ca.pem").read_text())


@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("curve", [None, "secp521r1"])
def test_a_client_of_another_authority_is_refused(folder: Path, tmp_path: Path, protocol: str, curve: str | None) -> None:
    Security.ssl(users=["mallory"]).prepare(tmp_path)
    own = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(tmp_path / "mallory.pem")}
    more = own | {"ssl.enabled.protocols": protocol}
    for client_auth in ("requested", "required"):
        pair = Pair(folder, client_auth=client_auth, curve=curve, **more)
        pair.loop.run()
        (error,) = pair.handshakes
        assert error is not None and not pair.server._established


class Slice:
    """A file slice in memory; `size` may promise more than there is."""

    def __init__(self, data: bytes, size: int | None = None) -> None:
        self.file = SimpleNamespace(pread=lambda size, position: data[position : position + size], path="data.log")
        self.position, self.size = 0, len(data) if size is None else size


def test_large_responses_wait_for_the_connection_below(folder: Path) -> None:
    pair = Pair(folder)
    pair.loop.run()
    pair.server_wire.held = True
    body, tail = bytes(range(256)) * 8_000, b"t" * 3_000_000
    pair.server.write([b"head", Slice(body), memoryview(tail)])
    assert pair.server.unsent_bytes >= len(body) + len(tail)
    pair.server.pause_writing()
    assert pair.server_upper.writing_paused
    queued = pair.server_wire.unsent_bytes
    pair.server.write([b"more"])
    assert pair.server_wire.unsent_bytes == queued
    pair.server_wire.held = False
    pair.loop.run()
    pair.server.resume_writing()
    pair.loop.run()
    assert bytes(pair.client_upper.received) == b"head" + body + tail + b"more"
    pair.server.write([b""])
    assert not pair.server_upper.writing_paused and pair.server.unsent_bytes == 0


def test_writing_goes_on_while_the_connection_below_still_holds_less_than_its_mark(folder: Path) -> None:
    """A response ended with 0.3 to 1 MB unsent below, where no mark is passed any more: writing
    stayed paused for ever.
    """
    pair = Pair(folder)
    pair.loop.run()
    pair.server_wire.held = True
    pair.server.pause_writing()
    pair.server.write([b"x" * 500_000])
    assert pair.server_upper.writing_paused
    pair.server.resume_writing()
    assert pair.server_wire.unsent_bytes > 500_000 and not pair.server_upper.writing_paused


def test_what_was_decrypted_waits_while_reading_is_paused(folder: Path) -> None:
    pair = Pair(folder)
    pair.loop.run()
    pair.server_upper.pause_after = 1_500
    pair.client.write([b"x" * 10_000])
    pair.loop.run()
    assert len(pair.server_upper.received) == 2_000
    pair.server_upper.pause_after = None
    pair.server.resume_reading()
    assert len(pair.server_upper.received) == 2_000  # never from inside resume_reading
    pair.loop.run()
    assert len(pair.server_upper.received) == 10_000


def test_a_slice_that_is_cut_short_aborts(folder: Path) -> None:
    pair = Pair(folder)
    pair.loop.run()
    pair.server.write([Slice(b"short", size=500)])
    assert pair.server_wire.closed
    pair.server.connection_lost(None)
    assert isinstance(pair.server_upper.lost[0], EOFError)


def test_closing_says_goodbye_after_what_is_unsent(folder: Path) -> None:
    pair = Pair(folder)
    pair.loop.run()
    pair.server.pause_writing()
    pair.server.write([b"last words"])
    pair.server.close()
    assert not pair.server_wire.closed
    pair.server.resume_writing()
    assert pair.server_wire.closed
    pair.loop.run()
    assert bytes(pair.client_upper.received) == b"last words"
    assert pair.client_wire.closed  # the goodbye was understood
    pair.client.connection_lost(None)
    assert pair.client_upper.lost == [None]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"host": "other.example"}, "Hostname mismatch"),
        ({"client_auth": "required"}, "handshake failed|alert"),
    ],
)
def test_handshakes_that_fail(folder: Path, settings: dict[str, str], expected: str) -> None:
    pair = Pair(folder, **settings)
    pair.client.write([b"too early"])
    pair.loop.run()
    failed = [error for error in pair.handshakes if error is not None]
    if "host" in settings:
        pair.client.connection_lost(None)
        error = pair.client_upper.lost[0]
        assert isinstance(error, SslHandshakeError) and expected in str(error)
        return
    assert failed and "SSL handshake failed: peer did not return a certificate" in str(failed[0])
    assert bytes(pair.server_upper.received) == b"" and not pair.server_wire.closed  # its owner closes later
    pair.server.close()
    assert pair.server_wire.closed


def test_no_host_name_is_checked_without_an_algorithm(folder: Path) -> None:
    pair = Pair(folder, host="other.example", **{"ssl.endpoint.identification.algorithm": ""})
    pair.client.write([b"hello"])
    pair.loop.run()
    assert bytes(pair.server_upper.received) == b"hello"


@pytest.mark.parametrize(
    "garbage", [b"\x00\x00\x00\x10plain kafka frame", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"\xff" * 100]
)
def test_garbage_instead_of_a_handshake(folder: Path, garbage: bytes) -> None:
    pair = Pair(folder)
    pair.server_wire.held = pair.client_wire.held = True
    pair.server.get_buffer(0)[: len(garbage)] = garbage
    pair.server.buffer_updated(len(garbage))
    assert len(pair.handshakes) == 1 and isinstance(pair.handshakes[0], SslHandshakeError)
    pair.server.buffer_updated(1)  # nothing is read any more
    assert len(pair.handshakes) == 1


def test_garbage_after_the_handshake_ends_the_connection(folder: Path) -> None:
    pair = Pair(folder)
    pair.loop.run()
    garbage = b"\x17\x03\x03\x00\x20" + b"x" * 32
    pair.server.get_buffer(0)[: len(garbage)] = garbage
    pair.server.buffer_updated(len(garbage))
    assert pair.server_wire.closed and pair.handshakes == [None]
