"""What brokers report of their replicas: a leader its partitions' ISRs (AlterPartition), and every
broker the directories of its logs (AssignReplicasToDirs, KIP-858).
"""

from __future__ import annotations

from kmirror.common.errors import Errors
from kmirror.common.uuid import Uuid
from kmirror.controller.cluster_control_manager import ClusterControlManager
from kmirror.controller.controller_result import ControllerResult
from kmirror.controller.controller_state import ControllerState
from kmirror.controller.leader_updates import builder_for
from kmirror.metadata.image import TopicImage
from kmirror.metadata.record import ApiMessageAndVersion
from kmirror.metadata.registrations import RECOVERED, RECOVERING, PartitionRegistration
from kmirror.wire.messages import alter_partition as ap
from kmirror.wire.messages import assign_replicas_to_dirs as ad
from kmirror.wire.messages.partition_change_record import PartitionChangeRecord


class ReplicaReports:
    """Decides what becomes of the reports. Each raises STALE_BROKER_EPOCH for a broker's earlier
    life.
    """

    def __init__(self, state: ControllerState, cluster: ClusterControlManager) -> None:
        self._state = state
        self._cluster = cluster

    def alter_partition(self, request: ap.AlterPartitionRequest, version: int) -> ControllerResult[ap.AlterPartitionResponse]:
        """Handles what a partition's leader requests for its ISR."""
        self._cluster.check_broker_epoch(request.broker_id, request.broker_epoch)
        records: list[ApiMessageAndVersion] = []
        response = ap.AlterPartitionResponse()
        for topic_data in request.topics:
            topic = self._state.image.topics.by_id.get(topic_data.topic_id)
            results = []
            for data in topic_data.partitions:
                if topic is None:
                    results.append(_alter_error(data.partition_index, Errors.UNKNOWN_TOPIC_ID))
                    continue
                isr = [state.broker_id for state in data.new_isr_with_epochs] if version >= 3 else list(data.new_isr)
                record, result = self._alter_one(request.broker_id, topic, data, isr)
                records += record
                results.append(result)
            response.topics.append(ap.AlterPartitionResponseTopicData(topic_id=topic_data.topic_id, partitions=results))
        return ControllerResult(records, response)

    def _alter_one(
        self, broker_id: int, topic: TopicImage, data: ap.AlterPartitionRequestPartitionData, isr: list[int]
    ) -> tuple[list[ApiMessageAndVersion], ap.AlterPartitionResponsePartitionData]:
        partition = topic.partitions.get(data.partition_index)
        if partition is None:
            return [], _alter_error(data.partition_index, Errors.UNKNOWN_TOPIC_OR_PARTITION)
        error = self._alter_problem(broker_id, partition, data, isr)
        if error is not Errors.NONE:
            return [], _alter_error(data.partition_index, error)
        builder = builder_for(self._state, topic.name, topic.id, data.partition_index, partition)
        builder.target_isr = isr
        builder.target_recovery_state = data.leader_recovery_state
        record = builder.build()
        if record is not None:
            change: PartitionChangeRecord = record.message
            partition = partition.merge(change)
            if change.leader not in (-2, broker_id):
                return [record], _alter_error(data.partition_index, Errors.NEW_LEADER_ELECTED)
        result = ap.AlterPartitionResponsePartitionData(
            partition_index=data.partition_index,
            leader_id=partition.leader,
            isr=list(partition.isr),
            leader_recovery_state=partition.leader_recovery_state,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
        )
        return [] if record is None else [record], result

    def _alter_problem(
        self, broker_id: int, partition: PartitionRegistration, data: ap.AlterPartitionRequestPartitionData, isr: list[int]
    ) -> Errors:
        """Makes Kafka's checks in Kafka's order; returns NONE if the change is allowed."""
        if data.leader_epoch > partition.leader_epoch or data.partition_epoch > partition.partition_epoch:
            return Errors.NOT_CONTROLLER
        if data.leader_epoch < partition.leader_epoch:
            return Errors.FENCED_LEADER_EPOCH
        if broker_id != partition.leader:
            return Errors.INVALID_REQUEST
        if data.partition_epoch < partition.partition_epoch:
            return Errors.INVALID_UPDATE_VERSION
        if not isr or len(set(isr)) != len(isr) or any(replica not in partition.replicas for replica in isr) or partition.leader not in isr:
            return Errors.INVALID_REQUEST
        if data.leader_recovery_state == RECOVERING and (len(isr) > 1 or partition.leader_recovery_state == RECOVERED):
            return Errors.INVALID_REQUEST
        epochs = {state.broker_id: state.broker_epoch for state in data.new_isr_with_epochs}
        for replica in isr:
            broker = self._state.image.cluster.broker(replica)
            if broker is None or not broker.active or epochs.get(replica, -1) not in (-1, broker.epoch):
                return Errors.INELIGIBLE_REPLICA
        return Errors.NONE

    def assign_replicas_to_dirs(self, request: ad.AssignReplicasToDirsRequest) -> ControllerResult[ad.AssignReplicasToDirsResponse]:
        """Takes a broker's report of which of its directories hold its replicas (KIP-858)."""
        self._cluster.check_broker_epoch(request.broker_id, request.broker_epoch)
        records: list[ApiMessageAndVersion] = []
        response = ad.AssignReplicasToDirsResponse()
        for directory in request.directories:
            topics = []
            for topic_data in directory.topics:
                partitions = []
                for data in topic_data.partitions:
                    code, change = self._assign_directory(request.broker_id, topic_data.topic_id, data.partition_index, directory.id)
                    records += change
                    partitions.append(ad.AssignReplicasToDirsResponsePartitionData(partition_index=data.partition_index, error_code=code))
                topics.append(ad.AssignReplicasToDirsResponseTopicData(topic_id=topic_data.topic_id, partitions=partitions))
            response.directories.append(ad.AssignReplicasToDirsResponseDirectoryData(id=directory.id, topics=topics))
        return ControllerResult(records, response)

    def _assign_directory(
        self, broker_id: int, topic_id: Uuid, partition_id: int, directory: Uuid
    ) -> tuple[Errors, list[ApiMessageAndVersion]]:
        topic = self._state.image.topics.by_id.get(topic_id)
        if topic is None:
            return Errors.UNKNOWN_TOPIC_ID, []
        partition = topic.partitions.get(partition_id)
        if partition is None:
            return Errors.UNKNOWN_TOPIC_OR_PARTITION, []
        if broker_id not in partition.replicas:
            return Errors.NOT_LEADER_OR_FOLLOWER, []
        record = builder_for(self._state, topic.name, topic_id, partition_id, partition, directories={broker_id: directory}).build()
        return Errors.NONE, [] if record is None else [record]


def _alter_error(partition_index: int, error: Errors) -> ap.AlterPartitionResponsePartitionData:
    return ap.AlterPartitionResponsePartitionData(partition_index=partition_index, error_code=error)
