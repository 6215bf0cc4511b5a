"""Partitions of scripted brokers that write what producers send, with a broker's checks of producer
ids, epochs and sequences (Kafka's `ProducerStateManager`): a batch that was written already is
answered as such, one that skips a sequence is refused.

A test says with `fault` what goes wrong: an error instead of an append, an append whose answer is
lost, a broker that does not answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kmirror.common.errors import Errors
from kmirror.record.record import NO_SEQUENCE
from kmirror.record.record_batch import RecordBatch, iter_batches
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages.init_producer_id import InitProducerIdResponse
from kmirror.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from support.clients.scripted_cluster import NO_ANSWER, ScriptedCluster

REMEMBERED_BATCHES = 5
APPEND_THEN_LOSE = object()
"""A fault: the batch is written, and the connection ends without an answer."""
LOSE = object()
"""A fault: the connection ends, and nothing is written."""


@dataclass
class Producer:
    epoch: int
    batches: list[tuple[int, int, int]] = field(default_factory=list)  # first sequence, last sequence, base offset


@dataclass
class Log:
    values: list[bytes] = field(default_factory=list)
    batches: list[RecordBatch] = field(default_factory=list)
    producers: dict[int, Producer] = field(default_factory=dict)
    max_batch_bytes: int = 1 << 30
    takes_any_first: bool = False

    def append(self, batch: RecordBatch) -> tuple[Errors, int]:
        """(error, base offset)."""
        assert batch.is_valid(), "the CRC is wrong"
        assert batch.base_offset == 0
        if batch.size_in_bytes > self.max_batch_bytes:
            return Errors.MESSAGE_TOO_LARGE, -1
        if batch.base_sequence != NO_SEQUENCE:
            producer = self.producers.get(batch.producer_id)
            is_unknown = producer is None
            if producer is None:
                producer = self.producers[batch.producer_id] = Producer(batch.producer_epoch)
            elif batch.producer_epoch < producer.epoch:
                return Errors.INVALID_PRODUCER_EPOCH, -1
            elif batch.producer_epoch > producer.epoch:
                producer.epoch, producer.batches = batch.producer_epoch, []
            for first, last, offset in producer.batches:
                if (first, last) == (batch.base_sequence, batch.last_sequence):
                    return Errors.NONE, offset
            expected = producer.batches[-1][1] + 1 & 0x7FFFFFFF if producer.batches else 0
            if is_unknown and self.takes_any_first:
                expected = batch.base_sequence
            if batch.base_sequence != expected:
                return Errors.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            producer.batches = [*producer.batches, (batch.base_sequence, batch.last_sequence, len(self.values))][-REMEMBERED_BATCHES:]
        offset = len(self.values)
        self.values += [bytes(record.value or b"") for record in batch.records()]
        self.batches.append(batch)
        return Errors.NONE, offset


class ScriptedLogs:
    """Serves Produce and InitProducerId of a `ScriptedCluster`."""

    def __init__(self, cluster: ScriptedCluster) -> None:
        self.cluster = cluster
        self.logs: dict[tuple[str, int], Log] = {}
        self.fault: Callable[[int, tuple[str, int], RecordBatch], object] = lambda node_id, partition, batch: None
        self.take_any_first = False
        """Whether new logs take any sequence from a producer that they do not know, as Kafka's do."""
        self.next_producer_id = 1000
        self.epochs: dict[int, int] = {}
        cluster.handlers[ApiKeys.PRODUCE] = self._produce
        cluster.handlers[ApiKeys.INIT_PRODUCER_ID] = self._init_producer_id

    def log(self, topic: str, partition: int = 0) -> Log:
        return self.logs.setdefault((topic, partition), Log(takes_any_first=self.take_any_first))

    def values(self, topic: str, partition: int = 0) -> list[bytes]:
        return self.log(topic, partition).values

    def _init_producer_id(self, node_id, request):
        if request.producer_id >= 0:
            return InitProducerIdResponse(producer_id=request.producer_id, producer_epoch=request.producer_epoch + 1)
        self.next_producer_id += 1
        return InitProducerIdResponse(producer_id=self.next_producer_id, producer_epoch=0)

    def _name(self, topic) -> str | None:
        """None for an id that no topic has (any more)."""
        if topic.name:
            return topic.name
        return next((name for name, one in self.cluster.topics.items() if one.topic_id == topic.topic_id), None)

    def _produce(self, node_id, request):
        rows = []
        lost = False
        for topic in request.topic_data:
            name = self._name(topic)
            answers = []
            for part in topic.partition_data:
                error, offset, is_lost = self._append(node_id, (name, part.index), part.records)
                lost = lost or is_lost
                answers.append(PartitionProduceResponse(index=part.index, error_code=error, base_offset=offset, log_start_offset=0))
            rows.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers))
        if request.acks == 0:
            return None
        return NO_ANSWER if lost else ProduceResponse(responses=rows)

    def _append(self, node_id, partition, records) -> tuple[Errors, int, bool]:
        (batch,) = iter_batches(bytes(records))
        topic, number = partition
        if topic is None:
            return Errors.UNKNOWN_TOPIC_ID, -1, False
        if self.cluster.topics[topic].leaders.get(number) != node_id:
            return Errors.NOT_LEADER_OR_FOLLOWER, -1, False
        fault = self.fault(node_id, partition, batch)
        if isinstance(fault, Errors):
            return fault, -1, False
        if fault is LOSE:
            return Errors.NONE, -1, True
        error, offset = self.log(*partition).append(batch)
        return error, offset, fault is APPEND_THEN_LOSE
