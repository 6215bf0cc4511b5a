"""Requests to other nodes: cached connections, version negotiation, timeouts, one exception for every way of losing a peer.

A connection belongs to (host, port, connection key); callers whose requests wait long at the peer (fetch) use a key of
their own, for a Kafka broker answers the requests of a connection one after the other. Several requests may be in
flight; responses are matched in order and by correlation id.

Versions. The first exchange on a connection is ApiVersions. A request goes out in the highest version that the peer
and we know, below `max_version` where the caller sets one; `UnsupportedVersionError` where there is none. A peer that
does not know our version of ApiVersions says so in version 0 and is asked again in one it knows.

Failure. A request that is not answered in time raises `RequestTimeoutError` and ends the connection, as in Kafka: what
waits behind it would not be answered either. A lost connection fails all its requests with `DisconnectError`. After a
failed attempt, and only then, the next attempt waits: 50 ms, doubling to 1 s, with 20 percent of jitter
(reconnect.backoff.ms, reconnect.backoff.max.ms). Waiting counts towards the request's timeout.

Security. With a `ClientSecurity` a connection is made over TLS, and logs in after the exchange of versions (SaslHandshake v1,
SaslAuthenticate); a refusal is an `AuthenticationError`, which is a `DisconnectError` whose text says what the peer said. Where the
peer limits the life of a login (KIP-368), the connection logs in again before the first request after 85 to 95 percent of
it; requests wait meanwhile, those in flight are answered first.

The records of a large response are views into its frame; the frame lives as long as they do, and its memory serves a later one only then.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol

from kmirror.common.errors import ConfigError, Errors, KmirrorError
from kmirror.network.client_metrics import ClientMetrics
from kmirror.network.client_security import ClientChannelBuilder, ClientSecurity
from kmirror.network.frames import FrameReader, InvalidReceiveError, new_scratch
from kmirror.network.security.authentication_errors import SaslError, SslHandshakeError
from kmirror.runtime.api import Connection, ConnectionProtocol, Runtime, TimerHandle
from kmirror.wire.api_keys import API_TABLE, ApiKeys, Message
from kmirror.wire.framing import RequestHeader, encode_request, frame_size, read_response
from kmirror.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

CLIENT_SOFTWARE_NAME: Final = "kmirror"
MAX_RESPONSE_BYTES: Final = 2_147_483_647
BACKOFF_JITTER: Final = 0.2
MAX_BACKOFF_DOUBLINGS: Final = 16
REAUTHENTICATION_WINDOW: Final = 0.85
REAUTHENTICATION_JITTER: Final = 0.1
NEVER_MS: Final = 1 << 62
_CORRELATION_ID_BYTES: Final = 4
_log = logging.getLogger(__name__)


class DisconnectError(KmirrorError):
    """The connection could not be made, or was lost before the response came. The request may have been carried out."""


class AuthenticationError(DisconnectError):
    """The peer refused our login, or we its certificate. Trying again with the same credentials does not help."""


class RequestTimeoutError(KmirrorError):
    """No response in time. The request may have been carried out, or still be."""


class UnsupportedVersionError(KmirrorError):
    """The peer and we have no version of this API in common."""


class RequestMessage(Message, Protocol):
    """A generated request class."""

    API_KEY: ClassVar[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Kafka's client settings of the same names."""

    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    connections_max_idle_ms: int = 540_000
    socket_connection_setup_timeout_ms: int = 10_000
    client_software_version: str = "0.1.0"


class NetworkClient:
    """One node's client side. All methods on the loop's thread. ConfigError when the stores that `security` names cannot be read."""

    def __init__(
        self,
        runtime: Runtime,
        client_id: str,
        *,
        settings: ClientSettings | None = None,
        security: ClientSecurity = ClientSecurity.PLAINTEXT,
    ) -> None:
        self._runtime = runtime
        self._client_id = client_id
        self._settings = settings or ClientSettings()
        self._channel = None if security.security_protocol == "PLAINTEXT" else ClientChannelBuilder(security, runtime)
        self._scratch = new_scratch()
        self.metrics = ClientMetrics(runtime.clock)
        self._nodes: dict[tuple[str, int, str], _Node] = {}
        self._closed = False

    @property
    def client_id(self) -> str:
        return self._client_id

    async def send(
        self,
        host: str,
        port: int,
        request: RequestMessage,
        *,
        timeout_ms: int,
        version: int | None = None,
        max_version: int | None = None,
        connection_key: str = "",
    ) -> Any:
        """Send `request` and return the decoded response (the API's generated response class)."""
        deadline_ms = self._runtime.clock.monotonic_ms() + timeout_ms
        connection = await self._ready(host, port, connection_key, deadline_ms)
        chosen = connection.choose_version(request.API_KEY, version=version, max_version=max_version)
        frame = await connection.exchange(request, chosen, deadline_ms)
        return read_response(request.API_KEY, chosen, frame)[1]

    async def send_one_way(
        self, host: str, port: int, request: RequestMessage, *, timeout_ms: int, version: int | None = None, connection_key: str = ""
    ) -> None:
        """Send a request that has no response (Produce with acks=0)."""
        deadline_ms = self._runtime.clock.monotonic_ms() + timeout_ms
        connection = await self._ready(host, port, connection_key, deadline_ms)
        chosen = connection.choose_version(request.API_KEY, version=version, max_version=None)
        await connection.send_one_way(request, chosen, deadline_ms)

    async def api_version(
        self, host: str, port: int, api_key: int, *, timeout_ms: int, max_version: int | None = None, connection_key: str = ""
    ) -> int:
        """The version in which `send` would ask this API; for requests whose content depends on it."""
        connection = await self._ready(host, port, connection_key, self._runtime.clock.monotonic_ms() + timeout_ms)
        return connection.choose_version(api_key, version=None, max_version=max_version)

    async def api_versions(self, host: str, port: int, *, timeout_ms: int, connection_key: str = "") -> ApiVersionsResponse:
        """What the peer said of itself when the connection was made (ranges, features)."""
        connection = await self._ready(host, port, connection_key, self._runtime.clock.monotonic_ms() + timeout_ms)
        return connection.peer

    def disconnect(self, host: str, port: int, *, connection_key: str = "") -> None:
        """Drop a connection, failing what waits on it; the next request makes a new one."""
        node = self._nodes.get((host, port, connection_key))
        if node is not None and node.connection is not None:
            node.connection.lose(DisconnectError(f"connection to {host}:{port} was closed by its owner"))

    def close(self) -> None:
        """Drop every connection; requests that wait, and any sent later, fail with DisconnectError."""
        self._closed = True
        for node in self._nodes.values():
            if node.attempt is not None:
                node.attempt.cancel()
            if node.connection is not None:
                node.connection.lose(DisconnectError("the client is closed"))

    # Connections

    async def _ready(self, host: str, port: int, connection_key: str, deadline_ms: int) -> _ClientConnection:
        if self._closed:
            raise DisconnectError("the client is closed")
        key = (host, port, connection_key)
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = _Node(host, port)
        connection = node.connection
        if connection is not None and connection.usable:
            if not self._idle_too_long(connection):
                return connection
            connection.lose(DisconnectError(f"connection to {host}:{port} was idle for too long"))
        return await self._connected(node, deadline_ms)

    def _idle_too_long(self, connection: _ClientConnection) -> bool:
        idle_ms = self._runtime.clock.monotonic_ms() - connection.last_active_ms
        return connection.in_flight == 0 and idle_ms >= self._settings.connections_max_idle_ms

    async def _connected(self, node: _Node, deadline_ms: int) -> _ClientConnection:
        """One attempt at a time for each node; all who wait share its outcome."""
        attempt = node.attempt
        if attempt is None:
            attempt = node.attempt = self._runtime.spawn(self._attempt(node), name=f"connect-{node.host}:{node.port}")
            attempt.add_done_callback(node.attempt_done)
        outcome = self._runtime.create_future()

        def pass_on(task: asyncio.Task[_ClientConnection]) -> None:
            if outcome.done():
                return
            if task.cancelled():
                outcome.set_exception(DisconnectError(f"connecting to {node.host}:{node.port} was given up"))
                return
            error = task.exception()
            if error is None:
                outcome.set_result(task.result())
            else:
                outcome.set_exception(error)

        def time_out() -> None:
            if not outcome.done():
                outcome.set_exception(RequestTimeoutError(f"no connection to {node.host}:{node.port} in time"))

        attempt.add_done_callback(pass_on)
        timer = self._runtime.call_later_ms(max(0, deadline_ms - self._runtime.clock.monotonic_ms()), time_out)
        try:
            connection: _ClientConnection = await outcome
            return connection
        finally:
            timer.cancel()

    async def _attempt(self, node: _Node) -> _ClientConnection:
        """Wait for the backoff, connect, negotiate. Fails with DisconnectError only."""
        wait_ms = node.next_attempt_ms - self._runtime.clock.monotonic_ms()
        if wait_ms > 0:
            await self._runtime.sleep_ms(wait_ms)
        succeeded = False
        timeout_ms = self._settings.socket_connection_setup_timeout_ms
        try:
            connection = await asyncio.wait_for(self._connect(node), timeout_ms / 1000)
            deadline_ms = self._runtime.clock.monotonic_ms() + timeout_ms
            await connection.negotiate(deadline_ms)
            await connection.log_in(deadline_ms)
            succeeded = True
            return connection
        except TimeoutError as error:
            raise DisconnectError(f"{node.host}:{node.port} did not accept a connection in {timeout_ms} ms") from error
        except OSError as error:
            raise DisconnectError(f"cannot connect to {node.host}:{node.port}: {error.strerror or error}") from error
        except (RequestTimeoutError, UnsupportedVersionError) as error:
            raise DisconnectError(str(error)) from error
        finally:
            self._note_outcome(node, succeeded=succeeded)

    async def _connect(self, node: _Node) -> _ClientConnection:
        connection = _ClientConnection(self, node)
        await self._runtime.connect(node.host, node.port, lambda: self._over_tls(connection))
        node.connection = connection
        return connection

    def _over_tls(self, connection: _ClientConnection) -> ConnectionProtocol:
        return connection if self._channel is None else self._channel.wrap(connection, connection.host)

    def _note_outcome(self, node: _Node, *, succeeded: bool) -> None:
        if succeeded:
            node.failures = 0
            node.next_attempt_ms = 0
            return
        if node.connection is not None:
            node.connection.lose(DisconnectError(f"connection to {node.host}:{node.port} could not be set up"))
        backoff_ms = min(self._settings.reconnect_backoff_max_ms, self._settings.reconnect_backoff_ms << node.failures)
        node.failures = min(node.failures + 1, MAX_BACKOFF_DOUBLINGS)
        jitter = 1 + BACKOFF_JITTER * (2 * self._runtime.random.random() - 1)
        node.next_attempt_ms = self._runtime.clock.monotonic_ms() + int(backoff_ms * jitter)

    # What connections need of us

    @property
    def runtime(self) -> Runtime:
        return self._runtime

    @property
    def settings(self) -> ClientSettings:
        return self._settings

    @property
    def channel(self) -> ClientChannelBuilder | None:
        return self._channel

    @property
    def scratch(self) -> memoryview:
        return self._scratch


class _Node:
    """The peer at one (host, port, key): its connection, or when to try again."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.connection: _ClientConnection | None = None
        self.attempt: asyncio.Task[_ClientConnection] | None = None
        self.failures = 0
        self.next_attempt_ms = 0

    def attempt_done(self, attempt: asyncio.Task[_ClientConnection]) -> None:
        self.attempt = None
        if not attempt.cancelled():
            attempt.exception()  # seen: whoever still waits gets it from pass_on


class _InFlight:
    """A request that awaits its response; `response` is done early when its caller gave up."""

    __slots__ = ("api_key", "correlation_id", "response", "timer")

    def __init__(self, correlation_id: int, api_key: int, response: asyncio.Future[memoryview], timer: TimerHandle) -> None:
        self.correlation_id = correlation_id
        self.api_key = api_key
        self.response = response
        self.timer = timer


class _ClientConnection:
    """A `ConnectionProtocol`, and the requests in flight on it."""

    def __init__(self, client: NetworkClient, node: _Node) -> None:
        self._client = client
        self._runtime = client.runtime
        self._node = node
        self._reader = FrameReader(self._on_frame, max_size=MAX_RESPONSE_BYTES, scratch=client.scratch, reuse_large_frames=True)
        self._connection: Connection | None = None
        self._in_flight: deque[_InFlight] = deque()
        self._next_correlation_id = 0
        self._error: DisconnectError | None = None
        self._ranges: dict[int, tuple[int, int]] = {}
        self._ready = False
        self._room: asyncio.Event = asyncio.Event()
        self._room.set()
        self._logging_in: asyncio.Future[None] | None = None
        self._log_in_again_ms = NEVER_MS
        self.peer = ApiVersionsResponse()
        self.last_active_ms = self._runtime.clock.monotonic_ms()

    @property
    def usable(self) -> bool:
        return self._error is None and self._ready

    @property
    def host(self) -> str:
        return self._node.host

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    # ConnectionProtocol

    def connection_made(self, connection: Connection) -> None:
        self._connection = connection
        self._client.metrics.opened()

    def get_buffer(self, size_hint: int) -> memoryview:
        return self._reader.get_buffer(size_hint)

    def buffer_updated(self, size: int) -> None:
        self._client.metrics.read(size)
        try:
            self._reader.buffer_updated(size)
        except InvalidReceiveError as error:
            self.lose(DisconnectError(f"{self._node.host}:{self._node.port} does not speak Kafka's protocol: {error}"))

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    def connection_lost(self, error: Exception | None) -> None:
        if isinstance(error, SslHandshakeError):
            _log.error("Connection to node %s:%d failed authentication due to: %s", self.host, self._node.port, error)
            self._client.metrics.refused(again=False)
            self.lose(AuthenticationError(f"{self._node.host}:{self._node.port}: {error}"))
            return
        detail = f": {error}" if error is not None else ""
        self.lose(DisconnectError(f"{self._node.host}:{self._node.port} disconnected{detail}"))

    # Requests

    async def exchange(self, request: RequestMessage, version: int, deadline_ms: int) -> memoryview:
        """Send, and return the response frame (from the correlation id on)."""
        while not self._room.is_set():
            await self._room.wait()
        if self._runtime.clock.monotonic_ms() >= self._log_in_again_ms:
            await self._log_in_again(deadline_ms)
        return await self._exchange(request, version, deadline_ms)

    async def _exchange(self, request: RequestMessage, version: int, deadline_ms: int) -> memoryview:
        correlation_id = self._write(request, version)
        response: asyncio.Future[memoryview] = self._runtime.create_future()
        delay_ms = max(0, deadline_ms - self._runtime.clock.monotonic_ms())
        timer = self._runtime.call_later_ms(delay_ms, lambda: self._time_out(correlation_id))
        self._in_flight.append(_InFlight(correlation_id, request.API_KEY, response, timer))
        return await response

    async def send_one_way(self, request: RequestMessage, version: int, deadline_ms: int) -> None:
        if self._runtime.clock.monotonic_ms() >= self._log_in_again_ms:
            await self._log_in_again(deadline_ms)
        self._write(request, version)

    def _write(self, request: RequestMessage, version: int) -> int:
        if self._error is not None:
            raise self._error
        assert self._connection is not None, "a request was sent before the connection was made"
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        header = RequestHeader(request.API_KEY, version, correlation_id, self._client.client_id)
        frame = encode_request(header, request)
        self._connection.write(frame)
        self.last_active_ms = self._runtime.clock.monotonic_ms()
        self._client.metrics.wrote(frame_size(frame), self.last_active_ms)
        return correlation_id

    def _on_frame(self, frame: memoryview) -> None:
        correlation_id = int.from_bytes(frame[:_CORRELATION_ID_BYTES], "big", signed=True)
        if not self._in_flight or self._in_flight[0].correlation_id != correlation_id:
            expected = self._in_flight[0].correlation_id if self._in_flight else "none"
            self.lose(DisconnectError(f"{self._node.host}:{self._node.port} answered request {correlation_id}, expected was {expected}"))
            return
        request = self._in_flight.popleft()
        request.timer.cancel()
        self.last_active_ms = self._runtime.clock.monotonic_ms()
        self._client.metrics.responses += 1
        if not request.response.done():
            request.response.set_result(frame)

    def _time_out(self, correlation_id: int) -> None:
        for request in self._in_flight:
            if request.correlation_id == correlation_id and not request.response.done():
                name, peer = ApiKeys(request.api_key).name, f"{self._node.host}:{self._node.port}"
                error = RequestTimeoutError(f"{peer} did not answer {name} (correlation id {correlation_id}) in time")
                request.response.set_exception(error)
        self.lose(DisconnectError(f"disconnected from {self._node.host}:{self._node.port} because a request timed out"))

    def lose(self, error: DisconnectError) -> None:
        """End the connection; every request in flight fails with `error`."""
        if self._error is not None:
            return
        self._error = error
        self._reader.stop()
        self._room.set()
        if self._connection is not None:
            self._connection.abort()
            self._client.metrics.closed()
        if self._node.connection is self:
            self._node.connection = None
        for request in self._in_flight:
            request.timer.cancel()
            if not request.response.done():
                request.response.set_exception(error)
        self._in_flight.clear()

    # Versions

    async def negotiate(self, deadline_ms: int) -> None:
        version = API_TABLE[ApiKeys.API_VERSIONS].highest
        response = await self._ask_versions(version, deadline_ms)
        if response.error_code == Errors.UNSUPPORTED_VERSION:
            known = [entry.max_version for entry in response.api_keys if entry.api_key == ApiKeys.API_VERSIONS]
            response = await self._ask_versions(min([version, *known]) if known else 0, deadline_ms)
        if response.error_code != Errors.NONE:
            error = Errors.for_code(response.error_code)
            raise UnsupportedVersionError(f"{self._node.host}:{self._node.port} refused ApiVersions: {error.name}")
        self.peer = response
        self._ranges = {entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys}

    async def _ask_versions(self, version: int, deadline_ms: int) -> ApiVersionsResponse:
        request = ApiVersionsRequest(
            client_software_name=CLIENT_SOFTWARE_NAME, client_software_version=self._client.settings.client_software_version
        )
        frame = await self.exchange(request, version, deadline_ms)
        error_code = int.from_bytes(frame[_CORRELATION_ID_BYTES : _CORRELATION_ID_BYTES + 2], "big", signed=True)
        answered = 0 if error_code == Errors.UNSUPPORTED_VERSION else version
        response = read_response(ApiKeys.API_VERSIONS, answered, frame)[1]
        assert isinstance(response, ApiVersionsResponse), f"read_response gave {type(response).__name__}"
        return response

    # Logging in

    async def log_in(self, deadline_ms: int) -> None:
        """The SASL exchange, where the client has one; the connection is usable after it."""
        channel = self._client.channel
        try:
            sasl = None if channel is None else channel.new_sasl_client(self.host)
        except ConfigError as error:  # no credentials, or they cannot be had now
            raise self._refused(str(error)) from error
        if channel is None or sasl is None:
            if channel is not None:
                self._client.metrics.logged_in(again=False, has_end=False, duration_ms=0)
            self._ready = True
            return
        begun_ms = self._runtime.clock.monotonic_ms()
        from kmirror.network.security.sasl_client_authenticator import authenticate

        try:
            lifetime_ms = await authenticate(
                sasl,
                channel.mechanism,
                choose_version=self.choose_version,
                exchange=lambda request, version: self._exchange(request, version, deadline_ms),
            )
        except (SaslError, ConfigError) as error:
            raise self._refused(str(error)) from error
        self._note_session(lifetime_ms)
        duration_ms = self._runtime.clock.monotonic_ms() - begun_ms
        self._client.metrics.logged_in(again=self._ready, has_end=lifetime_ms > 0, duration_ms=duration_ms)
        self._ready = True

    def _refused(self, text: str) -> AuthenticationError:
        error = AuthenticationError(f"the login at {self.host}:{self._node.port} failed: {text}")
        _log.error("Connection to node %s:%d failed authentication due to: %s", self.host, self._node.port, text)
        self._client.metrics.refused(again=self._ready)
        self.lose(error)
        return error

    def _note_session(self, lifetime_ms: int) -> None:
        share = REAUTHENTICATION_WINDOW + REAUTHENTICATION_JITTER * self._runtime.random.random()
        self._log_in_again_ms = self._runtime.clock.monotonic_ms() + int(lifetime_ms * share) if lifetime_ms > 0 else NEVER_MS

    async def _log_in_again(self, deadline_ms: int) -> None:
        """One login at a time; the requests that come meanwhile wait for it."""
        while self._logging_in is not None:
            await asyncio.shield(self._logging_in)
        if self._runtime.clock.monotonic_ms() < self._log_in_again_ms:
            return
        self._logging_in = done = self._runtime.create_future()
        try:
            await self.log_in(deadline_ms)
        finally:
            self._logging_in = None
            done.set_result(None)

    def choose_version(self, api_key: int, *, version: int | None, max_version: int | None) -> int:
        spec = API_TABLE[ApiKeys(api_key)]
        offered = self._ranges.get(api_key)
        peer = f"{self._node.host}:{self._node.port}"
        if offered is None:
            raise UnsupportedVersionError(f"{peer} does not support {ApiKeys(api_key).name}")
        lowest, highest = max(offered[0], spec.lowest), min(offered[1], spec.highest)
        if max_version is not None:
            highest = min(highest, max_version)
        if version is not None:
            lowest, highest = max(lowest, version), min(highest, version)
        if lowest > highest:
            wanted = f"version {version}" if version is not None else f"versions {spec.lowest} to {spec.highest}"
            raise UnsupportedVersionError(
                f"{peer} supports {ApiKeys(api_key).name} in versions {offered[0]} to {offered[1]}, we asked for {wanted}"
            )
        return highest
