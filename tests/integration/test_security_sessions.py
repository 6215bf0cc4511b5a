"""Logging in again before a session ends (KIP-368), and what a raw client may not send: on real sockets."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import pytest
from support.brokers.secured_clusters import USERS, RawClient, logins, run, security_of, topics_of

from kmirror.admin.admin_client import parse_bootstrap_servers
from kmirror.common.errors import Errors
from kmirror.embedded import EmbeddedCluster
from kmirror.embedded_security import Security
from kmirror.network.client import NetworkClient
from kmirror.runtime.asyncio_runtime import AsyncioRuntime
from kmirror.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kmirror.wire.messages.metadata import MetadataRequest
from kmirror.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from kmirror.wire.messages.sasl_handshake import SaslHandshakeRequest


def test_clients_log_in_again_before_their_session_ends() -> None:
    config = {"connections.max.reauth.ms": "1200"}
    with EmbeddedCluster(security=Security.sasl_plaintext(USERS), config=config) as cluster:

        async def work(runtime: AsyncioRuntime) -> None:
            client = NetworkClient(runtime, "test", security=security_of(cluster))
            host, port = parse_bootstrap_servers(cluster.bootstrap_servers)[0]
            deadline = runtime.clock.monotonic_ms() + 3_000
            while runtime.clock.monotonic_ms() < deadline:
                await asyncio.gather(*(client.send(host, port, MetadataRequest(), timeout_ms=5_000) for _ in range(3)))
                await asyncio.sleep(0.05)
            client.close()

        run(work)
        assert logins(cluster, "SASL_PLAINTEXT", "successful-reauthentication-total") >= 2
        assert logins(cluster, "SASL_PLAINTEXT", "expired-connections-killed-count") == 0


@pytest.fixture(scope="module")
def plain() -> Any:
    config = {"connections.max.reauth.ms": "400", "connection.failed.authentication.delay.ms": "0", "sasl.server.max.receive.size": "1000"}
    with EmbeddedCluster(security=Security.sasl_plaintext(USERS, mechanism="PLAIN"), config=config) as cluster:
        yield cluster


def test_a_request_after_the_session_closes_the_connection(plain: EmbeddedCluster) -> None:
    raw = RawClient(plain)
    answer = raw.log_in("alice")
    assert (answer.error_code, answer.session_lifetime_ms) == (0, 400)
    assert raw.ask(MetadataRequest(), 9).cluster_id == plain.cluster_id
    import time

    time.sleep(0.5)
    killed = logins(plain, "SASL_PLAINTEXT", "expired-connections-killed-count")
    raw.send(MetadataRequest(), 9)
    assert raw.is_closed()
    assert logins(plain, "SASL_PLAINTEXT", "expired-connections-killed-count") == killed + 1


def test_logging_in_again_after_the_session_ended_and_as_somebody_else(plain: EmbeddedCluster) -> None:
    raw = RawClient(plain)
    raw.log_in("alice")
    import time

    time.sleep(0.5)
    assert raw.log_in("alice").error_code == 0
    assert raw.ask(MetadataRequest(), 9).cluster_id == plain.cluster_id
    too_soon = raw.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert too_soon.error_code == Errors.ILLEGAL_SASL_STATE
    other = RawClient(plain)
    other.log_in("alice")
    failed = logins(plain, "SASL_PLAINTEXT", "failed-reauthentication-total")
    answer = other.log_in("bob")
    assert answer.error_code == Errors.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Cannot change principals during re-authentication from User.alice: User.bob"
    assert other.is_closed() and logins(plain, "SASL_PLAINTEXT", "failed-reauthentication-total") == failed + 1


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x00\x00\x05hello",
        struct.pack(">i", 1_001) + b"x" * 1_001,
        struct.pack(">i", -1),
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
        struct.pack(">ihhih", 12, 3, 9, 1, -1) + b"\x00\x00",
    ],
    ids=["text", "too-large", "negative", "http", "tls", "metadata-before-login"],
)
def test_garbage_closes_that_connection_only(plain: EmbeddedCluster, data: bytes) -> None:
    bystander, raw = RawClient(plain), RawClient(plain)
    bystander.log_in("bob")
    raw.socket.sendall(data)
    assert raw.is_closed()
    assert bystander.ask(MetadataRequest(), 9).cluster_id == plain.cluster_id


def test_garbage_on_a_tls_port_closes_that_connection_only() -> None:
    config = {"connection.failed.authentication.delay.ms": "0"}
    with EmbeddedCluster(security=Security.sasl_ssl(USERS), config=config) as cluster:
        for data in (b"\x00\x00\x00\x05hello", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"\xff" * 2_000):
            raw = RawClient(cluster)
            raw.socket.sendall(data)
            while raw.socket.recv(100):  # an alert, then the end
                pass
        assert logins(cluster, "SASL_SSL", "failed-authentication-total") == 3
        assert topics_of(cluster, security_of(cluster)) == []


def test_sasl_requests_where_no_login_is_expected() -> None:
    with EmbeddedCluster() as cluster:
        raw = RawClient(cluster)
        assert raw.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == Errors.ILLEGAL_SASL_STATE
        answer = raw.ask(SaslAuthenticateRequest(auth_bytes=b"x"), 2)
        assert (answer.error_code, answer.error_message) == (
            Errors.ILLEGAL_SASL_STATE,
            "SaslAuthenticate request received after successful authentication",
        )
        refused = raw.ask(DescribeDelegationTokenRequest(owners=None), 3)
        assert refused.error_code == Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
