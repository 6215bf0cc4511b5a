"""Tasks that run until their owner ends them, and what happens when one ends unexpectedly.

A task that nobody awaits can end unnoticed: by an exception that its loop does not handle, by an
unintended return, or because somebody else cancelled a future that it awaited. Its work then stops
for good, and nobody is told. So a task that lives as long as its owner runs under a `Supervised`:

    running ── ends unexpectedly ──> down (reported once with the reason, counted)
    down ── after a pause ──> running

Each report is one line of the log, with the task, the error and the pause, and the traceback below:

    task isr-expiration ended unexpectedly and begins again in 100 ms: KeyError: 7

The pause doubles from FIRST_PAUSE_MS to LONGEST_PAUSE_MS, and starts again at the first once the
task has run longer than the longest pause. Only two things end the task for good: cancellation by
the owner (even if the task turns it into an error or a return), and a return of work that has an
end (`may_return`). The simulator counts every report as a violation. With `on_end` the owner cleans
up what the dead task left behind, before the next one begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from kmirror.common.errors import KmirrorError
from kmirror.runtime.api import Runtime

FIRST_PAUSE_MS = 100
LONGEST_PAUSE_MS = 10_000


class UnexpectedEndError(KmirrorError):
    """A task ended without an error, though nobody ended it."""


class Supervised:
    """Calls `run` for a new coroutine each time the task starts. `is_down` is set while the task
    has ended and not started again."""

    def __init__(
        self,
        runtime: Runtime,
        run: Callable[[], Coroutine[Any, Any, object]],
        *,
        name: str,
        may_return: bool = False,
        on_end: Callable[[Exception], None] | None = None,
    ) -> None:
        self.name = name
        self.is_down = False
        self.unexpected_ends = 0
        self._runtime = runtime
        self._run = run
        self._may_return = may_return
        self._on_end = on_end

    def start(self) -> asyncio.Task[None]:
        """Starts the task, for owners without a `TaskScope`; with one, use
        `scope.spawn(supervised.run(), name=...)`."""
        return self._runtime.spawn(self.run(), name=self.name)

    async def run(self) -> None:
        """Runs until it is cancelled, or until the work is done if it has an end."""
        clock = self._runtime.clock
        pause_ms = FIRST_PAUSE_MS
        while True:
            self.is_down = False
            began_ms = clock.monotonic_ms()
            error = await self._live()
            if error is None:
                return
            if _is_being_cancelled():
                self._runtime.report_failure(f"task {self.name} failed while it was being stopped", error)
                raise asyncio.CancelledError
            self.is_down = True
            self.unexpected_ends += 1
            if clock.monotonic_ms() - began_ms > LONGEST_PAUSE_MS:
                pause_ms = FIRST_PAUSE_MS
            self._runtime.report_failure(f"task {self.name} ended unexpectedly and begins again in {pause_ms} ms", error)
            self._clean_up(error)
            await self._runtime.sleep_ms(pause_ms)
            pause_ms = min(2 * pause_ms, LONGEST_PAUSE_MS)

    def _clean_up(self, error: Exception) -> None:
        if self._on_end is None:
            return
        try:
            self._on_end(error)
        except Exception as mistake:  # noqa: BLE001 - reported; the task still starts again
            self._runtime.report_failure(f"cleaning up after task {self.name} failed", mistake)

    async def _live(self) -> Exception | None:
        """Runs the task once; returns why it ended, or None if it was meant to end."""
        try:
            await self._run()
        except asyncio.CancelledError:
            if _is_being_cancelled():
                raise
            return UnexpectedEndError("a future that it awaited was cancelled by another task")
        except Exception as error:  # noqa: BLE001 - whatever it is, `run` reports it
            return error
        return None if self._may_return or _is_being_cancelled() else UnexpectedEndError("it returned, though its work has no end")


def _is_being_cancelled() -> bool:
    """Whether the owner has cancelled the task, even if the task suppressed the cancellation."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
