"""The checks of an append that need no state: one pass over the batch headers, one CRC a batch.

Followers and mirror leaders store bytes as they are, so this pass is the main cost of replication.
It stops before the first batch whose leader epoch is above the epoch in which the bytes were
fetched (KAFKA-18723): a later leader than the one that answered wrote that batch, and the batches
after it may not be the right continuation.
"""

from __future__ import annotations

from typing import NamedTuple

from kmirror.common.crc32c import crc32c
from kmirror.common.errors import ApiException, Errors
from kmirror.common.sentinels import NO_PARTITION_LEADER_EPOCH
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.append_origin import AppendOrigin
from kmirror.record.compression import CompressionType
from kmirror.record.record_batch import (
    ATTRIBUTES_POSITION,
    COMPRESSION_MASK,
    CURRENT_MAGIC,
    LOG_OVERHEAD,
    RECORD_BATCH_OVERHEAD,
    iter_batches,
)
from kmirror.storage.batch_header import BatchHeader, RawHeader, unpack_raw_header
from kmirror.storage.log_append_info import LogAppendInfo

_STATEFUL_FLAGS = 0x30
_MAX_OFFSET = 2**63 - 1
_MAX_RELATIVE_OFFSET = 2**31 - 1
_MIN_LENGTH = RECORD_BATCH_OVERHEAD - LOG_OVERHEAD


class AnalyzedAppend(NamedTuple):
    """The batches of an append.

    `has_producer_state`: one of them has a producer id, is transactional or is a control batch.
    """

    info: LogAppendInfo
    raw_headers: list[RawHeader]
    has_producer_state: bool

    @property
    def headers(self) -> list[BatchHeader]:
        """The headers with their positions in the buffer."""
        headers: list[BatchHeader] = []
        position = 0
        for raw in self.raw_headers:
            headers.append(BatchHeader(*raw, position))
            position = headers[-1].end_position
        return headers


def analyze_and_validate_records(
    records: memoryview, *, origin: AppendOrigin, leader_epoch: int, max_message_size: int | None, topic_partition: TopicPartition
) -> AnalyzedAppend:
    """The headers of the whole batches in `records`, all of them valid. Kafka's error if one is
    not.
    """
    replication = origin is AppendOrigin.REPLICATION
    headers: list[RawHeader] = []
    size = len(records)
    position = 0
    last_offset = -1
    max_timestamp = -1
    stateful = False
    skipped = False
    in_order = True
    while size - position >= RECORD_BATCH_OVERHEAD:
        header = unpack_raw_header(records, position)
        base_offset, length, epoch, magic, crc, attributes, last_offset_delta, _, timestamp, producer_id, _, _, _ = header
        end = position + length + LOG_OVERHEAD
        if length < _MIN_LENGTH or magic != CURRENT_MAGIC or end > size:
            break
        if not replication:
            _check_leader_append(BatchHeader(*header, position), origin, leader_epoch, max_message_size, topic_partition)
        elif epoch > leader_epoch:
            skipped = True
            break
        if crc32c(records[position + ATTRIBUTES_POSITION : end]) != crc:
            raise ApiException(Errors.CORRUPT_MESSAGE, f"Record is corrupt (stored crc = {crc}) in topic partition {topic_partition}.")
        headers.append(header)
        base_offset += last_offset_delta
        if base_offset <= last_offset or last_offset_delta < 0:
            in_order = False
        last_offset = base_offset
        if timestamp > max_timestamp:
            max_timestamp = timestamp
        if producer_id >= 0 or attributes & _STATEFUL_FLAGS:
            stateful = True
        position = end
    if not skipped and position < size:
        _check_tail(records, position, topic_partition)
    if headers and origin in (AppendOrigin.REPLICATION, AppendOrigin.RAFT_LEADER):
        if not in_order or headers[0][0] < 0 or last_offset >= _MAX_OFFSET:
            ranges = [(header[0], header[0] + header[6]) for header in headers[:10]]
            raise OffsetsOutOfOrderError(f"Out of order offsets found in append to {topic_partition}: {ranges}")
        if last_offset - headers[0][0] > _MAX_RELATIVE_OFFSET:
            position = _leave_out_what_needs_another_segment(headers)
            max_timestamp = max(header[8] for header in headers)
    info = _append_info(headers, position, max_timestamp)
    if not replication:
        info.source_compression = _source_compression(headers)
    info.skipped_higher_epoch = skipped
    return AnalyzedAppend(info, headers, stateful)


def _leave_out_what_needs_another_segment(headers: list[RawHeader]) -> int:
    """Drops the headers whose offsets do not fit into 31 bits relative to the first; those batches
    come with the next fetch. Returns the bytes of the batches that are left.
    """
    while headers[-1][0] + headers[-1][6] - headers[0][0] > _MAX_RELATIVE_OFFSET:
        headers.pop()
    return sum(header[1] + LOG_OVERHEAD for header in headers)


def headers_after_validation(records: memoryview) -> list[RawHeader]:
    """The header of the single batch that validation returns, with its offset and epoch."""
    return [unpack_raw_header(records, 0)]


def _append_info(headers: list[RawHeader], valid_bytes: int, max_timestamp: int) -> LogAppendInfo:
    if not headers:
        return LogAppendInfo(-1, -1)
    last = headers[-1]
    last_leader_epoch = last[2]
    return LogAppendInfo(
        headers[0][0],
        last[0] + last[6],
        last_leader_epoch if last_leader_epoch != NO_PARTITION_LEADER_EPOCH else None,
        max_timestamp,
        valid_bytes=valid_bytes,
    )


def _source_compression(headers: list[RawHeader]) -> CompressionType:
    """The codec of the last compressed batch, else NONE.

    UNKNOWN_SERVER_ERROR for a code that is not a codec, as in Kafka.
    """
    codes = [header[5] & COMPRESSION_MASK for header in headers if header[5] & COMPRESSION_MASK]
    try:
        return CompressionType.for_id(codes[-1] if codes else 0)
    except ApiException as error:
        raise ApiException(Errors.UNKNOWN_SERVER_ERROR, error.message) from error


def _check_leader_append(
    header: BatchHeader, origin: AppendOrigin, leader_epoch: int, max_message_size: int | None, topic_partition: TopicPartition
) -> None:
    if origin is AppendOrigin.RAFT_LEADER and header.partition_leader_epoch != leader_epoch:
        raise ApiException(
            Errors.INVALID_RECORD,
            f"Append from Raft leader did not set the batch epoch correctly: {header.partition_leader_epoch}, expected {leader_epoch}",
        )
    if origin is AppendOrigin.CLIENT and header.base_offset != 0:
        raise ApiException(
            Errors.INVALID_RECORD,
            f"The baseOffset of the record batch in the append to {topic_partition} should be 0, but it is {header.base_offset}",
        )
    if max_message_size is not None and header.size_in_bytes > max_message_size:
        raise ApiException(
            Errors.MESSAGE_TOO_LARGE,
            f"The record batch size in the append to {topic_partition} is {header.size_in_bytes} bytes "
            f"which exceeds the maximum configured value of {max_message_size}.",
        )


def _check_tail(records: memoryview, position: int, topic_partition: TopicPartition) -> None:
    """Checks the bytes after the whole batches: a cut batch is ignored silently, anything else is
    an error (with `RecordBatch`'s text).
    """
    try:
        next(iter_batches(records, position), None)
    except ApiException as error:
        raise ApiException(error.error, f"{error.message} in topic partition {topic_partition}.") from error


class OffsetsOutOfOrderError(ApiException):
    """The offsets of replicated batches do not ascend or are invalid (Kafka's
    OffsetsOutOfOrderException).
    """

    def __init__(self, message: str) -> None:
        super().__init__(Errors.UNKNOWN_SERVER_ERROR, message)


class UnexpectedAppendOffsetError(ApiException):
    """A follower was given offsets below its log end.

    If its log is empty, it may start anew at `first_offset`.
    """

    def __init__(self, message: str, *, first_offset: int, last_offset: int) -> None:
        super().__init__(Errors.UNKNOWN_SERVER_ERROR, message)
        self.first_offset = first_offset
        self.last_offset = last_offset
