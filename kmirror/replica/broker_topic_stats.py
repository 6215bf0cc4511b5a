"""Traffic meters, over all topics and per topic (Kafka's `BrokerTopicStats`, MBeans
`kafka.server:type=BrokerTopicMetrics`)."""

from __future__ import annotations

from kmirror.common.metrics import Meter, MetricName, MetricsRegistry
from kmirror.replica.replica_types import FetchResults

_GROUP = "kafka.server"
_TYPE = "BrokerTopicMetrics"


class TopicMeters:
    """The meters of one topic, or of all topics together when `topic` is None."""

    def __init__(self, registry: MetricsRegistry, topic: str | None) -> None:
        self._registry = registry
        self._names: list[MetricName] = []
        self._tags = () if topic is None else (("topic", topic),)
        self.messages_in = self._meter("MessagesInPerSec")
        self.bytes_in = self._meter("BytesInPerSec")
        self.bytes_out = self._meter("BytesOutPerSec")
        self.bytes_rejected = self._meter("BytesRejectedPerSec")
        self.total_produce_requests = self._meter("TotalProduceRequestsPerSec")
        self.total_fetch_requests = self._meter("TotalFetchRequestsPerSec")
        self.failed_produce_requests = self._meter("FailedProduceRequestsPerSec")
        self.failed_fetch_requests = self._meter("FailedFetchRequestsPerSec")

    def _meter(self, name: str) -> Meter:
        metric_name = MetricName(_GROUP, _TYPE, name, self._tags)
        self._names.append(metric_name)
        return self._registry.meter(metric_name)

    def remove(self) -> None:
        for name in self._names:
            self._registry.remove(name)


class BrokerTopicStats:
    def __init__(self, registry: MetricsRegistry) -> None:
        self._registry = registry
        self.all_topics = TopicMeters(registry, None)
        self.replication_bytes_in = registry.meter(MetricName(_GROUP, _TYPE, "ReplicationBytesInPerSec"))
        self.replication_bytes_out = registry.meter(MetricName(_GROUP, _TYPE, "ReplicationBytesOutPerSec"))
        self.reassignment_bytes_in = registry.meter(MetricName(_GROUP, _TYPE, "ReassignmentBytesInPerSec"))
        self.reassignment_bytes_out = registry.meter(MetricName(_GROUP, _TYPE, "ReassignmentBytesOutPerSec"))
        self._topics: dict[str, TopicMeters] = {}

    def topic(self, topic: str) -> TopicMeters:
        meters = self._topics.get(topic)
        if meters is None:
            meters = self._topics[topic] = TopicMeters(self._registry, topic)
        return meters

    def remove_topic(self, topic: str) -> None:
        meters = self._topics.pop(topic, None)
        if meters is not None:
            meters.remove()

    def appended(self, topic: str, *, size_in_bytes: int, messages: int) -> None:
        """Counts a produce that was appended."""
        for meters in (self.topic(topic), self.all_topics):
            meters.bytes_in.mark(size_in_bytes)
            meters.messages_in.mark(messages)

    def fetched(self, topic: str, *, size_in_bytes: int) -> None:
        """Counts `size_in_bytes` of log sent to a consumer."""
        self.topic(topic).bytes_out.mark(size_in_bytes)
        self.all_topics.bytes_out.mark(size_in_bytes)

    def not_sent(self, results: FetchResults) -> None:
        """Takes back what was counted as fetched, if a quota keeps it from being sent."""
        for topic, data in results:
            if data.records is not None:
                self.fetched(topic.topic, size_in_bytes=-data.size_in_bytes)
