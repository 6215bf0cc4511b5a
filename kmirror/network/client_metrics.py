"""What a `NetworkClient` counts, under the names of Kafka's client metrics (the selector's and the
authenticator's).

    connection-count   connection-creation, connection-close, network-io, select, request, response, incoming-byte, outgoing-byte,
    {successful,failed}-{authentication,reauthentication}: each -rate and -total   successful-authentication-no-reauth-total
    request-size-{avg,max}   reauthentication-latency-{avg,max}

Counting is an addition to an int. A rate also needs the totals at the beginning of the last two
windows of 30 seconds; the first request of a window notes them. So a rate is over the last 30 to 60
seconds, whenever it is read. There is no selector here: `select` counts how often the loop had
bytes for the client, and `network-io` adds the writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kmirror.common.ports import Clock
from kmirror.common.sensors import AvgMinMax, MetricConfig

WINDOW_MS = 30_000
WINDOWS = 2
RATED = (
    "connection-creation", "connection-close", "network-io", "select", "request", "response", "incoming-byte", "outgoing-byte",
    "successful-authentication", "failed-authentication", "successful-reauthentication", "failed-reauthentication",
)  # fmt: skip


class ClientMetrics:
    """The counts of one client, over all its connections."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._config = MetricConfig()
        self._request_sizes, self._login_times = AvgMinMax(), AvgMinMax()
        self.connections = 0
        self.connections_created = self.connections_closed = 0
        self.reads = self.requests = self.responses = 0
        self.incoming_bytes = self.outgoing_bytes = 0
        self.logins = self.failed_logins = 0
        self.later_logins = self.failed_later_logins = 0
        self.logins_without_end = 0
        self._windows = [(clock.monotonic_ms(), self._totals())]

    # --- what connections tell
    # ----------------------------------------------------------------------------------------

    def opened(self) -> None:
        self.connections += 1
        self.connections_created += 1

    def closed(self) -> None:
        self.connections -= 1
        self.connections_closed += 1

    def wrote(self, size: int, now_ms: int) -> None:
        """A request of `size` bytes was written."""
        self.wrote_all([size], now_ms)

    def wrote_all(self, sizes: Sequence[int], now_ms: int) -> None:
        """Requests of these sizes were written at a time."""
        if now_ms - self._windows[-1][0] >= WINDOW_MS:
            self._begin_window(now_ms)
        self.requests += len(sizes)
        self.outgoing_bytes += sum(sizes)
        self._request_sizes.record_all(self._config, sizes, now_ms)

    def read(self, size: int) -> None:
        """`size` bytes were read: a part of a response, or several responses."""
        self.reads += 1
        self.incoming_bytes += size

    def logged_in(self, *, again: bool, has_end: bool, duration_ms: int) -> None:
        """A login was accepted: the first one of a connection, or a later one because the session
        was about to expire.
        """
        if not again:
            self.logins += 1
            self.logins_without_end += not has_end
            return
        self.later_logins += 1
        self._login_times.record(self._config, duration_ms, self._clock.monotonic_ms())

    def refused(self, *, again: bool) -> None:
        if again:
            self.failed_later_logins += 1
        else:
            self.failed_logins += 1

    # --- what is shown
    # ------------------------------------------------------------------------------------------------

    def readings(self) -> Iterator[tuple[str, float]]:
        """Yields (attribute, value) of every metric."""
        now_ms = self._clock.monotonic_ms()
        since_ms, before = self._window(now_ms)
        elapsed_ms = max(now_ms - since_ms, (WINDOWS - 1) * WINDOW_MS)
        yield "connection-count", self.connections
        for name, total, earlier in zip(RATED, self._totals(), before, strict=True):
            yield f"{name}-total", total
            yield f"{name}-rate", (total - earlier) * 1000.0 / elapsed_ms
        yield "successful-authentication-no-reauth-total", self.logins_without_end
        for name, stat in (("request-size", self._request_sizes), ("reauthentication-latency", self._login_times)):
            yield f"{name}-avg", stat.measure(self._config, now_ms)
            yield f"{name}-max", stat.greatest(self._config, now_ms)

    def _totals(self) -> tuple[int, ...]:
        """The counts, in the order of RATED."""
        io = self.reads + self.requests
        return (
            self.connections_created, self.connections_closed, io, self.reads, self.requests, self.responses, self.incoming_bytes,
            self.outgoing_bytes, self.logins, self.failed_logins, self.later_logins, self.failed_later_logins,
        )  # fmt: skip

    def _begin_window(self, now_ms: int) -> None:
        self._windows = [*self._windows[1 - WINDOWS :], (now_ms, self._totals())]

    def _window(self, now_ms: int) -> tuple[int, tuple[int, ...]]:
        """When the period that rates cover began, and the totals at that time."""
        if now_ms - self._windows[-1][0] >= WINDOW_MS:
            self._begin_window(now_ms)
        return next(window for window in self._windows if now_ms - window[0] < WINDOWS * WINDOW_MS)
