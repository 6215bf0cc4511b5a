"""`is_integer` says yes exactly where `int` and Java's Integer.parseInt agree."""

from __future__ import annotations

import pytest

from kmirror.common.numbers import is_integer


@pytest.mark.parametrize("text", ["0", "5", "-5", "+5", "007"])
def test_an_integer(text: str) -> None:
    assert is_integer(text)
    int(text)


@pytest.mark.parametrize("text", ["", "-", "--5", "+-5", "5-", "1.5", "\u00b2", " 5", "5\n", "1_000"])
def test_no_integer(text: str) -> None:
    assert not is_integer(text)
