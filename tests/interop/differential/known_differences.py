"""What differs from Apache Kafka 4.3 and is known: a pattern of the difference's line, and why.

Everything else fails the test.
"""

from __future__ import annotations

import re

KNOWN = [
    (
        r"ProduceRequest null: Kafka 'no answer'",
        "Kafka never answers null records, so a client waits for its timeout and sends them again; there is no answer to be the same as",
    ),
]


def is_known(line: str) -> bool:
    return any(re.search(pattern, line) for pattern, _ in KNOWN)
