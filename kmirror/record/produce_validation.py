"""What a produce request may carry for a partition (Kafka's `ProduceRequest.validateRecords`).

Kafka 4.x takes produce requests from version 3 on. For each partition they carry exactly one batch
of magic 2. The older formats (`legacy`) are INVALID_RECORD here. This check comes before anything
else is done with the records. A leader's checks inside the batch come later (`validation`).
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from kmirror.common.errors import ApiException, Errors
from kmirror.common.ports import Buffer
from kmirror.record.compression import CompressionType
from kmirror.record.legacy import wrong_magic
from kmirror.record.record import invalid_record
from kmirror.record.record_batch import COMPRESSION_MASK, CURRENT_MAGIC, HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD, next_batch_size

MAX_INT: Final = 2**31 - 1


class RecordSetKind(Enum):
    """What the first bytes of something that claims to be records are."""

    EMPTY = "no complete batch"
    V0 = "message format v0"
    V1 = "message format v1"
    V2 = "message format v2"


def classify_records(buffer: Buffer) -> RecordSetKind:
    """The format of the first batch. CORRUPT_MESSAGE for an impossible length or magic."""
    size = next_batch_size(buffer, 0)
    if len(buffer) < HEADER_SIZE_UP_TO_MAGIC:
        return RecordSetKind.EMPTY
    magic = buffer[HEADER_SIZE_UP_TO_MAGIC - 1]
    if magic > CURRENT_MAGIC:
        raise wrong_magic(magic)
    if size is None:
        return RecordSetKind.EMPTY
    return (RecordSetKind.V0, RecordSetKind.V1, RecordSetKind.V2)[magic]


def validate_produce_records(version: int, buffer: Buffer) -> None:
    """Checks one partition's records in a produce request of this version; ApiException if they are
    not acceptable.

    There must be exactly one batch with magic 2 (INVALID_RECORD otherwise); zstd is allowed from
    version 7 on (UNSUPPORTED_COMPRESSION_TYPE). A length whose sum with the log overhead does not
    fit into 31 bits is UNKNOWN_SERVER_ERROR, because Kafka's sum overflows.
    """
    if len(buffer) >= LOG_OVERHEAD and int.from_bytes(buffer[8:LOG_OVERHEAD], "big", signed=True) > MAX_INT - LOG_OVERHEAD:
        raise ApiException(Errors.UNKNOWN_SERVER_ERROR, "The length of the record batch is out of range")
    kind = classify_records(buffer)
    if kind is RecordSetKind.EMPTY:
        raise invalid_record(f"Produce requests with version {version} must have at least one record batch per partition")
    if kind is not RecordSetKind.V2:
        raise invalid_record(f"Produce requests with version {version} are only allowed to contain record batches with magic version 2")
    size = next_batch_size(buffer, 0)
    assert size is not None
    if version < 7 and size > 22 and buffer[22] & COMPRESSION_MASK == CompressionType.ZSTD:
        raise ApiException(
            Errors.UNSUPPORTED_COMPRESSION_TYPE, f"Produce requests with version {version} are not allowed to use ZStandard compression"
        )
    if next_batch_size(buffer, size) is not None:
        raise invalid_record(f"Produce requests with version {version} are only allowed to contain exactly one record batch per partition")
