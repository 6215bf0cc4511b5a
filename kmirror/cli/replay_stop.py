"""Ending a replay in good order: who waits for a time is woken, who sends waits for its answers."""

from __future__ import annotations

import asyncio

from kmirror.runtime.api import Runtime


class Stop:
    """Set once, from the loop's thread."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._waiting: dict[asyncio.Future[bool], None] = {}
        self.is_set = False

    def set(self) -> None:
        self.is_set = True
        for future in self._waiting:
            if not future.done():
                future.set_result(False)

    async def sleep_ms(self, delay_ms: float) -> bool:
        """Whether the time is over; False, at once, when it is stopped."""
        if self.is_set:
            return False
        future = self._runtime.create_future()

        def wake() -> None:
            if not future.done():
                future.set_result(True)

        timer = self._runtime.call_later_ms(delay_ms, wake)
        self._waiting[future] = None
        try:
            over: bool = await future
            return over
        finally:
            timer.cancel()
            del self._waiting[future]
