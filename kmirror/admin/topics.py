"""AdminClient calls about topics: list, describe, create, delete, add partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kmirror.admin.admin_requests import AdminRequests, error_of, raise_about, raise_for
from kmirror.admin.results import (
    NewPartitions,
    NewTopic,
    PartitionDescription,
    RequestOptions,
    TopicDescription,
    TopicListing,
    TopicResults,
)
from kmirror.common.errors import ApiException, Errors
from kmirror.common.uuid import Uuid
from kmirror.wire.messages.create_partitions import CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic
from kmirror.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    MirrorInfo,
)
from kmirror.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kmirror.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    TopicRequest,
)
from kmirror.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

PARTITIONS_PER_RESPONSE = 2_000


async def list_topics(cluster: AdminRequests, *, include_internal: bool = False) -> list[str]:
    """Returns the names of topics, sorted."""
    return [topic.name for topic in await list_topic_listings(cluster) if include_internal or not topic.is_internal]


async def list_topic_listings(cluster: AdminRequests) -> list[TopicListing]:
    """Returns every topic with its id, sorted by name, except those that are being deleted."""
    response = await cluster.metadata(None)
    listed = [TopicListing(row.name, row.topic_id, row.is_internal) for row in response.topics if row.name and row.error_code == 0]
    return sorted(listed, key=lambda topic: topic.name)


def check_representable(names: Iterable[str]) -> None:
    """Raises ApiException INVALID_TOPIC_EXCEPTION for an empty name, as Kafka's client does."""
    if not all(names):
        text = "The given topic name '' cannot be represented in a request."
        raise ApiException(Errors.INVALID_TOPIC_EXCEPTION, text)


async def describe_topics(cluster: AdminRequests, names: Iterable[str]) -> dict[str, TopicDescription]:
    """Returns those of `names` that exist, from Metadata: leaders, replicas, ISR."""
    wanted = sorted(names)
    check_representable(wanted)
    response = await cluster.metadata(wanted) if wanted else MetadataResponse()
    result = {}
    for topic in response.topics:
        if topic.error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION or topic.name is None:
            continue
        raise_about(topic.error_code, f"topic {topic.name}")
        result[topic.name] = TopicDescription(topic.name, topic.topic_id, topic.is_internal, [_partition(p) for p in _ordered(topic)])
    return result


async def describe_topics_by_ids(cluster: AdminRequests, topic_ids: Iterable[Uuid]) -> dict[Uuid, TopicDescription]:
    """Returns those of `topic_ids` that exist."""
    wanted = [MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in topic_ids]
    response = await cluster.ask_any(MetadataRequest(topics=wanted, allow_auto_topic_creation=False))
    result = {}
    for topic in response.topics:
        if topic.error_code in (Errors.UNKNOWN_TOPIC_ID, Errors.UNKNOWN_TOPIC_OR_PARTITION) or topic.name is None:
            continue
        raise_about(topic.error_code, f"topic {topic.topic_id}")
        partitions = [_partition(p) for p in _ordered(topic)]
        result[topic.topic_id] = TopicDescription(topic.name, topic.topic_id, topic.is_internal, partitions)
    return result


async def describe_topic_partitions(
    cluster: AdminRequests, names: Iterable[str], *, partitions_per_response: int = PARTITIONS_PER_RESPONSE
) -> dict[str, TopicDescription]:
    """Returns those of `names` that exist, with eligible leader replicas (KIP-966), page by
    page.
    """
    pages: dict[str, list[Any]] = {}
    facts: dict[str, Any] = {}
    cursor = None
    wanted = [TopicRequest(name=name) for name in sorted(names)]
    while wanted:
        request = DescribeTopicPartitionsRequest(topics=wanted, response_partition_limit=partitions_per_response, cursor=cursor)
        response = await cluster.ask_any(request)
        for topic in response.topics:
            if topic.error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            raise_for(topic.error_code, None)
            facts[topic.name] = topic
            pages.setdefault(topic.name, []).extend(topic.partitions)
        following = response.next_cursor
        if following is None:
            break
        cursor = DescribeTopicPartitionsRequestCursor(topic_name=following.topic_name, partition_index=following.partition_index)
        wanted = [topic for topic in wanted if topic.name >= following.topic_name]
    return {
        name: TopicDescription(name, topic.topic_id, topic.is_internal, [_partition_with_elr(row) for row in pages[name]])
        for name, topic in facts.items()
    }


async def create_topics(
    cluster: AdminRequests, topics: Iterable[NewTopic], options: RequestOptions | None = None, *, validate_only: bool = False
) -> TopicResults:
    """Creates topics, or with `validate_only` checks whether they could be; returns each outcome."""
    timeout_ms = cluster.timeout(options)
    wanted = [_creatable(topic) for topic in topics]
    check_representable(topic.name for topic in wanted)
    request = CreateTopicsRequest(topics=wanted, timeout_ms=timeout_ms, validate_only=validate_only)
    response = await cluster.ask_any(request, timeout_ms)
    return TopicResults({row.name: error_of(row.error_code, row.error_message) for row in response.topics})


async def delete_topics(cluster: AdminRequests, names: Iterable[str], options: RequestOptions | None = None) -> TopicResults:
    """Deletes topics by their names; returns each outcome."""
    timeout_ms = cluster.timeout(options)
    wanted = sorted(names)
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in wanted], topic_names=wanted, timeout_ms=timeout_ms)
    response = await cluster.ask_any(request, timeout_ms)
    return TopicResults({row.name or "": error_of(row.error_code, row.error_message) for row in response.responses})


async def delete_topics_by_ids(cluster: AdminRequests, topic_ids: Iterable[Uuid], options: RequestOptions | None = None) -> TopicResults:
    """Deletes the topics with these ids, whatever topics have their names by then.

    Outcomes are keyed by the ids' text; UNKNOWN_TOPIC_ID for an id without a topic (Kafka's
    `TopicCollection.ofTopicIds`).
    """
    timeout_ms = cluster.timeout(options)
    topics = [DeleteTopicState(name=None, topic_id=topic_id) for topic_id in topic_ids]
    response = await cluster.ask_any(DeleteTopicsRequest(topics=topics, timeout_ms=timeout_ms), timeout_ms)
    return TopicResults({str(row.topic_id): error_of(row.error_code, row.error_message) for row in response.responses})


async def create_partitions(
    cluster: AdminRequests, counts: Mapping[str, int | NewPartitions], options: RequestOptions | None = None
) -> TopicResults:
    """Increases topics to the given total numbers of partitions."""
    timeout_ms = cluster.timeout(options)
    topics = []
    for name, count in counts.items():
        wanted = NewPartitions(count) if isinstance(count, int) else count
        assignments = None
        if wanted.new_assignments is not None:
            assignments = [CreatePartitionsAssignment(broker_ids=list(brokers)) for brokers in wanted.new_assignments]
        topics.append(CreatePartitionsTopic(name=name, count=wanted.total_count, assignments=assignments))
    response = await cluster.ask_any(CreatePartitionsRequest(topics=topics, timeout_ms=timeout_ms), timeout_ms)
    return TopicResults({row.name: error_of(row.error_code, row.error_message) for row in response.results})


def _ordered(topic: Any) -> Sequence[Any]:
    return sorted(topic.partitions, key=lambda partition: partition.partition_index)


def _partition(row: Any) -> PartitionDescription:
    return PartitionDescription(row.partition_index, row.leader_id, row.leader_epoch, list(row.replica_nodes), list(row.isr_nodes))


def _partition_with_elr(row: Any) -> PartitionDescription:
    return PartitionDescription(
        row.partition_index,
        row.leader_id,
        row.leader_epoch,
        list(row.replica_nodes),
        list(row.isr_nodes),
        list(row.eligible_leader_replicas or ()),
        list(row.last_known_elr or ()),
    )


def _creatable(topic: NewTopic) -> CreatableTopic:
    assignments = [
        CreatableReplicaAssignment(partition_index=partition, broker_ids=list(brokers))
        for partition, brokers in (topic.replicas_assignments or {}).items()
    ]
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if assignments else topic.num_partitions,
        replication_factor=-1 if assignments else topic.replication_factor,
        assignments=assignments,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
        mirror_info=MirrorInfo(topic_id=topic.mirror_topic_id) if topic.mirror_topic_id else None,
    )
