"""How code below `server` asks other nodes of its cluster without knowing their addresses.

`server` implements both protocols (`InterBrokerChannel`, `NodeToControllerChannel`); tests
implement them with a function. They stand here because `coordinator`, `mirror` and `server` all use
them, and `network` lies below all three.
"""

from __future__ import annotations

from typing import Any, Protocol


class BrokerChannel(Protocol):
    """Requests of this broker to the brokers of its own cluster, itself included."""

    async def send(self, broker_id: int, message: Any) -> Any:
        """Sends `message` and returns the response.

        Raises DisconnectError, RequestTimeoutError, UnsupportedVersionError, ProtocolReadError or
        ApiException if there is none.
        """
        ...


class ControllerChannel(Protocol):
    """Requests of this broker, under its own identity, to the active controller."""

    async def send(self, message: Any) -> Any:
        """Sends `message` and returns the response.

        ApiException: REQUEST_TIMED_OUT when no controller answered in time, UNSUPPORTED_VERSION
        when it does not serve the API.
        """
        ...
