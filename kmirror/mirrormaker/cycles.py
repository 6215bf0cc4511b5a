"""Which topics a flow may copy: cycles, internal topics, heartbeats.

A topic is not copied to a cluster that is among its sources, however far back (CY1, CY2). No alias
therefore occurs twice in a name, and every topology ends with a finite number of topics (CY3). A
diamond is no cycle: `B.A.t` and `C.A.t` are two topics with the same records (CY6).
"""

from __future__ import annotations

from typing import NamedTuple

from kmirror.mirrormaker.replication_policy import ReplicationPolicy
from kmirror.mirrormaker.topic_filters import TopicFilter


class SourceAndTarget(NamedTuple):
    """A flow, by the aliases of its clusters. Its text is `A->B`, as in configuration files."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"


def is_cycle(policy: ReplicationPolicy, target: str, topic: str) -> bool:
    """Whether `target` is among the topic's sources.

    A policy that keeps names has the same upstream name for ever; the search ends there (CY4).
    """
    while True:
        source = policy.topic_source(topic)
        if source is None:
            return False
        if source == target:
            return True
        upstream = policy.upstream_topic(topic)
        if upstream is None or upstream == topic:
            return False
        topic = upstream


class TopicSelection(NamedTuple):
    """What a source connector copies (`MirrorSourceConnector.shouldReplicateTopic`)."""

    flow: SourceAndTarget
    policy: ReplicationPolicy
    topic_filter: TopicFilter
    heartbeats_replication_enabled: bool = True

    def should_replicate_topic(self, topic: str) -> bool:
        """The filter takes the topic, or it has heartbeats that are always copied; it is not
        internal, and copying it would not close a cycle (FI4).
        """
        wanted = self.topic_filter.should_replicate_topic(topic) or (
            self.heartbeats_replication_enabled and self.policy.is_heartbeats_topic(topic)
        )
        return wanted and not self.policy.is_internal_topic(topic) and not is_cycle(self.policy, self.flow.target, topic)

    def remote_topic(self, topic: str) -> str:
        return self.policy.format_remote_topic(self.flow.source, topic)
