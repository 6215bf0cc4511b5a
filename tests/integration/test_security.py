"""Secured clusters on real sockets: who gets in, who does not, sessions that end, garbage, and
brokers among themselves.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.brokers.secured_clusters import USERS, ask, logins, run, security_of, topics_of, wrong_password
from support.waiting import REACHED_S

from kmirror.admin.admin_client import AdminClient, parse_bootstrap_servers
from kmirror.admin.results import NewTopic
from kmirror.common.errors import Errors
from kmirror.embedded import EmbeddedCluster
from kmirror.embedded_security import Security
from kmirror.network.client import AuthenticationError, DisconnectError, NetworkClient
from kmirror.network.client_security import ClientSecurity
from kmirror.runtime.asyncio_runtime import AsyncioRuntime
from kmirror.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from kmirror.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kmirror.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from kmirror.wire.messages.metadata import MetadataRequest

EVERY_SECURITY = [
    Security.sasl_plaintext(USERS, mechanism="PLAIN"),
    Security.sasl_plaintext(USERS, mechanism="OAUTHBEARER"),
    Security.ssl(users=USERS),
    Security.ssl(client_auth="required", users=USERS),
    Security.sasl_ssl(USERS, mechanism="SCRAM-SHA-512"),
]


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
