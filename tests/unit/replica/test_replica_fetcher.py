"""A follower and its leader, each over real logs, joined by an end point without a network."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import pytest
from support.brokers.broker_doubles import BrokerWorld, ManualRuntime, batch_of

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicIdPartition, TopicPartition
from kmirror.replica.abstract_fetcher import AbstractFetcher
from kmirror.replica.leader_end_point import FetchData, LeaderUnavailableError, PartitionFetchState
from kmirror.replica.replica_fetcher import ReplicaFetcher
from kmirror.replica.replica_fetcher_manager import ReplicaFetcherManager
from kmirror.replica.replica_types import FetchParams, FetchPartition
from kmirror.storage.fetch_data_info import FetchIsolation
from kmirror.storage.log_append_info import AppendOrigin
from kmirror.storage.log_offset_metadata import LogStartOffsetIncrementReason
from kmirror.wire.messages.feature_level_record import FeatureLevelRecord

T0 = TopicPartition("t", 0)


class DirectLeader:
    """A `LeaderEndPoint` that calls the leader's ReplicaManager; `failures` answers fail first."""

    def __init__(self, leader: BrokerWorld, follower_id: int) -> None:
        self._leader = leader
        self._follower_id = follower_id
        self.failures = 0
        self.fetches = 0
        self.waits: list[int | None] = []

    async def fetch(
        self, partitions: Mapping[TopicPartition, PartitionFetchState], touched: object, *, max_wait_ms: int | None
    ) -> dict[TopicPartition, FetchData]:
        self.fetches += 1
        self.waits.append(max_wait_ms)
        if self.failures:
            self.failures -= 1
            raise LeaderUnavailableError("not now")
        infos = [
            (
                TopicIdPartition(state.topic_id, tp.topic, tp.partition),
                FetchPartition(
                    state.topic_id,
                    state.fetch_offset,
                    state.log_start_offset,
                    1 << 20,
                    state.current_leader_epoch,
                    state.last_fetched_epoch,
                    state.mirror_leader_epoch,
                ),
            )
            for tp, state in partitions.items()
        ]
        params = FetchParams(self._follower_id, 0, 1, 1 << 20, FetchIsolation.LOG_END)
        results = await self._leader.replica_manager.fetch_messages(params, infos)
        return {
            topic.topic_partition: FetchData(
                data.error,
                data.high_watermark,
                data.log_start_offset,
                data.records.to_bytes() if hasattr(data.records, "to_bytes") else b"",
                data.diverging_epoch,
                data.mirror_leader_epoch,
            )
            for topic, data in results
        }

    async def fetch_earliest_offset(self, topic_partition: TopicPartition, current_leader_epoch: int) -> int:
        return int(self._leader.partition(topic_partition.topic).log.log_start_offset)

    async def fetch_latest_offset(self, topic_partition: TopicPartition, current_leader_epoch: int) -> int:
        return int(self._leader.partition(topic_partition.topic).log.log_end_offset)

    async def close(self) -> None:
        self.failures = 0


class Pair:
    """Broker 1 of each world; in the leader's world it leads, in the follower's broker 2 does."""

    def __init__(self, tmp_path: Path) -> None:
        self.leader = BrokerWorld(str(tmp_path / "leader"), others=(2,))
        self.follower = BrokerWorld(str(tmp_path / "follower"), others=(2,))
        self.topic_id = self.leader.create_topic("t", replicas=(1, 2))
        assert self.follower.create_topic("t", replicas=(1, 2), leader=2) == self.topic_id
        self.end_point = DirectLeader(self.leader, 2)
        self.hooks = ReplicaFetcher(self.follower.replica_manager)
        self.fetcher = AbstractFetcher(self.follower.runtime, "fetcher", self.end_point, self.hooks, backoff_ms=100)

    def follow(self, epoch: int = 0) -> None:
        log = self.follower.partition("t").log
        state = PartitionFetchState(self.topic_id, log.log_end_offset, epoch, log.latest_epoch, self.hooks.first_mirror_leader_epoch(T0))
        self.fetcher.add_partitions({T0: state})

    async def produce(self, *values: bytes) -> None:
        entries = {T0: batch_of(*values)}
        await self.leader.replica_manager.append_records(timeout_ms=1, required_acks=1, origin=AppendOrigin.CLIENT, entries=entries)

    def logs(self) -> tuple[bytes, bytes]:
        both = [world.partition("t").log for world in (self.leader, self.follower)]
        first, second = (b"".join((Path(log.directory) / f"{0:020d}.log").read_bytes() for _ in (0,)) for log in both)
        return first, second


async def test_a_follower_copies_the_leaders_bytes_and_its_high_watermark(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.follow()
    await pair.produce(b"a", b"b")
    await pair.produce(b"c")
    await pair.fetcher.do_work()
    await pair.fetcher.do_work()
    leader_bytes, follower_bytes = pair.logs()
    assert leader_bytes == follower_bytes and len(leader_bytes) > 100
    assert pair.leader.partition("t").log.high_watermark == 3, "the second fetch acknowledged everything"
    await pair.fetcher.do_work()
    assert pair.follower.partition("t").log.high_watermark == 3
    state = pair.fetcher.state(T0)
    assert state is not None and (state.fetch_offset, state.last_fetched_epoch, state.lag) == (3, 0, 0)


async def test_a_diverging_follower_truncates_and_goes_on(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    await pair.produce(b"a")
    follower = pair.follower.partition("t")
    follower.append_records_to_follower(batch_of(b"a", partition_leader_epoch=0), leader_epoch=0)
    follower.append_records_to_follower(batch_of(b"x", b"y", base_offset=1, partition_leader_epoch=0), leader_epoch=0)
    pair.leader.elect("t", 0, 1)
    await pair.produce(b"new")
    pair.follow(epoch=1)
    await pair.fetcher.do_work()
    assert follower.log.log_end_offset == 1, "cut to the end of epoch 0 at the leader"
    await pair.fetcher.do_work()
    assert (follower.log.log_end_offset, follower.log.latest_epoch) == (2, 1)


async def test_followers_of_a_mirror_stayed_behind_for_ever_when_the_sources_epoch_passed_ours(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    for world in (pair.leader, pair.follower):
        world.partition("t").has_mirror_name = True
    pair.follow()
    leader, follower = pair.leader.partition("t"), pair.follower.partition("t")
    for number, epoch in enumerate((0, 3, 7)):
        records = batch_of(b"r", base_offset=number, partition_leader_epoch=epoch)
        leader.append_records_to_mirror_leader(records, source_leader_epoch=epoch)
    for fetched, asked_next in ((1, 7), (3, 7)):
        await pair.fetcher.do_work()
        state = pair.fetcher.state(T0)
        assert state is not None
        assert (follower.log.log_end_offset, state.fetch_offset, state.mirror_leader_epoch) == (fetched, fetched, asked_next)
    assert pair.logs()[0] == pair.logs()[1]


async def test_a_topic_that_becomes_a_mirror_in_the_same_leader_epoch_is_followed_on(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.follow()
    for world in (pair.leader, pair.follower):
        world.partition("t").has_mirror_name = True
    leader, follower = pair.leader.partition("t"), pair.follower.partition("t")
    leader.append_records_to_mirror_leader(batch_of(b"r", partition_leader_epoch=4), source_leader_epoch=4)
    for _ in range(3):
        await pair.fetcher.do_work()
    assert follower.log.log_end_offset == 1


async def test_out_of_range_restarts_at_the_leaders_log_start(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    for value in (b"a", b"b", b"c"):
        await pair.produce(value)
    leader_log = pair.leader.partition("t").log
    leader_log.update_high_watermark(3)
    leader_log.maybe_increment_log_start_offset(2, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)
    pair.follow()
    await pair.fetcher.do_work()
    follower_log = pair.follower.partition("t").log
    assert (follower_log.log_start_offset, follower_log.log_end_offset) == (2, 2)
    await pair.fetcher.do_work()
    assert follower_log.log_end_offset == 3


async def test_no_answer_and_fenced_epochs(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    await pair.produce(b"a")
    pair.end_point.failures = 1
    pair.follow()
    await pair.fetcher.do_work()
    state = pair.fetcher.state(T0)
    assert state is not None and state.delayed_until_ms == pair.follower.runtime.clock.now_ms + 100
    pair.follower.runtime.advance(100)
    await pair.fetcher.do_work()
    assert pair.follower.partition("t").log.log_end_offset == 1
    pair.leader.elect("t", 0, 1)
    await pair.fetcher.do_work()
    assert pair.fetcher.state(T0) is None, "a fenced epoch does not come back; the metadata brings the new one"
    assert pair.hooks.failed == {T0: Errors.FENCED_LEADER_EPOCH}


async def test_a_leader_that_leads_the_topic_of_that_id_that_is_gone_is_asked_again(tmp_path: Path) -> None:
    """Mirrors, seed 42529: a topic was deleted and mirrored anew with its source's id, behind the
    back of the broker that leads it in both; in epoch 0 again, which that one fenced, and its
    followers never came back.
    """
    pair = Pair(tmp_path)
    pair.follower.apply(FeatureLevelRecord(name="mirror.version", feature_level=1))
    pair.leader.elect("t", 0, 1)
    pair.follow()
    await pair.fetcher.do_work()
    state = pair.fetcher.state(T0)
    assert state is not None and state.delayed_until_ms == pair.follower.runtime.clock.now_ms + 100
    assert pair.hooks.failed == {}


async def test_a_leader_that_had_not_read_of_its_election_kept_producers_waiting_for_the_whole_backoff(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    clock = pair.follower.runtime.clock
    await pair.produce(b"a")
    pair.follow(epoch=1)
    waits = []
    for _ in range(5):
        await pair.fetcher.do_work()
        state = pair.fetcher.state(T0)
        assert state is not None
        waits.append(state.delayed_until_ms - clock.now_ms)
        pair.follower.runtime.advance(waits[-1])
    assert waits == [10, 20, 40, 80, 100], "soon, then ever later, and never later than the backoff"
    pair.leader.elect("t", 0, 1)
    await pair.fetcher.do_work()
    assert pair.follower.partition("t").log.log_end_offset == 1
    state = pair.fetcher.state(T0)
    assert state is not None and state.retry_ms == 0, "the next election begins anew"


async def test_an_early_retry_waited_for_the_request_that_waits_for_news_of_other_partitions(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    for world, leader in ((pair.leader, 1), (pair.follower, 2)):
        world.create_topic("u", replicas=(1, 2), leader=leader)
    u0 = TopicPartition("u", 0)
    pair.follow(epoch=1)
    pair.fetcher.add_partitions({u0: PartitionFetchState(pair.follower.partition("u").topic_id, 0, 0)})
    for _ in range(4):
        await pair.fetcher.do_work()
        pair.follower.runtime.advance(5)
    assert pair.end_point.waits == [None, 5, None, 15], "until the leader that is behind is asked again, after 10 ms, then 20"
    pair.leader.elect("t", 0, 1)
    pair.follower.runtime.advance(15)
    await pair.fetcher.do_work()
    await pair.fetcher.do_work()
    assert pair.end_point.waits[-1] is None, "no partition waits any more"


async def test_what_is_in_flight_for_a_removed_partition_is_dropped(tmp_path: Path) -> None:
    class Hooks:
        def __init__(self) -> None:
            self.calls = 0

        def process_partition_data(
            self, topic_partition: TopicPartition, state: PartitionFetchState, data: FetchData
        ) -> tuple[int, int | None]:
            self.calls += 1
            return 1, 0

        def next_mirror_leader_epoch(self, topic_partition: TopicPartition, state: PartitionFetchState, data: FetchData) -> int:
            return -1

        def truncate(self, topic_partition: TopicPartition, diverging: object) -> tuple[int, int | None]:
            raise AssertionError("not asked for")

        def truncate_to(self, topic_partition: TopicPartition, offset: int) -> tuple[int, int | None]:
            raise AssertionError("not asked for")

        def truncate_fully_and_start_at(self, topic_partition: TopicPartition, offset: int) -> None:
            raise AssertionError("not asked for")

        def log_end_offset(self, topic_partition: TopicPartition) -> int:
            return 0

        def log_start_offset(self, topic_partition: TopicPartition) -> int:
            return 0

        is_throttled = may_epochs_begin_anew = False

        def must_wait(self, topic_partition: TopicPartition, state: PartitionFetchState) -> bool:
            return False

        def unverified(self) -> Collection[TopicPartition]:
            return ()

        def on_partition_failed(self, topic_partition: TopicPartition, error: ApiException) -> None:
            raise AssertionError(error.message)

    class Leader:
        def __init__(self) -> None:
            self.during_fetch = lambda: None

        async def fetch(
            self, partitions: Mapping[TopicPartition, PartitionFetchState], touched: object, *, max_wait_ms: int | None
        ) -> dict[TopicPartition, FetchData]:
            asked = list(partitions)
            self.during_fetch()
            return {topic_partition: FetchData(Errors.NONE, 1, 0, b"data") for topic_partition in asked}

        async def fetch_earliest_offset(self, topic_partition: TopicPartition, current_leader_epoch: int) -> int:
            return 0

        async def fetch_latest_offset(self, topic_partition: TopicPartition, current_leader_epoch: int) -> int:
            return 0

        async def close(self) -> None:
            return None

    hooks, leader = Hooks(), Leader()
    fetcher = AbstractFetcher(ManualRuntime(), "f", leader, hooks, backoff_ms=1)
    pair_state = PartitionFetchState(BrokerWorld.broker_record(1).incarnation_id, 0, 0)
    fetcher.add_partitions({T0: pair_state})
    await fetcher.do_work()
    assert hooks.calls == 1
    leader.during_fetch = lambda: fetcher.remove_partitions([T0]) and None
    await fetcher.do_work()
    assert hooks.calls == 1 and fetcher.partition_count == 0


async def test_partitions_whose_leader_was_not_known_yet_are_followed_as_soon_as_it_is(tmp_path: Path) -> None:
    """They waited for the next leader epoch, out of the ISR."""
    pair = Pair(tmp_path)
    addresses: dict[int, tuple[str, int]] = {}
    manager = ReplicaFetcherManager(
        pair.follower.runtime, pair.follower.replica_manager, lambda leader, fetcher: pair.end_point, addresses.get
    )
    connect = manager._connect
    manager._connect = lambda leader, fetcher: connect(leader, fetcher) if leader in addresses else None  # type: ignore[method-assign]
    pair.follower.replica_manager.set_fetcher_manager(manager)
    pair.follower.elect("t", 0, 2)
    assert not manager._fetchers
    pair.follower.apply(pair.follower.broker_record(3))
    assert not manager._fetchers, "another broker is not the leader"
    addresses[2] = ("host-2", 9092)
    pair.follower.apply(pair.follower.broker_record(2))
    (fetcher,) = manager._fetchers.values()
    assert [topic_partition for topic_partition, _ in fetcher.states()] == [T0]
    assert not manager._without_leader
    await manager.shutdown()


async def test_a_partition_that_is_led_here_now_is_not_followed_when_its_old_leader_gets_known(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    addresses: dict[int, tuple[str, int]] = {}
    manager = ReplicaFetcherManager(pair.follower.runtime, pair.follower.replica_manager, lambda leader, fetcher: None, addresses.get)
    pair.follower.replica_manager.set_fetcher_manager(manager)
    pair.follower.elect("t", 0, 2)
    assert list(manager._without_leader) == [T0]
    pair.follower.elect("t", 0, 1)
    assert not manager._without_leader
    await manager.shutdown()


async def test_a_cut_inside_of_a_batch_takes_the_whole_batch_along(tmp_path: Path) -> None:
    """The leader's batches may part otherwise than ours (a mirror was cut and goes on): half a
    batch would be neither's.
    """
    pair = Pair(tmp_path)
    await pair.produce(b"a", b"b")
    await pair.produce(b"c")
    follower = pair.follower.partition("t")
    follower.append_records_to_follower(batch_of(b"a", b"b", partition_leader_epoch=0), leader_epoch=0)
    follower.append_records_to_follower(batch_of(b"x", b"y", b"z", base_offset=2, partition_leader_epoch=0), leader_epoch=0)
    assert pair.hooks.truncate_to(T0, 3) == (2, 0)
    assert follower.log.log_end_offset == 2
    pair.follow()
    await pair.fetcher.do_work()
    assert pair.logs()[0] == pair.logs()[1]


async def test_an_end_of_the_leaders_log_inside_of_our_batch_is_found_by_a_fetch(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    await pair.produce(b"a", b"b", b"c")
    follower = pair.follower.partition("t")
    follower.append_records_to_follower(batch_of(*[b"x"] * 5, partition_leader_epoch=0), leader_epoch=0)
    pair.follow()
    await pair.fetcher.do_work()
    state = pair.fetcher.state(T0)
    assert state is not None and (state.fetch_offset, follower.log.log_end_offset) == (0, 0)
    await pair.fetcher.do_work()
    assert pair.logs()[0] == pair.logs()[1]


async def test_a_follower_that_is_ahead_of_the_leaders_high_watermark_has_no_lag_below_zero(tmp_path: Path) -> None:
    """A replica with a lag below 0 would count as one that has caught up when it never was, and
    lower a sum.
    """
    pair = Pair(tmp_path)
    for value in (b"a", b"b"):
        await pair.produce(value)
    pair.follow()
    await pair.fetcher.do_work()
    state = pair.fetcher.state(T0)
    assert state is not None and state.fetch_offset == 2 and pair.leader.partition("t").log.high_watermark == 0
    assert state.lag == 0
    leader_log = pair.leader.partition("t").log
    leader_log.update_high_watermark(2)
    leader_log.maybe_increment_log_start_offset(2, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)
    pair.fetcher.remove_partitions([T0])
    pair.follower.partition("t").log.truncate_fully_and_start_at(0)
    pair.follow()
    await pair.fetcher.do_work()
    moved = pair.fetcher.state(T0)
    assert moved is not None and (moved.fetch_offset, moved.lag) == (2, 0), "moved behind what the leader told before"


@pytest.mark.parametrize("mirror_version", [0, 1])
async def test_a_follower_with_other_batches_in_the_leaders_epoch_is_found_out_when_it_begins_to_follow(
    tmp_path: Path, mirror_version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the manager, as metadata have it: equal epochs and offsets would otherwise go unnoticed
    for good (C36b).
    """
    monkeypatch.setattr(AbstractFetcher, "start", lambda fetcher: None)  # its rounds are made here
    pair = Pair(tmp_path)
    pair.follower.apply(FeatureLevelRecord(name="mirror.version", feature_level=mirror_version))
    for value in (b"a", b"b"):
        await pair.produce(value)
    follower = pair.follower.partition("t")
    follower.append_records_to_follower(batch_of(b"a", partition_leader_epoch=0), leader_epoch=0)
    follower.append_records_to_follower(batch_of(b"x", base_offset=1, partition_leader_epoch=0), leader_epoch=0)
    follower.log.update_high_watermark(2)
    manager = ReplicaFetcherManager(
        pair.follower.runtime, pair.follower.replica_manager, lambda leader, fetcher: pair.end_point, lambda leader: ("leader", 1)
    )
    pair.follower.replica_manager.set_fetcher_manager(manager)
    pair.follower.elect("t", 0, 2)
    pair.leader.elect("t", 0, 1)
    (fetcher,) = manager._fetchers.values()
    for _ in range(6):
        await fetcher.do_work()
    assert pair.logs()[0] == pair.logs()[1]


async def test_a_future_log_is_cut_at_a_batchs_start_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AbstractFetcher, "start", lambda fetcher: None)
    world = BrokerWorld(f"{tmp_path}/a,{tmp_path}/b")
    world.create_topic("t")
    moves, current = world.replica_manager.alter_log_dirs, world.partition("t").log
    other = next(path for path in world.log_manager.live_log_dirs if path != current.parent_dir)
    assert moves.alter_replica_log_dir(T0, other) is Errors.NONE
    future = world.log_manager.future_log(T0)
    assert future is not None
    for offset in (0, 2):
        future.append_as_follower(batch_of(b"x", b"y", base_offset=offset, partition_leader_epoch=0), leader_epoch=0)
    assert moves.truncate_to(T0, 3) == (2, 0)
