"""How request handlers reach the controller, with this broker's requests and with its clients'.

`NodeToControllerChannel` implements it (Kafka's `NodeToControllerChannelManager` and
`ForwardingManager`); tests use a double.
"""

from __future__ import annotations

from typing import Any, Protocol

from kmirror.network.node_channels import ControllerChannel
from kmirror.server.request import Request


class ForwardingChannel(ControllerChannel, Protocol):
    """A `ControllerChannel` that also forwards clients' requests."""

    async def forward(self, request: Request) -> Any:
        """Returns the controller's response to a client's request, in its version and for its
        principal.

        ApiException: REQUEST_TIMED_OUT when no controller answered in time.
        """
        ...
