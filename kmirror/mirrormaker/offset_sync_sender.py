"""Writes the offset syncs of one source task, in their order.

The writer of the rules (`offset_syncs`) says which syncs are due. They wait in a queue for a task
that gives them to the producer; those that became due together are one batch. A sync that fails
is logged and not sent again, as in Kafka, because a later one says more, except the first of a log.

In Kafka what finds no place at a commit waits for the next record or commit. With exactly-once support
there may be none, for a commit needs a transaction. So here it also goes when a place becomes free.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial

from kmirror.clients.kafka_producer import KafkaProducer
from kmirror.common.errors import KmirrorError
from kmirror.common.sentinels import NO_OFFSET
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.batch_offset_syncs import BatchOffsetSyncWriter
from kmirror.mirrormaker.cycles import SourceAndTarget
from kmirror.mirrormaker.formats import OffsetSync
from kmirror.record.builder import RecordBatchBuilder
from kmirror.record.record_batch import RecordBatch
from kmirror.runtime.api import Runtime

_log = logging.getLogger(__name__)


class OffsetSyncSender:
    """`run` is a task of its owner, who ends with `finish` and `close`."""

    def __init__(self, runtime: Runtime, flow: SourceAndTarget, topic: str, producer: Mapping[str, str], offset_lag_max: int) -> None:
        self._flow = flow
        self._partition = TopicPartition(topic, 0)
        self._clock = runtime.clock
        self._producer = KafkaProducer(runtime, producer)
        self._syncs = BatchOffsetSyncWriter(offset_lag_max)
        self._queue: list[OffsetSync] = []
        self._commit_waits = False
        self._waiting = asyncio.Event()

    def acknowledged(self, partition: TopicPartition, upstream: Sequence[int], downstream: int) -> None:
        """The target has records; `upstream` are their offsets at the source, and `downstream` is that
        of the first one at the target, -1 if it did not say.
        """
        if downstream < 0:
            _log.error("RecordMetadata has no offset -- can't sync offsets for %s.", partition.topic)
            return
        for first, count in _runs(upstream):
            self._add(self._syncs.batch_acknowledged(partition, first, downstream, count))
            downstream += count

    def committed(self) -> None:
        """The task's offsets were stored: delayed syncs go (OS2)."""
        self._add(self._syncs.commit())
        self._commit_waits = bool(self._syncs.pending)

    def _add(self, syncs: list[OffsetSync]) -> None:
        if syncs:
            self._queue += syncs
            self._waiting.set()

    async def run(self) -> None:
        """Sends what is due, until it is cancelled."""
        while True:
            await self._waiting.wait()
            self._waiting.clear()
            await self._send_queued()

    async def finish(self) -> None:
        """Sends what is due, and waits until all of it is done."""
        await self._send_queued()
        await self._producer.flush()
        while self._queue:  # places became free
            await self._send_queued()
            await self._producer.flush()

    async def close(self) -> None:
        await self._producer.close(timeout_ms=0)

    async def _send_queued(self) -> None:
        while self._queue:
            syncs, self._queue = self._queue, []
            try:
                await self._producer.send_run(self._partition, [self._batch_of(syncs)], partial(self._done, syncs))
            except KmirrorError as error:
                self._done(syncs, 0, NO_OFFSET, error)

    def _batch_of(self, syncs: Sequence[OffsetSync]) -> RecordBatch:
        config = self._producer.config
        builder = RecordBatchBuilder(compression=config.compression, compression_level=config.compression_level)
        now_ms = self._clock.time_ms()
        for number, sync in enumerate(syncs):
            builder.append(number, now_ms, sync.record_key, sync.record_value, [])
        return RecordBatch(builder.build())

    def _done(self, syncs: Sequence[OffsetSync], _number: int, _offset: int, error: Exception | None) -> None:
        for sync in syncs:
            self._syncs.sync_done(sync, failed=error is not None)
            if error is not None:
                _log.error("[%s] Failure sending offset sync %s: %s", self._flow, sync, error)
        if self._commit_waits:
            self._add(self._syncs.send_pending())
            self._commit_waits = bool(self._syncs.pending)


def _runs(offsets: Sequence[int]) -> list[tuple[int, int]]:
    """Splits ascending offsets where they have gaps: first offset and count of each run."""
    if isinstance(offsets, range):
        return [(offsets[0], len(offsets))]
    runs: list[tuple[int, int]] = []
    first = previous = offsets[0]
    for offset in offsets[1:]:
        if offset != previous + 1:
            runs.append((first, previous - first + 1))
            first = offset
        previous = offset
    return [*runs, (first, previous - first + 1)]
