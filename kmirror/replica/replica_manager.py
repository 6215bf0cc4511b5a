"""All partitions of one broker (skeleton; bodies follow)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol

from kmirror.common.metrics import MetricsRegistry
from kmirror.common.ports import Buffer
from kmirror.common.topic_partition import TopicPartition
from kmirror.metadata.delta import MetadataDelta
from kmirror.metadata.image import MetadataImage
from kmirror.replica.partition import Partition
from kmirror.replica.replica_types import DeleteRecordsResult, FetchInfos, FetchParams, FetchResults, PartitionResponse, ReplicaConfig
from kmirror.runtime.api import Runtime
from kmirror.storage.log_manager import LogManager


class PartitionListener(Protocol):
    """Told what happens to one partition (coordinators, mirrors)."""

    def on_high_watermark_updated(self, partition: TopicPartition, offset: int) -> None: ...

    def on_failed(self, partition: TopicPartition) -> None: ...

    def on_deleted(self, partition: TopicPartition) -> None: ...

    def on_becoming_follower(self, partition: TopicPartition) -> None: ...


class ReplicaManager:
    def __init__(self, config: ReplicaConfig, runtime: Runtime, log_manager: LogManager, metrics: MetricsRegistry) -> None: ...

    def start(self) -> None:
        """Start the high-watermark checkpoint timer (LogManager has been started by the caller)."""

    async def shutdown(self) -> None:
        """Stop fetchers, complete what waits, checkpoint high watermarks. The caller shuts LogManager down afterwards."""

    def apply_delta(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Make leaders and followers, create, update and delete logs. `server`'s metadata publisher calls it first."""

    def get_partition(self, topic_partition: TopicPartition) -> Partition | None: ...

    def get_partition_or_exception(self, topic_partition: TopicPartition) -> Partition:
        """ApiException UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR or NOT_LEADER_OR_FOLLOWER."""

    def append_records(
        self,
        *,
        timeout_ms: int,
        required_acks: int,
        origin: AppendOrigin,
        entries: Mapping[TopicPartition, Buffer],
        internal_topics_allowed: bool = False,
    ) -> asyncio.Future[dict[TopicPartition, PartitionResponse]]:
        """Append, then wait for the ISR if required_acks is -1. The append itself has happened when this returns."""

    def fetch_messages(self, params: FetchParams, fetch_infos: FetchInfos) -> asyncio.Future[FetchResults]:
        """Read; wait for min_bytes up to max_wait_ms."""

    def delete_records(self, timeout_ms: int, offsets: Mapping[TopicPartition, int], *, allow_internal_topics: bool) -> asyncio.Future[dict[TopicPartition, DeleteRecordsResult]]: ...

    def checkpoint_high_watermarks(self) -> None: ...

    def maybe_add_listener(self, topic_partition: TopicPartition, listener: PartitionListener) -> bool: ...

    def remove_listener(self, topic_partition: TopicPartition, listener: PartitionListener) -> None: ...
