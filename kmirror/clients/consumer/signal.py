"""A wake-up call between a consumer's tasks: what was fired while nobody waited is not lost."""

from __future__ import annotations

import asyncio
import math
from typing import Any

from kmirror.runtime.api import Runtime


class Signal:
    """One task waits at a time, or several; `fire` wakes all of them."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._fired = False
        self._waiters: list[asyncio.Future[Any]] = []

    def fire(self) -> None:
        """Wakes those who wait, or lets the next wait return at once."""
        if not self._waiters:
            self._fired = True
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, timeout_ms: float | None) -> None:
        """Returns after `fire`, or after that time in whole ms, rounded up; None means no limit.

        Callers compare with a clock of whole ms: after a shorter wait it would still show the same
        time, and they would wait again and again.
        """
        if self._fired:
            self._fired = False
            return
        if timeout_ms is not None and timeout_ms <= 0:
            return
        waiter = self._runtime.create_future()
        self._waiters.append(waiter)

        def wake() -> None:
            if not waiter.done():
                waiter.set_result(None)

        timer = None if timeout_ms is None else self._runtime.call_later_ms(math.ceil(timeout_ms), wake)
        try:
            await waiter
        finally:
            if timer is not None:
                timer.cancel()
            if waiter in self._waiters:
                self._waiters.remove(waiter)
