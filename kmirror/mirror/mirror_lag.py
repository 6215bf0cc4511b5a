"""How far a mirrored partition is behind its source: in records (RS6, B25, B51) and in time.

Records: the source's high watermark, as it was answered last, less our log end. With an open transaction at the source that stays above
0 while nothing more can be fetched (B51).

Time: how long ago everything that was decided at the source had arrived here. No clock or timestamp of the source is used: with an
answer at time t the source tells where its decided records end; when our log has reached that end, we were caught up at t. So a
mirror that follows a busy source steadily has a small lag, and one whose source is silent, or away, a growing one.
"""

from __future__ import annotations

from typing import NamedTuple


class MirrorLag(NamedTuple):
    """-1 where it is not known (nothing was fetched yet)."""

    records: int
    time_ms: int


UNKNOWN_LAG = MirrorLag(-1, -1)


class CatchUp:
    """When a partition was caught up last (monotonic ms)."""

    __slots__ = ("_mark_end_offset", "_mark_ms", "caught_up_ms")

    def __init__(self) -> None:
        self.caught_up_ms = -1
        self._mark_ms = -1
        self._mark_end_offset = -1

    @property
    def is_caught_up(self) -> bool:
        """Whether the last answer found nothing more to fetch."""
        return self.caught_up_ms >= 0 and self._mark_ms < 0

    def note(self, now_ms: int, *, log_end_offset: int, source_end_offset: int) -> None:
        """At `now_ms` the source's decided records ended at `source_end_offset`, and ours at `log_end_offset` after the append."""
        if log_end_offset >= source_end_offset:
            self.caught_up_ms = now_ms
            self._mark_ms = -1
            return
        if self._mark_ms >= 0 and log_end_offset >= self._mark_end_offset:
            self.caught_up_ms = self._mark_ms
            self._mark_ms = -1
        if self._mark_ms < 0:
            self._mark_ms, self._mark_end_offset = now_ms, source_end_offset
