"""Kafka's `Scheduler` for logs (`storage.ports.LogScheduler`) on a `Runtime`.

Work runs on the loop, one piece per turn: storage's state belongs to the loop, and the pieces
(checkpoint files, retention, the removal of `.deleted` files) read and change it. A log that is
being loaded on a worker schedules its work for the loop as well. Long work goes through
`Runtime.run_blocking`, in the layer that knows that its files are sealed. A piece that raises is
reported by its name; the others go on.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from kmirror.runtime.api import Runtime, TimerHandle


class RuntimeLogScheduler:
    """`close` forgets the work that has not run; storage's own shutdown writes what must be
    written."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._pending: dict[int, TimerHandle | None] = {}
        self._ids = itertools.count()
        self._closed = False

    def schedule_once(self, name: str, fn: Callable[[], None], delay_ms: int) -> None:
        if self._closed:
            return
        task_id = next(self._ids)
        self._pending[task_id] = None
        handle = self._runtime.call_later_ms(delay_ms, lambda: self._run(task_id, name, fn))
        if task_id in self._pending:
            self._pending[task_id] = handle

    def close(self) -> None:
        self._closed = True
        for handle in self._pending.values():
            if handle is not None:
                handle.cancel()
        self._pending.clear()

    def _run(self, task_id: int, name: str, fn: Callable[[], None]) -> None:
        self._pending.pop(task_id, None)
        if self._closed:
            return
        try:
            fn()
        except Exception as error:  # noqa: BLE001 - reported
            self._runtime.report_failure(f"scheduled task {name} failed", error)
