"""How starts of connectors and tasks went at a worker, under the names of Connect's MBean.

    kafka.connect:type=connect-worker-metrics
        connector-startup-attempts-total, -success-total, -failure-total,
        connector-startup-success-percentage, -failure-percentage       and the same of `task`

A start has succeeded once the connector or task runs, and failed when it ends with an error before.
Each life counts: what has failed is started again here. One that is paused, stopped, or given to
another worker before it ran, counts as no attempt. Percentages are fractions of 1 over Kafka's two
windows of 30 seconds, and NaN without an attempt in them (Connect: 0).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kmirror.common.ports import Clock
from kmirror.common.sensors import Avg, MetricConfig

_CONFIG: Final = MetricConfig()


class Startups:
    """Of the connectors of a worker, or of its tasks, over all its lives."""

    def __init__(self, what: str, clock: Clock) -> None:
        self._what = what
        self._clock = clock
        self._succeeded = self._failed = 0
        self._shares = Avg()

    def ended(self, *, succeeded: bool) -> None:
        """An attempt has come to its end."""
        self._succeeded += succeeded
        self._failed += not succeeded
        self._shares.record(_CONFIG, float(succeeded), self._clock.monotonic_ms())

    def read(self) -> Iterator[tuple[str, float]]:
        share = self._shares.measure(_CONFIG, self._clock.monotonic_ms())
        yield f"{self._what}-startup-attempts-total", self._succeeded + self._failed
        yield f"{self._what}-startup-success-total", self._succeeded
        yield f"{self._what}-startup-failure-total", self._failed
        yield f"{self._what}-startup-success-percentage", share
        yield f"{self._what}-startup-failure-percentage", 1.0 - share


class WorkerStartups:
    """Of one worker."""

    def __init__(self, clock: Clock) -> None:
        self.connectors = Startups("connector", clock)
        self.tasks = Startups("task", clock)

    def read(self) -> Iterator[tuple[str, float]]:
        yield from self.connectors.read()
        yield from self.tasks.read()
