"""The records that a producer has not sent yet, as a queue of batches for each partition (Kafka's
`RecordAccumulator`). Pure: it is told the time, and waits for nothing.

A batch is ready to be sent when it is full or another one stands behind it, when it is linger.ms
old, when buffer.memory is used up and somebody waits for it, and while somebody flushes or closes.
After a failed attempt it is ready once its backoff is over, or at once if its partition has a newer
leader.

A request takes at most one batch of each partition, up to max.request.size; the partition that it
begins with moves on each time, so that a request's limit starves nobody. Batches of a producer with
sequences go back to their queue in the order of their sequences.

Memory (`buffer_pool`). A batch takes batch.size bytes, or what its first record needs, or the size
of the batch from elsewhere. It gives them back when it is done.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kmirror.clients.buffer_pool import BufferPool
from kmirror.clients.cluster_metadata import LeaderAndEpoch
from kmirror.clients.produce_result import (
    BatchResult,
    Callback,
    FutureRecordMetadata,
    Receipt,
)
from kmirror.clients.producer_batch import JointResult, ProducerBatch, size_upper_bound
from kmirror.common.errors import ApiException, Errors
from kmirror.common.ports import Buffer
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.compression import CompressionType
from kmirror.record.producer_header import BatchBody
from kmirror.record.record import NO_TIMESTAMP, Header, increment_sequence
from kmirror.record.record_batch import RECORD_BATCH_OVERHEAD

RATIO_IMPROVING_STEP: Final = 0.005
RATIO_DETERIORATING_STEP: Final = 0.05
NEVER_MS: Final = 1 << 62
LeaderOf = Callable[[TopicPartition], LeaderAndEpoch | None]


@dataclass(slots=True)
class Ready:
    """What can be sent now: partitions by leader, topics whose leader is not known, and when to
    look again.
    """

    partitions: dict[int, tuple[LeaderAndEpoch, list[TopicPartition]]] = field(default_factory=dict)
    unknown: dict[TopicPartition, None] = field(default_factory=dict)
    next_ms: int = NEVER_MS


class RecordAccumulator:
    """`new_future` makes the futures that results wait on."""

    def __init__(
        self,
        *,
        batch_size: int,
        linger_ms: int,
        max_request_size: int,
        buffer_memory: int,
        delivery_timeout_ms: int,
        codec: CompressionType,
        level: int | None,
        transactional: bool,
        new_future: Callable[[], asyncio.Future[None]],
    ) -> None:
        self.pool = BufferPool(buffer_memory)
        self.queues: dict[TopicPartition, deque[ProducerBatch]] = {}
        """Only partitions that have batches."""
        self.incomplete: dict[ProducerBatch, None] = {}
        """Batches that are not done, in the order of their making."""
        self.flushing = 0
        self.closed = False
        self._batch_size = batch_size
        self._linger_ms = linger_ms
        self._max_request_size = max_request_size
        self._delivery_timeout_ms = delivery_timeout_ms
        self._codec = codec
        self._level = level
        self._transactional = transactional
        self._new_future = new_future
        self._ratios: dict[str, float] = {}
        self._turns: dict[int, int] = {}

    @property
    def oldest_created_ms(self) -> int | None:
        """When the oldest batch was made that is not done; None if all are."""
        for batch in self.incomplete:
            return batch.created_ms
        return None

    # In

    def memory_for(self, most: int) -> int:
        """What a new batch for a record of `most` bytes at most takes of buffer.memory."""
        return max(self._batch_size, RECORD_BATCH_OVERHEAD + most)

    def try_append(
        self,
        partition: TopicPartition,
        timestamp: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[Header],
        callback: Callback | None,
        *,
        most: int,
    ) -> FutureRecordMetadata | None:
        """Adds a record of `most` bytes at most to the partition's last batch; None if a new batch is
        needed.
        """
        if not self.has_room(partition, most, timestamp):
            return None
        return self.queues[partition][-1].append(timestamp, key, value, headers, callback)

    def has_room(self, partition: TopicPartition, most: int, timestamp: int) -> bool:
        """Whether a record of `most` bytes at most still goes into the partition's last batch."""
        queue = self.queues.get(partition)
        return queue is not None and not queue[-1].attempts and queue[-1].has_room_for(most, timestamp)

    def append_to_new(
        self,
        partition: TopicPartition,
        timestamp: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[Header],
        callback: Callback | None,
        *,
        memory: int,
        now_ms: int,
    ) -> FutureRecordMetadata:
        """Begins a batch with a record; `memory` was taken from the pool. Queues nothing if it raises."""
        batch = ProducerBatch(
            partition, BatchResult(partition, self._new_future), now_ms, memory, transactional=self._transactional
        ).open_for_records(max(self._batch_size, memory), self._codec, self._level, self._ratios.get(partition.topic, 1.0))
        future = batch.append(timestamp, key, value, headers, callback)
        self._queue_of(partition).append(batch)
        self.incomplete[batch] = None
        return future

    def append_batch(
        self, partition: TopicPartition, body: BatchBody, callback: Callback | None, *, memory: int, now_ms: int
    ) -> FutureRecordMetadata:
        """Queues a batch from elsewhere; `memory` was taken from the pool."""
        result = BatchResult(partition, self._new_future)
        batch = ProducerBatch(partition, result, now_ms, memory, body=body, transactional=self._transactional)
        future = FutureRecordMetadata(result, 0, body.max_timestamp, callback)
        batch.records = [future]
        self._queue_of(partition).append(batch)
        self.incomplete[batch] = None
        return future

    def append_run(self, partition: TopicPartition, bodies: Iterable[BatchBody], receipt: Receipt, *, now_ms: int) -> None:
        """Queues batches from elsewhere, in order. Their sizes were taken from the pool; `receipt`
        is called for each.
        """
        queue, incomplete, new_future, transactional = self._queue_of(partition), self.incomplete, self._new_future, self._transactional
        for number, body in enumerate(bodies):
            size = len(body.payload) + RECORD_BATCH_OVERHEAD
            batch = ProducerBatch(partition, BatchResult(partition, new_future), now_ms, size, body=body, transactional=transactional)
            batch.receipt, batch.number = receipt, number
            queue.append(batch)
            incomplete[batch] = None

    def _queue_of(self, partition: TopicPartition) -> deque[ProducerBatch]:
        queue = self.queues.get(partition)
        if queue is None:
            queue = self.queues[partition] = deque()
        return queue

    # Out

    def ready(self, now_ms: int, leader_of: LeaderOf, may_send: Callable[[TopicPartition], bool]) -> Ready:
        """Which partitions have a batch to send, by leader."""
        found = Ready()
        for partition, queue in self.queues.items():
            if not may_send(partition):
                continue
            leader = leader_of(partition)
            ready_ms = self._ready_ms(queue, leader)
            if ready_ms > now_ms:
                found.next_ms = min(found.next_ms, ready_ms)
            elif leader is None:
                found.unknown[partition] = None
            else:
                found.partitions.setdefault(leader.leader.id, (leader, []))[1].append(partition)
        return found

    def _ready_ms(self, queue: deque[ProducerBatch], leader: LeaderAndEpoch | None) -> int:
        """When the first batch of a queue may leave; 0 for at once."""
        first = queue[0]
        if first.attempts:
            if leader is None or leader.epoch <= first.attempted_leader_epoch:
                return first.last_attempt_ms + int(first.backoff_ms)
        elif len(queue) == 1 and not (first.is_full or self.flushing > 0 or self.closed or self.pool.queued > 0):
            return first.created_ms + self._linger_ms
        return 0

    def whole_behind(self, partition: TopicPartition) -> int:
        """How many batches wait in a queue that begins with one from elsewhere, sent for the first
        time.
        """
        queue = self.queues.get(partition)
        return len(queue) if queue and queue[0].body is not None and not queue[0].attempts else 0

    def drain(
        self, node_id: int, partitions: Sequence[TopicPartition], take: Callable[[ProducerBatch], bool], *, only_whole: bool = False
    ) -> list[ProducerBatch]:
        """Takes the batches of one request out of their queues. `take` says whether a batch may go
        now, and prepares it. With `only_whole`, only batches from elsewhere that were not sent yet
        go: these are always ready.
        """
        drained: list[ProducerBatch] = []
        size = 0
        turn = self._turns.get(node_id, 0) % len(partitions)
        for index in range(len(partitions)):
            partition = partitions[(turn + index) % len(partitions)]
            queue = self.queues.get(partition)
            if not queue:
                continue
            first = queue[0]
            if only_whole and (first.body is None or first.attempts):
                continue
            more = first.size_in_bytes
            if drained and size + more > self._max_request_size:
                turn += index
                break
            if not take(first):
                continue
            queue.popleft()
            if not queue:
                del self.queues[partition]
            if first.body is None:
                self._close(first)
                more = first.size_in_bytes
            size += more
            drained.append(first)
        else:
            turn += 1
        self._turns[node_id] = turn
        return drained

    def _close(self, batch: ProducerBatch) -> None:
        observed = batch.close()
        if observed is not None:
            topic = batch.partition.topic
            current = self._ratios.get(topic, 1.0)
            if observed > current:
                self._ratios[topic] = max(current + RATIO_DETERIORATING_STEP, observed)
            elif observed < current:
                self._ratios[topic] = max(current - RATIO_IMPROVING_STEP, observed)

    # Back

    def reenqueue(self, batch: ProducerBatch, now_ms: int, backoff_ms: float) -> None:
        """Puts a batch that was not written back, to be sent again after `backoff_ms`."""
        batch.last_attempt_ms, batch.backoff_ms = now_ms, backoff_ms
        self._insert(batch.partition, [batch])

    def _insert(self, partition: TopicPartition, batches: list[ProducerBatch]) -> None:
        """Queues batches that were drained before: first of all, or where their sequence belongs."""
        queue = self._queue_of(partition)
        position = 0
        if batches[0].has_sequence:
            while position < len(queue) and queue[position].has_sequence and _is_before(queue[position], batches[0]):
                position += 1
        for index, batch in enumerate(batches):
            queue.insert(position + index, batch)

    def split_and_reenqueue(self, batch: ProducerBatch, now_ms: int) -> list[ProducerBatch]:
        """Replaces a batch that is too large for the broker by smaller ones, in its place; the
        batch itself is over.

        They hold batch.size bytes, or half of the batch if it was not larger than that; a batch
        with a sequence passes its sequences on.
        """
        whole = batch.unpacked()
        size = batch.size_in_bytes
        limit = self._batch_size if size > self._batch_size else max(size // 2, RECORD_BATCH_OVERHEAD + 1)
        self._ratios[batch.partition.topic] = max(1.0, self._ratios.get(batch.partition.topic, 1.0))
        parts: list[ProducerBatch] = []
        of_records = batch.joint is None and len(batch.records) == batch.record_count
        for record in whole.records():
            most = size_upper_bound(record.key, record.value, record.headers)
            if not parts or not parts[-1].has_room_for(most, record.timestamp):
                parts.append(self._part_of(batch, limit))
            part = parts[-1]
            future = part.append(record.timestamp, record.key, record.value, record.headers, None)
            if of_records:
                assert isinstance(part.records, list), "a part collects records"
                part.records[-1] = batch.records[record.offset].moved_to(future)
        if not of_records:
            _join(batch, parts, self._new_future)
        sequence = batch.base_sequence
        for part in parts:
            part.close()
            if batch.has_sequence:
                part.set_producer(batch.producer, sequence)
                part.sequence_was_reset = batch.sequence_was_reset
                sequence = increment_sequence(part.last_sequence, 1)
            self.incomplete[part] = None
        self._insert(batch.partition, parts)
        del self.incomplete[batch]
        self.incomplete = dict.fromkeys(sorted(self.incomplete, key=lambda one: one.created_ms))
        self.pool.give_back(batch.memory)
        batch.split_done()
        return parts

    def _part_of(self, batch: ProducerBatch, limit: int) -> ProducerBatch:
        result = BatchResult(batch.partition, self._new_future)
        part = ProducerBatch(batch.partition, result, batch.created_ms, 0, transactional=batch.transactional)
        part.attempts, part.is_part = batch.attempts, True
        return part.open_for_records(limit, CompressionType(batch.body.codec) if batch.body is not None else self._codec, self._level)

    # Done

    def complete(self, batch: ProducerBatch, base_offset: int, log_append_time: int = NO_TIMESTAMP) -> None:
        if not batch.is_done:
            del self.incomplete[batch]
            self.pool.give_back(batch.memory)
            batch.complete(base_offset, log_append_time)

    def fail(self, batch: ProducerBatch, error: Exception, record_errors: Mapping[int, Exception] | None = None) -> None:
        if self._over(batch):
            batch.fail(error, record_errors)

    def _over(self, batch: ProducerBatch) -> bool:
        if batch.is_done:
            return False
        del self.incomplete[batch]
        self.pool.give_back(batch.memory)
        return True

    def expired(self, now_ms: int) -> list[ProducerBatch]:
        """Takes batches out of the queues whose delivery.timeout.ms is over. Without sequences, a retry may
        stand before an older batch.
        """
        limit_ms = now_ms - self._delivery_timeout_ms
        return self.take_queued(lambda batch: batch.created_ms <= limit_ms)

    def take_queued(self, wanted: Callable[[ProducerBatch], bool]) -> list[ProducerBatch]:
        """Takes all queued batches that are `wanted` out of their queues."""
        taken = []
        for partition in list(self.queues):
            queue = self.queues[partition]
            kept = deque(batch for batch in queue if not wanted(batch))
            taken += [batch for batch in queue if wanted(batch)]
            if kept:
                self.queues[partition] = kept
            else:
                del self.queues[partition]
        return taken

    def queue_sizes(self, topic: str, partitions: Iterable[int]) -> Iterator[int]:
        for number in partitions:
            yield len(self.queues.get(TopicPartition(topic, number), ()))


def timeout_of(batch: ProducerBatch, now_ms: int) -> ApiException:
    """Kafka's TimeoutException for a batch whose time is up."""
    return ApiException(
        Errors.REQUEST_TIMED_OUT,
        f"Expiring {batch.record_count} record(s) for {batch.partition}:{now_ms - batch.created_ms} ms has passed since batch creation",
    )


def _join(batch: ProducerBatch, parts: list[ProducerBatch], new_future: Callable[[], asyncio.Future[None]]) -> None:
    """Makes the send of a batch from elsewhere wait for all of its parts."""
    joint = batch.joint
    if joint is None:
        joint = JointResult(BatchResult(batch.partition, new_future), batch)
    joint.open_parts += len(parts) - (batch.joint is not None)
    for part in parts:
        part.records = []
        part.joint = joint


def _is_before(one: ProducerBatch, other: ProducerBatch) -> bool:
    """Whether `one` was given its sequence before `other` (they wrap at 2^31)."""
    return (other.base_sequence - one.base_sequence) & 0x7FFFFFFF < 1 << 30
