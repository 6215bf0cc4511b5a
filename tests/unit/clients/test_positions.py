"""Positions: of partitions that come and go while what is committed is asked, of one whose leader
changes while it is validated, and what the consumer waits for meanwhile.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kmirror.clients.consumer.auto_offset_reset_strategy import AutoOffsetResetStrategy
from kmirror.clients.consumer.consumer_types import OffsetAndMetadata
from kmirror.clients.consumer.fetch_state import FetchPosition, FetchState, KnownLeader
from kmirror.clients.consumer.offset_fetcher import FoundEnd
from kmirror.clients.consumer.positions import Positions
from kmirror.clients.consumer.signal import Signal
from kmirror.clients.consumer.subscription_state import SubscriptionState
from kmirror.common.topic_partition import TopicPartition
from kmirror.runtime.api import TaskScope
from kmirror.runtime.asyncio_runtime import AsyncioRuntime
from kmirror.sim.loop import SimLoop
from kmirror.sim.runtime import SimWorld

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


async def positions_while(meanwhile: Any, committed: dict[TopicPartition, OffsetAndMetadata]) -> SubscriptionState:
    """A was assigned, its commit is asked, `meanwhile` happens, then the answer comes."""
    runtime = AsyncioRuntime()
    subscriptions = SubscriptionState(AutoOffsetResetStrategy.EARLIEST)
    subscriptions.subscribe(["t"], None)
    subscriptions.assign_from_subscribed([A])

    class Commits:
        async def fetch(self, partitions: Any, timeout_ms: int) -> dict[TopicPartition, OffsetAndMetadata]:
            assert list(partitions) == [A]
            meanwhile(subscriptions)
            return committed

    class Offsets:
        async def list_offsets(self, timestamps: Any) -> dict[TopicPartition, Any]:
            return {}

    cluster: Any = SimpleNamespace(known_leader=lambda partition: SimpleNamespace(leader=SimpleNamespace(id=1), epoch=0))
    offsets, commits = Offsets(), Commits()
    positions = Positions(
        runtime,
        TaskScope(runtime, "test"),
        cluster,
        subscriptions,
        offsets,  # type: ignore[arg-type]
        commits,  # type: ignore[arg-type]
        Signal(runtime),
        request_timeout_ms=1000,
    )
    await positions._steps()
    return subscriptions


async def test_a_partition_assigned_meanwhile_is_not_reset_unasked() -> None:
    """It read 440 records again: nobody had asked what its last owner committed."""
    subscriptions = await positions_while(lambda state: state.assign_from_subscribed([A, B]), {A: OffsetAndMetadata(5)})
    assert subscriptions.all_consumed()[A].offset == 5
    assert subscriptions.state(B).fetch_state is FetchState.INITIALIZING


async def test_a_partition_that_went_and_came_back_is_asked_again() -> None:
    def go_and_come_back(state: SubscriptionState) -> None:
        state.assign_from_subscribed([])
        state.assign_from_subscribed([A])

    for committed in ({}, {A: OffsetAndMetadata(5)}):
        subscriptions = await positions_while(go_and_come_back, committed)
        assert subscriptions.state(A).fetch_state is FetchState.INITIALIZING


async def test_a_position_is_validated_at_the_leader_of_now() -> None:
    """It was asked with the epoch of a former leader, fenced, which forgot the leader, and asked
    with that epoch again, for ever.
    """
    runtime, old, now = AsyncioRuntime(), KnownLeader(1, 2), KnownLeader(3, 3)
    subscriptions = SubscriptionState(AutoOffsetResetStrategy.EARLIEST)
    subscriptions.assign_from_user([A])
    subscriptions.seek(A, FetchPosition(74, 1, old))
    assert subscriptions.state(A).fetch_state is FetchState.AWAIT_VALIDATION

    class Cluster:
        leader: KnownLeader | None = None

        def known_leader(self, partition: TopicPartition) -> Any:
            return None if self.leader is None else SimpleNamespace(leader=SimpleNamespace(id=self.leader.node_id), epoch=self.leader.epoch)

        async def request_update(self, topics: Any) -> None:
            self.leader = now

    cluster = Cluster()

    class Offsets:
        async def epoch_ends(self, positions: Any) -> dict[TopicPartition, FoundEnd]:
            await cluster.request_update(positions)
            if positions[A].leader == now:
                return {A: FoundEnd(1, 74)}
            cluster.leader = None
            return {}

    unused: Any = None
    positions = Positions(
        runtime, TaskScope(runtime, "test"), cluster, subscriptions, Offsets(), unused, Signal(runtime), request_timeout_ms=1000
    )  # type: ignore[arg-type]
    assert await positions._steps()
    assert subscriptions.state(A).position == FetchPosition(74, 1, now)


def test_a_wait_is_not_shorter_than_the_clock_can_tell() -> None:
    """A backoff that had a ten-thousandth of a ms left was waited for without end."""
    loop = SimLoop(1)
    runtime = SimWorld(loop).node("client").boot()
    signal = Signal(runtime)
    loop.run_until_complete(runtime.spawn(signal.wait(0.0001), name="wait"))
    assert runtime.clock.monotonic_ms() == 1
