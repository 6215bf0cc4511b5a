"""The rule "keys": which value a key may have, by what its writer heard."""

from __future__ import annotations

import pytest

from kmirror.sim.events import History
from kmirror.sim.fleet_keys import LATE_US, KeysRead, KeyWritten, check_keys

KEY = b"k"


def written(version: int, *, deleted: bool = False, acknowledged: bool = True, now_us: int = 0) -> KeyWritten:
    return KeyWritten(now_us, "a", KEY, version, deleted, acknowledged)


@pytest.mark.parametrize(
    ("writes", "value", "is_right"),
    [
        ([written(1)], b"k=1", True),
        ([written(1)], None, False),
        ([written(1), written(2)], b"k=1", False),
        ([written(1), written(2, deleted=True)], None, True),
        ([written(1), written(2, deleted=True)], b"k=1", False),
        ([written(1), written(2, acknowledged=False)], b"k=1", True),
        ([written(1), written(2, acknowledged=False)], b"k=2", True),
        ([written(1, acknowledged=False)], None, True),
        ([written(1, deleted=True), written(2, acknowledged=False), written(3)], b"k=2", True),
        ([written(1, deleted=True), written(2, acknowledged=False), written(3, now_us=LATE_US + 1)], b"k=2", False),
    ],
)
def test_a_key_has_its_last_acknowledged_value_or_a_later_one(writes, value, is_right):
    read = KeysRead(LATE_US + 2, "b1", "a", {} if value is None else {KEY: value})
    assert (list(check_keys(History([*writes, read]))) == []) is is_right


def test_what_was_written_elsewhere_does_not_count():
    assert list(check_keys(History([written(1), KeysRead(1, "b1", "b", {})]))) == []
