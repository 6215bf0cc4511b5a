"""Fingerprints of runs of batches: equal runs have equal ones, and those of two consecutive runs
give that of both together.

A batch is hashed by what its header says: base offset, length, leader epoch, magic, attributes and
CRC are packed into three words and multiplied by three constants. The CRC covers everything after
it, so if the CRCs hold, equal hashes mean equal bytes (as far as 32 bits can tell; `deep` also
hashes the bodies with BLAKE2b). A run of batches h0, h1, h2 ... is the polynomial

    value = h0 + h1 x + h2 x^2 + ...     (mod 2^61 - 1)        count = how many

at a fixed x, so (value, count) + (value', count') = (value + x^count value', count + count'):
associative, with (0, 0) as its identity. Where a run is cut for hashing, by segments, slices or
blocks, does not affect the result. Two runs that differ have the same value in one of 2^61 / count
cases. The constants are public, so this finds damage, not malice.

The value of part of a run comes from the sums of its prefixes, as (S[j] - S[i]) / x^i: one
multiplication per batch, all in numpy.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kmirror.record.columns import Int64s

Uint64s = npt.NDArray[np.uint64]

PRIME: Final = (1 << 61) - 1
POINT: Final = 0x1A36E2EB1C432CA5
"""x, chosen once."""
VERSION: Final = 1
"""The version of the hash: tables of another version cannot be used."""
_HASH: Final = (0x0B5AD4ECED2DBA21, 0x153F5FD0E5A1B2C7, 0x1C64E6D8A1F0B3D9, 0x07F1BBCDCBFA53E1)
_P: Final = np.uint64(PRIME)
_LOW_31: Final = np.uint64((1 << 31) - 1)
_LOW_30: Final = np.uint64((1 << 30) - 1)
_30, _31, _60, _61 = np.uint64(30), np.uint64(31), np.uint64(60), np.uint64(61)
_TABLE_BITS: Final = 14


def multiply(a: Uint64s, b: Uint64s | np.uint64) -> Uint64s:
    """Returns a * b mod 2^61 - 1, for numbers below that."""
    a_high, a_low = a >> _31, a & _LOW_31
    b_high, b_low = b >> _31, b & _LOW_31
    middle = a_high * b_low + a_low * b_high
    total = (a_high * b_high << np.uint64(1)) + (middle >> _30) + ((middle & _LOW_30) << _31) + a_low * b_low
    return _reduced(total)


def _reduced(total: Uint64s) -> Uint64s:
    total = (total & _P) + (total >> _61)
    total[total >= _P] -= _P
    return total


def _table(base: int) -> Uint64s:
    """Returns base^0, base^1, ... base^(2^_TABLE_BITS - 1)."""
    powers = np.ones(1, dtype=np.uint64)
    while len(powers) < 1 << _TABLE_BITS:
        powers = np.concatenate((powers, multiply(powers, np.uint64(pow(base, len(powers), PRIME)))))
    return powers


class Powers:
    """base^n for arrays of n, by two or three table look-ups."""

    def __init__(self, base: int) -> None:
        self._base = base
        self._tables: list[Uint64s] = []

    def __call__(self, exponents: Int64s) -> Uint64s:
        mask = (1 << _TABLE_BITS) - 1
        found: Uint64s = self._at(0)[exponents & mask]
        level, rest = 1, exponents >> _TABLE_BITS
        while bool(rest.any()):
            found = multiply(found, self._at(level)[rest & mask])
            level, rest = level + 1, rest >> _TABLE_BITS
        return found

    def _at(self, level: int) -> Uint64s:
        while len(self._tables) <= level:
            self._tables.append(_table(pow(self._base, 1 << _TABLE_BITS * len(self._tables), PRIME)))
        return self._tables[level]


_powers: Final = Powers(POINT)
_inverse_powers: Final = Powers(pow(POINT, -1, PRIME))


def concatenated(value: int, count: int, following: int) -> int:
    """Returns the value of a run of `count` batches together with the run after it."""
    return (value + pow(POINT, count, PRIME) * following) % PRIME


def batch_hashes(headers: npt.NDArray[Any], bodies: Uint64s | None = None) -> Uint64s:
    """Returns one hash per row of `header_scan`'s headers. `bodies` are hashes of what follows the
    headers (`body_hash`)."""

    def unsigned(name: str, bits: int) -> Uint64s:
        return headers[name].astype(np.int64).view(np.uint64) & np.uint64((1 << bits) - 1)

    offset, epoch = unsigned("base_offset", 63), unsigned("partition_leader_epoch", 32)
    upper = (epoch >> np.uint64(28)) << np.uint64(48) | unsigned("magic", 8) << np.uint64(52) | (offset >> _61 & np.uint64(1)) << _60
    lower = (epoch & np.uint64((1 << 28) - 1)) << np.uint64(32) | (offset >> np.uint64(62)) << _60
    words = (offset & _P, unsigned("length", 32) | unsigned("attributes", 16) << np.uint64(32) | upper, unsigned("crc", 32) | lower)
    total = np.full(len(headers), 1, dtype=np.uint64)
    for word, factor in zip(words if bodies is None else (*words, _reduced(bodies)), _HASH):
        total = _reduced(total + multiply(word, np.uint64(factor)))
    return total


def body_hash(data: bytes | memoryview) -> int:
    """Returns 64 bits that hash a batch from its attributes on."""
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")


def sums(values: Uint64s, counts: Int64s) -> tuple[Uint64s, Int64s]:
    """Returns (S, batches before each) for `run_values`, for consecutive runs; both have one entry
    more than there are runs."""
    before = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(counts)))
    weighted = multiply(values, _powers(before[:-1]))
    high = np.cumsum(weighted >> _31, dtype=np.uint64)
    low = np.cumsum(weighted & _LOW_31, dtype=np.uint64)
    total = _reduced(multiply(_reduced(high), np.uint64(1 << 31)) + _reduced(low))
    return np.concatenate((np.zeros(1, dtype=np.uint64), total)), before


def run_values(summed: tuple[Uint64s, Int64s], starts: Int64s, ends: Int64s) -> Uint64s:
    """Returns the values of the runs from `starts` to `ends`, which are indexes of what `sums` was
    given."""
    total, before = summed
    difference = _reduced(total[ends] + (_P - total[starts]))
    return multiply(difference, _inverse_powers(before[starts]))
