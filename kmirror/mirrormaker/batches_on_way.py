"""What a source task has given to its producer and the target has not acknowledged yet.

It is limited by bytes: a task waits before it sends more, and goes on once half has arrived, so that
batches leave in bursts and not one for each answer.

What has arrived is not noted batch by batch. While much more is on its way, a good part of it is noted
together, as long as no more offset syncs become due together than may leave together. Each note can
lead to a request with offset syncs, which costs as much as some batches do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.batch_copying import RUN_BYTES
from kmirror.mirrormaker.batch_offset_syncs import MOST_SYNCS_TOGETHER
from kmirror.mirrormaker.sent_runs import SentRun, Written

MOST_RUNS: Final = 2
"""So many runs of RUN_BYTES may be on their way, and two more for each partition. What waits longer has
left the processor's caches by the time it is sent."""
NOTED_SHARE: Final = 4
"""A fourth of what may be on its way is noted together, while at least as much is on its way."""


class BatchesOnWay:
    """`written` is called with the batches of a run that the target has, `failed` with the remote
    partition of one that it refused.
    """

    def __init__(
        self,
        new_future: Callable[[], asyncio.Future[None]],
        written: Callable[[SentRun, list[Written]], object],
        failed: Callable[[TopicPartition, Exception], object],
        *,
        partitions: int,
        offset_lag_max: int,
        buffer_memory: int,
    ) -> None:
        """`partitions` is how many the task copies; `buffer_memory` is the producer's, in bytes."""
        self._new_future = new_future
        self._written = written
        self._failed = failed
        self._most_bytes = min(buffer_memory // 2, RUN_BYTES * (MOST_RUNS + 2 * partitions))
        self._noted_bytes = self._most_bytes // NOTED_SHARE
        self._most_unnoted_records = offset_lag_max * MOST_SYNCS_TOGETHER
        self._bytes = 0
        self._unnoted: dict[SentRun, list[Written]] = {}
        self._unnoted_bytes = self._unnoted_records = 0
        self._drained: asyncio.Future[None] | None = None

    @property
    def is_full(self) -> bool:
        return self._bytes > self._most_bytes

    async def until_drained(self) -> None:
        """Waits until half of what may be on its way has arrived, which can be long."""
        self.note_written()
        self._drained = self._new_future()
        try:
            await self._drained
        finally:
            self._drained = None

    def sent(self, run: SentRun) -> None:
        """The producer is about to be given a run."""
        self._bytes += run.size

    def not_sent(self, run: SentRun) -> None:
        """The producer did not take it."""
        self._bytes -= run.size

    def done(self, run: SentRun, number: int, offset: int, error: Exception | None) -> None:
        """The producer is done with a batch. `offset` is that of its first record at the target, -1 if
        the target did not say.
        """
        batch = run.batches[number]
        self._bytes -= batch.size
        if self._drained is not None and self._bytes * 2 <= self._most_bytes and not self._drained.done():
            self._drained.set_result(None)
        if error is not None:
            self._failed(run.remote, error)
        else:
            self._unnoted_bytes += batch.size
            self._unnoted_records += len(batch.upstream)
            self._unnoted.setdefault(run, []).append((batch, offset))
        enough = self._noted_bytes
        if self._unnoted_bytes >= enough or self._bytes < enough or self._unnoted_records >= self._most_unnoted_records:
            self.note_written()

    def note_written(self) -> None:
        """Notes all that has arrived."""
        if not self._unnoted:
            return
        unnoted, self._unnoted, self._unnoted_bytes, self._unnoted_records = self._unnoted, {}, 0, 0
        for run, written in unnoted.items():
            self._written(run, written)
