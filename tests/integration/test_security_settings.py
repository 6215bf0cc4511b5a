"""Settings of security: listeners that cannot be secured, mechanisms for each listener, and what
changes while a broker runs.
"""

from __future__ import annotations

import http.server
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest
from support.brokers.secured_clusters import USERS, RawClient, run, security_of, topics_of
from support.waiting import REACHED_S

from kmirror.admin.admin_client import AdminClient, parse_bootstrap_servers
from kmirror.admin.results import ConfigOperation, ConfigResourceType
from kmirror.common.errors import ConfigError, KmirrorError
from kmirror.embedded import EmbeddedCluster
from kmirror.embedded_security import Security
from kmirror.network.client import AuthenticationError, NetworkClient
from kmirror.network.client_security import ClientSecurity
from kmirror.runtime.asyncio_runtime import AsyncioRuntime
from kmirror.wire.messages.metadata import MetadataRequest


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
