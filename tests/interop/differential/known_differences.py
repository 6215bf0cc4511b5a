"""What differs from Apache Kafka 4.3 and is known: a pattern of the difference's line, and why. Everything else fails the test."""

from __future__ import annotations

import re

KNOWN = [
    # Kafka's answer is an accident of its own
    (r"ProduceRequest null: Kafka 'no answer'", "Kafka never answers null records; kmirror says INVALID_RECORD"),
    (
        r"ProduceRequest .*error_code: Kafka -1",
        "Kafka has UNKNOWN_SERVER_ERROR for bytes that do not decompress; kmirror says what is wrong",
    ),
    (r"ProduceRequest (says|GZIP|ZSTD).*log_start_offset", "comes with the error code above"),
    # open: ours to fix
    (r"ProduceRequest .*error_message: Kafka '(Record size|Invalid magic)", "open: the text of a corrupt batch is not sent"),
    (r"IncrementalAlterConfigsRequest \(32, 'g'", "open: the broker's bounds of group settings are not checked"),
    (r"DescribeConfigsRequest \(2, 'wa'\)", "open: a broker's own dynamic settings show in topics at once, in Kafka they do not"),
    (r"DeleteGroupsRequest.*(results|error_code)", "open: the empty group id is refused, in Kafka it is a name"),
]


def is_known(line: str) -> bool:
    return any(re.search(pattern, line) for pattern, _ in KNOWN)
