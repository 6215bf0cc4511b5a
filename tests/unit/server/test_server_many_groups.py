"""Requests about many groups or transactions: each answer waits for a commit, and all of them wait
at the same time.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.brokers.broker_doubles import BrokerWorld

from kmirror.coordinator.transaction.transaction_metadata import TransactionMetadata
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kmirror.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from kmirror.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest
from kmirror.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from kmirror.wire.messages.describe_transactions import DescribeTransactionsRequest
from kmirror.wire.messages.feature_level_record import FeatureLevelRecord
from kmirror.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

NAMES = ["a", "b", "c"]


class SlowCoordinator:
    """Answers when it is asked for all of `NAMES`; the later it was asked, the sooner."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Event] = []

    async def _together(self) -> None:
        event = asyncio.Event()
        self._waiting.append(event)
        if len(self._waiting) == len(NAMES):
            for each in reversed(self._waiting):
                each.set()
        await event.wait()

    async def describe_group(self, group_id: str, api_version: int) -> DescribedGroup:
        await self._together()
        return DescribedGroup(group_id=group_id)

    async def describe_consumer_group(self, group_id: str) -> DescribedConsumerGroup:
        await self._together()
        return DescribedConsumerGroup(group_id=group_id)

    async def delete_group(self, group_id: str) -> DeletableGroupResult:
        await self._together()
        return DeletableGroupResult(group_id=group_id)

    async def fetch_offsets(self, group_id: str, wanted: Any, **options: Any) -> dict[str, dict[int, Any]]:
        await self._together()
        return {}

    async def describe_transaction(self, transactional_id: str) -> TransactionMetadata:
        await self._together()
        return TransactionMetadata(transactional_id=transactional_id, producer_id=1, timeout_ms=1, last_update_timestamp_ms=0)


@pytest.mark.parametrize(
    ("key", "version", "request_", "answers", "name"),
    [
        (ApiKeys.DESCRIBE_GROUPS, 6, DescribeGroupsRequest(groups=NAMES), "groups", "group_id"),
        (ApiKeys.CONSUMER_GROUP_DESCRIBE, 1, ConsumerGroupDescribeRequest(group_ids=NAMES), "groups", "group_id"),
        (ApiKeys.DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=NAMES), "results", "group_id"),
        (
            ApiKeys.OFFSET_FETCH,
            9,
            OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=each) for each in NAMES]),
            "groups",
            "group_id",
        ),
        (
            ApiKeys.DESCRIBE_TRANSACTIONS,
            0,
            DescribeTransactionsRequest(transactional_ids=NAMES),
            "transaction_states",
            "transactional_id",
        ),
    ],
    ids=["DescribeGroups", "ConsumerGroupDescribe", "DeleteGroups", "OffsetFetch", "DescribeTransactions"],
)
async def test_answers_waited_for_each_others_commits(
    tmp_path: Path, key: ApiKeys, version: int, request_: Any, answers: str, name: str
) -> None:
    world = BrokerWorld(str(tmp_path))
    world.apply(FeatureLevelRecord(name="group.version", feature_level=1))
    coordinator: Any = SlowCoordinator()
    world.apis.group_coordinator = world.apis.transaction_coordinator = coordinator
    response = await asyncio.wait_for(world.ask(key, request_, version), 5)
    assert [getattr(each, name) for each in getattr(response, answers)] == NAMES
    assert all(each.error_code == 0 for each in getattr(response, answers))
