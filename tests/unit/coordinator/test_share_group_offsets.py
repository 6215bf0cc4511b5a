"""ShareGroupOffsets: the steps between the group's shard and the share coordinator, also when the
second half fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from support.coordinators.group_doubles import ShardHarness, topic_id
from support.coordinators.share_doubles import ShareOffsetsBench

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.coordinator.group.share_group import StatePartitions, TopicPartitions
from kmirror.coordinator.group.share_group_offsets import EndOffset
from kmirror.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kmirror.wire.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsRequestTopic
from kmirror.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)

R = TypeVar("R")
T, U = topic_id("t"), topic_id("u")


@pytest.fixture
def bench() -> ShareOffsetsBench:
    return ShareOffsetsBench(ShardHarness().set_topics(t=2, u=1).load())


def run(coroutine: Coroutine[Any, Any, R]) -> R:
    return asyncio.run(coroutine)


def alter(bench: ShareOffsetsBench, **topics: dict[int, int]) -> dict[tuple[str, int], int]:
    rows = [
        AlterShareGroupOffsetsRequestTopic(name, [AlterShareGroupOffsetsRequestPartition(*item) for item in offsets.items()])
        for name, offsets in topics.items()
    ]
    response = run(bench.offsets.alter(AlterShareGroupOffsetsRequest("g", rows)))
    return {(topic.topic_name, row.partition_index): row.error_code for topic in response.responses for row in topic.partitions}


def known(bench: ShareOffsetsBench) -> StatePartitions | None:
    return bench.harness.shard.groups.groups.share_group("g").state_partitions


def delete(bench: ShareOffsetsBench, *topics: str) -> dict[str, int]:
    request = DeleteShareGroupOffsetsRequest("g", [DeleteShareGroupOffsetsRequestTopic(name) for name in topics])
    return {row.topic_name: row.error_code for row in run(bench.offsets.delete(request)).responses}


def test_what_was_made_is_initialized_and_what_failed_can_be_asked_for_again(bench: ShareOffsetsBench) -> None:
    bench.persister.refuse[1] = Errors.FENCED_STATE_EPOCH
    assert alter(bench, t={0: 5, 1: 6}) == {("t", 0): 0, ("t", 1): Errors.FENCED_STATE_EPOCH}
    assert known(bench) == StatePartitions(initialized={T: TopicPartitions("t", (0,))})
    bench.persister.refuse.clear()
    assert alter(bench, t={1: 6}, u={0: 7}, nowhere={0: 1}) == {("t", 1): 0, ("u", 0): 0, ("nowhere", 0): Errors.UNKNOWN_TOPIC_OR_PARTITION}
    assert known(bench) == StatePartitions(initialized={T: TopicPartitions("t", (0, 1)), U: TopicPartitions("u", (0,))})


def test_lag_is_the_end_without_what_needs_no_delivery(bench: ShareOffsetsBench) -> None:
    alter(bench, t={0: 90, 1: -1}, u={0: 4})
    bench.ends[TopicPartition("u", 0)] = EndOffset(-1, Errors.NOT_LEADER_OR_FOLLOWER)
    described = run(bench.offsets.describe_all("g"))
    rows = {
        (topic.topic_name, row.partition_index): (row.start_offset, row.lag, row.error_code)
        for topic in described.topics
        for row in topic.partitions
    }
    assert rows[("t", 0)] == (90, 10, 0)
    assert rows[("u", 0)] == (0, -1, Errors.NOT_LEADER_OR_FOLLOWER)
    bench.persister.refuse[1] = Errors.COORDINATOR_NOT_AVAILABLE
    asked = [DescribeShareGroupOffsetsRequestTopic("t", [1, 0]), DescribeShareGroupOffsetsRequestTopic("nowhere", [3])]
    named = run(bench.offsets.describe(DescribeShareGroupOffsetsRequestGroup("g", asked)))
    told = [
        (topic.topic_name, [(row.partition_index, row.start_offset, row.error_code) for row in topic.partitions]) for topic in named.topics
    ]
    assert told == [("t", [(1, -1, 0), (0, 90, 0)]), ("nowhere", [(3, -1, 0)])], (
        "an error of the share coordinator is no offset, as in Kafka"
    )


def test_a_deletion_that_fails_stays_begun(bench: ShareOffsetsBench) -> None:
    alter(bench, t={0: 5, 1: 6}, u={0: 7})
    bench.persister.refuse[1] = Errors.COORDINATOR_NOT_AVAILABLE
    assert delete(bench, "t", "u", "nowhere") == {
        "u": 0,
        "nowhere": Errors.UNKNOWN_TOPIC_OR_PARTITION,
        "t": Errors.COORDINATOR_NOT_AVAILABLE,
    }
    assert known(bench) == StatePartitions(deleting=(T,))
    bench.persister.refuse.clear()
    assert delete(bench, "t") == {"t": 0}
    assert known(bench) == StatePartitions()


def test_a_group_goes_only_when_all_of_its_states_are_gone(bench: ShareOffsetsBench) -> None:
    alter(bench, t={0: 5, 1: 6})
    bench.persister.refuse[1] = Errors.REQUEST_TIMED_OUT
    with pytest.raises(ApiException) as failed:
        run(bench.offsets.delete_states_of_group("g"))
    assert failed.value.error is Errors.REQUEST_TIMED_OUT
    assert known(bench) == StatePartitions(deleting=(T,))
    bench.persister.refuse.clear()
    run(bench.offsets.delete_states_of_group("g"))
    assert bench.persister.states["g"] == {T: {}}
    run(bench.offsets.delete_states_of_group("nobody"))


def test_ids_of_groups_are_needed(bench: ShareOffsetsBench) -> None:
    for request in (
        bench.offsets.alter(AlterShareGroupOffsetsRequest("", [])),
        bench.offsets.delete(DeleteShareGroupOffsetsRequest("", [])),
    ):
        with pytest.raises(ApiException) as refused:
            run(request)
        assert refused.value.error is Errors.INVALID_GROUP_ID
    assert run(bench.offsets.describe_group("")).error_code == Errors.INVALID_GROUP_ID
