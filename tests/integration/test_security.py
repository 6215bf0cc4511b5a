"""Secured clusters on real sockets: who gets in, who does not, sessions that end, garbage, and
brokers among themselves.
"""

from __future__ import annotations

import asyncio
import http.server
import socket
import ssl
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.waiting import REACHED_S

from kmirror.admin.admin_client import AdminClient, parse_bootstrap_servers
from kmirror.admin.results import ConfigOperation, ConfigResourceType, NewTopic
from kmirror.common.errors import ConfigError, Errors, KmirrorError
from kmirror.common.metrics import sensor_metric
from kmirror.embedded import EmbeddedCluster
from kmirror.embedded_security import Security
from kmirror.network.client import AuthenticationError, DisconnectError, NetworkClient
from kmirror.network.client_security import ClientSecurity
from kmirror.runtime.asyncio_runtime import AsyncioRuntime
from kmirror.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from kmirror.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kmirror.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from kmirror.wire.messages.metadata import MetadataRequest
from kmirror.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from kmirror.wire.messages.sasl_handshake import SaslHandshakeRequest

USERS = {"alice": "alice-secret", "bob": "bob-secret"}
EVERY_SECURITY = [
    Security.sasl_plaintext(USERS, mechanism="PLAIN"),
    Security.sasl_plaintext(USERS, mechanism="OAUTHBEARER"),
    Security.ssl(users=USERS),
    Security.ssl(client_auth="required", users=USERS),
    Security.sasl_ssl(USERS, mechanism="SCRAM-SHA-512"),
]


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


def topics_of(cluster: EmbeddedCluster, security: ClientSecurity) -> list[str]:
    async def ask(runtime: AsyncioRuntime) -> list[str]:
        async with AdminClient(runtime, parse_bootstrap_servers(cluster.bootstrap_servers), security=security, timeout_ms=10_000) as admin:
            return await admin.list_topics()

    listed: list[str] = run(ask)
    return listed


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


@pytest.mark.parametrize(
    "security", EVERY_SECURITY, ids=lambda security: f"{security.protocol}-{security.mechanism or security.client_auth}"
)
def test_the_right_credentials_get_in(security: Security) -> None:
    with EmbeddedCluster(security=security) as cluster:
        before = logins(cluster, security.protocol, "successful-authentication-total")
        assert topics_of(cluster, security_of(cluster)) == []
        assert logins(cluster, security.protocol, "successful-authentication-total") == before + 1
        assert logins(cluster, security.protocol, "failed-authentication-total") == 0


def test_the_wrong_ones_do_not_and_are_told_so_late() -> None:
    config = {"connection.failed.authentication.delay.ms": "300"}
    with EmbeddedCluster(security=Security.sasl_plaintext(USERS, mechanism="PLAIN"), config=config) as cluster:

        async def refused(runtime: AsyncioRuntime) -> int:
            start = runtime.clock.monotonic_ms()
            client = NetworkClient(runtime, "test", security=wrong_password(cluster))
            host, port = parse_bootstrap_servers(cluster.bootstrap_servers)[0]
            with pytest.raises(AuthenticationError, match="Authentication failed: Invalid username or password"):
                await client.send(host, port, MetadataRequest(), timeout_ms=10_000)
            return runtime.clock.monotonic_ms() - start

        assert run(refused) >= 300
        assert logins(cluster, "SASL_PLAINTEXT", "failed-authentication-total") == 1
        scram = ClientSecurity.from_props(cluster.client_properties("alice", style="java") | {"sasl.mechanism": "SCRAM-SHA-256"})
        with pytest.raises(
            AuthenticationError, match=r"Client SASL mechanism 'SCRAM-SHA-256' not enabled in the server, enabled mechanisms are \[PLAIN\]"
        ):
            topics_of(cluster, scram)


def test_certificates_are_checked_on_both_sides(tmp_path: Path) -> None:
    Security.ssl(users=["alice"]).prepare(tmp_path)
    stranger = {
        "ssl_truststore_location": str(tmp_path / "ca.pem"),
        "ssl_keystore_type": "PEM",
        "ssl_keystore_location": str(tmp_path / "alice.pem"),
    }
    with EmbeddedCluster(security=Security.ssl(client_auth="required", users=USERS)) as cluster:
        with pytest.raises(AuthenticationError, match="SSL handshake failed: .*certificate"):
            topics_of(cluster, security_of(cluster, **stranger))
        trusting = {"ssl_keystore_type": "PEM", "ssl_keystore_location": str(tmp_path / "alice.pem")}
        with pytest.raises(DisconnectError):
            ask(cluster, security_of(cluster, **trusting), MetadataRequest())
        with pytest.raises(DisconnectError):
            ask(cluster, security_of(cluster, None), MetadataRequest())
        assert logins(cluster, "SSL", "failed-authentication-total") >= 2
        assert topics_of(cluster, security_of(cluster)) == []


def test_the_principal_is_the_users_name_with_every_security() -> None:
    for security in EVERY_SECURITY:
        with EmbeddedCluster(security=security) as cluster:

            def principals(server: Any) -> list[str]:
                sockets = server.broker._listeners.sockets
                return [str(connection.principal) for connection in sockets[0]._connections.values()]

            async def hold(runtime: AsyncioRuntime) -> list[str]:
                client = NetworkClient(runtime, "test", security=security_of(cluster))
                host, port = parse_bootstrap_servers(cluster.bootstrap_servers)[0]
                await client.send(host, port, MetadataRequest(), timeout_ms=10_000)
                held = cluster.call(principals)
                client.close()
                return held

            assert "User:alice" in run(hold), security


def test_three_brokers_replicate_over_sasl_ssl() -> None:
    with EmbeddedCluster(3, security=Security.sasl_ssl(USERS)) as cluster:

        async def work(runtime: AsyncioRuntime) -> list[int]:
            servers = parse_bootstrap_servers(cluster.bootstrap_servers)
            async with AdminClient(runtime, servers, security=security_of(cluster), timeout_ms=20_000) as admin:
                await admin.create_topics([NewTopic("replicated", 1, 3)])
                while len((await admin.describe_topics(["replicated"])).get("replicated").partitions[0].isr) < 3:
                    await asyncio.sleep(0.05)
                return (await admin.describe_topics(["replicated"]))["replicated"].partitions[0].isr

        from confluent_kafka import Producer

        assert sorted(run(work)) == [1, 2, 3]
        producer = Producer(cluster.client_properties("alice") | {"acks": "all", "linger.ms": "0"})
        producer.produce("replicated", b"x" * 200_000)
        assert producer.flush(REACHED_S) == 0


# --- logging in again (KIP-368)
# -------------------------------------------------------------------------------------


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


class RawClient:
    """Frames over a socket, without any rule."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.socket = socket.create_connection(parse_bootstrap_servers(cluster.bootstrap_servers)[0], timeout=REACHED_S)

    def send(self, message: Any, version: int) -> None:
        from support.brokers.network_doubles import frame_of

        from kmirror.wire.framing import RequestHeader, encode_request

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


# --- users and tokens
# -----------------------------------------------------------------------------------------------


def test_users_are_described_by_every_broker() -> None:
    with EmbeddedCluster(security=Security.sasl_plaintext(USERS)) as cluster:
        names = [UserName("alice"), UserName("nobody"), UserName("bob"), UserName("bob")]
        everyone, some = ask(
            cluster, security_of(cluster), DescribeUserScramCredentialsRequest(users=None), DescribeUserScramCredentialsRequest(users=names)
        )
        assert sorted(result.user for result in everyone.results) == ["alice", "bob", "broker"]
        shown = {
            result.user: (Errors(result.error_code), [(i.mechanism, i.iterations) for i in result.credential_infos])
            for result in some.results
        }
        assert shown == {
            "alice": (Errors.NONE, [(1, 4096)]),
            "nobody": (Errors.RESOURCE_NOT_FOUND, []),
            "bob": (Errors.DUPLICATE_RESOURCE, []),
        }


def test_a_delegation_token_logs_in_and_may_not_make_another() -> None:
    config = {"delegation.token.secret.key": "a secret of the cluster", "delegation.token.expiry.check.interval.ms": "100"}
    with EmbeddedCluster(security=Security.sasl_plaintext(USERS), config=config) as cluster:
        alice = security_of(cluster)
        made, shown = ask(cluster, alice, CreateDelegationTokenRequest(max_lifetime_ms=3_000), DescribeDelegationTokenRequest(owners=None))
        assert made.error_code == 0 and [token.token_id for token in shown.tokens] == [made.token_id]
        assert shown.tokens[0].hmac == made.hmac
        import base64

        password = base64.b64encode(made.hmac).decode()
        jaas = f'x.ScramLoginModule required username="{made.token_id}" password="{password}" tokenauth=true;'
        with_token = ClientSecurity.from_props(cluster.client_properties("alice", style="java") | {"sasl.jaas.config": jaas})
        refused, hidden = ask(cluster, with_token, CreateDelegationTokenRequest(), DescribeDelegationTokenRequest(owners=None))
        assert refused.error_code == hidden.error_code == Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        assert (refused.principal_name, refused.token_requester_principal_name) == ("alice", "alice")
        left = 1
        while left:
            left = len(ask(cluster, alice, DescribeDelegationTokenRequest(owners=None))[0].tokens)
        with pytest.raises(AuthenticationError, match="invalid credentials with SASL mechanism SCRAM-SHA-256"):
            ask(cluster, with_token, MetadataRequest())


# --- settings
# -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (
            {"listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT", "sasl.enabled.mechanisms": "PLAIN"},
            "requirement failed: sasl.mechanism.inter.broker.protocol must be included in sasl.enabled.mechanisms",
        ),
        (
            {
                "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
                "sasl.enabled.mechanisms": "PLAIN",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
            },
            "Could not find a 'KafkaServer' or 'plaintext.KafkaServer' entry in the JAAS configuration.",
        ),
        ({"listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:PLAINTEXT"}, "An SSL listener needs a key store"),
        (
            {"security.inter.broker.protocol": "SSL"},
            "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.",
        ),
    ],
)
def test_listeners_that_cannot_be_secured(config: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError) as refusal, EmbeddedCluster(config=config):
        pass
    assert str(refusal.value).startswith(reason)


def test_a_mechanism_of_its_own_for_each_listener(tmp_path: Path) -> None:
    from support.peers.peers import free_port

    plain_jaas = 'x.PlainLoginModule required user_carol="carol-secret";'
    port = free_port()
    config = {
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:0,EXTRA://127.0.0.1:{port},CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,EXTRA:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "listener.name.extra.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.extra.plain.sasl.jaas.config": plain_jaas,
    }
    with EmbeddedCluster(security=Security.sasl_plaintext(USERS), config=config) as cluster:
        carol = ClientSecurity.from_props(
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": 'x.PlainLoginModule required username="carol" password="carol-secret";',
            }
        )

        async def work(runtime: AsyncioRuntime) -> str:
            client = NetworkClient(runtime, "test", security=carol)
            answer = await client.send("127.0.0.1", port, MetadataRequest(), timeout_ms=5_000)
            client.close()
            return str(answer.cluster_id)

        assert run(work) == cluster.cluster_id
        with pytest.raises(AuthenticationError, match="not enabled in the server"):
            topics_of(cluster, carol)


def test_users_that_a_cluster_does_not_have() -> None:
    security = Security.sasl_plaintext(USERS)
    for user, reason in (("carol", "the cluster has no user carol; it has alice, bob"), (None, "SASL_PLAINTEXT needs a user")):
        with pytest.raises(KmirrorError, match=reason):
            security.client_properties(Path(), user, style="java")
    with pytest.raises(KmirrorError, match="the user name broker is reserved for the brokers"):
        Security.sasl_plaintext({"broker": "x"})
    with pytest.raises(KmirrorError, match="supports the SASL mechanisms"):
        Security.sasl_plaintext(USERS, mechanism="DIGEST-MD5")


# --- while the broker runs
# ------------------------------------------------------------------------------------------


def test_a_listeners_certificate_and_users_change_while_it_runs(tmp_path: Path) -> None:
    Security.ssl(users=["alice"]).prepare(tmp_path)
    with EmbeddedCluster(security=Security.sasl_ssl(USERS, mechanism="PLAIN")) as cluster:
        jaas = cluster.call(lambda server: server.broker._config.props["listener.name.sasl_ssl.plain.sasl.jaas.config"])
        changes = {
            "listener.name.sasl_ssl.ssl.keystore.location": str(tmp_path / "broker.pem"),
            "listener.name.sasl_ssl.plain.sasl.jaas.config": jaas.replace("required", 'required user_carol="carol-secret"'),
        }

        async def change(runtime: AsyncioRuntime) -> None:
            servers = parse_bootstrap_servers(cluster.bootstrap_servers)
            async with AdminClient(runtime, servers, security=security_of(cluster)) as admin:
                operations = [(name, ConfigOperation.SET, value) for name, value in changes.items()]
                await admin.incremental_alter_configs(ConfigResourceType.BROKER, "1", operations)

        run(change)
        carol = {
            "ssl_truststore_location": str(tmp_path / "ca.pem"),
            "sasl_jaas_config": 'x.PlainLoginModule required username="carol" password="carol-secret";',
        }
        import time

        deadline = time.monotonic() + REACHED_S
        while time.monotonic() < deadline:
            try:
                assert topics_of(cluster, security_of(cluster, **carol)) == []
                break
            except AuthenticationError:
                time.sleep(0.1)
        else:
            raise AssertionError("the new certificate was never shown")
        with pytest.raises(AuthenticationError, match="SSL handshake failed"):
            topics_of(cluster, security_of(cluster))


def test_brokers_in_processes_of_their_own_and_a_password_with_quotes() -> None:
    with EmbeddedCluster(2, processes=True, security=Security.sasl_ssl({"alice": 'a "secret" \\ with, =signs'})) as cluster:
        assert topics_of(cluster, security_of(cluster)) == []


@contextmanager
def https_server(folder: Path) -> Iterator[int]:
    """The files of a folder over https, with the folder's certificate of the broker; its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "broker.pem")
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(folder / "public"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("scheme", ["file", "https"])
def test_signed_tokens_of_a_key_set(tmp_path: Path, scheme: str) -> None:
    import json
    import time

    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, utils

    from kmirror.network.security.oauth_bearer_token import encode_base64url

    key = ec.generate_private_key(ec.SECP256R1())
    numbers = key.public_key().public_numbers()
    x, y = (encode_base64url(number.to_bytes(32, "big")) for number in (numbers.x, numbers.y))
    (tmp_path / "public").mkdir()
    (tmp_path / "public" / "keys.json").write_text(json.dumps({"keys": [{"kid": "k", "kty": "EC", "crv": "P-256", "x": x, "y": y}]}))

    def token(**claims: object) -> str:
        parts = ({"alg": "ES256", "kid": "k"}, {"iat": time.time(), "exp": time.time() + 60, **claims})
        signed = ".".join(encode_base64url(json.dumps(part).encode()) for part in parts)
        r, s = utils.decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{encode_base64url(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"

    prefix = "listener.name.signed"
    config = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SIGNED://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SIGNED:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        f"{prefix}.sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{prefix}.oauthbearer.sasl.jaas.config": "x.OAuthBearerLoginModule required "
        f'ssl.truststore.type="PEM" ssl.truststore.location="{tmp_path}/ca.pem";',
        f"{prefix}.oauthbearer.sasl.server.callback.handler.class": "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
        f"{prefix}.sasl.oauthbearer.expected.audience": "kafka",
        "connection.failed.authentication.delay.ms": "0",
    }
    Security.ssl().prepare(tmp_path)
    with ExitStack() as stack:
        url = f"file://{tmp_path}/public"
        if scheme == "https":
            url = f"https://127.0.0.1:{stack.enter_context(https_server(tmp_path))}"
        cluster = stack.enter_context(EmbeddedCluster(config=config | {f"{prefix}.sasl.oauthbearer.jwks.endpoint.url": f"{url}/keys.json"}))
        port = cluster.call(lambda server: server.bound_port("SIGNED"))
        security = ClientSecurity.from_props(
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": "x.OAuthBearerLoginModule required;",
                "sasl.oauthbearer.token.endpoint.url": f"file://{tmp_path}/token",
            }
        )

        async def work(runtime: AsyncioRuntime) -> str:
            client = NetworkClient(runtime, "test", security=security)
            try:
                return str((await client.send("127.0.0.1", port, MetadataRequest(), timeout_ms=5_000)).cluster_id)
            finally:
                client.close()

        with pytest.raises(AuthenticationError, match="Cannot read the token"):
            run(work)
        (tmp_path / "token").write_text(token(sub="alice", aud="kafka"))
        assert run(work) == cluster.cluster_id
        (tmp_path / "token").write_text(token(sub="alice", aud="other"))
        with pytest.raises(AuthenticationError, match="invalid_token"):
            run(work)


def test_limits_of_connections_hold_before_the_handshake() -> None:
    config = {"max.connections.per.ip": "2", "connections.max.idle.ms": "600"}
    with EmbeddedCluster(security=Security.ssl(), config=config) as cluster:
        first, second, third = (RawClient(cluster) for _ in range(3))
        assert third.is_closed()
        assert first.is_closed() and second.is_closed()  # silent for longer than the idle time
        assert topics_of(cluster, security_of(cluster, None)) == []


def test_no_library_of_security_is_loaded_for_a_plaintext_node() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from kmirror.embedded import EmbeddedCluster\n"
        "with EmbeddedCluster(): pass\n"
        "heavy = ('cryptography', 'gssapi', 'kmirror.network.security.ssl_', 'kmirror.network.security.sasl_server', 'kmirror.network.security.server_')\n"
        "print([name for name in sys.modules if name.startswith(heavy)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    assert done.stdout.strip() == "[]", done.stdout
