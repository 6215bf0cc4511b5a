"""A follower's session looks only at what changed, and what it does not look at stays in sync
exactly as long as it is fetched.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from support.brokers.broker_doubles import BrokerWorld, batch_of

from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.replica.follower_session import FollowerSession, PartitionChanges
from kmirror.storage.log_offset_metadata import LogOffsetMetadata, LogStartOffsetIncrementReason
from kmirror.storage.log_offsets import LogOffsets
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages import fetch
from kmirror.wire.messages.partition_change_record import PartitionChangeRecord

PARTITIONS = 20


class SessionWorld(BrokerWorld):
    """Broker 1 leads t-0 … t-19 with follower 2, whose session fetches all of them; `looks` are the
    partitions that were read first, `later_looks` those that were read while a fetch waited and for
    its answer.
    """

    def __init__(self, tmp_path: Path) -> None:
        super().__init__(str(tmp_path), others=(2,))
        self.topic_id = self.create_topic("t", replicas=(1, 2), partitions=PARTITIONS)
        self.session_id, self.epoch = 0, 0
        self.looks: list[int] = []
        self.later_looks: list[int] = []
        read = self.replica_manager.reads.read_from_log

        def counted(params, infos, **options):  # type: ignore[no-untyped-def]
            if options.get("is_first_read", True):
                self.looks = [topic.partition for topic, _ in infos]
            else:
                self.later_looks += [topic.partition for topic, _ in infos]
            return read(params, infos, **options)

        self.replica_manager.reads.read_from_log = counted  # type: ignore[method-assign]

    def request(
        self, changes: dict[int, int], *, max_wait_ms: int = 0, forgotten: tuple[int, ...] = (), last_fetched_epoch: int = -1
    ) -> fetch.FetchRequest:
        """`changes`: partition to fetch offset."""
        partitions = [
            fetch.FetchPartition(
                partition=number,
                fetch_offset=offset,
                log_start_offset=0,
                partition_max_bytes=1 << 20,
                current_leader_epoch=0,
                last_fetched_epoch=last_fetched_epoch,
            )
            for number, offset in changes.items()
        ]
        return fetch.FetchRequest(
            replica_state=fetch.ReplicaState(replica_id=2, replica_epoch=10),
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=[fetch.FetchTopic(topic_id=self.topic_id, partitions=partitions)] if partitions else [],
            forgotten_topics_data=[fetch.ForgottenTopic(topic_id=self.topic_id, partitions=list(forgotten))] if forgotten else [],
        )

    async def fetch(self, changes: dict[int, int] | None = None) -> dict[int, fetch.PartitionData]:
        return self.take(await self.ask(ApiKeys.FETCH, self.request(changes or {}), 17))

    def take(self, response: fetch.FetchResponse) -> dict[int, fetch.PartitionData]:
        assert response.error_code == Errors.NONE
        self.session_id, self.epoch = response.session_id, self.epoch + 1
        return {data.partition_index: data for topic in response.responses for data in topic.partitions}

    async def open(self) -> None:
        """The session is open, and everything settled."""
        await self.fetch(dict.fromkeys(range(PARTITIONS), 0))
        await self.fetch()
        assert self.looks == list(range(PARTITIONS))
        await self.fetch()
        assert self.looks == []

    def append(self, number: int, *, tell: bool = True) -> None:
        partition = self.partition("t", number)
        records = batch_of(b"a", base_offset=partition.log.log_end_offset, partition_leader_epoch=0)
        partition.append_records_to_mirror_leader(records, source_leader_epoch=0)
        if tell:
            self.replica_manager.complete_delayed_together([partition.topic_partition])


async def test_partitions_that_change_together_are_answered_together(tmp_path: Path) -> None:
    world = SessionWorld(tmp_path)
    await world.open()
    waiting = asyncio.ensure_future(world.ask(ApiKeys.FETCH, world.request({}, max_wait_ms=500), 17))
    await asyncio.sleep(0)
    for number in (7, 3):
        world.append(number, tell=False)
    world.replica_manager.complete_delayed_together([world.partition("t", number).topic_partition for number in (7, 3)])
    assert sorted(world.take(await asyncio.wait_for(waiting, 5))) == [3, 7]


async def _wait_at_the_end_of_partition_7(world: SessionWorld) -> asyncio.Task[fetch.FetchResponse]:
    """The follower has the one batch that there is, and its next fetch waits."""
    await world.open()
    world.append(7)
    await world.fetch()
    request = world.request({7: 1}, last_fetched_epoch=0)
    world.take(await world.ask(ApiKeys.FETCH, request, 17))
    waiting = asyncio.ensure_future(world.ask(ApiKeys.FETCH, world.request({}, max_wait_ms=500), 17))
    await asyncio.sleep(0)
    world.later_looks.clear()
    return waiting


async def test_a_waiting_fetch_that_is_content_with_any_batch_reads_it_once(tmp_path: Path) -> None:
    world = SessionWorld(tmp_path)
    waiting = await _wait_at_the_end_of_partition_7(world)
    world.append(7)
    answer = world.take(await asyncio.wait_for(waiting, 5))
    assert answer[7].records.size > 0
    assert world.later_looks.count(7) == 1


async def test_a_waiting_fetch_is_not_ended_by_a_batch_that_a_throttle_keeps_back(tmp_path: Path) -> None:
    world = SessionWorld(tmp_path)
    waiting = await _wait_at_the_end_of_partition_7(world)
    world.replica_manager.reads.must_wait = lambda params, partition: True  # type: ignore[method-assign]
    world.append(7)
    await asyncio.sleep(0)
    assert not waiting.done()
    world.runtime.advance(500)
    answer = world.take(await asyncio.wait_for(waiting, 5))
    assert 7 not in answer or not answer[7].records


async def test_the_high_watermark_moves_to_where_the_read_found_the_followers_offset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = SessionWorld(tmp_path)
    await world.open()
    log = world.partition("t", 7).log
    world.append(7)
    size = log.log_end_offset_metadata.relative_position_in_segment
    world.append(7)

    def look_up(offsets: LogOffsets, offset: int) -> LogOffsetMetadata:
        raise AssertionError(f"offset {offset} was looked up again")

    monkeypatch.setattr(LogOffsets, "maybe_convert_to_offset_metadata", look_up)
    await world.fetch({7: 1})
    assert log.high_watermark_metadata == LogOffsetMetadata(1, 0, size)


async def test_only_what_changed_is_read_and_answered(tmp_path: Path) -> None:
    world = SessionWorld(tmp_path)
    await world.open()
    world.append(7)
    world.append(3)
    answer = await world.fetch()
    assert world.looks == [7, 3] and {number: bool(data.records) for number, data in answer.items()} == {7: True, 3: True}
    assert sorted(await world.fetch()) == [3, 7], "the follower did not say that it has them"
    assert list(await world.fetch({7: 1})) == [3], "offsets are taken before the read, so the watermark is next"
    assert sorted(world.looks) == [3, 7]
    answer = await world.fetch({3: 1})
    assert (answer[7].high_watermark, answer[7].records.size) == (1, 0)
    assert answer.keys() == {7}
    assert (await world.fetch())[3].high_watermark == 1
    await world.fetch()
    assert world.looks == []


async def test_a_settled_follower_stays_in_sync_over_an_idle_hour_and_not_when_it_is_gone(tmp_path: Path) -> None:
    world = SessionWorld(tmp_path)
    await world.open()
    for _ in range(60):
        world.runtime.advance(60_000)
        await world.fetch()
    partition = world.partition("t", 5)
    replica = partition.replicas.remote[2]
    world.append(5)
    now_ms, end = world.runtime.clock.monotonic_ms(), partition.log.log_end_offset
    assert replica.is_caught_up(leader_log_end_offset=end, now_ms=now_ms, max_lag_ms=30_000), "it fetched a moment ago"
    await world.fetch()
    world.runtime.advance(29_000)
    now_ms = world.runtime.clock.monotonic_ms()
    assert replica.is_caught_up(leader_log_end_offset=end, now_ms=now_ms, max_lag_ms=30_000)
    world.runtime.advance(2_000)
    await world.fetch()
    now_ms = world.runtime.clock.monotonic_ms()
    assert not replica.is_caught_up(leader_log_end_offset=end, now_ms=now_ms, max_lag_ms=30_000), "it fetches, and does not move"


async def test_a_follower_that_forgot_a_partition_does_not_stay_in_sync_by_fetching_others(tmp_path: Path) -> None:
    world = SessionWorld(tmp_path)
    await world.open()
    world.take(await world.ask(ApiKeys.FETCH, world.request({}, forgotten=(5,)), 17))
    partition = world.partition("t", 5)
    replica = partition.replicas.remote[2]
    world.append(5)
    end = partition.log.log_end_offset
    for advanced_ms, is_caught_up in ((29_000, True), (2_000, False)):
        world.runtime.advance(advanced_ms)
        await world.fetch()
        now_ms = world.runtime.clock.monotonic_ms()
        assert replica.is_caught_up(leader_log_end_offset=end, now_ms=now_ms, max_lag_ms=30_000) is is_caught_up
    await world.fetch({5: 0})
    await world.fetch({5: end})
    now_ms = world.runtime.clock.monotonic_ms()
    assert replica.is_caught_up(leader_log_end_offset=end, now_ms=now_ms, max_lag_ms=30_000), "it is fetched again"


async def test_a_waiting_fetch_is_woken_by_any_partition_of_the_session(tmp_path: Path) -> None:
    world = SessionWorld(tmp_path)
    await world.open()
    waiting = asyncio.ensure_future(world.ask(ApiKeys.FETCH, world.request({}, max_wait_ms=500), 17))
    await asyncio.sleep(0)
    world.replica_manager.complete_delayed(TopicPartition("t", 4))
    await asyncio.sleep(0)
    assert not waiting.done(), "nothing came of that change"
    world.append(11)
    answer = world.take(await waiting)
    assert list(answer) == [11] and answer[11].records
    assert not world.replica_manager.purgatories.follower_fetches.num_delayed


async def test_a_waiting_fetch_ends_with_its_time_and_hears_of_roles_and_cuts(tmp_path: Path) -> None:
    world = SessionWorld(tmp_path)
    await world.open()
    waiting = asyncio.ensure_future(world.ask(ApiKeys.FETCH, world.request({}, max_wait_ms=500), 17))
    await asyncio.sleep(0)
    world.runtime.advance(500)
    assert world.take(await waiting) == {}
    waiting = asyncio.ensure_future(world.ask(ApiKeys.FETCH, world.request({}, max_wait_ms=500), 17))
    await asyncio.sleep(0)
    world.elect("t", 9, 1)
    answer = world.take(await waiting)
    assert {number: data.error_code for number, data in answer.items()} == {9: Errors.FENCED_LEADER_EPOCH}
    assert (await world.fetch())[9].error_code == Errors.FENCED_LEADER_EPOCH, "an error is no news that settles"


async def test_a_follower_outside_the_isr_is_looked_at_until_it_is_in(tmp_path: Path) -> None:
    world = SessionWorld(tmp_path)
    await world.open()
    world.apply(PartitionChangeRecord(topic_id=world.topic_id, partition_id=2, isr=[1]))
    for _ in range(3):
        await world.fetch()
        assert world.looks == [2], "each look may be the one that lets it in"
    world.apply(PartitionChangeRecord(topic_id=world.topic_id, partition_id=2, isr=[1, 2]))
    await world.fetch()
    await world.fetch()
    assert world.looks == []


async def test_slow_news_travel_with_the_full_look(tmp_path: Path) -> None:
    world = SessionWorld(tmp_path)
    await world.open()
    world.append(1)
    await world.fetch({1: 1})
    await world.fetch()
    await world.fetch()
    log = world.partition("t", 1).log
    log.maybe_increment_log_start_offset(1, LogStartOffsetIncrementReason.SEGMENT_DELETION)
    assert await world.fetch() == {}
    world.runtime.advance(5_001)
    assert {number: data.log_start_offset for number, data in (await world.fetch()).items()} == {1: 1}


def test_changes_are_told_once_in_their_order_to_each_session() -> None:
    changes = PartitionChanges()
    everything = {("t", number): None for number in range(5)}
    first, second = FollowerSession(changes, ()), FollowerSession(changes, ())
    for session in (first, second):
        session.collect(everything, (), 1)
    for number in (3, 1, 3, 9):
        changes.note(("t", number))
    assert first.collect(everything, (), 2) == [("t", 1), ("t", 3)]
    first.settle(("t", 1))
    changes.note(("t", 0))
    assert first.collect(everything, (), 3) == [("t", 3), ("t", 0)]
    assert second.collect(everything, (), 3) == [("t", 1), ("t", 3), ("t", 0)]
    changes.forget(("t", 3))
    assert changes.since(0) == [("t", 1), ("t", 9), ("t", 0)]
