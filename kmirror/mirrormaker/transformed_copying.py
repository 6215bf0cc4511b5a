"""The way of records that do not go on as they are: one by one through the connector's chain of
transformations, and to the producer (what Connect's `AbstractWorkerSourceTask.sendRecords` does).

Batches are unpacked. A record may be dropped by a filter, or skipped because it failed and
`errors.tolerance=all`; it may go to another topic. What is acknowledged is noted record by record:

    written                   its offset may be stored once those before it may; an offset sync
    dropped, skipped          its offset may be stored with the one before it; no offset sync

So a task begins behind what a filter has dropped, too. (Connect stores only offsets of what was
written, and reads the rest again.) Offset syncs name the place where a record went, whatever the topic,
as Apache's do: groups of a topic whose records are sent to several topics or to other partitions cannot be
translated.

A topic that is not there is made first if the connector has `topic.creation.*` (`missing_topics`). Else it is made
by the target's broker, with its defaults, if it does so (auto.create.topics.enable); if not, the task waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple, Protocol

from kmirror.clients.consumer.consumer_types import ConsumedBatch, ConsumerRecords, FetchedBatches
from kmirror.clients.kafka_producer import KafkaProducer
from kmirror.clients.produce_result import RecordMetadata
from kmirror.common.errors import ApiException
from kmirror.common.ports import Buffer
from kmirror.common.sentinels import NO_OFFSET
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.connect_offsets import record_source
from kmirror.mirrormaker.error_handling import RecordErrors, described_headers, described_record
from kmirror.mirrormaker.missing_topics import MissingTopics
from kmirror.mirrormaker.submitted_records import Submitted, SubmittedRecords
from kmirror.mirrormaker.task_transactions import TaskTransactions
from kmirror.mirrormaker.transforming import producer_record
from kmirror.mirrormaker.transforms import Chain, Failed, Made, source_record
from kmirror.record.record import Record


class Unpacked(NamedTuple):
    """Records of a source partition that came together. `size` is bytes."""

    partition: TopicPartition
    records: Iterable[Record]
    size: int
    newest_ms: int
    next_offset: int


def unpacked(fetched: list[FetchedBatches] | ConsumerRecords) -> Iterator[Unpacked]:
    """Takes records out of what was fetched; control batches have none."""
    if isinstance(fetched, ConsumerRecords):
        for partition in fetched.partitions():
            records = [Record(one.offset, one.timestamp, one.key, one.value, one.headers) for one in fetched.records(partition)]
            size = sum(len(one.key or b"") + len(one.value or b"") for one in fetched.records(partition))
            yield Unpacked(partition, records, size, max(one.timestamp for one in records), records[-1].offset + 1)
        return
    for answer in fetched:
        for consumed in answer.batches:
            batch = consumed.batch
            yield Unpacked(answer.partition, _records(consumed), batch.size_in_bytes, batch.max_timestamp, consumed.next_offset)


def _records(consumed: ConsumedBatch) -> Iterator[Record]:
    if not consumed.batch.is_control:
        yield from (record for record in consumed.batch.records() if record.offset >= consumed.position)


class Copier(Protocol):
    """What a source task does with what became of records."""

    def record_written(self, partition: TopicPartition, remote: TopicPartition, record: Record, offset: int) -> None:
        """The target has a record, at `offset`, and it counts."""
        ...

    def record_skipped(self) -> None:
        """The target does not take a record, and that is tolerated."""
        ...

    def record_refused(self, topic: str, error: Exception) -> None:
        """The target does not take a record; the task ends."""
        ...


class TransformedCopying:
    """One life's. `submitted` is without use if there are `transactions`; `writes_to` is called with each topic
    before it is first written to.
    """

    def __init__(
        self,
        source: str,
        chain: Chain,
        errors: RecordErrors,
        producer: KafkaProducer,
        submitted: SubmittedRecords,
        transactions: TaskTransactions[TopicPartition] | None,
        copier: Copier,
        writes_to: Callable[[str], object],
        missing: MissingTopics,
    ) -> None:
        self._source = source
        self._chain = chain
        self._errors = errors
        self._producer = producer
        self._submitted = submitted
        self._transactions = transactions
        self._copier = copier
        self._writes_to = writes_to
        self._missing = missing
        self._topics: set[str] = set()

    async def copy(self, partition: TopicPartition, remote: TopicPartition, records: Iterable[Record]) -> int:
        """Sends records of a source partition, in their order; returns how many were dropped. `remote` is where
        they go unless a transformation says otherwise. KmirrorError for one that fails and is not
        tolerated.
        """
        dropped = 0
        for record in records:
            key, value = _bytes(record.key), _bytes(record.value)
            headers = [(name, _bytes(one)) for name, one in record.headers]
            made = self._chain.apply(source_record(remote.topic, remote.partition, key, value, headers, record.timestamp))
            if isinstance(made, Failed):
                self._errors.failed(made, partial(self._described, partition, remote, record))
                made = None
            if made is None:
                dropped += 1
                self._drop(partition, record.offset)
            else:
                await self._send(partition, remote, record, made)
        return dropped

    def _drop(self, partition: TopicPartition, offset: int) -> None:
        if self._transactions is None:
            self._submitted.pass_over(partition, offset)
        else:
            self._transactions.passed_over(partition, offset)

    async def _send(self, partition: TopicPartition, remote: TopicPartition, record: Record, made: Made) -> None:
        if made.topic not in self._topics:
            self._topics.add(made.topic)
            self._writes_to(made.topic)
        if self._missing.is_required(made.topic):
            await self._missing.make(made.topic)
        wanted = producer_record(made)
        transactions = self._transactions
        if transactions is not None:
            await transactions.begin()
            await self._producer.send(wanted, partial(self._done, partition, remote, record, None, made.topic))
            transactions.accepted(partition, record.offset, 1)
            return
        (submitted,) = self._submitted.submit(partition, (record.offset,))
        try:
            await self._producer.send(wanted, partial(self._done, partition, remote, record, submitted, made.topic))
        except ApiException as error:  # not accepted: Apache's producer says so in the same way as of one that is refused
            self._done(partition, remote, record, submitted, made.topic, None, error)

    def _done(
        self,
        partition: TopicPartition,
        remote: TopicPartition,
        record: Record,
        submitted: Submitted | None,
        topic: str,
        metadata: RecordMetadata | None,
        error: Exception | None,
    ) -> None:
        if error is not None and (submitted is None or not self._errors.tolerates_all):
            self._copier.record_refused(topic, error)
            return
        if error is not None:
            self._errors.not_written(error, partial(self._described, partition, remote, record))
        if submitted is not None:
            self._submitted.acknowledge(partition, (submitted,))
        if error is not None:
            self._copier.record_skipped()
            return
        written = partial(self._copier.record_written, partition, remote, record, NO_OFFSET if metadata is None else metadata.offset)
        if self._transactions is None:
            written()
        else:
            self._transactions.acknowledged(written)

    def _described(self, partition: TopicPartition, remote: TopicPartition, record: Record) -> str:
        headers = described_headers([(name, _bytes(one)) for name, one in record.headers])
        rest = f"timestamp={record.timestamp}, headers={headers}"
        origin = dict(record_source(self._source, partition))
        return described_record(origin, record.offset, remote.topic, remote.partition, _bytes(record.key), _bytes(record.value), rest)


def _bytes(content: Buffer | None) -> bytes | None:
    return None if content is None else bytes(content)
