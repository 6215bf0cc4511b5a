"""Limits the rate of some work (Kafka's `Throttler`).

The work done is added up, and the rate is checked at the end of each interval in which there was
work. If it is above the desired rate, a pause follows that is as long as the interval should have
taken, less what it took; then the next interval begins. Kafka's throttler sleeps, and holds a lock
meanwhile. This one is for the loop's thread only and tells everyone who asks how long nothing
should be done. So no thread is blocked, and a simulated clock works as well as a real one. Workers
count into meters of their own. They stop at the end of an interval, and the loop empties their
meters then.

Kafka accepts any rate. After work at rate 0 it sleeps for ever. At a negative rate the time that
the interval should have taken is negative, so it never sleeps: the rate limits nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kmirror.common.ports import Clock

_NS_PER_MS: Final = 1_000_000
_NS_PER_SECOND: Final = 1_000_000_000


CHECK_INTERVAL_MS: Final = 300


class ThrottlerMeter:
    """Owner of the amount that one worker did since it began, in the units of its throttler."""

    def __init__(self, clock: Clock) -> None:
        self.is_due = False
        """True when an interval with work is over: the worker should stop."""
        self._clock = clock
        self._observed = 0.0
        self.begin()

    def begin(self) -> None:
        """Starts the interval: the worker begins or goes on."""
        self._started_ns = self._clock.monotonic_ns()

    def observe(self, units: float) -> None:
        self._observed += units
        self.is_due = self._clock.monotonic_ns() - self._started_ns > CHECK_INTERVAL_MS * _NS_PER_MS

    def take(self) -> float:
        """Returns the amount observed and resets it."""
        observed, self._observed, self.is_due = self._observed, 0.0, False
        return observed


class Throttler:
    """Limits everything that is reported to it to `desired_rate_per_sec` units (of any kind); a
    negative rate is no limit. Owns the interval and the pause.
    """

    def __init__(self, desired_rate_per_sec: float, clock: Clock) -> None:
        self.on_observed: Callable[[int], None] | None = None
        """Called with every amount of work (Kafka's meter)."""
        self._desired_rate_per_sec = desired_rate_per_sec
        self._clock = clock
        self._observed = 0.0
        self._period_start_ns = clock.monotonic_ns()

    @property
    def desired_rate_per_sec(self) -> float:
        return self._desired_rate_per_sec

    def update_desired_rate_per_sec(self, desired_rate_per_sec: float) -> None:
        """Changes the rate from now on; a pause for the old rate ends."""
        if desired_rate_per_sec != self._desired_rate_per_sec:
            self._desired_rate_per_sec = desired_rate_per_sec
            self._begin_period(self._clock.monotonic_ns())

    def maybe_throttle(self, observed: float) -> None:
        """Adds `observed` units of work; `pause_ms` may be positive afterwards."""
        self._observed += observed
        if self.on_observed is not None and observed:
            self.on_observed(int(observed))
        now_ns = self._clock.monotonic_ns()
        elapsed_ns = now_ns - self._period_start_ns
        if elapsed_ns > CHECK_INTERVAL_MS * _NS_PER_MS and self._observed > 0:
            self._begin_period(now_ns + self._missing_ns(elapsed_ns))

    def _missing_ns(self, elapsed_ns: int) -> int:
        if self._observed * _NS_PER_SECOND <= self._desired_rate_per_sec * elapsed_ns:
            return 0
        if self._desired_rate_per_sec < 0:
            return 0
        if self._desired_rate_per_sec == 0:
            return 1 << 62  # as good as for ever
        missing_ms = round(self._observed * 1000 / self._desired_rate_per_sec - elapsed_ns // _NS_PER_MS)
        return min(max(missing_ms, 0) * _NS_PER_MS, 1 << 62)

    def _begin_period(self, start_ns: int) -> None:
        self._period_start_ns = start_ns
        self._observed = 0.0

    @property
    def pause_ms(self) -> int:
        """How long nothing should be done, from now."""
        left_ns = self._period_start_ns - self._clock.monotonic_ns()
        return max(0, -(-left_ns // _NS_PER_MS))
