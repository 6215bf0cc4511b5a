"""Which topics a client keeps its knowledge of fresh for (Kafka's `ProducerMetadata`, KIP-526).

A topic is in use if somebody has asked about it in the last metadata.max.idle.ms. A refresh that is
due for one topic asks for all of them. A producer's request makes the topics that it names, so one
that was deleted would come back again and again if it were named for ever.
"""

from __future__ import annotations

from kmirror.clients.cluster_metadata import ClusterMetadata
from kmirror.common.ports import Clock


class TopicsInUse:
    """Notes uses of topics, and says when one is older than metadata.max.age.ms."""

    def __init__(self, clock: Clock, metadata: ClusterMetadata, *, max_age_ms: int, max_idle_ms: int) -> None:
        self._clock = clock
        self._metadata = metadata
        self._max_age_ms = max_age_ms
        self._max_idle_ms = max_idle_ms
        self._fresh_until_ms: dict[str, int] = {}
        self._used_ms: dict[str, int] = {}

    def is_stale(self, topic: str) -> bool:
        """Notes that the topic is used now; returns whether what is known of it is due for a refresh."""
        now_ms = self._used_ms[topic] = self._clock.monotonic_ms()
        if now_ms < self._fresh_until_ms.get(topic, 0):
            return False
        age_ms = self._metadata.age_ms(topic, now_ms)
        if age_ms is None:
            return False
        if age_ms < self._max_age_ms:
            self._fresh_until_ms[topic] = now_ms + self._max_age_ms - age_ms
            return False
        return True

    def names(self) -> list[str]:
        """The known topics that are in use; forgets the idle ones."""
        now_ms = self._clock.monotonic_ms()
        oldest_ms = now_ms - self._max_idle_ms
        self._used_ms = {topic: used_ms for topic, used_ms in self._used_ms.items() if used_ms >= oldest_ms}
        return [topic for topic in self._used_ms if self._metadata.age_ms(topic, now_ms) is not None]
