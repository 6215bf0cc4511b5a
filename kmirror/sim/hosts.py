"""Machines on the simulated network: their names and addresses, the ports that are listened on, and
the connections that end there.

Hosts have a name and an address (10.0.0.N); both can be connected to, and "localhost" and 127.0.0.1
mean the host itself.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass, field
from typing import Protocol

from kmirror.runtime.api import ConnectionProtocol

FIRST_EPHEMERAL_PORT = 32_768
FIRST_CHOSEN_PORT = 20_000
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class HostedConnection(Protocol):
    """One end of a connection, for the host that it ends at."""

    @property
    def peer_name(self) -> str | None:
        """Of the host at the other end; None while that has not taken the connection."""

    def reset(self) -> None:
        """Cut it; both ends are told."""

    def die(self) -> None:
        """The node at this end is dead: it is told nothing, its peer is reset."""


@dataclass(slots=True)
class SimHost:
    """A machine on the network.

    `context` is the node that lives there now; `unanswered` handshakes wait for its power.
    """

    name: str
    address: str
    context: Context | None = None
    powered: bool = True
    unanswered: list[Callable[[], object]] = field(default_factory=list)
    listeners: dict[int, SimListener] = field(default_factory=dict)
    connections: dict[HostedConnection, None] = field(default_factory=dict)
    next_port: int = FIRST_CHOSEN_PORT
    next_ephemeral_port: int = FIRST_EPHEMERAL_PORT

    def listen(self, bind_name: str, port: int, factory: Callable[[], ConnectionProtocol]) -> SimListener:
        """On `port`, or, when it is 0, on one that is free; OSError (EADDRINUSE, EADDRNOTAVAIL) as
        the system says it.
        """
        if bind_name not in ("", "0.0.0.0", "::", self.name, self.address, *LOOPBACK):
            raise OSError(errno.EADDRNOTAVAIL, f"{bind_name} is not an address of {self.name}")
        if port == 0:
            while self.next_port in self.listeners:
                self.next_port += 1
            port = self.next_port
            self.next_port += 1
        if port in self.listeners:
            raise OSError(errno.EADDRINUSE, f"cannot listen on {bind_name} port {port}: {os.strerror(errno.EADDRINUSE)}")
        listener = self.listeners[port] = SimListener(self, port, factory)
        return listener

    def ephemeral_port(self) -> int:
        """The next one for a connection from here."""
        self.next_ephemeral_port += 1
        return self.next_ephemeral_port


class SimListener:
    """`ListeningSocket` of a simulated host."""

    def __init__(self, host: SimHost, port: int, factory: Callable[[], ConnectionProtocol]) -> None:
        self._host = host
        self._port = port
        self.factory = factory

    @property
    def host(self) -> str:
        return self._host.address

    @property
    def port(self) -> int:
        return self._port

    def close(self) -> None:
        if self._host.listeners.get(self._port) is self:
            del self._host.listeners[self._port]
