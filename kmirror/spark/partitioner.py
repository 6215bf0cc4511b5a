"""The partition of records that name none: Kafka's default partitioner, for columns.

A key goes to `murmur2(key) & 0x7fffffff` modulo the number of partitions (Kafka's
`BuiltInPartitioner.partitionForKey`). Records without a key stay with one partition until about a
batch is full, then go to the next one. So batches are full, and a repeated task makes the same
choices.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kmirror.record.columns import Int64s

_SEED: Final = 0x9747B28C
_M: Final = np.uint32(0x5BD1E995)
UInt32s = npt.NDArray[np.uint32]


def murmur2(keys: pa.BinaryArray) -> UInt32s:
    """Returns Kafka's `Utils.murmur2` of each key; a null key hashes like the empty one."""
    ends = np.frombuffer(keys.buffers()[1], dtype=np.int32, count=keys.offset + len(keys) + 1)[keys.offset :].astype(np.int64)
    starts, lengths = ends[:-1], np.diff(ends)
    body = keys.buffers()[2]
    data = np.frombuffer(body, dtype=np.uint8) if body is not None and body.size else np.zeros(1, dtype=np.uint8)
    hashes = np.uint32(_SEED) ^ lengths.astype(np.uint32)
    with np.errstate(over="ignore"):
        rows = np.flatnonzero(lengths >= 4)
        position = 0
        while rows.size:
            hashes[rows] = hashes[rows] * _M ^ _mixed(_word(data, starts[rows] + position))
            position += 4
            rows = rows[lengths[rows] >= position + 4]
        _add_tail(hashes, data, starts, lengths)
        hashes ^= hashes >> np.uint32(13)
        hashes *= _M
        hashes ^= hashes >> np.uint32(15)
    return hashes


def _word(data: Any, positions: Int64s) -> UInt32s:
    words = np.zeros(len(positions), dtype=np.uint32)
    for byte in range(4):
        words |= data[positions + byte].astype(np.uint32) << np.uint32(8 * byte)
    return words


def _mixed(words: UInt32s) -> UInt32s:
    words = words * _M
    words ^= words >> np.uint32(24)
    return words * _M


def _add_tail(hashes: UInt32s, data: Any, starts: Int64s, lengths: Int64s) -> None:
    """Mixes in the one to three bytes after the last word."""
    left = lengths & 3
    tails = starts + (lengths & ~np.int64(3))
    for byte in (2, 1, 0):
        rows = np.flatnonzero(left > byte)
        hashes[rows] ^= data[tails[rows] + byte].astype(np.uint32) << np.uint32(8 * byte)
    rows = np.flatnonzero(left)
    hashes[rows] *= _M


class Partitioner:
    """Chooses partitions for the records of one task, in their order."""

    def __init__(self, count: int, *, batch_bytes: int, first: int) -> None:
        """`count` is the number of partitions; records without a key begin at partition `first`
        modulo `count`."""
        self._count = count
        self._batch_bytes = batch_bytes
        self._first = first
        self._keyless_bytes = 0

    def partitions(self, keys: pa.BinaryArray, sizes: Int64s) -> npt.NDArray[np.int32]:
        """Returns a partition for each key; `sizes` are the records' bytes."""
        found = ((murmur2(keys) & np.uint32(0x7FFFFFFF)) % np.uint32(self._count)).astype(np.int32)
        if keys.null_count:
            rows = np.flatnonzero(keys.is_null().to_numpy(zero_copy_only=False))
            before = self._keyless_bytes + np.cumsum(sizes[rows]) - sizes[rows]
            found[rows] = (self._first + before // self._batch_bytes) % self._count
            self._keyless_bytes += int(sizes[rows].sum())
        return found
