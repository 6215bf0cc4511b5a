"""The log of an internal topic's partition, as a coordinator needs it, and that of a `ReplicaManager`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kmirror.common.ports import Buffer
from kmirror.common.topic_partition import TopicPartition
from kmirror.storage.producer_state_entry import VerificationGuard


class PartitionLog(Protocol):
    """Reads and appends of partitions that this broker leads. Errors are `ApiException`s with Kafka's codes."""

    def log_start_offset(self, topic_partition: TopicPartition) -> int: ...

    def log_end_offset(self, topic_partition: TopicPartition) -> int: ...

    def high_watermark(self, topic_partition: TopicPartition) -> int: ...

    def read(self, topic_partition: TopicPartition, offset: int, max_bytes: int) -> Buffer:
        """Whole batches from `offset` on, at least one if there is one, up to the log end (not the high watermark)."""
        ...

    def append(
        self,
        topic_partition: TopicPartition,
        batch: Buffer,
        *,
        leader_epoch: int,
        verification_guard: VerificationGuard | None = None,
        transaction_version: int = 0,
    ) -> int:
        """Append one batch with origin coordinator and acks -1 (min.insync.replicas holds); the log end after it.

        `verification_guard` is that of a transactional batch, `transaction_version` that of a marker.
        """
        ...

    async def flush_if_single_replica(self, topic_partition: TopicPartition) -> None:
        """fsync where the ISR is this broker alone, so that what is committed survives a power loss (D2)."""
        ...

    async def delete_records(self, topic_partition: TopicPartition, before_offset: int) -> None:
        """Raise the log start offset, here and on the live followers."""
        ...

    def max_batch_size(self, topic_partition: TopicPartition) -> int:
        """The topic's max.message.bytes."""
        ...

    def add_listener(self, topic_partition: TopicPartition, listener: Callable[[int], None]) -> Callable[[], None]:
        """Call `listener(high_watermark)` whenever it moves; the returned function ends that."""
        ...
