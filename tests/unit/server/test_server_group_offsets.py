"""OffsetCommit and OffsetDelete at the broker: what it refuses itself, and what it hands to the
coordinator.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.brokers.broker_doubles import BrokerWorld

from kmirror.common.errors import Errors
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages import offset_commit as commit
from kmirror.wire.messages import offset_delete as delete


class Coordinator:
    """Takes everything."""

    async def commit_offsets(self, request: commit.OffsetCommitRequest, api_version: int) -> commit.OffsetCommitResponse:
        row, topic = commit.OffsetCommitResponsePartition, commit.OffsetCommitResponseTopic
        return commit.OffsetCommitResponse(
            topics=[topic(name=each.name, partitions=[row(p.partition_index) for p in each.partitions]) for each in request.topics]
        )

    async def delete_offsets(self, request: delete.OffsetDeleteRequest) -> delete.OffsetDeleteResponse:
        row, topic = delete.OffsetDeleteResponsePartition, delete.OffsetDeleteResponseTopic
        return delete.OffsetDeleteResponse(
            topics=[topic(name=each.name, partitions=[row(p.partition_index) for p in each.partitions]) for each in request.topics]
        )


def errors_of(response: Any) -> dict[tuple[str, int], Errors]:
    return {(topic.name, row.partition_index): Errors.for_code(row.error_code) for topic in response.topics for row in topic.partitions}


async def test_unknown_partitions_are_refused_beside_those_that_are_taken(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    world.apis.group_coordinator = Coordinator()
    world.create_topic("t", partitions=2)
    expected = {
        ("t", 1): Errors.NONE,
        ("t", 0): Errors.NONE,
        ("t", 5): Errors.UNKNOWN_TOPIC_OR_PARTITION,
        ("u", 0): Errors.UNKNOWN_TOPIC_OR_PARTITION,
    }
    numbers = {"t": (1, 5, 0), "u": (0,)}
    committed = [
        commit.OffsetCommitRequestTopic(name=name, partitions=[commit.OffsetCommitRequestPartition(number) for number in each])
        for name, each in numbers.items()
    ]
    response = await world.ask(ApiKeys.OFFSET_COMMIT, commit.OffsetCommitRequest(group_id="g", topics=committed), 8)
    assert errors_of(response) == expected and [topic.name for topic in response.topics] == ["t", "u"]
    deleted = [
        delete.OffsetDeleteRequestTopic(name=name, partitions=[delete.OffsetDeleteRequestPartition(number) for number in each])
        for name, each in numbers.items()
    ]
    response = await world.ask(ApiKeys.OFFSET_DELETE, delete.OffsetDeleteRequest(group_id="g", topics=deleted), 0)
    assert errors_of(response) == expected
