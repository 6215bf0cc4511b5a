"""How long to wait after a number of failures in a row (Kafka's `ExponentialBackoff`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kmirror.common.ports import Random

MAX_DOUBLINGS: Final = 16


@dataclass(frozen=True, slots=True)
class ExponentialBackoff:
    """Starts at `initial_ms` and doubles up to `max_ms`; each delay varies by up to the share
    `jitter`, up or down."""

    initial_ms: int
    max_ms: int
    jitter: float

    def backoff_ms(self, failures: int, random: Random) -> float:
        """Returns the delay after `failures` earlier failures; 0 gives the first delay."""
        delay_ms = min(self.max_ms, self.initial_ms << min(failures, MAX_DOUBLINGS))
        return delay_ms * (1 + self.jitter * (2 * random.random() - 1))
