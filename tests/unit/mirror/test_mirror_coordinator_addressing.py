"""Where the state of a mirrored partition and the sync of a mirror live (A6)."""

from __future__ import annotations

import pytest

from kmirror.common.topic_partition import java_string_hash, partition_for
from kmirror.common.uuid import Uuid
from kmirror.mirror.coordination.mirror_partition_id import coordinator_key

ONE = Uuid(b"\0" * 15 + b"\1")


@pytest.mark.parametrize(
    ("text", "hash_code", "of_50", "of_3"),
    [
        ("my-mirror", 1191661312, 12, 1),
        (coordinator_key("my-mirror", ONE, 0), 730107872, 22, 2),
        (coordinator_key("my-mirror", ONE, 1), 730107873, 23, 0),
        (coordinator_key("my-mirror", Uuid.from_string("lBq12jYZRp-9wF3M9MPopg"), 0), -1120636996, 46, 1),
    ],
)
def test_a6(text: str, hash_code: int, of_50: int, of_3: int) -> None:
    assert (java_string_hash(text), partition_for(text, 50), partition_for(text, 3)) == (hash_code, of_50, of_3)
