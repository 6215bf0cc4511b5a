"""A client that is refused again and again says so once, and once more when it is let in."""

from __future__ import annotations

import logging

import pytest

from kmirror import EmbeddedCluster, Security
from kmirror.network.client import AuthenticationError, NetworkClient
from kmirror.network.client_security import ClientSecurity
from kmirror.runtime.asyncio_runtime import run
from kmirror.wire.messages.metadata import MetadataRequest


def test_a_refused_login_was_an_error_in_the_log_at_every_attempt(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    security = Security.sasl_plaintext({"alice": "alice-secret"}, mechanism="PLAIN")
    with EmbeddedCluster(security=security, config={"connection.failed.authentication.delay.ms": "0"}) as cluster:
        right = cluster.client_properties("alice", style="java")
        given = [right | {"sasl.jaas.config": right["sasl.jaas.config"].replace("alice-secret", "wrong")}]

        async def ask(runtime: object) -> None:
            client = NetworkClient(runtime, "c", security=lambda: ClientSecurity.from_props(given[0]))  # type: ignore[arg-type]
            for _ in range(4):
                with pytest.raises(AuthenticationError):
                    await client.send("127.0.0.1", cluster.nodes[0].port, MetadataRequest(topics=[]), timeout_ms=60_000)
            given[0] = right
            await client.send("127.0.0.1", cluster.nodes[0].port, MetadataRequest(topics=[]), timeout_ms=60_000)
            client.close()

        run(ask)  # type: ignore[arg-type]
    told = [
        record
        for record in caplog.records
        if "failed authentication due to" in record.getMessage() and record.name == "kmirror.network.client"
    ]
    assert [record.levelname for record in told] == ["ERROR", "INFO"]
    assert "over after" in told[1].getMessage()
