"""Who appends to a log. This decides how much of the append is validated (Kafka's
`AppendOrigin`).
"""

from __future__ import annotations

from enum import Enum


class AppendOrigin(Enum):
    """Kafka's `AppendOrigin`."""

    CLIENT = "client"
    """A producer: everything is checked."""
    COORDINATOR = "coordinator"
    """A coordinator or this broker's mirror: control batches, and batches without a sequence, are
    allowed.
    """
    REPLICATION = "replication"
    """A follower or a mirror leader: bytes are stored as they are."""
    RAFT_LEADER = "raft leader"
    """The metadata log: offsets and epochs are already assigned and are only checked."""
