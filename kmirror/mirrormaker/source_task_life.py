"""One life of a task that copies partitions, from its start to its end: its clients, and what is on its
way (`source_task` has the picture).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

from kmirror.clients.consumer.consumer_types import ConsumedBatch, ConsumerRecords, FetchedBatches, WakeupException
from kmirror.clients.consumer.kafka_consumer import KafkaConsumer
from kmirror.clients.kafka_producer import KafkaProducer
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.batch_copying import Copying, NewBatch, in_runs, joined, packed, rewritten, target_rules
from kmirror.mirrormaker.batches_on_way import BatchesOnWay
from kmirror.mirrormaker.connect_offsets import NOTHING_STORED, SourceOffsets, record_source
from kmirror.mirrormaker.herder.connector_plan import TaskContext
from kmirror.mirrormaker.kept_running import Told
from kmirror.mirrormaker.mirror_metrics import MirrorSourceMetrics
from kmirror.mirrormaker.missing_topics import MissingTopics
from kmirror.mirrormaker.offset_sync_sender import OffsetSyncSender
from kmirror.mirrormaker.sent_runs import SentBatch, SentRun, Written, neighbours
from kmirror.mirrormaker.source_guard import SourceGuard
from kmirror.mirrormaker.source_task_config import SourceTaskConfig, TaskProgress
from kmirror.mirrormaker.source_task_metrics import SourceTaskMeter
from kmirror.mirrormaker.source_task_offset_committer import SourceTaskOffsetCommitter
from kmirror.mirrormaker.source_watch import SourceWatch
from kmirror.mirrormaker.submitted_records import Submitted, SubmittedRecords
from kmirror.mirrormaker.target_watch import TargetWatch
from kmirror.mirrormaker.task_transactions import TaskTransactions
from kmirror.mirrormaker.transformed_copying import TransformedCopying, unpacked
from kmirror.record.compression import CompressionType
from kmirror.record.record import Record
from kmirror.record.record_batch import RecordBatch
from kmirror.runtime.api import Runtime, TaskScope
from kmirror.runtime.supervision import Supervised

FIRST_PAUSE_MS: Final = 100
LONGEST_PAUSE_MS: Final = 5_000
POLLS_OF_RECORDS: Final = 64
"""So often records are polled, after a message of format 0 or 1, until batches are tried again."""
_log = logging.getLogger(__name__)


class SourceTaskLife:
    """A task from its start to its end: clients, and what is on its way. Implements `Copier`."""

    def __init__(
        self,
        runtime: Runtime,
        config: SourceTaskConfig,
        offsets: SourceOffsets,
        metrics: MirrorSourceMetrics,
        progress: TaskProgress,
        context: TaskContext,
        meter: SourceTaskMeter,
        *,
        careful_polls: int = 0,
    ) -> None:
        """The first `careful_polls` polls that bring anything are copied record by record: the target has
        refused a batch.
        """
        self._runtime = runtime
        self._config = config
        self._context = context
        self._offsets = offsets
        self._metrics = metrics
        self._progress = progress
        self._meter = meter
        self._scope = TaskScope(runtime, f"{config.flow}|{config.connector}")
        self._consumer = KafkaConsumer(runtime, {"receive.buffer.bytes": "-1", **config.consumer})
        self._watch = SourceWatch(runtime.clock, self._consumer, f"{config.flow}|{config.connector}", config.flow.source)
        exact = {} if config.transactional_id is None else {"transactional.id": config.transactional_id, "enable.idempotence": "true"}
        self._producer = KafkaProducer(runtime, {"linger.ms": "0", **config.producer, **exact})
        self._guard = SourceGuard(runtime.clock, config, self._consumer, offsets, metrics)
        self._target_watch = TargetWatch(
            runtime.clock, f"[{config.flow}|{config.connector}] {config.flow.target}", self._producer.trouble, lambda: progress.records
        )
        self._transactions = None if config.transactional_id is None else self._made_transactions()
        self._syncs = None
        if config.sync_producer is not None:
            self._syncs = OffsetSyncSender(runtime, config.flow, config.offset_syncs_topic, config.sync_producer, config.offset_lag_max)
        settings = self._producer.config
        self._rules = target_rules(settings, has_codec="compression.type" in config.producer)
        self._submitted = SubmittedRecords()
        self._remotes: dict[TopicPartition, TopicPartition] = {}
        self._on_way = BatchesOnWay(
            runtime.create_future,
            self._written,
            self._fail,
            partitions=len(config.partitions),
            offset_lag_max=config.offset_lag_max,
            buffer_memory=settings.buffer_memory,
        )
        self._missing = MissingTopics(runtime, f"{config.flow}|{config.connector}", config.topic_creation)
        self._transformed: TransformedCopying | None = None
        self._careful_polls = careful_polls
        if config.transforming is not None and not (config.transforming.only_tolerates and self._transactions is not None):
            chain, errors, _ = config.transforming
            self._transformed = TransformedCopying(
                config.flow.source, chain, errors, self._producer, self._submitted, self._transactions, self, context.writes_to, self._missing
            )  # fmt: skip
        self._failure: Exception | None = None
        self._polls_of_records = 0
        self._committer = SourceTaskOffsetCommitter(runtime, str(config.flow), config.offset_flush_interval_ms, self._store_offsets, meter)
        self._started = False

    def _made_transactions(self) -> TaskTransactions[TopicPartition]:
        config = self._config
        return TaskTransactions(
            self._producer,
            self._offsets,
            self._runtime.clock,
            connector=config.connector,
            source_of=partial(record_source, config.flow.source),
            most_ms=config.transaction_ms,
            meter=self._meter,
        )

    async def start(self) -> None:
        """Shuts out former lives if it must, and seeks behind the stored offsets."""
        config = self._config
        self._meter.begin(self._consumer, self._producer)
        if self._transactions is not None:
            await self._producer.init_transactions()
            await self._context.check()
        await self._offsets.refresh()
        self._consumer.assign(config.partitions)
        uncommitted = 0
        for partition in config.partitions:
            stored = self._guard.begin(partition)
            if stored == NOTHING_STORED:
                uncommitted += 1
            else:
                self._consumer.seek(partition, stored + 1)
        name = f"{config.flow}|{config.connector}"
        if self._transactions is None:
            self._scope.spawn(Supervised(self._runtime, self._committer.run, name=f"{name} commits").run(), name="commits")
        if self._syncs is not None:
            self._scope.spawn(Supervised(self._runtime, self._syncs.run, name=f"{name} offset syncs").run(), name="offset-syncs")
        self._started = True
        _log.info(
            "[%s] copies %d partitions, %d of them from the beginning of what the source has", name, len(config.partitions), uncommitted
        )

    async def copy(self, status: Told) -> None:
        """Polls and sends, until the target refuses something."""
        pause_ms = FIRST_PAUSE_MS
        while True:
            if self._failure is not None:
                raise self._failure
            began_ms = self._runtime.clock.monotonic_ms()
            try:
                fetched = await self._poll()
            except WakeupException:
                continue
            except KmirrorError as error:
                if isinstance(error, ApiException) and error.error is Errors.UNSUPPORTED_FOR_MESSAGE_FORMAT:
                    self._polls_of_records = POLLS_OF_RECORDS
                    continue
                _log.warning("[%s] Failure during poll: %s", self._config.flow, error)
                await self._runtime.sleep_ms(pause_ms)
                pause_ms = min(2 * pause_ms, LONGEST_PAUSE_MS)
                continue
            pause_ms = FIRST_PAUSE_MS
            self._watch.polled(status.heard)
            status.trouble("source", self._watch.fault)
            self._target_watch.look_now_and_then()
            status.trouble("target", self._target_watch.fault)
            self._progress.last_poll_ms = self._runtime.clock.monotonic_ms()
            if fetched:
                self._meter.poll_took(self._progress.last_poll_ms - began_ms)
            else:
                self._on_way.note_written()
            if isinstance(fetched, ConsumerRecords):
                self._guard.follow()
            else:
                fetched = await self._guard.look_at(fetched, status, is_heard=self._watch.fault is None)
            await self._copy_fetched(fetched)
            self._meter.poll_ended()
            if self._transactions is not None and self._transactions.is_due:
                await self._end_transaction()

    @property
    def may_be_refused(self) -> bool:
        """Whether batches go on whole although the target may refuse some of their records: then those are to
        be copied one by one, in a careful life.
        """
        transforming = self._config.transforming
        return transforming is not None and transforming.only_tolerates and self._transformed is not None and not self._careful_polls

    @property
    def has_failed(self) -> bool:
        """Whether the target refused what had been sent."""
        return self._failure is not None

    async def _copy_fetched(self, fetched: list[FetchedBatches] | ConsumerRecords) -> None:
        if self._transformed is not None and not self.may_be_refused:
            await self._transform(self._transformed, fetched)
            if self._careful_polls and fetched:
                self._careful_polls -= 1
            return
        if isinstance(fetched, ConsumerRecords):
            for partition in fetched.partitions():
                await self._copy_records(partition, fetched)
            return
        for answer in fetched:
            for what, run in in_runs(answer.batches, self._rules):
                if what is Copying.LEAVE_OUT:
                    self._progress.batches_left_out += len(run)
                elif what is Copying.PASS_ON:
                    await self._pass_on(run)
                else:
                    await self._rewrite(run)
            self._progress.positions[answer.partition] = answer.next_offset

    async def end(self) -> None:
        """Waits for what is on its way, stores offsets, closes; raises no KmirrorError. All is closed, even if
        the task is cancelled while it ends for another reason.
        """
        async with AsyncExitStack() as closing:
            if self._syncs is not None:
                closing.push_async_callback(self._syncs.close)
            # An open transaction is aborted, so that readers of the target need not wait for its timeout.
            producer_ms = 0 if self._transactions is None else self._config.offset_flush_timeout_ms
            closing.push_async_callback(self._producer.close, timeout_ms=producer_ms)
            closing.push_async_callback(self._consumer.close, timeout_ms=0)
            closing.push_async_callback(self._scope.cancel)
            closing.callback(self._meter.end)
            closing.callback(self._missing.close)
            try:
                if self._started:
                    async with asyncio.timeout(self._config.offset_flush_timeout_ms / 1000):
                        await self._finish()
            except (KmirrorError, TimeoutError) as error:
                _log.warning(
                    "[%s] Not everything on its way was acknowledged, and will be copied again: %s",
                    self._config.flow,
                    str(error) or "offset.flush.timeout.ms is over",
                )

    async def _finish(self) -> None:
        if self._transactions is not None:
            if self._failure is None:
                await self._end_transaction()
        else:
            if self._failure is None:
                await self._producer.flush()
            await self._committer.commit()
        if self._syncs is not None:
            await self._syncs.finish()

    # Reading

    async def _poll(self) -> list[FetchedBatches] | ConsumerRecords:
        if self._polls_of_records:
            self._polls_of_records -= 1
            return await self._consumer.poll(self._config.poll_timeout_ms)
        return await self._consumer.poll_batches(self._config.poll_timeout_ms)

    # Copying

    def _remote(self, partition: TopicPartition) -> TopicPartition:
        found = self._remotes.get(partition)
        if found is None:
            remote_topic = self._config.policy.format_remote_topic(self._config.flow.source, partition.topic)
            found = self._remotes[partition] = TopicPartition(remote_topic, partition.partition)
            self._context.writes_to(remote_topic)
        return found

    async def _pass_on(self, run: Sequence[ConsumedBatch]) -> None:
        batches = [consumed.batch for consumed in run]
        self._progress.batches_passed_on += len(run)
        newest_ms = self._note_read(run)
        await self._send(run[0].partition, batches, [range(one.base_offset, one.next_offset) for one in batches], newest_ms)

    async def _rewrite(self, run: Sequence[ConsumedBatch]) -> None:
        """One batch, or tiny ones as one."""
        self._progress.batches_rewritten += len(run)
        newest_ms = max(self._note_read(run))
        now_ms = self._runtime.clock.time_ms()
        first = run[0]
        try:
            new = rewritten(first.batch, first.position, self._rules, now_ms) if len(run) == 1 else joined(run, self._rules, now_ms)
        except ApiException as error:
            raise ApiException(error.error, f"{first.partition}: {error.message}") from error
        await self._send_new(first.partition, new, newest_ms)

    def _note_read(self, run: Sequence[ConsumedBatch]) -> list[int]:
        """Returns the times of the batches' newest records."""
        newest_ms = [consumed.batch.max_timestamp for consumed in run]
        self._metrics.batches_read(self._remote(run[0].partition), sum([consumed.batch.size_in_bytes for consumed in run]), newest_ms)
        return newest_ms

    async def _transform(self, copying: TransformedCopying, fetched: list[FetchedBatches] | ConsumerRecords) -> None:
        for part in unpacked(fetched):
            remote = self._remote(part.partition)
            self._metrics.batches_read(remote, part.size, [part.newest_ms])
            self._progress.batches_rewritten += 1
            records = list(part.records)
            self._meter.polled(len(records))
            dropped = await copying.copy(part.partition, remote, records)
            self._meter.dropped(dropped)
            self._progress.records_dropped += dropped
            self._progress.positions[part.partition] = part.next_offset
            await self._runtime.sleep_ms(0)
            if self._failure is not None:
                return
        if not isinstance(fetched, ConsumerRecords):
            self._progress.positions |= {answer.partition: answer.next_offset for answer in fetched}
        if self._transactions is not None and self._transactions.has_waited(self._config.offset_flush_interval_ms):
            await self._transactions.begin()

    async def _copy_records(self, partition: TopicPartition, fetched: ConsumerRecords) -> None:
        records = [
            Record(record.offset, record.timestamp, record.key, record.value, record.headers) for record in fetched.records(partition)
        ]
        remote = self._remote(partition)
        newest_ms = max(record.timestamp for record in records)
        new = packed(records, self._rules.codec or CompressionType.NONE, self._rules, self._runtime.clock.time_ms())
        self._metrics.batches_read(remote, sum(len(one.data) for one in new), [newest_ms])
        self._progress.batches_rewritten += len(new)
        await self._send_new(partition, new, newest_ms)
        self._progress.positions[partition] = records[-1].offset + 1

    async def _send_new(self, partition: TopicPartition, new: Sequence[NewBatch], newest_ms: int) -> None:
        for one in new:
            await self._send(partition, [RecordBatch(one.data)], [one.upstream_offsets], [newest_ms])

    async def _send(
        self, partition: TopicPartition, batches: Sequence[RecordBatch], upstreams: Sequence[Sequence[int]], newest_ms: Sequence[int]
    ) -> None:
        """Gives batches to the producer. `upstreams` are the offsets of each one's records at the
        source, `newest_ms` the times of their newest records.
        """
        remote = self._remote(partition)
        records = sum(map(len, upstreams))
        self._meter.polled(records)
        if self._missing.is_required(remote.topic):
            await self._missing.make(remote.topic)
        transactions = self._transactions
        if self._on_way.is_full:
            await self._on_way.until_drained()
        submitted: Sequence[Submitted | None]
        if transactions is None:
            submitted = self._submitted.submit(partition, [upstream[-1] for upstream in upstreams])
        else:
            submitted = [None] * len(batches)
        sizes = [batch.size_in_bytes for batch in batches]
        run = SentRun(partition, remote, list(map(SentBatch, upstreams, newest_ms, sizes, submitted)))
        self._on_way.sent(run)
        try:
            if transactions is not None:
                await transactions.begin()
            await self._producer.send_run(remote, batches, partial(self._on_way.done, run))
        except BaseException:
            self._on_way.not_sent(run)
            raise
        if transactions is not None:
            transactions.accepted(partition, upstreams[-1][-1], records)

    def _written(self, run: SentRun, written: list[Written]) -> None:
        """The target has batches."""
        if self._transactions is None:
            self._committed(run, written)
        else:
            self._transactions.acknowledged(partial(self._committed, run, written))

    def _committed(self, run: SentRun, written: list[Written]) -> None:
        """The target has batches, and their transaction, if they have one, is committed."""
        if self._transactions is None:
            self._submitted.acknowledge(run.partition, [sent.submitted for sent, _ in written if sent.submitted is not None])
        count = sum([len(sent.upstream) for sent, _ in written])
        self._progress.records += count
        self._meter.written(count)
        self._progress.last_acknowledged_ms = self._runtime.clock.monotonic_ms()
        self._metrics.batches_acknowledged(run.remote, count, [sent.newest_ms for sent, _ in written])
        if self._syncs is not None:
            for upstream, offset in neighbours(written):
                self._syncs.acknowledged(run.partition, upstream, offset)

    async def _end_transaction(self) -> None:
        """Commits the open transaction, then lets delayed offset syncs go (OS2)."""
        assert self._transactions is not None, "a task without transactions"
        if self._transactions.is_open:
            await self._transactions.commit()
            self._progress.last_commit_ms = self._runtime.clock.monotonic_ms()
            if self._syncs is not None:
                self._syncs.committed()

    def record_written(self, partition: TopicPartition, remote: TopicPartition, record: Record, offset: int) -> None:
        """The target has a record that went through transformations, and it counts."""
        self._progress.records += 1
        self._meter.written(1)
        self._progress.last_acknowledged_ms = self._runtime.clock.monotonic_ms()
        self._metrics.batches_acknowledged(remote, 1, [record.timestamp])
        if self._syncs is not None:
            self._syncs.acknowledged(partition, range(record.offset, record.offset + 1), offset)

    def record_skipped(self) -> None:
        self._meter.dropped(1)

    def record_refused(self, topic: str, error: Exception) -> None:
        self._fail(topic, error)

    def _fail(self, remote: TopicPartition | str, error: Exception) -> None:
        if self._failure is None:
            if isinstance(error, ApiException):
                error = ApiException(error.error, f"{remote}: {error.message}")
            self._failure = error
            self._consumer.wakeup()

    # Offsets

    async def _store_offsets(self) -> None:
        """Stores what the target has, then lets delayed offset syncs go (OS2)."""
        self._on_way.note_written()
        offsets = self._submitted.take_committable()
        if offsets:
            try:
                rows = [(record_source(self._config.flow.source, partition), offset) for partition, offset in offsets.items()]
                await self._offsets.write(self._config.connector, rows)
            except BaseException:
                self._submitted.give_back(offsets)
                raise
        self._progress.last_commit_ms = self._runtime.clock.monotonic_ms()
        if self._syncs is not None:
            self._syncs.committed()
