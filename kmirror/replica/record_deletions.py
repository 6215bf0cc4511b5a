"""DeleteRecords: raises a log's start offset, and waits until live followers did the same.

Read-only partitions, internal topics and logs whose policy does not delete refuse it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from kmirror.common.errors import ApiException, Errors
from kmirror.common.metrics import Meter
from kmirror.common.topic_partition import INTERNAL_TOPICS, MIRROR_STATE_TOPIC_NAME, TopicPartition
from kmirror.replica.delayed_delete_records import DelayedDeleteRecords, DeleteRecordsPartitionStatus
from kmirror.replica.delayed_operation import DelayedOperationPurgatory
from kmirror.replica.hosted_partitions import HostedPartitions
from kmirror.replica.partition import Partition
from kmirror.replica.replica_types import DeleteRecordsResult
from kmirror.runtime.api import Runtime
from kmirror.storage.log_offset_metadata import LogStartOffsetIncrementReason

HIGH_WATERMARK_OFFSET: Final = -1
"""In a request: everything that consumers can have read."""


class RecordDeletions:
    """Raises log start offsets; the waiting operations belong to the purgatory. `note_changes`
    tells followers' sessions, which then fetch the new log start offset.
    """

    def __init__(
        self,
        runtime: Runtime,
        hosted: HostedPartitions,
        purgatory: DelayedOperationPurgatory[DelayedDeleteRecords],
        *,
        note_changes: Callable[[Iterable[Partition]], None],
        expirations: Meter,
    ) -> None:
        self._runtime = runtime
        self._hosted = hosted
        self._purgatory = purgatory
        self._note_changes = note_changes
        self._expirations = expirations

    def delete_records(
        self, timeout_ms: int, offsets: Mapping[TopicPartition, int], *, internal_topics_allowed: bool = False
    ) -> asyncio.Future[dict[TopicPartition, DeleteRecordsResult]]:
        """Raise log start offsets (-1: to the high watermark) and wait until live followers did the
        same."""
        future: asyncio.Future[dict[TopicPartition, DeleteRecordsResult]] = self._runtime.create_future()
        results: dict[TopicPartition, DeleteRecordsResult] = {}
        pending: dict[TopicPartition, DeleteRecordsPartitionStatus] = {}
        for topic_partition, offset in offsets.items():
            try:
                partition, required_offset = self._delete_before(topic_partition, offset, internal_topics_allowed=internal_topics_allowed)
                low_watermark = partition.low_watermark()
            except ApiException as error:
                results[topic_partition] = DeleteRecordsResult(error.error)
                continue
            if low_watermark >= required_offset:
                results[topic_partition] = DeleteRecordsResult(Errors.NONE, low_watermark)
            else:
                pending[topic_partition] = DeleteRecordsPartitionStatus(required_offset, partition)
        if pending:
            operation = DelayedDeleteRecords(timeout_ms, pending, results, future, self._expirations)
            self._purgatory.try_complete_else_watch(operation, list(pending))
        else:
            future.set_result(results)
        return future

    def _delete_before(self, topic_partition: TopicPartition, offset: int, *, internal_topics_allowed: bool) -> tuple[Partition, int]:
        if topic_partition.topic in INTERNAL_TOPICS and not internal_topics_allowed:
            raise ApiException(Errors.INVALID_TOPIC_EXCEPTION, f"Cannot delete records of internal topic {topic_partition.topic}")
        partition = self._hosted.get_or_exception(topic_partition)
        log = partition.leader_log
        partition.check_writable()
        if not log.config.delete or topic_partition.topic == MIRROR_STATE_TOPIC_NAME:
            raise ApiException(
                Errors.POLICY_VIOLATION, f"Records of partition {topic_partition} can not be deleted due to the configured policy"
            )
        required_offset = log.high_watermark if offset == HIGH_WATERMARK_OFFSET else offset
        if required_offset < 0:
            raise ApiException(Errors.OFFSET_OUT_OF_RANGE, f"The offset {required_offset} for partition {topic_partition} is not valid")
        log.maybe_increment_log_start_offset(required_offset, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)
        self._note_changes([partition])
        return partition, required_offset
