"""A limit of CPU time for one run.

The loop ends a run that takes too many steps, but not a run in which one step never ends. Such a
run would hang without a word, and its campaign with it. The process's CPU clock interrupts it, and
the violation says where it was.

A run at the budget of steps (`run.MAX_STEPS`) takes about a minute, so only endless work meets the
limit. Where it does so depends on the machine, so the trace hash of such a run says nothing.
"""

from __future__ import annotations

import contextlib
import signal
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).resolve().parent.parent.parent
AGAIN_S: Final = 5.0
SHOWN_FRAMES: Final = 12


class CpuLimitError(KeyboardInterrupt):
    """Endless work was interrupted.

    It is not an `Exception`, since the program might take that for a failure of its own. It is a
    KeyboardInterrupt because asyncio's tasks let only that kind of BaseException through.
    """


@contextlib.contextmanager
def cpu_limit(limit_s: float) -> Iterator[None]:
    """Raises CpuLimitError in the block after that much CPU time of the process, again and again
    while it is swallowed. It works only in the main thread, where Python runs signal handlers.
    """

    def interrupt(number: int, frame: types.FrameType | None) -> None:
        raise CpuLimitError(f"no end after {limit_s:g} s of CPU time; it was in {_where(frame)}")

    try:
        handler = signal.signal(signal.SIGPROF, interrupt)
    except (AttributeError, ValueError):  # no such signal on this system; not the main thread
        yield
        return
    timer = signal.setitimer(signal.ITIMER_PROF, limit_s, AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, *timer)
        signal.signal(signal.SIGPROF, handler)


def _where(frame: types.FrameType | None) -> str:
    """Returns the innermost calls, the innermost first."""
    calls: list[str] = []
    while frame is not None and len(calls) < SHOWN_FRAMES:
        path = Path(frame.f_code.co_filename)
        name = path.relative_to(PACKAGE).as_posix() if path.is_relative_to(PACKAGE) else path.name
        calls.append(f"{frame.f_code.co_name} ({name}:{frame.f_lineno})")
        frame = frame.f_back
    return ", called by ".join(calls)
