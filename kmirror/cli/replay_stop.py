"""Ending a replay in good order: signals are heard, who waits for a time is woken, who sends waits for its answers."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import Final

from kmirror.runtime.api import Runtime

ENDING: Final = (signal.SIGINT, signal.SIGTERM)


def exit_code(number: signal.Signals) -> int:
    """Of a process that a signal ended: 130 for SIGINT, 143 for SIGTERM."""
    return 128 + number


@contextlib.contextmanager
def signals_heard(hear: Callable[[signal.Signals], None]) -> Iterator[None]:
    """`hear` is told each SIGINT and SIGTERM, in the loop's thread. Off the main thread there are none to be heard."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(ValueError, RuntimeError):  # not the main thread
        for number in ENDING:
            loop.add_signal_handler(number, hear, number)
    try:
        yield
    finally:
        for number in ENDING:
            loop.remove_signal_handler(number)


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
