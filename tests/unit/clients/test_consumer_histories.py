"""Random histories of a consumer and brokers that go wrong: whatever happens, each partition's
records come in order, none is missing, and none comes twice unless it was sought again.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from support.clients.scripted_sessions import ScriptedSessions
from support.waiting import REACHED_S

from kmirror.clients.consumer.kafka_consumer import KafkaConsumer
from kmirror.common.topic_partition import TopicPartition

STEPS = 120


class History:
    """One consumer, and where each partition's next record is expected."""

    def __init__(self, seed: int) -> None:
        self.brokers = ScriptedSessions(seed)
        self.random = self.brokers.random
        self.partitions = list(self.brokers.offsets)
        self.expected = dict.fromkeys(self.partitions, 0)

    async def run(self) -> None:
        props = self.brokers.cluster.props(0, 1, 2, max_poll_records=self.random.choice((1, 7, 500)), retry_backoff_ms=20)
        async with KafkaConsumer(self.brokers.cluster.runtime, props | {"auto.offset.reset": "none"}) as reader:
            reader.assign(self.partitions)
            for partition in self.partitions:
                reader.seek(partition, 0)
            for _ in range(STEPS):
                self.brokers.append(self.random.choice(self.partitions))
                if self.random.random() < 0.3:
                    self.brokers.go_wrong()
                await self._step(reader)
            self.brokers.is_faulty = False
            reader.resume(self.partitions)
            async with asyncio.timeout(REACHED_S):
                while any(self._left(partition) for partition in self.partitions):
                    await self._poll(reader, 500)

    async def _step(self, reader: KafkaConsumer) -> None:
        chance, partition = self.random.random(), self.random.choice(self.partitions)
        if chance < 0.1:
            reader.pause([partition])
        elif chance < 0.25:
            reader.resume([partition])
        elif chance < 0.35:
            self.expected[partition] = self.random.choice([0, *self.brokers.offsets[partition]])
            reader.seek(partition, self.expected[partition])
        elif chance < 0.5:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.random.random() * 0.05):
                    await self._poll(reader, 1_000)
        else:
            await self._poll(reader, self.random.choice((0, 10, 100)))

    async def _poll(self, reader: KafkaConsumer, timeout_ms: int) -> None:
        if self.random.random() < 0.3:
            for answer in await reader.poll_batches(timeout_ms):
                found = [
                    record.offset
                    for one in answer.batches
                    for record in one.batch.records()
                    if one.position <= record.offset < one.next_offset
                ]
                self._take(reader, answer.partition, found)
        else:
            records = await reader.poll(timeout_ms)
            for partition in records.partitions():
                self._take(reader, partition, [record.offset for record in records.records(partition)])

    def _take(self, reader: KafkaConsumer, partition: TopicPartition, found: list[int]) -> None:
        assert partition not in reader.paused()
        assert found == self._left(partition)[: len(found)]
        if found:
            self.expected[partition] = found[-1] + 1

    def _left(self, partition: TopicPartition) -> list[int]:
        return [offset for offset in self.brokers.offsets[partition] if offset >= self.expected[partition]]


@pytest.mark.parametrize("seed", range(40))
def test_records_come_in_order_and_none_is_missing(seed: int) -> None:
    history = History(seed)
    history.brokers.cluster.run(history.run())
    history.brokers.cluster.close()
