"""How long a connector or task has been in each of its states (Connect's `StateTracker`)."""

from __future__ import annotations

import math
from enum import Enum

from kmirror.common.ports import Clock


class State(Enum):
    """As Connect names the states of connectors and tasks. UNASSIGNED: it has not started."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    RESTARTING = "RESTARTING"
    FAILED = "FAILED"
    STOPPED = "STOPPED"


class StateTimes:
    """Begins UNASSIGNED. Times are ms of the monotonic clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._state = State.UNASSIGNED
        self._began_ms = self._since_ms = clock.monotonic_ms()
        self._spent_ms: dict[State, int] = {}

    def enter(self, state: State) -> None:
        now_ms = self._clock.monotonic_ms()
        self._spent_ms[self._state] = self._in(self._state, now_ms)
        self._state, self._since_ms = state, now_ms

    def ratio(self, state: State) -> float:
        """The fraction of the time since the beginning; NaN before any has passed."""
        now_ms = self._clock.monotonic_ms()
        elapsed_ms = now_ms - self._began_ms
        return self._in(state, now_ms) / elapsed_ms if elapsed_ms else math.nan

    def _in(self, state: State, now_ms: int) -> int:
        current_ms = now_ms - self._since_ms if state is self._state else 0
        return self._spent_ms.get(state, 0) + current_ms
