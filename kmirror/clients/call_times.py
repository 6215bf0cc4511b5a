"""How long a client's callers have waited in its calls (Kafka's `KafkaProducerMetrics` and
`KafkaConsumerMetrics`): sums in ns of all time, as `<call>-time-ns-total`. A call counts once it is
over, also one that failed or was cancelled.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kmirror.common.ports import Clock


class CallTimes:
    """Of these calls; each is shown from the beginning, with 0."""

    def __init__(self, clock: Clock, *calls: str) -> None:
        self._clock = clock
        self._total_ns = dict.fromkeys(calls, 0)

    @contextmanager
    def taking(self, call: str) -> Iterator[None]:
        began_ns = self._clock.monotonic_ns()
        try:
            yield
        finally:
            self._total_ns[call] += self._clock.monotonic_ns() - began_ns

    def readings(self) -> Iterator[tuple[str, float]]:
        for call, total_ns in self._total_ns.items():
            yield f"{call}-time-ns-total", total_ns
