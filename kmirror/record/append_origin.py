"""Who appends to a log: decides how much of what is appended is validated (Kafka's `AppendOrigin`)."""

from __future__ import annotations

from enum import Enum


class AppendOrigin(Enum):
    """Kafka's `AppendOrigin`."""

    CLIENT = "client"
    """A producer: everything is checked."""
    COORDINATOR = "coordinator"
    """A coordinator or the mirror of this broker: control batches and batches without sequence are
    allowed.
    """
    REPLICATION = "replication"
    """A follower or a mirror leader: bytes are taken as they are."""
    RAFT_LEADER = "raft leader"
    """The metadata log: offsets and epochs are already assigned and are only checked."""
