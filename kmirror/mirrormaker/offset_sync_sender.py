"""Writes the offset syncs of one source task, in their order.

The writer of the rules (`offset_syncs`) says which syncs are due. They wait in a queue for a task
that gives them to the producer; with its linger.ms several leave in one request. A sync that fails
is logged and not sent again, as in Kafka: a later one says more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

from kmirror.clients.kafka_producer import KafkaProducer, ProducerRecord, RecordMetadata
from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.batch_offset_syncs import BatchOffsetSyncWriter
from kmirror.mirrormaker.cycles import SourceAndTarget
from kmirror.mirrormaker.formats import OffsetSync
from kmirror.runtime.api import Runtime

_log = logging.getLogger(__name__)


class OffsetSyncSender:
    """`run` is a task of its owner, who ends with `finish` and `close`."""

    def __init__(self, runtime: Runtime, flow: SourceAndTarget, topic: str, producer: Mapping[str, str], offset_lag_max: int) -> None:
        self._flow = flow
        self._topic = topic
        self._producer = KafkaProducer(runtime, producer)
        self._syncs = BatchOffsetSyncWriter(offset_lag_max)
        self._queue: list[OffsetSync] = []
        self._waiting = asyncio.Event()

    def acknowledged(self, partition: TopicPartition, upstream: Sequence[int], metadata: RecordMetadata) -> None:
        """The target has records; `upstream` are their offsets at the source."""
        if not metadata.has_offset:
            _log.error("RecordMetadata has no offset -- can't sync offsets for %s.", metadata.topic)
            return
        downstream = metadata.offset
        for first, count in _runs(upstream):
            self._add(self._syncs.batch_acknowledged(partition, first, downstream, count))
            downstream += count

    def committed(self) -> None:
        """The task's offsets were stored: delayed syncs go (OS2)."""
        self._add(self._syncs.commit())

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

    async def close(self) -> None:
        await self._producer.close(timeout_ms=0)

    async def _send_queued(self) -> None:
        while self._queue:
            await self._send(self._queue.pop(0))

    async def _send(self, sync: OffsetSync) -> None:
        def done(_: RecordMetadata | None, error: Exception | None) -> None:
            self._syncs.sync_acknowledged()
            if error is not None:
                _log.error("[%s] Failure sending offset sync %s: %s", self._flow, sync, error)

        record = ProducerRecord(self._topic, sync.record_value, key=sync.record_key, partition=0)
        try:
            await self._producer.send(record, done)
        except KmirrorError as error:
            done(None, error)


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
