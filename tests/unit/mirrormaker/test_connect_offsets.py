"""Keys and values of the topic of source offsets, byte for byte as Connect writes them."""

from __future__ import annotations

import json

import pytest

from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.connect_offsets import NOTHING_STORED, StoredOffsets, offset_key, parse_key, record_source

JAVA = [
    ("topic partition cluster", "cluster partition topic"),
    ("group topic partition", "partition topic group"),
    ("targetClusterAlias sourceClusterAlias", "sourceClusterAlias targetClusterAlias"),
    ("omv lbh str vqs xng",
     "str xng lbh omv vqs"),
    ("cqz iwx rdc jez wib mnw bxg wnm eyt cfy ugc xun",
     "rdc bxg ugc xun wib eyt mnw wnm cfy iwx cqz jez"),
    ("kgc ljh srz jtx qdi wjr pdm dqf oam upq avx dwd shs",
     "avx kgc ljh jtx dwd qdi upq pdm dqf srz oam wjr shs"),
    ("wr je jh cf nw gd sw ma yk xt kb zx zr pu gy wd pl wz od et nd es tv fy",
     "tv cf wz sw pu nw wd es et yk gy fy ma od nd kb zr wr je xt pl gd jh zx"),
    ("gq xc gb yt xu sh oh cd dc qt kj gk tq cv xx ms bp ba uw xw uv vm jd xh av",
     "xx bp sh oh gb yt kj cd uv uw qt gk ms gq xc xh cv av vm jd xu tq dc ba xw"),
]  # fmt: skip
"""Names as they were put into a java.util.HashMap, and as it iterates: 12 fill its first table, 24 the next."""


@pytest.mark.parametrize(("put", "iterated"), JAVA, ids=[str(number) for number in range(len(JAVA))])
def test_names_of_a_key_are_in_the_order_of_a_java_hash_map(put: str, iterated: str) -> None:
    assert list(json.loads(offset_key("c", dict.fromkeys(put.split(), 1)))[1]) == iterated.split()


def test_a_key_is_found_whatever_its_order() -> None:
    stored = StoredOffsets()
    stored.handle_record(b'[ "c", {"topic":"t", "cluster":"A", "partition":0} ]', b'{"offset":7}')
    assert stored.get("c", record_source("A", TopicPartition("t", 0))) == 7
    assert stored.get("c", record_source("A", TopicPartition("t", 1))) == NOTHING_STORED
    assert parse_key(b'["c",{"topic":"t","cluster":"A","partition":0}]') == b'["c",{"cluster":"A","partition":0,"topic":"t"}]'


@pytest.mark.parametrize("key", [None, b"", b"{}", b'["c"]', b'["c",[]]', b"[1,{}]", b'["c",{},1]', b"\xff"])
def test_other_keys_are_left_alone(key: bytes | None) -> None:
    assert parse_key(key) is None


@pytest.mark.parametrize("key", [b"[" * 100_000, b'["c",{"topic":"\\ud800"}]', b'["\\udfff",{}]', b'["c",{"\\ud800":1}]'])
def test_a_key_that_is_nested_too_deep_or_no_unicode_is_left_alone(key: bytes) -> None:
    StoredOffsets().handle_record(key, b'{"offset":7}')
    assert parse_key(key) is None


@pytest.mark.parametrize("value", [b"[" * 100_000, b'{"offset":9223372036854775807}', b'{"offset":1e400}', b'{"offset":"7"}'])
def test_an_offset_that_no_log_can_have_changes_nothing(value: bytes) -> None:
    stored, key = StoredOffsets(), offset_key("c", record_source("A", TopicPartition("t", 0)))
    stored.handle_record(key, b'{"offset":7}')
    stored.handle_record(key, value)
    assert stored.get("c", record_source("A", TopicPartition("t", 0))) == 7
