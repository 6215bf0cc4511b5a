"""Commits that overlap: with newer ones, with rebalances, with the end of a membership."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from support.clients.scripted_cluster import NO_ANSWER, ScriptedCluster
from support.clients.scripted_reads import ScriptedReads, consumer, read

from kmirror.clients.cluster_client import GROUP
from kmirror.clients.consumer.consumer_types import ConsumerRebalanceListener
from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.wire.api_keys import ApiKeys

A, B = (TopicPartition("t", number) for number in range(2))
BOTH = pytest.mark.parametrize("protocol", ["classic", "consumer"])


def test_a_commit_in_the_background_does_not_undo_a_newer_one() -> None:
    """It had begun before, but its task took its turn after the application's commit."""
    cluster = ScriptedCluster()
    reads = ScriptedReads(cluster, t=1)
    reads.assigned = [A]
    reads.fill(A, 30)
    settings = {"enable_auto_commit": "true", "auto_commit_interval_ms": "100", "max_poll_records": "10"}

    async def story() -> None:
        async with consumer(cluster, "classic", **settings) as reader:
            reader.subscribe(["t"])
            await read(reader, 10)
            await cluster.runtime.sleep_ms(200)
            await read(reader, 10)
            await reader.commit()
            await cluster.runtime.sleep_ms(200)
            assert reads.commits == [{A: 10}, {A: 20}]

    cluster.run(story())
    cluster.close()


@BOTH
def test_a_commit_that_is_tried_again_is_not_made_for_a_later_membership(protocol: str) -> None:
    """A member that was fenced, and joined again, committed what it had read before over what the
    partition's new owner had committed.
    """
    cluster = ScriptedCluster()
    reads = ScriptedReads(cluster, t=2)
    reads.assigned = [A]
    reads.fill(A, 10)
    reads.fill(B, 1)

    async def story() -> None:
        async with consumer(cluster, protocol, enable_auto_commit="true", auto_commit_interval_ms="1000") as reader:
            reader.subscribe(["t"])
            await read(reader, 10)
            reads.fail(ApiKeys.OFFSET_COMMIT, *[Errors.COORDINATOR_LOAD_IN_PROGRESS] * 5)
            await cluster.runtime.sleep_ms(1_000)
            await reader.poll(0)
            if protocol == "classic":
                reads.fail(ApiKeys.HEARTBEAT, Errors.UNKNOWN_MEMBER_ID)
            else:
                reads.fail(ApiKeys.CONSUMER_GROUP_HEARTBEAT, Errors.FENCED_MEMBER_EPOCH)
            reads.rebalance(B)
            assert await read(reader, 1) == [(1, 0)]
            reads.committed[A] = 7
            await cluster.runtime.sleep_ms(10_000)
            assert reads.committed[A] == 7

    cluster.run(story())
    cluster.close()


@BOTH
def test_unsubscribe_unsubscribes_even_if_the_listener_raises(protocol: str) -> None:
    """The consumer stayed subscribed without a membership: poll found nothing, for ever."""
    cluster = ScriptedCluster()
    reads = ScriptedReads(cluster, t=1)
    reads.assigned = [A]
    reads.fill(A, 1)

    class Raises(ConsumerRebalanceListener):
        async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            raise ValueError("mine")

    async def story() -> None:
        async with consumer(cluster, protocol) as reader:
            reader.subscribe(["t"], Raises())
            await read(reader, 1)
            with pytest.raises(Exception, match="User rebalance callback throws an error"):
                await reader.unsubscribe()
            assert (reader.subscription(), reader.assignment()) == ([], [])
            reader.assign([A])
            assert await read(reader, 1) == [(0, 0)]

    cluster.run(story())
    cluster.close()


@BOTH
def test_a_membership_ends_even_if_unsubscribe_is_cancelled(protocol: str) -> None:
    """It went on with its heartbeats, so nobody else got its partitions for max.poll.interval.ms."""
    cluster = ScriptedCluster()
    reads = ScriptedReads(cluster, t=1)
    reads.assigned = [A]
    reads.fill(A, 1)
    heartbeat = ApiKeys.HEARTBEAT if protocol == "classic" else ApiKeys.CONSUMER_GROUP_HEARTBEAT

    class Waits(ConsumerRebalanceListener):
        async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            await cluster.runtime.create_future()

    async def story() -> None:
        async with consumer(cluster, protocol) as reader:
            reader.subscribe(["t"], Waits())
            await read(reader, 1)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await reader.unsubscribe()
            await cluster.runtime.sleep_ms(1_000)
            before = len(cluster.asked(heartbeat))
            await cluster.runtime.sleep_ms(10_000)
            assert len(cluster.asked(heartbeat)) == before
            assert (reader.subscription(), reader.assignment()) == ([], [])
            reader.subscribe(["t"])
            assert await read(reader, 1) == [(0, 0)]

    cluster.run(story())
    cluster.close()


@BOTH
def test_a_member_that_waits_in_a_long_poll_stays_in_the_group(protocol: str) -> None:
    """Nothing woke its poll, so it counted as not polling and left, again and again."""
    cluster = ScriptedCluster()
    reads = ScriptedReads(cluster, t=1)

    async def story() -> None:
        async with consumer(cluster, protocol, max_poll_interval_ms="2000") as reader:
            reader.subscribe(["t"])
            assert not await reader.poll(20_000)
            if protocol == "classic":
                assert len(cluster.asked(ApiKeys.JOIN_GROUP)) == 1
            epochs = [request.member_epoch for _, request in cluster.asked(ApiKeys.CONSUMER_GROUP_HEARTBEAT)]
            assert -1 not in epochs

    cluster.run(story())
    assert reads.assigned == []
    cluster.close()


def test_a_member_that_is_unknown_when_it_asks_what_is_committed_joins_again() -> None:
    """The application was told UNKNOWN_MEMBER_ID by poll. A heartbeat would have told nobody."""
    cluster = ScriptedCluster()
    reads = ScriptedReads(cluster, t=1)
    reads.assigned = [A]
    reads.fill(A, 2)
    reads.committed[A] = 1
    reads.fail(ApiKeys.OFFSET_FETCH, Errors.UNKNOWN_MEMBER_ID)

    async def story() -> None:
        async with consumer(cluster, "consumer") as reader:
            reader.subscribe(["t"])
            assert await read(reader, 1) == [(0, 1)]

    cluster.run(story())
    cluster.close()


@BOTH
def test_a_topic_that_is_gone_does_not_hold_up_the_rebalance(protocol: str) -> None:
    """The commit before it was tried again and again, for request.timeout.ms."""
    cluster = ScriptedCluster()
    reads = ScriptedReads(cluster, t=2)
    reads.assigned = [A, B]
    reads.fill(A, 1)

    async def story() -> None:
        async with consumer(cluster, protocol, enable_auto_commit="true", auto_commit_interval_ms="1000000") as reader:
            reader.subscribe(["t"])
            await read(reader, 1)
            reads.fail(ApiKeys.OFFSET_COMMIT, *[Errors.UNKNOWN_TOPIC_OR_PARTITION] * 100)
            reads.rebalance(B)
            while reader.assignment() != [B]:
                await reader.poll(100)
            assert len(cluster.asked(ApiKeys.OFFSET_COMMIT)) == 1

    cluster.run(story())
    cluster.close()


@BOTH
@pytest.mark.parametrize("coordinator", ["silent", "unknown"])
def test_close_ends_in_its_time_whoever_does_not_answer(protocol: str, coordinator: str) -> None:
    """It looked for the coordinator at every broker in turn, each for request.timeout.ms."""
    cluster = ScriptedCluster(3)
    reads = ScriptedReads(cluster, t=1)
    reads.assigned = [A]
    reads.fill(A, 1)

    async def story() -> int:
        reader = consumer(cluster, protocol, enable_auto_commit="true")
        reader.subscribe(["t"])
        await read(reader, 1)
        for key in (ApiKeys.FIND_COORDINATOR, ApiKeys.FETCH, *cluster.handlers):
            cluster.handlers[key] = lambda node_id, request: NO_ANSWER
        if coordinator == "unknown":
            reader._cluster.forget_coordinator("g", GROUP)
        began_ms = cluster.runtime.clock.monotonic_ms()
        await reader.close(timeout_ms=500)
        return cluster.runtime.clock.monotonic_ms() - began_ms

    assert cluster.run(story()) <= 501, "on the simulated clock"
    cluster.close()


def test_an_automatic_commit_that_is_refused_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing said that the group's offsets stood still, until a restart read everything again."""
    cluster = ScriptedCluster()
    reads = ScriptedReads(cluster, t=1)
    reads.assigned = [A]
    reads.fill(A, 1)
    reads.fail(ApiKeys.OFFSET_COMMIT, *[Errors.TOPIC_AUTHORIZATION_FAILED] * 100)

    async def story() -> None:
        async with consumer(cluster, "classic", enable_auto_commit="true", auto_commit_interval_ms="100") as reader:
            reader.subscribe(["t"])
            await read(reader, 1)
            await reader.poll(150)

    cluster.run(story())
    assert "An automatic commit failed: TOPIC_AUTHORIZATION_FAILED: Not authorized to access topics: [t]" in caplog.messages
    assert any(message.startswith("The commit before a rebalance or the end failed") for message in caplog.messages)
    cluster.close()
