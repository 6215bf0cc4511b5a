"""A consumer and a producer of the legacy MirrorMaker's that tests script, on the simulated clock.

Both write what they were asked to do to one list of events, so that a test sees the order across
both. They keep no rules of Kafka's beyond that: what real clients do is tested with real clusters.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

from kmirror.clients.consumer.consumer_types import ConsumerRecord, ConsumerRecords, WakeupException
from kmirror.clients.kafka_producer import ProducerRecord, RecordMetadata
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.legacy.mirror_maker import MirrorMaker
from kmirror.mirrormaker.legacy.settings import MirrorMakerSettings
from kmirror.record.record_batch import TimestampType
from kmirror.sim.loop import SimLoop
from kmirror.sim.runtime import SimWorld

TOO_LARGE = ApiException(Errors.MESSAGE_TOO_LARGE, "too large")


def consumed(offset: int, *, topic: str = "t", partition: int = 0, key: bytes | None = b"k", timestamp: int = 77) -> ConsumerRecord:
    return ConsumerRecord(topic, partition, offset, timestamp, TimestampType.CREATE_TIME, key, b"v%d" % offset, [("h", b"x")])


class ScriptedConsumer:
    """`polls` is what `poll` returns, one after the other; a function in it is called instead."""

    def __init__(self, world: Doubles, properties) -> None:
        self.world = world
        self.properties = properties
        self.polls: list = []
        self.commit_errors: list[Exception] = []
        self.committed: dict[TopicPartition, int] = {}
        self.topics: list[str] = ["t"]
        self.answered_fetches = 0
        self.records_lost = 0
        self.refuses = False
        self.listener = None
        self.pattern = None
        self.closed = False
        self._woken = asyncio.Event()

    def trouble(self) -> str | None:
        return self.world.troubles.get("source")

    def subscribe(self, pattern, listener=None) -> None:
        self.pattern, self.listener = pattern, listener

    async def poll(self, timeout_ms):
        if self.listener is not None:  # in its group, from the first poll on
            self.listener._wrapper.partition_count = self.listener._wrapper.partition_count or 0
        if self.polls:
            found = self.polls.pop(0)
            if callable(found):
                found = await found(self) or []
            if isinstance(found, Exception):
                raise found
            by_partition: dict[TopicPartition, list[ConsumerRecord]] = {}
            for record in found:
                by_partition.setdefault(record.topic_partition, []).append(record)
            return ConsumerRecords(by_partition)
        try:
            await asyncio.wait_for(self._woken.wait(), timeout_ms / 1000)
        except TimeoutError:
            return ConsumerRecords({})
        self._woken.clear()
        raise WakeupException("woken")

    async def commit(self, offsets) -> None:
        if self.commit_errors:
            error = self.commit_errors.pop(0)
            self.world.events.append(("commit refused", type(error).__name__))
            raise error
        numbers = {partition: one.offset for partition, one in offsets.items()}
        self.world.events.append(("commit", numbers))
        self.committed |= numbers

    async def list_topics(self):
        return {topic: [] for topic in self.topics}

    def wakeup(self) -> None:
        self._woken.set()

    def refuse_topics_made_anew(self) -> None:
        self.refuses = True

    async def close(self) -> None:
        self.closed = True
        self.world.events.append(("close consumer",))


class _Sent:
    def __init__(self, error: Exception | None) -> None:
        self._error = error

    def __await__(self):
        yield from ()
        if self._error is not None:
            raise self._error


class ScriptedProducer:
    """Sends wait until `flush`, which settles them; `fails` says with which error a record ends."""

    def __init__(self, world: Doubles, properties) -> None:
        self.world = world
        self.properties = properties
        self.fails: Callable[[ProducerRecord], Exception | None] = lambda record: None
        self.refuses: Callable[[ProducerRecord], Exception | None] = lambda record: None
        self.blocked: asyncio.Event | None = None
        self.acknowledged: list[ProducerRecord] = []
        self.asked: list[str] = []
        self._waiting: list = []
        self.closed = False

    def trouble(self) -> str | None:
        return self.world.troubles.get("target")

    async def send(self, record, callback=None):
        refused = self.refuses(record)
        if refused is not None:
            raise refused
        self.world.events.append(("send", record.value))
        if callback is not None:
            self._waiting.append((record, callback))
        return _Sent(self.fails(record))

    async def partitions_for(self, topic: str) -> list[object]:
        self.asked.append(topic)
        raise ApiException(Errors.UNKNOWN_TOPIC_OR_PARTITION)

    async def flush(self) -> None:
        if self.blocked is not None:
            await self.blocked.wait()
        self.world.events.append(("flush",))
        self.settle()

    def settle(self) -> None:
        waiting, self._waiting = self._waiting, []
        for record, callback in waiting:
            error = self.fails(record)
            if error is None:
                self.acknowledged.append(record)
                callback(RecordMetadata(TopicPartition(record.topic, 0), len(self.acknowledged), 0), None)
            else:
                callback(None, error)

    async def close(self, timeout_ms=1 << 40) -> None:
        if not self.closed:
            self.closed = True
            self.world.events.append(("close producer", "now" if timeout_ms == 0 else "in order"))
            dropped, self._waiting = self._waiting, []
            for _, callback in dropped:
                callback(None, ApiException(Errors.UNKNOWN_SERVER_ERROR, "Producer is closed forcefully."))


class Doubles:
    """A MirrorMaker on doubles. `troubles` is what its clients tell of source and target. `play` runs until the MirrorMaker ends or `ask_ms` have passed;
    then it is asked to end.
    """

    def __init__(self, *, consumer_properties=None, producer_properties=None, **settings) -> None:
        self.events: list[tuple] = []
        self.troubles: dict[str, str] = {}
        self.consumers: list[ScriptedConsumer] = []
        self.world = SimWorld(SimLoop(3))
        self.runtime = self.world.node("mirror-maker").boot()
        self.settings = MirrorMakerSettings(
            {"group.id": "g", **(consumer_properties or {})}, producer_properties or {}, re.compile("t"), **settings
        )
        self.mirror_maker = MirrorMaker(self.runtime, self.settings, new_consumer=self._consumer, new_producer=self._producer)

    def _consumer(self, runtime, properties) -> ScriptedConsumer:
        self.consumers.append(ScriptedConsumer(self, properties))
        return self.consumers[-1]

    def _producer(self, runtime, properties) -> ScriptedProducer:
        self.producer = ScriptedProducer(self, properties)
        return self.producer

    @property
    def consumer(self) -> ScriptedConsumer:
        return self.consumers[0]

    def play(self, ask_ms: int = 3_000, then: Callable | None = None) -> bool:
        async def whole() -> bool:
            running = self.runtime.spawn(self.mirror_maker.run(), name="mirror-maker")
            await self.runtime.sleep_ms(ask_ms)
            if then is not None:
                await then()
            self.mirror_maker.shut_down()
            return await running

        return self.world.loop.run_until_complete(self.runtime.spawn(whole(), name="test"))

    def names(self) -> list[str]:
        return [event[0] for event in self.events]
