"""Uuids as keys."""

from __future__ import annotations

from kmirror.common.uuid import Uuid


def test_ids_that_begin_alike_shared_a_hash() -> None:
    ids = [Uuid(b"\x01" * 8 + number.to_bytes(8, "big")) for number in range(1_000)]
    assert len({hash(each) for each in ids}) == 1_000


def test_equal_ids_have_equal_hashes_in_every_process() -> None:
    first, second = (Uuid.from_string("AAAAAAAAAAAAAAAAAAAAAQ") for _ in range(2))
    assert first is not second and hash(first) == hash(second) == 1
