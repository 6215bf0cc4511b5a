"""The rebalances of a worker's group, under the names of Connect's MBeans.

    kafka.connect:type=connect-worker-rebalance-metrics
        connect-protocol                 the protocol that the group runs
        leader-name                      the URL of its leader; empty before the first rebalance
        epoch                            the newest generation of the group; -1 before the first
        completed-rebalances-total
        rebalancing                      1 while the worker takes over what it was assigned
        rebalance-avg-time-ms, rebalance-max-time-ms
        time-since-last-rebalance-ms     infinite before the first

A rebalance lasts, as Connect measures it, from an assignment until the worker has taken it over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from kmirror.common.metrics import MetricName, MetricsRegistry, Value
from kmirror.common.ports import Clock
from kmirror.common.sensors import AvgMinMax, MetricConfig
from kmirror.common.sentinels import NO_EPOCH

GROUP: Final = "kafka.connect"
KIND: Final = "connect-worker-rebalance-metrics"
_CONFIG: Final = MetricConfig()


class Rebalances:
    """Of one worker, over all its lives."""

    def __init__(self, clock: Clock, protocol: str) -> None:
        self._clock = clock
        self._protocol = protocol
        self._leader = ""
        self._epoch = NO_EPOCH
        self._completed = 0
        self._under_way = 0
        self._ended_ms: int | None = None
        self._times = AvgMinMax()

    @contextmanager
    def assigned(self, protocol: str, leader: str, epoch: int) -> Iterator[None]:
        """The worker takes over what it was assigned. An assignment that fails is not completed."""
        began_ms = self._clock.monotonic_ms()
        self._protocol, self._leader, self._epoch = protocol, leader, epoch
        self._under_way += 1
        try:
            yield
            self._ended_ms = self._clock.monotonic_ms()
            self._completed += 1
            self._times.record(_CONFIG, self._ended_ms - began_ms, self._ended_ms)
        finally:
            self._under_way -= 1

    def read(self) -> Iterator[tuple[str, Value]]:
        now_ms = self._clock.monotonic_ms()
        yield "connect-protocol", self._protocol
        yield "leader-name", self._leader
        yield "epoch", self._epoch
        yield "completed-rebalances-total", self._completed
        yield "rebalancing", int(self._under_way > 0)
        yield "rebalance-avg-time-ms", self._times.measure(_CONFIG, now_ms)
        yield "rebalance-max-time-ms", self._times.greatest(_CONFIG, now_ms)
        yield "time-since-last-rebalance-ms", math.inf if self._ended_ms is None else now_ms - self._ended_ms


def register_rebalance_metrics(registry: MetricsRegistry, rebalances: Callable[[], Rebalances], flow: str | None = None) -> None:
    tags = () if flow is None else (("flow", flow),)

    def collect() -> Iterator[tuple[MetricName, Value]]:
        for attribute, value in rebalances().read():
            yield MetricName(GROUP, KIND, "", tags, attribute), value

    registry.add_collector(collect)
