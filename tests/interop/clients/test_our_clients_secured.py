"""Our producer and consumer on secured listeners: each SASL mechanism and TLS on our own broker, and
beside Java's clients on Apache's; what those who may not get in are told, and that they are told at
once; and brokers that have moved while the client was away (KIP-899).
"""

from __future__ import annotations

import dataclasses
import pathlib
import time
from collections.abc import Iterator
from typing import Any

import pytest
from support.clients.client_calls import ClientPair, client_pair
from support.peers.peers import KafkaPeer, apache_kafka, free_port
from support.waiting import REACHED_S

from kmirror.clients.consumer.kafka_consumer import KafkaConsumer
from kmirror.clients.kafka_producer import KafkaProducer, ProducerRecord
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.embedded import EmbeddedCluster
from kmirror.embedded_security import Security
from kmirror.network.client import AuthenticationError
from kmirror.runtime.asyncio_runtime import AsyncioRuntime

USERS = {"alice": "alice-secret", "bob": "bob-secret"}
PASSWORDS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
EVERY_SECURITY = [
    *(Security.sasl_plaintext(USERS, mechanism=mechanism) for mechanism in (*PASSWORDS, "OAUTHBEARER")),
    *(Security.sasl_ssl(USERS, mechanism=mechanism) for mechanism in (*PASSWORDS, "OAUTHBEARER")),
    Security.ssl(users=USERS),
    Security.ssl(client_auth="required", users=USERS),
]
FEW_PARTITIONS = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
AT_ONCE_S = 20
"""Far below the 60 s that a call may take while nobody answers."""


def name_of(security: Security) -> str:
    return f"{security.protocol}-{security.mechanism or security.client_auth}"


@pytest.mark.parametrize("security", EVERY_SECURITY, ids=name_of)
async def test_every_security_of_our_brokers(security: Security) -> None:
    """A transaction by one user, read in a group by the other one."""
    runtime = AsyncioRuntime()
    with EmbeddedCluster(security=security, config=FEW_PARTITIONS) as cluster:
        values = [bytes([number]) * 5_000 for number in range(100)]
        as_alice = cluster.client_properties("alice", style="java") | {"transactional.id": "t"}
        async with KafkaProducer(runtime, as_alice) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            for value in values:
                await producer.send(ProducerRecord("secured", value))
            await producer.commit_transaction()
        as_bob = cluster.client_properties("bob", style="java") | {"group.id": "g", "auto.offset.reset": "earliest"}
        got: list[bytes | None] = []
        async with KafkaConsumer(runtime, as_bob | {"isolation.level": "read_committed"}) as consumer:
            consumer.subscribe(["secured"])
            deadline = time.monotonic() + REACHED_S
            while len(got) < len(values) and time.monotonic() < deadline:
                got += [record.value for record in await consumer.poll(500)]
            await consumer.commit()
        assert got == values
    runtime.close()


@pytest.mark.parametrize("security", [EVERY_SECURITY[0], EVERY_SECURITY[5]], ids=name_of)
async def test_a_wrong_password_is_told_at_once(security: Security) -> None:
    runtime = AsyncioRuntime()
    with EmbeddedCluster(security=security, config=FEW_PARTITIONS) as cluster:
        right = cluster.client_properties("alice", style="java")
        wrong = right | {"sasl.jaas.config": right["sasl.jaas.config"].replace("alice-secret", "guess")}
        text = "Authentication failed: Invalid username or password" if security.mechanism == "PLAIN" else "due to invalid credentials"
        began = time.monotonic()
        producer = KafkaProducer(runtime, wrong)
        with pytest.raises(AuthenticationError, match=text):
            await producer.send(ProducerRecord("secured", b"v"))
        await producer.close()
        async with KafkaConsumer(runtime, wrong | {"group.id": "g"}) as consumer:
            consumer.subscribe(["secured"])
            with pytest.raises(AuthenticationError, match=text):
                await consumer.poll(60_000)
        assert time.monotonic() - began < AT_ONCE_S
    runtime.close()


@pytest.mark.parametrize("strategy", ["rebootstrap", "none"])
async def test_brokers_that_have_moved(strategy: str) -> None:
    """All known brokers are gone; the bootstrap servers name the new address as well."""
    runtime = AsyncioRuntime()
    with EmbeddedCluster(config=FEW_PARTITIONS) as cluster:
        node, other = cluster.nodes[0], free_port()
        servers = f"{cluster.bootstrap_servers},127.0.0.1:{other}"
        common = {"bootstrap.servers": servers, "metadata.recovery.strategy": strategy}
        partition = TopicPartition("moved", 0)
        gives_up = {"delivery.timeout.ms": 6_000} if strategy == "none" else {}
        producer = KafkaProducer(runtime, common | gives_up | {"request.timeout.ms": 1_000, "linger.ms": 0})
        consumer = KafkaConsumer(runtime, common | {"auto.offset.reset": "earliest", "request.timeout.ms": 1_000})
        await (await producer.send(ProducerRecord("moved", b"before", partition=0)))
        consumer.assign([partition])
        assert [record.value for record in await read(consumer, 1)] == [b"before"]
        cluster.kill_node()
        node.port = other
        cluster.start_node()
        if strategy == "rebootstrap":
            await (await producer.send(ProducerRecord("moved", b"after", partition=0)))
            assert [record.value for record in await read(consumer, 1)] == [b"after"]
        else:
            with pytest.raises(ApiException) as failure:
                await (await producer.send(ProducerRecord("moved", b"lost", partition=0)))
            assert failure.value.error in (Errors.REQUEST_TIMED_OUT, Errors.NETWORK_EXCEPTION)
            assert list(await consumer.poll(1_000)) == []
        await producer.close(0)
        await consumer.close(timeout_ms=0)
    runtime.close()


async def read(consumer: KafkaConsumer, count: int) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + REACHED_S
    while len(found) < count and time.monotonic() < deadline:
        found += await consumer.poll(500)
    return found


# Beside Java's clients


@dataclasses.dataclass
class SecuredPeer:
    """Apache's broker with a listener for its own, one with SASL over TLS, and one with TLS alone."""

    peer: KafkaPeer
    tls: pathlib.Path
    ports: dict[str, int] = dataclasses.field(default_factory=dict)

    def configure(self, plaintext_port: int) -> None:
        """Listeners on new ports."""
        self.ports = {"PLAINTEXT": plaintext_port, "SASL_SSL": free_port(), "SSL": free_port()}
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items())
        plain = " ".join(f'user_{user}="{password}"' for user, password in USERS.items())
        modules = {"plain": f"plain.PlainLoginModule required {plain}", "scram-sha-256": SCRAM, "scram-sha-512": SCRAM}
        self.peer.properties = {
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{self.peer.controller_port}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL",
            "sasl.enabled.mechanisms": ",".join(PASSWORDS),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.tls / "broker.pem"),
            **{f"listener.name.sasl_ssl.{name}.sasl.jaas.config": f"{PACKAGE}.{module};" for name, module in modules.items()},
        }

    def move(self, plaintext_port: int) -> None:
        self.peer.stop()
        self.configure(plaintext_port)
        self.peer.start()

    def client(self, protocol: str, mechanism: str = "", password: str = "alice-secret", ca: str = "ca.pem") -> dict[str, str]:
        values = {"bootstrap.servers": f"127.0.0.1:{self.ports[protocol]}", "security.protocol": protocol}
        if protocol != "PLAINTEXT":
            values |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.tls / ca)}
        if mechanism:
            module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
            jaas = f'{PACKAGE}.{module} required username="alice" password="{password}";'
            values |= {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas}
        return values


PACKAGE = "org.apache.kafka.common.security"
SCRAM = "scram.ScramLoginModule required"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredPeer]:
    folder = tmp_path_factory.mktemp("apache")
    Security.ssl(users=USERS).prepare(folder / "tls")
    Security.ssl(users=USERS).prepare(folder / "stranger")
    (folder / "stranger" / "ca.pem").rename(folder / "tls" / "stranger.pem")
    with apache_kafka(folder / "broker", formatted=True, started=False) as peer:
        found = SecuredPeer(peer, folder / "tls")
        found.configure(free_port())
        added = [f"{mechanism}=[name=alice,password=alice-secret]" for mechanism in PASSWORDS[1:]]
        peer.format_arguments = [word for argument in added for word in ("--add-scram", argument)]
        peer.format()
        peer.start()
        yield found


@pytest.fixture(scope="module")
def pair(secured: SecuredPeer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientPair]:
    with client_pair(tmp_path_factory.mktemp("clients"), {}) as running:
        yield running


@pytest.mark.interop
@pytest.mark.parametrize("mechanism", [*PASSWORDS, ""])
def test_apaches_secured_listeners(secured: SecuredPeer, pair: ClientPair, mechanism: str) -> None:
    client = secured.client("SASL_SSL", mechanism) if mechanism else secured.client("SSL")
    pair.same("producer", "p", client)
    topic = f"@-{mechanism or 'ssl'}"
    sent = pair.same("send", "p", [[topic, 0, 1_000 + number, "k", f"{number}" * 1_000] for number in range(50)])
    assert [one[2] for one in sent] == list(range(50))
    pair.same("close", "p")
    pair.same("consumer", "c", client | {"auto.offset.reset": "earliest", "group.id": f"@-{mechanism}", "enable.auto.commit": "false"})
    pair.same("subscribe", "c", [topic])
    assert len(pair.same("poll", "c", 50)) == 50
    pair.same("commit", "c", None)
    pair.same("close", "c")


WRONG = {
    "a wrong password, PLAIN": ("SASL_SSL", "PLAIN", "guess", "ca.pem"),
    "a wrong password, SCRAM": ("SASL_SSL", "SCRAM-SHA-512", "guess", "ca.pem"),
    "a certificate of somebody else": ("SSL", "", "", "stranger.pem"),
}


@pytest.mark.interop
@pytest.mark.parametrize("case", WRONG)
def test_who_may_not_get_in_is_told_so_at_once(secured: SecuredPeer, pair: ClientPair, case: str) -> None:
    client = secured.client(*WRONG[case])
    began = time.monotonic()
    pair.same("producer", "p", client)
    pair.same("producer", "t", client | {"transactional.id": "@-t"})
    pair.same("consumer", "c", client | {"group.id": "@-g", "auto.offset.reset": "earliest"})
    pair.same("consumer", "a", client)
    pair.same("subscribe", "c", ["@-t"])
    pair.same("assign", "a", [["@-t", 0]])
    wanted = "SASL_AUTHENTICATION_FAILED" if "password" in case else "SslAuthenticationException"
    for call in (
        ("send", "p", [["@-t", 0, None, None, "v"]]),
        ("partitions_for", "p", "@-t"),
        ("init_transactions", "t"),
        ("poll_once", "c", 30_000),
        ("committed", "c", [["@-t", 0]]),
        ("poll_once", "a", 30_000),
        ("position", "a", ["@-t", 0]),
        ("end_offsets", "a", [["@-t", 0]]),
        ("list_topics", "a"),
    ):
        java, ours = (result[0] if call[0] == "send" else result for result in pair.both(*call))
        assert java["error"] == ours["error"] == wanted, (call, java, ours)
        assert java["message"] in ours["message"], "ours names the address, too"
    assert time.monotonic() - began < 2 * AT_ONCE_S
    for name in "ptca":
        pair.same("close", name, *([0] if name in "pt" else []))


@pytest.mark.interop
def test_apaches_brokers_have_moved(secured: SecuredPeer, pair: ClientPair) -> None:
    """The bootstrap servers name the new address as well, but only the old one was known to the clients."""
    new = free_port()
    servers = f"127.0.0.1:{secured.ports['PLAINTEXT']},127.0.0.1:{new}"
    row = ["@-moved", 0, 1_000, None, "v"]
    for strategy in ("rebootstrap", "none"):
        common = {"bootstrap.servers": servers, "metadata.recovery.strategy": strategy, "request.timeout.ms": "2000"}
        gives_up = {"delivery.timeout.ms": "6000"} if strategy == "none" else {}
        pair.same("producer", f"p-{strategy}", common | gives_up | {"linger.ms": "0"})
        pair.same("consumer", f"c-{strategy}", common | {"auto.offset.reset": "earliest", "default.api.timeout.ms": "4000"})
        pair.same("send", f"p-{strategy}", [row])
        pair.same("assign", f"c-{strategy}", [["@-moved", 0]])
        pair.same("poll", f"c-{strategy}", 1)
    secured.move(new)
    assert pair.same("send", "p-rebootstrap", [row]) == [["@-moved", 0, 2, 1_000]]
    assert [one[2] for one in pair.same("poll", "c-rebootstrap", 2)] == [1, 2]
    for call in (("send", "p-none", [row]), ("end_offsets", "c-none", [["@-moved", 0]]), ("list_topics", "c-none")):
        for result in pair.both(*call):
            failure = result[0] if call[0] == "send" else result
            assert failure["error"] in ("REQUEST_TIMED_OUT", "NETWORK_EXCEPTION"), (call, failure)
    assert pair.same("poll_once", "c-none", 500) == []
    for strategy in ("rebootstrap", "none"):
        pair.same("close", f"p-{strategy}", 0)
        pair.same("close", f"c-{strategy}")
