"""What a producer sends and what comes back, under the names of Kafka's `SenderMetricsRegistry`.

    record-send, record-retry, record-error, batch-split         each -rate and -total
    batch-size, record-queue-time, request-latency,
    produce-throttle-time                                        each -avg and -max
    records-per-request-avg

A batch is measured each time that it is sent, `record-queue-time` from its making on. Of requests
that leave together, and of answers that come together, all is noted at once; nothing is done for
each record. What Kafka also has and is not here: `compression-rate` and `record-size`, which nobody
knows of a batch that is sent on as it came.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kmirror.clients.node_latencies import NodeLatencies
from kmirror.clients.producer_batch import ProducerBatch
from kmirror.clients.rated_total import RatedTotal
from kmirror.common.ports import Clock
from kmirror.common.sensors import AvgMinMax, MetricConfig

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

    def sent(self, requests: Sequence[Sequence[ProducerBatch]], now_ms: int) -> None:
        """The batches of requests that leave together; at least one."""
        records = [sum([batch.record_count for batch in batches]) for batches in requests]
        sent = [batch for batches in requests for batch in batches]
        self.records_sent.record(sum(records))
        self._requests.record_all(_CONFIG, records, now_ms)
        self._batch_sizes.record_all(_CONFIG, [batch.size_in_bytes for batch in sent], now_ms)
        self._queue_times.record_all(_CONFIG, [now_ms - batch.created_ms for batch in sent], now_ms)

    def answered(self, node_id: int, answers: Sequence[tuple[int, int]]) -> None:
        """The latency of each answer, and for how long it throttles us, in ms; at least one."""
        now_ms = self._clock.monotonic_ms()
        latencies, throttles = zip(*answers, strict=True)
        self.latencies.record(node_id, latencies, now_ms)
        self._throttles.record_all(_CONFIG, throttles, now_ms)

    def readings(self) -> Iterator[tuple[str, float]]:
        now_ms = self._clock.monotonic_ms()
        for total in (self.records_sent, self.records_retried, self.records_failed, self.batches_split):
            yield from total.readings()
        for name, stat in (
            ("batch-size", self._batch_sizes),
            ("record-queue-time", self._queue_times),
            ("produce-throttle-time", self._throttles),
        ):
            yield f"{name}-avg", stat.measure(_CONFIG, now_ms)
            yield f"{name}-max", stat.greatest(_CONFIG, now_ms)
        yield "records-per-request-avg", self._requests.measure(_CONFIG, now_ms)
        yield from self.latencies.readings("request-latency")
