"""aiokafka against an embedded cluster used as an async context manager."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from kmirror import EmbeddedCluster


async def test_aiokafka_produces_and_consumes_with_a_group() -> None:
    async with EmbeddedCluster() as cluster:
        admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
        await admin.start()
        await admin.create_topics([NewTopic("aio", 2, 1)])
        await admin.close()
        producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, enable_idempotence=True, compression_type="gzip")
        await producer.start()
        for number in range(100):
            await producer.send_and_wait("aio", str(number).encode(), partition=number % 2)
        await producer.stop()
        consumer = AIOKafkaConsumer("aio", bootstrap_servers=cluster.bootstrap_servers, group_id="g", auto_offset_reset="earliest")
        await consumer.start()
        values = [(await asyncio.wait_for(consumer.getone(), 20)).value for _ in range(100)]
        await consumer.commit()
        await consumer.stop()
    assert sorted(values) == sorted(str(number).encode() for number in range(100))


async def test_aiokafka_transactions_with_offsets() -> None:
    """Consume, produce and commit offsets in one transaction; what was aborted is not seen and not
    counted.
    """
    async with EmbeddedCluster(brokers=3, config={"transaction.state.log.num.partitions": "3"}) as cluster:
        admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
        await admin.start()
        await admin.create_topics([NewTopic("out", 2, 3)])
        await admin.close()
        source = TopicPartition("out", 0)
        producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id="aio-transactions")
        await producer.start()
        for value, offset, commit in ((b"one", 1, True), (b"lost", 2, False), (b"two", 3, True)):
            await producer.begin_transaction()
            for partition in (0, 1):
                await producer.send("out", value, partition=partition)
            await producer.send_offsets_to_transaction({source: offset}, "aio-group")
            await (producer.commit_transaction() if commit else producer.abort_transaction())
        await producer.stop()
        consumer = AIOKafkaConsumer(
            "out",
            bootstrap_servers=cluster.bootstrap_servers,
            group_id="aio-reader",
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        await consumer.start()
        values = [(await asyncio.wait_for(consumer.getone(), 20)).value for _ in range(4)]
        await consumer.stop()
        group = AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, group_id="aio-group")
        await group.start()
        committed = await group.committed(source)
        await group.stop()
    assert (sorted(values), committed) == ([b"one", b"one", b"two", b"two"], 3)
