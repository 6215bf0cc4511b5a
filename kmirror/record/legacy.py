"""Message sets of the formats v0 and v1 (Kafka before 0.11): recognised, never read.

    v0  offset i64, size i32, crc32 u32, magic i8 = 0, attributes i8, key (i32 length, bytes),
        value (i32 length, bytes)
    v1  the same with magic 1 and a timestamp i64 behind the attributes

A log that an old broker wrote, or a fetch from an old source, gets UNSUPPORTED_FOR_MESSAGE_FORMAT.
A magic that never existed is CORRUPT_MESSAGE, as in Kafka. A produce request with an old format
gets INVALID_RECORD (`produce_validation`).
"""

from __future__ import annotations

from kmirror.common.errors import ApiException, Errors
from kmirror.record.record import corrupt_message


def wrong_magic(magic: int) -> ApiException:
    """The error for a batch whose magic byte (unsigned) is not 2."""
    if magic in (0, 1):
        return ApiException(
            Errors.UNSUPPORTED_FOR_MESSAGE_FORMAT, f"Records of message format v{magic} are not supported; only v2 (since Kafka 0.11) is"
        )
    return corrupt_message(f"Invalid magic found in record: {magic - 256 if magic > 127 else magic}")
