"""The requests of the controller listener (Kafka's `ControllerApis`), without sockets.

Brokers forward client requests by Envelope, as Kafka's do: the envelope carries the client's principal and address and
the request's bytes with header; the answer carries the response's bytes with header. Requests that brokers make for
themselves (registration, heartbeat, AlterPartition, AllocateProducerIds, Fetch of the metadata log, BumpLeaderEpochs)
come bare.

`ControllerServer` (in `server`) owns the socket: it reads header and message with `wire.framing` and calls `handle`.
"""

from __future__ import annotations

from typing import Any

from kmirror.controller.quorum_controller import QuorumController
from kmirror.controller.request_context import ControllerRequestContext
from kmirror.wire.framing import RequestHeader


class ControllerApis:
    """`await handle(header, message, context)` gives the response message of the same API and version."""

    def __init__(self, controller: QuorumController) -> None:
        self.controller = controller

    async def handle(self, header: RequestHeader, request: Any, context: ControllerRequestContext) -> Any:
        """Never raises for what a request asks; every failure becomes a response with Kafka's error code."""
        ...

    def api_keys(self) -> list[int]:
        """Keys that ApiVersions on this listener advertises."""
        ...
