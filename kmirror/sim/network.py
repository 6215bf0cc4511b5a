"""An in-memory network behind the `Connection` seam: latency, bandwidth, partitions, resets.

Each direction of a connection is a pipe (`connection`). A piece of what is written arrives after the
link's latency (seeded between `min` and `max`) plus its size over the bandwidth.

A partition holds pieces and handshakes back (TCP retransmits), in one direction or both, until
`heal`; applications see it through their own timeouts. `reset` cuts connections: both ends are
told, after the latency. A crashed process resets its connections and refuses new ones; after a
power loss the peers hear nothing until the host is up again, when handshakes that were not answered
are tried once more.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from contextvars import Context

from kmirror.runtime.api import ConnectionProtocolT
from kmirror.runtime.system_ports import SeededRandom
from kmirror.sim.connection import SimConnection, reset_error
from kmirror.sim.hosts import LOOPBACK, SimHost, SimListener
from kmirror.sim.links import Links
from kmirror.sim.loop import SimLoop

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
                accepted[0].peer_ended(reset_error())

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
