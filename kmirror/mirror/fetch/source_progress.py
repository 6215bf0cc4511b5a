"""How far a mirrored partition is behind its source: in records (RS6, B25, B51) and in time.

Records: the source's high watermark, as it was answered last, less our log end. With an open
transaction at the source that stays above 0 while nothing more can be fetched (B51).

Time: how long ago everything that was decided at the source had arrived here. No clock or timestamp
of the source is used: with an answer at time t the source tells where its decided records end; when
our log has reached that end, we were caught up at t. So a mirror that follows a busy source
steadily has a small lag, and one whose source is silent, or away, a growing one.

`SourceProgress` is what the source has told of one partition. It outlives the fetchers that have
the partition one after the other: the partition's leader keeps it, and only the fetcher that has
the partition now writes it.
"""

from __future__ import annotations

from typing import NamedTuple


class MirrorLag(NamedTuple):
    """-1 where it is not known (nothing was fetched yet)."""

    records: int
    time_ms: int


UNKNOWN_LAG = MirrorLag(-1, -1)


class SourceProgress:
    """All times are of the monotonic clock."""

    __slots__ = (
        "_cut_at_ms",
        "_mark_end_offset",
        "_mark_ms",
        "caught_up_ms",
        "fetcher_name",
        "highest_source_epoch",
        "source_offset",
        "source_offset_at_ms",
    )

    def __init__(self) -> None:
        self.source_offset = -1
        """The source's high watermark."""
        self.source_offset_at_ms = -1
        """When the source told it last; while the partition is fetched, its fetcher knows better
        (`known_as_of_ms`).
        """
        self.fetcher_name: str | None = None
        """Of the fetcher that has the partition, or had it last."""
        self.highest_source_epoch = -1
        self.caught_up_ms = -1
        self._mark_ms = -1
        self._mark_end_offset = -1
        self._cut_at_ms: int | None = None

    @property
    def is_caught_up(self) -> bool:
        """Whether the last answer found nothing more to fetch."""
        return self.caught_up_ms >= 0 and self._mark_ms < 0

    def answered(self, now_ms: int, *, high_watermark: int, decided_end_offset: int, source_epoch: int, log_end_offset: int) -> None:
        """At `now_ms` the source's decided records ended at `decided_end_offset`, and ours at
        `log_end_offset` after the append.
        """
        self.source_offset, self.source_offset_at_ms = high_watermark, now_ms
        if source_epoch > self.highest_source_epoch:
            self.highest_source_epoch = source_epoch
        if log_end_offset >= decided_end_offset:
            self.caught_up_ms = now_ms
            self._mark_ms = -1
            return
        if self._mark_ms >= 0 and log_end_offset >= self._mark_end_offset:
            self.caught_up_ms = self._mark_ms
            self._mark_ms = -1
        if self._mark_ms < 0:
            self._mark_ms, self._mark_end_offset = now_ms, decided_end_offset

    def note_cut(self, now_ms: int, *, repeated_within_ms: int) -> bool:
        """Our log was cut to what the source has.

        Returns whether the last cut was less than `repeated_within_ms` ago.
        """
        before_ms, self._cut_at_ms = self._cut_at_ms, now_ms
        return before_ms is not None and now_ms - before_ms < repeated_within_ms
