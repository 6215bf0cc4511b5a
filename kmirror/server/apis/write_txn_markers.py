"""WriteTxnMarkers (key 27), sent by transaction coordinators and by `kafka-transactions abort`.

Served: v1-v2.

    v2   the transaction version: in version 2 a marker's epoch is above the epoch of the data (KIP-1228)

A marker ends a producer's transaction in each partition that it names. The answer comes when the
in-sync replicas have it. Each partition has its own error: a newer coordinator or epoch was seen
(TRANSACTION_COORDINATOR_FENCED, INVALID_PRODUCER_EPOCH), or the leader is not here. Markers for
`__consumer_offsets` go through the group coordinator, where they put pending offsets into force.

A partition that mirrors another cluster takes its markers from there. Nothing is appended, and the
answer is success: otherwise a transaction that was open when the topic became a mirror would never
be completed (C41). While it is not known whether the partition mirrors, the answer is
NOT_LEADER_OR_FOLLOWER.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kmirror.common.acl import AclOperation
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import GROUP_METADATA_TOPIC_NAME, TopicPartition
from kmirror.record.control_record import ControlRecordType, build_end_transaction_marker
from kmirror.replica.partition import ReadOnlyReason
from kmirror.runtime.api import run_together
from kmirror.server.request import Request
from kmirror.storage.log_append_info import AppendOrigin
from kmirror.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis

_GROUP_COORDINATOR_NOT_READY = (Errors.COORDINATOR_NOT_AVAILABLE, Errors.COORDINATOR_LOAD_IN_PROGRESS, Errors.NOT_COORDINATOR)


async def handle_write_txn_markers(apis: KafkaApis, request: Request) -> WriteTxnMarkersResponse:
    message: WriteTxnMarkersRequest = request.message
    if not apis.auth.may_on_cluster(request, AclOperation.ALTER, log_if_denied=False):
        apis.auth.authorize_cluster_operation(request, AclOperation.CLUSTER_ACTION)
    appends = [_Append(apis, marker) for marker in message.markers]
    return WriteTxnMarkersResponse(markers=await run_together(apis.runtime, "markers", [append.result() for append in appends]))


class _Append:
    """One marker, appended to all its partitions on construction; `result` tells when it is
    done.
    """

    def __init__(self, apis: KafkaApis, marker: WritableTxnMarker) -> None:
        self._apis = apis
        self._marker = marker
        self._partitions = [TopicPartition(topic.name, number) for topic in marker.topics for number in topic.partition_indexes]
        self._offsets_partitions = [partition for partition in self._partitions if partition.topic == GROUP_METADATA_TOPIC_NAME]
        self._read_only = {partition: error for partition in self._partitions if (error := self._mirror_answer(partition)) is not None}
        self._written = apis.replica_manager.append_records(
            timeout_ms=apis.config.request_timeout_ms,
            required_acks=-1,
            origin=AppendOrigin.COORDINATOR,
            entries={
                partition: self._batch()
                for partition in self._partitions
                if partition.topic != GROUP_METADATA_TOPIC_NAME
                and partition not in self._read_only
                and apis.replica_manager.get_partition(partition) is not None
            },
            internal_topics_allowed=True,
            transaction_version=marker.transaction_version,
        )

    def _mirror_answer(self, topic_partition: TopicPartition) -> Errors | None:
        """Returns the answer for a read-only partition that is led here; None for any other."""
        partition = self._apis.replica_manager.get_partition(topic_partition)
        if partition is None or not partition.is_leader or not partition.is_read_only:
            return None
        is_unknown = partition.read_only_reason is ReadOnlyReason.MIRROR_STATE_UNKNOWN
        return Errors.NOT_LEADER_OR_FOLLOWER if is_unknown else Errors.NONE

    def _batch(self) -> bytearray:
        return build_end_transaction_marker(
            ControlRecordType.COMMIT if self._marker.transaction_result else ControlRecordType.ABORT,
            coordinator_epoch=self._marker.coordinator_epoch,
            producer_id=self._marker.producer_id,
            producer_epoch=self._marker.producer_epoch,
            timestamp=self._apis.runtime.clock.time_ms(),
        )

    async def result(self) -> WritableTxnMarkerResult:
        errors = {partition: await self._complete_offsets(partition) for partition in self._offsets_partitions}
        errors |= self._read_only
        errors |= {partition: response.error for partition, response in (await self._written).items()}
        return WritableTxnMarkerResult(
            producer_id=self._marker.producer_id,
            topics=[
                WritableTxnMarkerTopicResult(
                    name=topic.name,
                    partitions=[
                        WritableTxnMarkerPartitionResult(
                            partition_index=number,
                            error_code=errors.get(TopicPartition(topic.name, number), Errors.UNKNOWN_TOPIC_OR_PARTITION),
                        )
                        for number in topic.partition_indexes
                    ],
                )
                for topic in self._marker.topics
            ],
        )

    async def _complete_offsets(self, partition: TopicPartition) -> Errors:
        marker = self._marker
        if self._apis.replica_manager.get_partition(partition) is None or self._apis.group_coordinator is None:
            return Errors.UNKNOWN_TOPIC_OR_PARTITION
        try:
            await self._apis.group_coordinator.complete_transaction(
                partition,
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                coordinator_epoch=marker.coordinator_epoch,
                committed=marker.transaction_result,
                transaction_version=marker.transaction_version,
            )
        except ApiException as error:
            return Errors.NOT_LEADER_OR_FOLLOWER if error.error in _GROUP_COORDINATOR_NOT_READY else error.error
        return Errors.NONE
