"""Fetches of followers with a session: only the partitions that changed are read.

The fetch waits for the others without reading them (`delayed_follower_fetch`). The follower's
session knows which partitions changed since its last fetch (`follower_session`).
"""

from __future__ import annotations

import asyncio

from kmirror.common.errors import Errors
from kmirror.common.metrics import Meter
from kmirror.replica.delayed_follower_fetch import DelayedFollowerFetch, FetchInfo, FollowedPartitions, FollowerFetchPurgatory
from kmirror.replica.follower_session import PartitionKey
from kmirror.replica.hosted_partitions import HostedPartitions
from kmirror.replica.partition_reader import LogReadResult
from kmirror.replica.partition_reads import PartitionReads
from kmirror.replica.replica_types import FetchInfos, FetchParams, FetchResults
from kmirror.runtime.api import Runtime


class FollowerFetches:
    """Answers such fetches; the waiting ones belong to the purgatory. `expirations` counts fetches
    that timed out.
    """

    def __init__(
        self, runtime: Runtime, hosted: HostedPartitions, reads: PartitionReads, purgatory: FollowerFetchPurgatory, expirations: Meter
    ) -> None:
        self._runtime = runtime
        self._hosted = hosted
        self._reads = reads
        self._purgatory = purgatory
        self._expirations = expirations

    def fetch(self, params: FetchParams, followed: FollowedPartitions, fetch_infos: FetchInfos) -> asyncio.Future[FetchResults]:
        """As `ReplicaManager.fetch_messages`; `fetch_infos` are the partitions of the session that
        have to be looked at.
        """
        reads, follower = self._reads, followed.follower
        future: asyncio.Future[FetchResults] = self._runtime.create_future()
        for topic in follower.take_forgotten():
            partition = self._hosted.online.get(topic.topic_partition)
            if partition is not None:
                partition.replicas.end_session(params.replica_id, follower)
        first = reads.read_from_log(params, fetch_infos, follower=follower)
        follower.last_fetch_ms = self._runtime.clock.monotonic_ms()
        has_news = any(read.error is not Errors.NONE or read.diverging_epoch is not None for read in first)
        if params.max_wait_ms <= 0 or has_news or sum(read.size_in_bytes for read in first) >= params.min_bytes:
            future.set_result(reads.fetch_results(params, fetch_infos, first))
            return future

        def answer(infos: FetchInfos) -> None:
            self._purgatory.forget(operation)
            if not future.done():
                again = reads.read_from_log(params, infos, is_first_read=False, follower=follower)
                future.set_result(reads.fetch_results(params, infos, again))

        def look(info: FetchInfo) -> LogReadResult:
            return reads.read_from_log(params, [info], is_first_read=False)[0]

        keys: list[PartitionKey] = [(topic.topic_id, topic.partition) for topic, _ in fetch_infos]
        sizes = {key: read.size_in_bytes for key, read in zip(keys, first, strict=True) if read.size_in_bytes}
        infos = dict(zip(keys, fetch_infos, strict=True))
        operation = DelayedFollowerFetch(
            params,
            followed,
            infos,
            sizes,
            look=look,
            must_wait=lambda partition: reads.must_wait(params, partition),
            answer=answer,
            expirations=self._expirations,
        )
        self._purgatory.watch(operation)
        return future
