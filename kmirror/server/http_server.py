"""A small HTTP/1.1 server for operators: GET and HEAD of a few fixed paths, over the runtime's
connections.

It knows request lines and headers and nothing else. A body, another method, a line that is not
HTTP, or a head of more than 8 KiB is answered with the status for it, and the connection is closed.
Connections are kept alive and are closed after a minute without a request. A route returns a
response at once or in steps: a generator that the loop runs between other work, so that the metrics
of ten thousand partitions delay nobody. Requests on one connection are answered one after the
other.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import NamedTuple

from kmirror.runtime.api import Connection, ListeningSocket, Runtime, TimerHandle

MAX_HEAD_BYTES = 8_192
IDLE_MS = 60_000
_BUFFER_BYTES = 4_096
_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}


class HttpResponse(NamedTuple):
    """`body` is a list of parts, sent one after the other."""

    status: int
    content_type: str
    body: list[bytes]


Steps = Generator[None, None, HttpResponse]
Route = Callable[[], HttpResponse | Steps]


def plain(status: int, text: str) -> HttpResponse:
    return HttpResponse(status, "text/plain; charset=utf-8", [f"{text}\n".encode()])


class HttpServer:
    """Owns the listening socket and its connections; `start` binds, and `port` is the bound
    port.
    """

    def __init__(self, runtime: Runtime, host: str, port: int, routes: Mapping[str, Route]) -> None:
        self._runtime = runtime
        self._host = host
        self._port = port
        self._routes = dict(routes)
        self._listening: ListeningSocket | None = None
        self._connections: dict[_HttpConnection, None] = {}

    @property
    def port(self) -> int:
        return self._port if self._listening is None else self._listening.port

    async def start(self) -> None:
        self._listening = await self._runtime.listen(self._host, self._port, lambda: _HttpConnection(self))

    def stop(self) -> None:
        if self._listening is not None:
            self._listening.close()
        for connection in list(self._connections):
            connection.close()

    # What connections need from the server

    def add(self, connection: _HttpConnection) -> None:
        self._connections[connection] = None

    def remove(self, connection: _HttpConnection) -> None:
        self._connections.pop(connection, None)

    def call_when_idle(self, function: Callable[[], None]) -> TimerHandle:
        return self._runtime.call_later_ms(IDLE_MS, function)

    def call_soon(self, function: Callable[[], None]) -> None:
        self._runtime.call_soon(function)

    def respond(self, path: str) -> HttpResponse | Steps:
        route = self._routes.get(path.partition("?")[0])
        return plain(404, f"There is no {path}; the paths are {', '.join(sorted(self._routes))}") if route is None else route()


class _HttpConnection:
    """A `ConnectionProtocol` that collects a request head, answers it, and begins again."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._connection: Connection | None = None
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._received = bytearray()
        self._idle: TimerHandle | None = None
        self._is_answering = False
        self._is_full = False

    def connection_made(self, connection: Connection) -> None:
        self._connection = connection
        self._server.add(self)
        self._restart_idle_timer()

    def get_buffer(self, size_hint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, size: int) -> None:
        self._received += self._buffer[:size]
        self._restart_idle_timer()
        self._answer_all()

    def _answer_all(self) -> None:
        while self._may_answer():
            head, separator, rest = self._received.partition(b"\r\n\r\n")
            if not separator:
                if len(self._received) > MAX_HEAD_BYTES:
                    self._send(plain(431, "The head of a request must not be larger than 8 KiB."), keep_alive=False)
                break
            self._received = bytearray(rest)
            self._answer(bytes(head))
        self._regulate_reading()

    def _may_answer(self) -> bool:
        return self._connection is not None and not self._connection.is_closing and not self._is_answering and not self._is_full

    def _regulate_reading(self) -> None:
        """Stops reading from a client that sends on without waiting for answers or without reading
        them.
        """
        if self._connection is None or self._connection.is_closing:
            return
        if len(self._received) > MAX_HEAD_BYTES:
            self._connection.pause_reading()
        else:
            self._connection.resume_reading()

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._answer_all()

    def connection_lost(self, error: Exception | None) -> None:
        self._stop_idle_timer()
        self._server.remove(self)
        self._connection = None

    def close(self) -> None:
        self._stop_idle_timer()
        if self._connection is not None:
            self._connection.close()

    def _answer(self, head: bytes) -> None:
        lines = head.decode("latin-1").split("\r\n")
        request = lines[0].split(" ")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        if len(request) != 3 or not request[1].startswith("/"):
            self._send(plain(400, "This is not an HTTP request."), keep_alive=False)
            return
        method, path, version = request
        if version not in ("HTTP/1.0", "HTTP/1.1"):
            self._send(plain(505, "Only HTTP/1.1 is supported."), keep_alive=False)
        elif method not in ("GET", "HEAD") or headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            self._send(plain(405, "Only GET and HEAD requests without a body are supported."), keep_alive=False)
        else:
            wish = headers.get("connection", "").lower()
            keep_alive = wish != "close" if version == "HTTP/1.1" else wish == "keep-alive"
            response = self._server.respond(path)
            if isinstance(response, HttpResponse):
                self._send(response, keep_alive=keep_alive, with_body=method == "GET")
            else:
                self._is_answering = True
                self._run_step(response, keep_alive=keep_alive, with_body=method == "GET")

    def _run_step(self, steps: Steps, *, keep_alive: bool, with_body: bool) -> None:
        """Runs one step now and the next in a later turn of the loop.

        After the last step it sends the response and answers what has arrived meanwhile.
        """
        if self._connection is None or self._connection.is_closing:
            steps.close()
            return
        try:
            next(steps)
        except StopIteration as done:
            self._is_answering = False
            self._send(done.value, keep_alive=keep_alive, with_body=with_body)
            self._answer_all()
        else:
            self._server.call_soon(lambda: self._run_step(steps, keep_alive=keep_alive, with_body=with_body))

    def _send(self, response: HttpResponse, *, keep_alive: bool, with_body: bool = True) -> None:
        if self._connection is None:
            return
        head = (
            f"HTTP/1.1 {response.status} {_REASONS[response.status]}\r\nContent-Type: {response.content_type}\r\n"
            f"Content-Length: {sum(map(len, response.body))}\r\nConnection: {'keep-alive' if keep_alive else 'close'}\r\n"
            f"{'Allow: GET, HEAD' + chr(13) + chr(10) if response.status == 405 else ''}\r\n"
        )
        self._connection.write([head.encode("latin-1"), *(response.body if with_body else ())])
        if not keep_alive:
            self.close()

    def _restart_idle_timer(self) -> None:
        self._stop_idle_timer()
        self._idle = self._server.call_when_idle(self.close)

    def _stop_idle_timer(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
