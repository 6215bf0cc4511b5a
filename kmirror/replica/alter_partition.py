"""Proposes ISR changes to the controller (Kafka's `AlterPartitionManager`): one AlterPartition request in flight at a time.

Changes of a partition that come while a request is in flight wait for the next one. The controller's answer, or its
refusal, goes to `Partition.complete_isr_change`; without an answer the request is sent again after a pause. A refusal of
the whole request (a stale broker epoch) refuses every change in it: the partitions try again with newer metadata.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from kmirror.common.errors import ApiException, Errors
from kmirror.common.uuid import Uuid
from kmirror.runtime.api import Runtime
from kmirror.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    BrokerState,
)

if TYPE_CHECKING:
    from kmirror.replica.partition import Partition

RETRY_BACKOFF_MS = 50

_log = logging.getLogger(__name__)


class AlterPartitionManager:
    """`send` asks the controller (ApiException when it cannot be reached); `broker_epochs` knows the brokers' registrations."""

    def __init__(
        self,
        runtime: Runtime,
        broker_id: int,
        send: Callable[[AlterPartitionRequest], Awaitable[AlterPartitionResponse]],
        broker_epoch_of: Callable[[int], int],
    ) -> None:
        self._runtime = runtime
        self._broker_id = broker_id
        self._send = send
        self._broker_epoch_of = broker_epoch_of
        self._pending: dict[tuple[Uuid, int], tuple[Partition, tuple[int, ...]]] = {}
        self._task: asyncio.Task[None] | None = None

    def submit(self, partition: Partition, isr: tuple[int, ...]) -> None:
        """Propose `isr`; the answer comes to the partition later."""
        self._pending[partition.topic_id, partition.topic_partition.partition] = (partition, isr)
        if self._task is None or self._task.done():
            self._task = self._runtime.spawn(self._send_all(), name="alter-partition")

    def shutdown(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _send_all(self) -> None:
        while self._pending:
            batch, self._pending = self._pending, {}
            try:
                response = await self._send(self._request(batch))
            except ApiException as error:
                _log.info("AlterPartition was not answered (%s); trying again", error.message)
                self._pending = {**batch, **self._pending}
                await self._runtime.sleep_ms(RETRY_BACKOFF_MS)
                continue
            self._complete(batch, response)

    def _request(self, batch: dict[tuple[Uuid, int], tuple[Partition, tuple[int, ...]]]) -> AlterPartitionRequest:
        topics: dict[Uuid, AlterPartitionRequestTopicData] = {}
        for (topic_id, number), (partition, isr) in batch.items():
            topic = topics.setdefault(topic_id, AlterPartitionRequestTopicData(topic_id=topic_id))
            topic.partitions.append(
                AlterPartitionRequestPartitionData(
                    partition_index=number,
                    leader_epoch=partition.leader_epoch,
                    new_isr_with_epochs=[BrokerState(broker_id=member, broker_epoch=self._broker_epoch_of(member)) for member in isr],
                    partition_epoch=partition.partition_epoch,
                )
            )
        return AlterPartitionRequest(
            broker_id=self._broker_id, broker_epoch=self._broker_epoch_of(self._broker_id), topics=list(topics.values())
        )

    @staticmethod
    def _complete(batch: dict[tuple[Uuid, int], tuple[Partition, tuple[int, ...]]], response: AlterPartitionResponse) -> None:
        answers: dict[tuple[Uuid, int], AlterPartitionResponsePartitionData] = {}
        if response.error_code == Errors.NONE:
            answers = {(topic.topic_id, row.partition_index): row for topic in response.topics for row in topic.partitions}
        for key, (partition, _) in batch.items():
            row = answers.get(key)
            if row is None or row.error_code != Errors.NONE:
                code = response.error_code if row is None else row.error_code
                _log.info("The ISR of %s stays as it is: %s", partition.topic_partition, Errors.for_code(code).name)
                partition.complete_isr_change(leader_epoch=partition.leader_epoch, partition_epoch=partition.partition_epoch, isr=None)
            else:
                partition.complete_isr_change(leader_epoch=row.leader_epoch, partition_epoch=row.partition_epoch, isr=tuple(row.isr))
