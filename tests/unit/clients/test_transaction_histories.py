"""Random histories of transactions: errors, lost answers, slow answers, calls and sends that are given
up, batches that expire, coordinators that move. The coordinator and the logs are as strict as
Kafka's.

Whatever happens: the records of a transaction whose commit has succeeded are there once, in order;
those of an aborted one are not; one whose outcome the application was not told is there as a whole
or not at all. No call waits for ever, and the coordinator has no open transaction in the end.
"""

from __future__ import annotations

import asyncio
import random

import pytest
from support.clients.scripted_cluster import ScriptedCluster, ScriptedTopic
from support.clients.strict_transactions import StrictTransactions

from kmirror.clients.kafka_producer import ConsumerGroupMetadata, KafkaProducer, OffsetAndMetadata, ProducerRecord
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid

PARTITIONS = 3
GROUP = ConsumerGroupMetadata("g")
SOURCE = TopicPartition("src", 0)
LONGEST_CALL_MS = 600_000
COMMITTED, ABORTED, UNKNOWN = "committed", "aborted", "unknown"


class Transaction:
    def __init__(self) -> None:
        self.sent: dict[int, list[bytes]] = {}
        self.offset: int | None = None
        self.outcome = UNKNOWN


class History:
    def __init__(self, seed: int, version: int) -> None:
        self.dice = random.Random(seed)
        self.cluster = ScriptedCluster(3, seed=seed)
        self.cluster.topics["t"] = ScriptedTopic({number: number for number in range(PARTITIONS)}, topic_id=Uuid(b"1" * 16))
        self.broker = StrictTransactions(self.cluster, self.dice, version=version)
        self.broker.fault_rate = self.dice.choice([0.0, 0.05, 0.2, 0.4])
        self.gives_up = self.dice.choice([0.0, 0.1, 0.4])
        self.settings = {
            "linger_ms": self.dice.choice([0, 5, 200]),
            "batch_size": self.dice.choice([100, 400]),
            "buffer_memory": self.dice.choice([450, 1_500, 33_554_432]),
            "delivery_timeout_ms": self.dice.choice([2_000, 120_000]),
            "request_timeout_ms": 1_000,
            "max_block_ms": self.dice.choice([500, 5_000, 60_000]),
        }
        self.counter = 0
        self.transactions: list[Transaction] = []

    async def play(self, count: int) -> None:
        producer = await self._ready_producer()
        for _ in range(count):
            if self.dice.random() < 0.05:
                self.broker.move()
            try:
                await self._transaction(producer)
            except _Over:
                await self._closed(producer)
                producer = await self._ready_producer()
        self.broker.fault_rate = 0.0
        await self._closed(producer)
        last = await self._ready_producer()  # ends what the one before it left open
        await self._closed(last)
        assert producer._accumulator.pool.free == producer.config.buffer_memory
        assert not producer._accumulator.incomplete

    async def _closed(self, producer) -> None:
        async with asyncio.timeout(LONGEST_CALL_MS / 1000):
            await producer.close(timeout_ms=self.dice.choice([0, 100, 1 << 40, 1 << 40, 1 << 40]))

    async def _ready_producer(self) -> KafkaProducer:
        while True:
            producer = KafkaProducer(self.cluster.runtime, self.cluster.props(0, 1, 2, transactional_id="tx", **self.settings))
            try:
                await self._until_done(producer.init_transactions)
                return producer
            except KmirrorError:
                await self._closed(producer)

    async def _until_done(self, call) -> None:
        """Makes a call again that timed out or was given up, as an application does."""
        until_ms = self.cluster.runtime.clock.monotonic_ms() + LONGEST_CALL_MS
        while True:
            assert self.cluster.runtime.clock.monotonic_ms() < until_ms, "a call does not end"
            try:
                if self.dice.random() < self.gives_up:
                    async with asyncio.timeout(self.dice.choice([0, 0.01, 0.3, 2])):
                        await call()
                else:
                    await call()
                return
            except TimeoutError:
                continue
            except ApiException as error:
                if error.error is not Errors.REQUEST_TIMED_OUT or "awaiting" not in error.message:
                    raise

    async def _given_up(self, call) -> None:
        """Makes a call that is not made again."""
        try:
            async with asyncio.timeout(self.dice.choice([0, 0.01, 0.3])):
                await call
        except TimeoutError:
            pass
        except ApiException as error:
            if error.error is not Errors.REQUEST_TIMED_OUT:
                raise

    async def _transaction(self, producer) -> None:
        transaction = Transaction()
        self.transactions.append(transaction)
        try:
            await producer.begin_transaction()
            for _ in range(self.dice.randint(0, 8)):
                await self._step(producer, transaction)
            if self.dice.random() < 0.7:
                await self._until_done(producer.commit_transaction)
                transaction.outcome = COMMITTED
            else:
                await self._until_done(producer.abort_transaction)
                transaction.outcome = ABORTED
        except KmirrorError:
            try:
                await self._until_done(producer.abort_transaction)
            except KmirrorError as error:
                raise _Over from error
            transaction.outcome = ABORTED

    async def _step(self, producer, transaction) -> None:
        roll = self.dice.random()
        if roll < 0.02:
            raise _Over
        if roll < 0.15:
            await self.cluster.runtime.sleep_ms(self.dice.choice([1, 30, 700, 3_000]))
        elif roll < 0.3:
            self.counter += 1
            offset = self.counter
            sending = lambda: producer.send_offsets_to_transaction({SOURCE: OffsetAndMetadata(offset)}, GROUP)  # noqa: E731
            if self.dice.random() < self.gives_up / 2:
                await self._given_up(sending())
                return
            await self._until_done(sending)
            transaction.offset = offset
        else:
            number = self.dice.randrange(PARTITIONS)
            value = b"%06d" % self.counter
            self.counter += 1
            try:
                if self.dice.random() < self.gives_up:
                    async with asyncio.timeout(self.dice.choice([0, 0.01, 0.3])):
                        await producer.send(ProducerRecord("t", value, partition=number))
                else:
                    await producer.send(ProducerRecord("t", value, partition=number))
            except TimeoutError:
                return
            transaction.sent.setdefault(number, []).append(value)

    def check(self) -> None:
        assert not self.broker.is_open, "the coordinator has an open transaction"
        for number in range(PARTITIONS):
            visible = self.broker.visible(number)
            assert visible == sorted(set(visible)), "a record is there twice or out of order"
        known = set()
        for transaction in self.transactions:
            there = [value in self.broker.visible(number) for number, values in transaction.sent.items() for value in values]
            known.update(value for values in transaction.sent.values() for value in values)
            if transaction.outcome == COMMITTED:
                assert all(there), f"{transaction.sent} was committed and is not there"
                assert transaction.offset is None or transaction.offset in self.broker.offsets, "committed offsets are missing"
            elif transaction.outcome == ABORTED:
                assert not any(there), f"{transaction.sent} was aborted and is there"
                assert transaction.offset is None or transaction.offset not in self.broker.offsets, "aborted offsets are there"
            else:
                assert all(there) or not any(there), f"half of {transaction.sent} is there"
        for number in range(PARTITIONS):
            assert set(self.broker.visible(number)) <= known, "a record that was given up is there"

    def run(self, count: int) -> None:
        self.cluster.run(self.play(count))
        self.cluster.run_ms(10_000)
        self.check()
        self.cluster.close()


class _Over(Exception):
    """The producer has failed for good, or is closed in the middle."""


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("seed", range(40))
def test_a_transaction_is_there_as_a_whole_or_not_at_all(seed, version):
    History(seed, version).run(12)
