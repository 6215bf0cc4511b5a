"""Deferred work of the metadata log."""

from __future__ import annotations

from collections.abc import Callable

from kmirror.runtime.api import Runtime


class LateWork:
    """Work that the metadata log defers (removing deleted segments, rewriting a checkpoint), as a
    `LogScheduler`.

    The loop schedules work, and so does the worker that holds the log. The pump runs it when no
    worker holds the log, so the two never write the same file at the same time.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._pending: list[tuple[int, Callable[[], None]]] = []

    def schedule_once(self, name: str, fn: Callable[[], None], delay_ms: int) -> object:
        self._pending.append((self._runtime.clock.monotonic_ms() + delay_ms, fn))
        return None

    def run_due(self) -> int | None:
        """Runs the work that is due, in the order in which it was scheduled; returns the ms until
        the next is due, or None if nothing waits."""
        now = self._runtime.clock.monotonic_ms()
        due = [fn for due_ms, fn in self._pending if due_ms <= now]
        self._pending = [entry for entry in self._pending if entry[0] > now]
        for fn in due:
            fn()
        return max(0, min(entry[0] for entry in self._pending) - now) if self._pending else None
