"""`--partitions 0,2-5`, as the tools that read logs have it."""

from __future__ import annotations

import re

from kmirror.common.errors import KmirrorError


def parse_partition_numbers(text: str | None) -> frozenset[int] | None:
    """Parse `0,2-5` to {0, 2, 3, 4, 5}; KmirrorError for anything else."""
    if text is None:
        return None
    numbers: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", part)
        if match is None:
            raise KmirrorError(f"--partitions takes numbers and ranges such as 0,2-5, not '{text}'")
        first = int(match[1])
        numbers.update(range(first, int(match[2] or first) + 1))
    return frozenset(numbers)
