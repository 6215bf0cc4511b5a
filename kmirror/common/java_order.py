"""The order in which Java's HashMap iterates over its keys.

Kafka's tools print some lists in this order, and Connect writes keys of source offsets in it, so we
must do the same to be equal byte for byte. A key goes to bucket `(h ^ h >>> 16) & (size - 1)` of a table whose size doubles from 16 when it is
more than three quarters full. The iteration goes through the buckets in order, and through a
bucket's keys in the order of their insertion.
"""

from __future__ import annotations

from collections.abc import Iterable

from kmirror.common.topic_partition import TopicPartition, java_string_hash

FIRST_SIZE = 16


def spread(hash_code: int) -> int:
    unsigned = hash_code & 0xFFFFFFFF
    return unsigned ^ unsigned >> 16


def table_size(count: int) -> int:
    size = FIRST_SIZE
    while count > size * 3 // 4:
        size *= 2
    return size


def hash_map_order(names: Iterable[str]) -> list[str]:
    """Returns strings in the order of a HashMap that grew to hold them as keys."""
    keys = list(dict.fromkeys(names))
    mask = table_size(len(keys)) - 1
    return sorted(keys, key=lambda name: spread(java_string_hash(name)) & mask)


def topic_partition_order(names: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Returns partitions in the order of a HashMap that grew to hold them as keys."""
    keys = list(dict.fromkeys(names))
    mask = table_size(len(keys)) - 1
    return sorted(keys, key=lambda name: spread(31 * (31 + name.partition) + java_string_hash(name.topic)) & mask)
