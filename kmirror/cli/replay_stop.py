"""Ends a replay in an orderly way: wakes whoever sleeps, lets senders finish."""

from __future__ import annotations

import asyncio
import signal

from kmirror.runtime.api import Runtime


def exit_code(number: signal.Signals) -> int:
    """Returns the exit code of a process that a signal ended: 130 for SIGINT, 143 for SIGTERM."""
    return 128 + number


class Stop:
    """A flag that is set once, from the loop's thread."""

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
        """Returns True when the time is over; False, at once, when the replay is stopped."""
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
