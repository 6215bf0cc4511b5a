"""How MirrorMaker 2 names topics (Kafka's `ReplicationPolicy`).

`DefaultReplicationPolicy` puts the source's alias before the name: `A.orders` is `orders` of A, and
`B.A.orders` came from A through B (RT1). `IdentityReplicationPolicy` keeps names (RP1); KIP-382
calls it LegacyReplicationPolicy. Only heartbeats have the alias under both, because a flow's
heartbeats could not be told apart otherwise.

The default policy knows nothing of the clusters that exist: whatever stands before the first
separator is the source. A local topic `my.topic` therefore counts as remote from `my` (CY5). The
split is Java's: empty parts at the end do not count, so `a.` is local and `.a` is remote from ``.

`replication.policy.separator` is also in the names of the internal topics, unless
`replication.policy.internal.topic.separator.enabled` is false (KIP-690). As in Kafka that switch
is read only where a separator is given.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final

from kmirror.common.config import invalid_value

REPLICATION_POLICY_CLASS: Final = "replication.policy.class"
SEPARATOR_CONFIG: Final = "replication.policy.separator"
INTERNAL_TOPIC_SEPARATOR_ENABLED_CONFIG: Final = "replication.policy.internal.topic.separator.enabled"
SOURCE_CLUSTER_ALIAS_CONFIG: Final = "source.cluster.alias"
SEPARATOR_DEFAULT: Final = "."
HEARTBEATS_TOPIC: Final = "heartbeats"


class ReplicationPolicy(ABC):
    """The names of remote topics, and what a name says about where the records come from."""

    @abstractmethod
    def format_remote_topic(self, source_cluster_alias: str, topic: str) -> str:
        """Returns the topic's name at the target of a flow from `source_cluster_alias` (RP1)."""

    @abstractmethod
    def topic_source(self, topic: str) -> str | None:
        """Returns the alias that the topic was copied from, None for a local topic (RP2)."""

    @abstractmethod
    def upstream_topic(self, topic: str) -> str | None:
        """Returns the topic's name at its source, None for a local topic (RP3)."""

    def original_topic(self, topic: str) -> str:
        """Returns the name at the first source, the name itself for a local topic (RP4)."""
        while True:
            upstream = self.upstream_topic(topic)
            if upstream is None or upstream == topic:
                return topic
            topic = upstream

    def heartbeats_topic(self) -> str:
        return HEARTBEATS_TOPIC

    def offset_syncs_topic(self, cluster_alias: str) -> str:
        """Returns the topic of offset syncs with the other cluster of the flow (IT3)."""
        return f"mm2-offset-syncs.{cluster_alias}.internal"

    def checkpoints_topic(self, cluster_alias: str) -> str:
        """Returns the target's topic of checkpoints for groups of `cluster_alias` (IT2)."""
        return f"{cluster_alias}.checkpoints.internal"

    def is_heartbeats_topic(self, topic: str) -> bool:
        return self.original_topic(topic) == self.heartbeats_topic()

    def is_checkpoints_topic(self, topic: str) -> bool:
        return topic.endswith(".checkpoints.internal")

    def is_mm2_internal_topic(self, topic: str) -> bool:
        return (topic.startswith("mm2") and topic.endswith(".internal")) or self.is_checkpoints_topic(topic)

    def is_internal_topic(self, topic: str) -> bool:
        """Returns True for topics that are never replicated: Kafka's and MirrorMaker's (RT7). Until
        Kafka 4.0 any name that ends with `.internal` or `-internal` was one (KIP-1074).
        """
        return topic.startswith(("__", ".")) or self.is_mm2_internal_topic(topic)


class DefaultReplicationPolicy(ReplicationPolicy):
    """Remote topics are named `<source alias><separator><topic>`."""

    def __init__(self, separator: str = SEPARATOR_DEFAULT, *, internal_topic_separator_enabled: bool = True) -> None:
        self.separator = separator
        self._internal_separator = separator if internal_topic_separator_enabled else SEPARATOR_DEFAULT

    @classmethod
    def from_props(cls, props: Mapping[str, str]) -> ReplicationPolicy:
        return cls(*_separator(props), internal_topic_separator_enabled=_internal_separator_enabled(props))

    def format_remote_topic(self, source_cluster_alias: str, topic: str) -> str:
        return f"{source_cluster_alias}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        if not self.separator:  # Java's split by nothing: one part for each character
            return topic[0] if len(topic) > 1 else None
        parts = topic.split(self.separator)
        while parts and not parts[-1]:
            parts.pop()
        return parts[0] if len(parts) > 1 else None

    def upstream_topic(self, topic: str) -> str | None:
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def offset_syncs_topic(self, cluster_alias: str) -> str:
        return f"mm2-offset-syncs{self._internal_separator}{cluster_alias}{self._internal_suffix}"

    def checkpoints_topic(self, cluster_alias: str) -> str:
        return cluster_alias + self._checkpoints_suffix

    def is_checkpoints_topic(self, topic: str) -> bool:
        return topic.endswith(self._checkpoints_suffix)

    def is_mm2_internal_topic(self, topic: str) -> bool:
        return (topic.startswith("mm2") and topic.endswith(self._internal_suffix)) or self.is_checkpoints_topic(topic)

    @property
    def _internal_suffix(self) -> str:
        return f"{self._internal_separator}internal"

    @property
    def _checkpoints_suffix(self) -> str:
        return f"{self._internal_separator}checkpoints{self._internal_suffix}"


class IdentityReplicationPolicy(DefaultReplicationPolicy):
    """Remote topics keep their names, except heartbeats.

    Every topic then counts as copied from the configured source, so cycles cannot be seen (CY4):
    two flows in opposite directions copy the same records for ever.
    """

    def __init__(
        self,
        separator: str = SEPARATOR_DEFAULT,
        *,
        internal_topic_separator_enabled: bool = True,
        source_cluster_alias: str | None = None,
    ) -> None:
        super().__init__(separator, internal_topic_separator_enabled=internal_topic_separator_enabled)
        self.source_cluster_alias = source_cluster_alias

    @classmethod
    def from_props(cls, props: Mapping[str, str]) -> ReplicationPolicy:
        return cls(
            *_separator(props),
            internal_topic_separator_enabled=_internal_separator_enabled(props),
            source_cluster_alias=props.get(SOURCE_CLUSTER_ALIAS_CONFIG),
        )

    def format_remote_topic(self, source_cluster_alias: str, topic: str) -> str:
        return super().format_remote_topic(source_cluster_alias, topic) if self._looks_like_heartbeats(topic) else topic

    def topic_source(self, topic: str) -> str | None:
        return super().topic_source(topic) if self._looks_like_heartbeats(topic) else self.source_cluster_alias

    def upstream_topic(self, topic: str) -> str | None:
        return super().upstream_topic(topic) if self._looks_like_heartbeats(topic) else topic

    def _looks_like_heartbeats(self, topic: str) -> bool:
        """Any name that ends so, as in Kafka: a topic `my-heartbeats` gets the alias, too."""
        return topic.endswith(self.heartbeats_topic())


POLICIES: Final[dict[str, type[DefaultReplicationPolicy]]] = {
    "DefaultReplicationPolicy": DefaultReplicationPolicy,
    "IdentityReplicationPolicy": IdentityReplicationPolicy,
    "LegacyReplicationPolicy": IdentityReplicationPolicy,
}
"""By the class's name without its package: KIP-382's samples have another package than Kafka."""


def replication_policy(props: Mapping[str, str]) -> ReplicationPolicy:
    """Returns the configured policy; ConfigError, with Kafka's text, for a class that is not one of
    POLICIES.
    """
    name = props.get(REPLICATION_POLICY_CLASS, "DefaultReplicationPolicy").strip()
    policy = POLICIES.get(name.rpartition(".")[2])
    if policy is None:
        raise invalid_value(REPLICATION_POLICY_CLASS, name, f"Class {name} could not be found.")
    return policy.from_props(props)


def _separator(props: Mapping[str, str]) -> tuple[str, ...]:
    return (props[SEPARATOR_CONFIG],) if SEPARATOR_CONFIG in props else ()


def _internal_separator_enabled(props: Mapping[str, str]) -> bool:
    """Java's `Boolean.parseBoolean`: everything but `true` is false."""
    return SEPARATOR_CONFIG not in props or props.get(INTERNAL_TOPIC_SEPARATOR_ENABLED_CONFIG, "true").lower() == "true"
