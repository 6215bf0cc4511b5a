"""One listener of a node: accepts connections, cuts frames, passes requests to a handler, and sends
what it returns.

Quotas. An `Answer` may mute its connection: the response leaves at once, then nothing is read and
no waiting request is handled until the throttle time is over (KIP-219). `ConnectionQuotas` may make
a new connection wait before it is read, or close it after a while.

Order. A connection has one request with the handler at a time, and its responses leave in the order
of the requests (Kafka's muting). When a second request arrives meanwhile, or begins to, the
connection is not read any further. It is read again when the socket has taken the response, up to
the write water mark. So a client can pipeline, but cannot make us hold more than one large frame
and one scratch buffer of requests. A client that does not pipeline causes no pauses. Requests that
wait are answered in slices (`runtime.turns`), so that other connections have their turn.

Memory. What large requests of all connections may hold is bounded by `FrameMemory`, and a frame's
buffer grows as its bytes come.

These close one connection, and only that one:
  - a frame size that is not positive or larger than `socket.request.max.bytes`       (InvalidReceiveException)
  - a request header that cannot be read, an unknown API key or version                (InvalidRequestException); an
    ApiVersions request of a version we do not have reaches the handler, which answers it in version 0
  - the handler returning CLOSE, or failing                                            (reported)
  - `max.connections.per.ip` reached when it is made; `connections.max.idle.ms` without a request
With `max.connections` reached, further connections are accepted but not read until another one ends: to a client this
is what Kafka's blocked acceptor looks like.

A request whose connection is lost is carried out to its end; only its response is dropped.

Security. A listener that is not PLAINTEXT has a `ServerChannelBuilder`. It puts TLS below a
connection, and handles the frames of a SASL connection until the client has logged in. The
principal is part of every request's context.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kmirror.common.errors import KmirrorError
from kmirror.network.connection_quotas import ConnectionQuotas
from kmirror.network.frame_memory import FrameMemory
from kmirror.network.frames import new_scratch
from kmirror.network.request_context import CLOSE, Answer, CloseType, PassOn, RequestContext
from kmirror.network.server_connection import Handler, Parts, ServerConnection, SocketServerStats, log_closing
from kmirror.runtime.api import ConnectionProtocol, ListeningSocket, Runtime, SocketBuffers, TaskScope, TimerHandle
from kmirror.wire.api_keys import API_TABLE, ApiKeys
from kmirror.wire.framing import read_request_header

if TYPE_CHECKING:
    from kmirror.network.security.server_channel_builder import ServerChannelBuilder

IDLE_CHECKS_PER_PERIOD = 10
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketServerLimits:
    """Kafka's settings of the same names (dots for underscores)."""

    socket_request_max_bytes: int = 104_857_600
    max_connections: int = 2_147_483_647
    max_connections_per_ip: int = 2_147_483_647
    max_connections_per_ip_overrides: dict[str, int] = field(default_factory=dict)
    connections_max_idle_ms: int = 600_000
    socket_send_buffer_bytes: int = -1
    """-1 is the system's default, here and for the receive buffer. Not changed while a node runs.
    """
    socket_receive_buffer_bytes: int = -1


class SocketServer:
    """One listening socket and the connections that it accepted.

    `handler(context)` returns the parts of the response with its size in front, an `Answer`, None
    (nothing to send), or CLOSE.
    """

    def __init__(
        self,
        runtime: Runtime,
        listener_name: str,
        host: str,
        port: int,
        handler: Handler,
        *,
        limits: SocketServerLimits | None = None,
        connection_quotas: ConnectionQuotas | None = None,
        frame_memory: FrameMemory | None = None,
        on_disconnect: Callable[[str], None] | None = None,
        security: ServerChannelBuilder | None = None,
    ) -> None:
        self._runtime = runtime
        self._listener_name = listener_name
        self._host = host
        self._port = port
        self._handler = handler
        self._limits = limits or SocketServerLimits()
        self._connection_quotas = connection_quotas
        self.frame_memory = frame_memory or FrameMemory()
        self._on_disconnect = on_disconnect
        self._security = security
        self._security_protocol = "PLAINTEXT" if security is None else security.security_protocol
        self._scope = TaskScope(runtime, f"socket-server-{listener_name}")
        self._scratch = new_scratch()
        self._listening: ListeningSocket | None = None
        self._idle_timer: TimerHandle | None = None
        self._connections: dict[str, ServerConnection] = {}
        self._waiting: deque[ServerConnection] = deque()
        self._delayed: dict[ServerConnection, None] = {}
        self._served_count = 0
        self._next_index = 0
        self.stats = SocketServerStats()

    @property
    def listener_name(self) -> str:
        return self._listener_name

    @property
    def host(self) -> str:
        return self._host

    @property
    def port(self) -> int:
        """The bound port once started (the kernel chooses it if 0 was asked for)."""
        return self._listening.port if self._listening else self._port

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    @property
    def waiting_requests(self) -> int:
        """Requests that were read and wait for the one before them on their connection."""
        return sum(connection.waiting_requests for connection in self._connections.values())

    def clients(self) -> dict[tuple[str, str], int]:
        """The number of connections by their clients' (software name, version)."""
        counts: dict[tuple[str, str], int] = {}
        for connection in self._connections.values():
            key = (connection.client_information.software_name, connection.client_information.software_version)
            counts[key] = counts.get(key, 0) + 1
        return counts

    def update_limits(self, limits: SocketServerLimits) -> None:
        """Applies to new connections; those that exist already stay."""
        self._limits = limits

    async def start(self) -> None:
        buffers = SocketBuffers(self._limits.socket_send_buffer_bytes, self._limits.socket_receive_buffer_bytes)
        self._listening = await self._runtime.listen(self._host, self._port, self._make_protocol, buffers=buffers)
        self._schedule_idle_check()
        _log.info("Awaiting socket connections on %s:%d (%s).", self._host or "0.0.0.0", self.port, self._listener_name)

    def stop_accepting(self) -> None:
        if self._listening is not None:
            self._listening.close()

    async def stop(self, *, grace_ms: int = 0) -> None:
        """Accepts no more, gives requests in progress up to `grace_ms` to be answered, then closes
        every connection.
        """
        self.stop_accepting()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        for connection in list(self._connections.values()):
            connection.drain()
        deadline_ms = self._runtime.clock.monotonic_ms() + grace_ms
        while self._connections and self._runtime.clock.monotonic_ms() < deadline_ms:
            await self._runtime.sleep_ms(min(10, grace_ms))
        for connection in list(self._connections.values()):
            connection.abort()
        if self._security is not None:
            self._security.close()
        await self._scope.cancel()

    # What connections ask of us (`ConnectionOwner`)

    def _make_protocol(self) -> ConnectionProtocol:
        self._next_index += 1
        connection = ServerConnection(self._runtime, self, self._next_index, stats=self.stats, scratch=self._scratch)
        return connection if self._security is None else self._security.secure(connection)

    def admit(self, connection: ServerConnection) -> None:
        """Refuses a new connection, serves it, or lets it wait for its turn."""
        address = connection.client_address
        limit = self._limits.max_connections_per_ip_overrides.get(address, self._limits.max_connections_per_ip)
        count = sum(other.client_address == address for other in self._connections.values()) if limit < 1_000_000 else 0
        if count >= limit:
            _log.info("Rejected connection from %s, address already has the configured maximum of %d connections.", address, limit)
            connection.abort()
            return
        self._connections[connection.connection_id] = connection
        self.stats.connections_created += 1
        if self._connection_quotas is None:
            self._serve_in_turn(connection)
            return
        delay_ms, is_refused = self._connection_quotas.admit(self._listener_name, address)
        if not delay_ms:
            self._serve_in_turn(connection)
            return
        connection.wait()
        self._delayed[connection] = None
        self._runtime.call_later_ms(delay_ms, lambda: self._end_delay(connection, is_refused=is_refused))

    def _end_delay(self, connection: ServerConnection, *, is_refused: bool) -> None:
        if connection not in self._delayed:
            return
        del self._delayed[connection]
        if is_refused:
            connection.abort()
        elif not self._scope.closed:
            self._serve_in_turn(connection)

    def _serve_in_turn(self, connection: ServerConnection) -> None:
        """Serves a connection that the quotas let through, as soon as `max.connections` allows."""
        if self._served_count >= self._limits.max_connections:
            connection.wait()
            self._waiting.append(connection)
            return
        self._serve(connection)

    def _serve(self, connection: ServerConnection) -> None:
        self._served_count += 1
        connection.is_served = True
        self._scope.spawn(connection.serve(), name=connection.connection_id)

    def release(self, connection: ServerConnection) -> None:
        """Forgets a lost connection, and serves one that waited for its place."""
        if self._connections.pop(connection.connection_id, None) is None:
            return
        self.stats.connections_closed += 1
        if self._on_disconnect is not None:
            self._on_disconnect(connection.connection_id)
        if connection in self._delayed:
            del self._delayed[connection]
            return
        if not connection.is_served:
            self._waiting.remove(connection)
            return
        self._served_count -= 1
        if self._waiting and not self._scope.closed:
            self._serve(self._waiting.popleft())

    @property
    def max_frame_size(self) -> int:
        return self._limits.socket_request_max_bytes

    @property
    def security(self) -> ServerChannelBuilder | None:
        return self._security

    def on_invalid_size(self, connection: ServerConnection) -> None:
        if self._security is not None:
            self._security.on_invalid_size(connection)

    async def handle(self, frame: memoryview, arrived_ns: int, connection: ServerConnection) -> Parts | Answer | None | CloseType:
        authenticator = connection.authenticator
        if authenticator is not None and self._security is not None:
            answer = await self._security.authenticate(connection, authenticator, frame)
            if not isinstance(answer, PassOn):
                return answer
        try:
            header, position = read_request_header(frame, 0)
            _ensure_known(header.api_key, header.api_version)
        except KmirrorError as error:
            log_closing(connection.connection_id, "InvalidRequestException", error)
            return CLOSE
        return await self._handler(
            RequestContext(
                header,
                frame,
                position,
                self._listener_name,
                connection.client_address,
                connection.connection_id,
                connection.principal,
                self._security_protocol,
                arrived_ns,
                connection.client_information,
            )
        )

    # Idle connections

    def _schedule_idle_check(self) -> None:
        idle_ms = self._limits.connections_max_idle_ms
        if idle_ms > 0:
            self._idle_timer = self._runtime.call_later_ms(max(1, idle_ms // IDLE_CHECKS_PER_PERIOD), self._close_idle)

    def _close_idle(self) -> None:
        oldest_ms = self._runtime.clock.monotonic_ms() - self._limits.connections_max_idle_ms
        for connection in list(self._connections.values()):
            if not connection.is_busy and connection.last_active_ms <= oldest_ms:
                _log.debug("About to close the idle connection %s", connection.connection_id)
                self.stats.expired_connections += 1
                connection.abort()
        self._schedule_idle_check()


def _ensure_known(api_key: int, api_version: int) -> None:
    if api_key == ApiKeys.API_VERSIONS:
        return
    spec = API_TABLE[ApiKeys(api_key)] if api_key in ApiKeys._value2member_map_ else None
    if spec is None:
        raise KmirrorError(f"Unknown API key {api_key}")
    if not spec.lowest <= api_version <= spec.highest:
        raise KmirrorError(f"Received request for api with key {api_key} ({ApiKeys(api_key).name}) and unsupported version {api_version}")
