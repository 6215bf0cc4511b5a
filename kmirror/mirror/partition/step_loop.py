"""A loop of steps that lives only while there is work: one per mirrored partition, most of which
have nothing to do.

`wake` says that something may have changed. The step that follows looks at everything again, and
returns when the next one is due: 0 at once, n after n ms, None when woken. A wake-up during a step
causes another step, so none is lost; a wake-up before a retry is due replaces it. Part of a step
may be interruptible: `interrupt` ends that part, and the next step finds out why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from kmirror.runtime.api import Runtime, TaskScope, TimerHandle

T = TypeVar("T")

PAUSE_AFTER_FAILURE_MS = 1_000


class StepLoop:
    """Owns the task of the step under way and the timer of the next one. `end` or `close` ends it
    for good.

    A step that raises is reported and made again after PAUSE_AFTER_FAILURE_MS; otherwise the
    partition would stand still until something else wakes it.
    """

    __slots__ = ("_attempt", "_name", "_retry", "_runtime", "_scope", "_step", "_task", "_woken", "closed")

    def __init__(self, runtime: Runtime, scope: TaskScope, step: Callable[[], Awaitable[int | None]], *, name: object) -> None:
        self.closed = False
        self._runtime = runtime
        self._scope = scope
        self._step = step
        self._name = name
        self._woken = False
        self._task: asyncio.Task[None] | None = None
        self._retry: TimerHandle | None = None
        self._attempt: asyncio.Task[Any] | None = None

    def wake(self) -> None:
        """Makes a step, at once or after the one under way."""
        self._woken = True
        if not self.closed and self._task is None:
            self._cancel_retry()
            self._task = self._scope.spawn(self._run(), name=f"driver-{self._name}")

    def wake_later(self, delay_ms: int) -> None:
        """Makes a step after `delay_ms`, instead of the retry that is already set."""
        self._cancel_retry()
        if not self.closed:
            self._retry = self._runtime.call_later_ms(delay_ms, self.wake)

    @property
    def is_interruptible(self) -> bool:
        """Whether the step is in its interruptible part now."""
        return self._attempt is not None

    def interrupt(self) -> None:
        if self._attempt is not None:
            self._attempt.cancel()

    async def interruptible(self, work: Callable[[], Awaitable[T]]) -> T | None:
        """Runs part of a step: `work`, until it is done, fails, or is interrupted (then None).

        The task itself calls `work`; a coroutine made before would never be awaited if the task is
        cancelled before its first step.
        """

        async def run() -> T:
            return await work()

        attempt = self._runtime.spawn(run(), name=f"mirror-attempt-{self._name}")
        self._attempt = attempt
        try:
            result: T = await attempt
            return result
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if self.closed or not attempt.cancelled() or (current is not None and current.cancelling()):
                attempt.cancel()
                raise
            return None
        finally:
            self._attempt = None

    def end(self) -> None:
        """Begins no further step, and cancels the one under way."""
        self.closed = True
        self._cancel_retry()
        for task in (self._attempt, self._task):
            if task is not None:
                task.cancel()

    async def close(self) -> None:
        """End, and wait until what was under way has ended."""
        self.end()
        task = self._task
        if task is not None:
            ended: asyncio.Future[None] = self._runtime.create_future()
            task.add_done_callback(lambda _: None if ended.done() else ended.set_result(None))
            await ended

    async def _run(self) -> None:
        try:
            while not self.closed:
                self._woken = False
                retry_ms = await self._safe_step()
                if self._woken or retry_ms == 0:
                    continue
                if retry_ms is not None:
                    self.wake_later(retry_ms)
                return
        finally:
            self._task = None

    async def _safe_step(self) -> int | None:
        failure: BaseException
        try:
            return await self._step()
        except asyncio.CancelledError as cancelled:
            current = asyncio.current_task()
            if self.closed or current is None or current.cancelling():
                raise
            failure = cancelled  # of what it waited for, by somebody else
        except Exception as error:  # noqa: BLE001 - a mistake; reported
            failure = error
        self._runtime.report_failure(f"a step of {self._name} failed", failure)
        self._woken = False
        return PAUSE_AFTER_FAILURE_MS

    def _cancel_retry(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
