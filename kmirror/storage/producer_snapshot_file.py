"""`.snapshot`: the producers of a partition as of the offset in the file's name.

    version i16 = 1 | crc u32 | count i32 | count times:
    producer id i64 | epoch i16 | last sequence i32 | last offset i64 | offset delta i32 | timestamp i64 |
    coordinator epoch i32 | first offset of the open transaction i64 (-1: none)

The CRC-32C covers everything after itself. Only the last batch of each producer is kept. Kafka
writes the entries in the order of a Java `HashMap<Long, ...>`; the caller passes them in that
order.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from kmirror.common.crc32c import crc32c
from kmirror.common.errors import CorruptFileError
from kmirror.common.ports import FileSystem
from kmirror.storage.producer_state_entry import BatchMetadata, ProducerStateEntry

VERSION: Final = 1
_HEAD: Final = struct.Struct(">hIi")
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_CRC_COVERS_FROM: Final = 6


def encode_producer_snapshot(entries: Iterable[ProducerStateEntry]) -> bytes:
    body = [
        _ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            entry.last_sequence,
            entry.last_data_offset,
            entry.last_offset_delta,
            entry.last_timestamp,
            entry.coordinator_epoch,
            -1 if entry.current_txn_first_offset is None else entry.current_txn_first_offset,
        )
        for entry in entries
    ]
    covered = struct.pack(">i", len(body)) + b"".join(body)
    return struct.pack(">hI", VERSION, crc32c(covered)) + covered


def decode_producer_snapshot(path: str, data: bytes) -> list[ProducerStateEntry]:
    """The entries; CorruptFileError if the bytes are not a snapshot (`path` is for the error)."""
    if len(data) < _HEAD.size:
        raise CorruptFileError(path, len(data), f"a producer snapshot must have at least {_HEAD.size} bytes")
    version, crc, count = _HEAD.unpack_from(data)
    if version != VERSION:
        raise CorruptFileError(path, 0, f"Snapshot contained an unknown file version {version}")
    computed = crc32c(memoryview(data)[_CRC_COVERS_FROM:])
    if crc != computed:
        raise CorruptFileError(path, 2, f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {crc}. Computed crc: {computed}")
    if count < 0 or len(data) < _HEAD.size + count * _ENTRY.size:
        raise CorruptFileError(path, _CRC_COVERS_FROM, f"{count} producers do not fit into {len(data)} bytes")
    return [_entry(*_ENTRY.unpack_from(data, _HEAD.size + index * _ENTRY.size)) for index in range(count)]


def read_producer_snapshot(files: FileSystem, path: str) -> list[ProducerStateEntry]:
    return decode_producer_snapshot(path, files.read_bytes(path))


def _entry(
    producer_id: int,
    producer_epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    current_txn_first_offset: int,
) -> ProducerStateEntry:
    return ProducerStateEntry(
        producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        last_timestamp=timestamp,
        current_txn_first_offset=current_txn_first_offset if current_txn_first_offset >= 0 else None,
        batch=BatchMetadata(last_sequence, last_offset, offset_delta, timestamp) if last_offset >= 0 else None,
    )
