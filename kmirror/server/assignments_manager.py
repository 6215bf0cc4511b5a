"""Tells the controller which log directory holds each replica (Kafka's `AssignmentsManager`;
KIP-858).

The controller has to know, because it is told of a failed directory and not of failed partitions.
On a broker with one directory it places replicas itself; otherwise the broker chooses the directory
and reports it here. One request at a time is under way, with everything that is pending. What the
controller did not accept is sent again after a pause. A later assignment of the same partition
replaces an earlier one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from kmirror.common.errors import Errors, KmirrorError
from kmirror.common.lasting_conditions import LastingConditions
from kmirror.common.topic_partition import TopicIdPartition
from kmirror.common.uuid import Uuid
from kmirror.runtime.api import Runtime
from kmirror.runtime.supervision import Supervised
from kmirror.wire.messages import assign_replicas_to_dirs as messages

RETRY_BACKOFF_MS = 500
MAX_ASSIGNMENTS = 2_250
"""Most assignments in one request, so that it does not grow without bounds (Kafka's number)."""

_GONE = frozenset((Errors.UNKNOWN_TOPIC_ID, Errors.UNKNOWN_TOPIC_OR_PARTITION, Errors.NOT_LEADER_OR_FOLLOWER))
"""Answers for a replica that no longer exists: there is nothing left to tell."""

_REQUEST = "request"
_log = logging.getLogger(__name__)


class AssignmentsManager:
    """Owns the pending assignments and the task that sends them.

    `send` asks the controller (ApiException when it cannot be reached); `broker_epoch` returns this
    broker's epoch.
    """

    def __init__(
        self,
        runtime: Runtime,
        broker_id: int,
        send: Callable[[messages.AssignReplicasToDirsRequest], Awaitable[messages.AssignReplicasToDirsResponse]],
        broker_epoch: Callable[[], int],
    ) -> None:
        self._runtime = runtime
        self._broker_id = broker_id
        self._send = send
        self._broker_epoch = broker_epoch
        self._pending: dict[tuple[Uuid, int], Uuid] = {}
        self._callbacks: dict[tuple[Uuid, int], Callable[[], None]] = {}
        self._task: asyncio.Task[None] | None = None
        self._conditions = LastingConditions(_log, runtime.clock.monotonic_ms)

    def on_assignment(self, topic_partition: TopicIdPartition, directory_id: Uuid, on_accepted: Callable[[], None]) -> None:
        """Takes note that the replica is, or is about to be, in this directory.

        `on_accepted` is called when the controller knows it.
        """
        key = (topic_partition.topic_id, topic_partition.partition)
        self._pending[key] = directory_id
        self._callbacks[key] = on_accepted
        if self._task is None or self._task.done():
            self._task = Supervised(self._runtime, self._send_all, name="replicas-to-dirs-assignments", may_return=True).start()

    @property
    def pending_count(self) -> int:
        """Number of replicas whose directory the controller does not know yet."""
        return len(self._pending)

    def shutdown(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _send_all(self) -> None:
        while self._pending:
            batch = dict(list(self._pending.items())[:MAX_ASSIGNMENTS])
            if not await self._exchange(batch):
                await self._runtime.sleep_ms(RETRY_BACKOFF_MS)

    async def _exchange(self, batch: dict[tuple[Uuid, int], Uuid]) -> bool:
        """Sends one batch; returns whether all of it was accepted."""
        try:
            response = await self._send(self._request(batch))
        except KmirrorError as error:
            self._conditions.tell(_REQUEST, f"AssignReplicasToDirs was not answered ({error}); trying again")
            return False
        if response.error_code != Errors.NONE:
            self._conditions.tell(_REQUEST, f"AssignReplicasToDirs was refused ({Errors.for_code(response.error_code).name}); trying again")
            return False
        self._conditions.end(_REQUEST)
        for directory in response.directories:
            for topic in directory.topics:
                for row in topic.partitions:
                    key, refusal = (topic.topic_id, row.partition_index), Errors.for_code(row.error_code)
                    if refusal is Errors.NONE or refusal in _GONE:
                        self._conditions.end(key)
                        if self._pending.get(key) == directory.id:
                            self._done(key, refusal)
                    else:
                        what = f"Assigning {topic.topic_id}-{row.partition_index} to directory {directory.id} failed"
                        self._conditions.tell(key, f"{what}: {refusal.name}")
        return not any(self._pending.get(key) == directory_id for key, directory_id in batch.items())

    def _done(self, key: tuple[Uuid, int], error: Errors) -> None:
        del self._pending[key]
        on_accepted = self._callbacks.pop(key)
        if error is Errors.NONE:
            on_accepted()

    def _request(self, batch: dict[tuple[Uuid, int], Uuid]) -> messages.AssignReplicasToDirsRequest:
        directories: dict[Uuid, messages.AssignReplicasToDirsRequestDirectoryData] = {}
        topics: dict[tuple[Uuid, Uuid], messages.AssignReplicasToDirsRequestTopicData] = {}
        for (topic_id, partition), directory_id in batch.items():
            directory = directories.setdefault(directory_id, messages.AssignReplicasToDirsRequestDirectoryData(id=directory_id))
            topic = topics.get((directory_id, topic_id))
            if topic is None:
                topic = topics[directory_id, topic_id] = messages.AssignReplicasToDirsRequestTopicData(topic_id=topic_id)
                directory.topics.append(topic)
            topic.partitions.append(messages.AssignReplicasToDirsRequestPartitionData(partition_index=partition))
        return messages.AssignReplicasToDirsRequest(
            broker_id=self._broker_id, broker_epoch=self._broker_epoch(), directories=list(directories.values())
        )
