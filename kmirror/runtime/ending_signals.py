"""Signals that end a program: the first asks for an orderly end, a second one for an end at once.

Who runs a program under `timeout`, or a supervisor, signals the process and then its group, so the
same signal arrives twice within microseconds. A broker that took the second one for an impatient
operator's would not shut down cleanly, and would recover its logs at the next start. So a signal that
follows another within COPIES_S is a copy of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Final

ENDING: Final = (signal.SIGTERM, signal.SIGINT)
COPIES_S: Final = 1.0


@contextlib.contextmanager
def signals_heard(hear: Callable[[signal.Signals], None], numbers: Sequence[signal.Signals] = ENDING) -> Iterator[None]:
    """Calls `hear` in the running loop's thread for each of these signals that is no copy.

    Outside the main thread no signals can be heard.
    """
    loop = asyncio.get_running_loop()
    last_s: list[float] = []

    def hear_unless_a_copy(number: signal.Signals) -> None:
        now_s = loop.time()
        if not last_s or now_s - last_s[-1] >= COPIES_S:
            last_s.append(now_s)
            hear(number)

    with contextlib.suppress(ValueError, RuntimeError):  # not the main thread
        for number in numbers:
            loop.add_signal_handler(number, hear_unless_a_copy, number)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
