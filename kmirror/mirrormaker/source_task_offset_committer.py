"""When a task stores its source offsets, without transactions: each offset.flush.interval.ms, and once more
at its end (Connect's `SourceTaskOffsetCommitter` and `WorkerSourceTask.commitOffsets`).

One commit waits for another: a task that ends must not cut off what the last regular one has not
written yet.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from kmirror.common.errors import KmirrorError
from kmirror.mirrormaker.task_metrics import TaskMeter
from kmirror.runtime.api import Runtime

_log = logging.getLogger(__name__)


class SourceTaskOffsetCommitter:
    """Of one life of a task. `store` stores what there is to be stored, or raises and keeps it for the next
    commit. Each attempt is told to the `meter`.
    """

    def __init__(self, runtime: Runtime, label: str, interval_ms: int, store: Callable[[], Awaitable[object]], meter: TaskMeter) -> None:
        self._runtime = runtime
        self._label = label
        self._interval_ms = interval_ms
        self._store = store
        self._meter = meter
        self._committing = asyncio.Lock()

    async def run(self) -> None:
        """Commits regularly, until it is cancelled."""
        while True:
            await self._runtime.sleep_ms(self._interval_ms)
            try:
                await self.commit()
            except KmirrorError as error:
                _log.warning("[%s] Failed to commit offsets, tries again: %s", self._label, error)

    async def commit(self) -> None:
        async with self._committing:
            with self._meter.committing():
                await self._store()
