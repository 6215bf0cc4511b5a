"""What a source task has read and written, under the names of Connect's MBeans.

    kafka.connect:type=source-task-metrics,connector=c,task=0
        source-record-poll-total, source-record-poll-rate            records that were read of the source
        source-record-write-total, source-record-write-rate          ... that the target has acknowledged
        source-record-active-count, -avg, -max                       ... that are on their way, of this life of the task
        poll-batch-avg-time-ms, poll-batch-max-time-ms               polls that brought records
        transaction-size-avg, -max, -min                             records of each transaction

    kafka.producer:type=producer-metrics,client-id=...               the task's producer
    kafka.producer:type=producer-node-metrics,client-id=...,node-id=node-1
    kafka.consumer:type=consumer-metrics,client-id=...               its consumer, if it has one
    kafka.consumer:type=consumer-node-metrics,client-id=...,node-id=node-1
    kafka.consumer:type=consumer-fetch-manager-metrics,client-id=...

Records are counted when they are sent on, because batches are not unpacked before. Those of a batch
that lie before the position of the task are not among them. Tasks that make their records themselves
(checkpoints, heartbeats) poll nothing, so the times of their polls are NaN. Averages, greatest
values and rates are over Kafka's two windows of 30 seconds, NaN when nothing was measured. As for the other metrics of a
worker, a tag `flow` tells the flows of one process of `connect-mirror-maker` apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kmirror.clients.consumer.kafka_consumer import KafkaConsumer
from kmirror.clients.kafka_producer import KafkaProducer
from kmirror.common.metrics import MetricName, MetricsRegistry, Value
from kmirror.common.ports import Clock
from kmirror.common.sensors import AvgMinMax, MetricConfig, Rate
from kmirror.mirrormaker.task_metrics import TASK, TaskMeter

GROUP: Final = "kafka.connect"
KIND: Final = "source-task-metrics"
_CONFIG: Final = MetricConfig()


class SourceTaskMeter(TaskMeter):
    """Of one task, over all its lives."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._polled = self._written = self._active = 0
        self._poll_rate, self._write_rate = Rate(), Rate()
        self._poll_times, self._actives, self._transactions = AvgMinMax(), AvgMinMax(), AvgMinMax()
        self._polled_before = 0
        self._clients: tuple[KafkaConsumer | None, KafkaProducer] | None = None

    def begin(self, consumer: KafkaConsumer | None, producer: KafkaProducer) -> None:
        """A life begins, with clients of its own: nothing is on its way."""
        self._active, self._clients = 0, (consumer, producer)
        self._polled_before = self._polled

    def end(self) -> None:
        """The life has ended, and its clients are closed."""
        self._clients = None

    def poll_took(self, ms: float) -> None:
        self._poll_times.record(_CONFIG, ms, self._clock.monotonic_ms())

    def polled(self, records: int) -> None:
        now_ms = self._clock.monotonic_ms()
        self._polled += records
        self._poll_rate.record(_CONFIG, records, now_ms)
        self._are_active(self._active + records, now_ms)

    def poll_ended(self) -> None:
        """What one poll brought is counted: all that was `polled` since the last one."""
        if self._polled > self._polled_before:
            self.batch_polled(self._polled - self._polled_before)
            self._polled_before = self._polled

    def transaction_committed(self, records: int) -> None:
        self._transactions.record(_CONFIG, records, self._clock.monotonic_ms())

    def written(self, records: int) -> None:
        now_ms = self._clock.monotonic_ms()
        self._written += records
        self._write_rate.record(_CONFIG, records, now_ms)
        self._are_active(self._active - records, now_ms)

    def dropped(self, records: int) -> None:
        """They go no further: a filter, or tolerance, has left them out."""
        self._are_active(self._active - records, self._clock.monotonic_ms())

    def _are_active(self, records: int, now_ms: int) -> None:
        self._active = max(0, records)
        self._actives.record(_CONFIG, self._active, now_ms)

    def read_clients(self) -> Iterator[tuple[MetricName, Value]]:
        if self._clients is None:
            return
        consumer, producer = self._clients
        yield from _of_client("producer-metrics", producer.client_id, producer.readings())
        yield from _of_nodes("producer-node-metrics", producer.client_id, producer.node_readings())
        if consumer is not None:
            yield from _of_client("consumer-metrics", consumer.client_id, consumer.readings())
            yield from _of_nodes("consumer-node-metrics", consumer.client_id, consumer.node_readings())
            yield from _of_client("consumer-fetch-manager-metrics", consumer.client_id, consumer.fetch_readings())

    def read(self) -> Iterator[tuple[str, float]]:
        now_ms = self._clock.monotonic_ms()
        yield "source-record-poll-total", self._polled
        yield "source-record-poll-rate", self._poll_rate.measure(_CONFIG, now_ms)
        yield "source-record-write-total", self._written
        yield "source-record-write-rate", self._write_rate.measure(_CONFIG, now_ms)
        yield "source-record-active-count", self._active
        yield "source-record-active-count-avg", self._actives.measure(_CONFIG, now_ms)
        yield "source-record-active-count-max", self._actives.greatest(_CONFIG, now_ms)
        yield "poll-batch-avg-time-ms", self._poll_times.measure(_CONFIG, now_ms)
        yield "poll-batch-max-time-ms", self._poll_times.greatest(_CONFIG, now_ms)
        yield "transaction-size-avg", self._transactions.measure(_CONFIG, now_ms)
        yield "transaction-size-max", self._transactions.greatest(_CONFIG, now_ms)
        yield "transaction-size-min", self._transactions.least(_CONFIG, now_ms)


Readings = Iterator[tuple[str, float]]


def _of_client(kind: str, client_id: str, readings: Readings, *more: tuple[str, str]) -> Iterator[tuple[MetricName, Value]]:
    """`kind` is the type of an MBean, which begins with the kind of client."""
    for attribute, value in readings:
        yield MetricName(f"kafka.{kind.partition('-')[0]}", kind, "", (("client-id", client_id), *more), attribute), value


def _of_nodes(kind: str, client_id: str, nodes: Iterator[tuple[int, Readings]]) -> Iterator[tuple[MetricName, Value]]:
    for node_id, readings in nodes:
        yield from _of_client(kind, client_id, readings, ("node-id", f"node-{node_id}"))


class SourceTaskMetrics:
    """Of all source tasks of a worker, from the start of each until it ends here."""

    def __init__(self, registry: MetricsRegistry, clock: Clock, flow: str | None) -> None:
        self._clock = clock
        self._tags = () if flow is None else (("flow", flow),)
        self._tasks: dict[tuple[str, int], SourceTaskMeter] = {}
        registry.add_collector(self._collect)

    @contextmanager
    def of_task(self, connector: str, task: int) -> Iterator[SourceTaskMeter]:
        meter = self._tasks[connector, task] = SourceTaskMeter(self._clock)
        try:
            yield meter
        finally:
            if self._tasks.get((connector, task)) is meter:
                del self._tasks[connector, task]

    def _collect(self) -> Iterator[tuple[MetricName, Value]]:
        for (connector, task), meter in self._tasks.items():
            tags = (*self._tags, ("connector", connector), ("task", str(task)))
            for attribute, value in meter.read():
                yield MetricName(GROUP, KIND, "", tags, attribute), value
            for attribute, value in meter.read_task():
                yield MetricName(GROUP, TASK, "", tags, attribute), value
            yield from meter.read_clients()
