"""What a cluster says of a log's cleaner: whether there was one, and what it cannot have touched.

A record that a log lacks was cleaned only if a cleaner could do that:

- The topic was compacted at some time of its life. What counts is the history of its
  `cleanup.policy`, not the last value: a topic that is deleting now and was compacted for an hour
  may have been cleaned, but only of what that hour saw.
- The newest segment is never cleaned, and a record in it replaces nothing yet.
- `min.compaction.lag.ms` keeps a cleaner from whatever is younger, so a record that was younger when
  the cleaner last can have run replaces nothing yet, either (Kafka compares the records' timestamps).

A log that was copied (by a replica, a mirror, a move between directories) has the holes of the log
that it was copied from, in any segment. So its own newest segment proves nothing unless it is alone.
What the history does not say stays open: then a barrier is not sure, and the verdict is "not
decided".
"""

from __future__ import annotations

from typing import Final, NamedTuple

ANY_TIME: Final = (1 << 63) - 1
ANY_OFFSET: Final = (1 << 63) - 1
POLICY_UNKNOWN: Final = (
    "their keys came again, so a cleaner can have removed them, but no metadata log, cleaner checkpoint or "
    "batch with holes says that the topic is compacted"
)
POLICY_BEFORE_UNKNOWN: Final = "their keys came again, and the topic is not compacted now, but nothing says whether it was before"
NEWEST_SEGMENT: Final = "no cleaner touches the newest segment"
TOO_YOUNG: Final = (
    "no pass of the cleaner can have read records of that time (min.compaction.lag.ms, or cleanup.policy was not compact any more)"
)
OUT_OF_REACH: Final = (
    "their keys came again only in the newest segment, or in records that are too young for a pass "
    "(min.compaction.lag.ms, or cleanup.policy was not compact any more)"
)
COPIED: Final = ", but the log may have been copied from one that was cleaned"
TIMES_UNSURE: Final = ", but nothing proves these times (what the configs were before, or when a producer wrote)"


class Barrier(NamedTuple):
    """Why no cleaner can have removed a record, and whether that is sure."""

    text: str
    is_sure: bool


class CleanerFacts(NamedTuple):
    """The cleaner of one log. The default is for a log of which nothing is known."""

    is_compacted: bool | None = None
    """Whether the topic was compacted at any time; None if that is not known."""
    newest_ms: int = ANY_TIME
    """No pass can have read a record with a later timestamp."""
    times_are_sure: bool = False
    """Whether `newest_ms` comes from the whole history of the topic's configs."""
    is_alone: bool = False
    """Whether the log is the only one that its partition ever had, so nothing was copied."""
    unknown: str = POLICY_UNKNOWN
    """Why `is_compacted` is None."""

    def barrier(self, offset: int, timestamp: int, active_offset: int) -> Barrier | None:
        """Returns why no pass can have removed a record; `active_offset` is where the newest
        segment begins."""
        if offset >= active_offset:
            return Barrier(NEWEST_SEGMENT + ("" if self.is_alone else COPIED), self.is_alone)
        if timestamp > self.newest_ms:
            return Barrier(TOO_YOUNG + ("" if self.times_are_sure else TIMES_UNSURE), self.times_are_sure)
        return None

    @property
    def out_of_reach(self) -> Barrier:
        """The barrier of a record whose key came again only where no pass can have been."""
        if self.is_alone and (self.times_are_sure or self.newest_ms == ANY_TIME):
            return Barrier(OUT_OF_REACH, is_sure=True)
        return Barrier(OUT_OF_REACH + (TIMES_UNSURE if self.is_alone else COPIED), is_sure=False)


NOTHING_KNOWN: Final = CleanerFacts()
