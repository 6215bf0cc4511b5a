"""Sends BumpLeaderEpochs for the partitions that this broker leads: all bumps wanted at a time go
to the controller in one request.

A failover bumps every partition of a mirror at once; the controller turns that into one batch of
records, and the brokers see one metadata delta. Each partition waits for its own new epoch
(`LedPartition.bump`): an answer without error only says that it will come.
"""

from __future__ import annotations

from typing import NamedTuple

from kmirror.common.errors import ApiException, Errors
from kmirror.common.uuid import Uuid
from kmirror.mirror.request_batcher import RequestBatcher
from kmirror.network.node_channels import ControllerChannel
from kmirror.runtime.api import Runtime
from kmirror.wire.messages import bump_leader_epochs as messages


class EpochBump(NamedTuple):
    """Raise the partition's leader epoch above `min_leader_epoch`."""

    topic: str
    topic_id: Uuid
    partition: int
    min_leader_epoch: int


class LeaderEpochBumper:
    """One per broker; owns the batcher of its bump requests."""

    def __init__(self, runtime: Runtime, controller: ControllerChannel) -> None:
        self._controller = controller
        self.requests: RequestBatcher[None, EpochBump, None] = RequestBatcher(runtime, "bump-leader-epochs", self._send)

    async def bump(self, bump: EpochBump) -> None:
        """Asks the controller for the bump. ApiException: the error that it answers."""
        await self.requests.submit(None, bump)

    async def close(self) -> None:
        await self.requests.close()

    async def _send(self, key: None, bumps: list[EpochBump]) -> list[None | Exception]:
        topics: dict[Uuid, list[messages.LeaderEpochState]] = {}
        for bump in bumps:
            state = messages.LeaderEpochState(partition_index=bump.partition, min_leader_epoch=bump.min_leader_epoch)
            topics.setdefault(bump.topic_id, []).append(state)
        states = [messages.TopicState(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics.items()]
        response = await self._controller.send(messages.BumpLeaderEpochsRequest(topics=states))
        if response.error_code:
            raise ApiException(Errors.for_code(response.error_code), "BumpLeaderEpochs")
        codes = {
            (asked.topic_id, row.partition_index): Errors.for_code(row.error_code)
            for asked, answered in zip(states, response.topics, strict=False)
            for row in answered.partitions
        }
        return [_answer(bump, codes.get((bump.topic_id, bump.partition), Errors.UNKNOWN_SERVER_ERROR)) for bump in bumps]


def _answer(bump: EpochBump, error: Errors) -> None | Exception:
    if error is Errors.NONE:
        return None
    return ApiException(error, f"BumpLeaderEpochs of {bump.topic}-{bump.partition} above {bump.min_leader_epoch}: {error.name}")
