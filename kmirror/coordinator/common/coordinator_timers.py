"""Timers of one shard, on the runtime; `cancel_all` ends them when the shard is dropped."""

from __future__ import annotations

from collections.abc import Callable

from kmirror.coordinator.common.coordinator_shard import CoordinatorResult
from kmirror.runtime.api import Runtime, TimerHandle

RETRY_BACKOFF_MS = 500


class CoordinatorTimers:
    """`CoordinatorTimer` on the runtime; each timer's operation runs as a write of its shard. If an
    earlier write replaces or cancels a timer that is already due, its operation does nothing."""

    def __init__(self, runtime: Runtime, run: Callable[[str, Callable[[], CoordinatorResult[None]], Callable[[], None]], None]) -> None:
        self._runtime = runtime
        self._run = run
        self._handles: dict[str, TimerHandle] = {}
        self._due: dict[str, object] = {}

    def schedule(self, key: str, delay_ms: int, operation: Callable[[], CoordinatorResult[None]]) -> None:
        self.cancel(key)
        timer = object()

        def fire() -> None:
            self._handles.pop(key, None)
            self._due[key] = timer
            self._run(key, run, again)

        def run() -> CoordinatorResult[None]:
            if self._due.get(key) is not timer:
                return CoordinatorResult([], None)
            del self._due[key]
            return operation()

        def again() -> None:
            if not self.is_scheduled(key):
                self.schedule(key, RETRY_BACKOFF_MS, operation)

        self._handles[key] = self._runtime.call_later_ms(delay_ms, fire)

    def cancel(self, key: str) -> None:
        self._due.pop(key, None)
        handle = self._handles.pop(key, None)
        if handle is not None:
            handle.cancel()

    def is_scheduled(self, key: str) -> bool:
        return key in self._handles or key in self._due

    def cancel_all(self) -> None:
        self._due.clear()
        for key in list(self._handles):
            self.cancel(key)
