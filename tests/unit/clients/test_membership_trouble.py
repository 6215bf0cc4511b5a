"""A member that cannot join its group says why, under both protocols, and joins once it can."""

from __future__ import annotations

import pytest
from support.clients.scripted_cluster import ScriptedCluster, ScriptedTopic
from support.clients.scripted_reads import ScriptedReads, consumer, read

from kmirror.clients.consumer.kafka_consumer import KafkaConsumer
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.wire.api_keys import ApiKeys

A = TopicPartition("t", 0)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_that_cannot_be_joined_is_told(protocol: str) -> None:
    """The application waits in `poll` as if there were nothing to read."""
    cluster = ScriptedCluster(2)
    cluster.topics["t"] = ScriptedTopic({0: 0})
    cluster.coordinator_error = Errors.COORDINATOR_NOT_AVAILABLE
    settings = {"group.id": "g", "group.protocol": protocol}

    async def story() -> tuple[str | None, str | None]:
        consumer = KafkaConsumer(cluster.runtime, cluster.props(0, 1) | settings)
        consumer.subscribe(["t"])
        before = consumer.trouble()
        assert not await consumer.poll(2_000)
        after = consumer.trouble()
        await consumer.close(timeout_ms=100)
        return before, after

    assert cluster.run(story()) == (None, "joining the group g failed at the last try: COORDINATOR_NOT_AVAILABLE")
    cluster.close()


@pytest.mark.parametrize(
    ("protocol", "asked", "error"),
    [
        ("classic", ApiKeys.JOIN_GROUP, Errors.GROUP_AUTHORIZATION_FAILED),
        ("classic", ApiKeys.SYNC_GROUP, Errors.GROUP_AUTHORIZATION_FAILED),
        ("consumer", ApiKeys.CONSUMER_GROUP_HEARTBEAT, Errors.TOPIC_AUTHORIZATION_FAILED),
    ],
)
def test_a_member_whose_rights_come_later_goes_on(protocol: str, asked: ApiKeys, error: Errors) -> None:
    """It was refused for good: every poll raised, also after the right was granted."""
    cluster = ScriptedCluster()
    reads = ScriptedReads(cluster, t=1)
    reads.assigned = [A]
    reads.fill(A, 1)
    reads.fail(asked, error, error)

    async def story() -> None:
        async with consumer(cluster, protocol) as reader:
            reader.subscribe(["t"])
            for _ in range(2):
                with pytest.raises(ApiException) as caught:
                    await reader.poll(5_000)
                assert caught.value.error is error
            assert await read(reader, 1) == [(0, 0)]

    cluster.run(story())
    cluster.close()


def test_an_instance_id_that_another_member_still_has_is_refused_for_good() -> None:
    """As in Java; the member tried again for ever, and the application did not hear of it."""
    cluster = ScriptedCluster()
    reads = ScriptedReads(cluster, t=1)
    reads.assigned = [A]
    reads.fail(ApiKeys.CONSUMER_GROUP_HEARTBEAT, Errors.UNRELEASED_INSTANCE_ID)

    async def story() -> None:
        async with consumer(cluster, "consumer", group_instance_id="i") as reader:
            reader.subscribe(["t"])
            with pytest.raises(ApiException) as caught:
                await reader.poll(5_000)
            assert caught.value.error is Errors.UNRELEASED_INSTANCE_ID

    cluster.run(story())
    assert len(cluster.asked(ApiKeys.CONSUMER_GROUP_HEARTBEAT)) == 1
    cluster.close()


def test_a_heartbeat_without_a_right_does_not_end_the_member() -> None:
    """Java's members go on until the session ends, and the right may be back before that."""
    cluster = ScriptedCluster()
    reads = ScriptedReads(cluster, t=1)
    reads.assigned = [A]
    reads.fill(A, 1)

    async def story() -> None:
        async with consumer(cluster, "classic") as reader:
            reader.subscribe(["t"])
            await read(reader, 1)
            reads.fail(ApiKeys.HEARTBEAT, Errors.GROUP_AUTHORIZATION_FAILED)
            await reader.poll(1_000)
            reads.fill(A, 1)
            assert await read(reader, 1) == [(0, 1)]

    cluster.run(story())
    assert len(cluster.asked(ApiKeys.JOIN_GROUP)) == 1
    cluster.close()
