"""One connection of a `NetworkClient`: its frames, and the requests in flight on it. `client`
describes the rules, `node_api_versions` the versions and `client_login` the logins.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from kmirror.common.addresses import address_text
from kmirror.common.lasting_conditions import LastingConditions
from kmirror.common.ports import Buffer
from kmirror.network.client_errors import AuthenticationError, DisconnectError, RequestTimeoutError
from kmirror.network.client_login import ClientLogin
from kmirror.network.client_metrics import ClientMetrics
from kmirror.network.client_requests import AwaitedRequest, PostedRequest, RequestMessage
from kmirror.network.frames import FrameReader, InvalidReceiveError
from kmirror.network.node_api_versions import NodeApiVersions
from kmirror.network.security.authentication_errors import SslHandshakeError
from kmirror.runtime.api import Connection, Runtime, TimerHandle
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.framing import (
    FRAME_SIZE_BYTES,
    REQUEST_HEADER_FIELDS_BYTES,
    RequestHeader,
    api_spec,
    encode_request,
    frame_size,
    request_header_end,
    request_header_fields,
)

if TYPE_CHECKING:
    from kmirror.network.client_security import ClientChannelBuilder

MAX_RESPONSE_BYTES: Final = 2_147_483_647
MAX_FIRST_RESPONSE_BYTES: Final = 1 << 20
"""The limit until a peer has shown that it speaks Kafka's protocol. Read as a size, the beginning
of a TLS alert announces 352 MB, that of an HTTP response 1.2 GB.
"""
NO_REST: Final = -1
LONGEST_REST_MS: Final = 100
"""An answer waits in the socket for twice this time at most."""
FLEXIBLE_REQUEST_HEADER: Final = 2
"""From this version on a request header ends with tags."""
_CORRELATION_ID = struct.Struct(">i")
_CORRELATION_ID_BYTES: Final = _CORRELATION_ID.size


class ClientConnection:
    """A `ConnectionProtocol`, and the requests in flight on it."""

    def __init__(
        self,
        runtime: Runtime,
        host: str,
        port: int,
        *,
        client_id: str,
        software_version: str,
        metrics: ClientMetrics,
        scratch: memoryview,
        channel: Callable[[], ClientChannelBuilder | None],
        on_lost: Callable[[ClientConnection], None],
        refusals: LastingConditions,
    ) -> None:
        """All connections of a client share `metrics`, `scratch` and the refused logins. `channel()` gives the security
        of new logins.
        """
        self._runtime = runtime
        self.host = host
        self.port = port
        self.address = address_text(host, port)
        self._client_id = client_id
        self._software_version = software_version
        self._metrics = metrics
        self._on_lost = on_lost
        self._reader = FrameReader(self._on_frame, max_size=MAX_FIRST_RESPONSE_BYTES, scratch=scratch, reuse_large_frames=True)
        self._connection: Connection | None = None
        self._in_flight: deque[AwaitedRequest | PostedRequest] = deque()
        self._deadline_timer: TimerHandle | None = None
        self.after_answers: Callable[[], None] | None = None
        """Called when all that was received at a time is handled, if it held answers to posted requests;
        must not raise."""
        self._has_answers = False
        self._rest_until = NO_REST
        self._wakes_at = 1
        self._has_read = False
        self._rest_timer: TimerHandle | None = None
        self._header_ends: dict[tuple[int, int], bytes] = {}
        self._next_correlation_id = 0
        self._error: DisconnectError | None = None
        self._room: asyncio.Event = asyncio.Event()
        self._room.set()
        self.versions = NodeApiVersions(self.address)
        self._login = ClientLogin(
            runtime, host, port, versions=self.versions, metrics=metrics, channel=channel, exchange=self._exchange, refusals=refusals
        )
        self.last_active_ms = self._runtime.clock.monotonic_ms()

    @property
    def usable(self) -> bool:
        return self._error is None and self._login.done

    @property
    def takes_posts(self) -> bool:
        """Whether `post` may be called now: there is room to write, and no login is due."""
        return self._error is None and self._room.is_set() and self._login.allows_requests

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    # ConnectionProtocol

    def connection_made(self, connection: Connection) -> None:
        self._connection = connection
        self._metrics.opened()

    def get_buffer(self, size_hint: int) -> memoryview:
        return self._reader.get_buffer(size_hint)

    def buffer_updated(self, size: int) -> None:
        self._metrics.read(size)
        self.last_active_ms = self._runtime.clock.monotonic_ms()
        self._has_read = True
        try:
            self._reader.buffer_updated(size)
        except InvalidReceiveError as error:
            self.lose(DisconnectError(f"{self.address} does not speak Kafka's protocol: {error}"))
        if self._has_answers:
            self._has_answers = False
            self._rest_until = NO_REST
            if self.after_answers is not None:
                self.after_answers()
            if self._rest_until != NO_REST or self._wakes_at > 1:
                self._rest()

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    def connection_lost(self, error: Exception | None) -> None:
        if isinstance(error, SslHandshakeError):
            self.lose(self._login.refused_by_tls(error))
            return
        detail = f": {error}" if error is not None else ""
        self.lose(DisconnectError(f"{self.address} disconnected{detail}"))

    # Requests

    async def exchange(self, request: RequestMessage, version: int, deadline_ms: int) -> memoryview:
        """Sends a request and returns the response frame (from the correlation id on)."""
        while not self._room.is_set():
            await self._room.wait()
        if self._login.is_due:
            await self._unless_refused(self._login.log_in_again(deadline_ms))
        return await self._exchange(request, version, deadline_ms)

    async def _exchange(self, request: RequestMessage, version: int, deadline_ms: int) -> memoryview:
        correlation_id = self._write(request, version)
        response: asyncio.Future[memoryview] = self._runtime.create_future()
        delay_ms = max(0, deadline_ms - self._runtime.clock.monotonic_ms())
        timer = self._runtime.call_later_ms(delay_ms, lambda: self._time_out(correlation_id))
        self._in_flight.append(AwaitedRequest(correlation_id, request.API_KEY, response, timer))
        return await response

    async def until_it_takes_posts(self, deadline_ms: int) -> None:
        """Waits for room to write, and logs in again if that is due; raises what the connection was
        lost with.
        """
        while not self._room.is_set():
            await self._room.wait()
        if self._login.is_due:
            await self._unless_refused(self._login.log_in_again(deadline_ms))
        if self._error is not None:
            raise self._error

    def post(self, requests: Sequence[PostedRequest], *, timeout_ms: int) -> None:
        """Writes requests at once, in their order. Only while `takes_posts`."""
        now_ms = self._runtime.clock.monotonic_ms()
        parts: list[Buffer] = []
        sizes = []
        for request in requests:
            sizes.append(self._add_framed(request, parts))
            request.body = ()
            request.deadline_ms = now_ms + timeout_ms
            self._in_flight.append(request)
        self._metrics.wrote_all(sizes, now_ms)
        self._write_parts(parts, now_ms)
        if self._deadline_timer is None:
            self._deadline_timer = self._runtime.call_later_ms(timeout_ms, self._check_deadlines)

    def rest_until(self, in_flight: int) -> None:
        """Says, from `after_answers`, that there is nothing to do until no more than `in_flight` of
        the requests are unanswered: answers before that may be read together. Holds until the next
        answer is read.
        """
        self._rest_until = in_flight

    def _rest(self) -> None:
        """Asks for a wake-up when the last answer that is waited for begins to arrive.

        The first answer in flight may have been read in part; so it does not count.
        """
        size = 1
        if self._rest_until != NO_REST and self._error is None:
            for index in range(1, len(self._in_flight) - self._rest_until):
                request = self._in_flight[index]
                if not isinstance(request, PostedRequest) or not request.least_answer_bytes:
                    size = 1
                    break
                size += request.least_answer_bytes
        self._wake_at(size)

    def _wake_at(self, size: int) -> None:
        if size == self._wakes_at or self._connection is None:
            return
        self._wakes_at = size if self._connection.wake_at(size) else 1
        if self._wakes_at > 1 and self._rest_timer is None:
            self._rest_timer = self._runtime.call_later_ms(LONGEST_REST_MS, self._check_rest)

    def _check_rest(self) -> None:
        """Reads what has come, if nothing was read for some time."""
        self._rest_timer = None
        if self._wakes_at == 1 or self._error is not None:
            return
        if not self._has_read:
            self._wake_at(1)
            return
        self._has_read = False
        self._rest_timer = self._runtime.call_later_ms(LONGEST_REST_MS, self._check_rest)

    def post_one_way(self, request: PostedRequest) -> None:
        """Writes a request that has no response (Produce with acks=0). Only while `takes_posts`."""
        now_ms = self._runtime.clock.monotonic_ms()
        parts: list[Buffer] = []
        self._metrics.wrote(self._add_framed(request, parts), now_ms)
        self._write_parts(parts, now_ms)

    def _write_parts(self, parts: list[Buffer], now_ms: int) -> None:
        connection = self._connection
        assert connection is not None and self._error is None, "a request was posted on a connection that takes none"
        self.last_active_ms = now_ms
        connection.write(parts)

    def _add_framed(self, request: PostedRequest, parts: list[Buffer]) -> int:
        """Adds a request behind its header; returns the frame's size."""
        api_key, version, body = request.api_key, request.version, request.body
        end = self._header_ends.get((api_key, version))
        if end is None:
            is_flexible = api_spec(api_key).request_header_version(version) >= FLEXIBLE_REQUEST_HEADER
            end = self._header_ends[api_key, version] = request_header_end(self._client_id, is_flexible=is_flexible)
        request.correlation_id = correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        size = REQUEST_HEADER_FIELDS_BYTES + len(end) + request.size
        parts.append(b"".join((request_header_fields(size, api_key, version, correlation_id), end, body[0])))
        parts += body[1:]
        return size + FRAME_SIZE_BYTES

    def _check_deadlines(self) -> None:
        """Runs when the first posted request may be late; waits on for the next one otherwise."""
        self._deadline_timer = None
        now_ms = self._runtime.clock.monotonic_ms()
        for request in self._in_flight:
            if isinstance(request, PostedRequest):
                if request.deadline_ms <= now_ms:
                    self._time_out(request.correlation_id)
                else:
                    self._deadline_timer = self._runtime.call_later_ms(request.deadline_ms - now_ms, self._check_deadlines)
                return

    def _take_correlation_id(self) -> int:
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        return correlation_id

    def _write(self, request: RequestMessage, version: int) -> int:
        if self._error is not None:
            raise self._error
        assert self._connection is not None, "a request was sent before the connection was made"
        self._wake_at(1)
        correlation_id = self._take_correlation_id()
        header = RequestHeader(request.API_KEY, version, correlation_id, self._client_id)
        frame = encode_request(header, request)
        self._connection.write(frame)
        self.last_active_ms = self._runtime.clock.monotonic_ms()
        self._metrics.wrote(frame_size(frame), self.last_active_ms)
        return correlation_id

    def _on_frame(self, frame: memoryview) -> None:
        correlation_id: int = _CORRELATION_ID.unpack_from(frame)[0] if len(frame) >= _CORRELATION_ID_BYTES else -1
        if not self._in_flight or self._in_flight[0].correlation_id != correlation_id:
            expected = self._in_flight[0].correlation_id if self._in_flight else "none"
            self.lose(DisconnectError(f"{self.address} answered request {correlation_id}, but the answer to {expected} was expected"))
            return
        request = self._in_flight.popleft()
        self._metrics.responses += 1
        self._has_answers = True
        request.answered(frame)

    def _time_out(self, correlation_id: int) -> None:
        late = next((request for request in self._in_flight if request.correlation_id == correlation_id), None)
        if late is not None:
            self._in_flight.remove(late)
        if late is None:
            self.lose(DisconnectError(f"disconnected from {self.address} because a request timed out"))
            return
        text = f"{self.address} did not answer {ApiKeys(late.api_key).name} in time"
        lost = DisconnectError(f"disconnected because {text}")
        timeout = RequestTimeoutError(text)
        if isinstance(late, AwaitedRequest):
            late.failed(timeout)
            self.lose(lost)
        else:
            self.lose(lost)
            late.failed(timeout)

    def lose(self, error: DisconnectError) -> None:
        """Ends the connection; every request in flight fails with `error`."""
        if self._error is not None:
            return
        self._error = error
        self._reader.close()
        self._room.set()
        if self._connection is not None:
            self._connection.abort()
            self._metrics.closed()
        self._on_lost(self)
        for timer in (self._deadline_timer, self._rest_timer):
            if timer is not None:
                timer.cancel()
        self._deadline_timer = self._rest_timer = None
        while self._in_flight:
            self._in_flight.popleft().failed(error)

    # The first requests

    async def negotiate(self, deadline_ms: int) -> None:
        await self.versions.ask(lambda request, version: self.exchange(request, version, deadline_ms), self._software_version)
        self._reader.set_max_size(MAX_RESPONSE_BYTES)

    async def log_in(self, deadline_ms: int) -> None:
        """Logs in for the first time. The connection is usable afterwards."""
        await self._unless_refused(self._login.log_in(deadline_ms))

    async def _unless_refused(self, login: Awaitable[None]) -> None:
        try:
            await login
        except AuthenticationError as error:
            self.lose(error)
            raise
