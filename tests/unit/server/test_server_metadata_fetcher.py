"""How a broker fetches the metadata: what it does with answers that give it nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.brokers.broker_doubles import ManualRuntime

from kmirror.common.errors import Errors
from kmirror.metadata.loader import MetadataLoader
from kmirror.server.metadata_fetcher import MetadataFetcher
from kmirror.wire.messages.fetch import FetchableTopicResponse, FetchResponse, LeaderIdAndEpoch, PartitionData


class Refusing:
    """A controller in leader epoch 5 that answers every fetch with one error."""

    def __init__(self, error: Errors) -> None:
        self.error = error
        self.epochs: list[int] = []

    async def send(self, request: Any, **options: Any) -> FetchResponse:
        self.epochs.append(request.topics[0].partitions[0].current_leader_epoch)
        leader = LeaderIdAndEpoch(leader_id=0, leader_epoch=5)
        partition = PartitionData(partition_index=0, error_code=self.error, current_leader=leader)
        return FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])])


@pytest.mark.parametrize("error", [Errors.FENCED_LEADER_EPOCH, Errors.UNKNOWN_LEADER_EPOCH])
async def test_a_fenced_fetch_was_sent_again_and_again_without_a_pause(error: Errors) -> None:
    runtime, controller = ManualRuntime(), Refusing(error)
    channel: Any = controller
    fetcher = MetadataFetcher(runtime, channel, MetadataLoader(), node_id=1, cluster_id="c", on_progress=lambda offset, end: None)
    task = asyncio.ensure_future(fetcher.run())
    for _ in range(50):
        await asyncio.sleep(0)
    soon = [-1, 5] if error is Errors.FENCED_LEADER_EPOCH else [-1]
    assert controller.epochs == soon, "the epoch that the answer names is tried at once"
    runtime.advance(50)
    for _ in range(50):
        await asyncio.sleep(0)
    assert controller.epochs == [*soon, 5]
    task.cancel()
