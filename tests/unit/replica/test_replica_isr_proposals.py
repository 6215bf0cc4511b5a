"""ISR proposals and their answers, who may join, offline directories: what a leader believes while
it does not know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.brokers.broker_doubles import BrokerWorld, batch_of

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.replica.alter_partition import AlterPartitionManager
from kmirror.wire.messages import alter_partition as messages
from kmirror.wire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from kmirror.wire.messages.partition_change_record import PartitionChangeRecord

T0 = TopicPartition("t", 0)


class IsrWorld(BrokerWorld):
    """Broker 1 leads t-0 with replicas 1, 2, 3 and ISR 1; `answer` makes the controller's row of
    each request.
    """

    def __init__(self, tmp_path: Path, *, isr: tuple[int, ...] = (1,)) -> None:
        super().__init__(str(tmp_path), others=(2, 3))
        self.requests: list[messages.AlterPartitionRequest] = []
        self.answer: Callable[[messages.AlterPartitionRequestPartitionData], messages.AlterPartitionResponsePartitionData] = self.accept
        self.replica_manager._alter_partition_manager = AlterPartitionManager(self.runtime, 1, self.send, lambda broker_id: 10)
        self.create_topic("t", replicas=(1, 2, 3))
        self.set_isr(*isr)
        self.leader = self.partition("t")

    def set_isr(self, *isr: int) -> None:
        self.apply(PartitionChangeRecord(topic_id=self.cache.topic_id("t"), partition_id=0, isr=list(isr)))

    async def send(self, request: messages.AlterPartitionRequest) -> messages.AlterPartitionResponse:
        self.requests.append(request)
        topic = request.topics[0]
        rows = [self.answer(partition) for partition in topic.partitions]
        return messages.AlterPartitionResponse(topics=[messages.AlterPartitionResponseTopicData(topic_id=topic.topic_id, partitions=rows)])

    @staticmethod
    def accept(asked: messages.AlterPartitionRequestPartitionData) -> messages.AlterPartitionResponsePartitionData:
        return messages.AlterPartitionResponsePartitionData(
            partition_index=0,
            leader_id=1,
            leader_epoch=asked.leader_epoch,
            isr=[member.broker_id for member in asked.new_isr_with_epochs],
            partition_epoch=asked.partition_epoch + 1,
        )

    def refuse(self, error: Errors) -> None:
        self.answer = lambda asked: messages.AlterPartitionResponsePartitionData(partition_index=0, error_code=error)

    def append(self) -> None:
        self.leader.append_records_to_mirror_leader(
            batch_of(b"a", base_offset=self.leader.log.log_end_offset, partition_leader_epoch=0), source_leader_epoch=0
        )

    def fetched(self, broker: int, offset: int, *, epoch: int = 10) -> None:
        self.leader.update_follower_fetch_state(
            replica_id=broker,
            fetch_offset=offset,
            follower_log_start_offset=0,
            leader_log_end_offset=self.leader.log.log_end_offset,
            broker_epoch=epoch,
            current_leader_epoch=0,
        )

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)
            self.runtime.advance(1)


@pytest.mark.parametrize("error", [Errors.INVALID_UPDATE_VERSION, Errors.FENCED_LEADER_EPOCH, Errors.NEW_LEADER_ELECTED])
async def test_a_proposal_whose_fate_is_unknown_goes_on_holding_the_high_watermark_back(tmp_path: Path, error: Errors) -> None:
    world = IsrWorld(tmp_path)
    world.refuse(error)
    world.fetched(2, 0)
    await world.settle()
    assert world.leader.replicas.maximal_isr == (1, 2), "2 may be in the controller's ISR, and be elected with what it has"
    world.fetched(3, 0)
    assert len(world.requests) == 1, "nothing else is proposed until the metadata says what is so"
    world.append()
    world.runtime.advance(60_000)
    assert world.leader.log.high_watermark == 0
    world.set_isr(1)
    assert world.leader.replicas.maximal_isr == (1,)


@pytest.mark.parametrize("error", [Errors.INELIGIBLE_REPLICA, Errors.OPERATION_NOT_ATTEMPTED])
async def test_a_proposal_that_was_surely_not_applied_is_forgotten(tmp_path: Path, error: Errors) -> None:
    world = IsrWorld(tmp_path)
    world.refuse(error)
    world.fetched(2, 0)
    await world.settle()
    assert world.leader.replicas.maximal_isr == (1,)
    world.answer = world.accept
    world.fetched(2, 0)
    await world.settle()
    assert world.leader.in_sync_replicas == (1, 2)


async def test_a_proposal_that_was_refused_for_an_unknown_reason_was_sent_again_at_once(tmp_path: Path) -> None:
    """And so the broker and the controller kept each other busy."""
    world = IsrWorld(tmp_path)
    world.refuse(Errors.UNKNOWN_SERVER_ERROR)
    world.fetched(2, 0)
    for _ in range(50):
        await asyncio.sleep(0)
    assert len(world.requests) == 1
    for expected in (2, 3):
        world.runtime.advance(50)
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(world.requests) == expected
    world.answer = world.accept
    world.runtime.advance(50)
    await world.settle()
    assert world.leader.in_sync_replicas == (1, 2)


async def test_a_proposal_is_sent_again_as_it_was_made_also_when_the_metadata_has_moved_on(tmp_path: Path) -> None:
    world = IsrWorld(tmp_path)
    accept, failures = world.send, [True]

    async def send(request: messages.AlterPartitionRequest) -> messages.AlterPartitionResponse:
        if failures:
            failures.pop()
            world.requests.append(request)
            raise ApiException(Errors.REQUEST_TIMED_OUT, "no controller")
        return await accept(request)

    world.replica_manager._alter_partition_manager._send = send
    world.fetched(2, 0)
    await world.settle()
    world.set_isr(1, 3)
    world.runtime.advance(50)
    await world.settle()
    first, second = (request.topics[0].partitions[0] for request in world.requests)
    assert (first.partition_epoch, [member.broker_id for member in first.new_isr_with_epochs]) == (1, [1, 2])
    assert second == first, "with the new partition epoch the controller would have taken the old ISR for a new one"
    assert world.leader.in_sync_replicas == (1, 3), "the answer to a proposal that was overtaken changes nothing"


async def test_the_isr_is_proposed_with_the_broker_epochs_of_the_fetches(tmp_path: Path) -> None:
    world = IsrWorld(tmp_path, isr=(1, 3))
    world.fetched(2, 0)
    await world.settle()
    members = world.requests[0].topics[0].partitions[0].new_isr_with_epochs
    assert [(member.broker_id, member.broker_epoch) for member in members] == [(1, 10), (3, -1), (2, 10)]


async def test_a_fetch_of_an_incarnation_that_is_gone_says_nothing_about_the_new_one(tmp_path: Path) -> None:
    world = IsrWorld(tmp_path)
    with pytest.raises(ApiException) as refused:
        world.fetched(2, 0, epoch=9)
    assert refused.value.error is Errors.NOT_LEADER_OR_FOLLOWER
    assert refused.value.message == "Received stale fetch state update. broker epoch=9 vs expected=10"
    assert world.leader.replicas.remote[2].log_end_offset == -1


async def test_a_follower_that_the_leader_does_not_know_yet_shall_try_again(tmp_path: Path) -> None:
    world = IsrWorld(tmp_path)
    with pytest.raises(ApiException) as refused:
        world.fetched(4, 0)
    assert refused.value.error is Errors.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize("change", [{"fenced": 1}, {"in_controlled_shutdown": 1}])
async def test_a_broker_that_is_fenced_or_leaving_does_not_join(tmp_path: Path, change: dict[str, int]) -> None:
    world = IsrWorld(tmp_path)
    world.apply(BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=10, **change))
    world.fetched(2, 0)
    await world.settle()
    assert world.requests == []


async def test_a_failed_directory_takes_its_partitions_offline_until_the_topic_is_another(tmp_path: Path) -> None:
    world = BrokerWorld(f"{tmp_path}/one,{tmp_path}/two", others=(2,))
    world.log_manager.failures.on_log_dir_failure = lambda log_dir, error: world.replica_manager.handle_log_dir_failure(log_dir)
    world.create_topic("t", partitions=2)
    first, second = world.partition("t", 0).log.parent_dir, world.partition("t", 1).log.parent_dir
    assert first != second
    world.log_manager.handle_log_dir_failure(first, OSError("broken"))
    with pytest.raises(ApiException) as refused:
        world.replica_manager.get_partition_or_exception(T0)
    assert refused.value.error is Errors.KAFKA_STORAGE_ERROR
    assert world.partition("t", 1).is_leader
    world.elect("t", 0, 1)
    assert T0 in world.replica_manager.offline_partitions, "another leader epoch does not bring the directory back"
    world.delete_topic("t")
    world.create_topic("t")
    assert world.partition("t", 0).log.parent_dir == second


class Fetchers:
    """A `FetcherManager` that only remembers what is fetched."""

    def __init__(self) -> None:
        self.fetched: set[TopicPartition] = set()

    def add_fetcher_for_partitions(self, partitions: dict[TopicPartition, Any]) -> None:
        self.fetched |= set(partitions)

    def remove_fetcher_for_partitions(self, partitions: list[TopicPartition]) -> None:
        self.fetched -= set(partitions)

    def on_brokers_changed(self) -> None:
        return

    def shutdown_idle_fetchers(self) -> None:
        """None has a task."""


async def test_a_disk_that_fails_during_an_election_does_not_keep_the_delta_from_the_other_partitions(tmp_path: Path) -> None:
    world = BrokerWorld(f"{tmp_path}/one,{tmp_path}/two", others=(2,))
    topic_id = world.create_topic("t", partitions=2)

    def broken(*_: Any) -> None:
        raise OSError("broken")

    world.partition("t", 0).log.leader_epoch_cache.assign = broken
    world.apply(*(PartitionChangeRecord(topic_id=topic_id, partition_id=number, leader=1) for number in (0, 1)))
    assert T0 in world.replica_manager.offline_partitions
    assert (world.partition("t", 1).is_leader, world.partition("t", 1).leader_epoch) == (True, 1)


async def test_a_partition_whose_directory_fails_in_the_same_delta_is_not_fetched(tmp_path: Path) -> None:
    world = BrokerWorld(f"{tmp_path}/one,{tmp_path}/two", others=(2,))
    fetchers = Fetchers()
    world.replica_manager.set_fetcher_manager(fetchers)
    make = world.log_manager.get_or_create_log

    def make_or_fail(topic_partition: TopicPartition, **options: Any) -> Any:
        if topic_partition.partition < 2:
            return make(topic_partition, **options)
        world.replica_manager.handle_log_dir_failure(world.partition("t", 0).log.parent_dir)
        raise ApiException(Errors.KAFKA_STORAGE_ERROR, "broken")

    world.log_manager.get_or_create_log = make_or_fail
    world.create_topic("t", partitions=3, replicas=(2, 1))
    assert fetchers.fetched == {TopicPartition("t", 1)}
    assert set(world.replica_manager.offline_partitions) == {TopicPartition("t", 0), TopicPartition("t", 2)}
