"""WriteTxnMarkers at the leader: what is appended, refused, or left to another cluster."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from support.brokers.broker_doubles import BrokerWorld, batch_of

from kmirror.common.errors import Errors
from kmirror.common.topic_partition import GROUP_METADATA_TOPIC_NAME, TopicPartition
from kmirror.replica.partition import ReadOnlyReason
from kmirror.storage.log_append_info import AppendOrigin
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kmirror.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest


async def end(world: BrokerWorld, *, epoch: int = 0, coordinator_epoch: int = 0, commit: bool = True, version: int = 0) -> Errors:
    """The error for partition t-0."""
    topics = [WritableTxnMarkerTopic("t", [0])]
    request = WriteTxnMarkersRequest([WritableTxnMarker(7, epoch, commit, topics, coordinator_epoch, version)])
    response = await world.ask(ApiKeys.WRITE_TXN_MARKERS, request, 2)
    return Errors.for_code(response.markers[0].topics[0].partitions[0].error_code)


def begin(world: BrokerWorld, *, epoch: int = 0) -> None:
    """Producer 7 has an open transaction in t-0."""
    log = world.partition("t").leader_log
    guard = log.verification_guards.maybe_start(7, 0, epoch)
    batch = batch_of(b"a", producer_id=7, producer_epoch=epoch, base_sequence=0, is_transactional=True)
    log.append_as_leader(batch, leader_epoch=0, origin=AppendOrigin.CLIENT, verification_guard=guard)
    log.update_high_watermark(log.log_end_offset)


async def test_a_marker_moves_the_last_stable_offset(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    world.create_topic("t")
    begin(world)
    log = world.partition("t").leader_log
    assert (log.last_stable_offset, log.log_end_offset) == (0, 1)
    assert await end(world, commit=False) is Errors.NONE
    assert (log.last_stable_offset, log.log_end_offset) == (2, 2)
    assert [(each.first_offset, each.last_offset) for each in log.collect_aborted_transactions(0, 2)] == [(0, 1)]


async def test_newer_epochs_and_coordinators_refuse_a_marker(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    world.create_topic("t")
    begin(world, epoch=4)
    assert await end(world, epoch=3) is Errors.INVALID_PRODUCER_EPOCH
    assert await end(world, epoch=4, version=2) is Errors.INVALID_PRODUCER_EPOCH, "version 2 ends with the next epoch"
    assert await end(world, epoch=5, version=2, coordinator_epoch=3) is Errors.NONE
    assert await end(world, epoch=5, version=2, coordinator_epoch=3) is Errors.NONE, "the same marker again"
    assert await end(world, epoch=5, coordinator_epoch=2) is Errors.TRANSACTION_COORDINATOR_FENCED


async def test_no_leader_here(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path), others=(2,))
    assert await end(world) is Errors.UNKNOWN_TOPIC_OR_PARTITION
    world.create_topic("t", replicas=(2, 1))
    assert await end(world) is Errors.NOT_LEADER_OR_FOLLOWER


async def test_a_mirror_takes_its_markers_from_the_source(tmp_path: Path) -> None:
    """The local coordinator gets a success, and the mirrored log stays unchanged (C41)."""
    world = BrokerWorld(str(tmp_path))
    world.create_topic("t")
    begin(world)
    partition = world.partition("t")
    partition.set_read_only(ReadOnlyReason.MIRROR_STATE_UNKNOWN)
    assert await end(world) is Errors.NOT_LEADER_OR_FOLLOWER, "asked again until it is known"
    partition.set_read_only(ReadOnlyReason.MIRROR_TOPIC)
    assert await end(world) is Errors.NONE
    assert partition.leader_log.log_end_offset == 1


class SlowGroups:
    """A group coordinator whose markers are committed when `committed` is set."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.committed = asyncio.Event()

    async def complete_transaction(self, partition: TopicPartition, *, producer_id: int, **_: Any) -> None:
        self.begun.append(producer_id)
        await self.committed.wait()


async def test_markers_for_offsets_wait_for_their_commits_together(tmp_path: Path) -> None:
    """One after the other they let a coordinator end one transaction a round trip to the followers."""
    world = BrokerWorld(str(tmp_path))
    world.create_topic(GROUP_METADATA_TOPIC_NAME)
    groups = world.apis.group_coordinator = SlowGroups()
    topics = [WritableTxnMarkerTopic(GROUP_METADATA_TOPIC_NAME, [0])]
    request = WriteTxnMarkersRequest([WritableTxnMarker(producer_id, 0, True, topics, 0, 0) for producer_id in (7, 8, 9)])
    answer = asyncio.ensure_future(world.ask(ApiKeys.WRITE_TXN_MARKERS, request, 2))
    for _ in range(5):
        await asyncio.sleep(0)
    assert groups.begun == [7, 8, 9]
    groups.committed.set()
    markers = (await answer).markers
    assert [(marker.producer_id, marker.topics[0].partitions[0].error_code) for marker in markers] == [(7, 0), (8, 0), (9, 0)]


class SlowTransactions:
    """A transaction coordinator whose additions are committed when `committed` is set."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.committed = asyncio.Event()

    async def add_partitions(self, transactional_id: str, *_: Any, **__: Any) -> Errors:
        self.begun.append(transactional_id)
        await self.committed.wait()
        return Errors.NONE


async def test_transactions_that_a_broker_asks_about_wait_for_their_commits_together(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    world.create_topic("t")
    transactions = world.apis.transaction_coordinator = SlowTransactions()
    topics = [AddPartitionsToTxnTopic(name="t", partitions=[0])]
    request = AddPartitionsToTxnRequest(
        transactions=[AddPartitionsToTxnTransaction(name, producer_id=1, producer_epoch=0, topics=topics) for name in ("a", "b")]
    )
    answer = asyncio.ensure_future(world.ask(ApiKeys.ADD_PARTITIONS_TO_TXN, request, 5))
    for _ in range(5):
        await asyncio.sleep(0)
    assert transactions.begun == ["a", "b"]
    transactions.committed.set()
    assert [result.transactional_id for result in (await answer).results_by_transaction] == ["a", "b"]
