"""Persister: whom it asks for the state of share partitions, what it asks again, and when it gives
up. On the simulator's clock.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest
from support.coordinators.share_doubles import OTHER_TOPIC, TOPIC

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import SHARE_GROUP_STATE_TOPIC_NAME, partition_for
from kmirror.common.uuid import Uuid
from kmirror.coordinator.share.persister import TIMEOUT_MS, InitialState, PartitionError, Persister
from kmirror.coordinator.share.share_partition_key import SharePartitionKey
from kmirror.metadata.image import MetadataImage, TopicImage, TopicsImage
from kmirror.metadata.registrations import PartitionRegistration
from kmirror.network.client import DisconnectError, UnsupportedVersionError
from kmirror.sim.loop import SimLoop
from kmirror.sim.runtime import SimWorld
from kmirror.wire.messages import delete_share_group_state, initialize_share_group_state, read_share_group_state_summary

T = TypeVar("T")
STATE_TOPIC_ID = Uuid(b"\x07" * 16)
NOT_FOUND = "Error in find coordinator. Exhausted max retries to find coordinator without success."


class Bench:
    """Broker 1 with its share coordinator; broker 2 is another one.

    `leaders` of the state topic's partitions; answers are scripted.
    """

    def __init__(self) -> None:
        self.world = SimWorld(SimLoop(1))
        self.runtime = self.world.node("broker").boot()
        self.leaders: list[int] = []
        self.topic_creations = 0
        self.asked: list[tuple[int, Any]] = []
        """(broker, request) of everything that was asked, this broker's own coordinator included.
        """
        self.failures: list[Errors | Exception] = []
        """What the next answers say of each partition, or that there is none."""
        itself: Any = self
        self.persister = Persister(self.runtime, itself, image=self.image, brokers=self, broker_id=1, create_topic=self._create_topic)

    def image(self) -> MetadataImage:
        rows = {number: PartitionRegistration(replicas=(1, 2), isr=(1, 2), leader=leader) for number, leader in enumerate(self.leaders)}
        one = PartitionRegistration(replicas=(1,), isr=(1,), leader=1)
        topics = [TopicImage("t", TOPIC, {0: one, 1: one}), TopicImage("u", OTHER_TOPIC, {0: one})]
        topics += [TopicImage(SHARE_GROUP_STATE_TOPIC_NAME, STATE_TOPIC_ID, rows)] if rows else []
        return MetadataImage(topics=TopicsImage({topic.id: topic for topic in topics}, {topic.name: topic for topic in topics}))

    def _create_topic(self) -> None:
        self.topic_creations += 1

    async def send(self, broker_id: int, message: Any) -> Any:
        return self._answer(broker_id, message)

    async def initialize_state(self, request: Any) -> Any:
        return self._answer(1, request)

    async def delete_state(self, request: Any) -> Any:
        return self._answer(1, request)

    async def read_state_summary(self, request: Any) -> Any:
        return self._answer(1, request)

    def _answer(self, broker_id: int, request: Any) -> Any:
        self.asked.append((broker_id, request))
        failure = self.failures.pop(0) if self.failures else Errors.NONE
        if isinstance(failure, Exception):
            raise failure
        module, result, response = {
            initialize_share_group_state.InitializeShareGroupStateRequest: (
                initialize_share_group_state, "InitializeStateResult", "InitializeShareGroupStateResponse"),
            delete_share_group_state.DeleteShareGroupStateRequest: (
                delete_share_group_state, "DeleteStateResult", "DeleteShareGroupStateResponse"),
            read_share_group_state_summary.ReadShareGroupStateSummaryRequest: (
                read_share_group_state_summary, "ReadStateSummaryResult", "ReadShareGroupStateSummaryResponse"),
        }[type(request)]  # fmt: skip
        made: Any = module
        text = failure.message if failure else None
        return getattr(made, response)(
            results=[
                getattr(made, result)(
                    topic.topic_id,
                    [made.PartitionResult(row.partition, error_code=failure, error_message=text) for row in topic.partitions],
                )
                for topic in request.topics
            ]
        )

    def run(self, coroutine: Coroutine[Any, Any, T]) -> tuple[T, int]:
        """The result, and how many milliseconds it took."""
        before_ms = self.runtime.clock.monotonic_ms()
        result = self.world.loop.run_until_complete(self.runtime.spawn(coroutine, name="test"))
        return result, self.runtime.clock.monotonic_ms() - before_ms

    def after_ms(self, delay_ms: int, action: Callable[[], None]) -> None:
        self.runtime.call_later_ms(delay_ms, action)


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.world.close()


def test_each_coordinator_is_asked_once_about_all_of_its_partitions(bench: Bench) -> None:
    bench.leaders = [1, 2, 1]
    states = {TOPIC: {0: InitialState(1, 5), 1: InitialState(1, 6)}, OTHER_TOPIC: {0: InitialState(1, 7)}}
    errors, took_ms = bench.run(bench.persister.initialize_state("g", states))
    assert (errors, took_ms) == ({}, 0)
    expected: dict[int, set[tuple[Uuid, int]]] = {}
    for topic_id, rows in states.items():
        for number in rows:
            leader = bench.leaders[partition_for(str(SharePartitionKey("g", topic_id, number)), 3)]
            expected.setdefault(leader, set()).add((topic_id, number))
    asked = {
        broker: {(topic.topic_id, row.partition) for topic in request.topics for row in topic.partitions} for broker, request in bench.asked
    }
    assert asked == expected and len(bench.asked) == len(expected)


def test_the_topic_is_made_and_waited_for(bench: Bench) -> None:
    bench.after_ms(500, lambda: bench.leaders.extend([1]))
    summaries, took_ms = bench.run(bench.persister.read_summary("g", {TOPIC: [0, 1]}))
    assert [row.error_code for row in summaries[TOPIC].values() if not isinstance(row, PartitionError)] == [0, 0]
    assert bench.topic_creations >= 1 and 500 <= took_ms < 1_500


def test_a_coordinator_that_moves_is_asked_where_it_went(bench: Bench) -> None:
    bench.leaders = [2]
    bench.failures = [DisconnectError("gone"), Errors.NOT_COORDINATOR, Errors.COORDINATOR_LOAD_IN_PROGRESS]
    bench.after_ms(150, lambda: bench.leaders.__setitem__(0, 1))
    errors, took_ms = bench.run(bench.persister.delete_state("g", {TOPIC: [0]}))
    assert errors == {} and took_ms < 2_000
    assert [broker for broker, _ in bench.asked] == [2, 2, 1, 1]


def test_it_gives_up_after_a_while_and_says_why(bench: Bench) -> None:
    errors, took_ms = bench.run(bench.persister.delete_state("g", {TOPIC: [0]}))
    assert errors == {TOPIC: {0: PartitionError(Errors.COORDINATOR_NOT_AVAILABLE, NOT_FOUND)}}
    assert TIMEOUT_MS - 2_000 <= took_ms <= TIMEOUT_MS
    bench.leaders = [2]
    bench.failures = [Errors.NOT_COORDINATOR] * 100
    errors, _ = bench.run(bench.persister.delete_state("g", {TOPIC: [0]}))
    exhausted = "Error in delete state RPC. Exhausted max retries to complete delete state RPC without success."
    assert errors == {TOPIC: {0: PartitionError(Errors.NOT_COORDINATOR, exhausted)}}


def test_errors_that_stay_are_told_at_once(bench: Bench) -> None:
    bench.leaders = [2]
    for failure in (Errors.FENCED_STATE_EPOCH, ApiException(Errors.CLUSTER_AUTHORIZATION_FAILED), UnsupportedVersionError("no such API")):
        bench.failures = [failure]
        errors, took_ms = bench.run(bench.persister.initialize_state("g", {TOPIC: {0: InitialState(1, 5)}}))
        assert took_ms == 0
        expected = Errors.UNSUPPORTED_VERSION if isinstance(failure, UnsupportedVersionError) else getattr(failure, "error", failure)
        assert errors[TOPIC][0].error is expected
        assert errors[TOPIC][0].message.startswith("Error in initialize state RPC. ")


def test_a_partition_that_is_nowhere_is_not_waited_for(bench: Bench) -> None:
    """Apache Kafka asks for 15 seconds."""
    bench.leaders = [1]
    bench.failures = [Errors.UNKNOWN_TOPIC_OR_PARTITION]
    summaries, took_ms = bench.run(bench.persister.read_summary("g", {TOPIC: [9]}))
    assert took_ms == 0
    assert isinstance(summaries[TOPIC][9], PartitionError)
    bench.failures = [Errors.UNKNOWN_TOPIC_OR_PARTITION]
    summaries, took_ms = bench.run(bench.persister.read_summary("g", {TOPIC: [0]}))
    assert took_ms > 0 and not isinstance(summaries[TOPIC][0], PartitionError), "a coordinator whose metadata is older than ours"
