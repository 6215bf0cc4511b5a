"""When recorded batches are due: the recording's time, mapped to this clock.

A batch was sealed when its last record was created, so it is due at its max timestamp; none of its
records is sent before its time. All partitions of a replay share one schedule, on all machines that
take part: `start_ms` is when `first_timestamp` is due, and a second of the recording lasts 1/speed
seconds. Batches keep their order: one whose time lies before that of its predecessor is due at
once. Timestamps below 0 (the producer set none) are due at once, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from kmirror.common.errors import KmirrorError

MAX_SPEED: Final = "max"


@dataclass(frozen=True, slots=True)
class Schedule:
    """The times are in ms since the epoch. With `speed` None there is no waiting."""

    start_ms: int
    first_timestamp: int
    speed: float | None

    def due_ms(self, timestamp: int) -> float | None:
        """Returns when a batch with this max timestamp is due; None means at once."""
        if self.speed is None or timestamp < 0:
            return None
        return self.start_ms + (timestamp - self.first_timestamp) / self.speed

    def wait_ms(self, timestamp: int, now_ms: int) -> float:
        """Returns how long it is until the batch is due."""
        due_ms = self.due_ms(timestamp)
        return 0.0 if due_ms is None else max(0.0, due_ms - now_ms)

    def lag_ms(self, timestamp: int, now_ms: int) -> float:
        """Returns how long ago the batch was due."""
        due_ms = self.due_ms(timestamp)
        return 0.0 if due_ms is None else max(0.0, now_ms - due_ms)


def parse_speed(text: str) -> float | None:
    """Parse `1`, `2.5` or `10x`: that many times the original speed; `max` gives None.

    KmirrorError for anything else.
    """
    if text == MAX_SPEED:
        return None
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?|\.\d{1,9})x?", text)
    if match is None or not float(match[1]):
        raise KmirrorError(f"--speed takes a number above 0, such as 1 or 2.5, or max, not '{text}'")
    return float(match[1])
