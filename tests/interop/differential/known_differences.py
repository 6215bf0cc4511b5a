"""What differs from Apache Kafka 4.3 and is known: a pattern of the difference's line, and why.

Everything else fails the test.
"""

from __future__ import annotations

import re

KNOWN = [
    (
        r"ApiVersionsRequest.*\.(supported|finalized)_features: only Kafka has {'name': '(share|streams).version'",
        "share groups and streams groups are not served here; a feature that is announced and not served makes clients wait for ever",
    ),
    (
        r"ProduceRequest null: Kafka 'no answer'",
        "Kafka never answers null records, so a client waits for its timeout and sends them again; there is no answer to be the same as",
    ),
]


def is_known(line: str) -> bool:
    return any(re.search(pattern, line) for pattern, _ in KNOWN)


KNOWN_RANDOM: list[tuple[str, str]] = [
    (
        r"^(INCREMENTAL_ALTER_CONFIGS.responses\[\].error_message: .*because its type is not LIST"
        r"|ALTER_CLIENT_QUOTAS.entries\[\].error_message: .*(Quota|Invalid configuration key)"
        r"|(INCREMENTAL_)?ALTER_CONFIGS.responses\[\].error_message: "
        r"Kafka 'Unknown (client metrics configuration|group config name))",
        "of several mistakes in one resource Kafka tells the one that its hash map has first",
    ),
    (
        r"^CREATE_ACLS.results\[\].error_message: Kafka 'Invalid resourceType UNKNOWN'",
        "type 8 is CLUSTER_MIRROR of KIP-1279, so another mistake of the rule is told",
    ),
    (
        r"^FETCH.responses\[\].partitions\[\].(error_code: Kafka 1, kmirror 0|high_watermark: Kafka -1|last_stable_offset: Kafka -1"
        r"|log_start_offset: Kafka -1|diverging_epoch)",
        "an epoch above all of ours is a divergence, with its offset: after a failover a consumer may bring the other cluster's "
        "epoch, and OFFSET_OUT_OF_RANGE would make it start over (C36b)",
    ),
    (
        r"^CREATE_DELEGATION_TOKEN.*(Kafka -1, kmirror 64|Kafka 'User', kmirror ''|Kafka 'ANONYMOUS', kmirror 'a')",
        "an owner without a type is a null pointer there; tokens are disabled in both",
    ),
    (
        r"^(ADD_PARTITIONS_TO_TXN|ALTER_CONFIGS): Kafka 'no answer'",
        "Kafka never answers: to transactions that are none, to a resource that comes twice; ours is an error",
    ),
]
"""The same for random requests: a pattern of `API.path: difference`, and why it stays."""


def is_known_random(line: str) -> bool:
    return any(re.search(pattern, line) for pattern, _ in KNOWN_RANDOM)
