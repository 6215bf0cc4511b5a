"""One end of a simulated connection: the pipe from its writer to the reader at the other end.

What is written leaves in pieces while fewer than WINDOW_BYTES are on the way or unread at the other
end; the rest waits at the writer, which is told to pause above its water mark. A piece never arrives
before an earlier one of the same direction, and is sometimes handed over in two parts, as TCP may.
"""

from __future__ import annotations

import errno
import os
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Any, Protocol

from kmirror.common.ports import Buffer, FileSlice
from kmirror.runtime.api import WRITE_HIGH_WATER_BYTES, WRITE_LOW_WATER_BYTES, ConnectionProtocol
from kmirror.sim.hosts import SimHost
from kmirror.sim.loop import SimLoop

WINDOW_BYTES = 1 << 18
PIECE_BYTES = 1 << 16


class Wires(Protocol):
    """What lies between two hosts (`network.SimNetwork`)."""

    @property
    def loop(self) -> SimLoop: ...

    def deliver(self, source: SimHost, destination: SimHost, size: int, not_before_us: int, arrive: Callable[[], object]) -> int:
        """Runs `arrive` when `size` bytes have crossed; returns the time when they do."""
        ...

    def split_at(self, size: int) -> int:
        """Returns where a piece is handed over in two parts; `size` if it is not."""
        ...


class SimConnection:
    """One end of a connection; `remote` is the other."""

    def __init__(self, network: Wires, host: SimHost, protocol: ConnectionProtocol, local: tuple[str, int], peer: tuple[str, int]) -> None:
        self.host = host
        self.remote: SimConnection | None = None
        self._network = network
        self._protocol = protocol
        self._local_address = local
        self._peer_address = peer
        self._unsent: deque[memoryview] = deque()
        self._unsent_bytes = 0
        self._on_the_way = 0
        self._pipe: deque[memoryview | Callable[[], object]] = deque()
        self._last_arrival_us = 0
        self._received: deque[memoryview] = deque()
        self._end: tuple[Exception | None] | None = None
        self._reading = True
        self._writing_paused = False
        self._closing = False
        self._lost = False
        self._context = host.context
        self._trace_name = f"net {peer[0]} > {local[0]}"
        host.connections[self] = None

    def start(self) -> None:
        self._protocol.connection_made(self)

    @property
    def peer_address(self) -> tuple[str, int]:
        return self._peer_address

    @property
    def local_address(self) -> tuple[str, int]:
        return self._local_address

    @property
    def peer_name(self) -> str | None:
        """Returns the name of the host at the other end; None until that host has accepted the
        connection.
        """
        return self.remote.host.name if self.remote is not None else None

    @property
    def unsent_bytes(self) -> int:
        return self._unsent_bytes

    @property
    def is_lost(self) -> bool:
        return self._lost

    @property
    def is_closing(self) -> bool:
        return self._closing

    # Writing

    def write(self, parts: Sequence[Buffer | FileSlice]) -> None:
        if self._closing:
            return
        try:
            data = b"".join([_bytes_of(part) for part in parts])
        except (OSError, EOFError, ValueError) as error:
            self._lose(error)
            return
        if data:
            self._unsent.append(memoryview(data))
            self._unsent_bytes += len(data)
            self.pump()
        if not self._writing_paused and self._unsent_bytes > WRITE_HIGH_WATER_BYTES:
            self._writing_paused = True
            self._protocol.pause_writing()

    def pump(self) -> None:
        """Sends what the window allows."""
        if self._context is not self.host.context:
            return
        remote = self.remote
        while remote is not None and self._unsent and self._on_the_way < WINDOW_BYTES and not self._lost:
            piece = self._unsent.popleft()
            if len(piece) > PIECE_BYTES:
                self._unsent.appendleft(piece[PIECE_BYTES:])
                piece = piece[:PIECE_BYTES]
            self._unsent_bytes -= len(piece)
            self._on_the_way += len(piece)
            self._send(remote, len(piece), piece)
        if self._writing_paused and self._unsent_bytes <= WRITE_LOW_WATER_BYTES and not self._lost:
            self._writing_paused = False
            self._call_node(self._protocol.resume_writing)
        if self._closing and not self._unsent and not self._lost:
            self._lose(None)

    def _send(self, remote: SimConnection, size: int, packet: memoryview | Callable[[], object]) -> None:
        """Sends a packet: bytes, or a function to run after all bytes sent before."""
        self._pipe.append(packet)
        self._last_arrival_us = self._network.deliver(self.host, remote.host, size, self._last_arrival_us, self._cross_next)

    def _cross_next(self) -> None:
        """Hands over the next packet when any one has crossed. A healed partition shuffles packets,
        and TCP delivers them in order.
        """
        packet = self._pipe.popleft()
        if not isinstance(packet, memoryview):
            packet()
        elif self.remote is not None:
            self.remote._arrive(packet)

    # Reading

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        if not self._reading and not self._closing:
            self._reading = True
            self._call_node(self._hand_over)

    def _arrive(self, piece: memoryview) -> None:
        if self._lost or self._context is not self.host.context:
            return
        self._network.loop.note(f"{self._trace_name} {len(piece)} {zlib.crc32(piece):08x}")
        cut = self._network.split_at(len(piece))
        if cut < len(piece):
            self._received.append(piece[:cut])
            piece = piece[cut:]
        self._received.append(piece)
        if self._context is not None:
            self._network.loop.run_or_call_soon(self._hand_over, self._context)

    def _hand_over(self) -> None:
        finished = False
        try:
            while self._received and self._reading and not self._closing:
                self._hand_over_one()
            finished = True
        finally:
            if not finished:  # the protocol raised: its state is unknown, so the stream ends here
                self.abort()
        if self._end is not None and not self._received and not self._lost:
            self._lose(self._end[0])

    def _hand_over_one(self) -> None:
        piece = self._received.popleft()
        buffer = self._protocol.get_buffer(len(piece))
        size = min(len(buffer), len(piece))
        buffer[:size] = piece[:size]
        del buffer
        if size < len(piece):
            self._received.appendleft(piece[size:])
        remote = self.remote
        if remote is not None:
            remote._on_the_way -= size
            if remote._unsent or remote._closing:
                self._network.loop.call_soon(remote.pump, context=Context())
        self._protocol.buffer_updated(size)

    # Ending

    def wake_at(self, size: int) -> bool:
        return False

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._received.clear()
            self.pump()

    def abort(self) -> None:
        self._lose(None)

    def reset(self) -> None:
        """Cuts the connection; both ends are told, each after the time that a packet needs."""
        for end, other in ((self, self.remote), (self.remote, self)):
            if end is not None and other is not None:
                self._network.deliver(other.host, end.host, 0, 0, lambda end=end: end._lose(reset_error(), tell_peer=False))  # type: ignore[misc]

    def die(self) -> None:
        """Ends this end because its node is dead: the node is told nothing, and the peer is reset."""
        if not self._lost:
            self._lost = self._closing = True
            self._unsent.clear()
            remote = self.remote
            if remote is not None:
                self._network.deliver(self.host, remote.host, 0, 0, lambda: remote._lose(reset_error()))

    def _lose(self, error: Exception | None, *, tell_peer: bool = True) -> None:
        if self._lost:
            return
        cut_short = bool(self._unsent)
        self._lost = self._closing = True
        self._unsent.clear()
        self._unsent_bytes = 0
        self.host.connections.pop(self, None)
        self._call_node(lambda: self._protocol.connection_lost(error))
        remote = self.remote
        if tell_peer and remote is not None and not remote._lost:
            self._send(remote, 0, lambda: remote.peer_ended(reset_error() if cut_short else None))

    def peer_ended(self, error: Exception | None) -> None:
        """The peer has ended; everything that it sent has arrived before this."""
        if not self._lost:
            self._end = (error,)
            self._call_node(self._hand_over)

    def _call_node(self, function: Callable[[], object]) -> None:
        """Calls the function in the next turn, as this end's node; drops it if that node is dead."""
        if self._context is not None:
            self._network.loop.call_soon(function, context=self._context)


def _bytes_of(part: Buffer | FileSlice) -> Buffer:
    if isinstance(part, (bytes, bytearray, memoryview)):
        return part
    data = part.file.pread(part.size, part.position)
    if len(data) < part.size:
        raise EOFError(f"{part.file.path} ends before position {part.position + part.size}, which was promised to a peer")
    return data


def reset_error() -> Any:
    return ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
