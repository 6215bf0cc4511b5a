"""What a consumer measures of its polls (Kafka's `KafkaConsumerMetrics`) and of its fetches (Kafka's
`FetchMetricsManager`). The averages and greatest values are over Kafka's two windows of 30 seconds.

    consumer-metrics                  last-poll-seconds-ago, time-between-poll-avg, -max, poll-idle-ratio-avg,
                                      commit-sync-time-ns-total, committed-time-ns-total
    consumer-fetch-manager-metrics    fetch-rate, -total; fetch-latency, fetch-size, fetch-throttle-time,
                                      each -avg and -max

A poll is idle while it waits for the brokers. `poll-idle-ratio-avg` is what Kafka's documentation
says: the fraction of time, from the end of one poll to the end of the next, that was spent in the
poll. (Kafka's own code counts the time in the poll before twice, and never comes above one half.)
`last-poll-seconds-ago` is -1 before the first poll, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kmirror.clients.call_times import CallTimes
from kmirror.clients.node_latencies import NodeLatencies
from kmirror.clients.rated_total import RatedTotal
from kmirror.common.ports import Clock
from kmirror.common.sensors import Avg, AvgMinMax, MetricConfig

NEVER: Final = -1
COMMIT_SYNC: Final = "commit-sync"
COMMITTED: Final = "committed"
_CONFIG: Final = MetricConfig()


class ConsumerMetrics:
    """Of one consumer."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.calls = CallTimes(clock, COMMIT_SYNC, COMMITTED)
        self._began_ms: int | None = None
        self._ended_ms: int | None = None
        self._between, self._idle = AvgMinMax(), Avg()

    @contextmanager
    def polling(self) -> Iterator[None]:
        """Around a poll."""
        now_ms = self._clock.monotonic_ms()
        if self._began_ms is not None:
            self._between.record(_CONFIG, now_ms - self._began_ms, now_ms)
        self._began_ms = began_ms = now_ms
        try:
            yield
        finally:
            now_ms = self._clock.monotonic_ms()
            elapsed_ms = now_ms - (began_ms if self._ended_ms is None else self._ended_ms)
            if elapsed_ms:
                self._idle.record(_CONFIG, (now_ms - began_ms) / elapsed_ms, now_ms)
            self._ended_ms = now_ms

    def readings(self) -> Iterator[tuple[str, float]]:
        now_ms = self._clock.monotonic_ms()
        yield "last-poll-seconds-ago", NEVER if self._began_ms is None else (now_ms - self._began_ms) // 1000
        yield from self._between.avg_and_max("time-between-poll", _CONFIG, now_ms)
        yield "poll-idle-ratio-avg", self._idle.measure(_CONFIG, now_ms)
        yield from self.calls.readings()


class FetchMetrics:
    """Of one consumer's answered fetches."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.latencies = NodeLatencies(clock)
        self._fetches = RatedTotal("fetch", clock)
        self._sizes, self._throttles = AvgMinMax(), AvgMinMax()

    def answered(self, node_id: int, began_ms: int, size: int, throttle_ms: int) -> None:
        """A request of `began_ms` was answered, with `size` bytes of records."""
        now_ms = self._clock.monotonic_ms()
        self._fetches.record(1)
        self.latencies.record(node_id, (now_ms - began_ms,), now_ms)
        self._sizes.record(_CONFIG, size, now_ms)
        self._throttles.record(_CONFIG, throttle_ms, now_ms)

    def readings(self) -> Iterator[tuple[str, float]]:
        now_ms = self._clock.monotonic_ms()
        yield from self._fetches.readings()
        yield from self.latencies.readings("fetch-latency")
        yield from self._sizes.avg_and_max("fetch-size", _CONFIG, now_ms)
        yield from self._throttles.avg_and_max("fetch-throttle-time", _CONFIG, now_ms)
