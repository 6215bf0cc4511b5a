"""Fetches `__cluster_metadata` from the active controller, by which a broker learns the cluster's
metadata.

This is the observer's half of Kafka's `KafkaRaftClient`, without a copy of the log on the broker's
disk. It fetches from the offset that the loader wants next, and loads only what lies below the high
watermark. When the log no longer holds that offset, the controller names a snapshot, which is
fetched in pieces (FetchSnapshot) and replaces the image. After a lost connection or a restart of
the controller the loop goes on where it was. An image never goes back, because the controller
commits only what it has flushed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from kmirror.common.errors import ApiException, Errors
from kmirror.common.lasting_conditions import LastingConditions
from kmirror.common.topic_partition import CLUSTER_METADATA_TOPIC_NAME
from kmirror.common.uuid import Uuid
from kmirror.metadata.image import MetadataProvenance
from kmirror.metadata.loader import MetadataLoader
from kmirror.metadata.snapshot import decode_snapshot
from kmirror.record.record_batch import iter_batches
from kmirror.runtime.api import Runtime
from kmirror.server.node_to_controller_channel import NodeToControllerChannel
from kmirror.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData, ReplicaState, SnapshotId
from kmirror.wire.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotRequestPartitionSnapshot,
    FetchSnapshotRequestSnapshotId,
    FetchSnapshotRequestTopicSnapshot,
)

FETCH_MAX_WAIT_MS = 500
FETCH_MAX_BYTES = 8 * 1024 * 1024
RETRY_BACKOFF_MS = 50
CONNECTION_KEY = "metadata"
REASON_AFTER_MS = 5_000
_log = logging.getLogger(__name__)


class MetadataProgress:
    """Owns how far this broker's metadata is loaded, and the waiters for it to get further."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._waiters: list[tuple[Callable[[int, int], bool], asyncio.Future[None]]] = []
        self.next_offset = 0
        self.high_watermark = -1

    def update(self, next_offset: int, high_watermark: int) -> None:
        self.next_offset, self.high_watermark = next_offset, high_watermark
        for is_reached, reached in self._waiters:
            if not reached.done() and is_reached(next_offset, high_watermark):
                reached.set_result(None)
        self._waiters = [(is_reached, reached) for is_reached, reached in self._waiters if not reached.done()]

    async def wait(self, is_reached: Callable[[int, int], bool]) -> None:
        """Waits until the metadata is far enough: `is_reached(next offset, high watermark)`."""
        if not is_reached(self.next_offset, self.high_watermark):
            reached: asyncio.Future[None] = self._runtime.create_future()
            self._waiters.append((is_reached, reached))
            await reached

    def fail(self, error: BaseException) -> None:
        """Raises `error` in everything that waits."""
        for _, reached in self._waiters:
            if not reached.done():
                reached.set_exception(error)
        self._waiters.clear()


class MetadataFetcher:
    """Feeds `loader`, and owns the leader epoch that it fetches in; `run` never ends by itself.

    `on_progress(next_offset, high_watermark)` is called after each answer, and `on_batch(records,
    nanoseconds)` after the records of an answer took effect.
    """

    def __init__(
        self,
        runtime: Runtime,
        channel: NodeToControllerChannel,
        loader: MetadataLoader,
        *,
        node_id: int,
        cluster_id: str,
        on_progress: Callable[[int, int], None],
        on_batch: Callable[[int, int], None] | None = None,
    ) -> None:
        self._runtime = runtime
        self._channel = channel
        self._loader = loader
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._on_progress = on_progress
        self._on_batch = on_batch
        self._leader_epoch = -1
        self._conditions = LastingConditions(_log, runtime.clock.monotonic_ms, grace_ms=REASON_AFTER_MS)

    @property
    def problem(self) -> str | None:
        """Why no metadata comes; None if the last fetch was answered."""
        return self._conditions.text(CONNECTION_KEY)

    async def run(self) -> None:
        while True:
            try:
                await self._fetch_once()
                self._conditions.end(CONNECTION_KEY)
            except ApiException as error:
                reason = error.error.name if error.message == error.error.message else f"{error.error.name}: {error.message}"
                self._conditions.tell(CONNECTION_KEY, f"broker {self._node_id} gets no metadata from the controller: {reason}")
                await self._runtime.sleep_ms(RETRY_BACKOFF_MS)

    async def _fetch_once(self) -> None:
        response = await self._channel.send(self._request(), timeout_ms=FETCH_MAX_WAIT_MS + 5_000, connection_key=CONNECTION_KEY)
        if response.error_code:
            raise ApiException(Errors.for_code(response.error_code))
        partition: PartitionData = response.responses[0].partitions[0]
        has_new_epoch = partition.current_leader.leader_epoch > self._leader_epoch
        if has_new_epoch:
            self._leader_epoch = partition.current_leader.leader_epoch
        if partition.error_code == Errors.FENCED_LEADER_EPOCH and has_new_epoch:
            return  # it works in the epoch that the answer names; after any other refusal we wait
        if partition.error_code:
            raise ApiException(Errors.for_code(partition.error_code))
        if partition.snapshot_id.end_offset >= 0:
            await self._load_snapshot(partition.snapshot_id)
            return
        self._load(partition)
        self._on_progress(self._loader.next_offset, partition.high_watermark)

    def _request(self) -> FetchRequest:
        return FetchRequest(
            cluster_id=self._cluster_id,
            replica_id=-1,
            replica_state=ReplicaState(replica_id=self._node_id, replica_epoch=-1),
            max_wait_ms=FETCH_MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_MAX_BYTES,
            topics=[
                FetchTopic(
                    topic=CLUSTER_METADATA_TOPIC_NAME,
                    topic_id=Uuid.METADATA_TOPIC_ID,
                    partitions=[
                        FetchPartition(
                            partition=0,
                            current_leader_epoch=self._leader_epoch,
                            fetch_offset=self._loader.next_offset,
                            last_fetched_epoch=self._loader.image.provenance.last_contained_epoch,
                            partition_max_bytes=FETCH_MAX_BYTES,
                        )
                    ],
                )
            ],
        )

    def _load(self, partition: PartitionData) -> None:
        """Loads whole batches below the high watermark; the rest is fetched again once it is
        committed.
        """
        records = memoryview(partition.records or b"")  # type: ignore[arg-type]
        committed = 0
        for batch in iter_batches(records):
            if batch.last_offset >= partition.high_watermark:
                break
            committed += batch.size_in_bytes
        first_offset, started_ns = self._loader.next_offset, self._runtime.clock.monotonic_ns()
        self._loader.handle_commit(records[:committed])
        if self._on_batch is not None and self._loader.next_offset > first_offset:
            self._on_batch(self._loader.next_offset - first_offset, self._runtime.clock.monotonic_ns() - started_ns)

    async def _load_snapshot(self, snapshot_id: SnapshotId) -> None:
        data = bytearray()
        while True:
            response = await self._channel.send(
                self._snapshot_request(snapshot_id, len(data)), timeout_ms=10_000, connection_key=CONNECTION_KEY
            )
            if response.error_code:
                raise ApiException(Errors.for_code(response.error_code))
            piece = response.topics[0].partitions[0]
            if piece.error_code:
                raise ApiException(Errors.for_code(piece.error_code))
            data += piece.unaligned_records
            if len(data) >= piece.size:
                break
        snapshot = decode_snapshot(data, f"snapshot {snapshot_id.end_offset}-{snapshot_id.epoch} of {CLUSTER_METADATA_TOPIC_NAME}")
        provenance = MetadataProvenance(snapshot_id.end_offset - 1, snapshot_id.epoch, snapshot.last_contained_log_timestamp)
        self._loader.handle_load_snapshot(snapshot.records, provenance, kraft_version=snapshot.kraft_version)

    def _snapshot_request(self, snapshot_id: SnapshotId, position: int) -> FetchSnapshotRequest:
        wanted = FetchSnapshotRequestPartitionSnapshot(
            partition=0,
            current_leader_epoch=self._leader_epoch,
            snapshot_id=FetchSnapshotRequestSnapshotId(end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch),
            position=position,
        )
        return FetchSnapshotRequest(
            cluster_id=self._cluster_id,
            replica_id=self._node_id,
            max_bytes=FETCH_MAX_BYTES,
            topics=[FetchSnapshotRequestTopicSnapshot(name=CLUSTER_METADATA_TOPIC_NAME, partitions=[wanted])],
        )
