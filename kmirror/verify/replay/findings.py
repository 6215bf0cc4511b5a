"""What replay says: findings, and the versions of its tables.

A finding is something on disk that the bytes of the log contradict. What merely cannot be checked (a producer that began before the log
does, a snapshot inside of a segment that was compacted since) is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SCHEMA_VERSION: Final = 1
"""Of every table here. A new column raises it; columns are never renamed and never change their meaning."""
MAX_EXAMPLES: Final = 20
"""How many places of one kind a partial keeps per segment; the others are counted."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A row of `findings`."""

    log: str
    """The partition's folder."""
    topic: str
    partition: int
    table: str
    """Which part of the replay says so: structure, leader_epochs, producers, transactions, indexes, checkpoints."""
    kind: str
    """One word for the machine: `corrupt`, `crc`, `order`, `gap`, `epoch`, `missing`, `unexpected`, `differs`, `unreadable`, `beyond_end` ..."""
    file: str
    """The file that is wrong, or that contradicts the log."""
    segment: int | None
    """Base offset of the segment that the finding is about."""
    position: int | None
    """Byte in `file`, where that says something."""
    first_offset: int | None
    last_offset: int | None
    """The offsets that it is about, both included."""
    text: str
    """One line: what is there, and what should be."""
