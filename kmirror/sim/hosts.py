"""Machines on the simulated network: their names, addresses, listening ports, and the connections
that end there.

A host has a name and an address (10.0.0.N). Clients may connect to either; "localhost" and
127.0.0.1 mean the host itself.
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
    """One end of a connection, as the host sees it at which it ends."""

    @property
    def peer_name(self) -> str | None:
        """Returns the name of the host at the other end; None until that host has accepted the
        connection.
        """

    def reset(self) -> None:
        """Cuts it; both ends are told."""

    def die(self) -> None:
        """The node at this end is dead: it is told nothing, and its peer is reset."""


@dataclass(slots=True)
class SimHost:
    """A machine on the network. It owns its listening ports and the connections that end here.

    `context` is that of the node that lives here now; `unanswered` handshakes wait until it has
    power.
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
        """Listens on `port`, or on a free one if it is 0; OSError (EADDRINUSE, EADDRNOTAVAIL) as
        from the operating system.
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
        """Returns the next port for a connection from here."""
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
