"""Transactional producers of a fleet. Several instances use one transactional id, one after the
other, and each fences those before it.

The protocol is transaction version 2 (KIP-890): Produce v12 adds the partition to the transaction
by itself, and EndTxn v5 answers with the producer id and epoch of the next transaction. Requests
are repeated while the error allows it, and a fenced instance stops for good. A zombie is an
instance that does not know of its successor and goes on; brokers must refuse it.

A transaction writes to one to three partitions. The history gets the outcome of EndTxn with all
values that the transaction sent.
"""

from __future__ import annotations

from collections.abc import Sequence

from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.builder import build_batch
from kmirror.sim.events import History
from kmirror.sim.fleet_clients import NOT_TAKEN, TRANSACTION_COORDINATOR, TRIES, UNKNOWN_FATE, FleetClient, produce_request, records_of
from kmirror.sim.fleet_events import InstanceBegan, TransactionEnded
from kmirror.sim.workload import Pace
from kmirror.wire.messages.end_txn import EndTxnRequest
from kmirror.wire.messages.init_producer_id import InitProducerIdRequest

PRODUCE_VERSION = 12
INIT_VERSION = 5
TRANSACTION_TIMEOUT_MS = 1_500
ABORT_PERCENT = 30
MORE_TRIES = 4 * TRIES
FENCED = (Errors.PRODUCER_FENCED, Errors.INVALID_PRODUCER_EPOCH, Errors.INVALID_PRODUCER_ID_MAPPING, Errors.TRANSACTIONAL_ID_NOT_FOUND)

Sent = tuple[tuple[TopicPartition, bytes], ...]


class TransactionalProducer:
    """One instance of a transactional id. `run` ends when it is fenced."""

    def __init__(
        self,
        client: FleetClient,
        transactional_id: str,
        instance: int,
        partitions: Sequence[TopicPartition],
        history: History,
        *,
        timeout_ms: int = TRANSACTION_TIMEOUT_MS,
    ) -> None:
        self._timeout_ms = timeout_ms
        self.writing = True
        self.fenced = False
        self._client = client
        self._id = transactional_id
        self._instance = instance
        self._partitions = list(partitions)
        self._history = history
        self._pace = Pace(20, 150)
        self._number = 0
        self._producer_id = -1
        self._epoch = -1
        self._sequences: dict[TopicPartition, int] = {}

    async def run(self) -> None:
        if not await self.init():
            return
        while not self.fenced:
            await self._client.pause(self._pace)
            if self.writing:
                await self.transact()

    async def init(self) -> bool:
        """Sends InitProducerId until it succeeds. Returns False if the id is refused for good."""
        request = InitProducerIdRequest(transactional_id=self._id, transaction_timeout_ms=self._timeout_ms)
        while not self.fenced:
            asked_us = self._client.loop.now_us
            response = await self._client.ask_coordinator(self._id, TRANSACTION_COORDINATOR, request, max_version=INIT_VERSION)
            error = None if response is None else Errors.for_code(response.error_code)
            if error is Errors.NONE:
                self._begin_epoch(response.producer_id, response.producer_epoch)
                self._history.add(InstanceBegan(self._client.loop.now_us, self._client.cluster, self._id, self._instance, asked_us))
                return True
            if error is not None and error not in NOT_TAKEN and error not in UNKNOWN_FATE:
                self.fenced = True
            self._client.forget_coordinator(self._id, TRANSACTION_COORDINATOR)
            await self._client.retry_pause()
        return False

    async def transact(self) -> None:
        """Runs one transaction and commits or aborts it. An error in between aborts it."""
        self._number += 1
        label = f"{self._id}/{self._instance}/{self._number}"
        count = 1 + self._client.random.randrange(min(3, len(self._partitions)))
        sent: list[tuple[TopicPartition, bytes]] = []
        complete = True
        for index in range(count):
            partition = self._partitions[(self._number + index) % len(self._partitions)]
            values = tuple(f"{label}/{partition.partition}.{number}".encode() for number in range(1 + self._client.random.randrange(2)))
            sent += [(partition, value) for value in values]
            complete = await self.write(partition, values)
            if not complete or self.fenced:
                break
        if self.fenced:
            return
        commit = complete and self._client.random.randrange(100) >= ABORT_PERCENT
        await self._end(label, tuple(sent), commit=commit)

    async def write(self, partition: TopicPartition, values: tuple[bytes, ...]) -> bool:
        """Writes one batch of a transaction, which the first one begins.

        Returns whether the batch was appended.
        """
        batch = build_batch(
            records_of(values, self._client.runtime.clock.time_ms(), marks_odd=self._client.marks_odd),
            base_offset=0,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=self._sequences.get(partition, 0),
            is_transactional=True,
        )
        for _ in range(TRIES):
            request = produce_request(partition, bytearray(batch), transactional_id=self._id)
            response = await self._client.ask_leader(partition, request, max_version=PRODUCE_VERSION)
            error = None if response is None else Errors.for_code(response.responses[0].partition_responses[0].error_code)
            if error in (Errors.NONE, Errors.DUPLICATE_SEQUENCE_NUMBER):
                self._sequences[partition] = self._sequences.get(partition, 0) + len(values)
                return True
            self._client.forget(partition)
            if error in FENCED:
                self.fenced = True
                return False
            if error is not None and error not in NOT_TAKEN and error not in UNKNOWN_FATE:
                return False
            await self._client.retry_pause()
        return False

    async def _end(self, label: str, sent: Sent, *, commit: bool) -> None:
        """Sends EndTxn until it is answered, and records the outcome.

        If the outcome stays unknown, the instance initialises its id again, which aborts what is
        still open.
        """
        asked_us = self._client.loop.now_us
        request = EndTxnRequest(transactional_id=self._id, producer_id=self._producer_id, producer_epoch=self._epoch, committed=commit)
        outcome = "unknown"
        for _ in range(MORE_TRIES):
            response = await self._client.ask_coordinator(self._id, TRANSACTION_COORDINATOR, request)
            error = None if response is None else Errors.for_code(response.error_code)
            if error is Errors.NONE:
                outcome = "committed" if commit else "aborted"
                self._begin_epoch(response.producer_id, response.producer_epoch)
                break
            if error in FENCED:
                self.fenced = True
                break
            if error is not None and error not in NOT_TAKEN and error not in UNKNOWN_FATE:
                break
            self._client.forget_coordinator(self._id, TRANSACTION_COORDINATOR)
            await self._client.retry_pause()
        self._history.add(
            TransactionEnded(self._client.loop.now_us, self._client.cluster, label, self._id, self._instance, asked_us, outcome, sent)
        )
        if outcome == "unknown" and not self.fenced:
            await self.init()

    def _begin_epoch(self, producer_id: int, producer_epoch: int) -> None:
        self._producer_id, self._epoch = producer_id, producer_epoch
        self._sequences.clear()
