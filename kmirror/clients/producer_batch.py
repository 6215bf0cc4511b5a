"""One batch of a producer: records that are collected, or a batch from elsewhere (Kafka's
`ProducerBatch`).

    open (records are added) ── closed (compressed) ── sent, perhaps several times ── done

A batch is done once: it was written, it failed, or it was split into smaller ones, whose results
then count for its records.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kmirror.clients.produce_result import NO_ERRORS, BatchResult, Callback, FutureRecordMetadata, Receipt
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
_log = logging.getLogger(__name__)


class ProducerIdAndEpoch(NamedTuple):
    """Who produces; id -1 is nobody."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH

    @property
    def is_valid(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID


NO_PRODUCER: Final = ProducerIdAndEpoch()


class JointResult:
    """The outcome of a batch from elsewhere that was split: that of all its parts. The offset is
    the lowest one, the error the first.
    """

    def __init__(self, result: BatchResult, batch: ProducerBatch) -> None:
        self.open_parts = 0
        self._result = result
        self._batch = batch
        for record in batch.records:
            record.moved_to_result(result)

    def part_done(self, part: BatchResult) -> None:
        joint = self._result
        if part.error is not None:
            joint.error = joint.error or part.error
        elif joint.base_offset < 0 or part.base_offset < joint.base_offset:
            joint.base_offset, joint.log_append_time = part.base_offset, part.log_append_time
        self.open_parts -= 1
        if not self.open_parts:
            joint.now_known()
            self._batch.tell(joint)


def plain_bytes(data: Buffer | None) -> Buffer | None:
    """The same bytes, of which `len` is the number. TypeError for what has no bytes."""
    return data if data is None or isinstance(data, (bytes, bytearray)) else memoryview(data).cast("B")


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


class ProducerBatch:
    """`memory` is what the batch takes of buffer.memory. Times are of the monotonic clock.
    `is_doubtful` says that the batch may have been written although it is still to be sent.
    `last_sequence` counts only with a `base_sequence`.

    A batch from elsewhere begins with its `body`. A producer that passes batches on makes one for
    each 16 KB, so what most of them never have is an attribute of the class.
    """

    body: BatchBody | None = None
    limit = 0
    codec = CompressionType.NONE
    level: int | None = None
    ratio = 1.0
    records: list[FutureRecordMetadata] | tuple[()] = ()
    receipt: Receipt | None = None
    number = 0
    producer: ProducerIdAndEpoch = NO_PRODUCER
    base_sequence = NO_SEQUENCE
    last_sequence = NO_SEQUENCE
    attempts = 0
    last_error: Exception | None = None
    """What the last attempt ended with, while another one is to come."""
    last_attempt_ms = 0
    backoff_ms: float = 0
    attempted_leader_epoch = -1
    attempted_life = 0
    """Which life of its topic it was sent to last (`PartitionEntry.life`)."""
    on_wire = False
    is_doubtful = False
    sequence_was_reset = False
    was_next = False
    """Whether nothing before it was open when it was sent last: then a broker that refuses its sequence
    does not wait for another batch."""
    is_done = False
    is_part = False
    joint: JointResult | None = None
    _open = bytearray()
    _base_timestamp = NO_TIMESTAMP
    _max_timestamp = NO_TIMESTAMP
    _size_before_last = 0

    def __init__(
        self,
        partition: TopicPartition,
        result: BatchResult,
        created_ms: int,
        memory: int,
        *,
        body: BatchBody | None = None,
        transactional: bool = False,
    ) -> None:
        self.partition = partition
        self.result = result
        self.created_ms = created_ms
        self.memory = memory
        self.transactional = transactional
        self.record_count = 0
        if body is not None:
            self.body = body
            self.record_count = body.record_count

    def open_for_records(self, limit: int, codec: CompressionType, level: int | None, ratio: float = 1.0) -> ProducerBatch:
        """Begins to collect records, up to `limit` bytes; returns itself. `ratio` is what
        compression is expected to reach.
        """
        self.limit, self.codec, self.level, self.ratio = limit, codec, level, ratio
        self.records = []
        self._open = bytearray()
        return self

    @property
    def has_sequence(self) -> bool:
        return self.base_sequence != NO_SEQUENCE

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
            return RECORD_BATCH_OVERHEAD + len(self.body.payload)
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
        return size if self.record_count > 1 else size + RECORD_BATCH_OVERHEAD

    def has_room_for(self, most: int, timestamp: int) -> bool:
        """Whether a record that takes `most` bytes at most (`size_upper_bound`) still fits; the
        first one always does.
        """
        if self.body is not None:
            return False
        size = self.size_in_bytes
        if not self.record_count or size + most <= self.limit:
            return True
        body = most - MAX_RECORD_OVERHEAD + 1 + len(encode_varint(timestamp - self._base_timestamp)) + len(encode_varint(self.record_count))
        return size + body + len(encode_varint(body)) <= self.limit

    def append(
        self, timestamp: int, key: Buffer | None, value: Buffer | None, headers: Sequence[Header], callback: Callback | None
    ) -> FutureRecordMetadata:
        """Adds a record; changes nothing if that raises (a field of the wrong type)."""
        is_first = not self.record_count
        size = len(self._open)
        write_record(
            self._open,
            offset_delta=self.record_count,
            timestamp_delta=0 if is_first else timestamp - self._base_timestamp,
            key=key,
            value=value,
            headers=list(headers) if headers else [],
        )
        if is_first:
            self._base_timestamp = self._max_timestamp = timestamp
        elif timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        self._size_before_last = size
        future = FutureRecordMetadata(self.result, self.record_count, timestamp, callback)
        assert isinstance(self.records, list), "records go into a batch that collects some"
        self.records.append(future)
        self.record_count += 1
        return future

    def close(self) -> float | None:
        """Compresses what was collected. Returns the ratio that was reached, None without a codec,
        or if the batch was closed already.
        """
        if self.body is not None:
            return None
        payload = compress(self.codec, self._open, level=self.level)
        size = len(self._open)
        self.body = BatchBody(payload, int(self.codec), self._base_timestamp, self._max_timestamp, self.record_count)
        self._open = bytearray()
        return None if self.codec is CompressionType.NONE or not size else len(payload) / size

    def set_producer(self, producer: ProducerIdAndEpoch, base_sequence: int) -> None:
        self.producer, self.base_sequence = producer, base_sequence
        self.last_sequence = increment_sequence(base_sequence, self.record_count - 1)

    def reset_producer(self, producer: ProducerIdAndEpoch, base_sequence: int) -> None:
        """Gives a batch that was sent before another producer and sequence."""
        self.set_producer(producer, base_sequence)
        self.sequence_was_reset = True
        self.is_doubtful = False

    def parts(self) -> tuple[bytes, Buffer]:
        """Header and records, as they go into a request."""
        body = self.body
        assert body is not None, "a batch is closed before it is sent"
        producer_id, epoch = self.producer
        return producer_header(body, producer_id, epoch, self.base_sequence, self.transactional), body.payload

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
        result = self.result
        result.base_offset, result.log_append_time = base_offset, log_append_time
        self._finish()

    def fail(self, error: Exception, record_errors: Mapping[int, Exception] | None = None) -> None:
        self.result.error, self.result.record_errors = error, record_errors or NO_ERRORS
        self._finish()

    def split_done(self) -> None:
        """Ends the batch without an outcome of its own: its records have moved to other batches."""
        self.is_done = True
        self.result.now_known()

    def _finish(self) -> None:
        self.is_done = True
        result = self.result
        result.now_known()
        if self.joint is not None:
            self.joint.part_done(result)
        else:
            self.tell(result)

    def tell(self, result: BatchResult) -> None:
        """Tells those who sent the batch, or its records, how it went."""
        if self.records:
            for record in self.records:
                record.call_back()
        if self.receipt is not None:
            try:
                self.receipt(self.number, result.base_offset, result.error)
            except (Exception, asyncio.CancelledError):  # noqa: BLE001 - as in `call_back`
                _log.exception("Error executing user-provided callback on message for topic-partition '%s'", self.partition)


class IllegalStateError(KmirrorError):
    """A call that the producer's state forbids (Java's IllegalStateException)."""
