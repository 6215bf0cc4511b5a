"""Reads for fetches: what each partition returns within the fetch's limits, and the wait until that
is enough.

A follower's read also says what the follower has (`Partition.update_follower_fetch_state`). A
throttled read of a follower that is not in sync returns nothing. A consumer that another replica
serves better is sent there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from kmirror.common.errors import ApiException, Errors
from kmirror.common.metrics import Meter
from kmirror.common.ports import FileSlice
from kmirror.common.topic_partition import TopicPartition
from kmirror.metadata.registrations import BrokerRegistration
from kmirror.replica.broker_topic_stats import BrokerTopicStats
from kmirror.replica.client_epochs import ClientEpochs
from kmirror.replica.delayed_fetch import DelayedFetch, FetchPartitionStatus
from kmirror.replica.delayed_operation import DelayedOperationPurgatory
from kmirror.replica.follower_session import FollowerSession
from kmirror.replica.hosted_partitions import HostedPartitions
from kmirror.replica.partition import Partition
from kmirror.replica.partition_reader import LogReadResult, read_elsewhere, read_partition
from kmirror.replica.replica_selector import ReplicaSelector, find_preferred_read_replica
from kmirror.replica.replica_types import FetchInfos, FetchParams, FetchPartition, FetchPartitionData, FetchResults
from kmirror.replica.replication_quota_manager import ReplicationQuotaManager
from kmirror.runtime.api import Runtime

_log = logging.getLogger(__name__)


class PartitionReads:
    """Reads hosted partitions; waiting fetches belong to the purgatory. `leader_quota` throttles
    followers; `broker_of` returns registered brokers; `expirations` counts fetches that timed out,
    by whether a follower sent them.
    """

    def __init__(
        self,
        runtime: Runtime,
        hosted: HostedPartitions,
        purgatory: DelayedOperationPurgatory[DelayedFetch],
        leader_quota: ReplicationQuotaManager,
        stats: BrokerTopicStats,
        *,
        replica_selector: ReplicaSelector | None,
        broker_of: Callable[[int], BrokerRegistration | None],
        expirations: Mapping[bool, Meter],
    ) -> None:
        self._runtime = runtime
        self._hosted = hosted
        self._purgatory = purgatory
        self._leader_quota = leader_quota
        self._stats = stats
        self._replica_selector = replica_selector
        self._broker_of = broker_of
        self._expirations = expirations

    def fetch_messages(self, params: FetchParams, fetch_infos: FetchInfos) -> asyncio.Future[FetchResults]:
        """Reads now, or when there are `params.min_bytes`, or after `params.max_wait_ms`. The order
        of `fetch_infos` is kept.
        """
        future: asyncio.Future[FetchResults] = self._runtime.create_future()
        reads = self.read_from_log(params, fetch_infos)
        if params.max_wait_ms <= 0 or not fetch_infos or _is_answer(reads, params.min_bytes):
            future.set_result(self.fetch_results(params, fetch_infos, reads))
            return future
        statuses = [
            FetchPartitionStatus(topic.topic_partition, read.fetch_offset_metadata, fetch)
            for (topic, fetch), read in zip(fetch_infos, reads, strict=True)
        ]

        def read_again() -> None:
            if not future.done():
                reads = self.read_from_log(params, fetch_infos, is_first_read=False)
                future.set_result(self.fetch_results(params, fetch_infos, reads))

        operation = DelayedFetch(
            params,
            statuses,
            self._hosted.online.get,
            read_again,
            self._expirations[params.is_from_follower],
            must_wait=lambda partition: self.must_wait(params, partition),
        )
        self._purgatory.try_complete_else_watch(operation, [status.topic_partition for status in statuses])
        return future

    def read_from_log(
        self, params: FetchParams, fetch_infos: FetchInfos, *, is_first_read: bool = True, follower: FollowerSession | None = None
    ) -> list[LogReadResult]:
        """One read per partition, within `params.max_bytes` over all (the first batch may exceed
        it).

        The first read of a fetch updates the follower's state; a read after the wait says nothing
        new about the follower.
        """
        results: list[LogReadResult] = []
        remaining_bytes = params.max_bytes
        min_one_message = True
        for topic, fetch in fetch_infos:
            topic_partition = topic.topic_partition
            partition = self._hosted.online.get(topic_partition)
            if partition is None:
                results.append(LogReadResult(self._missing_error(topic_partition)))
                continue
            if topic.topic_id and partition.topic_id and topic.topic_id != partition.topic_id:
                results.append(LogReadResult(Errors.INCONSISTENT_TOPIC_ID))
                continue
            preferred = self._preferred_read_replica(partition, params, fetch.fetch_offset)
            if preferred >= 0:
                results.append(read_elsewhere(partition, fetch, preferred))
                continue
            max_bytes = min(fetch.max_bytes, remaining_bytes)
            result = read_partition(partition, params, fetch, max_bytes=max_bytes, min_one_message=min_one_message)
            if is_first_read and params.is_from_follower and result.error is Errors.NONE and result.diverging_epoch is None:
                self._update_follower(partition, params, fetch, result, follower)
            size = result.size_in_bytes
            if size > 0 and self.must_wait(params, partition):
                result.records, size = None, 0
            if size > 0:
                min_one_message = False
            elif follower is not None and result.error is Errors.NONE and result.diverging_epoch is None:
                result.is_settled = partition.replicas.is_settled(
                    params.replica_id, fetch.fetch_offset, partition.local_log.log_end_offset, follower
                )
            remaining_bytes = max(0, remaining_bytes - size)
            results.append(result)
        return results

    def must_wait(self, params: FetchParams, partition: Partition) -> bool:
        """Whether the leader's throttle holds this follower back: never one that is in sync."""
        if not params.is_from_follower or params.replica_id in partition.replicas.in_sync:
            return False
        return self._leader_quota.must_wait(partition.topic_partition)

    def _preferred_read_replica(self, partition: Partition, params: FetchParams, fetch_offset: int) -> int:
        client = params.client_metadata
        if self._replica_selector is None or client is None or params.is_from_follower or not partition.is_leader:
            return -1
        return find_preferred_read_replica(
            self._replica_selector,
            partition,
            client,
            fetch_offset,
            broker_of=self._broker_of,
            now_ms=self._runtime.clock.monotonic_ms(),
        )

    @staticmethod
    def _update_follower(
        partition: Partition, params: FetchParams, fetch: FetchPartition, result: LogReadResult, follower: FollowerSession | None
    ) -> None:
        try:
            partition.update_follower_fetch_state(
                replica_id=params.replica_id,
                fetch_offset=fetch.fetch_offset,
                follower_log_start_offset=fetch.log_start_offset,
                leader_log_end_offset=result.log_end_offset,
                broker_epoch=params.replica_epoch,
                current_leader_epoch=fetch.current_leader_epoch,
                session=follower,
                fetch_offset_metadata=result.fetch_offset_metadata,
            )
        except ApiException as error:
            _log.debug("%s", error.message)
            result.error = error.error
            result.records = None

    def fetch_results(self, params: FetchParams, fetch_infos: FetchInfos, reads: list[LogReadResult]) -> FetchResults:
        """Turns what was read into an answer, and counts it as sent."""
        is_from_follower = params.is_from_follower
        results: FetchResults = []
        for (topic, fetch), read in zip(fetch_infos, reads, strict=True):
            if is_from_follower:
                self._stats.replication_bytes_out.mark(read.size_in_bytes)
                partition = self._hosted.online.get(topic.topic_partition)
                if partition is not None and partition.replicas.is_adding(params.replica_id):
                    self._stats.reassignment_bytes_out.mark(read.size_in_bytes)
            elif read.size_in_bytes:
                self._stats.fetched(topic.topic, size_in_bytes=read.size_in_bytes)
            data = read.to_partition_data()
            if params.hides_epochs and fetch.last_fetched_epoch is None and read.records is not None:
                self._hide_epochs(topic.topic_partition, data, read.records)
            results.append((topic, data))
        return results

    def _hide_epochs(self, topic_partition: TopicPartition, data: FetchPartitionData, records: FileSlice) -> None:
        """Hides leader epochs from a client, in the same step as the read, so that the log and its
        leader epoch are those that were read.
        """
        partition = self._hosted.online[topic_partition]
        try:
            data.records = ClientEpochs.records(records, partition.local_log, partition.leader_epoch)
        except ApiException as error:
            data.error, data.records = error.error, None

    def record_throttled_replication(self, results: FetchResults) -> None:
        """Counts what a follower is sent of throttled partitions, even if the follower is
        in sync.
        """
        quota = self._leader_quota
        if quota.is_unused:
            return
        for topic, data in results:
            if data.size_in_bytes and quota.is_throttled(topic.topic_partition):
                quota.record(data.size_in_bytes)

    def _missing_error(self, topic_partition: TopicPartition) -> Errors:
        try:
            self._hosted.get_or_exception(topic_partition)
        except ApiException as error:
            return error.error
        return Errors.UNKNOWN_SERVER_ERROR


def _is_answer(reads: list[LogReadResult], min_bytes: int) -> bool:
    """Whether a fetch is answered right away: enough bytes, an error, a divergence, or a better
    replica.
    """
    if sum(read.size_in_bytes for read in reads) >= min_bytes:
        return True
    return any(read.error is not Errors.NONE or read.diverging_epoch is not None or read.preferred_read_replica >= 0 for read in reads)
