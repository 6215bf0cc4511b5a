"""A fetch that waits for many partitions: a change of one of them costs the look at that one."""

from __future__ import annotations

from typing import Any

from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.replica.delayed_fetch import DelayedFetch, FetchPartitionStatus
from kmirror.replica.delayed_operation import DelayedOperationPurgatory
from kmirror.replica.replica_types import FetchParams, FetchPartition
from kmirror.storage.fetch_data_info import FetchIsolation
from kmirror.storage.log_offset_metadata import LogOffsetMetadata


class Timer:
    def cancel(self) -> None:
        return


class Timers:
    def call_later_ms(self, delay_ms: int, callback: Any) -> Timer:
        return Timer()


class Marks:
    def mark(self, count: int = 1) -> None:
        return


class OnePartition:
    """As much of a `Partition` and its log as a waiting fetch looks at."""

    def __init__(self) -> None:
        self.log_end_offset_metadata = LogOffsetMetadata(0, 0, 0)

    def check_current_leader_epoch(self, epoch: int | None) -> None:
        return

    def readable_log(self, *, fetch_only_leader: bool) -> OnePartition:
        return self


class World:
    def __init__(self, partitions: int, *, min_bytes: int) -> None:
        self.partitions = {TopicPartition("t", number): OnePartition() for number in range(partitions)}
        self.looks = 0
        self.read = 0
        params = FetchParams(replica_id=2, max_wait_ms=500, min_bytes=min_bytes, max_bytes=1 << 20, isolation=FetchIsolation.LOG_END)
        start = LogOffsetMetadata(0, 0, 0)
        statuses = [
            FetchPartitionStatus(key, start, FetchPartition(Uuid.ZERO, fetch_offset=0, log_start_offset=0, max_bytes=1 << 20))
            for key in self.partitions
        ]
        self.purgatory: DelayedOperationPurgatory[DelayedFetch] = DelayedOperationPurgatory("Fetch", Timers())
        operation = DelayedFetch(params, statuses, self._partition, self._take, Marks())
        assert not self.purgatory.try_complete_else_watch(operation, list(self.partitions))
        self.looks = 0

    def _partition(self, key: TopicPartition) -> Any:
        self.looks += 1
        return self.partitions.get(key)

    def _take(self) -> None:
        self.read += 1

    def append(self, number: int, end: int) -> None:
        key = TopicPartition("t", number)
        self.partitions[key].log_end_offset_metadata = LogOffsetMetadata(end, 0, end)
        self.purgatory.check_and_complete(key)


def test_a_change_of_one_partition_looks_at_that_partition_only() -> None:
    world = World(1000, min_bytes=100)
    for number in range(50):
        world.append(number, 1)
    assert (world.looks, world.read) == (50, 0)


def test_bytes_of_several_partitions_add_up_and_count_once() -> None:
    world = World(10, min_bytes=100)
    world.append(3, 60)
    world.append(3, 60)
    world.append(3, 70)
    assert world.read == 0
    world.append(5, 29)
    assert world.read == 0
    world.append(5, 30)
    assert world.read == 1


def test_a_lost_partition_ends_the_wait() -> None:
    world = World(10, min_bytes=100)
    lost = TopicPartition("t", 4)
    del world.partitions[lost]
    world.purgatory.check_and_complete(lost)
    assert world.read == 1


def test_a_partition_that_shrinks_takes_its_bytes_back() -> None:
    world = World(10, min_bytes=100)
    world.append(1, 90)
    world.append(1, 0)
    world.append(2, 90)
    assert world.read == 0
