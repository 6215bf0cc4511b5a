"""The isolation level of a request, as Kafka's IsolationLevel knows it."""

from __future__ import annotations

from kmirror.common.errors import IllegalArgumentException

LEVELS = (0, 1)
"""READ_UNCOMMITTED and READ_COMMITTED."""


def check_isolation_level(isolation_level: int) -> None:
    """Raises UNKNOWN_SERVER_ERROR for another level, as Kafka's brokers answer it."""
    if isolation_level not in LEVELS:
        raise IllegalArgumentException(f"Unknown isolation level {isolation_level}")
