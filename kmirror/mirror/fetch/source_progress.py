"""How far a mirrored partition is behind its source: in records (RS6, B25, B51) and in time.

Records: the source's last known high watermark minus our log end. While a transaction is open at
the source, this stays above 0 although nothing more can be fetched (B51).

Time: how long ago everything decided at the source had arrived here. No clock or timestamp of the
source is used: in an answer at time t the source says where its decided records end; once our log
has reached that end, we were caught up at t. So a mirror that keeps up with a busy source has a
small lag, and one whose source does not answer has a growing lag.

`SourceProgress` is what the source has said about one partition. It outlives the successive
fetchers of the partition: the partition's leader keeps it, and only the fetcher that has the
partition now writes it.
"""

from __future__ import annotations

from typing import NamedTuple


class MirrorLag(NamedTuple):
    """-1 means unknown (nothing was fetched yet)."""

    records: int
    time_ms: int


UNKNOWN_LAG = MirrorLag(-1, -1)


class SourceProgress:
    """Owns the source's last known end of one partition, and when we were caught up. All times are
    of the monotonic clock.
    """

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
        """When the source last reported it; while the partition is fetched, its fetcher has a newer
        value (`known_as_of_ms`).
        """
        self.fetcher_name: str | None = None
        """The name of the fetcher that has the partition, or had it last."""
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
