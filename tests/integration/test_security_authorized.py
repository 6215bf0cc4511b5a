"""Logins and the authorizer together: principals of connections, tokens and users where not
everybody may everything.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from typing import Any

import pytest

from kmirror.admin.admin_client import parse_bootstrap_servers
from kmirror.common.errors import Errors
from kmirror.embedded import EmbeddedCluster
from kmirror.embedded_security import Security
from kmirror.network.client import NetworkClient
from kmirror.network.client_security import ClientSecurity
from kmirror.runtime.asyncio_runtime import AsyncioRuntime
from kmirror.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from kmirror.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from kmirror.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kmirror.wire.messages.describe_delegation_token import DescribeDelegationTokenOwner, DescribeDelegationTokenRequest
from kmirror.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """`root` may everything, `alice` and `bob` nothing."""
    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:broker;User:root",
        "delegation.token.secret.key": "a secret of the cluster",
    }
    users = {"root": "root-secret", "alice": "alice-secret", "bob": "bob-secret"}
    with EmbeddedCluster(security=Security.sasl_ssl(users), config=config) as running:
        yield running


def ask(cluster: EmbeddedCluster, user: str, request: Any) -> Any:
    async def work() -> Any:
        runtime = AsyncioRuntime()
        client = NetworkClient(runtime, "test", security=ClientSecurity.from_props(cluster.client_properties(user, style="java")))
        try:
            host, port = parse_bootstrap_servers(cluster.bootstrap_servers)[0]
            return await client.send(host, port, request, timeout_ms=10_000)
        finally:
            client.close()
            runtime.close()

    return asyncio.run(work())


def test_the_controller_sees_the_user_of_the_client(cluster: EmbeddedCluster) -> None:
    def create(user: str) -> int:
        topic = CreatableTopic(name=f"by-{user}", num_partitions=1, replication_factor=1)
        return int(ask(cluster, user, CreateTopicsRequest(topics=[topic], timeout_ms=5_000)).topics[0].error_code)

    assert (create("alice"), create("root")) == (Errors.TOPIC_AUTHORIZATION_FAILED, Errors.NONE)


def test_tokens_for_oneself_and_for_others(cluster: EmbeddedCluster) -> None:
    def create(user: str, owner: str | None) -> Any:
        return ask(cluster, user, CreateDelegationTokenRequest(owner_principal_type=owner and "User", owner_principal_name=owner))

    def seen_by(user: str, *owners: str) -> list[str]:
        named = [DescribeDelegationTokenOwner("User", owner) for owner in owners] or None
        return sorted(token.token_id for token in ask(cluster, user, DescribeDelegationTokenRequest(owners=named)).tokens)

    own = create("alice", None)
    assert own.error_code == 0
    refused = create("alice", "bob")
    assert (refused.error_code, refused.principal_name) == (Errors.DELEGATION_TOKEN_AUTHORIZATION_FAILED, "bob")
    given = create("root", "bob")
    assert (given.error_code, given.principal_name, given.token_requester_principal_name) == (0, "bob", "root")
    assert seen_by("alice") == [own.token_id]
    assert seen_by("bob") == [given.token_id] and seen_by("bob", "alice") == []
    assert seen_by("root") == sorted([own.token_id, given.token_id]) and seen_by("root", "bob") == [given.token_id]


def test_users_are_the_clusters_business(cluster: EmbeddedCluster) -> None:
    salted = hashlib.pbkdf2_hmac("sha256", b"x", b"salt", 4096)
    change = AlterUserScramCredentialsRequest(upsertions=[ScramCredentialUpsertion("carol", 1, 4096, b"salt", salted)])
    assert ask(cluster, "alice", DescribeUserScramCredentialsRequest(users=None)).error_code == Errors.CLUSTER_AUTHORIZATION_FAILED
    assert ask(cluster, "alice", change).results[0].error_code == Errors.CLUSTER_AUTHORIZATION_FAILED
    assert ask(cluster, "root", change).results[0].error_code == Errors.NONE
    described = ask(cluster, "root", DescribeUserScramCredentialsRequest(users=None))
    assert sorted(result.user for result in described.results) == ["alice", "bob", "broker", "carol", "root"]
