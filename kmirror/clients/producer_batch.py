"""One batch of a producer: records that are collected, or a batch from elsewhere, and the result
that its sends wait for (Kafka's `ProducerBatch`, `ProduceRequestResult`, `FutureRecordMetadata`).

    open (records are added) ── closed (compressed) ── sent, perhaps several times ── done

A batch is done once: it was written, it failed, or it was split into smaller ones, whose results
then count for its records. All records of a batch share one future, which never holds an exception,
so that a result that nobody awaits disturbs nobody.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kmirror.clients.produce_frames import BatchOnWire
from kmirror.common.errors import KmirrorError
from kmirror.common.ports import Buffer
from kmirror.common.sentinels import NO_PARTITION_LEADER_EPOCH
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.varint import encode_varint
from kmirror.record.compression import CompressionType, compress
from kmirror.record.producer_header import BatchBody, producer_header
from kmirror.record.record import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP, Header, increment_sequence, write_record
from kmirror.record.record_batch import CURRENT_MAGIC, HEADER, LOG_OVERHEAD, RECORD_BATCH_OVERHEAD, RecordBatch

MAX_RECORD_OVERHEAD: Final = 21
"""Kafka's `DefaultRecord.MAX_RECORD_OVERHEAD`: lengths, attributes and deltas at their longest."""
RATIO_SAFETY: Final = 1.05
NO_OFFSET: Final = -1
_log = logging.getLogger(__name__)


class ProducerIdAndEpoch(NamedTuple):
    """Who produces; id -1 is nobody."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH

    @property
    def is_valid(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID


NO_PRODUCER: Final = ProducerIdAndEpoch()


@dataclass(frozen=True, slots=True)
class ProducerRecord:
    """Kafka's `ProducerRecord`, of bytes. `timestamp` in ms, None for now; `partition` None lets
    the partitioner choose.
    """

    topic: str
    value: Buffer | None = None
    key: Buffer | None = None
    headers: Sequence[Header] = ()
    partition: int | None = None
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class RecordMetadata:
    """Where a record was written. The offset is -1 if the broker did not say (acks=0, or a record
    that had been written already). For a batch from elsewhere, `offset` is that of its first record.
    """

    topic_partition: TopicPartition
    offset: int
    timestamp: int

    @property
    def topic(self) -> str:
        return self.topic_partition.topic

    @property
    def partition(self) -> int:
        return self.topic_partition.partition

    @property
    def has_offset(self) -> bool:
        return self.offset != NO_OFFSET


Callback = Callable[[RecordMetadata | None, Exception | None], object]


class BatchResult:
    """The outcome of one batch; `done` is completed when it is known."""

    __slots__ = ("base_offset", "done", "error", "log_append_time", "partition", "record_errors")

    def __init__(self, partition: TopicPartition, done: asyncio.Future[None]) -> None:
        self.partition = partition
        self.done = done
        self.base_offset = NO_OFFSET
        self.log_append_time = NO_TIMESTAMP
        self.error: Exception | None = None
        self.record_errors: dict[int, Exception] = {}


class FutureRecordMetadata:
    """Awaitable: `RecordMetadata`, or the exception that the record failed with."""

    __slots__ = ("_callback", "_index", "_result", "_timestamp")

    def __init__(self, result: BatchResult, index: int, timestamp: int, callback: Callback | None) -> None:
        self._result = result
        self._index = index
        self._timestamp = timestamp
        self._callback = callback

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        while True:
            result = self._result
            if not result.done.done():
                yield from asyncio.shield(result.done).__await__()
            if result is self._result:
                return self.result()

    def done(self) -> bool:
        return self._result.done.done()

    def result(self) -> RecordMetadata:
        """The outcome of a record that is done; raises what it failed with."""
        error = self.error()
        if error is not None:
            raise error
        return self._metadata()

    def error(self) -> Exception | None:
        return self._result.record_errors.get(self._index, self._result.error)

    def moved_to(self, other: FutureRecordMetadata) -> FutureRecordMetadata:
        """The batch was split: this record is now the one of `other`. Returns itself."""
        self._result, self._index = other._result, other._index
        return self

    def moved_to_result(self, result: BatchResult) -> None:
        self._result = result

    def call_back(self) -> None:
        if self._callback is None:
            return
        error = self.error()
        try:
            self._callback(None if error is not None else self._metadata(), error)
        except Exception:  # noqa: BLE001 - the application's fault, which must not stop the sender
            _log.exception("Error executing user-provided callback on message for topic-partition '%s'", self._result.partition)

    def _metadata(self) -> RecordMetadata:
        result = self._result
        offset = NO_OFFSET if result.base_offset < 0 else result.base_offset + self._index
        timestamp = self._timestamp if result.log_append_time == NO_TIMESTAMP else result.log_append_time
        return RecordMetadata(result.partition, offset, timestamp)


class JointResult:
    """The outcome of a batch from elsewhere that was split: that of all its parts. The offset is
    the lowest one, the error the first.
    """

    def __init__(self, result: BatchResult, records: list[FutureRecordMetadata]) -> None:
        self.open_parts = 0
        self._result = result
        self._records = records
        for record in records:
            record.moved_to_result(result)

    def part_done(self, part: BatchResult) -> None:
        joint = self._result
        if part.error is not None:
            joint.error = joint.error or part.error
        elif joint.base_offset < 0 or part.base_offset < joint.base_offset:
            joint.base_offset, joint.log_append_time = part.base_offset, part.log_append_time
        self.open_parts -= 1
        if not self.open_parts:
            joint.done.set_result(None)
            for record in self._records:
                record.call_back()


def size_upper_bound(key: Buffer | None, value: Buffer | None, headers: Sequence[Header]) -> int:
    """The most bytes that a record takes (Kafka's `estimateSizeInBytesUpperBound` without the
    batch's header).
    """
    size = MAX_RECORD_OVERHEAD + _field_size(key) + _field_size(value) + _length_size(len(headers))
    for name, header_value in headers:
        size += _field_size(name.encode()) + _field_size(header_value)
    return size


def _field_size(data: Buffer | None) -> int:
    """A field with its length; the length -1 of None takes one byte."""
    return 1 if data is None else len(data) + _length_size(len(data))


def _length_size(length: int) -> int:
    """The varint of a length."""
    return 1 if length < 64 else ((length << 1).bit_length() + 6) // 7


@dataclass(eq=False, slots=True)
class ProducerBatch:
    """`memory` is what the batch takes of buffer.memory. Times are of the monotonic clock.
    `is_doubtful` says that the batch may have been written although it is still to be sent.
    """

    partition: TopicPartition
    result: BatchResult
    created_ms: int
    memory: int
    limit: int = 0
    codec: CompressionType = CompressionType.NONE
    level: int | None = None
    ratio: float = 1.0
    body: BatchBody | None = None
    records: list[FutureRecordMetadata] = field(default_factory=list)
    producer: ProducerIdAndEpoch = NO_PRODUCER
    base_sequence: int = NO_SEQUENCE
    transactional: bool = False
    attempts: int = 0
    last_attempt_ms: int = 0
    backoff_ms: float = 0
    attempted_leader_epoch: int = -1
    on_wire: bool = False
    is_doubtful: bool = False
    sequence_was_reset: bool = False
    was_next: bool = False
    """Whether nothing before it was open when it was sent last: then a broker that refuses its sequence
    does not wait for another batch."""
    is_done: bool = False
    is_part: bool = False
    joint: JointResult | None = None
    _open: bytearray = field(default_factory=bytearray)
    _base_timestamp: int = NO_TIMESTAMP
    _max_timestamp: int = NO_TIMESTAMP
    _count: int = 0
    _size_before_last: int = 0

    @property
    def record_count(self) -> int:
        return self._count if self.body is None else self.body.record_count

    @property
    def has_sequence(self) -> bool:
        return self.base_sequence != NO_SEQUENCE

    @property
    def last_sequence(self) -> int:
        return increment_sequence(self.base_sequence, self.record_count - 1)

    @property
    def in_retry(self) -> bool:
        return self.attempts > 0

    @property
    def is_zstd(self) -> bool:
        return self.body is not None and self.body.codec == CompressionType.ZSTD

    @property
    def size_in_bytes(self) -> int:
        """Exact once closed; an estimate of the compressed size before."""
        if self.body is not None:
            return self.body.size_in_bytes
        if self.codec is CompressionType.NONE:
            return RECORD_BATCH_OVERHEAD + len(self._open)
        return RECORD_BATCH_OVERHEAD + int(len(self._open) * self.ratio * RATIO_SAFETY)

    @property
    def is_full(self) -> bool:
        return self.body is not None or self.size_in_bytes >= self.limit

    @property
    def last_appended_bytes(self) -> int:
        """By how much the last record made `size_in_bytes` larger; the first one brings the
        batch's header.
        """
        size = len(self._open) - self._size_before_last
        if self.codec is not CompressionType.NONE:
            size = int(size * self.ratio * RATIO_SAFETY)
        return size if self._count > 1 else size + RECORD_BATCH_OVERHEAD

    def has_room_for(self, most: int, timestamp: int) -> bool:
        """Whether a record that takes `most` bytes at most (`size_upper_bound`) still fits; the
        first one always does.
        """
        if self.body is not None:
            return False
        size = self.size_in_bytes
        if not self._count or size + most <= self.limit:
            return True
        body = most - MAX_RECORD_OVERHEAD + 1 + len(encode_varint(timestamp - self._base_timestamp)) + len(encode_varint(self._count))
        return size + body + len(encode_varint(body)) <= self.limit

    def append(
        self, timestamp: int, key: Buffer | None, value: Buffer | None, headers: Sequence[Header], callback: Callback | None
    ) -> FutureRecordMetadata:
        if not self._count:
            self._base_timestamp = self._max_timestamp = timestamp
        elif timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        self._size_before_last = len(self._open)
        write_record(
            self._open,
            offset_delta=self._count,
            timestamp_delta=timestamp - self._base_timestamp,
            key=key,
            value=value,
            headers=list(headers) if headers else [],
        )
        future = FutureRecordMetadata(self.result, self._count, timestamp, callback)
        self.records.append(future)
        self._count += 1
        return future

    def close(self) -> float | None:
        """Compresses what was collected. Returns the ratio that was reached, None without a codec,
        or if the batch was closed already.
        """
        if self.body is not None:
            return None
        payload = compress(self.codec, self._open, level=self.level)
        size = len(self._open)
        self.body = BatchBody(payload, int(self.codec), self._base_timestamp, self._max_timestamp, self._count)
        self._open = bytearray()
        return None if self.codec is CompressionType.NONE or not size else len(payload) / size

    def set_producer(self, producer: ProducerIdAndEpoch, base_sequence: int) -> None:
        self.producer, self.base_sequence = producer, base_sequence

    def reset_producer(self, producer: ProducerIdAndEpoch, base_sequence: int) -> None:
        """Gives a batch that was sent before another producer and sequence."""
        self.set_producer(producer, base_sequence)
        self.sequence_was_reset = True
        self.is_doubtful = False

    def on_wire_as(self, index: int) -> BatchOnWire:
        """Header and records, as they go into a request to partition `index`."""
        body = self.body
        assert body is not None, "a batch is closed before it is sent"
        producer_id, epoch = self.producer
        header = producer_header(
            body, producer_id=producer_id, producer_epoch=epoch, base_sequence=self.base_sequence, transactional=self.transactional
        )
        return BatchOnWire(index, header, body.payload)

    def unpacked(self) -> RecordBatch:
        """The closed batch as one to read records from."""
        assert self.body is not None, "an open batch has nothing to read"
        header = bytearray(RECORD_BATCH_OVERHEAD)
        body = self.body
        HEADER.pack_into(
            header,
            0,
            0,
            body.size_in_bytes - LOG_OVERHEAD,
            NO_PARTITION_LEADER_EPOCH,
            CURRENT_MAGIC,
            0,
            body.codec,
            body.record_count - 1,
            body.base_timestamp,
            body.max_timestamp,
            *(NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE),
            body.record_count,
        )
        return RecordBatch(bytes(header) + bytes(body.payload))

    def complete(self, base_offset: int, log_append_time: int) -> None:
        self.result.base_offset, self.result.log_append_time = base_offset, log_append_time
        self._finish()

    def fail(self, error: Exception, record_errors: dict[int, Exception] | None = None) -> None:
        self.result.error, self.result.record_errors = error, record_errors or {}
        self._finish()

    def split_done(self) -> None:
        """Ends the batch without an outcome of its own: its records have moved to other batches."""
        self.is_done = True
        if not self.result.done.done():
            self.result.done.set_result(None)

    def _finish(self) -> None:
        self.is_done = True
        if not self.result.done.done():
            self.result.done.set_result(None)
        for record in self.records:
            record.call_back()
        if self.joint is not None:
            self.joint.part_done(self.result)


class IllegalStateError(KmirrorError):
    """A call that the producer's state forbids (Java's IllegalStateException)."""
