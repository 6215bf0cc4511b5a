"""A round of what aiokafka can do, against brokers whose listeners want SCRAM.

    python aiokafka_round.py BROKERS USER PASSWORD OTHER OTHER_PASSWORD [CHECK...]

USER (SCRAM-SHA-256) is a super user; OTHER (SCRAM-SHA-512) may do nothing. Each check works with
names of its own and prints one line, "ok NAME" or "FAIL NAME: reason". Everything has three
replicas.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaConnectionError, ProducerFenced, TopicAlreadyExistsError, TopicAuthorizationFailedError

PARTITIONS = 3
PATIENCE_S = 60
RUN = format(time.time_ns(), "x")
BROKERS, USER, PASSWORD, OTHER, OTHER_PASSWORD = sys.argv[1:6]
_made = itertools.count()


def login(user: str = USER, password: str = PASSWORD, mechanism: str = "SCRAM-SHA-256") -> dict:
    return {
        "bootstrap_servers": BROKERS.split(","),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }


OTHERS = login(OTHER, OTHER_PASSWORD, "SCRAM-SHA-512")


@asynccontextmanager
async def started(client):
    await client.start()
    try:
        yield client
    finally:
        await (client.close() if isinstance(client, AIOKafkaAdminClient) else client.stop())


def admin():
    return started(AIOKafkaAdminClient(**login()))


def producer(**settings):
    return started(AIOKafkaProducer(**(login() | settings)))


def reader(*topics: str, **settings):
    wanted = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    return started(AIOKafkaConsumer(*topics, **(login() | wanted | settings)))


async def new_topic(name: str) -> str:
    topic = f"{name}-{RUN}-{next(_made)}"
    configs = {"min.insync.replicas": "2"}
    async with admin() as client:
        await client.create_topics([NewTopic(topic, PARTITIONS, 3, topic_configs=configs)])
    return topic


async def until(what: str, done: Callable[[], Awaitable[object]]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not await done():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {PATIENCE_S} s: {what}")
        await asyncio.sleep(0.05)


async def values(consumer, count: int) -> list[bytes]:
    async with asyncio.timeout(PATIENCE_S):
        return [(await consumer.getone()).value for _ in range(count)]


async def topics() -> None:
    topic = await new_topic("topics")
    async with admin() as client:
        again = await client.create_topics([NewTopic(topic, 1, 3)])
        assert again.topic_errors[0][1] == TopicAlreadyExistsError.errno
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "12345678"})
        await client.alter_configs([resource])

        async def is_altered() -> bool:
            (answer,) = await client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
            return any(entry[:2] == ("retention.ms", "12345678") for entry in answer.resources[0][4])

        await until("retention.ms is described", is_altered)
        await client.create_partitions({topic: NewPartitions(5)})

        async def has_five() -> bool:
            (found,) = await client.describe_topics([topic])
            return len(found["partitions"]) == 5

        await until("5 partitions", has_five)
        await client.delete_topics([topic])

        async def is_gone() -> bool:
            return topic not in await client.list_topics()

        await until("the topic is gone", is_gone)


def codec(name: str | None) -> Callable[[], Awaitable[None]]:
    async def check() -> None:
        topic = await new_topic("codec")
        sent = [f"{number} {'abc' * number}".encode() for number in range(300)]
        async with producer(enable_idempotence=True, compression_type=name, linger_ms=5) as client:
            pending = [
                await client.send(topic, value, key=b"%d" % number, headers=[("h", b"%d" % number)]) for number, value in enumerate(sent)
            ]
            await asyncio.gather(*pending)
        async with reader(topic) as client, asyncio.timeout(PATIENCE_S):
            got = [await client.getone() for _ in sent]
        assert sorted(message.value for message in got) == sorted(sent)
        assert all(message.headers == (("h", message.key),) for message in got)

    return check


async def fill(topic: str, prefix: str, count: int) -> None:
    async with producer() as client:
        for number in range(count):
            value = f"{prefix}{number}".encode()
            await client.send_and_wait(topic, value, partition=number % PARTITIONS)


def group(assignor: type) -> Callable[[], Awaitable[None]]:
    async def check() -> None:
        topic = await new_topic("group")
        settings = {
            "group_id": f"group-of-{topic}",
            "partition_assignment_strategy": (assignor,),
            "heartbeat_interval_ms": 300,
        }
        async with reader(topic, **settings) as one:
            async with reader(topic, **settings) as two:

                async def is_shared() -> bool:
                    both = len(one.assignment()) + len(two.assignment())
                    return both == PARTITIONS and bool(one.assignment()) and bool(two.assignment())

                await until("two share", is_shared)
                await fill(topic, "a", 9)
                found: list[bytes] = []

                async def has_nine() -> bool:
                    for member in (one, two):
                        batches = await member.getmany(timeout_ms=50)
                        found.extend(m.value for batch in batches.values() for m in batch)
                    return len(found) >= 9

                await until("9 records", has_nine)
                assert sorted(found) == [b"a%d" % number for number in range(9)]

            async def has_all() -> bool:
                return len(one.assignment()) == PARTITIONS

            await until("the other has all", has_all)
        await fill(topic, "b", 3)
        async with reader(topic, **settings) as again:
            assert sorted(await values(again, 3)) == [b"b0", b"b1", b"b2"]
            await again.commit()
        async with admin() as client:
            offsets = await client.list_consumer_group_offsets(settings["group_id"])
            assert sum(offset.offset for offset in offsets.values()) == 12
            assert settings["group_id"] in [name for name, _ in await client.list_consumer_groups()]

    return check


async def transactions() -> None:
    topic = await new_topic("transactions")
    async with producer(transactional_id=f"plain-{RUN}") as client:
        for number in range(10):
            aborted = number % 3 == 2
            await client.begin_transaction()
            for partition in range(PARTITIONS):
                value = b"aborted" if aborted else b"c%d" % number
                await client.send(topic, value, partition=partition)
            await (client.abort_transaction() if aborted else client.commit_transaction())
    async with reader(topic) as client:
        found = await values(client, 7 * PARTITIONS)
    assert b"aborted" not in found and len(set(found)) == 7


async def transaction_of_offsets() -> None:
    source = TopicPartition(await new_topic("txn-in"), 0)
    target, name = await new_topic("txn-out"), f"group-of-{source.topic}"
    async with producer(transactional_id=f"offsets-{RUN}") as client:
        for number in range(6):
            for commit in (False, True):
                await client.begin_transaction()
                await client.send(target, b"v%d" % number, partition=0)
                await client.send_offsets_to_transaction({source: number + 1}, name)
                await (client.commit_transaction() if commit else client.abort_transaction())
    async with reader(target) as client:
        assert await values(client, 6) == [b"v%d" % number for number in range(6)]
    async with reader(group_id=name) as client:

        async def is_committed() -> bool:
            return await client.committed(source) == 6

        await until("the offsets are committed", is_committed)


async def fencing() -> None:
    topic = await new_topic("fencing")
    async with producer(transactional_id=f"fenced-{RUN}") as old:
        await old.begin_transaction()
        await old.send_and_wait(topic, b"old", partition=0)
        async with producer(transactional_id=f"fenced-{RUN}") as young, young.transaction():
            await young.send_and_wait(topic, b"young", partition=0)
        try:
            await old.commit_transaction()
            raise AssertionError("the old producer was not fenced")
        except ProducerFenced:
            pass
    async with reader(topic) as client:
        assert await values(client, 1) == [b"young"]


async def scram() -> None:
    async with started(AIOKafkaAdminClient(**OTHERS)):
        pass
    try:
        async with started(AIOKafkaAdminClient(**(OTHERS | {"sasl_plain_password": "wrong"}))):
            pass
    except KafkaConnectionError:
        return
    raise AssertionError("a wrong password logged in")


async def acls() -> None:
    topic = await new_topic("acls")
    async with started(AIOKafkaProducer(**OTHERS)) as client:
        try:
            await client.send_and_wait(topic, b"v")
            raise AssertionError("OTHER may write")
        except TopicAuthorizationFailedError:
            pass


CHECKS = {
    "topics": topics,
    **{f"codec-{name or 'none'}": codec(name) for name in (None, "gzip", "snappy", "lz4", "zstd")},
    "group-roundrobin": group(RoundRobinPartitionAssignor),
    "group-sticky": group(StickyPartitionAssignor),
    "transactions": transactions,
    "transaction-of-offsets": transaction_of_offsets,
    "transaction-fencing": fencing,
    "scram": scram,
    "acls": acls,
}


async def main(wanted: list[str]) -> int:
    failed = False
    for name, check in CHECKS.items():
        if wanted and name not in wanted:
            continue
        try:
            await check()
            print(f"ok {name}", flush=True)
        except Exception as error:  # noqa: BLE001 whatever it is, it is told and the next check runs
            failed = True
            print(f"FAIL {name}: {type(error).__name__} {error}".replace("\n", " ")[:600], flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[6:])))
