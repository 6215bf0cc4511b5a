"""A broker's way to the controller: what a client asks must not hold up what the broker asks for
itself.
"""

from __future__ import annotations

import asyncio
from typing import Any

from kmirror.runtime.api import Runtime
from kmirror.runtime.asyncio_runtime import run
from kmirror.server.node_to_controller_channel import NodeToControllerChannel
from kmirror.server.request import Request
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kmirror.wire.messages.create_topics import CreateTopicsRequest
from kmirror.wire.messages.envelope import EnvelopeRequest


class OneAnswerAtATime:
    """A network client whose peer answers each connection in order; an envelope is never answered."""

    def __init__(self) -> None:
        self.locks: dict[str, asyncio.Lock] = {}
        self.enveloped = asyncio.Event()

    async def send(self, host: str, port: int, message: Any, *, timeout_ms: int, connection_key: str = "") -> Any:
        async with self.locks.setdefault(connection_key, asyncio.Lock()):
            if isinstance(message, EnvelopeRequest):
                self.enveloped.set()
                await asyncio.Event().wait()
            return BrokerHeartbeatResponse()


def test_a_slow_forwarded_request_does_not_hold_up_heartbeats() -> None:
    async def main(runtime: Runtime) -> None:
        client = OneAnswerAtATime()
        channel = NodeToControllerChannel(runtime, client, "controller", 9093, request_timeout_ms=30_000)
        request = Request(ApiKeys.CREATE_TOPICS, 7, 1, "client", CreateTopicsRequest(), "PLAINTEXT", client_address="127.0.0.1")
        forwarded = runtime.spawn(channel.forward(request), name="forwarded")
        await client.enveloped.wait()
        heartbeat = runtime.spawn(channel.send(BrokerHeartbeatRequest()), name="heartbeat")
        for _ in range(20):
            await asyncio.sleep(0)
        assert heartbeat.done() and not forwarded.done()
        forwarded.cancel()

    run(main)
