"""A round of what confluent-kafka can do, against brokers whose listeners want SCRAM.

    python confluent_kafka_round.py BROKERS USER PASSWORD OTHER OTHER_PASSWORD [CHECK...]

USER (SCRAM-SHA-256) is a super user; OTHER (SCRAM-SHA-512) may do nothing. Each check works with
names of its own and prints one line, "ok NAME" or "FAIL NAME: reason". Everything has three
replicas.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from confluent_kafka.aio import AIOConsumer, AIOProducer

PARTITIONS = 3
PATIENCE_S = 60
RUN = format(time.time_ns(), "x")
BROKERS, USER, PASSWORD, OTHER, OTHER_PASSWORD = sys.argv[1:6]
_made = itertools.count()


def login(user: str = USER, password: str = PASSWORD, mechanism: str = "SCRAM-SHA-256") -> dict:
    return {
        "bootstrap.servers": BROKERS,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
        "log_level": 0,
    }


OTHERS = login(OTHER, OTHER_PASSWORD, "SCRAM-SHA-512")
admin = AdminClient(login())


def done(futures: dict) -> list:
    """The results of an admin call, one for each thing that was asked for."""
    return [future.result(PATIENCE_S) for future in futures.values()]


def refused(code: int, futures: dict) -> None:
    try:
        done(futures)
    except KafkaException as error:
        assert error.args[0].code() == code, error
    else:
        raise AssertionError(f"it was not refused with {code}")


def until(what: str, reached: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not reached():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {PATIENCE_S} s: {what}")
        time.sleep(0.05)


def new_topic(name: str) -> str:
    topic = f"{name}-{RUN}-{next(_made)}"
    done(admin.create_topics([NewTopic(topic, PARTITIONS, 3, config={"min.insync.replicas": "2"})]))
    return topic


def send(topic: str, values: list[bytes], **settings: object) -> None:
    """Sends to one partition after the other; all must be acknowledged."""
    client = Producer(login() | {"enable.idempotence": True, "linger.ms": 5} | settings)
    failed: list[KafkaError] = []
    for number, value in enumerate(values):
        client.produce(
            topic,
            value,
            key=b"%d" % number,
            headers=[("h", b"%d" % number)],
            partition=number % PARTITIONS,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert client.flush(PATIENCE_S) == 0 and not failed, failed


@contextmanager
def member(group: str, topic: str, **settings: object) -> Iterator[Consumer]:
    wanted = {"group.id": group, "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    consumer = Consumer(login() | wanted | {"enable.auto.commit": False} | settings)
    consumer.subscribe([topic])
    try:
        yield consumer
    finally:
        consumer.close()


def read(count: int, *members: Consumer) -> list:
    """Exactly `count` messages, from all members together."""
    found: list = []

    def is_there() -> bool:
        for one in members:
            for message in one.consume(1000, 0.05):
                assert message.error() is None, message.error()
                found.append(message)
        return len(found) >= count

    until(f"{count} records, {len(found)} so far", is_there)
    assert len(found) == count
    return found


def values(messages: list) -> list[bytes]:
    return sorted(message.value() for message in messages)


def topics() -> None:
    topic = new_topic("topics")
    refused(KafkaError.TOPIC_ALREADY_EXISTS, admin.create_topics([NewTopic(topic, 1, 3)]))
    entry = ConfigEntry("retention.ms", "12345678", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    done(admin.incremental_alter_configs([resource]))

    def is_altered() -> bool:
        (found,) = done(admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]))
        return found["retention.ms"].value == "12345678"

    until("retention.ms is described", is_altered)
    done(admin.create_partitions([NewPartitions(topic, 5)]))
    until("5 partitions", lambda: len(admin.list_topics(topic).topics[topic].partitions) == 5)
    done(admin.delete_topics([topic]))
    until("the topic is gone", lambda: topic not in admin.list_topics().topics)


def codec(name: str) -> Callable[[], None]:
    def check() -> None:
        topic = new_topic("codec")
        sent = [f"{number} {'abc' * number}".encode() for number in range(300)]
        send(topic, sent, **{"compression.type": name})
        with member(f"group-of-{topic}", topic) as reader:
            got = read(len(sent), reader)
        assert values(got) == sorted(sent)
        assert all(message.headers() == [("h", message.key())] for message in got)

    return check


def group(**settings: object) -> Callable[[], None]:
    def check() -> None:
        topic = new_topic("group")
        name = f"group-of-{topic}"
        with member(name, topic, **settings) as one:
            with member(name, topic, **settings) as two:

                def is_shared() -> bool:
                    one.poll(0.05), two.poll(0.05)
                    shares = [len(one.assignment()), len(two.assignment())]
                    return sum(shares) == PARTITIONS and min(shares) > 0

                until("two share", is_shared)
                send(topic, [b"a%d" % number for number in range(9)])
                found = read(9, one, two)
                assert values(found) == [b"a%d" % number for number in range(9)]
                one.commit(asynchronous=False)
                two.commit(asynchronous=False)
                (described,) = done(admin.describe_consumer_groups([name]))
                assert len(described.members) == 2
            until("the other has all", lambda: one.poll(0.05) or len(one.assignment()) == PARTITIONS)
        send(topic, [b"b%d" % number for number in range(3)])
        with member(name, topic, **settings) as again:
            assert values(read(3, again)) == [b"b0", b"b1", b"b2"]
            again.commit(asynchronous=False)
        (offsets,) = done(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)]))
        assert sum(partition.offset for partition in offsets.topic_partitions) == 12
        moved = ConsumerGroupTopicPartitions(name, [TopicPartition(topic, 0, 1)])
        done(admin.alter_consumer_group_offsets([moved]))
        done(admin.delete_consumer_groups([name]))
        assert name not in [one.group_id for one in admin.list_consumer_groups().result().valid]

    return check


def transactional(name: str) -> Producer:
    client = Producer(login() | {"transactional.id": f"{name}-{RUN}"})
    client.init_transactions(PATIENCE_S)
    return client


def transactions() -> None:
    topic, client = new_topic("transactions"), transactional("plain")
    for number in range(10):
        aborted = number % 3 == 2
        client.begin_transaction()
        for partition in range(PARTITIONS):
            client.produce(topic, b"aborted" if aborted else b"c%d" % number, partition=partition)
        (client.abort_transaction if aborted else client.commit_transaction)(PATIENCE_S)
    with member(f"group-of-{topic}", topic) as reader:
        found = values(read(7 * PARTITIONS, reader))
    assert b"aborted" not in found and len(set(found)) == 7


def transaction_of_offsets() -> None:
    source, target = new_topic("txn-in"), new_topic("txn-out")
    client, name = transactional("offsets"), f"group-of-{source}"
    send(source, [b"v%d" % number for number in range(6)])
    with member(name, source) as reader:
        got = read(6, reader)
        for message in got:
            for commit in (False, True):
                client.begin_transaction()
                client.produce(target, message.value(), partition=0)
                done_with = [TopicPartition(source, message.partition(), message.offset() + 1)]
                metadata = reader.consumer_group_metadata()
                client.send_offsets_to_transaction(done_with, metadata, PATIENCE_S)
                (client.commit_transaction if commit else client.abort_transaction)(PATIENCE_S)
        wanted = [TopicPartition(source, partition) for partition in range(PARTITIONS)]
        assert sum(one.offset for one in reader.committed(wanted, PATIENCE_S)) == 6
    with member(f"group-of-{target}", target) as reader:
        assert values(read(6, reader)) == values(got)


def fencing() -> None:
    topic, old = new_topic("fencing"), transactional("fenced")
    old.begin_transaction()
    old.produce(topic, b"old", partition=0)
    old.flush(PATIENCE_S)
    young = transactional("fenced")
    young.begin_transaction()
    young.produce(topic, b"young", partition=0)
    young.commit_transaction(PATIENCE_S)
    try:
        old.commit_transaction(PATIENCE_S)
    except KafkaException as error:
        assert error.args[0].fatal(), error
    else:
        raise AssertionError("the old producer was not fenced")
    with member(f"group-of-{topic}", topic) as reader:
        assert values(read(1, reader)) == [b"young"]


def records() -> None:
    topic = new_topic("records")
    send(topic, [b"v%d" % number for number in range(30)])
    first, last = TopicPartition(topic, 0), TopicPartition(topic, 1)
    done(admin.delete_records([TopicPartition(topic, 0, 4)]))
    wanted = {first: OffsetSpec.earliest(), last: OffsetSpec.latest()}
    listed = admin.list_offsets(wanted, isolation_level=IsolationLevel.READ_COMMITTED)
    assert sorted(result.offset for result in done(listed)) == [4, 10]


def can_log_in(settings: dict) -> bool:
    try:
        AdminClient(settings | {"socket.timeout.ms": 5000}).list_topics(timeout=5)
        return True
    except KafkaException:
        return False


def scram() -> None:
    assert can_log_in(OTHERS) and not can_log_in(OTHERS | {"sasl.password": "wrong"})
    user = f"user-{RUN}"
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    done(admin.alter_user_scram_credentials([UserScramCredentialUpsertion(user, info, b"secret")]))
    until("the user logs in", lambda: can_log_in(login(user, "secret", "SCRAM-SHA-512")))
    (described,) = done(admin.describe_user_scram_credentials([user]))
    assert [one.iterations for one in described.scram_credential_infos] == [4096]
    gone = UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_512)
    done(admin.alter_user_scram_credentials([gone]))
    until("the user is refused", lambda: not can_log_in(login(user, "secret", "SCRAM-SHA-512")))


def may_write(topic: str) -> bool:
    client = Producer(OTHERS | {"message.timeout.ms": 10000})
    failed: list[int] = []
    client.produce(topic, b"v", on_delivery=lambda error, _: error and failed.append(error.code()))
    assert client.flush(PATIENCE_S) == 0
    assert set(failed) <= {KafkaError.TOPIC_AUTHORIZATION_FAILED}, failed
    return not failed


def acls() -> None:
    topic = new_topic("acls")
    assert not may_write(topic)
    where = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL)
    rules = [
        AclBinding(*where, f"User:{OTHER}", "*", operation, AclPermissionType.ALLOW)
        for operation in (AclOperation.WRITE, AclOperation.DESCRIBE)
    ]
    every = AclBindingFilter(*where, None, None, AclOperation.ANY, AclPermissionType.ANY)
    done(admin.create_acls(rules))
    until("the write", lambda: may_write(topic))
    assert len(admin.describe_acls(every).result(PATIENCE_S)) == 2
    (deleted,) = done(admin.delete_acls([every]))
    assert len(deleted) == 2
    until("the write is refused again", lambda: not may_write(topic))


def with_asyncio() -> None:
    """The clients for asyncio that came with 2.12."""

    async def main() -> None:
        topic = new_topic("asyncio")
        producer = AIOProducer(login())
        sent = [await producer.produce(topic, b"v%d" % number) for number in range(20)]
        await producer.flush()
        assert all(message.error() is None for message in await asyncio.gather(*sent))
        await producer.close()
        settings = {"group.id": f"group-of-{topic}", "auto.offset.reset": "earliest"}
        consumer = AIOConsumer(login() | settings)
        await consumer.subscribe([topic])
        found: list[bytes] = []
        async with asyncio.timeout(PATIENCE_S):
            while len(found) < 20:
                found += [message.value() for message in await consumer.consume(20, 0.5)]
        await consumer.close()
        assert sorted(found) == sorted(b"v%d" % number for number in range(20))

    asyncio.run(main())


CHECKS = {
    "topics": topics,
    **{f"codec-{name}": codec(name) for name in ("none", "gzip", "snappy", "lz4", "zstd")},
    "group-range": group(**{"partition.assignment.strategy": "range"}),
    "group-cooperative": group(**{"partition.assignment.strategy": "cooperative-sticky"}),
    "group-consumer-protocol": group(**{"group.protocol": "consumer"}),
    "transactions": transactions,
    "transaction-of-offsets": transaction_of_offsets,
    "transaction-fencing": fencing,
    "records": records,
    "scram": scram,
    "acls": acls,
    "asyncio": with_asyncio,
}


def main(wanted: list[str]) -> int:
    failed = False
    for name, check in CHECKS.items():
        if wanted and name not in wanted:
            continue
        try:
            check()
            print(f"ok {name}", flush=True)
        except Exception as error:  # noqa: BLE001 whatever it is, it is told and the next check runs
            failed = True
            print(f"FAIL {name}: {type(error).__name__} {error}".replace("\n", " ")[:600], flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[6:]))
