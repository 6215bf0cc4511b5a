"""How long a request takes, and how long the process works on it: the numbers for RequestMetrics,
the request log and the request quota.

A request is handled by a coroutine on the one loop. Each run between two waits is a step, and
`timed` adds up the time of the steps. That sum is Kafka's local time (and the thread time of the
request quota). What passes between the steps is the remote time: waiting for replicas, for bytes to
fetch, for the controller, for a disk flush on a worker.

    arrived ──queue── started ──local+remote── finished ──send── sent
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, Self, TypeVar, cast

T = TypeVar("T")


class RequestTiming:
    """Nanoseconds of one request, by the monotonic clock."""

    __slots__ = ("arrived_ns", "finished_ns", "judged_ns", "local_ns", "started_ns", "step_started_ns")

    def __init__(self, *, arrived_ns: int, started_ns: int) -> None:
        self.arrived_ns = arrived_ns or started_ns
        self.started_ns = self.step_started_ns = self.finished_ns = started_ns
        self.local_ns = 0
        self.judged_ns = 0

    def thread_time_ns(self, now_ns: int) -> int:
        """Returns the time of the steps until now; call it inside a step."""
        return self.local_ns + now_ns - self.step_started_ns

    @property
    def queue_ns(self) -> int:
        return self.started_ns - self.arrived_ns

    @property
    def remote_ns(self) -> int:
        return self.finished_ns - self.started_ns - self.local_ns


class timed(Generic[T]):
    """`await timed(coroutine, timing, now_ns)` is `await coroutine`, with its steps added to
    `timing`.
    """

    __slots__ = ("_coroutine", "_now_ns", "_timing")

    def __init__(self, coroutine: Coroutine[Any, Any, T], timing: RequestTiming, now_ns: Callable[[], int]) -> None:
        self._coroutine = coroutine
        self._timing = timing
        self._now_ns = now_ns

    def __await__(self) -> Generator[Any, Any, T]:
        return cast("Generator[Any, Any, T]", self)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        self._timing.step_started_ns = self._now_ns()
        try:
            return self._coroutine.send(value)
        finally:
            self._end_step()

    def throw(self, *error: Any) -> Any:
        self._timing.step_started_ns = self._now_ns()
        try:
            return self._coroutine.throw(*error)
        finally:
            self._end_step()

    def close(self) -> None:
        self._coroutine.close()

    def _end_step(self) -> None:
        timing = self._timing
        timing.finished_ns = self._now_ns()
        timing.local_ns += timing.finished_ns - timing.step_started_ns
