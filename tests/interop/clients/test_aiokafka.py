"""aiokafka against an embedded cluster used as an async context manager."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from kmirror import EmbeddedCluster


def test_aiokafka_produces_and_consumes_with_a_group() -> None:
    async def scenario() -> list[bytes]:
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
            return values

    assert sorted(asyncio.run(scenario())) == sorted(str(number).encode() for number in range(100))
