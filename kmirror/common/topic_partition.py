"""`TopicPartition` and `TopicIdPartition`, and the names of Kafka's internal topics."""

from __future__ import annotations

import codecs
from typing import Final, NamedTuple

from kmirror.common.uuid import Uuid

GROUP_METADATA_TOPIC_NAME = "__consumer_offsets"
TRANSACTION_STATE_TOPIC_NAME = "__transaction_state"
SHARE_GROUP_STATE_TOPIC_NAME = "__share_group_state"
CLUSTER_METADATA_TOPIC_NAME = "__cluster_metadata"
MIRROR_STATE_TOPIC_NAME = "__mirror_state"
INTERNAL_TOPICS = frozenset(
    (GROUP_METADATA_TOPIC_NAME, TRANSACTION_STATE_TOPIC_NAME, SHARE_GROUP_STATE_TOPIC_NAME, MIRROR_STATE_TOPIC_NAME)
)
"""The coordinators' topics, which clients may not write to and mirrors leave alone (Kafka's
`Topic.INTERNAL_TOPICS`, and KIP-1279's). `__cluster_metadata` is not among them: it is a log that
no metadata lists as a topic."""


class TopicPartition(NamedTuple):
    """A partition, by its topic's name. Its text is `topic-0`, as in Kafka, which is also the name
    of its folder."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TopicIdPartition(NamedTuple):
    """A partition, by topic id and name."""

    topic_id: Uuid
    topic: str
    partition: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.topic_id}:{self.topic}-{self.partition}"


_UTF_16: Final = codecs.getencoder("utf-16-be")
"""Found now, because Python reads a codec's file when it is first used, and may have no descriptor left then."""


def java_string_hash(text: str) -> int:
    """Java's `String.hashCode` (signed 32-bit, over UTF-16 units); Kafka uses it to assign groups
    and transactional ids to partitions."""
    value = 0
    units, _ = _UTF_16(text)
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def partition_for(text: str, partitions: int) -> int:
    """Returns the partition of a coordinator's topic for `text` (Kafka's `Utils.abs(hash) %
    partitions`; abs(MIN_VALUE) is 0)."""
    value = java_string_hash(text)
    return 0 if value == -(1 << 31) else abs(value) % partitions
