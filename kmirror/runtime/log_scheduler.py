"""Kafka's `Scheduler` for logs (`storage.ports.LogScheduler`) on a `Runtime`.

Work runs on the loop, one piece a turn: storage's state belongs to the loop, and the pieces (checkpoint files, retention,
the removal of `.deleted` files) read and change it. What is long goes through `Runtime.run_blocking` in the layer that
knows that the files in question are sealed. A piece that raises goes to the loop's exception handler; the others go on.
"""

from __future__ import annotations

from collections.abc import Callable

from kmirror.runtime.api import Runtime, TimerHandle


class RuntimeLogScheduler:
    """`close` forgets what has not run; storage's own shutdown writes what must be written."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._pending: dict[int, TimerHandle] = {}
        self._next_id = 0
        self._closed = False

    def schedule_once(self, name: str, fn: Callable[[], None], delay_ms: int) -> None:
        if self._closed:
            return
        self._next_id += 1
        task_id = self._next_id
        self._pending[task_id] = self._runtime.call_later_ms(delay_ms, lambda: self._run(task_id, fn))

    def close(self) -> None:
        self._closed = True
        for handle in self._pending.values():
            handle.cancel()
        self._pending.clear()

    def _run(self, task_id: int, fn: Callable[[], None]) -> None:
        del self._pending[task_id]
        fn()
