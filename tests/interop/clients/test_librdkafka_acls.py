"""ACLs as librdkafka's users meet them: logged in over SASL, three brokers, rules made by its admin
client.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.embedded_security import Security

USERS = {"admin": "admin-secret", "alice": "alice-secret", "bob": "bob-secret"}
CONFIG = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:broker;User:admin",
    "offsets.topic.num.partitions": "3",
}
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
LITERAL, PREFIXED = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3, config=CONFIG, security=Security.sasl_plaintext(USERS, mechanism="PLAIN")) as running:
        yield running


@pytest.fixture(scope="module")
def admin(cluster: EmbeddedCluster) -> AdminClient:
    made = AdminClient({**cluster.client_properties("admin"), "log_level": 0})
    topics = [NewTopic("orders-1", 3, 3), NewTopic("secret", 1, 3)]
    for created in made.create_topics(topics).values():
        created.result(REACHED_S)
    return made


def rule(
    resource_type: ResourceType,
    name: str,
    operation: AclOperation,
    user: str,
    *,
    pattern: ResourcePatternType = LITERAL,
    allow: bool = True,
) -> AclBinding:
    permission = AclPermissionType.ALLOW if allow else AclPermissionType.DENY
    return AclBinding(resource_type, name, pattern, f"User:{user}", "*", operation, permission)


def add(admin: AdminClient, *rules: AclBinding) -> None:
    for created in admin.create_acls(list(rules)).values():
        created.result(REACHED_S)


def until(attempt: Callable[[], object], timeout_s: float = REACHED_S) -> None:
    """Rules reach the brokers a moment after the controller has them."""
    deadline = time.monotonic() + timeout_s
    while not attempt():
        assert time.monotonic() < deadline, "never came true"


def produce(cluster: EmbeddedCluster, user: str, topic: str, **settings: object) -> KafkaError | None:
    outcome: list[KafkaError | None] = []
    producer = Producer({**cluster.client_properties(user), "message.timeout.ms": 15000, **settings})
    producer.produce(topic, b"value", on_delivery=lambda error, message: outcome.append(error))
    producer.flush(20)
    return outcome[0]


def test_a_user_does_what_the_rules_allow_and_nothing_else(cluster: EmbeddedCluster, admin: AdminClient) -> None:
    refused = produce(cluster, "alice", "orders-1")
    assert refused is not None and refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    add(admin, rule(TOPIC, "orders-", AclOperation.WRITE, "alice", pattern=PREFIXED))
    until(lambda: produce(cluster, "alice", "orders-1") is None)
    assert produce(cluster, "alice", "orders-1", **{"enable.idempotence": True}) is None, "who may write somewhere gets a producer id"
    refused = produce(cluster, "alice", "secret")
    assert refused is not None and refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    topics = AdminClient(cluster.client_properties("alice")).list_topics(timeout=10).topics
    assert set(topics) == {"orders-1"}, "what may not be described is not listed"


def test_a_consumer_needs_its_group_and_its_topic(cluster: EmbeddedCluster, admin: AdminClient) -> None:
    add(admin, rule(TOPIC, "orders-1", AclOperation.READ, "bob"))
    assert produce(cluster, "admin", "orders-1") is None

    def consume() -> KafkaError | bytes | None:
        settings = {"group.id": "readers", "auto.offset.reset": "earliest", "session.timeout.ms": 6000}
        consumer = Consumer({**cluster.client_properties("bob"), **settings})
        try:
            consumer.subscribe(["orders-1"])
            message = consumer.poll(10)
            return None if message is None else message.error() or message.value()
        except KafkaException as error:
            found: KafkaError = error.args[0]
            return found
        finally:
            consumer.close()

    refused = consume()
    assert isinstance(refused, KafkaError) and refused.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    add(admin, rule(GROUP, "*", AclOperation.READ, "bob"))
    until(lambda: consume() == b"value")


def test_rules_are_listed_and_taken_away(cluster: EmbeddedCluster, admin: AdminClient) -> None:
    add(
        admin, rule(TOPIC, "listed", AclOperation.ALL, "alice"), rule(TOPIC, "lis", AclOperation.READ, "bob", pattern=PREFIXED, allow=False)
    )
    covering = AclBindingFilter(TOPIC, "listed", ResourcePatternType.MATCH, None, None, AclOperation.ANY, AclPermissionType.ANY)
    until(lambda: len(admin.describe_acls(covering).result(REACHED_S)) == 2)
    found = {(acl.name, acl.restype, acl.principal, acl.permission_type) for acl in admin.describe_acls(covering).result(REACHED_S)}
    assert found == {
        ("listed", TOPIC, "User:alice", AclPermissionType.ALLOW),
        ("lis", TOPIC, "User:bob", AclPermissionType.DENY),
    }
    (deleted,) = admin.delete_acls([covering]).values()
    assert len(deleted.result(REACHED_S)) == 2
    until(lambda: admin.describe_acls(covering).result(REACHED_S) == [])
    alice = AdminClient({**cluster.client_properties("alice"), "log_level": 0})
    (created,) = alice.create_acls([rule(TOPIC, "mine", AclOperation.ALL, "alice")]).values()
    with pytest.raises(KafkaException) as refused:
        created.result(REACHED_S)
    assert refused.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED
