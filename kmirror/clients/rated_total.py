"""A count of a client's, as Kafka's clients show it: the sum of everything, and the rate per second
over the last two windows of 30 seconds.
"""

from __future__ import annotations

from collections.abc import Iterator

from kmirror.common.ports import Clock
from kmirror.common.sensors import MetricConfig, Rate

_CONFIG = MetricConfig()


class RatedTotal:
    """Shown as `<name>-total` and `<name>-rate`."""

    __slots__ = ("_clock", "_name", "_rate", "total")

    def __init__(self, name: str, clock: Clock) -> None:
        self._name = name
        self._clock = clock
        self._rate = Rate()
        self.total = 0

    def record(self, amount: int, now_ms: int | None = None) -> None:
        """Adds to both, now if no time is given."""
        self.total += amount
        self._rate.record(_CONFIG, amount, self._clock.monotonic_ms() if now_ms is None else now_ms)

    def readings(self) -> Iterator[tuple[str, float]]:
        yield f"{self._name}-total", self.total
        yield f"{self._name}-rate", self._rate.measure(_CONFIG, self._clock.monotonic_ms())
