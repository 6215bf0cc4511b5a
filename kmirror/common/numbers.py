"""Numbers as Java reads them from text."""

from __future__ import annotations

import re
from typing import Final

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")


def is_integer(text: str) -> bool:
    """Whether `text` is an integer: one sign at most, and ASCII digits (Integer.parseInt, but for
    its range and for digits of other scripts). Then `int(text)` cannot fail.
    """
    return _INTEGER.fullmatch(text) is not None
