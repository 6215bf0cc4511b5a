"""`minOffsetsPerTrigger` and `maxTriggerDelay`: a micro-batch waits until it is worth its while.

As in Spark's Kafka source: the first look of a query goes ahead, and so does one that comes
`maxTriggerDelay` after the last micro-batch; any other waits while fewer offsets than
`minOffsetsPerTrigger` are new. A query that starts again begins anew. Trigger.AvailableNow and
Trigger.Once wait for nothing: they would leave the rest unread.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Final

MAX_TRIGGER_DELAY_S: Final = 900.0
_TIME: Final = re.compile(r"(-?[0-9]+)([a-z]+)?")
_UNITS_S: Final = {"us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


def seconds_of(text: str) -> float | None:
    """Returns a time as Spark's configs have it (a number alone is in ms); None if it is none."""
    found = _TIME.fullmatch(text.strip().lower())
    unit = None if found is None else _UNITS_S.get(found[2] or "ms")
    return None if found is None or unit is None else int(found[1]) * unit


class TriggerDelay:
    """Owned by one stream reader. `clock` returns seconds that only grow."""

    def __init__(self, min_offsets: int | None, max_delay_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._min_offsets = min_offsets
        self._max_delay_s = max_delay_s
        self._clock = clock
        self._last_s: float | None = None

    def waits(self, new_offsets: int) -> bool:
        """Whether a micro-batch with so many new offsets is put off."""
        if self._min_offsets is None:
            return False
        now_s = self._clock()
        is_late = self._last_s is None or now_s - self._last_s >= self._max_delay_s
        if not is_late and new_offsets < self._min_offsets:
            return True
        self._last_s = now_s
        return False
