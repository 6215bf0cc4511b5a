"""Clock and Random of this machine, and a Random that a seed replays."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable


class SystemClock:
    def time_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()


class SystemRandom:
    """Randomness from the operating system."""

    def __init__(self) -> None:
        self._source = random.SystemRandom()

    def random(self) -> float:
        return self._source.random()

    def randrange(self, stop: int) -> int:
        return self._source.randrange(stop)

    def token_bytes(self, size: int) -> bytes:
        return os.urandom(size)


class SeededRandom:
    """Gives the same numbers for the same seed, on every machine and Python that has this Mersenne
    Twister."""

    def __init__(self, seed: int | str) -> None:
        self._source = random.Random(seed)
        self.random: Callable[[], float] = self._source.random

    def randrange(self, stop: int) -> int:
        return self._source.randrange(stop)

    def token_bytes(self, size: int) -> bytes:
        return self._source.randbytes(size)
