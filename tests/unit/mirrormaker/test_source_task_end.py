"""A task that fails, and is stopped while it ends: its clients must not live on."""

from __future__ import annotations

import asyncio

import pytest

from kmirror.clients.consumer.kafka_consumer import KafkaConsumer
from kmirror.clients.kafka_producer import KafkaProducer, ProducerRecord
from kmirror.common.errors import ApiException, Errors
from kmirror.common.metrics import MetricsRegistry
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.connect_offsets import NOTHING_STORED, SourcePartition
from kmirror.mirrormaker.cycles import SourceAndTarget
from kmirror.mirrormaker.mirror_metrics import MirrorSourceMetrics
from kmirror.mirrormaker.replication_policy import DefaultReplicationPolicy
from kmirror.mirrormaker.source_task import MirrorSourceTask
from kmirror.mirrormaker.source_task_config import SourceTaskConfig
from kmirror.runtime.asyncio_runtime import AsyncioRuntime

NOBODY = {"bootstrap.servers": "127.0.0.1:1"}
FLOW = SourceAndTarget("A", "B")


class UnreadableOffsets:
    """Of a cluster that refuses."""

    async def refresh(self) -> None:
        raise ApiException(Errors.TOPIC_AUTHORIZATION_FAILED)

    def get(self, _connector: str, _source: SourcePartition) -> int:
        return NOTHING_STORED

    async def write(
        self, connector: str, offsets: list[tuple[SourcePartition, int]], transaction_of: KafkaProducer | None = None
    ) -> None: ...


def living() -> set[str]:
    return {task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()}


async def test_a_task_that_is_stopped_while_it_ends_leaves_no_producer_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """It had failed, and its group lost it while its consumer was being closed. Its producer lived on, and
    sent what it had, beside the worker that had the task by then.
    """
    runtime, closing = AsyncioRuntime(), asyncio.Event()
    close = KafkaConsumer.close

    async def close_slowly(consumer: KafkaConsumer, *, timeout_ms: float) -> None:
        closing.set()
        try:
            await asyncio.Event().wait()
        finally:
            await close(consumer, timeout_ms=timeout_ms)

    monkeypatch.setattr(KafkaConsumer, "close", close_slowly)
    settings = [{**NOBODY, "client.id": name} for name in ("reads", "writes", "syncs")]
    config = SourceTaskConfig("MirrorSourceConnector", FLOW, DefaultReplicationPolicy(), [TopicPartition("t", 0)], *settings)
    metrics = MirrorSourceMetrics(MetricsRegistry(runtime.clock), runtime.clock, FLOW)
    before = living()
    running = runtime.spawn(MirrorSourceTask(runtime, config, UnreadableOffsets(), metrics).run(), name="task")
    await closing.wait()
    assert {"writes/sender", "syncs/sender"} <= living()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert living() == before


async def test_a_producer_whose_close_is_cut_short_ends_all_the_same() -> None:
    runtime = AsyncioRuntime()
    before = living()
    producer = KafkaProducer(runtime, {**NOBODY, "client.id": "writes", "max.block.ms": "100000"})
    sending = runtime.spawn(producer.send(ProducerRecord("t", b"v")), name="send")
    await asyncio.sleep(0)
    closing = runtime.spawn(producer.close(), name="close")
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert not {name for name in living() if "writes/" in name}
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    assert living() == before
