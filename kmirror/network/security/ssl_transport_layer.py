"""TLS as a filter: a `ConnectionProtocol` to the connection below, a `Connection` to the protocol
above. OpenSSL works on memory, so nothing here blocks.

    socket ─> get_buffer/buffer_updated ─> incoming BIO ─> read ─> the protocol above
    write(parts) ─> queue ─> write ─> outgoing BIO ─> the connection below

The protocol above is told about its connection at once, before the handshake, because connections
are counted when they are accepted. What it writes before the handshake is done waits. File slices
are read into memory, because the kernel cannot encrypt them, and only as fast as the connection
below takes bytes: a large response is never encrypted as a whole. Bytes that arrive while the
protocol above has paused reading wait inside OpenSSL. They go up from a separate callback, never
from inside `resume_reading`.

After a failed handshake the layer sends its alert, reads no more, and calls `on_handshake`, whose
owner closes it. Without `on_handshake` the connection ends with `SslHandshakeError`.
"""

from __future__ import annotations

import ssl
from collections import deque
from collections.abc import Callable, Sequence
from typing import cast

from kmirror.common.ports import Buffer, FileSlice
from kmirror.network.security.authentication_errors import SslHandshakeError
from kmirror.runtime.api import WRITE_HIGH_WATER_BYTES, WRITE_LOW_WATER_BYTES, Connection, ConnectionProtocol, Runtime

READ_SIZE_HINT = 1 << 16
CHUNK_BYTES = 1 << 16


class SslTransportLayer:
    """The TLS of one connection. `on_handshake(layer, error)` is called once, with None if the
    handshake succeeded.

    Bytes are received into `scratch`. The layers of one owner share it, because nothing in it
    outlives `buffer_updated`.
    """

    def __init__(
        self,
        runtime: Runtime,
        context: ssl.SSLContext,
        protocol: ConnectionProtocol,
        *,
        scratch: memoryview,
        server_side: bool,
        server_hostname: str | None = None,
        on_handshake: Callable[[SslTransportLayer, SslHandshakeError | None], None] | None = None,
    ) -> None:
        self._runtime = runtime
        self._protocol = protocol
        self._on_handshake = on_handshake
        self._scratch = scratch
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server_side, server_hostname=server_hostname)
        self._lower: Connection | None = None
        self._established = False
        self._failed: SslHandshakeError | ssl.SSLError | EOFError | None = None
        self._queue: deque[memoryview | FileSlice] = deque()
        self._slice_position = 0
        self._queued_bytes = 0
        self._lower_paused = False
        self._writing_paused = False
        self._reading_paused = False
        self._closing = False

    @property
    def protocol(self) -> ConnectionProtocol:
        """The protocol above."""
        return self._protocol

    def peer_certificate(self) -> bytes | None:
        """The peer's verified certificate as DER; None if it sent none."""
        return self._tls.getpeercert(binary_form=True)

    def cipher(self) -> str:
        """Suite and protocol version, for logs."""
        name, version, _ = self._tls.cipher() or ("none", "none", 0)
        return f"{version} {name}"

    # ConnectionProtocol

    def connection_made(self, connection: Connection) -> None:
        self._lower = connection
        self._protocol.connection_made(self)
        if not self._closing:
            self._advance()

    def get_buffer(self, _size_hint: int) -> memoryview:
        return self._scratch

    def buffer_updated(self, size: int) -> None:
        if self._failed is None:
            self._incoming.write(self._scratch[:size])
            self._advance()

    def pause_writing(self) -> None:
        self._lower_paused = True
        self._check_water_marks()

    def resume_writing(self) -> None:
        self._lower_paused = False
        self._pump()

    def connection_lost(self, error: Exception | None) -> None:
        self._closing = True
        self._queue.clear()
        self._queued_bytes = 0
        self._protocol.connection_lost(self._failed or error)

    # Connection

    @property
    def peer_address(self) -> tuple[str, int]:
        return self._below.peer_address

    @property
    def local_address(self) -> tuple[str, int]:
        return self._below.local_address

    @property
    def unsent_bytes(self) -> int:
        return self._queued_bytes + self._below.unsent_bytes

    @property
    def is_closing(self) -> bool:
        return self._closing

    def write(self, parts: Sequence[Buffer | FileSlice]) -> None:
        if self._closing:
            return
        for part in parts:
            if isinstance(part, (bytes, bytearray, memoryview)):
                view = memoryview(part).cast("B")
                if view.nbytes:
                    self._queue.append(view)
                    self._queued_bytes += view.nbytes
            elif part.size:
                self._queue.append(part)
                self._queued_bytes += part.size
        self._pump()

    def pause_reading(self) -> None:
        self._reading_paused = True
        self._below.pause_reading()

    def resume_reading(self) -> None:
        if self._reading_paused and self._failed is None:
            self._reading_paused = False
            self._below.resume_reading()
            self._runtime.call_soon(self._read_on)

    def wake_at(self, size: int) -> bool:
        return False

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self._below.pause_reading()
        if not self._queue or not self._established:
            self._say_goodbye()

    def abort(self) -> None:
        self._closing = True
        self._queue.clear()
        self._queued_bytes = 0
        self._below.abort()

    # Inside

    @property
    def _below(self) -> Connection:
        assert self._lower is not None, "the layer was used before its connection was made"
        return self._lower

    def _advance(self) -> None:
        if not self._established and not self._shake_hands():
            return
        self._read_on()

    def _shake_hands(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return False
        except (ssl.SSLError, ssl.CertificateError) as error:
            self._fail(SslHandshakeError(f"SSL handshake failed: {_reason(error)}"))
            return False
        self._established = True
        self._flush()
        if self._on_handshake is not None:
            self._on_handshake(self, None)
        self._pump()
        return not self._closing

    def _read_on(self) -> None:
        """Passes up decrypted bytes until the protocol above pauses reading."""
        protocol = self._protocol
        read = cast(Callable[[int, memoryview], int], self._tls.read)  # with a buffer it returns a size
        while self._established and not self._reading_paused and not self._closing:
            buffer = protocol.get_buffer(READ_SIZE_HINT)
            try:
                size = read(len(buffer), buffer)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLZeroReturnError:
                self.close()
                return
            except ssl.SSLError as error:
                self._fail(error)
                return
            del buffer
            if size == 0:
                self.close()
                return
            protocol.buffer_updated(size)
        self._flush()

    def _fail(self, error: SslHandshakeError | ssl.SSLError) -> None:
        """Sends the alert. After a failed handshake the owner closes later; otherwise the
        connection ends.
        """
        self._failed = error
        self._flush()
        self._below.pause_reading()
        if isinstance(error, SslHandshakeError) and self._on_handshake is not None:
            self._on_handshake(self, error)
            return
        self._closing = True
        self._below.close()

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._below.write([self._outgoing.read()])

    def _pump(self) -> None:
        """Encrypts the queue, as far as the connection below takes bytes."""
        while self._queue and self._established and not self._lower_paused:
            try:
                chunk = self._next_chunk()
            except (OSError, EOFError, ValueError) as error:  # ValueError: the file of a slice was closed meanwhile
                self._failed = EOFError(str(error))
                self.abort()
                return
            try:
                self._tls.write(chunk)
            except ssl.SSLError as error:  # the peer ended the session
                self._fail(error)
                return
            self._queued_bytes -= len(chunk)
            self._flush()
        if self._closing and not self._queue:
            self._say_goodbye()
            return
        self._check_water_marks()

    def _next_chunk(self) -> Buffer:
        """The next bytes to encrypt. Small parts are joined, so that they share a TLS record."""
        first = self._queue[0]
        if not isinstance(first, memoryview):
            return self._read_slice(first)
        if first.nbytes > CHUNK_BYTES:
            self._queue[0] = first[CHUNK_BYTES:]
            return first[:CHUNK_BYTES]
        chunk = bytearray()
        while self._queue and isinstance(part := self._queue[0], memoryview) and len(chunk) + part.nbytes <= CHUNK_BYTES:
            chunk += part
            self._queue.popleft()
        return chunk

    def _read_slice(self, part: FileSlice) -> bytes:
        size = min(CHUNK_BYTES, part.size - self._slice_position)
        data = part.file.pread(size, part.position + self._slice_position)
        if len(data) < size:
            raise EOFError(f"{part.file.path} ends before position {part.position + part.size}, which was promised to a peer")
        self._slice_position += size
        if self._slice_position == part.size:
            self._slice_position = 0
            self._queue.popleft()
        return data

    def _check_water_marks(self) -> None:
        """Pauses and resumes the protocol above, by our queue and the state below: the connection
        below does not report when the last bytes fall under our own mark.
        """
        if not self._writing_paused and (self._lower_paused or self._queued_bytes > WRITE_HIGH_WATER_BYTES):
            self._writing_paused = True
            self._protocol.pause_writing()
        elif self._writing_paused and not self._lower_paused and self._queued_bytes <= WRITE_LOW_WATER_BYTES:
            self._writing_paused = False
            self._protocol.resume_writing()

    def _say_goodbye(self) -> None:
        if self._established and self._failed is None:
            try:
                self._tls.unwrap()
            except ssl.SSLError:
                pass  # the peer's close_notify is not awaited
        self._flush()
        self._below.close()


def _reason(error: ssl.SSLError | ssl.CertificateError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return str(error.verify_message)
    return str(error.reason or error).replace("_", " ").lower()
