"""The checks of an append that need no state: one pass over the batch headers, one CRC a batch.

Followers and mirror leaders take bytes as they are, so this pass is what replication costs. It stops before the first
batch whose leader epoch is above the epoch in which the bytes were fetched (KAFKA-18723): such a batch was written by a
later leader than the one that answered, and what lies behind it cannot be trusted to follow.
"""

from __future__ import annotations

from typing import NamedTuple

from kmirror.common.crc32c import crc32c
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.append_origin import AppendOrigin
from kmirror.record.compression import CompressionType
from kmirror.record.record_batch import iter_batches
from kmirror.storage.batch_header import (
    CRC_COVERS_FROM,
    CURRENT_MAGIC,
    LOG_OVERHEAD,
    NO_PARTITION_LEADER_EPOCH,
    RECORD_BATCH_OVERHEAD,
    BatchHeader,
    unpack_header,
)
from kmirror.storage.log_append_info import LogAppendInfo

INT_MAX = 0x7FFFFFFF
_STATEFUL_FLAGS = 0x30


class AnalyzedAppend(NamedTuple):
    """The batches of an append. `has_producer_state`: one of them has a producer id or is a control batch."""

    info: LogAppendInfo
    headers: list[BatchHeader]
    has_producer_state: bool


def analyze_and_validate_records(
    records: memoryview, *, origin: AppendOrigin, leader_epoch: int, max_message_size: int | None, topic_partition: TopicPartition
) -> AnalyzedAppend:
    """Headers of the whole batches in `records`, all valid. Kafka's error where one is not."""
    replication = origin is AppendOrigin.REPLICATION
    headers: list[BatchHeader] = []
    size = len(records)
    position = 0
    last_offset = -1
    max_timestamp = -1
    stateful = False
    skipped = False
    in_order = True
    while size - position >= RECORD_BATCH_OVERHEAD:
        header = unpack_header(records, position, position)
        batch_size = header.length + LOG_OVERHEAD
        if batch_size < RECORD_BATCH_OVERHEAD or header.magic != CURRENT_MAGIC:
            break
        end = position + batch_size
        if end > size:
            break
        if replication and header.partition_leader_epoch > leader_epoch:
            skipped = True
            break
        if not replication:
            _check_leader_append(header, origin, leader_epoch, max_message_size, topic_partition)
        if crc32c(records[position + CRC_COVERS_FROM : end]) != header.crc:
            raise ApiException(
                Errors.CORRUPT_MESSAGE, f"Record is corrupt (stored crc = {header.crc}) in topic partition {topic_partition}."
            )
        headers.append(header)
        batch_last_offset = header.base_offset + header.last_offset_delta
        if batch_last_offset <= last_offset:
            in_order = False
        last_offset = batch_last_offset
        if header.max_timestamp > max_timestamp:
            max_timestamp = header.max_timestamp
        if header.producer_id >= 0 or header.attributes & _STATEFUL_FLAGS:
            stateful = True
        position = end
    if not skipped and position < size:
        _check_tail(records, position, topic_partition)
    if not in_order and origin in (AppendOrigin.REPLICATION, AppendOrigin.RAFT_LEADER):
        raise ApiException(
            Errors.UNKNOWN_SERVER_ERROR,
            f"Out of order offsets found in append to {topic_partition}: {[(header.base_offset, header.last_offset) for header in headers[:10]]}",
        )
    info = _append_info(headers, position, max_timestamp)
    info.skipped_higher_epoch = skipped
    return AnalyzedAppend(info, headers, stateful)


def headers_after_validation(records: memoryview) -> list[BatchHeader]:
    """The header of the one batch that validation gives back, with its offset and epoch."""
    return [unpack_header(records, 0, 0)]


def _append_info(headers: list[BatchHeader], valid_bytes: int, max_timestamp: int) -> LogAppendInfo:
    if not headers:
        return LogAppendInfo(first_offset=-1, last_offset=-1)
    last = headers[-1]
    compression = next((header.compression_id for header in reversed(headers) if header.compression_id), 0)
    return LogAppendInfo(
        first_offset=headers[0].base_offset,
        last_offset=last.last_offset,
        last_leader_epoch=last.partition_leader_epoch if last.partition_leader_epoch != NO_PARTITION_LEADER_EPOCH else None,
        max_timestamp=max_timestamp,
        source_compression=CompressionType.for_id(compression),
        valid_bytes=valid_bytes,
        last_offset_of_first_batch=headers[0].last_offset,
    )


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
    """What follows the whole batches: a cut batch is left out silently, anything else is an error (as RecordBatch says it)."""
    try:
        next(iter_batches(records, position), None)
    except ApiException as error:
        raise ApiException(error.error, f"{error.message} in topic partition {topic_partition}.") from error


class UnexpectedAppendOffsetError(ApiException):
    """A follower was given offsets below its log end. If its log is empty it may start anew at `first_offset`."""

    def __init__(self, message: str, *, first_offset: int, last_offset: int) -> None:
        super().__init__(Errors.UNKNOWN_SERVER_ERROR, message)
        self.first_offset = first_offset
        self.last_offset = last_offset
