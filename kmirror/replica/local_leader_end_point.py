"""This broker's own current logs as the leader of the future logs that replace them (Kafka's
`LocalLeaderEndPoint`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.replica.hosted_partitions import HostedPartitions
from kmirror.replica.leader_end_point import FetchData, PartitionFetchState
from kmirror.replica.partition_reader import diverging_epoch
from kmirror.runtime.api import Runtime
from kmirror.storage.fetch_data_info import FetchIsolation

IDLE_MS = 50
"""How long a round waits (for the controller, or for the next append) if the last one copied
nothing.
"""


class LocalLeaderEndPoint:
    """Reads the current logs; owns no log. `is_unverified`: the future log is still being compared,
    so the answer has only the current one's offsets.
    """

    def __init__(
        self, runtime: Runtime, hosted: HostedPartitions, is_unverified: Callable[[TopicPartition], bool], *, max_bytes: int
    ) -> None:
        self._runtime = runtime
        self._hosted = hosted
        self._is_unverified = is_unverified
        self._max_bytes = max_bytes
        self.has_copied = False

    async def fetch(
        self,
        partitions: Mapping[TopicPartition, PartitionFetchState],
        touched: Collection[TopicPartition] | None,
        *,
        max_wait_ms: int | None,
    ) -> dict[TopicPartition, FetchData]:
        await self._runtime.sleep_ms(0 if self.has_copied else IDLE_MS)
        answers: dict[TopicPartition, FetchData] = {}
        for topic_partition, state in list(partitions.items()):
            try:
                answers[topic_partition] = self._read(topic_partition, state)
            except ApiException as error:
                answers[topic_partition] = FetchData(error.error)
        self.has_copied = any(answer.records or self._is_unverified(topic_partition) for topic_partition, answer in answers.items())
        return answers

    def _read(self, topic_partition: TopicPartition, state: PartitionFetchState) -> FetchData:
        partition = self._hosted.get_or_exception(topic_partition)
        log, epoch = partition.local_log, state.last_fetched_epoch
        if self._is_unverified(topic_partition):
            return FetchData(Errors.NONE, high_watermark=log.high_watermark, log_start_offset=log.log_start_offset)
        diverging = None if epoch is None else diverging_epoch(partition, log, state.fetch_offset, epoch)
        records = b""
        if diverging is None:
            read = log.read(state.fetch_offset, self._max_bytes, FetchIsolation.LOG_END, min_one_message=True)
            records = read.records.to_bytes()
        return FetchData(
            Errors.NONE,
            high_watermark=log.high_watermark,
            log_start_offset=log.log_start_offset,
            records=records,
            diverging_epoch=diverging,
        )

    async def fetch_earliest_offset(self, topic_partition: TopicPartition, current_leader_epoch: int) -> int:
        return self._hosted.get_or_exception(topic_partition).local_log.log_start_offset

    async def fetch_latest_offset(self, topic_partition: TopicPartition, current_leader_epoch: int) -> int:
        return self._hosted.get_or_exception(topic_partition).local_log.log_end_offset

    async def close(self) -> None:
        self.has_copied = False
