"""Java's HashMap order: hashes and orders computed by hand from the rule, growth included."""

from __future__ import annotations

from kmirror.common.java_hash_map import (
    grown_table_size,
    hash_map_order,
    java_hash_map_order,
    java_long_hash,
    java_topic_partition_hash,
    table_size_for,
    table_size_for_copy,
    topic_partition_order,
)
from kmirror.common.topic_partition import TopicPartition


def test_long_hash() -> None:
    assert java_long_hash(0) == 0
    assert java_long_hash(1 << 32) == 1
    assert java_long_hash(-1) == 0
    assert java_long_hash((5 << 32) + 3) == 6


def test_topic_partition_hash() -> None:
    assert java_topic_partition_hash(TopicPartition("a", 0)) == 31 * 31 + 97
    assert java_topic_partition_hash(TopicPartition("", 1)) == 31 * 32


def test_table_sizes() -> None:
    assert [table_size_for(capacity) for capacity in (0, 1, 2, 3, 16, 17)] == [1, 1, 2, 4, 16, 32]
    assert [table_size_for_copy(count) for count in (0, 11, 12, 24, 48)] == [1, 16, 32, 64, 128]


def test_small_longs_come_in_order_and_wrap_at_the_table() -> None:
    assert java_hash_map_order([3, 1, 2], java_long_hash) == [1, 2, 3]
    assert java_hash_map_order([17, 1, 16], java_long_hash) == [16, 17, 1]


def test_the_table_doubles_when_the_13th_key_comes() -> None:
    assert grown_table_size(range(12)) == 16
    assert grown_table_size(range(13)) == 32
    keys = [16, *range(12)]
    assert java_hash_map_order(keys, java_long_hash) == [*range(12), 16]
    assert java_hash_map_order([16, *range(11)], java_long_hash)[:2] == [16, 0]


def test_a_crowded_bucket_doubles_a_small_table() -> None:
    assert grown_table_size([0, 64, 128, 192, 256, 320, 384, 448]) == 16
    assert grown_table_size([0, 64, 128, 192, 256, 320, 384, 448, 512]) == 32
    assert grown_table_size([64 * index for index in range(10)]) == 64
    assert grown_table_size([64 * index for index in range(30)]) == 64


def test_a_table_does_not_shrink() -> None:
    assert java_hash_map_order([20, 4], java_long_hash) == [20, 4]
    assert java_hash_map_order([20, 4], java_long_hash, table_size=32) == [4, 20]


def test_names_come_in_the_order_of_javas_hash_map() -> None:
    """As Apache's tools printed them."""
    assert hash_map_order(["classic", "empty", "other-group-with-a-long-name", "static"]) == [
        "other-group-with-a-long-name",
        "classic",
        "static",
        "empty",
    ]
    names = [TopicPartition("t", partition) for partition in range(3)]
    assert topic_partition_order(names) == names[::-1]


def test_a_name_that_comes_twice_is_one_key() -> None:
    assert hash_map_order(["b", "a", "b"]) == ["a", "b"]
    twice = [TopicPartition("t", 1), TopicPartition("t", 0), TopicPartition("t", 1)]
    assert topic_partition_order(twice) == topic_partition_order(twice[:2])
