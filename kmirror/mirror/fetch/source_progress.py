"""What the source has said about one mirrored partition (RS6, B25, B51).

A partition's lag is the source's last known high watermark minus our log end. While a transaction
is open at the source, this stays above 0 although nothing more can be fetched (B51).

`SourceProgress` outlives the successive fetchers of the partition: the partition's leader keeps it,
and only the fetcher that has the partition now writes it.
"""

from __future__ import annotations


class SourceProgress:
    """Owns the source's last known end of one partition, and when our log was last cut. All times
    are of the monotonic clock.
    """

    __slots__ = (
        "_cut_at_ms",
        "fetcher_name",
        "highest_source_epoch",
        "last_stable_offset",
        "source_offset",
        "source_offset_at_ms",
        "stable_since_ms",
    )

    def __init__(self) -> None:
        self.source_offset = -1
        """The source's high watermark."""
        self.source_offset_at_ms = -1
        """When the source last reported it; while the partition is fetched, its fetcher has a newer
        value (`known_as_of_ms`).
        """
        self.last_stable_offset = -1
        """Up to where the source's transactions are decided; nothing behind it is fetched."""
        self.stable_since_ms = -1
        """When the source first reported this last stable offset."""
        self.fetcher_name: str | None = None
        """The name of the fetcher that has the partition, or had it last."""
        self.highest_source_epoch = -1
        self._cut_at_ms: int | None = None

    def answered(self, now_ms: int, *, high_watermark: int, source_epoch: int, last_stable_offset: int = -1) -> None:
        """At `now_ms` the source's high watermark was `high_watermark`, its leader epoch
        `source_epoch`, and all before `last_stable_offset` was decided.
        """
        if last_stable_offset != self.last_stable_offset or self.stable_since_ms < 0:
            self.last_stable_offset, self.stable_since_ms = last_stable_offset, now_ms
        self.source_offset, self.source_offset_at_ms = high_watermark, now_ms
        if source_epoch > self.highest_source_epoch:
            self.highest_source_epoch = source_epoch

    def note_cut(self, now_ms: int, *, repeated_within_ms: int) -> bool:
        """Our log was cut to what the source has.

        Returns whether the last cut was less than `repeated_within_ms` ago.
        """
        before_ms, self._cut_at_ms = self._cut_at_ms, now_ms
        return before_ms is not None and now_ms - before_ms < repeated_within_ms
