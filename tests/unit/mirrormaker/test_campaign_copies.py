"""What the campaign of MirrorMaker's workers checks (`tools/campaigns/copies.py`): each broken promise is
noticed.
"""

from __future__ import annotations

import pytest

from tools.campaigns.copies import Translated, same_records, skips, stood_still

P = ("t", 0)


def log(*numbers: int, first: int = 0) -> dict[tuple[str, int], list[tuple[int, bytes]]]:
    return {P: [(first + place, b"load-%d-x" % number) for place, number in enumerate(numbers)]}


def test_equal_logs_are_exactly_once_whatever_their_offsets_are() -> None:
    assert same_records(log(1, 2, 3), log(1, 2, 3, first=40), exactly_once=True) == 0


def test_what_comes_again_is_counted_at_least_once_and_broken_exactly_once() -> None:
    assert same_records(log(1, 2, 3), log(1, 2, 1, 2, 3), exactly_once=False) == 2
    with pytest.raises(AssertionError, match=r"2 records are there twice, such as \[1, 2\]"):
        same_records(log(1, 2, 3), log(1, 2, 1, 2, 3), exactly_once=True)


@pytest.mark.parametrize("exactly_once", [True, False])
def test_what_is_lost_or_in_another_order_or_nobodys_is_noticed(exactly_once: bool) -> None:
    with pytest.raises(AssertionError, match=r"1 of 3 records are lost, such as \[2\]"):
        same_records(log(1, 2, 3), log(1, 3), exactly_once=exactly_once)
    with pytest.raises(AssertionError, match="the order differs at 1: 2 and 3"):
        same_records(log(1, 2, 3), log(1, 3, 2), exactly_once=exactly_once)
    with pytest.raises(AssertionError, match="4 different records instead of 3"):
        same_records(log(1, 2, 3), log(1, 2, 3, 4), exactly_once=exactly_once)


def test_an_offset_behind_what_a_group_has_not_read_skips_records() -> None:
    source, target = log(1, 2, 3, first=10), log(1, 2, 1, 2, 3)
    assert not skips(source, target, [Translated(P, 12, 4), Translated(P, 11, 3), Translated(P, 10, 0), Translated(P, 13, 5)])
    (told,) = skips(source, target, [Translated(P, 11, 4)])
    assert "a record that was not read is last at 3" in told


def test_the_record_that_waited_longest_tells_how_long_a_partition_stood_still() -> None:
    acknowledged = {("t", 0, 0): b"load-1-x", ("t", 0, 1): b"load-2-x", ("t", 1, 0): b"load-3-x"}
    when_s = dict(zip(acknowledged, (1.0, 2.0, 3.0), strict=True))
    assert stood_still(acknowledged, when_s, {1: 9.0, 2: 9.5, 3: 2.9}) == {("t", 0): 8.0, ("t", 1): 0.0}
