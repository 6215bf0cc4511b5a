"""A piece of one segment: what a task reads.

A partition is a list of segments, and a segment is cut where its offset index knows a batch to begin. Nothing but bytes says where a slice
lies, so slices of segments that were deleted, or that a running broker appends to, mean the same on every machine that was told.
"""

from __future__ import annotations

from typing import NamedTuple


class LogSlice(NamedTuple):
    """Bytes `start` to `end` of a segment. A batch begins at `start`; one ends at `end`, unless the segment's listed size ends there."""

    location: str
    """The input as it was given: a path or a URI."""
    path: str
    """The segment's `.log` on the file system that `location` names."""
    topic: str
    partition: int
    base_offset: int
    """The segment's."""
    start: int
    end: int
    segment_size: int
    """As it was listed; what a broker appended since is not looked at."""
    is_last_segment: bool
    """Only at the end of a partition's last segment is an incomplete batch an append under way; elsewhere it is corruption."""

    @property
    def size(self) -> int:
        return self.end - self.start

    @property
    def ends_segment(self) -> bool:
        """Whether nothing of the segment, as listed, lies behind this slice."""
        return self.end >= self.segment_size
