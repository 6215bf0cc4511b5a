"""Clients of secured embedded clusters: what they log in with, what they ask, and one that sends raw
bytes.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from kmirror.admin.admin_client import AdminClient, parse_bootstrap_servers
from kmirror.common.metrics import sensor_metric
from kmirror.embedded import EmbeddedCluster
from kmirror.network.client import NetworkClient
from kmirror.network.client_security import ClientSecurity
from kmirror.runtime.asyncio_runtime import AsyncioRuntime
from kmirror.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from kmirror.wire.messages.sasl_handshake import SaslHandshakeRequest
from support.waiting import REACHED_S

USERS = {"alice": "alice-secret", "bob": "bob-secret"}


def security_of(cluster: EmbeddedCluster, user: str | None = "alice", **changes: str) -> ClientSecurity:
    return ClientSecurity.from_props(
        cluster.client_properties(user, style="java") | {name.replace("_", "."): value for name, value in changes.items()}
    )


def wrong_password(cluster: EmbeddedCluster) -> ClientSecurity:
    properties = cluster.client_properties("alice", style="java")
    return ClientSecurity.from_props(properties | {"sasl.jaas.config": properties["sasl.jaas.config"].replace("alice-secret", "wrong")})


def run(work: Callable[[AsyncioRuntime], Awaitable[Any]]) -> Any:
    async def scenario() -> Any:
        runtime = AsyncioRuntime()
        try:
            return await asyncio.wait_for(work(runtime), REACHED_S)
        finally:
            runtime.close()

    return asyncio.run(scenario())


def ask(cluster: EmbeddedCluster, security: ClientSecurity, *requests: Any) -> list[Any]:
    """The answers to `requests`, over one connection to the first broker."""

    async def work(runtime: AsyncioRuntime) -> list[Any]:
        client = NetworkClient(runtime, "test", security=security)
        host, port = parse_bootstrap_servers(cluster.bootstrap_servers)[0]
        answers = [await client.send(host, port, request, timeout_ms=10_000) for request in requests]
        client.close()
        return answers

    answers: list[Any] = run(work)
    return answers


def logins(cluster: EmbeddedCluster, protocol: str, attribute: str) -> int:
    name = sensor_metric("socket-server-metrics", attribute, (("listener", protocol), ("networkProcessor", "0")))
    return cluster.call(lambda server: int(server.metrics.get(name).value()))


def topics_of(cluster: EmbeddedCluster, security: ClientSecurity) -> list[str]:
    async def ask(runtime: AsyncioRuntime) -> list[str]:
        async with AdminClient(runtime, parse_bootstrap_servers(cluster.bootstrap_servers), security=security, timeout_ms=10_000) as admin:
            return await admin.list_topics()

    listed: list[str] = run(ask)
    return listed


class RawClient:
    """Frames over a socket, without any rule."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.socket = socket.create_connection(parse_bootstrap_servers(cluster.bootstrap_servers)[0], timeout=REACHED_S)

    def send(self, message: Any, version: int) -> None:
        from kmirror.wire.framing import RequestHeader, encode_request
        from support.brokers.network_doubles import frame_of

        self.socket.sendall(frame_of(encode_request(RequestHeader(message.API_KEY, version, 1, "raw"), message)))

    def receive(self, api_key: int, version: int) -> Any:
        from kmirror.wire.framing import read_response

        size = int.from_bytes(self._exactly(4), "big")
        return read_response(api_key, version, memoryview(self._exactly(size)))[1]

    def ask(self, message: Any, version: int) -> Any:
        self.send(message, version)
        return self.receive(message.API_KEY, version)

    def log_in(self, user: str) -> Any:
        assert self.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
        return self.ask(SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{user}-secret".encode()), 2)

    def is_closed(self) -> bool:
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            assert piece, f"the connection was closed after {len(data)} of {size} bytes"
            data += piece
        return data
