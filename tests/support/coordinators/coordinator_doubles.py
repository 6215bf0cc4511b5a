"""The log of a coordinator's partition in memory, for tests of shards and of the runtime that they
share.
"""

from __future__ import annotations

from collections.abc import Callable

from kmirror.common.errors import ApiException, Errors
from kmirror.common.ports import Buffer
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.record_batch import RecordBatch
from kmirror.storage.producer_state_entry import VerificationGuard


class MemoryLog:
    """`PartitionLog` in memory; the high watermark follows the end unless held back."""

    def __init__(self, *, max_batch_size: int = 1 << 20) -> None:
        self._max_batch_size = max_batch_size
        self.batches: list[bytes] = []
        self.start = 0
        self.end = 0
        self.committed = 0
        self.hold = False
        self.refuse: Errors | None = None
        self.flushes = 0
        self.listeners: list[Callable[[int], None]] = []

    def log_start_offset(self, topic_partition: TopicPartition) -> int:
        return self.start

    def log_end_offset(self, topic_partition: TopicPartition) -> int:
        return self.end

    def high_watermark(self, topic_partition: TopicPartition) -> int:
        return self.committed

    def read(self, topic_partition: TopicPartition, offset: int, max_bytes: int) -> Buffer:
        return b"".join(batch for batch in self.batches if RecordBatch(batch).last_offset >= offset)

    def append(
        self,
        topic_partition: TopicPartition,
        batch: Buffer,
        *,
        leader_epoch: int,
        verification_guard: VerificationGuard | None = None,
        transaction_version: int = 0,
    ) -> int:
        if self.refuse is not None:
            raise ApiException(self.refuse)
        placed = bytearray(batch)
        placed[:8] = self.end.to_bytes(8, "big")
        self.batches.append(bytes(placed))
        self.end += RecordBatch(placed).record_count
        if not self.hold:
            self.commit()
        return self.end

    async def flush_if_single_replica(self, topic_partition: TopicPartition) -> None:
        self.flushes += 1

    async def delete_records(self, topic_partition: TopicPartition, before_offset: int) -> None:
        self.start = max(self.start, before_offset)

    def max_batch_size(self, topic_partition: TopicPartition) -> int:
        return self._max_batch_size

    def add_listener(self, topic_partition: TopicPartition, listener: Callable[[int], None]) -> Callable[[], None]:
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def commit(self) -> None:
        self.committed = self.end
        for listener in list(self.listeners):
            listener(self.committed)
