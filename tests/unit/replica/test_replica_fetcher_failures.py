"""What goes wrong with one partition of a fetcher is that one's, and a fetcher that dies comes
back.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.brokers.broker_doubles import BrokerWorld

from kmirror.common.errors import ApiException, CorruptFileError, Errors, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.replica.abstract_fetcher import AbstractFetcher
from kmirror.replica.fetcher_manager import InitialFetchState
from kmirror.replica.leader_end_point import FetchData, LeaderUnavailableError, PartitionFetchState
from kmirror.replica.replica_fetcher_manager import ReplicaFetcherManager
from kmirror.sim.loop import SimLoop
from kmirror.sim.runtime import SimRuntime, SimWorld

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
BACKOFF_MS = 100
OUT_OF_RANGE = FetchData(Errors.OFFSET_OUT_OF_RANGE)


class Leader:
    """Answers every fetch of `a` with `answer_of_a`, and its ListOffsets with `refusal`, an error
    of any kind; `b` is always well.
    """

    def __init__(self, runtime: SimRuntime) -> None:
        self._runtime = runtime
        self.answer_of_a = FetchData(Errors.NONE)
        self.refusal: Exception | None = None
        self.broken: Exception | None = None
        self.fetches: list[tuple[list[TopicPartition], Any]] = []

    async def fetch(
        self,
        partitions: Mapping[TopicPartition, PartitionFetchState],
        touched: Collection[TopicPartition] | None,
        *,
        max_wait_ms: int | None,
    ) -> Mapping[TopicPartition, FetchData]:
        self.fetches.append((list(partitions), touched))
        await self._runtime.sleep_ms(10)
        if self.broken is not None:
            broken, self.broken = self.broken, None
            raise broken
        return {each: self.answer_of_a if each == A else FetchData(Errors.NONE) for each in list(partitions)}

    async def fetch_latest_offset(self, topic_partition: TopicPartition, current_leader_epoch: int) -> int:
        await self._runtime.sleep_ms(1)
        if self.refusal is not None:
            raise self.refusal
        return 0

    async def fetch_earliest_offset(self, topic_partition: TopicPartition, current_leader_epoch: int) -> int:
        return 0

    async def close(self) -> None:
        self.broken = None


class Hooks:
    """Our log of `a` is at offset 5 and raises `error` at everything; that of `b` is well."""

    is_throttled = may_epochs_begin_anew = False

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.failed: dict[TopicPartition, Errors] = {}

    def _touch(self, topic_partition: TopicPartition) -> None:
        if topic_partition == A and self.error is not None:
            raise self.error

    def process_partition_data(
        self, topic_partition: TopicPartition, state: PartitionFetchState, data: FetchData
    ) -> tuple[int, int | None]:
        self._touch(topic_partition)
        return state.fetch_offset + 1, None

    def next_mirror_leader_epoch(self, topic_partition: TopicPartition, state: PartitionFetchState, data: FetchData) -> int:
        return -1

    def truncate(self, topic_partition: TopicPartition, diverging: object) -> tuple[int, int | None]:
        raise AssertionError("nothing diverges here")

    def truncate_to(self, topic_partition: TopicPartition, offset: int) -> tuple[int, int | None]:
        self._touch(topic_partition)
        return offset, None

    def truncate_fully_and_start_at(self, topic_partition: TopicPartition, offset: int) -> None:
        raise AssertionError("the leader's log begins at 0")

    def log_end_offset(self, topic_partition: TopicPartition) -> int:
        return 5

    def log_start_offset(self, topic_partition: TopicPartition) -> int:
        return 0

    def must_wait(self, topic_partition: TopicPartition, state: PartitionFetchState) -> bool:
        return False

    def unverified(self) -> Collection[TopicPartition]:
        return ()

    def on_partition_failed(self, topic_partition: TopicPartition, error: ApiException) -> None:
        self.failed[topic_partition] = error.error


class Scene:
    def __init__(self) -> None:
        self.world = SimWorld(SimLoop(1))
        self.runtime = self.world.node("follower").boot()
        self.leader, self.hooks = Leader(self.runtime), Hooks()
        self.fetcher = AbstractFetcher(self.runtime, "fetcher", self.leader, self.hooks, backoff_ms=BACKOFF_MS)

    def follow(self, *partitions: TopicPartition, epoch: int = 1) -> None:
        self.fetcher.add_partitions({each: PartitionFetchState(Uuid.ZERO, 5, epoch) for each in partitions})

    def run_ms(self, ms: int) -> None:
        self.world.loop.run_for_us(ms * 1000)

    def failures(self) -> list[str]:
        told, self.world.loop.failures[:] = [failure.message for failure in self.world.loop.failures], []
        return told

    @property
    def fetched_of_b(self) -> int:
        state = self.fetcher.state(B)
        assert state is not None, "b is not followed any more"
        return state.fetch_offset

    def begin(self) -> None:
        self.follow(A, B)
        self.fetcher.start()
        self.run_ms(1_000)


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    scene.world.close()


def goes_on(scene: Scene) -> None:
    """`b` is fetched all the time, by a task that never ended."""
    before = scene.fetched_of_b
    scene.run_ms(500)
    assert scene.fetched_of_b >= before + 20
    assert not scene.fetcher.is_dead and scene.failures() == []


def test_a_fenced_list_offsets_ended_the_fetcher_for_all_partitions_of_its_leader(scene: Scene) -> None:
    scene.leader.answer_of_a, scene.leader.refusal = OUT_OF_RANGE, ApiException(Errors.FENCED_LEADER_EPOCH, "x")
    scene.begin()
    goes_on(scene)
    assert scene.hooks.failed == {A: Errors.FENCED_LEADER_EPOCH} and scene.fetcher.state(A) is None
    scene.leader.answer_of_a, scene.leader.refusal = FetchData(Errors.NONE), None
    scene.follow(A, epoch=2)
    scene.run_ms(100)
    state = scene.fetcher.state(A)
    assert state is not None and state.fetch_offset > 5, "the metadata brought the new epoch"


PASSING = sorted(set(Errors) - {Errors.NONE, Errors.FENCED_LEADER_EPOCH, Errors.OFFSET_OUT_OF_RANGE})


@pytest.mark.parametrize("error", PASSING, ids=lambda error: error.name)
@pytest.mark.parametrize("place", ["fetch", "list offsets"])
def test_whatever_a_leader_answers_for_one_partition_it_backs_off_and_comes_back(scene: Scene, place: str, error: Errors) -> None:
    if place == "fetch":
        scene.leader.answer_of_a = FetchData(error)
    else:
        scene.leader.answer_of_a, scene.leader.refusal = OUT_OF_RANGE, ApiException(error, "x")
    scene.begin()
    goes_on(scene)
    asked = sum(A in partitions for partitions, _ in scene.leader.fetches)
    assert 5 <= asked <= 30, "again after the backoff, and not in a busy loop"
    scene.leader.answer_of_a, scene.leader.refusal = FetchData(Errors.NONE), None
    scene.run_ms(500)
    state = scene.fetcher.state(A)
    assert state is not None and state.fetch_offset > 5 and scene.hooks.failed == {}


PASSES_HERE: list[Exception] = [
    ApiException(Errors.KAFKA_STORAGE_ERROR, "the log dir is offline"),
    ApiException(Errors.CORRUPT_MESSAGE, "crc"),
    ApiException(Errors.INVALID_RECORD, "magic"),
    OSError(28, "No space left on device"),
]
FAILS_HERE: list[Exception] = [
    ApiException(Errors.UNKNOWN_SERVER_ERROR, "offset mismatch"),
    ApiException(Errors.POLICY_VIOLATION, "who knows"),
    CorruptFileError("x.log", 7, "bad"),
    KmirrorError("something"),
]


@pytest.mark.parametrize("error", PASSES_HERE, ids=repr)
def test_a_disk_that_fails_or_damaged_bytes_cost_their_partition_a_backoff_and_are_told_once(
    scene: Scene, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    caplog.set_level(logging.WARNING)
    scene.hooks.error = error
    scene.begin()
    goes_on(scene)
    assert len([record for record in caplog.records if "a-0" in record.getMessage()]) == 1
    scene.hooks.error = None
    scene.run_ms(500)
    state = scene.fetcher.state(A)
    assert state is not None and state.fetch_offset > 5 and scene.hooks.failed == {}


@pytest.mark.parametrize("error", FAILS_HERE, ids=repr)
def test_any_other_error_of_our_log_fails_its_partition_and_no_other(scene: Scene, error: Exception) -> None:
    scene.hooks.error = error
    scene.begin()
    goes_on(scene)
    assert scene.hooks.failed == {A: error.error if isinstance(error, ApiException) else Errors.UNKNOWN_SERVER_ERROR}


@pytest.mark.parametrize("error", [*PASSES_HERE, *FAILS_HERE], ids=repr)
def test_moving_a_partition_into_range_is_tried_again(scene: Scene, error: Exception) -> None:
    scene.leader.answer_of_a, scene.hooks.error = OUT_OF_RANGE, error
    scene.begin()
    goes_on(scene)
    assert scene.fetcher.state(A) is not None and scene.hooks.failed == {}


def test_a_mistake_over_one_partition_is_reported_and_fails_that_one(scene: Scene) -> None:
    scene.hooks.error = KeyError("mistake")
    scene.begin()
    assert scene.failures() == ["[fetcher] Unexpected error over partition a-0"]
    goes_on(scene)
    assert scene.hooks.failed == {A: Errors.UNKNOWN_SERVER_ERROR}


def test_the_error_of_an_epoch_that_is_over_took_the_partition_of_the_new_epoch_along(scene: Scene) -> None:
    """It was added anew while the leader was asked in the old epoch."""
    scene.leader.answer_of_a, scene.leader.refusal = OUT_OF_RANGE, ApiException(Errors.FENCED_LEADER_EPOCH, "x")
    scene.follow(A, B)
    scene.fetcher.start()
    scene.world.loop.run_for_us(10_500)
    assert scene.fetcher.state(A) is not None, "ListOffsets is under way"
    scene.leader.answer_of_a, scene.leader.refusal = FetchData(Errors.NONE), ApiException(Errors.FENCED_LEADER_EPOCH, "x")
    scene.follow(A, epoch=2)
    scene.run_ms(500)
    state = scene.fetcher.state(A)
    assert state is not None and state.current_leader_epoch == 2 and state.fetch_offset > 5
    assert scene.hooks.failed == {}


@pytest.mark.parametrize(
    "error", [LeaderUnavailableError("no answer"), ApiException(Errors.REQUEST_TIMED_OUT), KmirrorError("odd")], ids=repr
)
def test_a_fetch_without_an_answer_costs_a_backoff(scene: Scene, error: Exception) -> None:
    scene.begin()
    scene.leader.broken = error
    scene.run_ms(50)
    scene.run_ms(BACKOFF_MS)
    goes_on(scene)


def test_a_fetcher_that_died_was_handed_out_again_and_fetched_nothing(scene: Scene) -> None:
    scene.follow(B)
    scene.fetcher.start()
    scene.run_ms(100)
    scene.leader.broken = ZeroDivisionError("mistake")
    scene.run_ms(15)
    assert scene.fetcher.is_dead
    assert scene.failures() == ["task fetcher ended unexpectedly and begins again in 100 ms"]
    scene.follow(A)
    count = len(scene.leader.fetches)
    scene.run_ms(100)
    assert scene.leader.fetches[count] == ([B, A], None), "what the leader has heard is not known any more"
    goes_on(scene)


def test_the_manager_counts_its_dead_fetchers_and_one_unreadable_log_keeps_no_other_from_beginning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene()
    broker = BrokerWorld(str(tmp_path), others=(2,))
    ids = {name: broker.create_topic(name, replicas=(1, 2), leader=2) for name in "ab"}
    broker.replica_manager.runtime = scene.runtime
    manager = ReplicaFetcherManager(scene.runtime, broker.replica_manager, lambda leader, number: scene.leader, lambda leader: ("x", 1))
    hooks = manager._hooks
    is_broken = True
    first_fetch_offset = hooks.first_fetch_offset

    def sometimes(topic_partition: TopicPartition, fetch_offset: int) -> int:
        if is_broken and topic_partition == A:
            raise ApiException(Errors.KAFKA_STORAGE_ERROR, "no free descriptor")
        return first_fetch_offset(topic_partition, fetch_offset)

    monkeypatch.setattr(hooks, "first_fetch_offset", sometimes)
    manager.add_fetcher_for_partitions({TopicPartition(name, 0): InitialFetchState(ids[name], 2, 0, 0) for name in "ab"})
    scene.run_ms(50)
    assert [topic_partition for _, topic_partition, _ in manager.lags()] == [B]
    is_broken = False
    scene.run_ms(broker.config.replica_config().replica_fetch_backoff_ms)
    assert {topic_partition for _, topic_partition, _ in manager.lags()} == {A, B}
    assert manager.dead_fetcher_count == 0
    scene.leader.broken = ZeroDivisionError("mistake")
    scene.run_ms(15)
    assert manager.dead_fetcher_count == 1
    scene.run_ms(200)
    assert manager.dead_fetcher_count == 0 and len(scene.failures()) == 1
    scene.world.close()
