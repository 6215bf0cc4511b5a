"""What a producer sends and what comes back, under the names of Kafka's `SenderMetricsRegistry`.

    record-send, record-retry, record-error, batch-split         each -rate and -total
    batch-size, record-queue-time, request-latency,
    produce-throttle-time                                        each -avg and -max
    records-per-request-avg

A batch is measured each time that it is sent, `record-queue-time` from its making on. What requests
and answers say is gathered for up to a second and then noted at once, at the time of the last of
them; whoever reads gets all. Nothing is done for each record. What Kafka also has and is not here:
`compression-rate` and `record-size`, which nobody knows of a batch that is sent on as it came.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kmirror.clients.node_latencies import NodeLatencies
from kmirror.clients.producer_batch import ProducerBatch
from kmirror.clients.rated_total import RatedTotal
from kmirror.common.ports import Clock
from kmirror.common.sensors import AvgMinMax, MetricConfig

NOTE_EVERY_MS: Final = 1_000
_CONFIG: Final = MetricConfig()


class SenderMetrics:
    """Of one producer."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.records_sent = RatedTotal("record-send", clock)
        """Those of batches that are sent again count again, as in Kafka."""
        self.records_retried = RatedTotal("record-retry", clock)
        self.records_failed = RatedTotal("record-error", clock)
        self.batches_split = RatedTotal("batch-split", clock)
        self.latencies = NodeLatencies(clock)
        self._batch_sizes, self._queue_times = AvgMinMax(), AvgMinMax()
        self._requests, self._throttles = AvgMinMax(), AvgMinMax()
        self._noted_ms = self._last_ms = 0
        self._sent: list[tuple[int, int]] = []
        """Size and queue time of each batch."""
        self._counts: list[int] = []
        self._answered: dict[int, list[tuple[int, int]]] = {}
        """Latency and throttle time of each answer, by broker."""

    def sent(self, requests: Sequence[Sequence[ProducerBatch]], now_ms: int) -> None:
        """The batches of requests that leave together."""
        sent, counts = self._sent, self._counts
        for batches in requests:
            count = 0
            for batch in batches:
                count += batch.record_count
                sent.append((batch.size_in_bytes, now_ms - batch.created_ms))
            counts.append(count)
        self._gathered(now_ms)

    def answered(self, node_id: int, now_ms: int, latency_ms: int, throttle_ms: int) -> None:
        """An answer that was read at `now_ms`."""
        answers = self._answered.get(node_id)
        if answers is None:
            answers = self._answered[node_id] = []
        answers.append((latency_ms, throttle_ms))
        self._gathered(now_ms)

    def _gathered(self, now_ms: int) -> None:
        self._last_ms = now_ms
        if now_ms - self._noted_ms >= NOTE_EVERY_MS:
            self._note()

    def _note(self) -> None:
        last_ms = self._noted_ms = self._last_ms
        if self._counts:
            self.records_sent.record(sum(self._counts), last_ms)
            self._requests.record_all(_CONFIG, self._counts, last_ms)
            sizes, waits = zip(*self._sent, strict=True)
            self._batch_sizes.record_all(_CONFIG, sizes, last_ms)
            self._queue_times.record_all(_CONFIG, waits, last_ms)
            self._sent, self._counts = [], []
        for node_id, answers in self._answered.items():
            latencies, throttles = zip(*answers, strict=True)
            self.latencies.record(node_id, latencies, last_ms)
            self._throttles.record_all(_CONFIG, throttles, last_ms)
        self._answered.clear()

    def node_readings(self) -> Iterator[tuple[int, Iterator[tuple[str, float]]]]:
        """Of each broker, by its id."""
        self._note()
        return self.latencies.node_readings()

    def readings(self) -> Iterator[tuple[str, float]]:
        self._note()
        now_ms = self._clock.monotonic_ms()
        for total in (self.records_sent, self.records_retried, self.records_failed, self.batches_split):
            yield from total.readings()
        yield from self._batch_sizes.avg_and_max("batch-size", _CONFIG, now_ms)
        yield from self._queue_times.avg_and_max("record-queue-time", _CONFIG, now_ms)
        yield from self._throttles.avg_and_max("produce-throttle-time", _CONFIG, now_ms)
        yield "records-per-request-avg", self._requests.measure(_CONFIG, now_ms)
        yield from self.latencies.readings("request-latency")
