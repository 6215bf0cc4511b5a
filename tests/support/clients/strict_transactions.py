"""A transaction coordinator, a group coordinator and partitions that check what Kafka's check: epochs,
states, sequences, and that a partition belongs to the open transaction. Requests are lost, answers
too, or an answer is slow or a retriable error, as dice and `fault_rate` say.

One transactional id. Whatever a marker is late for (CONCURRENT_TRANSACTIONS) is left out.
"""

from __future__ import annotations

import random
from typing import Any

from kmirror.common.errors import Errors
from kmirror.record.record_batch import iter_batches
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from kmirror.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from kmirror.wire.messages.end_txn import EndTxnResponse
from kmirror.wire.messages.init_producer_id import InitProducerIdResponse
from kmirror.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from kmirror.wire.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from support.clients.scripted_cluster import NO_ANSWER, ScriptedCluster
from support.clients.scripted_logs import Log

PRODUCER_ID = 4000
OF_COORDINATORS = (Errors.COORDINATOR_LOAD_IN_PROGRESS, Errors.NOT_COORDINATOR, Errors.CONCURRENT_TRANSACTIONS)
OF_LEADERS = (Errors.NOT_ENOUGH_REPLICAS, Errors.NOT_LEADER_OR_FOLLOWER, Errors.KAFKA_STORAGE_ERROR)


class StrictTransactions:
    def __init__(self, cluster: ScriptedCluster, dice: random.Random, *, version: int) -> None:
        self.cluster = cluster
        self.dice = dice
        self.version = version
        self.fault_rate = 0.0
        self.epoch = -1
        self.is_open = False
        self.last_ended: bool | None = None
        self.offsets: list[int] = []
        self._partitions: set[int] = set()
        self._logs: dict[int, Log] = {}
        self._open_from: dict[int, int] = {}
        self._dropped: dict[int, set[int]] = {}
        self._pending_offsets: list[int] = []
        self._node = 0
        if version >= 2:
            cluster.features["transaction.version"] = 2
        cluster.coordinator_of = lambda key: self._node
        for api_key, handle in {
            ApiKeys.INIT_PRODUCER_ID: self._init,
            ApiKeys.ADD_PARTITIONS_TO_TXN: self._add_partitions,
            ApiKeys.ADD_OFFSETS_TO_TXN: self._add_offsets,
            ApiKeys.TXN_OFFSET_COMMIT: self._commit_offsets,
            ApiKeys.END_TXN: self._end,
            ApiKeys.PRODUCE: self._produce,
        }.items():
            cluster.handlers[api_key] = self._with_faults(handle, is_produce=api_key == ApiKeys.PRODUCE)

    def move(self) -> None:
        """Another broker coordinates from now on."""
        self._node = (self._node + 1) % 3

    def visible(self, number: int) -> list[bytes]:
        log = self._log(number)
        dropped = self._dropped.get(number, set())
        return [value for offset, value in enumerate(log.values) if offset not in dropped]

    def _log(self, number: int) -> Log:
        return self._logs.setdefault(number, Log(takes_any_first=True))

    def _with_faults(self, handle, *, is_produce: bool):
        async def answer(node_id, request) -> Any:
            is_faulty = self.dice.random() < self.fault_rate
            kind = self.dice.choice(["lost", "answer lost", "slow", "error"]) if is_faulty else ""
            if kind == "lost":
                return NO_ANSWER
            if kind == "slow":
                await self.cluster.world.node(f"broker-{node_id}").runtime.sleep_ms(self.dice.choice([5, 300]))
            error = Errors.NONE
            if kind == "error":
                error = self.dice.choice(OF_LEADERS if is_produce else OF_COORDINATORS)
            elif not is_produce and node_id != self._node:
                error = Errors.NOT_COORDINATOR
            found = handle(request, error)
            return NO_ANSWER if kind == "answer lost" else found

        return answer

    def _finish(self, *, committed: bool) -> None:
        for number, offset in self._open_from.items():
            if not committed:
                self._dropped.setdefault(number, set()).update(range(offset, len(self._log(number).values)))
        if committed:
            self.offsets += self._pending_offsets
        for number in self._partitions:
            producer = self._log(number).producers.get(PRODUCER_ID)
            if producer is not None and producer.epoch < self.epoch:
                producer.epoch, producer.batches = self.epoch, []
        self._open_from, self._pending_offsets, self._partitions = {}, [], set()
        self.is_open, self.last_ended = False, committed

    def _init(self, request, error):
        if error:
            return InitProducerIdResponse(error_code=error)
        if request.producer_id >= 0 and request.producer_epoch not in (self.epoch, self.epoch - 1):
            return InitProducerIdResponse(error_code=Errors.PRODUCER_FENCED)
        if request.producer_id < 0 or request.producer_epoch == self.epoch:
            self.epoch += 1
        if self.is_open:
            self._finish(committed=False)
        self.last_ended = None
        return InitProducerIdResponse(producer_id=PRODUCER_ID, producer_epoch=self.epoch)

    def _is_fenced(self, epoch: int) -> bool:
        return epoch != self.epoch

    def _add_partitions(self, request, error):
        assert self.version == 1
        if not error and self._is_fenced(request.v3_and_below_producer_epoch):
            error = Errors.PRODUCER_FENCED
        rows = []
        for topic in request.v3_and_below_topics:
            results = [AddPartitionsToTxnPartitionResult(partition_index=one, partition_error_code=error) for one in topic.partitions]
            rows.append(AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=results))
            if not error:
                self._partitions.update(topic.partitions)
                self.is_open = True
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=rows)

    def _add_offsets(self, request, error):
        assert self.version == 1
        if not error and self._is_fenced(request.producer_epoch):
            error = Errors.PRODUCER_FENCED
        if not error:
            self.is_open = True
        return AddOffsetsToTxnResponse(error_code=error)

    def _commit_offsets(self, request, error):
        if not error and self._is_fenced(request.producer_epoch):
            error = Errors.INVALID_PRODUCER_EPOCH
        if not error and not self.is_open and self.version == 1:
            raise AssertionError("offsets outside of a transaction")
        topics = []
        for topic in request.topics:
            rows = [TxnOffsetCommitResponsePartition(partition_index=row.partition_index, error_code=error) for row in topic.partitions]
            topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=rows))
            if not error:
                self.is_open = True
                self._pending_offsets += [row.committed_offset for row in topic.partitions]
        return TxnOffsetCommitResponse(topics=topics)

    def _end(self, request, error):
        if error:
            return EndTxnResponse(error_code=error)
        is_again = self.version >= 2 and request.producer_epoch == self.epoch - 1 and self.last_ended == request.committed
        if is_again:
            return EndTxnResponse(producer_id=PRODUCER_ID, producer_epoch=self.epoch)
        if self._is_fenced(request.producer_epoch):
            return EndTxnResponse(error_code=Errors.PRODUCER_FENCED)
        if not self.is_open:
            if self.version == 1 and self.last_ended == request.committed:
                return EndTxnResponse()
            if self.version == 1 or request.committed:
                raise AssertionError(f"EndTxn({request.committed}) of a transaction that was never begun")
        if self.version >= 2:
            self.epoch += 1
        self._finish(committed=request.committed)
        return EndTxnResponse(producer_id=PRODUCER_ID, producer_epoch=self.epoch) if self.version >= 2 else EndTxnResponse()

    def _produce(self, request, error):
        rows = []
        for topic in request.topic_data:
            answers = []
            for part in topic.partition_data:
                (batch,) = iter_batches(bytes(part.records))
                found, offset = (error, -1) if error else self._append(part.index, batch)
                answers.append(PartitionProduceResponse(index=part.index, error_code=found, base_offset=offset, log_start_offset=0))
            rows.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers))
        return ProduceResponse(responses=rows)

    def _append(self, number: int, batch) -> tuple[Errors, int]:
        if batch.producer_epoch != self.epoch:
            return Errors.INVALID_PRODUCER_EPOCH, -1
        if number not in self._partitions:
            assert self.version >= 2, "a batch outside of its transaction"
            self._partitions.add(number)
            self.is_open = True
        log = self._log(number)
        before = len(log.values)
        found = log.append(batch)
        if len(log.values) > before:
            self._open_from.setdefault(number, before)
        return found
