"""The bytes of the "consumer" protocol inside the classic group protocol (Kafka's
`ConsumerProtocol`): what members say of themselves, and what the leader assigns.

An int16 version, then the message. A version above the newest known one is read as that one,
because newer versions only append. ProtocolReadError for bytes that are neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from kmirror.clients.consumer.partition_assignor import DEFAULT_GENERATION, Subscription, by_topic
from kmirror.common.topic_partition import TopicPartition
from kmirror.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from kmirror.wire.messages.consumer_protocol_assignment import TopicPartition as AssignedTopic
from kmirror.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kmirror.wire.messages.consumer_protocol_subscription import TopicPartition as OwnedTopic
from kmirror.wire.primitives import ProtocolReadError, Writer

PROTOCOL_TYPE: Final = "consumer"


def serialize_subscription(subscription: Subscription) -> bytes:
    """Version 3, as Kafka 4.3 writes it: topics and owned partitions are sorted."""
    message = ConsumerProtocolSubscription(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=[
            OwnedTopic(topic=topic, partitions=numbers) for topic, numbers in by_topic(sorted(subscription.owned_partitions)).items()
        ],
        generation_id=subscription.generation_id,
        rack_id=subscription.rack_id or None,
    )
    return _written(message, ConsumerProtocolSubscription.HIGHEST_VERSION)


def deserialize_subscription(data: bytes, *, group_instance_id: str | None = None) -> Subscription:
    """The subscription of a member; the instance id comes from outside of the bytes."""
    version = min(_version(data), ConsumerProtocolSubscription.HIGHEST_VERSION)
    message = ConsumerProtocolSubscription.read(memoryview(data), 2, version)[0]
    return Subscription(
        topics=message.topics,
        owned_partitions=_flat(message.owned_partitions),
        generation_id=max(message.generation_id, DEFAULT_GENERATION),
        user_data=None if message.user_data is None else bytes(message.user_data),
        rack_id=message.rack_id,
        group_instance_id=group_instance_id,
    )


def serialize_assignment(partitions: Iterable[TopicPartition], user_data: bytes | None = None) -> bytes:
    """Version 3; partitions by topic, in order of first appearance."""
    topics = [AssignedTopic(topic=topic, partitions=numbers) for topic, numbers in by_topic(partitions).items()]
    return _written(ConsumerProtocolAssignment(assigned_partitions=topics, user_data=user_data), ConsumerProtocolAssignment.HIGHEST_VERSION)


def deserialize_assignment(data: bytes) -> list[TopicPartition]:
    """The partitions of an assignment. No bytes at all, as a broker gives a member that the leader
    left out, are an empty assignment."""
    if not data:
        return []
    version = min(_version(data), ConsumerProtocolAssignment.HIGHEST_VERSION)
    return _flat(ConsumerProtocolAssignment.read(memoryview(data), 2, version)[0].assigned_partitions)


def _flat(topics: Sequence[AssignedTopic] | Sequence[OwnedTopic]) -> list[TopicPartition]:
    return [TopicPartition(row.topic, number) for row in topics for number in row.partitions]


def _version(data: bytes) -> int:
    if len(data) < 2:
        raise ProtocolReadError(f"data of the consumer protocol has at least 2 bytes, not {len(data)}")
    version = int.from_bytes(data[:2], "big", signed=True)
    if version < 0:
        raise ProtocolReadError(f"consumer protocol version {version} is negative")
    return version


def _written(message: ConsumerProtocolSubscription | ConsumerProtocolAssignment, version: int) -> bytes:
    out = Writer()
    message.write(out, version)
    return version.to_bytes(2, "big") + out.to_bytes()
