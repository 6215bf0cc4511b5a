"""Records that a task makes itself, heartbeats and checkpoints, and the source offsets that Connect
stores for them (what Connect's `WorkerSourceTask` and `ExactlyOnceWorkerSourceTask` do for a task).

Such a task reads no stored offsets when it starts. Connect stores an offset for its records all the
same, 0 for each source partition. These tasks do so too, so `mm2-offsets` holds what Apache's program
leaves there.

    ["MirrorHeartbeatConnector",{"sourceClusterAlias":"A","targetClusterAlias":"B"}]      {"offset":0}
    ["MirrorCheckpointConnector",{"partition":3,"topic":"A.t","group":"g"}]              {"offset":0}

    at least once    records are sent; offsets of those that were written follow each
                     offset.flush.interval.ms, and at the end
    exactly once     records of one poll, and their offsets, are one transaction; another
                     transaction.boundary has several polls in one
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from kmirror.clients.kafka_producer import KafkaProducer, ProducerRecord
from kmirror.common.errors import ApiException, KmirrorError
from kmirror.mirrormaker.connect_offsets import SourceOffsets, SourcePartition
from kmirror.mirrormaker.error_handling import described_record
from kmirror.mirrormaker.missing_topics import MissingTopics, TopicCreationConfig
from kmirror.mirrormaker.source_task_metrics import SourceTaskMeter
from kmirror.mirrormaker.source_task_offset_committer import SourceTaskOffsetCommitter
from kmirror.mirrormaker.task_transactions import TaskTransactions
from kmirror.mirrormaker.transforming import Transforming, producer_record
from kmirror.mirrormaker.transforms import Failed, source_record
from kmirror.runtime.api import Runtime, TaskScope
from kmirror.runtime.supervision import Supervised

OFFSET: Final = 0
"""Of every record (Kafka's `MirrorUtils.wrapOffset(0)`)."""
_log = logging.getLogger(__name__)

SourceKey = tuple[tuple[str, str | int], ...]
"""A source partition's names and values."""


class SourceRecord(NamedTuple):
    """A record for partition 0 of `topic`. `source` is its source partition, `timestamp` ms."""

    source: SourceKey
    topic: str
    key: bytes
    value: bytes | None
    timestamp: int


@dataclass(frozen=True)
class RecordsConfig:
    """`producer` are settings of a client. A `transactional_id` asks for exactly once, in transactions
    that last `transaction_ms` (0: one each poll). Records are written as they are unless they are
    `transforming`. Times are ms.
    """

    connector: str
    producer: Mapping[str, str]
    flush_interval_ms: int
    flush_timeout_ms: int
    transactional_id: str | None = None
    transaction_ms: int = 0
    transforming: Transforming | None = None
    topic_creation: TopicCreationConfig | None = None


class SourceRecordWriter:
    """One life of a task's writing. Owns a producer. `writes_to` is called with each topic before it is first
    written to.
    """

    def __init__(
        self,
        runtime: Runtime,
        name: str,
        config: RecordsConfig,
        offsets: SourceOffsets,
        writes_to: Callable[[str], object] = lambda _: None,
        meter: SourceTaskMeter | None = None,
    ) -> None:
        self._meter = meter = meter or SourceTaskMeter(runtime.clock)
        self._writes_to = writes_to
        self._missing = MissingTopics(runtime, name, config.topic_creation)
        self._topics: set[str] = set()
        self._runtime = runtime
        self._name = name
        self._config = config
        self._offsets = offsets
        self._scope = TaskScope(runtime, f"{name}|records")
        exact = {} if config.transactional_id is None else {"transactional.id": config.transactional_id, "enable.idempotence": "true"}
        self._producer = KafkaProducer(runtime, {"linger.ms": "0", **config.producer, **exact})
        self._transactions: TaskTransactions[SourceKey] | None = None
        if config.transactional_id is not None:
            self._transactions = TaskTransactions(
                self._producer, offsets, runtime.clock, connector=config.connector, source_of=dict, most_ms=config.transaction_ms, meter=meter
            )  # fmt: skip
        self._written: dict[SourceKey, None] = {}
        self._committer = SourceTaskOffsetCommitter(runtime, name, config.flush_interval_ms, self._store_offsets, meter)
        self._failure: Exception | None = None

    async def start(self, check: Callable[[], Awaitable[object]]) -> None:
        """Shuts out former lives if it must, and then calls `check`, which raises if another worker has
        the task by now.
        """
        self._meter.begin(None, self._producer)
        if self._transactions is not None:
            await self._producer.init_transactions()
            await check()
        else:
            self._scope.spawn(Supervised(self._runtime, self._committer.run, name=f"{self._name} commits").run(), name="commits")

    async def send(self, record: SourceRecord, written: Callable[[], object] = lambda: None) -> None:
        """Sends a record. `written` is called when it counts: once it is written, or committed. A record that a
        transformation drops counts at once.
        """
        transactions = self._transactions
        self._meter.polled(1)
        made = self._made(record)
        if made is None:
            self._meter.dropped(1)
            written()
            return

        def counts() -> None:
            self._meter.written(1)
            written()

        def done(_: object, error: Exception | None) -> None:
            if error is not None:
                if not self._is_skipped(record, error):
                    self._failure = self._failure or error
                    return
                self._meter.dropped(1)
                self._written[record.source] = None
                written()
            elif transactions is not None:
                transactions.acknowledged(counts)
            else:
                self._written[record.source] = None
                counts()

        if made.topic not in self._topics:
            self._topics.add(made.topic)
            self._writes_to(made.topic)
        with self._noting_failure():
            if self._missing.is_required(made.topic):
                await self._missing.make(made.topic)
            if transactions is not None:
                await transactions.begin()
            try:
                await self._producer.send(made, done)
            except ApiException as error:  # not accepted
                if not self._is_skipped(record, error):
                    raise
                self._meter.dropped(1)
                self._written[record.source] = None
                written()
                return
            if transactions is not None:
                transactions.accepted(record.source, OFFSET, 1)

    def _made(self, record: SourceRecord) -> ProducerRecord | None:
        """None for a record that is dropped, or skipped. KmirrorError for one that fails, which ends the task."""
        transforming = self._config.transforming
        if transforming is None:
            return ProducerRecord(record.topic, record.value, key=record.key, partition=0, timestamp=record.timestamp)
        made = transforming.chain.apply(source_record(record.topic, 0, record.key, record.value, [], record.timestamp))
        if isinstance(made, Failed):
            with self._noting_failure():
                transforming.errors.failed(made, partial(_described, record))
            return None
        return None if made is None else producer_record(made)

    def _is_skipped(self, record: SourceRecord, error: Exception) -> bool:
        """Whether a record that the target does not take counts all the same."""
        transforming = self._config.transforming
        if transforming is None or not transforming.errors.tolerates_all or self._transactions is not None:
            return False
        transforming.errors.not_written(error, partial(_described, record))
        return True

    async def poll_ended(self) -> None:
        """Waits until everything that was sent is written, and commits a transaction that has lasted
        long enough; raises why something was not written.
        """
        self._meter.poll_ended()
        with self._noting_failure():
            if self._transactions is None:
                await self._producer.flush()
            elif self._failure is None and self._transactions.is_due:
                await self._transactions.commit()
        self.raise_failure()

    @contextmanager
    def _noting_failure(self) -> Iterator[None]:
        """What is raised here ends the task, also where a job of it only logs the error."""
        try:
            yield
        except KmirrorError as error:
            self._failure = self._failure or error
            raise

    def raise_failure(self) -> None:
        """Raises why a record was not written, if one was not."""
        if self._failure is not None:
            raise self._failure

    async def end(self) -> None:
        """Waits for what is on its way, stores offsets, closes; never raises a KmirrorError. All is closed,
        even if the task is cancelled while it ends for another reason.
        """
        async with AsyncExitStack() as closing:
            # An open transaction is aborted, so that readers need not wait for its timeout.
            producer_ms = 0 if self._transactions is None else self._config.flush_timeout_ms
            closing.push_async_callback(self._producer.close, timeout_ms=producer_ms)
            closing.push_async_callback(self._scope.cancel)
            closing.callback(self._meter.end)
            closing.callback(self._missing.close)
            try:
                async with asyncio.timeout(self._config.flush_timeout_ms / 1000):
                    if self._transactions is None:
                        await self._producer.flush()
                        await self._committer.commit()
                    elif self._failure is None:
                        await self._transactions.commit()
            except (KmirrorError, TimeoutError) as error:
                reason = str(error) or "offset.flush.timeout.ms is over"
                _log.warning("[%s] Not everything that was sent is known to be written: %s", self._name, reason)

    async def _store_offsets(self) -> None:
        """Stores an offset for each source partition that records were written of since the last time."""
        written, self._written = self._written, {}
        rows: list[tuple[SourcePartition, int]] = [(dict(source), OFFSET) for source in written]
        try:
            await self._offsets.write(self._config.connector, rows)
        except BaseException:
            self._written = written | self._written
            raise


def _described(record: SourceRecord) -> str:
    rest = f"timestamp={record.timestamp}, headers=ConnectHeaders(headers=)"
    return described_record(dict(record.source), OFFSET, record.topic, 0, record.key, record.value, rest)
