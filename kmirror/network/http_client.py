"""One GET over HTTP/1.1, plain or over TLS. Client and listener security fetch the key sets of
token issuers with it.

Each request has its own connection. A body is as long as Content-Length says, comes in chunks, or
ends with the connection. Redirects are not followed. HttpError if the response is not HTTP, is
longer than MAX_BODY_BYTES, or has a status other than 200.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kmirror.common.errors import KmirrorError
from kmirror.runtime.api import Connection, ConnectionProtocol, Runtime

if TYPE_CHECKING:
    import ssl

MAX_HEAD_BYTES = 64 * 1024
MAX_BODY_BYTES = 16 * 1024 * 1024
_BUFFER_BYTES = 16 * 1024


class HttpError(KmirrorError):
    """There was no response, or not an acceptable one."""


async def http_get(runtime: Runtime, url: str, *, context: ssl.SSLContext | None, timeout_ms: int) -> bytes:
    """Returns the body at an http: or https: URL; https: needs `context`. HttpError if that
    fails.
    """
    parts = urlsplit(url)
    host, is_tls = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if is_tls else 80)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    getting = _Get(runtime, f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAccept: */*\r\nConnection: close\r\n\r\n".encode())
    timer = runtime.call_later_ms(timeout_ms, lambda: getting.end(HttpError(f"{url} did not answer in {timeout_ms} ms")))
    connecting = runtime.spawn(runtime.connect(host, port, lambda: _over_tls(runtime, getting, context, host)), name=f"http-{host}")
    connecting.add_done_callback(getting.on_connected)
    try:
        return await getting.body
    except HttpError as error:
        raise HttpError(f"{url}: {error}") from error
    finally:
        timer.cancel()
        connecting.cancel()
        getting.close()


def _over_tls(runtime: Runtime, protocol: _Get, context: ssl.SSLContext | None, host: str) -> ConnectionProtocol:
    if context is None:
        return protocol
    from kmirror.network.security.ssl_transport_layer import SslTransportLayer

    scratch = memoryview(bytearray(_BUFFER_BYTES))
    return SslTransportLayer(runtime, context, protocol, scratch=scratch, server_side=False, server_hostname=host)


class _Get:
    """A `ConnectionProtocol`: sends the request, collects the response."""

    def __init__(self, runtime: Runtime, request: bytes) -> None:
        self.body: asyncio.Future[bytes] = runtime.create_future()
        self._request = request
        self._connection: Connection | None = None
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._received = bytearray()

    def on_connected(self, connecting: asyncio.Task[object]) -> None:
        error = None if connecting.cancelled() else connecting.exception()
        if error is not None:
            self.end(HttpError(f"no connection: {getattr(error, 'strerror', None) or error}"))

    def end(self, result: bytes | HttpError) -> None:
        if self.body.done():
            return
        if isinstance(result, HttpError):
            self.body.set_exception(result)
        else:
            self.body.set_result(result)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.abort()

    # ConnectionProtocol

    def connection_made(self, connection: Connection) -> None:
        self._connection = connection
        connection.write([self._request])

    def get_buffer(self, size_hint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, size: int) -> None:
        self._received += self._buffer[:size]
        self._read(at_end=False)

    def pause_writing(self) -> None:
        return

    def resume_writing(self) -> None:
        return

    def connection_lost(self, error: Exception | None) -> None:
        self._read(at_end=error is None)
        self.end(HttpError(f"the connection was lost{f': {error}' if error is not None else ''}"))

    def _read(self, *, at_end: bool) -> None:
        try:
            body = response_body(bytes(self._received), at_end=at_end)
        except HttpError as error:
            self.end(error)
        else:
            if body is not None:
                self.end(body)


def response_body(received: bytes, *, at_end: bool) -> bytes | None:
    """The body once it is complete, None while more has to come; HttpError if the response is not
    acceptable.
    """
    head, separator, rest = received.partition(b"\r\n\r\n")
    if not separator:
        if len(received) > MAX_HEAD_BYTES:
            raise HttpError("the response is not HTTP")
        return None
    lines = head.decode("latin-1").split("\r\n")
    version, _, status = lines[0].partition(" ")
    if not version.startswith("HTTP/1.") or not status[:3].isdigit():
        raise HttpError("the response is not HTTP")
    if status[:3] != "200":
        raise HttpError(f"the response is {status.strip()}")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    if len(rest) > MAX_BODY_BYTES:
        raise HttpError(f"the response is larger than {MAX_BODY_BYTES} bytes")
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return _chunks(rest)
    length = headers.get("content-length")
    if length is None:
        return rest if at_end else None
    if not length.isdigit():
        raise HttpError("the response is not HTTP")
    return rest[: int(length)] if len(rest) >= int(length) else None


def _chunks(data: bytes) -> bytes | None:
    body = bytearray()
    position = 0
    while True:
        end = data.find(b"\r\n", position)
        if end < 0:
            return None
        try:
            size = int(data[position:end].split(b";")[0], 16)
        except ValueError as error:
            raise HttpError("the response is not HTTP") from error
        if size == 0:
            return bytes(body)
        if len(data) < end + 2 + size + 2:
            return None
        body += data[end + 2 : end + 2 + size]
        position = end + 2 + size + 2
