"""A consumer whose calls are cancelled, or whose listener asks, raises or is cut short."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from support.clients.scripted_cluster import ScriptedCluster
from support.clients.scripted_reads import ScriptedReads, consumer, read
from support.waiting import REACHED_S

from kmirror.clients.consumer.consumer_types import ConsumerRebalanceListener, IllegalStateError
from kmirror.clients.consumer.kafka_consumer import KafkaConsumer
from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.wire.api_keys import ApiKeys

A, B, C = (TopicPartition("t", number) for number in range(3))
REACHED_MS = REACHED_S * 1000
BOTH = pytest.mark.parametrize("protocol", ["classic", "consumer"])


@BOTH
def test_a_listener_may_ask_for_the_position_of_what_it_was_assigned(protocol: str) -> None:
    """It waited for default.api.timeout.ms, and failed: new partitions had no position before the
    listener was done.
    """
    cluster = ScriptedCluster()
    reads = ScriptedReads(cluster, t=1)
    reads.fill(A, 3)
    reads.committed[A] = 1
    reads.assigned = [A]
    asked: list[int] = []

    async def story() -> list[tuple[int, int]]:
        async with consumer(cluster, protocol) as reader:

            class Listener(ConsumerRebalanceListener):
                async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
                    asked.extend([await reader.position(partition) for partition in partitions])

            reader.subscribe(["t"], Listener())
            return await read(reader, 2)

    assert cluster.run(story()) == [(0, 1), (0, 2)]
    assert asked == [1]
    cluster.close()


@BOTH
def test_a_poll_that_is_cancelled_in_the_listener_leaves_no_partition_unread(protocol: str) -> None:
    """The partitions that the listener was told of were kept back until it was done, for ever."""
    cluster = ScriptedCluster()
    reads = ScriptedReads(cluster, t=1)
    reads.fill(A, 2)
    reads.assigned = [A]
    told: list[Sequence[TopicPartition]] = []

    async def story() -> list[tuple[int, int]]:
        class Listener(ConsumerRebalanceListener):
            async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
                told.append(partitions)
                if len(told) == 1:
                    await cluster.runtime.create_future()

        async with consumer(cluster, protocol) as reader:
            reader.subscribe(["t"], Listener())
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(5):
                    await reader.poll(REACHED_MS)
            return await read(reader, 2)

    assert cluster.run(story()) == [(0, 0), (0, 1)]
    assert told == [[A], [A]]
    cluster.close()


class CutShort(ConsumerRebalanceListener):
    """Its calls do not end by themselves, as long as `calls` holds their names."""

    def __init__(self, cluster: ScriptedCluster) -> None:
        self.calls: list[str] = []
        self._cluster = cluster

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        await self._call("assigned")

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        await self._call("revoked")

    async def _call(self, name: str) -> None:
        if name in self.calls:
            self.calls.remove(name)
            await self._cluster.runtime.create_future()


async def poll_until_cut_short(reader: KafkaConsumer, listener: CutShort, name: str) -> None:
    listener.calls.append(name)
    while listener.calls:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                while True:
                    await reader.poll(1_000)


def test_what_a_cooperative_member_gave_up_is_passed_on_if_its_poll_is_cancelled() -> None:
    """It did not join again, so nobody got what it had given up."""
    cluster = ScriptedCluster()
    reads = ScriptedReads(cluster, t=3)
    reads.assigned = [A, B]
    for partition in (A, B, C):
        reads.fill(partition, 1)
    listener = CutShort(cluster)

    async def story() -> list[tuple[int, int]]:
        async with consumer(cluster, "classic", partition_assignment_strategy="CooperativeStickyAssignor") as reader:
            reader.subscribe(["t"], listener)
            found = await read(reader, 2)
            reads.rebalance(B, C)
            await poll_until_cut_short(reader, listener, "assigned")
            found += await read(reader, 1)
            await reader.poll(1_000)
            return found

    assert cluster.run(story()) == [(0, 0), (1, 0), (2, 0)]
    assert len(cluster.asked(ApiKeys.JOIN_GROUP)) == 3, "at first, for the rebalance, and after giving up"
    cluster.close()


def test_a_partition_that_is_taken_away_and_given_back_is_read_if_a_poll_was_cancelled_between() -> None:
    """It stayed marked as given up, and was not fetched any more."""
    cluster = ScriptedCluster()
    reads = ScriptedReads(cluster, t=2)
    reads.assigned = [A, B]
    reads.fill(A, 1)
    listener = CutShort(cluster)

    async def story() -> list[tuple[int, int]]:
        async with consumer(cluster, "consumer") as reader:
            reader.subscribe(["t"], listener)
            found = await read(reader, 1)
            reads.rebalance(B)
            await poll_until_cut_short(reader, listener, "revoked")
            reads.rebalance(A, B)
            await cluster.runtime.sleep_ms(5 * reads.heartbeat_ms)
            reads.fill(A, 1)
            return found + await read(reader, 1)

    assert cluster.run(story()) == [(0, 0), (0, 1)]
    cluster.close()


def test_a_topic_whose_name_is_learned_while_the_listener_is_called_is_read() -> None:
    """The member told the coordinator that it had taken the topic over, and never did."""
    cluster = ScriptedCluster()
    reads = ScriptedReads(cluster, t=1, u=1)
    reads.assigned = [A, TopicPartition("u", 0)]
    reads.fill(reads.assigned[0], 1)
    reads.fill(reads.assigned[1], 1)
    cluster.topics["u"].error = Errors.LEADER_NOT_AVAILABLE
    told: list[Sequence[TopicPartition]] = []

    async def story() -> int:
        class Listener(ConsumerRebalanceListener):
            async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
                told.append(partitions)
                cluster.topics["u"].error = Errors.NONE
                await cluster.runtime.sleep_ms(5_000)

        async with consumer(cluster, "consumer") as reader:
            reader.subscribe(["t", "u"], Listener())
            return len(await read(reader, 2))

    assert cluster.run(story()) == 2
    assert told == [[A], [TopicPartition("u", 0)]]
    cluster.close()


@BOTH
@pytest.mark.parametrize("how", ["revoked", "lost"])
@pytest.mark.parametrize("assignor", ["RangeAssignor", "CooperativeStickyAssignor"])
def test_a_listener_may_unsubscribe(protocol: str, how: str, assignor: str) -> None:
    """The poll around it went on with the rebalance, and failed with an AssertionError."""
    cluster = ScriptedCluster()
    reads = ScriptedReads(cluster, t=2)
    reads.assigned = [A]
    reads.fill(A, 1)
    reads.fill(B, 1)
    settings = {"partition_assignment_strategy": assignor} if protocol == "classic" else {}

    async def story() -> list[tuple[int, int]]:
        class Unsubscribes(ConsumerRebalanceListener):
            has_begun = False

            async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
                if not self.has_begun:
                    self.has_begun = True
                    await reader.unsubscribe()

        async with consumer(cluster, protocol, **settings) as reader:
            reader.subscribe(["t"], Unsubscribes())
            found = await read(reader, 1)
            reads.rebalance(B)
            if how == "lost":
                reads.fail(ApiKeys.HEARTBEAT if protocol == "classic" else ApiKeys.CONSUMER_GROUP_HEARTBEAT, Errors.UNKNOWN_MEMBER_ID)
            while reader.subscription():
                await reader.poll(100)
            reader.subscribe(["t"])
            return found + await read(reader, 1)

    assert cluster.run(story()) == [(0, 0), (1, 0)]
    cluster.close()


def test_a_closed_consumer_says_so_when_it_is_asked_for_a_position() -> None:
    """It was a RuntimeError about a task scope."""
    cluster = ScriptedCluster()
    ScriptedReads(cluster, t=1)

    async def story() -> None:
        reader = consumer(cluster, "classic")
        reader.assign([A])
        await reader.close()
        with pytest.raises(IllegalStateError, match="This consumer has already been closed"):
            await reader.position(A)

    cluster.run(story())
    cluster.close()
