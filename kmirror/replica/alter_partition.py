"""Proposes ISR changes to the controller (Kafka's `AlterPartitionManager`): one AlterPartition
request in flight at a time.

A proposal (`AlterPartitionItem`) is fixed when it is made: leader epoch, partition epoch, and the
ISR with the broker epochs in which its members fetched. It is sent unchanged as often as needed. So
if other metadata overtook a proposal, the controller refuses it, and it is never applied to a state
for which it was not made.

If a request fails as a whole (no answer, a stale broker epoch), its outcome is unknown, so it is
sent again after a pause. The answer for one partition goes to its proposer, which checks by
identity whether it still waits for that proposal. A newer proposal for a partition replaces the
older one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kmirror.common.errors import Errors, KmirrorError
from kmirror.common.lasting_conditions import LastingConditions
from kmirror.common.metrics import Meter, MetricName, MetricsRegistry
from kmirror.common.uuid import Uuid
from kmirror.runtime.api import Runtime
from kmirror.runtime.supervision import Supervised
from kmirror.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    BrokerState,
)

RETRY_BACKOFF_MS = 50

NOT_APPLIED = frozenset((Errors.OPERATION_NOT_ATTEMPTED, Errors.INELIGIBLE_REPLICA))
"""The controller knows our partition epoch and did not apply the proposal: the ISR from before
holds."""

AWAIT_METADATA = frozenset(
    (
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.UNKNOWN_TOPIC_ID,
        Errors.FENCED_LEADER_EPOCH,
        Errors.INVALID_UPDATE_VERSION,
        Errors.INVALID_REQUEST,
        Errors.NEW_LEADER_ELECTED,
    )
)
"""The controller's state is newer than ours: the proposal stays pending until the metadata is here.
Other errors: propose again."""

_REQUEST = "request"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class AlterPartitionItem:
    """One proposal. `isr` holds (broker id, broker epoch), -1 for an epoch that the leader has not
    seen yet.

    `on_answer(item, error, answer)`: the answer is None exactly when there is an error.
    """

    topic_id: Uuid
    partition_index: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]
    on_answer: Callable[[AlterPartitionItem, Errors, AlterPartitionResponsePartitionData | None], None]
    is_expansion: bool = False

    @property
    def key(self) -> tuple[Uuid, int]:
        return self.topic_id, self.partition_index

    @property
    def members(self) -> tuple[int, ...]:
        return tuple(broker_id for broker_id, _ in self.isr)


class IsrMeters:
    """Owns the meters of ISR changes (MBeans of `kafka.server:type=ReplicaManager`)."""

    def __init__(self, registry: MetricsRegistry) -> None:
        def meter(name: str) -> Meter:
            return registry.meter(MetricName("kafka.server", "ReplicaManager", name))

        self.expands = meter("IsrExpandsPerSec")
        self.shrinks = meter("IsrShrinksPerSec")
        self.failed_updates = meter("FailedIsrUpdatesPerSec")

    def answered(self, item: AlterPartitionItem, *, is_applied: bool) -> None:
        (self.failed_updates if not is_applied else self.expands if item.is_expansion else self.shrinks).mark()


class AlterPartitionManager:
    """Owns the proposals that are not answered yet. `send` asks the controller (ApiException if it
    cannot be reached); `broker_epoch_of` returns a broker's registered epoch.
    """

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
        self.meters: IsrMeters | None = None
        self._unanswered: dict[tuple[Uuid, int], AlterPartitionItem] = {}
        self._task: asyncio.Task[None] | None = None
        self._conditions = LastingConditions(_log, runtime.clock.monotonic_ms)

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker."""
        return self._broker_epoch_of(self._broker_id)

    def submit(self, item: AlterPartitionItem) -> None:
        """Sends a proposal; the answer goes to `item.on_answer` later."""
        self._unanswered[item.key] = item
        if self._task is None or self._task.done():
            self._task = Supervised(self._runtime, self._send_all, name="alter-partition", may_return=True).start()

    def submit_again(self, item: AlterPartitionItem, reason: str) -> None:
        """Sends a refused proposal once more; the reason is told once while it lasts."""
        self._conditions.tell(item.key, reason)
        self.submit(item)

    def shutdown(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _send_all(self) -> None:
        while self._unanswered:
            batch = list(self._unanswered.values())
            if not await self._exchange(batch):
                await self._runtime.sleep_ms(RETRY_BACKOFF_MS)

    async def _exchange(self, batch: list[AlterPartitionItem]) -> bool:
        """Sends a batch; returns whether every item was answered and none has to be sent again."""
        try:
            response = await self._send(self._request(batch))
        except KmirrorError as error:
            self._conditions.tell(_REQUEST, f"AlterPartition was not answered ({error}); trying again")
            return False
        if response.error_code != Errors.NONE:
            self._conditions.tell(_REQUEST, f"AlterPartition was refused ({Errors.for_code(response.error_code).name}); trying again")
            return False
        self._conditions.end(_REQUEST)
        rows = {(topic.topic_id, row.partition_index): row for topic in response.topics for row in topic.partitions}
        proposed_again = False
        for item in batch:
            row = rows.get(item.key)
            if row is not None:
                if self._unanswered.get(item.key) is item:
                    del self._unanswered[item.key]
                answer = row if row.error_code == Errors.NONE else None
                if self.meters is not None:
                    self.meters.answered(item, is_applied=answer is not None)
                item.on_answer(item, Errors.for_code(row.error_code), answer)
                is_proposed_again = self._unanswered.get(item.key) is item
                if not is_proposed_again:
                    self._conditions.end(item.key)
                proposed_again |= is_proposed_again
        return not proposed_again and all(item.key in rows for item in batch)

    def _request(self, batch: list[AlterPartitionItem]) -> AlterPartitionRequest:
        topics: dict[Uuid, AlterPartitionRequestTopicData] = {}
        for item in batch:
            topic = topics.setdefault(item.topic_id, AlterPartitionRequestTopicData(topic_id=item.topic_id))
            topic.partitions.append(
                AlterPartitionRequestPartitionData(
                    partition_index=item.partition_index,
                    leader_epoch=item.leader_epoch,
                    new_isr_with_epochs=[BrokerState(broker_id=member, broker_epoch=epoch) for member, epoch in item.isr],
                    partition_epoch=item.partition_epoch,
                )
            )
        return AlterPartitionRequest(broker_id=self._broker_id, broker_epoch=self.broker_epoch, topics=list(topics.values()))
