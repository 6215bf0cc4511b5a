"""Topics that go while a consumer reads them."""

from __future__ import annotations

import re

import pytest
from support.clients.scripted_cluster import ScriptedCluster
from support.clients.scripted_reads import ScriptedReads, consumer, read

from kmirror.common.topic_partition import TopicPartition
from kmirror.wire.api_keys import ApiKeys

A = TopicPartition("t", 0)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_topic_that_a_pattern_matched_is_not_created_again(protocol: str) -> None:
    """Whoever deleted it had it back, empty: the consumer asked for its leader by its name, and the
    broker creates what is asked for (auto.create.topics.enable).
    """
    cluster = ScriptedCluster()
    reads = ScriptedReads(cluster, t=1)
    reads.assigned = [A]
    reads.fill(A, 1)

    async def story() -> None:
        async with consumer(cluster, protocol) as reader:
            reader.subscribe(re.compile("t.*"))
            await read(reader, 1)
            del cluster.topics["t"]
            reader._cluster.forget_leader(A)
            await reader.poll(1_000)

    cluster.run(story())
    asked = [request for _, request in cluster.asked(ApiKeys.METADATA) if request.topics]
    assert asked, "the leader was asked for"
    assert [request.allow_auto_topic_creation for request in asked] == [False] * len(asked)
    cluster.close()


def test_a_topic_that_is_no_longer_read_is_not_created_again() -> None:
    """What is known of all topics that were ever asked for is refreshed together. That made brokers
    create those that were deleted after they had been given up.
    """
    cluster = ScriptedCluster()
    reads = ScriptedReads(cluster, t=1, u=1)
    other = TopicPartition("u", 0)
    reads.fill(A, 1)
    reads.fill(other, 1)

    async def story() -> None:
        async with consumer(cluster, "classic", metadata_max_age_ms="2000") as reader:
            reader.assign([A, other])
            await read(reader, 2)
            reader.assign([A])
            del cluster.topics["u"]
            cluster.requests.clear()
            await reader.poll(10_000)

    cluster.run(story())
    asked = [request for _, request in cluster.asked(ApiKeys.METADATA) if "u" in [topic.name for topic in request.topics]]
    assert asked, "what is known was refreshed"
    assert [request.allow_auto_topic_creation for request in asked] == [False] * len(asked)
    cluster.close()
