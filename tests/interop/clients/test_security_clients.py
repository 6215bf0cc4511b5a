"""librdkafka, aiokafka and kafka-python against every kind of secured listener."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from support.waiting import REACHED_S

from kmirror.common.metrics import sensor_metric
from kmirror.embedded import EmbeddedCluster
from kmirror.embedded_security import Security

USERS = {"alice": "alice-secret", "bob": "bob-secret"}
EVERY_SECURITY = [
    Security.sasl_plaintext(USERS, mechanism="PLAIN"),
    Security.sasl_plaintext(USERS, mechanism="SCRAM-SHA-256"),
    Security.sasl_plaintext(USERS, mechanism="OAUTHBEARER"),
    Security.ssl(users=USERS),
    Security.ssl(client_auth="required", users=USERS),
    Security.sasl_ssl(USERS, mechanism="SCRAM-SHA-512"),
]
FEW_PARTITIONS = {"offsets.topic.num.partitions": "2"}


def name_of(security: Security) -> str:
    return f"{security.protocol}-{security.mechanism or security.client_auth}"


@pytest.mark.parametrize("security", EVERY_SECURITY, ids=name_of)
def test_librdkafka_produces_and_consumes(security: Security) -> None:
    with EmbeddedCluster(security=security, config=FEW_PARTITIONS) as cluster:
        producer = Producer(cluster.client_properties("alice"))
        values = [bytes([number]) * 5_000 for number in range(200)]
        for value in values:
            producer.produce("secured", value)
        assert producer.flush(REACHED_S) == 0
        consumer = Consumer(cluster.client_properties("bob") | {"group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["secured"])
        got = []
        while len(got) < len(values):
            message = consumer.poll(20)
            assert message is not None and message.error() is None, message and message.error()
            got.append(message.value())
        consumer.close()
        assert got == values


def test_librdkafka_is_told_why_it_does_not_get_in() -> None:
    with EmbeddedCluster(security=EVERY_SECURITY[1]) as cluster:
        errors: list[str] = []
        wrong = cluster.client_properties("alice") | {"sasl.password": "wrong", "error_cb": lambda error: errors.append(error.str())}
        producer = Producer(wrong)
        for _ in range(100):
            producer.poll(0.1)
            if errors:
                break
        assert any("due to invalid credentials with SASL mechanism SCRAM-SHA-256" in error for error in errors), errors


def test_librdkafka_manages_scram_users() -> None:
    with EmbeddedCluster(security=EVERY_SECURITY[1]) as cluster:
        admin = AdminClient(cluster.client_properties("alice"))
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192)
        for future in admin.alter_user_scram_credentials([UserScramCredentialUpsertion("carol", info, b"carol-secret")]).values():
            future.result(REACHED_S)
        described = admin.describe_user_scram_credentials(["carol"])["carol"].result(REACHED_S)
        assert [(i.mechanism, i.iterations) for i in described.scram_credential_infos] == [(ScramMechanism.SCRAM_SHA_256, 8192)]
        as_carol = cluster.client_properties("alice") | {"sasl.username": "carol", "sasl.password": "carol-secret"}
        assert AdminClient(as_carol).list_topics(timeout=10).brokers
        for future in admin.alter_user_scram_credentials([UserScramCredentialDeletion("carol", ScramMechanism.SCRAM_SHA_256)]).values():
            future.result(REACHED_S)
        with pytest.raises(KafkaException):
            AdminClient(as_carol).list_topics(timeout=3)


def test_librdkafka_logs_in_again() -> None:
    config = {"connections.max.reauth.ms": "1500"} | FEW_PARTITIONS
    with EmbeddedCluster(security=EVERY_SECURITY[1], config=config) as cluster:
        producer = Producer(cluster.client_properties("alice"))
        for _ in range(50):
            producer.produce("again", b"x")
            assert producer.flush(REACHED_S) == 0
            producer.poll(0.1)
        name = sensor_metric(
            "socket-server-metrics", "successful-reauthentication-total", (("listener", "SASL_PLAINTEXT"), ("networkProcessor", "0"))
        )
        assert cluster.call(lambda server: server.metrics.get(name).value()) >= 2


def test_aiokafka_over_sasl_ssl() -> None:
    async def scenario(cluster: EmbeddedCluster) -> bytes | None:
        properties = cluster.client_properties("alice")
        settings = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_plain_username": "alice",
            "sasl_plain_password": "alice-secret",
            "ssl_context": ssl.create_default_context(cafile=properties["ssl.ca.location"]),
        }
        producer = AIOKafkaProducer(**settings)
        await producer.start()
        await producer.send_and_wait("aio", b"value")
        await producer.stop()
        consumer = AIOKafkaConsumer("aio", auto_offset_reset="earliest", **settings)
        await consumer.start()
        value = (await asyncio.wait_for(consumer.getone(), 20)).value
        await consumer.stop()
        return value

    with EmbeddedCluster(security=EVERY_SECURITY[5], config=FEW_PARTITIONS) as cluster:
        assert asyncio.run(scenario(cluster)) == b"value"


def test_kafka_python_with_a_client_certificate() -> None:
    with EmbeddedCluster(security=EVERY_SECURITY[4], config=FEW_PARTITIONS) as cluster:
        properties = cluster.client_properties("alice")
        assert Path(properties["ssl.certificate.location"]).name == "alice.pem"
        producer = kafka.KafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers,
            security_protocol="SSL",
            ssl_cafile=properties["ssl.ca.location"],
            ssl_certfile=properties["ssl.certificate.location"],
            ssl_keyfile=properties["ssl.key.location"],
        )
        assert producer.send("python", b"value").get(20).offset == 0
        producer.close()
