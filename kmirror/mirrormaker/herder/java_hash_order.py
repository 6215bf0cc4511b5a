"""The order in which Java walks over a `HashMap` or `HashSet` of strings.

Connect's assignor walks over such maps of members where nothing else puts them in an order: which worker
keeps one more task than others, and which of several new workers gets what a lost one had. A leader of
ours decides the same as one of Apache's, so the order counts. Connectors stand in this order in the bytes
of an assignment, too.

A table has 16 buckets, and twice as many whenever it is more than three quarters full. A string is in
the bucket that the low bits of its hash say, the high half of which is mixed into the low one; within a
bucket the order is that of insertion. (Buckets of eight and more, which Java turns into trees, are too
rare among members of a group to count.)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_LEAST_BUCKETS: Final = 16
_LOAD_FACTOR: Final = 0.75


def hash_code(text: str) -> int:
    """Java's `String.hashCode`, as a number without sign."""
    data = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for index in range(0, len(data), 2):
        code = (31 * code + int.from_bytes(data[index : index + 2])) & 0xFFFFFFFF
    return code


def in_hash_order(strings: Iterable[str], *, copied: bool = False) -> list[str]:
    """Returns the strings as Java walks over them once they were put into a map in the order given. With
    `copied` the set was made of a collection (`new HashSet<>(collection)`), and has buckets for one more.
    """
    given = list(strings)
    found = list(dict.fromkeys(given))
    buckets = _LEAST_BUCKETS
    while int(len(given) / _LOAD_FACTOR) + 1 > buckets if copied else len(found) > buckets * _LOAD_FACTOR:
        buckets *= 2

    def bucket(text: str) -> int:
        code = hash_code(text)
        return (code ^ code >> 16) & (buckets - 1)

    return sorted(found, key=bucket)
