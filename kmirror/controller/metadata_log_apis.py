"""The APIs by which brokers read the metadata log: Fetch of topic AAAAAAAAAAAAAAAAAAAAAQ,
FetchSnapshot, DescribeQuorum (KIP-595, KIP-630).

Only committed records are served. A fetch below the log's start is answered with the id of the
newest snapshot, and a fetch whose last epoch or offset does not fit the log with a diverging epoch.
An answer without records waits up to max.wait.ms.
"""

from __future__ import annotations

from msgspec import Struct

from kmirror.common.errors import Errors
from kmirror.common.topic_partition import CLUSTER_METADATA_TOPIC_NAME
from kmirror.common.uuid import Uuid
from kmirror.controller.quorum_controller import QuorumController
from kmirror.metadata.snapshot import SnapshotId
from kmirror.wire.messages import describe_quorum as dq
from kmirror.wire.messages import fetch as fe
from kmirror.wire.messages import fetch_snapshot as fs

FIRST_VERSION_WITH_NODES = 2
OBSERVER_SESSION_TIMEOUT_MS = 300_000
MAX_FETCH_BYTES = 8 * 1024 * 1024


class ObserverState(Struct):
    """A broker that reads the log; times are wall-clock ms."""

    log_end_offset: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int


class MetadataLogApis:
    def __init__(self, controller: QuorumController) -> None:
        self._controller = controller
        self._observers: dict[int, ObserverState] = {}

    # ---- Fetch

    async def fetch(self, request: fe.FetchRequest) -> fe.FetchResponse:
        controller = self._controller
        if request.cluster_id is not None and request.cluster_id != controller.config.cluster_id:
            return fe.FetchResponse(error_code=Errors.INCONSISTENT_CLUSTER_ID)
        wanted = [(topic, partition) for topic in request.topics for partition in topic.partitions]
        if len(wanted) != 1 or wanted[0][1].partition != 0 or not _is_metadata_topic(wanted[0][0]):
            return fe.FetchResponse(error_code=Errors.INVALID_REQUEST)
        topic, partition = wanted[0]
        self._observe(request, partition.fetch_offset)
        data = self._refusal(partition)
        if data is None:
            await controller.wait_for_high_watermark(partition.fetch_offset, request.max_wait_ms)
            if not controller.is_active:
                data = fe.PartitionData(error_code=Errors.NOT_LEADER_OR_FOLLOWER, high_watermark=-1)
            else:
                data = self._refusal(partition) or self._read(partition, request.max_bytes)
        answered = fe.FetchableTopicResponse(topic=CLUSTER_METADATA_TOPIC_NAME, topic_id=Uuid.METADATA_TOPIC_ID, partitions=[data])
        return fe.FetchResponse(responses=[answered])

    def _refusal(self, partition: fe.FetchPartition) -> fe.PartitionData | None:
        """Returns the answer to a fetch that cannot be served: a wrong epoch, a snapshot to load,
        or a divergence; None for one that can."""
        log = self._controller.log
        if partition.current_leader_epoch > log.leader_epoch:
            return self._partition_data(error=Errors.UNKNOWN_LEADER_EPOCH)
        if 0 <= partition.current_leader_epoch < log.leader_epoch:
            return self._partition_data(error=Errors.FENCED_LEADER_EPOCH)
        if partition.fetch_offset < log.log_start_offset:
            data = self._partition_data()
            newest = log.snapshots[-1]
            data.snapshot_id = fe.SnapshotId(end_offset=newest.end_offset, epoch=newest.epoch)
            return data
        if partition.last_fetched_epoch > 0 or partition.fetch_offset > log.log_end_offset:
            return self._divergence(partition)
        return None

    def _divergence(self, partition: fe.FetchPartition) -> fe.PartitionData | None:
        log = self._controller.log
        epoch = partition.last_fetched_epoch if partition.last_fetched_epoch >= 0 else log.leader_epoch
        if any(snapshot == SnapshotId(partition.fetch_offset, epoch) for snapshot in log.snapshots):
            return None
        found = log.end_offset_for_epoch(epoch)
        if found is not None and found[0] == epoch and partition.fetch_offset <= found[1]:
            return None
        data = self._partition_data()
        data.diverging_epoch = (
            fe.EpochEndOffset(epoch=0, end_offset=0) if found is None else fe.EpochEndOffset(epoch=found[0], end_offset=found[1])
        )
        return data

    def _read(self, partition: fe.FetchPartition, max_bytes: int) -> fe.PartitionData:
        log = self._controller.log
        data = self._partition_data()
        if partition.fetch_offset < log.high_watermark:
            data.records = log.read_committed(partition.fetch_offset, min(max_bytes, partition.partition_max_bytes, MAX_FETCH_BYTES))
        return data

    def _partition_data(self, *, error: Errors = Errors.NONE) -> fe.PartitionData:
        log = self._controller.log
        return fe.PartitionData(
            partition_index=0,
            error_code=error,
            high_watermark=log.high_watermark,
            log_start_offset=log.log_start_offset,
            current_leader=fe.LeaderIdAndEpoch(leader_id=self._controller.config.node_id, leader_epoch=log.leader_epoch),
            aborted_transactions=None,
        )

    def _observe(self, request: fe.FetchRequest, fetch_offset: int) -> None:
        replica_id = request.replica_state.replica_id if request.replica_id == -1 else request.replica_id
        if replica_id < 0:
            return
        self._controller.state.heartbeats.note_fetch(replica_id, fetch_offset - 1)
        if replica_id == self._controller.config.node_id:
            return
        now = self._controller.runtime.clock.time_ms()
        caught_up = fetch_offset >= self._controller.log.log_end_offset
        previous = self._observers.get(replica_id)
        caught_up_at = now if caught_up else -1 if previous is None else previous.last_caught_up_timestamp
        self._observers[replica_id] = ObserverState(fetch_offset, now, caught_up_at)

    # ---- FetchSnapshot

    async def fetch_snapshot(self, request: fs.FetchSnapshotRequest) -> fs.FetchSnapshotResponse:
        controller = self._controller
        if request.cluster_id is not None and request.cluster_id != controller.config.cluster_id:
            return fs.FetchSnapshotResponse(error_code=Errors.INCONSISTENT_CLUSTER_ID)
        response = fs.FetchSnapshotResponse()
        for topic in request.topics:
            partitions = [self._snapshot_part(topic.name, partition, request.max_bytes) for partition in topic.partitions]
            response.topics.append(fs.FetchSnapshotResponseTopicSnapshot(name=topic.name, partitions=partitions))
        return response

    def _snapshot_part(
        self, topic: str, wanted: fs.FetchSnapshotRequestPartitionSnapshot, max_bytes: int
    ) -> fs.FetchSnapshotResponsePartitionSnapshot:
        log = self._controller.log
        snapshot_id = SnapshotId(wanted.snapshot_id.end_offset, wanted.snapshot_id.epoch)
        result = fs.FetchSnapshotResponsePartitionSnapshot(
            index=wanted.partition,
            snapshot_id=fs.FetchSnapshotResponseSnapshotId(end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch),
            current_leader=fs.LeaderIdAndEpoch(leader_id=self._controller.config.node_id, leader_epoch=log.leader_epoch),
            position=wanted.position,
        )
        if topic != CLUSTER_METADATA_TOPIC_NAME or wanted.partition != 0:
            result.error_code = Errors.UNKNOWN_TOPIC_OR_PARTITION
        elif wanted.current_leader_epoch > log.leader_epoch:
            result.error_code = Errors.UNKNOWN_LEADER_EPOCH
        elif 0 <= wanted.current_leader_epoch < log.leader_epoch:
            result.error_code = Errors.FENCED_LEADER_EPOCH
        elif snapshot_id not in log.snapshots:
            result.error_code = Errors.SNAPSHOT_NOT_FOUND
        else:
            data = self._controller.runtime.files.read_bytes(log.snapshot_path(snapshot_id))
            if not 0 <= wanted.position < len(data):
                result.error_code = Errors.POSITION_OUT_OF_RANGE
            else:
                result.size = len(data)
                result.unaligned_records = data[wanted.position : wanted.position + max_bytes]
        return result

    # ---- DescribeQuorum

    async def describe_quorum(self, request: dq.DescribeQuorumRequest, api_version: int) -> dq.DescribeQuorumResponse:
        controller = self._controller
        response = dq.DescribeQuorumResponse(error_message="")
        for topic in request.topics:
            partitions = []
            for partition in topic.partitions:
                if topic.topic_name != CLUSTER_METADATA_TOPIC_NAME or partition.partition_index != 0:
                    code = Errors.UNKNOWN_TOPIC_OR_PARTITION
                    partitions.append(
                        dq.DescribeQuorumResponsePartitionData(
                            partition_index=partition.partition_index, error_code=code, error_message=code.message
                        )
                    )
                else:
                    partitions.append(self._quorum())
            response.topics.append(dq.DescribeQuorumResponseTopicData(topic_name=topic.topic_name, partitions=partitions))
        listeners = [dq.Listener(name=e.name, host=e.host, port=e.port) for e in controller.config.listeners]
        is_about_the_log = any(partition.error_code == Errors.NONE for topic in response.topics for partition in topic.partitions)
        if api_version >= FIRST_VERSION_WITH_NODES and is_about_the_log:
            response.nodes.append(dq.Node(node_id=controller.config.node_id, listeners=listeners))
        return response

    def _quorum(self) -> dq.DescribeQuorumResponsePartitionData:
        controller = self._controller
        now = controller.runtime.clock.time_ms()
        directory = (
            Uuid.from_string(controller.config.directory_id)
            if controller.log.kraft_version >= 1 and controller.config.directory_id
            else Uuid.ZERO
        )
        me = dq.ReplicaState(
            replica_id=controller.config.node_id,
            replica_directory_id=directory,
            log_end_offset=controller.log.log_end_offset,
            last_fetch_timestamp=now,
            last_caught_up_timestamp=now,
        )
        observers = [
            dq.ReplicaState(
                replica_id=replica_id,
                log_end_offset=state.log_end_offset,
                last_fetch_timestamp=state.last_fetch_timestamp,
                last_caught_up_timestamp=state.last_caught_up_timestamp,
            )
            for replica_id, state in sorted(self._observers.items())
            if now - state.last_fetch_timestamp < OBSERVER_SESSION_TIMEOUT_MS
        ]
        return dq.DescribeQuorumResponsePartitionData(
            partition_index=0,
            error_message="",
            leader_id=controller.config.node_id,
            leader_epoch=controller.epoch,
            high_watermark=controller.high_watermark,
            current_voters=[me],
            observers=observers,
        )


def _is_metadata_topic(topic: fe.FetchTopic) -> bool:
    return topic.topic_id == Uuid.METADATA_TOPIC_ID or topic.topic == CLUSTER_METADATA_TOPIC_NAME
