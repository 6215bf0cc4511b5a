"""A spell of throttling: a time in which somebody held us back again and again.

Throttled answers come between others, so one answer that is not throttled does not end a spell;
QUIET_MS without any does.
"""

from __future__ import annotations

QUIET_MS = 10_000


class ThrottleSpell:
    """A time in which somebody throttled us again and again. All times are monotonic, in ms."""

    __slots__ = ("asked_ms", "since_ms", "until_ms")

    def __init__(self) -> None:
        self.since_ms = -1
        self.until_ms = -1
        self.asked_ms = 0
        """For how long we were told to wait last."""

    def note(self, now_ms: int, throttle_ms: int) -> None:
        if not self.is_on(now_ms):
            self.since_ms = now_ms
        self.until_ms, self.asked_ms = now_ms + throttle_ms, throttle_ms

    def is_on(self, now_ms: int) -> bool:
        return self.since_ms >= 0 and now_ms < self.until_ms + QUIET_MS
