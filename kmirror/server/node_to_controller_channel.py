"""How a broker reaches the active controller (Kafka's `NodeToControllerChannelManager`), as handlers see it.

`broker_server` implements it over `network.client`; tests with a function.
"""

from __future__ import annotations

from typing import Any, Protocol

from kmirror.server.request_context import Request


class ControllerChannel(Protocol):
    """Both raise ApiException: REQUEST_TIMED_OUT when no controller answered in time, UNSUPPORTED_VERSION when it cannot."""

    async def forward(self, request: Request) -> Any:
        """A client's request, in its own version and with its principal; the controller's response message."""
        ...

    async def send(self, message: Any) -> Any:
        """A request of this broker itself; the controller's response message."""
        ...
