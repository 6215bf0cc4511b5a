"""A clock, a scheduler and a random source for storage tests that stand still until told otherwise.

Not for concurrency: the scheduler runs tasks only inside `run_due` and `advance`, in order of due
time, then of scheduling.
"""

from __future__ import annotations

import heapq
import random as python_random
from collections.abc import Callable

from kmirror.common.ports import FileSystem
from kmirror.runtime.os_files import OsFileSystem
from kmirror.storage.ports import LogDirFailures, LogPorts


class ManualClock:
    """Wall and monotonic time are one number of ms, moved by hand."""

    def __init__(self, now_ms: int = 1_750_000_000_000) -> None:
        self.now_ms = now_ms

    def time_ms(self) -> int:
        return self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def monotonic_ns(self) -> int:
        return self.now_ms * 1_000_000


class ManualScheduler:
    """Tasks wait until the clock has reached them and `run_due` is called."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self._tasks: list[tuple[int, int, str, Callable[[], None]]] = []
        self._count = 0

    def schedule_once(self, name: str, fn: Callable[[], None], delay_ms: int) -> None:
        self._count += 1
        heapq.heappush(self._tasks, (self.clock.now_ms + delay_ms, self._count, name, fn))

    @property
    def pending(self) -> list[str]:
        return [name for _, _, name, _ in sorted(self._tasks)]

    def run_due(self) -> None:
        while self._tasks and self._tasks[0][0] <= self.clock.now_ms:
            heapq.heappop(self._tasks)[3]()

    def advance(self, ms: int) -> None:
        """Move the clock from task to task until `ms` have gone by."""
        end = self.clock.now_ms + ms
        while self._tasks and self._tasks[0][0] <= end:
            self.clock.now_ms = max(self.clock.now_ms, self._tasks[0][0])
            self.run_due()
        self.clock.now_ms = end


class SeededRandom:
    """`Random` from a seed."""

    def __init__(self, seed: int = 1) -> None:
        self._random = python_random.Random(seed)

    def random(self) -> float:
        return self._random.random()

    def randrange(self, stop: int) -> int:
        return self._random.randrange(stop)

    def token_bytes(self, size: int) -> bytes:
        return self._random.randbytes(size)


class StorageWorld:
    """All ports together, on the real file system by default."""

    def __init__(self, now_ms: int = 1_750_000_000_000, *, files: FileSystem | None = None) -> None:
        self.clock = ManualClock(now_ms)
        self.scheduler = ManualScheduler(self.clock)
        self.random = SeededRandom()
        self.files: FileSystem = files or OsFileSystem()
        self.failures = LogDirFailures()

    @property
    def ports(self) -> LogPorts:
        return LogPorts(self.files, self.clock, self.random, self.scheduler, self.failures)
