"""A piece of one segment: what a task reads.

A partition is a list of segments, and a segment is cut where its offset index knows a batch to
begin. A slice is defined only by its bytes, so a slice of a segment that was deleted, or that a
running broker appends to, means the same on every machine.
"""

from __future__ import annotations

from typing import NamedTuple


class LogSlice(NamedTuple):
    """Bytes `start` to `end` of a segment. A batch begins at `start`. One ends at `end`, unless the
    segment's listed size ends there."""

    location: str
    """The input as it was given: a path or a URI."""
    path: str
    """The segment's `.log` on the file system that `location` names."""
    topic: str
    partition: int
    base_offset: int
    """The segment's base offset."""
    start: int
    end: int
    segment_size: int
    """The size when it was listed; what a broker has appended since is not read."""
    is_last_segment: bool
    """An incomplete batch can be an append under way only at the end of a partition's last segment;
    elsewhere it is corruption."""
    first_offset: int = -1
    """The base offset of the batch at `start`; at the beginning of a segment, the segment's. -1 if
    it was not looked up."""
    end_offset: int = (1 << 63) - 1
    """The base offset of the segment behind this one, as its name says; no batch reaches there."""

    @property
    def size(self) -> int:
        return self.end - self.start

    @property
    def ends_segment(self) -> bool:
        """Whether nothing of the segment, as listed, lies after this slice."""
        return self.end >= self.segment_size

    def ends_log_at(self, position: int) -> bool:
        """Whether nothing of the log, as listed, lies from this position of the segment on."""
        return self.is_last_segment and position >= self.segment_size
