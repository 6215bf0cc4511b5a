"""Findings of a replay, and the version of its tables.

A finding is something on disk that the bytes of the log contradict. What merely cannot be checked
is no finding (a producer that began before the log does, a snapshot inside a segment that was
compacted since).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

SCHEMA_VERSION: Final = 1
"""The version of every table of the replay."""
MAX_EXAMPLES: Final = 20
"""How many places of one kind a partial keeps per segment; the others are only counted."""
Log = Annotated[str, "the partition's folder"]
Topic = Annotated[str, "the topic"]
Partition = Annotated[int, "the partition's number"]


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """The columns with which every table begins: the log that a row belongs to."""

    log: Log
    topic: Topic
    partition: Partition


@dataclass(frozen=True, slots=True)
class Finding(PartitionRow):
    """A row of `findings`."""

    table: Annotated[
        str,
        "which part says so: structure, leader_epochs, producers, transactions, indexes, checkpoints, compaction, records, group_offsets, mirror_states, "
        "leaders, inventory",
    ]
    kind: Annotated[
        str,
        "one word: corrupt, crc, order, gap, torn, count, magic, codec, name, gone, unreadable, epoch, missing, unexpected, differs, beyond_end, "
        "wrong, size, more, step, reset_missing, hanging, superseded, swap, moving, "
        "records, sequence, name, empty, twice, topic_id, nobodys",
    ]
    file: Annotated[str, "the file that is wrong, or that contradicts the log"]
    segment: Annotated[int | None, "base offset of the segment that it is about"]
    position: Annotated[int | None, "byte in the file, where that says something"]
    first_offset: Annotated[int | None, "of the offsets that it is about"]
    last_offset: Annotated[int | None, "of the offsets that it is about, included"]
    text: Annotated[str, "one line: what is there, and what should be"]
