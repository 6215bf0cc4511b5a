"""Messages of the formats 0 and 1, as Kafka wrote them before 0.11."""

from __future__ import annotations

import struct
import zlib

TIMESTAMP_MS = 55


def message(offset: int, value: bytes | None, *, magic: int, codec: int = 0, timestamp: int = TIMESTAMP_MS) -> bytes:
    """One without a key."""
    body = struct.pack(">bb", magic, codec) + (struct.pack(">q", timestamp) if magic else b"") + struct.pack(">i", -1)
    body += struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body
