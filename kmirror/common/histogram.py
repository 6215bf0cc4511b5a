"""A histogram with Kafka's attributes: count, mean, min, max, deviation, and percentiles of recent
values.

An update appends to a list, and 256 values are folded into the sums at a time, so a value costs a
tenth of a microsecond. Count, Mean, Min, Max and StdDev cover all values. The percentiles cover the
last 1,024 values. Kafka's Yammer histograms keep a random sample of 1,028, weighted to the last
five minutes; the size here is about the same, and without randomness the result is the same in each
replay.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

_FOLD_AT = 256
_KEPT = 1_024
_PERCENTILES = (
    ("50thPercentile", 0.5),
    ("75thPercentile", 0.75),
    ("95thPercentile", 0.95),
    ("98thPercentile", 0.98),
    ("99thPercentile", 0.99),
    ("999thPercentile", 0.999),
)


class Histogram:
    __slots__ = ("_count", "_last", "_max", "_min", "_pending", "_sum", "_sum_of_squares", "rows")

    def __init__(self) -> None:
        self._pending: list[float] = []
        self._last: deque[float] = deque(maxlen=_KEPT)
        self._count = 0
        self._sum = 0.0
        self._sum_of_squares = 0.0
        self._min = math.inf
        self._max = -math.inf
        self.rows: HistogramRows | None = None

    def update(self, value: float) -> None:
        pending = self._pending
        pending.append(value)
        if len(pending) >= _FOLD_AT:
            self._fold()

    def _fold(self) -> None:
        if self.rows is not None:
            self.rows.fold()
        pending, self._pending = self._pending, []
        self.extend(pending)

    def extend(self, pending: Sequence[float]) -> None:
        """Takes many values at once."""
        if pending:
            self._last.extend(pending)
            self._count += len(pending)
            self._sum += sum(pending)
            self._sum_of_squares += sum([value * value for value in pending])
            self._min = min(self._min, min(pending))
            self._max = max(self._max, max(pending))

    @property
    def count(self) -> int:
        self._fold()
        return self._count

    def value(self) -> float:
        """Returns the mean; 0 before the first value."""
        self._fold()
        return self._sum / self._count if self._count else 0.0

    def attributes(self) -> dict[str, float | str]:
        mean = self.value()
        variance = (self._sum_of_squares - self._sum * mean) / (self._count - 1) if self._count > 1 else 0.0
        ordered = sorted(self._last)
        return {
            "Count": self._count,
            "Mean": mean,
            "Min": self._min if self._count else 0.0,
            "Max": self._max if self._count else 0.0,
            "StdDev": math.sqrt(max(variance, 0.0)),
            **{name: _percentile(ordered, share) for name, share in _PERCENTILES},
        }


class HistogramRows:
    """Histograms that each get a value at the same time, with one append for all of them. Each is
    shown in units of its `unit`."""

    __slots__ = ("_histograms", "_rows")

    def __init__(self, *histograms: tuple[Histogram, float]) -> None:
        self._histograms = histograms
        self._rows: list[tuple[float, ...]] = []
        for histogram, _ in histograms:
            histogram.rows = self

    def add(self, row: tuple[float, ...]) -> None:
        """Adds one value per histogram, in their order."""
        self._rows.append(row)
        if len(self._rows) >= _FOLD_AT:
            self.fold()

    def fold(self) -> None:
        rows, self._rows = self._rows, []
        for (histogram, unit), column in zip(self._histograms, zip(*rows, strict=True), strict=False):
            histogram.extend(column if unit == 1 else [value / unit for value in column])


def _percentile(ordered: list[float], share: float) -> float:
    if not ordered:
        return 0.0
    position = share * (len(ordered) + 1)
    if position < 1:
        return ordered[0]
    if position >= len(ordered):
        return ordered[-1]
    lower = ordered[int(position) - 1]
    return lower + (position - math.floor(position)) * (ordered[int(position)] - lower)
