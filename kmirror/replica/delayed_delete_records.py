"""Waits until every live replica has moved its log start offset past a DeleteRecords, or until the
time is up."""

from __future__ import annotations

import asyncio

from msgspec import Struct

from kmirror.common.errors import ApiException, Errors
from kmirror.common.metrics import Meter
from kmirror.common.topic_partition import TopicPartition
from kmirror.replica.delayed_operation import DelayedOperation
from kmirror.replica.partition import Partition
from kmirror.replica.replica_types import DeleteRecordsResult


class DeleteRecordsPartitionStatus(Struct):
    required_offset: int
    partition: Partition


class DelayedDeleteRecords(DelayedOperation):
    """Owns one waiting DeleteRecords. `results` holds the partitions that are done; the future gets
    it when all are.
    """

    def __init__(
        self,
        delay_ms: int,
        pending: dict[TopicPartition, DeleteRecordsPartitionStatus],
        results: dict[TopicPartition, DeleteRecordsResult],
        future: asyncio.Future[dict[TopicPartition, DeleteRecordsResult]],
        expirations: Meter,
    ) -> None:
        super().__init__(delay_ms)
        self._pending = pending
        self._results = results
        self._future = future
        self._expirations = expirations

    def try_complete(self) -> bool:
        for topic_partition, status in list(self._pending.items()):
            try:
                low_watermark = status.partition.low_watermark()
            except ApiException as error:
                self._results[topic_partition] = DeleteRecordsResult(error.error)
                del self._pending[topic_partition]
                continue
            if low_watermark >= status.required_offset:
                self._results[topic_partition] = DeleteRecordsResult(Errors.NONE, low_watermark)
                del self._pending[topic_partition]
        return not self._pending and self.force_complete()

    def on_expiration(self) -> None:
        for topic_partition in self._pending:
            self._expirations.mark()
            self._results[topic_partition] = DeleteRecordsResult(Errors.REQUEST_TIMED_OUT)

    def on_complete(self) -> None:
        if not self._future.done():
            self._future.set_result(self._results)
