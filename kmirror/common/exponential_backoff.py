"""How long to wait after so many failures in a row (Kafka's `ExponentialBackoff`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kmirror.common.ports import Random

MAX_DOUBLINGS: Final = 16


@dataclass(frozen=True, slots=True)
class ExponentialBackoff:
    """From `initial_ms`, doubling up to `max_ms`, each give or take up to the share `jitter` of it."""

    initial_ms: int
    max_ms: int
    jitter: float

    def backoff_ms(self, failures: int, random: Random) -> float:
        """After `failures` earlier ones; 0 at the first."""
        delay_ms = min(self.max_ms, self.initial_ms << min(failures, MAX_DOUBLINGS))
        return delay_ms * (1 + self.jitter * (2 * random.random() - 1))
