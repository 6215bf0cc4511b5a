"""128-bit hashes of keys, many at a time: what compaction needs, without the keys themselves.

Two lanes of 64 bits take a key in words of eight bytes, its length first. Each word is mixed in by
multiplications and shifts (MurmurHash3's finaliser between words), with different constants in each
lane. The hash is not keyed: it is for counting what applications wrote, not for deciding anything
that an attacker may influence. Two of a billion keys collide in 2^-69 of all cases.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from kmirror.record.columns import PADDING, Int64s, RecordColumns

Uint64s = npt.NDArray[np.uint64]

_LANES: Final = (
    (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)),
    (np.uint64(0xD6E8FEB86659FD93), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)),
)
_SHIFT: Final = np.uint64(32)
_WORD: Final = 8


def hash_keys(columns: RecordColumns, rows: Int64s) -> tuple[Uint64s, Uint64s]:
    """Returns (first, second 64 bits) of the keys of `rows`, none of which may be null."""
    return hash_slices(bytes(columns.body) + PADDING, columns.key_position[rows], columns.key_length[rows])


def hash_slices(padded: bytes, positions: Int64s, lengths: Int64s) -> tuple[Uint64s, Uint64s]:
    """Returns the hashes of `lengths` bytes at `positions` of a buffer that has at least eight
    bytes after the last of them."""
    words = np.ndarray(shape=(max(len(padded) - _WORD + 1, 0),), dtype="<u8", buffer=padded, strides=(1,))
    lanes = [_mixed(lengths.astype(np.uint64) + seed, one, two) for seed, one, two in _LANES]
    rows = np.flatnonzero(lengths > 0)
    taken = 0
    while rows.size:
        left = lengths[rows] - taken
        word = words[positions[rows] + taken].astype(np.uint64)
        word &= np.uint64(0xFFFFFFFFFFFFFFFF) >> (np.uint64(64) - np.uint64(8) * np.minimum(left, _WORD).astype(np.uint64))
        for lane, (seed, one, two) in zip(lanes, _LANES):
            lane[rows] = _mixed((lane[rows] ^ word) + seed, one, two)
        taken += _WORD
        rows = rows[left > _WORD]
    return lanes[0], lanes[1]


def _mixed(value: Uint64s, one: np.uint64, two: np.uint64) -> Uint64s:
    value ^= value >> _SHIFT
    value *= one
    value ^= value >> _SHIFT
    value *= two
    value ^= value >> _SHIFT
    return value
