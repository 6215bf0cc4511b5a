"""Apache's `kafka-acls` and Java clients against a cluster with StandardAuthorizer, and the same
commands against Apache Kafka.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator

import pytest
from support.peers.apache_tools import ACLS, ApacheTools, Done, apache_tools
from support.peers.peers import apache_kafka

from kmirror import EmbeddedCluster

pytestmark = pytest.mark.interop

AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheTools]:
    with apache_tools(tmp_path_factory.mktemp("tools")) as started:
        yield started


COMMANDS = [
    ("--add", "--allow-principal", "User:alice", "--allow-principal", "User:bob", "--operation", "Read", "--operation", "Describe",
     "--topic", "orders"),
    ("--add", "--deny-principal", "User:eve", "--deny-host", "10.0.0.1", "--operation", "All", "--topic", "orders"),
    ("--add", "--allow-principal", "User:alice", "--operation", "Write", "--topic", "pre-", "--resource-pattern-type", "prefixed"),
    ("--add", "--allow-principal", "User:*", "--operation", "Read", "--group", "*"),
    ("--add", "--allow-principal", "User:tx", "--producer", "--transactional-id", "t-1", "--topic", "orders", "--idempotent"),
    ("--add", "--allow-principal", "User:ops", "--operation", "Alter", "--cluster"),
    ("--add", "--allow-principal", "User:ops", "--operation", "CreateTokens", "--user-principal", "User:other"),
    ("--list",),
    ("--list", "--topic", "orders"),
    ("--list", "--topic", "pre-fix", "--resource-pattern-type", "match"),
    ("--list", "--topic", "pre-", "--resource-pattern-type", "prefixed"),
    ("--list", "--group", "*"),
    ("--list", "--principal", "User:alice", "--topic", "orders"),
    ("--remove", "--topic", "pre-", "--resource-pattern-type", "prefixed", "--force"),
    ("--list", "--topic", "pre-fix", "--resource-pattern-type", "match"),
    ("--remove", "--allow-principal", "User:bob", "--operation", "Read", "--topic", "orders", "--force"),
    ("--list", "--topic", "orders"),
    ("--remove", "--topic", "orders", "--resource-pattern-type", "any", "--force"),
    ("--list",),
]  # fmt: skip


def results(tools: ApacheTools, bootstrap_servers: str) -> list[Done]:
    return [tools.run(ACLS, "--bootstrap-server", bootstrap_servers, *command) for command in COMMANDS]


def in_order(done: Done) -> tuple[int, list[str], list[str]]:
    """Rules come from a hash map: the lines are what is compared, not their order."""
    return done.code, sorted(re.split(r"\s*\n\s*", done.out.strip())), sorted(done.err.split("\n"))


def test_kafka_acls_says_of_kmirror_what_it_says_of_apache_kafka(tools: ApacheTools, tmp_path: pathlib.Path) -> None:
    with EmbeddedCluster(config=AUTHORIZED) as cluster:
        ours = results(tools, cluster.bootstrap_servers)
    with apache_kafka(tmp_path, properties=AUTHORIZED) as kafka:
        theirs = results(tools, kafka.bootstrap_servers)
    assert any("patternType=PREFIXED" in done.out for done in theirs) and "User:tx" in theirs[7].out, "the commands do nothing"
    for command, our_result, their_result in zip(COMMANDS, ours, theirs, strict=True):
        assert in_order(our_result) == in_order(their_result), command


def test_without_an_authorizer_kafka_acls_says_that_security_is_disabled(tools: ApacheTools) -> None:
    with EmbeddedCluster() as cluster:
        listed = tools.run(ACLS, "--bootstrap-server", cluster.bootstrap_servers, "--list")
    assert "SecurityDisabledException: No Authorizer is configured on the broker" in listed.out + listed.err
