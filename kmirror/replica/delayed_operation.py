"""Operations that wait for a condition or for their deadline, and the purgatory that watches them.

A `DelayedOperation` is completed exactly once: by `try_complete` (its condition holds) or by its
deadline, whichever is first. The purgatory keeps, per key, the operations that a change of that key
may complete; whoever changes something (a log appended, a high watermark moved, a partition lost)
calls `check_and_complete(key)`. Kafka's class is built for threads and needs a lock per operation;
here everything runs on one loop, so completing an operation takes a flag and a call.

Completed operations are dropped from a key's list when that key is next checked, and swept from all
lists when more than `PURGE_INTERVAL` have accumulated, so a quiet key does not hold them for ever.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, Protocol, TypeVar

from kmirror.runtime.api import TimerHandle

PURGE_INTERVAL = 1000


class Timers(Protocol):
    """The part of `runtime.api.Runtime` that a purgatory needs."""

    def call_later_ms(self, delay_ms: int, callback: Callable[[], None]) -> TimerHandle: ...


class DelayedOperation(ABC):
    """Something that is done when its condition holds, or at the latest after `delay_ms`."""

    def __init__(self, delay_ms: int) -> None:
        self.delay_ms = delay_ms
        self._timer: TimerHandle | None = None
        self._completed = False

    @property
    def is_completed(self) -> bool:
        return self._completed

    @abstractmethod
    def try_complete(self) -> bool:
        """Check the condition; where it holds, `return self.force_complete()`, else False."""

    def try_complete_for(self, key: Hashable) -> bool:
        """As `try_complete`, when only what belongs to `key` has changed since the last try."""
        return self.try_complete()

    @abstractmethod
    def on_complete(self) -> None:
        """What completion does. Called exactly once."""

    @abstractmethod
    def on_expiration(self) -> None:
        """Called before `on_complete` when it was the deadline that completed the operation (for
        metrics)."""

    def force_complete(self) -> bool:
        """Complete it now; False when it already was."""
        if self._completed:
            return False
        self._completed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.on_complete()
        return True

    def start_timer(self, timers: Timers) -> None:
        self._timer = timers.call_later_ms(self.delay_ms, self._expire)

    def _expire(self) -> None:
        self._timer = None
        if self._completed:
            return
        self.on_expiration()
        self.force_complete()


OperationT = TypeVar("OperationT", bound=DelayedOperation)


class DelayedOperationPurgatory(Generic[OperationT]):
    """Owns the delayed operations of one kind that wait, each under one or several keys."""

    def __init__(self, name: str, timers: Timers) -> None:
        self.name = name
        self._timers = timers
        self._watchers: dict[Hashable, list[OperationT]] = {}
        self._completed_since_purge = 0

    def try_complete_else_watch(self, operation: OperationT, keys: Iterable[Hashable]) -> bool:
        """Complete the operation if it can be; else watch it under `keys` until it can or its time
        is up."""
        if operation.try_complete():
            return True
        for key in keys:
            self._watchers.setdefault(key, []).append(operation)
        operation.start_timer(self._timers)
        self._maybe_purge()
        return False

    def check_and_complete(self, key: Hashable) -> int:
        """Tries the operations under `key`; returns the number completed."""
        watching = self._watchers.get(key)
        if not watching:
            return 0
        completed = 0
        for operation in list(watching):
            if not operation.is_completed and operation.try_complete_for(key):
                completed += 1
        self._drop_completed(key)
        return completed

    def watched_for_key(self, key: Hashable) -> list[OperationT]:
        """The operations that still wait under `key`, oldest first."""
        return [operation for operation in self._watchers.get(key, ()) if not operation.is_completed]

    def num_delayed(self) -> int:
        """Operations that still wait, each counted once."""
        waiting = {id(operation) for watching in self._watchers.values() for operation in watching if not operation.is_completed}
        return len(waiting)

    def watched(self) -> int:
        """Entries under all keys: an operation counts once for each key that it waits under."""
        return sum(map(len, self._watchers.values()))

    def shutdown(self) -> None:
        """Complete everything that waits, as if its time were up."""
        for watching in list(self._watchers.values()):
            for operation in list(watching):
                operation.force_complete()
        self._watchers.clear()

    def _drop_completed(self, key: Hashable) -> None:
        remaining = self.watched_for_key(key)
        if remaining:
            self._watchers[key] = remaining
        else:
            self._watchers.pop(key, None)

    def _maybe_purge(self) -> None:
        self._completed_since_purge += 1
        if self._completed_since_purge < PURGE_INTERVAL:
            return
        self._completed_since_purge = 0
        for key in list(self._watchers):
            self._drop_completed(key)
