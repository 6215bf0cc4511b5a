"""A share coordinator's shard outside a broker: its records go into a list, and the test moves the
time.

Also a double of the group coordinator's way to a share coordinator, which is a dict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord, CoordinatorResult
from kmirror.coordinator.group.coordinator_metadata_image import CoordinatorMetadataImage
from kmirror.coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from kmirror.coordinator.group.share_group_offsets import EndOffset, ShareGroupOffsets
from kmirror.coordinator.share.persister import InitialState, PartitionError, PartitionErrors, Partitions
from kmirror.coordinator.share.share_coordinator_config import ShareCoordinatorConfig
from kmirror.coordinator.share.share_coordinator_shard import ShareCoordinatorShard
from kmirror.coordinator.share.share_group_offset import ShareGroupOffset
from kmirror.coordinator.share.share_partition_key import SharePartitionKey
from kmirror.wire.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from support.coordinators.group_doubles import ShardHarness

R = TypeVar("R")
TOPIC = Uuid(b"\x01" * 16)
OTHER_TOPIC = Uuid(b"\x02" * 16)
PARTITION_COUNTS = {TOPIC: 2, OTHER_TOPIC: 1}
KEY = SharePartitionKey("g", TOPIC, 0)
Batch = tuple[int, int, int, int]
"""First offset, last offset, delivery state, delivery count: as requests name them."""


class ShareShardHarness:
    """One shard with its log. Records before `log_start` were deleted."""

    def __init__(self, *, updates_per_snapshot: int = 500, log: list[CoordinatorRecord] | None = None, log_start: int = 0) -> None:
        self.config = ShareCoordinatorConfig(snapshot_update_records_per_snapshot=updates_per_snapshot)
        self.topics = dict(PARTITION_COUNTS)
        self.shard = ShareCoordinatorShard(self.config, self.topics.get)
        self.now_ms = 1_000
        self.log: list[CoordinatorRecord] = list(log or [])
        for offset in range(log_start, len(self.log)):
            self._replay(offset)

    def _replay(self, offset: int) -> None:
        self.shard.replay(offset, self.log[offset], producer_id=-1, producer_epoch=-1)

    def run(self, result: CoordinatorResult[R]) -> R:
        for record in result.records:
            self.log.append(record)
            self._replay(len(self.log) - 1)
        return result.response

    def reloaded(self, *, log_start: int = 0) -> ShareShardHarness:
        """Another broker's shard, made from this one's log."""
        return ShareShardHarness(updates_per_snapshot=self.config.snapshot_update_records_per_snapshot, log=self.log, log_start=log_start)

    def state(self, key: SharePartitionKey = KEY) -> ShareGroupOffset | None:
        return self.shard.states().get(key)

    def initialize(
        self, key: SharePartitionKey = KEY, *, state_epoch: int = 1, start_offset: int = 0
    ) -> initialize_share_group_state.PartitionResult:
        data = initialize_share_group_state.PartitionData(key.partition, state_epoch, start_offset)
        return self.run(self.shard.initialize(key, data, self.now_ms))

    def write(
        self,
        *batches: Batch,
        key: SharePartitionKey = KEY,
        state_epoch: int = 1,
        leader_epoch: int = 0,
        start_offset: int = -1,
        delivery_complete_count: int = 0,
    ) -> write_share_group_state.PartitionResult:
        data = write_share_group_state.PartitionData(
            key.partition,
            state_epoch,
            leader_epoch,
            start_offset,
            delivery_complete_count,
            [write_share_group_state.StateBatch(*batch) for batch in batches],
        )
        return self.run(self.shard.write(key, data, self.now_ms))

    def read(self, key: SharePartitionKey = KEY, *, leader_epoch: int = 0) -> read_share_group_state.PartitionResult:
        return self.run(self.shard.read(key, read_share_group_state.PartitionData(key.partition, leader_epoch), self.now_ms))

    def summary(self, key: SharePartitionKey = KEY) -> read_share_group_state_summary.PartitionResult:
        return self.shard.read_summary(key)

    def delete(self, key: SharePartitionKey = KEY) -> delete_share_group_state.PartitionResult:
        return self.run(self.shard.delete(key))


class PersisterDouble:
    """`Persister` whose states are a dict. `refuse` has errors by partition."""

    def __init__(self) -> None:
        self.states: dict[str, dict[Uuid, dict[int, InitialState]]] = {}
        self.refuse: dict[int, Errors] = {}

    async def initialize_state(self, group_id: str, states: Mapping[Uuid, Mapping[int, InitialState]]) -> PartitionErrors:
        errors: PartitionErrors = {}
        for topic_id, rows in states.items():
            for number, state in rows.items():
                if number in self.refuse:
                    errors.setdefault(topic_id, {})[number] = PartitionError(self.refuse[number], "refused")
                else:
                    self.states.setdefault(group_id, {}).setdefault(topic_id, {})[number] = state
        return errors

    async def delete_state(self, group_id: str, partitions: Partitions) -> PartitionErrors:
        errors: PartitionErrors = {}
        for topic_id, numbers in partitions.items():
            for number in numbers:
                if number in self.refuse:
                    errors.setdefault(topic_id, {})[number] = PartitionError(self.refuse[number], "refused")
                else:
                    self.states.get(group_id, {}).get(topic_id, {}).pop(number, None)
        return errors

    async def read_summary(
        self, group_id: str, partitions: Partitions
    ) -> dict[Uuid, dict[int, read_share_group_state_summary.PartitionResult | PartitionError]]:
        return {topic_id: {number: self._summary(group_id, topic_id, number) for number in rows} for topic_id, rows in partitions.items()}

    def _summary(self, group_id: str, topic_id: Uuid, number: int) -> read_share_group_state_summary.PartitionResult | PartitionError:
        if number in self.refuse:
            return PartitionError(self.refuse[number], "refused")
        state = self.states.get(group_id, {}).get(topic_id, {}).get(number)
        result = read_share_group_state_summary.PartitionResult
        if state is None:
            return result(partition=number, start_offset=-1)
        return result(partition=number, start_offset=state.start_offset, state_epoch=state.state_epoch, delivery_complete_count=0)


class ShareOffsetsBench:
    """`ShareGroupOffsets` over the shard of a `ShardHarness` and a `PersisterDouble`."""

    def __init__(self, harness: ShardHarness) -> None:
        self.harness = harness
        self.persister = PersisterDouble()
        self.ends: dict[TopicPartition, EndOffset] = {}
        persister: Any = self.persister
        self.offsets = ShareGroupOffsets(self, persister, self._list_end_offsets)

    async def _list_end_offsets(self, partitions: list[TopicPartition]) -> Mapping[TopicPartition, EndOffset]:
        return {partition: self.ends.get(partition, EndOffset(100)) for partition in partitions}

    async def write_group(self, group_id: str, operation: Callable[[GroupCoordinatorShard], CoordinatorResult[R]]) -> R:
        return self.harness.run(operation(self.harness.shard))

    async def read_group(self, group_id: str, operation: Callable[[GroupCoordinatorShard], R]) -> R:
        return operation(self.harness.shard)

    @property
    def image(self) -> CoordinatorMetadataImage:
        return self.harness.shard.groups.groups.image
