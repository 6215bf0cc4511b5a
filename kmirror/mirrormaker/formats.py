"""The records of MirrorMaker 2's internal topics, to the byte.

    heartbeats                     key  sourceClusterAlias STRING, targetClusterAlias STRING
                                   value  version INT16 = 0, timestamp INT64 (ms)
    <source>.checkpoints.internal  key  group STRING, topic STRING (at the target), partition INT32
                                   value  version INT16 = 0, upstreamOffset INT64, offset INT64, metadata STRING
    mm2-offset-syncs.<x>.internal  key  topic STRING (at the source), partition INT32
                                   value  upstreamOffset INT64, offset INT64

A STRING is an INT16 length and UTF-8; integers are big-endian. KIP-382 calls the offsets `int` and
says that an offset sync has the remote topic's name; Kafka's format is the one above. `offset` is
the offset at the target.

As in Kafka, a version other than 0 is read as 0, and bytes behind the last field are ignored. What
is torn is a SchemaException with the field's name; readers skip such a record. A record without key
or value is torn, too: Kafka fails there with a NullPointerException, and its task with it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition

VERSION: Final = 0
MAX_STRING_BYTES: Final = 32_767
_INT16, _INT32, _INT64 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")


class SchemaException(KmirrorError):
    """Bytes that are not a record of this format (Kafka's `SchemaException`)."""


class Heartbeat(NamedTuple):
    """A sign of life of a flow, written into its target."""

    source_cluster_alias: str
    target_cluster_alias: str
    timestamp: int

    @property
    def connect_partition(self) -> tuple[tuple[str, str | int], ...]:
        """The names and values of its source partition."""
        return ("sourceClusterAlias", self.source_cluster_alias), ("targetClusterAlias", self.target_cluster_alias)

    @property
    def record_key(self) -> bytes:
        return _string("sourceClusterAlias", self.source_cluster_alias) + _string("targetClusterAlias", self.target_cluster_alias)

    @property
    def record_value(self) -> bytes:
        return _INT16.pack(VERSION) + _INT64.pack(self.timestamp)

    @classmethod
    def deserialize_record(cls, key: bytes | None, value: bytes | None) -> Heartbeat:
        fields, keys = _Reader(value, "value"), _Reader(key, "key")
        fields.number("version", _INT16)
        timestamp = fields.number("timestamp", _INT64)
        return cls(keys.string("sourceClusterAlias"), keys.string("targetClusterAlias"), timestamp)

    def __str__(self) -> str:
        return (
            f"Heartbeat{{sourceClusterAlias={self.source_cluster_alias}, targetClusterAlias={self.target_cluster_alias}, "
            f"timestamp={self.timestamp}}}"
        )


class Checkpoint(NamedTuple):
    """A group's offset in both clusters. `topic_partition` is the target's."""

    consumer_group_id: str
    topic_partition: TopicPartition
    upstream_offset: int
    downstream_offset: int
    metadata: str = ""

    @property
    def connect_partition(self) -> tuple[tuple[str, str | int], ...]:
        """The names and values of its source partition."""
        topic, partition = self.topic_partition
        return ("partition", partition), ("topic", topic), ("group", self.consumer_group_id)

    @property
    def record_key(self) -> bytes:
        topic, partition = self.topic_partition
        return _string("group", self.consumer_group_id) + _string("topic", topic) + _INT32.pack(partition)

    @property
    def record_value(self) -> bytes:
        offsets = _INT64.pack(self.upstream_offset) + _INT64.pack(self.downstream_offset)
        return _INT16.pack(VERSION) + offsets + _string("metadata", self.metadata)

    @classmethod
    def deserialize_record(cls, key: bytes | None, value: bytes | None) -> Checkpoint:
        fields, keys = _Reader(value, "value"), _Reader(key, "key")
        fields.number("version", _INT16)
        upstream, downstream = fields.number("upstreamOffset", _INT64), fields.number("offset", _INT64)
        metadata = fields.string("metadata")
        group = keys.string("group")
        return cls(group, TopicPartition(keys.string("topic"), keys.number("partition", _INT32)), upstream, downstream, metadata)

    def __str__(self) -> str:
        return (
            f"Checkpoint{{consumerGroupId={self.consumer_group_id}, topicPartition={self.topic_partition}, "
            f"upstreamOffset={self.upstream_offset}, downstreamOffset={self.downstream_offset}, metadata={self.metadata}}}"
        )


class OffsetSync(NamedTuple):
    """One record's offset in both clusters. `topic_partition` is the source's."""

    topic_partition: TopicPartition
    upstream_offset: int
    downstream_offset: int

    @property
    def record_key(self) -> bytes:
        topic, partition = self.topic_partition
        return _string("topic", topic) + _INT32.pack(partition)

    @property
    def record_value(self) -> bytes:
        return _INT64.pack(self.upstream_offset) + _INT64.pack(self.downstream_offset)

    @classmethod
    def deserialize_record(cls, key: bytes | None, value: bytes | None) -> OffsetSync:
        keys = _Reader(key, "key")
        topic_partition = TopicPartition(keys.string("topic"), keys.number("partition", _INT32))
        fields = _Reader(value, "value")
        return cls(topic_partition, fields.number("upstreamOffset", _INT64), fields.number("offset", _INT64))

    def __str__(self) -> str:
        return (
            f"OffsetSync{{topicPartition={self.topic_partition}, upstreamOffset={self.upstream_offset}, "
            f"downstreamOffset={self.downstream_offset}}}"
        )


FORMATTERS: Final[dict[str, Callable[[bytes | None, bytes | None], Heartbeat | Checkpoint | OffsetSync]]] = {
    "HeartbeatFormatter": Heartbeat.deserialize_record,
    "CheckpointFormatter": Checkpoint.deserialize_record,
    "OffsetSyncFormatter": OffsetSync.deserialize_record,
    "HeartbeatMessageFormatter": Heartbeat.deserialize_record,
    "CheckpointMessageFormatter": Checkpoint.deserialize_record,
}
"""The console consumer's formatters (KIP-597) of `org.apache.kafka.connect.mirror.formatters`. The
last two are KIP-382's names for the first two. A record's line is its text, as in Kafka.
"""


class _Reader:
    """Reads fields one after the other; errors name the field, in Kafka's words."""

    def __init__(self, data: bytes | None, what: str) -> None:
        if data is None:
            raise SchemaException(f"the record has no {what}")
        self._data = data
        self._position = 0

    def number(self, field: str, layout: struct.Struct) -> int:
        end = self._position + layout.size
        if end > len(self._data):
            raise SchemaException(f"Error reading field '{field}': java.nio.BufferUnderflowException")
        (value,) = layout.unpack_from(self._data, self._position)
        self._position = end
        return int(value)

    def string(self, field: str) -> str:
        length = self.number(field, _INT16)
        left = len(self._data) - self._position
        if length < 0:
            raise SchemaException(f"Error reading field '{field}': String length {length} cannot be negative")
        if length > left:
            raise SchemaException(f"Error reading field '{field}': Error reading string of length {length}, only {left} bytes available")
        self._position += length
        return bytes(self._data[self._position - length : self._position]).decode("utf-8", "replace")


def _string(field: str, text: str) -> bytes:
    data = text.encode()
    if len(data) > MAX_STRING_BYTES:
        raise SchemaException(
            f"Error computing size for field '{field}': String length {len(data)} is larger than the maximum string length."
        )
    return _INT16.pack(len(data)) + data
