"""Requests to other nodes: cached connections, version negotiation, timeouts, one exception for
every way to lose a peer.

A connection belongs to (host, port, connection key). A Kafka broker answers the requests of a
connection one after the other, so callers whose requests wait long at the peer (fetch) use a key of
their own. Several requests may be in flight. Responses are matched in order and by correlation id.

Versions. The first exchange on a connection is ApiVersions. A request goes out in the highest
version that both sides know, limited to `max_version` where the caller sets it.
`UnsupportedVersionError` if there is none. A peer that does not know our version of ApiVersions
says so in version 0 and is asked again in a version that it knows.

Failure. A request that is not answered in time raises `RequestTimeoutError` and ends the
connection, as in Kafka: the requests behind it would not be answered either. A lost connection
fails all its requests with `DisconnectError`. Only after a failed attempt does the next attempt
wait: 50 ms, doubling to 1 s, with 20 percent of jitter (reconnect.backoff.ms,
reconnect.backoff.max.ms). Waiting counts towards the request's timeout.

Security. A client with a `ClientSecurity` connects over TLS where that says so, and logs in after
the exchange of versions (SaslHandshake v1, SaslAuthenticate). A refusal is an
`AuthenticationError`, a `DisconnectError` whose text holds the peer's reason. If the peer limits
the life of a login (KIP-368), the connection logs in again before the first request after 85 to 95
percent of it. New requests wait meanwhile; those in flight are answered first.

The records of a large response are views into its frame; the frame lives as long as they do, and
its memory is reused only after that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from kmirror.common.addresses import address_text
from kmirror.common.errors import ConfigError
from kmirror.common.exponential_backoff import ExponentialBackoff
from kmirror.common.lasting_conditions import LastingConditions
from kmirror.network.client_connection import ClientConnection
from kmirror.network.client_errors import (
    AuthenticationError,
    DisconnectError,
    NotConnectedError,
    RequestTimeoutError,
    UnsupportedVersionError,
)
from kmirror.network.client_metrics import ClientMetrics
from kmirror.network.client_requests import RequestMessage
from kmirror.network.client_security import ClientChannelBuilder, ClientSecurity
from kmirror.network.frames import new_scratch
from kmirror.runtime.api import ConnectionProtocol, Runtime, SocketBuffers
from kmirror.wire.framing import read_response
from kmirror.wire.messages.api_versions import ApiVersionsResponse
from kmirror.wire.primitives import ProtocolReadError

__all__ = [
    "AuthenticationError",
    "ClientSettings",
    "DisconnectError",
    "NetworkClient",
    "NotConnectedError",
    "RequestTimeoutError",
    "UnsupportedVersionError",
]

BACKOFF_JITTER: Final = 0.2
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Kafka's client settings of the same names."""

    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    connections_max_idle_ms: int = 540_000
    socket_connection_setup_timeout_ms: int = 10_000
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    client_software_version: str = "0.1.0"


class NetworkClient:
    """The client side of one node.

    Owns the connections to all peers. All methods run on the loop's thread. ConfigError when the
    stores that `security` names cannot be read.
    """

    def __init__(
        self,
        runtime: Runtime,
        client_id: str,
        *,
        settings: ClientSettings | None = None,
        security: ClientSecurity | Callable[[], ClientSecurity] = ClientSecurity.PLAINTEXT,
    ) -> None:
        """If `security` is a function, it is called before each connection, not here: its result
        may change when a secret is replaced. A ConfigError that it raises becomes the connection's
        DisconnectError.
        """
        self._runtime = runtime
        self._client_id = client_id
        self._settings = settings or ClientSettings()
        self._backoff = ExponentialBackoff(self._settings.reconnect_backoff_ms, self._settings.reconnect_backoff_max_ms, BACKOFF_JITTER)
        self._security_source = None if isinstance(security, ClientSecurity) else security
        self._security = security if isinstance(security, ClientSecurity) else ClientSecurity.PLAINTEXT
        self._channel = self._channel_of(self._security)
        self._scratch = new_scratch()
        self.metrics = ClientMetrics(runtime.clock)
        self._peers: dict[tuple[str, int, str], Peer] = {}
        self._refusals = LastingConditions(_log, runtime.clock.monotonic_ms, level=logging.ERROR)
        self._closed = False

    @property
    def client_id(self) -> str:
        return self._client_id

    @property
    def in_flight(self) -> int:
        """Requests that are not answered yet, on all connections."""
        return sum(peer.connection.in_flight for peer in self._peers.values() if peer.connection is not None)

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
        """Sends `request` and returns the decoded response (the API's generated response class)."""
        deadline_ms = self._runtime.clock.monotonic_ms() + timeout_ms
        connection = await self._ready(host, port, connection_key, deadline_ms)
        chosen = connection.versions.choose(request.API_KEY, version=version, max_version=max_version)
        frame = await connection.exchange(request, chosen, deadline_ms)
        return read_response(request.API_KEY, chosen, frame)[1]

    def connection_for_posts(self, host: str, port: int, *, connection_key: str = "") -> ClientConnection | None:
        """The connection to a peer if `ClientConnection.post` may be called on it now; None means
        that `prepare` has to be awaited first.
        """
        peer = self._peers.get((host, port, connection_key))
        connection = None if peer is None else peer.connection
        if connection is None or not connection.takes_posts or self._idle_too_long(connection):
            return None
        return connection

    async def prepare(self, host: str, port: int, *, timeout_ms: int, connection_key: str = "") -> None:
        """Waits until requests can be posted to a peer: connects, or waits for room to write."""
        deadline_ms = self._runtime.clock.monotonic_ms() + timeout_ms
        connection = await self._ready(host, port, connection_key, deadline_ms)
        await connection.until_it_takes_posts(deadline_ms)

    async def api_version(
        self, host: str, port: int, api_key: int, *, timeout_ms: int, max_version: int | None = None, connection_key: str = ""
    ) -> int:
        """The version in which `send` would make this request, for requests whose content depends
        on it.
        """
        connection = await self._ready(host, port, connection_key, self._runtime.clock.monotonic_ms() + timeout_ms)
        return connection.versions.choose(api_key, version=None, max_version=max_version)

    async def api_versions(self, host: str, port: int, *, timeout_ms: int, connection_key: str = "") -> ApiVersionsResponse:
        """The peer's ApiVersions response from when the connection was made (version ranges,
        features).
        """
        connection = await self._ready(host, port, connection_key, self._runtime.clock.monotonic_ms() + timeout_ms)
        return connection.versions.response

    def disconnect(self, host: str, port: int, *, connection_key: str = "") -> None:
        """Drops a connection and fails the requests that wait on it; the next request makes a new
        one.
        """
        peer = self._peers.get((host, port, connection_key))
        if peer is not None and peer.connection is not None:
            peer.connection.lose(DisconnectError(f"connection to {peer.address} was closed by its owner"))

    def close(self) -> None:
        """Drops every connection. Requests that wait, and any sent later, fail with
        DisconnectError.
        """
        self._closed = True
        for peer in self._peers.values():
            if peer.attempt is not None:
                peer.attempt.cancel()
            if peer.connection is not None:
                peer.connection.lose(DisconnectError("the client is closed"))

    # Connections

    async def _ready(self, host: str, port: int, connection_key: str, deadline_ms: int) -> ClientConnection:
        if self._closed:
            raise DisconnectError("the client is closed")
        key = (host, port, connection_key)
        peer = self._peers.get(key)
        if peer is None:
            peer = self._peers[key] = Peer(host, port)
        connection = peer.connection
        if connection is not None and connection.usable:
            if not self._idle_too_long(connection):
                return connection
            connection.lose(DisconnectError(f"connection to {peer.address} was idle for too long"))
        return await self._connected(peer, deadline_ms)

    def _idle_too_long(self, connection: ClientConnection) -> bool:
        if connection.in_flight:
            return False
        return self._runtime.clock.monotonic_ms() - connection.last_active_ms >= self._settings.connections_max_idle_ms

    async def _connected(self, peer: Peer, deadline_ms: int) -> ClientConnection:
        """Connects. There is one attempt at a time for each peer, and all who wait share its
        outcome.
        """
        attempt = peer.attempt
        if attempt is None:
            attempt = peer.attempt = self._runtime.spawn(self._attempt(peer), name=f"connect-{peer.address}")
            attempt.add_done_callback(peer.attempt_done)
        outcome = self._runtime.create_future()

        def pass_on(task: asyncio.Task[ClientConnection]) -> None:
            if outcome.done():
                return
            if task.cancelled():
                outcome.set_exception(DisconnectError(f"connecting to {peer.address} was cancelled"))
                return
            error = task.exception()
            if error is None:
                outcome.set_result(task.result())
            else:
                outcome.set_exception(error)

        def time_out() -> None:
            if not outcome.done():
                outcome.set_exception(NotConnectedError(f"no connection to {peer.address} in time"))

        attempt.add_done_callback(pass_on)
        timer = self._runtime.call_later_ms(max(0, deadline_ms - self._runtime.clock.monotonic_ms()), time_out)
        try:
            connection: ClientConnection = await outcome
            return connection
        finally:
            timer.cancel()

    async def _attempt(self, peer: Peer) -> ClientConnection:
        """Waits for the backoff, connects and negotiates. Fails with DisconnectError only."""
        wait_ms = peer.next_attempt_ms - self._runtime.clock.monotonic_ms()
        if wait_ms > 0:
            await self._runtime.sleep_ms(wait_ms)
        succeeded = False
        timeout_ms = self._settings.socket_connection_setup_timeout_ms
        try:
            connection = await _in_time(self._connect(peer), timeout_ms)
            deadline_ms = self._runtime.clock.monotonic_ms() + timeout_ms
            await connection.negotiate(deadline_ms)
            await connection.log_in(deadline_ms)
            succeeded = True
            return connection
        except TimeoutError as error:
            raise DisconnectError(f"{peer.address} did not accept a connection in {timeout_ms} ms") from error
        except OSError as error:
            raise DisconnectError(f"cannot connect to {peer.address}: {error.strerror or error}") from error
        except (RequestTimeoutError, UnsupportedVersionError) as error:
            raise DisconnectError(str(error)) from error
        except ConfigError as error:
            raise DisconnectError(f"the connection to {peer.address} cannot be secured: {error}") from error
        except ProtocolReadError as error:
            raise DisconnectError(f"{peer.address} does not speak Kafka's protocol: {error}") from error
        finally:
            self._note_outcome(peer, succeeded=succeeded)

    async def _connect(self, peer: Peer) -> ClientConnection:
        self._renew_security()
        connection = ClientConnection(
            self._runtime,
            peer.host,
            peer.port,
            client_id=self._client_id,
            software_version=self._settings.client_software_version,
            metrics=self.metrics,
            scratch=self._scratch,
            channel=lambda: self._channel,
            on_lost=peer.forget,
            refusals=self._refusals,
        )
        buffers = SocketBuffers(self._settings.send_buffer_bytes, self._settings.receive_buffer_bytes)
        await self._runtime.connect(peer.host, peer.port, lambda: self._over_tls(connection), buffers=buffers)
        peer.connection = connection
        return connection

    def _renew_security(self) -> None:
        """Takes over the current security, for connections that are made from now on."""
        security = self._security if self._security_source is None else self._security_source()
        if security != self._security:
            self._channel = self._channel_of(security)  # first: if it raises, the next attempt tries again
            self._security = security

    def _channel_of(self, security: ClientSecurity) -> ClientChannelBuilder | None:
        if security.security_protocol == "PLAINTEXT":
            return None
        try:
            return ClientChannelBuilder(security, self._runtime)
        except ConfigError as error:
            raise ConfigError(security.as_written(str(error))) from None

    def _over_tls(self, connection: ClientConnection) -> ConnectionProtocol:
        return connection if self._channel is None else self._channel.wrap(connection, connection.host)

    def _note_outcome(self, peer: Peer, *, succeeded: bool) -> None:
        if succeeded:
            peer.failures = 0
            peer.next_attempt_ms = 0
            return
        if peer.connection is not None:
            peer.connection.lose(DisconnectError(f"connection to {peer.address} could not be set up"))
        backoff_ms = self._backoff.backoff_ms(peer.failures, self._runtime.random)
        peer.failures += 1
        peer.next_attempt_ms = self._runtime.clock.monotonic_ms() + int(backoff_ms)


class Peer:
    """The peer at one (host, port, key): its connection, or when to try again."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.address = address_text(host, port)
        self.connection: ClientConnection | None = None
        self.attempt: asyncio.Task[ClientConnection] | None = None
        self.failures = 0
        self.next_attempt_ms = 0

    def forget(self, connection: ClientConnection) -> None:
        """Drops `connection` after it was lost, unless a newer one has taken its place."""
        if self.connection is connection:
            self.connection = None

    def attempt_done(self, attempt: asyncio.Task[ClientConnection]) -> None:
        self.attempt = None
        if not attempt.cancelled():
            attempt.exception()  # marks it as retrieved; waiters get it from pass_on


async def _in_time(attempt: Coroutine[Any, Any, ClientConnection], timeout_ms: int) -> ClientConnection:
    """Runs an attempt in a task of its own: in the simulator, each pinned seed counts on its step.

    `wait_for` of Python 3.11 may forget a cancellation that comes in the same moment as the
    connection; here it is not lost.
    """
    task = asyncio.current_task()
    assert task is not None, "an attempt is a task"
    cancellations = task.cancelling()
    connection = await asyncio.wait_for(attempt, timeout_ms / 1000)  # noqa: TID251
    if task.cancelling() > cancellations:
        connection.lose(DisconnectError("the attempt was cancelled"))
        raise asyncio.CancelledError
    return connection
