"""The log of an internal topic's partition, as far as a coordinator needs it; `replica_log`
implements it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kmirror.common.ports import Buffer
from kmirror.common.topic_partition import TopicPartition
from kmirror.storage.producer_state_entry import VerificationGuard


class PartitionLog(Protocol):
    """Reads and appends to partitions that this broker leads. Errors are `ApiException`s with
    Kafka's codes."""

    def log_start_offset(self, topic_partition: TopicPartition) -> int: ...

    def log_end_offset(self, topic_partition: TopicPartition) -> int: ...

    def high_watermark(self, topic_partition: TopicPartition) -> int: ...

    def read(self, topic_partition: TopicPartition, offset: int, max_bytes: int) -> Buffer:
        """Returns whole batches from `offset` on, at least one if there is one, up to the log end
        (not the high watermark)."""
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
        """Appends one batch with origin coordinator and acks -1 (so min.insync.replicas applies);
        returns the log end after it.

        `verification_guard` is for transactional batches, `transaction_version` for markers.
        """
        ...

    async def flush_if_single_replica(self, topic_partition: TopicPartition) -> None:
        """Calls fsync if this broker is the whole ISR, so that committed records survive a power
        loss (D2)."""
        ...

    async def delete_records(self, topic_partition: TopicPartition, before_offset: int) -> None:
        """Raises the log start offset, here and on the live followers."""
        ...

    def max_batch_size(self, topic_partition: TopicPartition) -> int:
        """Returns the topic's max.message.bytes."""
        ...

    def add_listener(self, topic_partition: TopicPartition, listener: Callable[[int], None]) -> Callable[[], None]:
        """Calls `listener(high_watermark)` whenever it moves; the returned function removes the
        listener."""
        ...
