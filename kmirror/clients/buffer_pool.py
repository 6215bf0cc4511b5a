"""The memory of a producer's batches (buffer.memory; Kafka's `BufferPool`).

Whoever finds too little free waits in turn; nobody overtakes.
"""

from __future__ import annotations

import asyncio
from collections import deque


class BufferPool:
    """How much of buffer.memory is free, and who waits for some."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.free = total
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def queued(self) -> int:
        return len(self._waiting)

    def try_take(self, size: int) -> bool:
        """Takes `size` bytes unless too few are free, or others wait already."""
        if self._waiting or self.free < size:
            return False
        self.free -= size
        return True

    def wait_for(self, size: int, granted: asyncio.Future[None]) -> None:
        """`granted` is completed when `size` bytes were taken for it."""
        self._waiting.append((size, granted))
        self._grant()

    def give_up(self, size: int, granted: asyncio.Future[None]) -> None:
        """Ends a wait for `size` bytes; if they were granted meanwhile, they are given back."""
        if granted.done() and not granted.cancelled() and granted.exception() is None:
            self.give_back(size)
            return
        self._waiting = deque(entry for entry in self._waiting if entry[1] is not granted)
        self._grant()

    def give_back(self, size: int) -> None:
        self.free += size
        if self._waiting:
            self._grant()

    def fail_all(self, error: Exception) -> None:
        while self._waiting:
            _, granted = self._waiting.popleft()
            if not granted.done():
                granted.set_exception(error)

    def _grant(self) -> None:
        while self._waiting and self._waiting[0][0] <= self.free:
            size, granted = self._waiting.popleft()
            if not granted.done():
                self.free -= size
                granted.set_result(None)
