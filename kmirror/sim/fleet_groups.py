"""A member of a fleet's consumer group by the protocol of KIP-848, in which a heartbeat does
everything.

    join (epoch 0) ─> heartbeats ─> an assignment ─> commit, give up and acknowledge the partitions that are taken away; fetch
    the new ones from the committed offset ─> at FENCED_MEMBER_EPOCH or UNKNOWN_MEMBER_ID give everything up and join again

A member owns a partition while its session cannot have ended: from a heartbeat's answer until the
session timeout after that heartbeat was sent. Two members must never own the same partition at the
same time.

It takes leader epochs as Java's consumers do: first that of the committed offset, or of the log
start if nothing is committed, and then that of the last batch, which it commits.

If the committed offset is beyond the log end, as it may be at a mirror after a failover, the member
starts again at the log start (auto.offset.reset=earliest).
"""

from __future__ import annotations

from collections.abc import Sequence

from kmirror.common.errors import Errors
from kmirror.common.sentinels import EARLIEST_TIMESTAMP
from kmirror.common.topic_partition import TopicIdPartition, TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.sim.events import History
from kmirror.sim.fleet_clients import GROUP_COORDINATOR, FleetClient, fetch, last_epoch, visible_records
from kmirror.sim.fleet_events import Consumed, OffsetCommitted, OffsetFetched, OwnedPartitions
from kmirror.sim.workload import Pace
from kmirror.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from kmirror.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kmirror.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kmirror.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics

SESSION_TIMEOUT_MS = 2_000
REBALANCE_TIMEOUT_MS = 30_000
OFFSET_VERSION = 9
JOIN_EPOCH, LEAVE_EPOCH = 0, -1
CONSUMER = -1
GONE = (Errors.UNKNOWN_MEMBER_ID, Errors.FENCED_MEMBER_EPOCH)


class GroupMember:
    """A member of `group`, subscribed to `topics`. `run` never ends; `leave` leaves the group."""

    def __init__(self, client: FleetClient, group: str, topics: Sequence[str], history: History, *, committed: bool = True) -> None:
        self.consuming = True
        self._client = client
        self._group = group
        self._topics = list(topics)
        self._history = history
        self._committed = committed
        self._pace = Pace(80, 220)
        self._id = str(Uuid.random(client.random))
        self._epoch = JOIN_EPOCH
        self._owned: dict[TopicPartition, int] = {}
        self._assigned: tuple[TopicPartition, ...] | None = None
        self._ids: dict[str, Uuid] = {}
        self._epochs: dict[TopicPartition, int] = {}
        self._acknowledges = False
        self._until_us = 0
        self._polling = False

    async def run(self) -> None:
        for topic in self._topics:
            await self._client.learn(topic)
        while True:
            await self._client.pause(self._pace)
            if self.consuming:
                self._polling = True
                await self.poll()
                self._polling = False

    async def poll(self) -> None:
        """Sends a heartbeat, does what the answer asks for, reads some records of one partition and
        commits.
        """
        await self._heartbeat()
        await self._reconcile()
        if self._owned:
            partitions = sorted(self._owned)
            await self._consume(partitions[self._client.random.randrange(len(partitions))])

    async def leave(self) -> None:
        """Waits for the poll under way, commits, gives up all partitions and leaves the group."""
        self.consuming = False
        while self._polling:
            await self._client.retry_pause()
        for partition in sorted(self._owned):
            await self._commit(partition)
        self._give_up()
        request = ConsumerGroupHeartbeatRequest(group_id=self._group, member_id=self._id, member_epoch=LEAVE_EPOCH)
        await self._client.ask_coordinator(self._group, GROUP_COORDINATOR, request)
        self._epoch = JOIN_EPOCH

    async def _heartbeat(self) -> None:
        joins = self._epoch == JOIN_EPOCH
        owned = self._owned_by_topic() if joins or self._acknowledges else None
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._id,
            member_epoch=self._epoch,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if joins else -1,
            subscribed_topic_names=self._topics if joins else None,
            topic_partitions=owned,
        )
        sent_us = self._client.loop.now_us
        response: ConsumerGroupHeartbeatResponse | None = await self._client.ask_coordinator(self._group, GROUP_COORDINATOR, request)
        error = None if response is None else Errors.for_code(response.error_code)
        if response is not None and error is Errors.NONE:
            self._acknowledges = False
            self._epoch = response.member_epoch
            if response.assignment is not None:
                names = [await self._name_of(row.topic_id) for row in response.assignment.topic_partitions]
                self._assigned = tuple(
                    TopicPartition(name, number)
                    for name, row in zip(names, response.assignment.topic_partitions, strict=True)
                    for number in (row.partitions if name else ())
                )
            self._tell_owned(sent_us)
        elif error in GONE:
            self._give_up()
            self._epoch = JOIN_EPOCH
        else:
            self._client.forget_coordinator(self._group, GROUP_COORDINATOR)

    async def _reconcile(self) -> None:
        """Moves towards the assignment: gives up partitions, then takes the new ones.

        The coordinator assigns a partition only when no other member owns it.
        """
        if self._assigned is None:
            return
        target = self._assigned
        revoked = [partition for partition in sorted(self._owned) if partition not in target]
        for partition in revoked:
            await self._commit(partition)
            self._owned.pop(partition, None)
        if revoked:
            self._tell_owned(self._client.loop.now_us, extends=False)
        for partition in target:
            if partition not in self._owned:
                offset = await self._fetch_offset(partition)
                if offset is not None and offset < 0:
                    offset = await self._log_start(partition)
                if offset is None or self._epoch == JOIN_EPOCH:
                    return
                self._owned[partition] = offset
        self._tell_owned(self._client.loop.now_us, extends=False)
        self._assigned = None
        self._acknowledges = True

    async def _consume(self, partition: TopicPartition) -> None:
        offset, asked_us = self._owned[partition], self._client.loop.now_us
        row = await fetch(self._client, partition, offset, committed=self._committed)
        if row is not None and row.error_code == Errors.OFFSET_OUT_OF_RANGE:
            self._owned[partition] = max(0, row.log_start_offset)
            return
        if row is None or row.error_code != Errors.NONE:
            self._client.forget(partition)
            return
        records, next_offset = visible_records(row, offset, committed=self._committed)
        if next_offset > offset:
            self._owned[partition], self._epochs[partition] = next_offset, last_epoch(row)
            now_us, client, seen = self._client.loop.now_us, self._client, tuple(records)
            self._history.add(
                Consumed(now_us, client.cluster, partition, client.name, self._committed, offset, next_offset, seen, asked_us, self._group)
            )
            await self._commit(partition)

    async def _commit(self, partition: TopicPartition) -> None:
        offset = self._owned[partition]
        epoch = self._epochs.get(partition, -1)
        self._client.hear_epoch(partition, epoch)
        row = OffsetCommitRequestPartition(partition_index=partition.partition, committed_offset=offset, committed_leader_epoch=epoch)
        request = OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=self._epoch,
            member_id=self._id,
            topics=[OffsetCommitRequestTopic(name=partition.topic, partitions=[row])],
        )
        asked_us = self._client.loop.now_us
        response = await self._client.ask_coordinator(self._group, GROUP_COORDINATOR, request, max_version=OFFSET_VERSION)
        if response is None:
            return
        error = Errors.for_code(response.topics[0].partitions[0].error_code)
        if error is Errors.NONE:
            self._history.add(
                OffsetCommitted(self._client.loop.now_us, self._client.cluster, self._group, self._id, partition, asked_us, offset)
            )
        elif error in (Errors.NOT_COORDINATOR, Errors.COORDINATOR_NOT_AVAILABLE):
            self._client.forget_coordinator(self._group, GROUP_COORDINATOR)

    async def _fetch_offset(self, partition: TopicPartition) -> int | None:
        group = OffsetFetchRequestGroup(
            group_id=self._group,
            member_id=self._id,
            member_epoch=self._epoch,
            topics=[OffsetFetchRequestTopics(name=partition.topic, partition_indexes=[partition.partition])],
        )
        asked_us = self._client.loop.now_us
        request = OffsetFetchRequest(groups=[group], require_stable=True)
        response = await self._client.ask_coordinator(self._group, GROUP_COORDINATOR, request, max_version=OFFSET_VERSION)
        if response is None:
            return None
        answer = response.groups[0]
        if answer.error_code or answer.topics[0].partitions[0].error_code:
            if answer.error_code in (Errors.NOT_COORDINATOR, Errors.COORDINATOR_NOT_AVAILABLE):
                self._client.forget_coordinator(self._group, GROUP_COORDINATOR)
            return None
        committed = answer.topics[0].partitions[0]
        offset: int = committed.committed_offset
        self._epochs[partition] = committed.committed_leader_epoch
        self._client.hear_epoch(partition, committed.committed_leader_epoch)
        self._history.add(OffsetFetched(self._client.loop.now_us, self._client.cluster, self._group, self._id, partition, asked_us, offset))
        return offset

    async def _log_start(self, partition: TopicPartition) -> int | None:
        """Returns the partition's log start offset, or None if there is no answer."""
        wanted = ListOffsetsPartition(partition_index=partition.partition, timestamp=EARLIEST_TIMESTAMP)
        request = ListOffsetsRequest(replica_id=CONSUMER, topics=[ListOffsetsTopic(name=partition.topic, partitions=[wanted])])
        response = await self._client.ask_leader(partition, request)
        if response is None:
            return None
        row = response.topics[0].partitions[0]
        if row.error_code:
            self._client.forget(partition)
            return None
        self._client.hear_epoch(partition, row.leader_epoch)
        return int(row.offset)

    def _give_up(self) -> None:
        self._owned.clear()
        self._assigned = None
        self._acknowledges = False
        self._tell_owned(self._client.loop.now_us, extends=False)

    def _tell_owned(self, sent_us: int, *, extends: bool = True) -> None:
        until_us = sent_us + SESSION_TIMEOUT_MS * 1000 if extends else self._until_us
        self._until_us = until_us
        owned = frozenset(TopicIdPartition(self._ids[partition.topic], *partition) for partition in self._owned)
        self._history.add(OwnedPartitions(self._client.loop.now_us, self._client.cluster, self._group, self._id, owned, until_us))

    def _owned_by_topic(self) -> list[ConsumerGroupHeartbeatRequestTopicPartitions]:
        numbers: dict[str, list[int]] = {}
        for partition in sorted(self._owned):
            numbers.setdefault(partition.topic, []).append(partition.partition)
        return [
            ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=self._ids[topic], partitions=partitions)
            for topic, partitions in numbers.items()
        ]

    async def _name_of(self, topic_id: Uuid) -> str:
        """Returns the topic's name, or "" while the metadata do not have the id.

        If the name belonged to a topic with another id, the partitions of that one are dropped.
        """
        known = self._client.topic_ids
        if topic_id not in known.values():
            for topic in self._topics:
                known.pop(topic, None)
                await self._client.learn(topic)
        name = next((name for name, other in known.items() if other == topic_id), "")
        if name and self._ids.setdefault(name, topic_id) != topic_id:
            self._ids[name] = topic_id
            for partition in [partition for partition in self._owned if partition.topic == name]:
                del self._owned[partition]
        return name


async def committed_offsets(client: FleetClient, group: str, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int] | None:
    """Returns the group's committed offsets of these partitions of one topic, as a client that is
    no member gets them, or None if there is no answer.
    """
    wanted = OffsetFetchRequestTopics(name=partitions[0].topic, partition_indexes=[partition.partition for partition in partitions])
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=[wanted])], require_stable=True)
    response = await client.ask_coordinator(group, GROUP_COORDINATOR, request, max_version=OFFSET_VERSION)
    rows = [] if response is None or response.groups[0].error_code else response.groups[0].topics[0].partitions
    if not rows or any(row.error_code for row in rows):
        client.forget_coordinator(group, GROUP_COORDINATOR)
        return None
    offsets = {TopicPartition(partitions[0].topic, row.partition_index): row.committed_offset for row in rows}
    return {partition: offset for partition, offset in offsets.items() if offset >= 0}
