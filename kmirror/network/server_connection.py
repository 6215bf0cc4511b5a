"""One accepted connection of a `SocketServer`. `socket_server` describes what is read when, and in
which order requests are answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kmirror.common.kafka_principal import ANONYMOUS
from kmirror.common.ports import Buffer, FileSlice
from kmirror.network.frame_memory import FrameMemory
from kmirror.network.frames import SCRATCH_BYTES, SIZE_BYTES, FrameReader, InvalidReceiveError
from kmirror.network.request_context import CLOSE, Answer, ClientInformation, CloseType, RequestContext
from kmirror.runtime.api import Connection, Runtime, TimerHandle
from kmirror.runtime.turns import Turns

if TYPE_CHECKING:
    from kmirror.network.security.sasl_server_authenticator import SaslServerAuthenticator

Parts = Sequence[Buffer | FileSlice]
Handler = Callable[[RequestContext], Awaitable[Parts | Answer | None | CloseType]]
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class SocketServerStats:
    """What happened on one listener since it was started.

    Connections count the bytes, requests and responses; the listener counts the rest.
    """

    connections_created: int = 0
    connections_closed: int = 0
    expired_connections: int = 0
    requests: int = 0
    responses: int = 0
    incoming_bytes: int = 0
    outgoing_bytes: int = 0


class ConnectionOwner(Protocol):
    """What a connection needs from the listener that accepted it."""

    @property
    def max_frame_size(self) -> int: ...

    @property
    def frame_memory(self) -> FrameMemory: ...

    def admit(self, connection: ServerConnection) -> None:
        """The connection was made; the owner serves it, lets it wait, or refuses it."""
        ...

    def release(self, connection: ServerConnection) -> None:
        """The connection was lost."""
        ...

    def on_invalid_size(self, connection: ServerConnection) -> None:
        """A frame announced a size that is not allowed; the connection is closing."""
        ...

    async def handle(self, frame: memoryview, arrived_ns: int, connection: ServerConnection) -> Parts | Answer | None | CloseType:
        """The answer to one request."""
        ...


class ServerConnection:
    """A `ConnectionProtocol` for one client. Owns the frames that wait, and the pauses of reading.

    Frames queue up here, and one task (`serve`) takes them one by one.
    """

    def __init__(self, runtime: Runtime, owner: ConnectionOwner, index: int, *, stats: SocketServerStats, scratch: memoryview) -> None:
        self._runtime = runtime
        self._clock = runtime.clock
        self._owner = owner
        self._stats = stats
        self._index = index
        self._memory = owner.frame_memory
        self._granted: deque[int] = deque()
        """The claims of large frames that are not handled yet, in their order."""
        self._waits_for_memory = False
        self._reader = FrameReader(
            self._on_frame,
            max_size=owner.max_frame_size,
            scratch=scratch,
            memory=self._memory,
            on_begin=self._on_frame_begun,
        )
        self._frames: deque[tuple[memoryview, int]] = deque()
        self._turns = Turns(runtime)
        self._mute: TimerHandle | None = None
        self._wake: asyncio.Future[None] | None = None
        self._connection: Connection | None = None
        self._busy = False
        self._is_large = False
        """Whether the request that is being handled was counted by the frame memory."""
        self._draining = False
        self._lost = False
        self._write_paused = False
        self._reading_paused = False
        self.is_served = False
        self.client_information = ClientInformation()
        self.client_address = ""
        self.connection_id = ""
        self.principal = ANONYMOUS
        self.authenticator: SaslServerAuthenticator | None = None
        self.last_active_ms = self._clock.monotonic_ms()

    @property
    def waiting_requests(self) -> int:
        return len(self._frames)

    @property
    def is_busy(self) -> bool:
        return self._busy or bool(self._frames)

    # ConnectionProtocol

    def connection_made(self, connection: Connection) -> None:
        self._connection = connection
        local_host, local_port = connection.local_address
        self.client_address, peer_port = connection.peer_address
        self.connection_id = f"{local_host}:{local_port}-{self.client_address}:{peer_port}-0-{self._index}"
        self._owner.admit(self)

    def get_buffer(self, size_hint: int) -> memoryview:
        return self._reader.get_buffer(size_hint)

    def buffer_updated(self, size: int) -> None:
        try:
            self._reader.buffer_updated(size)
        except InvalidReceiveError as error:
            self._owner.on_invalid_size(self)
            log_closing(self.connection_id, "InvalidReceiveException", error)
            self.abort()
            return
        if self._waits_for_memory or self._busy + len(self._frames) + self._reader.in_frame > 1:
            self._pause_reading()

    def pause_writing(self) -> None:
        self._write_paused = True

    def resume_writing(self) -> None:
        self._write_paused = False
        self._wake_up()

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None:
            _log.debug("Connection %s was lost: %s", self.connection_id, error)
        self._lost = True
        self._reader.close()
        self._frames.clear()
        self._release_unread()
        if self._mute is not None:
            self._mute.cancel()
            self._mute = None
        self._wake_up()
        self._owner.release(self)

    # Serving

    def wait(self) -> None:
        self._pause_reading()

    async def serve(self) -> None:
        served_to_the_end = False
        try:
            self._resume_reading()
            while await self._next_is_ready():
                await self._serve_one(*self._frames.popleft())
                if self._frames and self._turns.is_over:
                    await self._turns.give()
            served_to_the_end = True
        finally:
            self._end_large()
            if not served_to_the_end:
                self.abort()
        self.close()

    async def _serve_one(self, frame: memoryview, arrived_ns: int) -> None:
        self._busy = True
        self._is_large = len(frame) > SCRATCH_BYTES
        answer = await self._owner.handle(frame, arrived_ns, self)
        self._busy = False
        self._end_large()
        self.last_active_ms = self._clock.monotonic_ms()
        if isinstance(answer, Answer):
            self._send(answer)
        elif answer is CLOSE:
            self.abort()
        elif answer is not None and self._connection is not None:
            self._connection.write(answer)

    def _send(self, answer: Answer) -> None:
        if self._connection is None:
            return
        started_ns = self._clock.monotonic_ns()
        if answer.parts is not None:
            self._connection.write(answer.parts)
            stats = self._stats
            stats.responses += 1
            stats.outgoing_bytes += sum(
                [len(part) if isinstance(part, (bytes, bytearray, memoryview)) else part.size for part in answer.parts]
            )
        if answer.throttle_time_ms > 0 and not self._lost:
            self._pause_reading()
            self._mute = self._runtime.call_later_ms(answer.throttle_time_ms, self._unmute)
        if answer.on_sent is not None:
            answer.on_sent(self._clock.monotonic_ns() - started_ns)

    def _unmute(self) -> None:
        self._mute = None
        self._wake_up()

    async def _next_is_ready(self) -> bool:
        """Waits for a frame, and until it may be answered; False if no frame will come."""
        while not self._lost:
            is_open = not self._write_paused and self._mute is None
            if self._frames and is_open:
                return True
            if self._draining and not self._frames:
                return False
            if is_open:
                self._resume_reading()
            self._wake = self._runtime.create_future()
            await self._wake
            self._turns.begin()
        return False

    def _on_frame(self, frame: memoryview) -> None:
        self.last_active_ms = self._clock.monotonic_ms()
        self._frames.append((frame, self._clock.monotonic_ns()))
        stats = self._stats
        stats.requests += 1
        stats.incoming_bytes += SIZE_BYTES + len(frame)
        self._wake_up()

    def _on_frame_begun(self, size: int) -> None:
        if size <= SCRATCH_BYTES:
            return
        if self._memory.claim(self, size):
            self._granted.append(size)
        else:
            self._waits_for_memory = True

    def claim_granted(self, size: int) -> None:
        """Reads on: memory for the frame that has begun is there now (`FrameMemory`)."""
        self._granted.append(size)
        self._waits_for_memory = False
        self._resume_reading()

    def _end_large(self) -> None:
        if self._is_large:
            self._is_large = False
            self._memory.release(self._granted.popleft())

    def _release_unread(self) -> None:
        """Gives back what was claimed, except for the request that is being handled."""
        if self._waits_for_memory:
            self._memory.give_up(self)
            self._waits_for_memory = False
        while len(self._granted) > self._is_large:
            self._memory.release(self._granted.pop())

    def _wake_up(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _pause_reading(self) -> None:
        if not self._reading_paused and self._connection is not None:
            self._reading_paused = True
            self._connection.pause_reading()

    def _resume_reading(self) -> None:
        if self._waits_for_memory:
            return
        if self._reading_paused and self._connection is not None and not self._draining:
            self._reading_paused = False
            self._connection.resume_reading()

    # Closing

    def drain(self) -> None:
        """Reads no more, and closes when the request in progress is answered."""
        self._draining = True
        self._frames.clear()
        self._pause_reading()
        self._wake_up()
        if not self.is_served:
            self.abort()

    def set_max_frame_size(self, size: int | None) -> None:
        """Sets the limit; None is the listener's own one."""
        self._reader.set_max_size(self._owner.max_frame_size if size is None else size)

    def close_after(self, parts: Parts | None) -> None:
        """Sends `parts`, reads no more, and closes when they are sent."""
        if parts is not None and self._connection is not None:
            self._connection.write(parts)
        self.drain()

    def close(self) -> None:
        self._reader.stop()
        if self._connection is not None:
            self._connection.close()

    def abort(self) -> None:
        self._reader.stop()
        self._frames.clear()
        if self._connection is not None:
            self._connection.abort()


def log_closing(connection_id: str, kafka_exception: str, error: Exception) -> None:
    _log.warning("Closing socket for %s because of error: %s: %s", connection_id, kafka_exception, error)
