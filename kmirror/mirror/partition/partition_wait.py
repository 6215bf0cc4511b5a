"""Waiting for a partition's replicas and metadata: the waits of D4 and D5. Each is bounded, because
the caller then starts its attempt again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kmirror.mirror.source.last_mirror_epoch import NotYetError
from kmirror.replica.partition import Partition
from kmirror.runtime.api import Runtime


class PartitionWait:
    """The waits of one partition, one at a time; owns the future that the current wait is blocked
    on.
    """

    def __init__(self, runtime: Runtime, partition: Partition, *, timeout_ms: int) -> None:
        self._runtime = runtime
        self._partition = partition
        self._timeout_ms = timeout_ms
        self._change: asyncio.Future[None] | None = None

    async def until(self, problem: Callable[[], str | None]) -> None:
        """Waits until `problem()` is None; NotYetError with its text when the time is up.

        `problem` is called again whenever the partition's metadata (`notify`), its ISR or a
        follower's log end changes.
        """
        if (text := problem()) is None:
            return
        late = False

        def end_wait() -> None:
            nonlocal late
            late = True
            self.notify()

        timer = self._runtime.call_later_ms(self._timeout_ms, end_wait)
        self._partition.on_follower_change = self.notify
        try:
            while (text := problem()) is not None:
                if late:
                    raise NotYetError(text)
                self._change = self._runtime.create_future()
                await self._change
        finally:
            timer.cancel()
            self._change = None
            self._partition.on_follower_change = None

    def notify(self) -> None:
        """Something changed: look again."""
        if self._change is not None and not self._change.done():
            self._change.set_result(None)
