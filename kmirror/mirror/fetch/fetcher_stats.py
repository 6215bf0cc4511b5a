"""What one mirror fetcher counts (Kafka's FetcherStats); `mirror_metrics` shows it."""

from __future__ import annotations

from kmirror.common.metrics import Meter
from kmirror.common.ports import Clock


class FetcherStats:
    """Owns the request and byte meters of one fetcher."""

    __slots__ = ("bytes_rate", "request_rate")

    def __init__(self, clock: Clock) -> None:
        self.request_rate = Meter(clock)
        self.bytes_rate = Meter(clock)

    def fetched(self, size: int) -> None:
        """A fetch was answered with `size` bytes of records."""
        self.request_rate.mark()
        self.bytes_rate.mark(size)
