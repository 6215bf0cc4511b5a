"""Returns end offsets of partitions, whoever leads them (Kafka's `NetworkPartitionMetadataClient`);
the lag of share groups needs them.

A partition that this broker leads is asked directly, the others with one ListOffsets request per
leader. The end is the high watermark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kmirror.common.errors import ApiException, Errors
from kmirror.common.sentinels import LATEST_TIMESTAMP, NO_OFFSET, READ_UNCOMMITTED
from kmirror.common.topic_partition import TopicPartition
from kmirror.coordinator.group.share_group_offsets import EndOffset
from kmirror.metadata.image import MetadataImage
from kmirror.network.client import DisconnectError, RequestTimeoutError, UnsupportedVersionError
from kmirror.network.node_channels import BrokerChannel
from kmirror.replica.partition_reader import fetch_offset_for_timestamp
from kmirror.replica.replica_manager import ReplicaManager
from kmirror.replica.replica_types import CONSUMER_REPLICA_ID
from kmirror.runtime.api import Runtime, run_together
from kmirror.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic
from kmirror.wire.primitives import ProtocolReadError

EndOffsets = dict[TopicPartition, EndOffset]


class PartitionMetadataClient:
    def __init__(
        self,
        runtime: Runtime,
        *,
        image: Callable[[], MetadataImage],
        replica_manager: ReplicaManager,
        brokers: BrokerChannel,
        broker_id: int,
    ) -> None:
        self._runtime = runtime
        self._image = image
        self._replica_manager = replica_manager
        self._brokers = brokers
        self._broker_id = broker_id

    async def list_end_offsets(self, partitions: list[TopicPartition]) -> Mapping[TopicPartition, EndOffset]:
        """Returns the end of each partition, or its error."""
        ends: EndOffsets = {}
        by_leader: dict[int, list[TopicPartition]] = {}
        for topic_partition in partitions:
            registration = self._image().topics.partition(topic_partition.topic, topic_partition.partition)
            if registration is None:
                ends[topic_partition] = EndOffset(NO_OFFSET, Errors.UNKNOWN_TOPIC_OR_PARTITION)
            elif not registration.has_leader:
                ends[topic_partition] = EndOffset(NO_OFFSET, Errors.NOT_LEADER_OR_FOLLOWER)
            elif registration.leader == self._broker_id:
                ends[topic_partition] = self._end_here(topic_partition)
            else:
                by_leader.setdefault(registration.leader, []).append(topic_partition)
        if by_leader:
            asked = [self._ask(leader, group) for leader, group in by_leader.items()]
            for found in await run_together(self._runtime, "end-offsets", asked):
                ends |= found
        return ends

    def _end_here(self, topic_partition: TopicPartition) -> EndOffset:
        try:
            partition = self._replica_manager.get_partition_or_exception(topic_partition)
        except ApiException as error:
            return EndOffset(NO_OFFSET, error.error)
        result = fetch_offset_for_timestamp(
            partition, timestamp=LATEST_TIMESTAMP, isolation_level=READ_UNCOMMITTED, current_leader_epoch=None, fetch_only_leader=True
        )
        return EndOffset(result.offset, result.error)

    async def _ask(self, leader: int, partitions: list[TopicPartition]) -> EndOffsets:
        topics: dict[str, ListOffsetsTopic] = {}
        for topic_partition in partitions:
            topic = topics.setdefault(topic_partition.topic, ListOffsetsTopic(name=topic_partition.topic))
            topic.partitions.append(ListOffsetsPartition(partition_index=topic_partition.partition, timestamp=LATEST_TIMESTAMP))
        request = ListOffsetsRequest(replica_id=CONSUMER_REPLICA_ID, isolation_level=READ_UNCOMMITTED, topics=list(topics.values()))
        try:
            response: ListOffsetsResponse = await self._brokers.send(leader, request)
        except DisconnectError:
            return dict.fromkeys(partitions, EndOffset(NO_OFFSET, Errors.NETWORK_EXCEPTION))
        except RequestTimeoutError:
            return dict.fromkeys(partitions, EndOffset(NO_OFFSET, Errors.REQUEST_TIMED_OUT))
        except (UnsupportedVersionError, ProtocolReadError):
            return dict.fromkeys(partitions, EndOffset(NO_OFFSET, Errors.UNSUPPORTED_VERSION))
        except ApiException as error:
            return dict.fromkeys(partitions, EndOffset(NO_OFFSET, error.error))
        found = {
            TopicPartition(topic.name, row.partition_index): EndOffset(row.offset, Errors.for_code(row.error_code))
            for topic in response.topics
            for row in topic.partitions
        }
        return {partition: found.get(partition, EndOffset(NO_OFFSET, Errors.UNKNOWN_SERVER_ERROR)) for partition in partitions}
