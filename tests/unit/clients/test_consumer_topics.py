"""Topics that go while a consumer reads them, and partitions that cannot be read for a while."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from support.clients.scripted_cluster import ScriptedCluster
from support.clients.scripted_reads import ScriptedReads, consumer, read

from kmirror.clients.consumer.completed_fetch import CompletedFetch
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


@pytest.mark.parametrize("batches", [False, True])
def test_what_other_partitions_gave_is_not_lost_with_one_that_cannot_be_unpacked(monkeypatch: pytest.MonkeyPatch, batches: bool) -> None:
    """Their positions had moved when the error left poll, and nobody got the records."""
    cluster = ScriptedCluster()
    reads = ScriptedReads(cluster, t=2)
    broken = TopicPartition("t", 1)
    reads.fill(A, 2)
    reads.fill(broken, 2)
    failures = [2]
    method = "fetch_batches" if batches else "fetch_records"
    unpack = getattr(CompletedFetch, method)

    def fetch(self: CompletedFetch, limit: int) -> object:
        if self.partition == broken and failures[0]:
            failures[0] -= 1
            self.drain()
            raise MemoryError
        return unpack(self, limit)

    monkeypatch.setattr(CompletedFetch, method, fetch)

    async def story() -> list[TopicPartition]:
        found: list[TopicPartition] = []
        async with consumer(cluster, "classic") as reader:
            reader.assign([A, broken])
            for partition in (A, broken):
                reader.seek(partition, 0)
            for _ in range(5):
                with suppress(MemoryError):
                    if batches:
                        found += [answer.partition for answer in await reader.poll_batches(1_000)]
                    else:
                        found += [record.topic_partition for record in await reader.poll(1_000)]
        return found

    assert cluster.run(story()) == ([A, broken] if batches else [A, A, broken, broken])
    cluster.close()
