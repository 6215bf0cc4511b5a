"""GSSAPI against a KDC: kmirror's own client, and Kafka's tools."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from kafka import KafkaProducer
from support.peers.kdc import REALM, Kdc, running_kdc
from support.peers.peers import java_tool
from support.waiting import REACHED_S

from kmirror.admin.admin_client import AdminClient
from kmirror.admin.results import NewTopic
from kmirror.common.errors import ConfigError
from kmirror.embedded import EmbeddedCluster
from kmirror.network.client import AuthenticationError, NetworkClient
from kmirror.network.client_security import ClientSecurity
from kmirror.runtime.asyncio_runtime import AsyncioRuntime
from kmirror.wire.messages.metadata import MetadataRequest

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    with running_kdc(tmp_path_factory.mktemp("kdc")) as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRB5_CONFIG", str(running.config))
        yield running


def jaas(principal: str, keytab: str) -> str:
    return (
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
        f'keyTab="{keytab}" principal="{principal}@{REALM}";'
    )


@pytest.fixture(scope="module")
def cluster(kdc: Kdc) -> Iterator[EmbeddedCluster]:
    config = {
        "listeners": "PLAINTEXT://localhost:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.principal.to.local.rules": "RULE:[1:$1@$0](al.*@.*)s/@.*//U,DEFAULT",
        "listener.name.plaintext.gssapi.sasl.jaas.config": jaas("kafka/localhost", kdc.keytab("kafka/localhost")),
    }
    with EmbeddedCluster(config=config) as running:
        yield running


def properties_of(kdc: Kdc, user: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": jaas(user, kdc.keytab(user)),
    }


def test_a_client_with_a_keytab_and_the_name_that_its_rules_give(kdc: Kdc, cluster: EmbeddedCluster) -> None:
    async def work() -> list[str]:
        runtime = AsyncioRuntime()
        security = ClientSecurity.from_props(properties_of(kdc, "alice"))
        client = NetworkClient(runtime, "test", security=security)
        await client.send("localhost", cluster.nodes[0].port, MetadataRequest(), timeout_ms=10_000)

        def principals(server) -> list[str]:
            return [str(connection.principal) for connection in server.broker._listeners.sockets[0]._connections.values()]

        held = cluster.call(principals)
        client.close()
        async with AdminClient(runtime, [("localhost", cluster.nodes[0].port)], security=security) as admin:
            await admin.create_topics([NewTopic("kerberized", 1, 1)])
            assert await admin.list_topics() == ["kerberized"]
        runtime.close()
        return held

    assert asyncio.run(work()) == ["User:ALICE"]


def test_a_token_that_is_none_and_a_service_that_is_unknown(kdc: Kdc, cluster: EmbeddedCluster) -> None:
    async def work(**changes: str) -> None:
        runtime = AsyncioRuntime()
        properties = properties_of(kdc, "bob") | {name.replace("_", "."): value for name, value in changes.items()}
        try:
            client = NetworkClient(runtime, "test", security=ClientSecurity.from_props(properties))
            await client.send("localhost", cluster.nodes[0].port, MetadataRequest(), timeout_ms=10_000)
        finally:
            runtime.close()

    with pytest.raises(AuthenticationError, match="GSS initiate failed"):
        asyncio.run(work(sasl_kerberos_service_name="nobody"))
    for change, reason in (
        ({"sasl_kerberos_service_name": ""}, "No serviceName defined in either JAAS or Kafka config"),
        (
            {"sasl_jaas_config": 'x.Krb5LoginModule required serviceName="other";'},
            "Conflicting serviceName values found in JAAS and Kafka configs",
        ),
    ):
        with pytest.raises(ConfigError, match=reason):
            asyncio.run(work(**change))


def test_kafkas_tools_with_kerberos(kdc: Kdc, cluster: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.krb5.conf={kdc.config}")
    client = tmp_path / "client.properties"
    client.write_text("".join(f"{key}={value}\n" for key, value in properties_of(kdc, "dave").items()))
    created = java_tool(
        "org.apache.kafka.tools.TopicCommand",
        *(
            "--bootstrap-server",
            f"localhost:{cluster.nodes[0].port}",
            "--command-config",
            str(client),
            "--create",
            "--topic",
            "java-gssapi",
        ),
    )
    assert "Created topic java-gssapi." in created.stdout, created.stdout + created.stderr


async def written_by_aiokafka(bootstrap: str) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="GSSAPI",
        sasl_kerberos_domain_name="localhost",
    )
    try:
        await producer.start()
        await producer.send_and_wait("by-aiokafka", b"x")
    finally:
        await producer.stop()


def written_by_kafka_python(bootstrap: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="GSSAPI",
        sasl_kerberos_domain_name="localhost",
    )
    producer.send("by-kafka-python", b"x").get(REACHED_S)
    producer.close()


def test_clients_that_name_the_service_as_authorization_id_could_not_log_in(
    kdc: Kdc, cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """aiokafka and kafka-python do. Kafka's server acts on the authenticated name alone."""
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", kdc.keytab("bob"))
    monkeypatch.setenv("KRB5CCNAME", str(kdc.folder / "bobs-tickets"))
    bootstrap = f"localhost:{cluster.nodes[0].port}"
    asyncio.run(written_by_aiokafka(bootstrap))
    written_by_kafka_python(bootstrap)
