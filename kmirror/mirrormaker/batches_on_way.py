"""What a source task has given to its producer and the target has not acknowledged yet.

It is limited by bytes: a task waits before it sends more, and goes on once half has arrived, so that
batches leave in bursts and not one for each answer.

What has arrived is not noted batch by batch. With many more on their way, several are noted together,
as long as no more offset syncs become due together than may leave together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.batch_copying import RUN_BYTES
from kmirror.mirrormaker.offset_syncs import MAX_OUTSTANDING_OFFSET_SYNCS
from kmirror.mirrormaker.sent_runs import SentRun, Written
from kmirror.mirrormaker.source_task_config import SourceTaskConfig

MOST_RUNS: Final = 2
"""So many runs of RUN_BYTES may be on their way, and two more for each partition. What waits longer has
left the processor's caches by the time it is sent."""
NOTED_TOGETHER: Final = 24
"""So many batches that the target has are noted together while as many are on their way."""


class BatchesOnWay:
    """`written` is called with the batches of a run that the target has, `failed` with the remote
    partition of one that it refused.
    """

    def __init__(
        self,
        new_future: Callable[[], asyncio.Future[None]],
        written: Callable[[SentRun, list[Written]], object],
        failed: Callable[[TopicPartition, Exception], object],
        config: SourceTaskConfig,
        buffer_memory: int,
    ) -> None:
        self._new_future = new_future
        self._written = written
        self._failed = failed
        self._most_bytes = min(buffer_memory // 2, RUN_BYTES * (MOST_RUNS + 2 * len(config.partitions)))
        self._most_unnoted_records = config.offset_lag_max * MAX_OUTSTANDING_OFFSET_SYNCS
        self._batches = 0
        self._bytes = 0
        self._unnoted: dict[SentRun, list[Written]] = {}
        self._unnoted_batches = self._unnoted_records = 0
        self._drained: asyncio.Future[None] | None = None

    @property
    def is_full(self) -> bool:
        return self._bytes > self._most_bytes

    async def until_drained(self) -> None:
        """Waits until half of what may be on its way has arrived."""
        self._drained = self._new_future()
        try:
            await self._drained
        finally:
            self._drained = None

    def sent(self, run: SentRun) -> None:
        """The producer is about to be given a run."""
        self._batches += len(run.batches)
        self._bytes += run.size

    def not_sent(self, run: SentRun) -> None:
        """The producer did not take it."""
        self._batches -= len(run.batches)
        self._bytes -= run.size

    def done(self, run: SentRun, number: int, offset: int, error: Exception | None) -> None:
        """The producer is done with a batch. `offset` is that of its first record at the target, -1 if
        the target did not say.
        """
        batch = run.batches[number]
        self._batches -= 1
        self._bytes -= batch.size
        if self._drained is not None and self._bytes * 2 <= self._most_bytes and not self._drained.done():
            self._drained.set_result(None)
        if error is not None:
            self._failed(run.remote, error)
        else:
            self._unnoted_batches += 1
            self._unnoted_records += len(batch.upstream)
            self._unnoted.setdefault(run, []).append((batch, offset))
        if self._unnoted_batches >= NOTED_TOGETHER or self._batches < NOTED_TOGETHER or self._unnoted_records >= self._most_unnoted_records:
            self.note_written()

    def note_written(self) -> None:
        """Notes all that has arrived."""
        if not self._unnoted_batches:
            return
        unnoted, self._unnoted, self._unnoted_batches, self._unnoted_records = self._unnoted, {}, 0, 0
        for run, written in unnoted.items():
            self._written(run, written)
