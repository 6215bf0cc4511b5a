"""The order in which Java's `HashMap` iterates over its keys. It decides the byte order in a few
Kafka files and in the keys of Connect's source offsets, and the order in which Kafka's tools print
some lists.

A `HashMap` has a power-of-two table. A key lies in bucket `(h ^ h >>> 16) & (table size - 1)`.
Iteration goes from bucket to bucket, and inside a bucket in the order of insertion. The table
starts with 16 buckets (or the constructor's number), doubles when more than 0.75 of it is filled,
and never shrinks. While it has fewer than 64 buckets it also doubles when a ninth key comes into
one bucket. From 64 on, Java's map would turn that bucket into a tree, whose order is not reproduced
here (nine keys in one of 64 buckets do not occur with normal ids).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from kmirror.common.topic_partition import TopicPartition, java_string_hash
from kmirror.common.uuid import Uuid

Key = TypeVar("Key")

DEFAULT_TABLE_SIZE: Final = 16
_TREEIFY_THRESHOLD: Final = 8
_MIN_TREEIFY_TABLE_SIZE: Final = 64
_MASK: Final = 0xFFFFFFFF


def java_long_hash(value: int) -> int:
    """`Long.hashCode` of a signed 64-bit value, as unsigned 32 bits."""
    return (value ^ (value & 0xFFFFFFFFFFFFFFFF) >> 32) & _MASK


def java_topic_partition_hash(partition: TopicPartition) -> int:
    """`TopicPartition.hashCode`, as unsigned 32 bits."""
    return (31 * (31 + partition.partition) + java_string_hash(partition.topic)) & _MASK


def java_string_key_hash(text: str) -> int:
    """`String.hashCode`, as unsigned 32 bits."""
    return java_string_hash(text) & _MASK


def java_uuid_hash(uuid: Uuid) -> int:
    """The `hashCode` of Kafka's `Uuid`, as unsigned 32 bits."""
    folded = int.from_bytes(uuid.raw[:8], "big") ^ int.from_bytes(uuid.raw[8:], "big")
    return (folded >> 32 ^ folded) & _MASK


def table_size_for(capacity: int) -> int:
    """The table size of `new HashMap(capacity)`: the next power of two."""
    return 1 if capacity <= 1 else 1 << (capacity - 1).bit_length()


def table_size_for_copy(count: int) -> int:
    """The table size of a `HashMap` made as a copy of a map with `count` keys."""
    return table_size_for(int(count / 0.75 + 1.0))


def grown_table_size(hashes: Iterable[int], table_size: int = DEFAULT_TABLE_SIZE) -> int:
    """The table size after keys with these `hashes` were put, one after the other, into a table of
    `table_size`.
    """
    buckets: dict[int, list[int]] = {}
    for count, key_hash in enumerate(hashes, start=1):
        spread = key_hash ^ key_hash >> 16
        if table_size < _MIN_TREEIFY_TABLE_SIZE:
            bucket = buckets.setdefault(spread & table_size - 1, [])
            bucket.append(spread)
            if len(bucket) > _TREEIFY_THRESHOLD:
                table_size, buckets = _doubled(table_size, buckets)
        if count > 0.75 * table_size:
            table_size, buckets = _doubled(table_size, buckets)
    return table_size


def _doubled(table_size: int, buckets: dict[int, list[int]]) -> tuple[int, dict[int, list[int]]]:
    table_size *= 2
    result: dict[int, list[int]] = {}
    if table_size < _MIN_TREEIFY_TABLE_SIZE:
        for bucket in buckets.values():
            for spread in bucket:
                result.setdefault(spread & table_size - 1, []).append(spread)
    return table_size, result


def java_hash_map_order(keys: Iterable[Key], hash_of: Callable[[Key], int], *, table_size: int = DEFAULT_TABLE_SIZE) -> list[Key]:
    """The order in which Java iterates over `keys`, which are given in the order of insertion.
    `table_size` is the size before the first insertion.
    """
    keyed = [(hash_of(key), key) for key in keys]
    mask = grown_table_size((key_hash for key_hash, _ in keyed), table_size) - 1
    keyed.sort(key=lambda item: (item[0] ^ item[0] >> 16) & mask)
    return [key for _, key in keyed]


def hash_map_order(names: Iterable[str]) -> list[str]:
    """Returns strings in the order of a HashMap that grew to hold them as keys; each one once."""
    return java_hash_map_order(dict.fromkeys(names), java_string_key_hash)


def topic_partition_order(names: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Returns partitions in the order of a HashMap that grew to hold them as keys; each one once."""
    return java_hash_map_order(dict.fromkeys(names), java_topic_partition_hash)
