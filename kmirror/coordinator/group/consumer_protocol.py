"""The "consumer" protocol inside the classic one: subscriptions and assignments as bytes (Kafka's
`ConsumerProtocol`).

An int16 version, then the message. A newer version than the newest known one is read as the latter,
since newer versions only append. Raises ProtocolReadError for bytes that cannot be read.
"""

from __future__ import annotations

from collections.abc import Mapping

from kmirror.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from kmirror.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kmirror.wire.primitives import ProtocolReadError, Writer


def protocol_version(data: bytes) -> int:
    """Returns the version that the bytes begin with."""
    if len(data) < 2:
        raise ProtocolReadError(f"data of the consumer protocol must have at least 2 bytes, but has {len(data)}")
    version = int.from_bytes(data[:2], "big", signed=True)
    if version < 0:
        raise ProtocolReadError(f"consumer protocol version {version} is negative")
    return version


def deserialize_subscription(data: bytes) -> ConsumerProtocolSubscription:
    version = min(protocol_version(data), ConsumerProtocolSubscription.HIGHEST_VERSION)
    return ConsumerProtocolSubscription.read(memoryview(data), 2, version)[0]


def deserialize_assignment(data: bytes) -> ConsumerProtocolAssignment:
    version = min(protocol_version(data), ConsumerProtocolAssignment.HIGHEST_VERSION)
    return ConsumerProtocolAssignment.read(memoryview(data), 2, version)[0]


def serialize_assignment(partitions: Mapping[str, list[int]], version: int) -> bytes:
    """Encodes partitions by topic name, in the order given."""
    version = min(version, ConsumerProtocolAssignment.HIGHEST_VERSION)
    topics = [TopicPartition(topic=topic, partitions=numbers) for topic, numbers in partitions.items()]
    out = Writer()
    ConsumerProtocolAssignment(assigned_partitions=topics).write(out, version)
    return version.to_bytes(2, "big", signed=True) + out.to_bytes()
