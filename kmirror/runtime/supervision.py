"""Tasks that go on until their owner ends them, and what happens when one ends all the same.

A task nobody awaits can end unseen: an exception that its loop does not name, a return that nobody meant, a future that somebody else
cancelled while the task waited for it. What the task looked after then stands still for good, and nobody is told. So whatever runs as
long as its owner lives runs under a `Supervised`:

    running ── ends unexpectedly ──> down: reported once with the reason, counted ── after a pause ──> running again

The pause doubles from FIRST_PAUSE_MS to LONGEST_PAUSE_MS, and begins anew once the task has lasted longer than that. Only the owner's
cancellation ends it for good (also where the task makes an error or a return of it), or a return where the work has an end (`may_return`). The simulator counts every report as a violation.
`on_end`: the owner puts in order what the dead task left behind, before the next one begins.
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
    """`run` makes the coroutine anew for each life of the task. `is_down` while it has ended and not begun again."""

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
        """For owners without a `TaskScope`; with one, `scope.spawn(supervised.run(), name=...)`."""
        return self._runtime.spawn(self.run(), name=self.name)

    async def run(self) -> None:
        """Until cancelled, or until the work is done where it has an end."""
        clock = self._runtime.clock
        pause_ms = FIRST_PAUSE_MS
        while True:
            self.is_down = False
            began_ms = clock.monotonic_ms()
            error = await self._live()
            if error is None:
                return
            if _is_being_cancelled():
                self._runtime.report_failure(f"[{self.name}] failed while it was ended", error)
                raise asyncio.CancelledError
            self.is_down = True
            self.unexpected_ends += 1
            if clock.monotonic_ms() - began_ms > LONGEST_PAUSE_MS:
                pause_ms = FIRST_PAUSE_MS
            self._runtime.report_failure(f"[{self.name}] ended unexpectedly, begins again in {pause_ms} ms", error)
            self._put_in_order(error)
            await self._runtime.sleep_ms(pause_ms)
            pause_ms = min(2 * pause_ms, LONGEST_PAUSE_MS)

    def _put_in_order(self, error: Exception) -> None:
        if self._on_end is None:
            return
        try:
            self._on_end(error)
        except Exception as mistake:  # noqa: BLE001 - reported, and no reason not to begin again
            self._runtime.report_failure(f"[{self.name}] left behind what cannot be put in order", mistake)

    async def _live(self) -> Exception | None:
        """One life of the task: why it ended, None where it was meant to."""
        try:
            await self._run()
        except asyncio.CancelledError:
            if _is_being_cancelled():
                raise
            return UnexpectedEndError("what it waited for was cancelled")
        except Exception as error:  # noqa: BLE001 - whatever it is, `run` reports it
            return error
        return None if self._may_return or _is_being_cancelled() else UnexpectedEndError("it returned")


def _is_being_cancelled() -> bool:
    """Whether the owner has ended the task, whatever the task made of that."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
