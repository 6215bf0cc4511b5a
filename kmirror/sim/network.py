"""An in-memory network behind the `Connection` seam: latency, bandwidth, partitions, resets.

Each direction of a connection is a pipe: what is written leaves in pieces while fewer than
WINDOW_BYTES are on the way or unread at the other end; the rest waits at the writer, which is told
to pause above its water mark. A piece arrives after the link's latency (seeded between `min` and
`max`) plus its size over the bandwidth, never before an earlier piece of the same direction, and is
sometimes handed over in two parts, as TCP may.

A partition holds pieces and handshakes back (TCP retransmits), in one direction or both, until
`heal`; applications see it through their own timeouts. `reset` cuts connections: both ends are
told, after the latency. A crashed process resets its connections and refuses new ones; after a
power loss the peers hear nothing until the host is up again, when handshakes that were not answered
are tried once more.
"""

from __future__ import annotations

import errno
import os
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Any

from kmirror.common.ports import Buffer, FileSlice
from kmirror.runtime.api import WRITE_HIGH_WATER_BYTES, WRITE_LOW_WATER_BYTES, ConnectionProtocol, ConnectionProtocolT
from kmirror.runtime.system_ports import SeededRandom
from kmirror.sim.hosts import LOOPBACK, SimHost, SimListener
from kmirror.sim.links import Links
from kmirror.sim.loop import SimLoop

WINDOW_BYTES = 1 << 18
PIECE_BYTES = 1 << 16
SPLIT_ONE_IN = 8
RETRANSMIT_US = 1_000_000


class SimNetwork:
    """Owns all hosts and everything that is between them."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self._chance = SeededRandom(f"{loop.seed}/network").random
        self.links = Links(self._chance)
        self._latency_us = self.links.latency_us
        self._blocked = self.links.blocked
        self._nobody = Context()
        self._hosts: dict[str, SimHost] = {}
        self._held: list[tuple[str, str, Callable[[], object]]] = []

    # Set-up and faults

    def add_host(self, name: str) -> SimHost:
        """Returns the host of that name, which is made if it is new."""
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = SimHost(name, f"10.0.0.{len(self._hosts) + 1}")
        return host

    def partition(self, sources: Sequence[str], destinations: Sequence[str], *, both_ways: bool = True) -> None:
        """Blocks everything from `sources` to `destinations`, and back if `both_ways`, until
        `heal`.
        """
        self.links.block(sources, destinations, both_ways=both_ways)
        self.loop.note(f"net partition {list(sources)} {list(destinations)} both_ways={both_ways}")

    def heal(self) -> None:
        """Lets every host reach every other again; what was held back arrives after a latency."""
        self.links.unblock()
        held, self._held = self._held, []
        self.loop.note(f"net heal {len(held)}")
        for source, destination, arrive in held:
            arrive_us = self.loop.now_us + self._latency_us(source, destination, 0)
            self.loop.call_at_us(arrive_us, self._cross, source, destination, arrive, context=self._nobody)

    def reset(self, source: str, destination: str) -> int:
        """Cuts every connection between two hosts; returns how many there were."""
        cut = [c for c in self.add_host(source).connections if c.peer_name == destination]
        for connection in cut:
            connection.reset()
        self.loop.note(f"net reset {source} {destination} {len(cut)}")
        return len(cut)

    def crash(self, host: SimHost, *, silently: bool) -> None:
        """Ends the node on `host`: its process died (peers are reset), or it lost its power
        (`silently`).
        """
        host.context = None
        host.powered = not silently
        host.listeners.clear()
        connections = list(host.connections)
        if not silently:
            for connection in connections:
                connection.die()
            host.connections.clear()

    def boot(self, host: SimHost, context: Context) -> None:
        """Starts a node on `host`. Connections of an earlier life that were not reset before are
        reset now.
        """
        for connection in list(host.connections):
            connection.die()
        host.connections.clear()
        host.context = context
        host.powered = True
        unanswered, host.unanswered = host.unanswered, []
        for arrive in unanswered:
            self.loop.call_at_us(self.loop.now_us + RETRANSMIT_US, arrive, context=self._nobody)

    # What hosts need

    async def connect(
        self, host: SimHost, name: str, port: int, factory: Callable[[], ConnectionProtocolT]
    ) -> tuple[SimConnection, ConnectionProtocolT]:
        target = host if name in LOOPBACK else self._host_named(name)
        answered = self.loop.create_future()
        accepted: list[SimConnection] = []

        def arrive() -> None:
            if not target.powered:
                target.unanswered.append(arrive)
                return
            remote = self._accept(host, target, port)
            if remote is not None:
                accepted.append(remote)
            self.deliver(target, host, 0, 0, answer)

        def answer() -> None:
            if not answered.done():
                answered.set_result(None)
            elif accepted:
                accepted[0].peer_ended(_reset_error())

        self.deliver(host, target, 0, 0, arrive)
        await answered
        if not accepted:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"{name} port {port}: {os.strerror(errno.ECONNREFUSED)}")
        protocol = factory()
        remote = accepted[0]
        connection = SimConnection(self, host, protocol, remote.peer_address, remote.local_address)
        connection.remote, remote.remote = remote, connection
        connection.start()
        if remote.is_lost:
            connection.peer_ended(None)
        else:
            remote.pump()
        return connection, protocol

    def _accept(self, host: SimHost, target: SimHost, port: int) -> SimConnection | None:
        listener = target.listeners.get(port)
        if listener is None or target.context is None:
            return None
        source_address = "127.0.0.1" if host is target else host.address
        local = ("127.0.0.1" if host is target else target.address, port)
        remote = target.context.copy().run(self._make_accepted, listener, target, local, (source_address, host.ephemeral_port()))
        self.loop.note(f"net connect {host.name} {target.name}:{port}")
        return remote

    def _make_accepted(self, listener: SimListener, target: SimHost, local: tuple[str, int], peer: tuple[str, int]) -> SimConnection:
        connection = SimConnection(self, target, listener.factory(), local, peer)
        connection.start()
        return connection

    def _host_named(self, name: str) -> SimHost:
        for host in self._hosts.values():
            if name in (host.name, host.address):
                return host
        raise OSError(errno.EHOSTUNREACH, f"no host is called {name}")

    def deliver(self, source: SimHost, destination: SimHost, size: int, not_before_us: int, arrive: Callable[[], object]) -> int:
        """Runs `arrive` when `size` bytes have crossed; returns the time when they do."""
        arrive_us = self.loop.now_us + self._latency_us(source.name, destination.name, size)
        if arrive_us < not_before_us:
            arrive_us = not_before_us
        self.loop.call_at_us(arrive_us, self._cross, source.name, destination.name, arrive, context=self._nobody)
        return arrive_us

    def _cross(self, source: str, destination: str, arrive: Callable[[], object]) -> None:
        if (source, destination) in self._blocked:
            self._held.append((source, destination, arrive))
        else:
            arrive()

    def split_at(self, size: int) -> int:
        """Returns where a piece is handed over in two parts; `size` if it is not."""
        if size < 2 or self._chance() * SPLIT_ONE_IN >= 1:
            return size
        return 1 + int(self._chance() * (size - 1))


class SimConnection:
    """One end of a connection; `remote` is the other."""

    def __init__(
        self, network: SimNetwork, host: SimHost, protocol: ConnectionProtocol, local: tuple[str, int], peer: tuple[str, int]
    ) -> None:
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
                self._network.deliver(other.host, end.host, 0, 0, lambda end=end: end._lose(_reset_error(), tell_peer=False))  # type: ignore[misc]

    def die(self) -> None:
        """Ends this end because its node is dead: the node is told nothing, and the peer is reset."""
        if not self._lost:
            self._lost = self._closing = True
            self._unsent.clear()
            remote = self.remote
            if remote is not None:
                self._network.deliver(self.host, remote.host, 0, 0, lambda: remote._lose(_reset_error()))

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
            self._send(remote, 0, lambda: remote.peer_ended(_reset_error() if cut_short else None))

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


def _reset_error() -> Any:
    return ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
