"""Waits until the ISR has what a produce with acks=-1 appended, per partition, or until the
request's time is up.

A partition is done when its high watermark reaches the offset after the appended records, when this
broker stops leading it, or when `fail_partition` ends its wait (the partition became read-only, or
its log is about to be cut). Partitions not done at the deadline answer REQUEST_TIMED_OUT; its
records stay in the log and may still be replicated.
"""

from __future__ import annotations

import asyncio

from msgspec import Struct

from kmirror.common.errors import Errors
from kmirror.common.metrics import Meter
from kmirror.common.topic_partition import TopicPartition
from kmirror.replica.delayed_operation import DelayedOperation
from kmirror.replica.partition import Partition
from kmirror.replica.replica_types import PartitionResponse


class ProducePartitionStatus(Struct):
    """The wait of one partition; `required_offset` is the offset after the last appended record."""

    response: PartitionResponse
    partition: Partition
    required_offset: int
    acks_pending: bool = True


class DelayedProduce(DelayedOperation):
    """Owns one waiting produce. `responses` also holds the partitions that failed at once; the
    future gets all of them.
    """

    def __init__(
        self,
        delay_ms: int,
        statuses: dict[TopicPartition, ProducePartitionStatus],
        responses: dict[TopicPartition, PartitionResponse],
        future: asyncio.Future[dict[TopicPartition, PartitionResponse]],
        expirations: Meter,
    ) -> None:
        super().__init__(delay_ms)
        self._statuses = statuses
        self._responses = responses
        self._future = future
        self._expirations = expirations

    def try_complete(self) -> bool:
        for status in self._statuses.values():
            if status.acks_pending:
                done, error = status.partition.check_enough_replicas_reach_offset(status.required_offset)
                if done:
                    self._finish(status, error)
        if any(status.acks_pending for status in self._statuses.values()):
            return False
        return self.force_complete()

    def fail_partition(self, topic_partition: TopicPartition, error: Errors) -> None:
        """End one partition's wait with `error`; the rest goes on waiting."""
        status = self._statuses.get(topic_partition)
        if status is not None and status.acks_pending:
            self._finish(status, error)
        self.try_complete()

    @staticmethod
    def _finish(status: ProducePartitionStatus, error: Errors) -> None:
        status.acks_pending = False
        status.response.error = error
        if error is not Errors.NONE:
            status.response.base_offset = -1

    def on_expiration(self) -> None:
        for status in self._statuses.values():
            if status.acks_pending:
                self._expirations.mark()
                status.response.error = Errors.REQUEST_TIMED_OUT

    def on_complete(self) -> None:
        if not self._future.done():
            self._future.set_result(self._responses)
