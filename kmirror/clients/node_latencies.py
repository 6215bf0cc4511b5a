"""How long requests of one kind took, over all brokers and for each (`request-latency` of Kafka's
`producer-metrics` and `...-node-metrics`, `fetch-latency` of a consumer's).

A latency is the time from when a request was written until its answer was read, in ms. It is over
Kafka's two windows of 30 seconds, and NaN without an answer in them. A request that was not answered
has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kmirror.common.ports import Clock
from kmirror.common.sensors import AvgMinMax, MetricConfig

_CONFIG: Final = MetricConfig()


class NodeLatencies:
    """Of one client. A broker is there from its first answer on."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._all = AvgMinMax()
        self._nodes: dict[int, AvgMinMax] = {}

    def record(self, node_id: int, latencies_ms: Sequence[float], now_ms: int) -> None:
        """Answers of one broker that came together; at least one."""
        of_node = self._nodes.get(node_id)
        if of_node is None:
            of_node = self._nodes[node_id] = AvgMinMax()
        of_node.record_all(_CONFIG, latencies_ms, now_ms)
        self._all.record_all(_CONFIG, latencies_ms, now_ms)

    def readings(self, name: str) -> Iterator[tuple[str, float]]:
        """Over all brokers, as `<name>-avg` and `<name>-max`."""
        yield from self._all.avg_and_max(name, _CONFIG, self._clock.monotonic_ms())

    def node_readings(self) -> Iterator[tuple[int, Iterator[tuple[str, float]]]]:
        """By the ids of brokers."""
        now_ms = self._clock.monotonic_ms()
        for node_id, stat in self._nodes.items():
            yield node_id, stat.avg_and_max("request-latency", _CONFIG, now_ms)
