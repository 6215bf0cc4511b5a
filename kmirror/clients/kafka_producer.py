"""`KafkaProducer`: records and whole batches to a cluster, with Kafka's settings, guarantees and
errors.

    producer = KafkaProducer(runtime, {"bootstrap.servers": "east:9092", "linger.ms": "5"})
    sent = await producer.send(ProducerRecord("orders", b"value", key=b"key"))    # waits for memory and metadata only
    metadata = await sent                                                          # until it is written
    await producer.send_batch(TopicPartition("orders", 3), fetched_batch)          # the same for a batch from elsewhere
    await producer.close()

`send` and `send_batch` return once the record is accepted, which takes max.block.ms at most. What
they return is awaited for the outcome: `RecordMetadata`, or Kafka's error as `ApiException`. A send
is over after delivery.timeout.ms at the latest, or when the producer is closed; nothing waits for
ever. TimeoutException is REQUEST_TIMED_OUT here, RecordTooLargeException is MESSAGE_TOO_LARGE.

A batch from elsewhere is not unpacked. It gets a new header (producer id, epoch, sequence, base
offset, CRC) and travels as it is; `record.producer_header` says which batches cannot.

Transactions: `init_transactions` once, then `begin_transaction`, sends, `send_offsets_to_transaction`,
and `commit_transaction` or `abort_transaction`. If one of these calls ends with REQUEST_TIMED_OUT or is
cancelled, its work goes on, and only the same call may be made again; after offsets, any call may.

The parts: `record_admission` (may it be sent), `record_partitioner`, `record_accumulator` (what
waits), `producer_sender` (requests), `transaction_manager` (sequences and states, pure),
`transaction_calls`, `transactional_requests`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Self, TypeVar

from kmirror.clients.call_times import CallTimes
from kmirror.clients.cluster_client import ClusterClient, PartitionInfo
from kmirror.clients.consumer.consumer_types import ConsumerGroupMetadata
from kmirror.clients.produce_result import (
    Callback,
    FutureRecordMetadata,
    ProducerRecord,
    Receipt,
    RecordMetadata,
)
from kmirror.clients.producer_batch import IllegalStateError, plain_bytes, size_upper_bound
from kmirror.clients.producer_config import ProducerConfig
from kmirror.clients.producer_sender import Sender
from kmirror.clients.record_accumulator import RecordAccumulator
from kmirror.clients.record_admission import RecordAdmission, checked_time
from kmirror.clients.record_partitioner import RecordPartitioner, check_partition
from kmirror.clients.transaction_calls import ABORT, SEND_OFFSETS, TransactionCalls
from kmirror.clients.transaction_manager import TransactionManager
from kmirror.clients.transaction_states import State
from kmirror.clients.transactional_requests import OffsetAndMetadata, TransactionalRequests, check_group_metadata
from kmirror.common.errors import KmirrorError
from kmirror.common.ports import Buffer
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.producer_header import BatchBody, body_of
from kmirror.record.record_batch import RECORD_BATCH_OVERHEAD, RecordBatch
from kmirror.runtime.api import Runtime, TaskScope
from kmirror.runtime.supervision import Supervised

__all__ = [
    "ConsumerGroupMetadata",
    "FutureRecordMetadata",
    "IllegalStateError",
    "KafkaProducer",
    "OffsetAndMetadata",
    "ProducerRecord",
    "RecordMetadata",
]

T = TypeVar("T")
FOR_EVER_MS: Final = 1 << 40
FLUSH: Final = "flush"
TXN_INIT: Final = "txn-init"
TXN_BEGIN: Final = "txn-begin"
TXN_SEND_OFFSETS: Final = "txn-send-offsets"
TXN_COMMIT: Final = "txn-commit"
TXN_ABORT: Final = "txn-abort"


class KafkaProducer:
    """All methods run on the loop's thread, from any number of tasks; those of one transaction
    from one task at a time.
    """

    def __init__(self, runtime: Runtime, configs: Mapping[str, Any], *, cluster: ClusterClient | None = None) -> None:
        """ConfigError for a wrong setting. The producer owns its `ClusterClient`, unless it is
        given one.
        """
        self._runtime = runtime
        self._times = CallTimes(runtime.clock, FLUSH, TXN_INIT, TXN_BEGIN, TXN_SEND_OFFSETS, TXN_COMMIT, TXN_ABORT)
        self.config = config = ProducerConfig(configs, runtime)
        client_id = config.client_id or (f"producer-{config.transactional_id}" if config.transactional_id else "producer-1")
        self._owns_cluster = cluster is None
        self.cluster = cluster or ClusterClient(runtime, config, allow_auto_topic_creation=True, client_id=client_id)
        self._manager = TransactionManager(config.transactional_id) if config.idempotent else None
        self._accumulator = RecordAccumulator(
            batch_size=config.batch_size,
            linger_ms=config.linger_ms,
            max_request_size=config.max_request_size,
            buffer_memory=config.buffer_memory,
            delivery_timeout_ms=config.delivery_timeout_ms,
            codec=config.compression,
            level=config.compression_level,
            transactional=config.transactional_id is not None,
            new_future=runtime.create_future,
        )
        self._requests: TransactionalRequests | None = None
        if self._manager is not None:
            self._requests = TransactionalRequests(self.cluster, self._manager, transaction_timeout_ms=config.transaction_timeout_ms)
        self._partitioner = RecordPartitioner(runtime.random, config, self.cluster, self._accumulator)
        self._scope = TaskScope(runtime, client_id)
        self._calls = TransactionCalls(runtime, self._scope, self._manager, self._requests, max_block_ms=config.max_block_ms)
        self._sender = Sender(
            runtime, config, self.cluster, self._accumulator, self._manager, self._scope, start_work=self._calls.start_work
        )
        self._calls.on_progress = self._sender.wake
        self._admission = RecordAdmission(
            runtime, config, self.cluster, self._accumulator.pool, self._manager, wake_sender=self._sender.wake
        )
        self._ended: asyncio.Future[None] = runtime.create_future()
        """Completed when a closed producer has nothing left to do."""
        self._scope.spawn(Supervised(runtime, self._sender.run, name=f"{client_id}-sender").run(), name="sender")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    def readings(self) -> Iterator[tuple[str, float]]:
        """Yields what is measured here of Kafka's `producer-metrics`."""
        pool = self._accumulator.pool
        yield from self.cluster.readings()
        yield "requests-in-flight", self.cluster.requests_in_flight
        yield "metadata-age", self.cluster.metadata_age_s
        yield from self._sender.metrics.readings()
        yield "buffer-total-bytes", pool.total
        yield "buffer-available-bytes", pool.free
        yield "waiting-threads", pool.queued
        yield from self._admission.readings()
        yield from self._times.readings()

    def node_readings(self) -> Iterator[tuple[int, Iterator[tuple[str, float]]]]:
        """Yields what is measured here of Kafka's `producer-node-metrics`, by broker: latencies."""
        yield from self._sender.metrics.node_readings()

    @property
    def client_id(self) -> str:
        return self.cluster.client_id

    # Sending

    async def send(self, record: ProducerRecord, callback: Callback | None = None) -> FutureRecordMetadata:
        """Accepts a record. IllegalStateError when the producer's state forbids it, or a number of the
        record is out of its range; ApiException when the record cannot be accepted within max.block.ms
        or is too large; TypeError for a field that has no bytes.
        """
        self._admission.ensure_open()
        accumulator = self._accumulator
        key, value, headers = record.key, record.value, record.headers
        if key is not None and type(key) is not bytes:
            key = plain_bytes(key)
        if type(value) is not bytes:
            value = plain_bytes(value)
        if headers:
            headers = [(name, None if content is None else bytes(memoryview(content))) for name, content in headers]
        most_ms = self.config.max_block_ms
        count = self.cluster.partition_count(record.topic)
        if not count or (record.partition is not None and record.partition >= count):
            most_ms = await self._admission.until_known(record.topic, record.partition)
        timestamp = self._runtime.clock.time_ms() if record.timestamp is None else checked_time(record.timestamp)
        most = size_upper_bound(key, value, headers)
        self._admission.ensure_size(RECORD_BATCH_OVERHEAD + most)
        partition = TopicPartition(record.topic, self._partitioner.partition(record, timestamp, most))
        self._admission.may_add(partition)
        future = accumulator.try_append(partition, timestamp, key, value, headers, callback, most=most)
        if future is None:
            memory = accumulator.memory_for(most)
            await self._admission.take_memory(memory, partition, most_ms)
            future = accumulator.try_append(partition, timestamp, key, value, headers, callback, most=most)
            if future is not None:  # others have made room meanwhile
                accumulator.pool.give_back(memory)
            else:
                now_ms = self._runtime.clock.monotonic_ms()
                try:
                    future = accumulator.append_to_new(partition, timestamp, key, value, headers, callback, memory=memory, now_ms=now_ms)
                except Exception:
                    accumulator.pool.give_back(memory)
                    raise
                self._sender.wake()
        self._admission.added(partition)
        queue = accumulator.queues[partition]
        if len(queue) > 1 or queue[0].is_full:
            self._sender.wake()
        self._partitioner.appended(record, queue[-1])
        return future

    async def send_batch(
        self, partition: TopicPartition, batch: Buffer | RecordBatch, callback: Callback | None = None
    ) -> FutureRecordMetadata:
        """Accepts one whole batch of message format 2, to be written as it is; `RecordMetadata` has
        the offset of its first record.

        `batch` must not change until it is written. Its CRC is not checked. Errors as in `send`,
        and INVALID_RECORD for a batch that cannot be sent as it is.
        """
        self._admission.ensure_open()
        body: BatchBody = body_of(batch if isinstance(batch, RecordBatch) else RecordBatch(batch))
        await self._make_way(partition, body.size_in_bytes, body.size_in_bytes)
        now_ms = self._runtime.clock.monotonic_ms()
        future = self._accumulator.append_batch(partition, body, callback, memory=body.size_in_bytes, now_ms=now_ms)
        self._admission.added(partition)
        self._sender.wake()
        return future

    async def send_run(self, partition: TopicPartition, batches: Sequence[RecordBatch], receipt: Receipt) -> None:
        """Accepts whole batches in their order, as `send_batch` does each, or raises and accepts
        none. `receipt` is called for each with its number in the run and what became of it, in any
        order. Together they must not be larger than buffer.memory.
        """
        self._admission.ensure_open()
        if not batches:
            return
        bodies = [body_of(batch) for batch in batches]
        sizes = [batch.size_in_bytes for batch in batches]
        await self._make_way(partition, max(sizes), sum(sizes))
        self._accumulator.append_run(partition, bodies, receipt, now_ms=self._runtime.clock.monotonic_ms())
        self._admission.added(partition)
        self._sender.wake()

    async def _make_way(self, partition: TopicPartition, largest: int, memory: int) -> None:
        """Waits until batches from elsewhere may be queued, the largest of which has `largest` bytes, and
        takes their memory. Errors as in `send`.
        """
        check_partition(partition.partition)
        most_ms = self.config.max_block_ms
        if not self.cluster.partition_count(partition.topic) > partition.partition:
            most_ms = await self._admission.until_known(partition.topic, partition.partition)
        self._admission.ensure_size(largest)
        self._admission.may_add(partition)
        if not self._accumulator.pool.try_take(memory):
            await self._admission.take_memory(memory, partition, most_ms)

    async def flush(self) -> None:
        """Sends everything that was accepted before the call, and waits until all of it is done. A
        closed producer has nothing left, and returns at once, as Kafka's does.
        """
        with self._times.taking(FLUSH):
            await self._flush()

    def trouble(self) -> str | None:
        """Why the first of what waits is not written yet: what its last attempt ended with, that its
        partition has no leader, or that a topic or partition is not there. None if nothing waits,
        or nothing went wrong with it. Nothing of it is raised before delivery.timeout.ms or
        max.block.ms is over, as in Kafka.
        """
        for batch in self._accumulator.incomplete:
            if batch.last_error is not None:
                return f"{batch.partition}: {batch.last_error}"
            if self.cluster.metadata.leader(batch.partition) is None:
                return f"{batch.partition} has no leader"
        return self._admission.trouble()

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The topic's partitions. REQUEST_TIMED_OUT if the topic is not found in max.block.ms."""
        self._admission.ensure_open()
        await self._admission.wait_on_metadata(topic, None)
        return await self.cluster.partitions_for(topic)

    # Transactions

    async def init_transactions(self) -> None:
        """Gets the transactional id's next epoch: fences older producers of it, and ends what they
        left open.
        """
        manager, requests = self._transactional()

        def begin() -> None:
            manager.ensure_no_error()
            manager.transition_to(State.INITIALIZING)

        with self._times.taking(TXN_INIT):
            await self._calls.call("initTransactions", begin, requests.init_producer_id)

    async def begin_transaction(self) -> None:
        manager, requests = self._transactional()
        self._calls.ensure_none_pending("beginTransaction")
        manager.ensure_no_error()
        if manager.state is State.READY and not manager.transactions_v2:
            with self._times.taking(TXN_BEGIN):
                await self._learn_version(requests)
        manager.transition_to(State.IN_TRANSACTION)

    async def _learn_version(self, requests: TransactionalRequests) -> None:
        try:
            async with asyncio.timeout(self.config.max_block_ms / 1000):
                await requests.learn_version()
        except TimeoutError:
            pass  # the next transaction asks again

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group_metadata: ConsumerGroupMetadata
    ) -> None:
        """Commits a group's offsets as a part of the transaction. CommitFailedException if the
        member is not in the group any more; then the transaction can only be aborted.
        """
        manager, requests = self._transactional()
        check_group_metadata(group_metadata)

        def begin() -> None:
            manager.ensure_no_error()
            if manager.state is not State.IN_TRANSACTION:
                raise IllegalStateError(f"Cannot send offsets if a transaction is not in progress (currentState= {manager.state.value})")

        if offsets:
            sent = dict(offsets)
            with self._times.taking(TXN_SEND_OFFSETS):
                await self._calls.call(
                    SEND_OFFSETS, begin, lambda: requests.send_offsets(sent, group_metadata), subject=(sent, group_metadata)
                )

    async def commit_transaction(self) -> None:
        """Flushes and commits. If a send has failed, its error is raised and the transaction must
        be aborted.
        """
        manager, requests = self._transactional()

        def begin() -> None:
            manager.ensure_no_error()
            manager.transition_to(State.COMMITTING_TRANSACTION)

        async def commit() -> None:
            await self._flush()
            await self._calls.until_idle()
            manager.ensure_no_error()
            await requests.end(committed=True)

        with self._times.taking(TXN_COMMIT):
            await self._calls.call("commitTransaction", begin, commit)

    async def abort_transaction(self) -> None:
        """Drops what was not sent yet, and aborts."""
        manager, requests = self._transactional()

        def begin() -> None:
            if manager.has_fatal_error:
                manager.ensure_no_error()
            manager.transition_to(State.ABORTING_TRANSACTION)

        async def abort() -> None:
            self._sender.wake()
            await self._flush()
            await self._calls.until_idle()
            await requests.end(committed=False)

        with self._times.taking(TXN_ABORT):
            await self._calls.call(ABORT, begin, abort)

    # Closing

    async def close(self, timeout_ms: int = FOR_EVER_MS) -> None:
        """Waits for what was accepted, for `timeout_ms` at most, then fails the rest. An open
        transaction is aborted. If it is called again meanwhile, both calls wait, and the one whose time
        is up first ends both. If the caller is cancelled, the rest fails at once.
        """
        if not self._admission.closed:
            self._admission.closed = True
            self._scope.spawn(self._end_well(), name="close")
        try:
            if timeout_ms > 0:
                async with asyncio.timeout(timeout_ms / 1000):
                    await asyncio.shield(self._ended)
        except TimeoutError:
            pass
        finally:
            await self._end_at_once(IllegalStateError("Producer is closed forcefully."))

    async def _end_at_once(self, error: Exception) -> None:
        self._accumulator.pool.fail_all(error)
        self._sender.abort_all(error)
        try:
            await self._scope.cancel()
        finally:
            self._calls.fail_pending(error)
            self._sender.abort_all(error)
            self._nothing_left()
            if self._owns_cluster:
                await self.cluster.close()

    async def _end_well(self) -> None:
        manager, requests = self._manager, self._requests
        block_s = self.config.max_block_ms / 1000
        try:
            await self._calls.wait_pending()
            if manager is not None and requests is not None and manager.state in (State.IN_TRANSACTION, State.ABORTABLE_ERROR):
                manager.transition_to(State.ABORTING_TRANSACTION)
                await self._flush()
                async with asyncio.timeout(block_s):
                    await self._calls.until_idle()
                    await requests.end(committed=False)
        except (KmirrorError, TimeoutError):
            pass  # the coordinator aborts what we could not, after transaction.timeout.ms
        await self._flush()
        self._nothing_left()

    def _nothing_left(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    # Inside

    def _transactional(self) -> tuple[TransactionManager, TransactionalRequests]:
        self._admission.ensure_open()
        if self._manager is None or self._requests is None:
            raise IllegalStateError("Transactional method invoked on a non-transactional producer.")
        self._manager.ensure_transactional()
        return self._manager, self._requests

    async def _flush(self) -> None:
        accumulator = self._accumulator
        waiting = list(accumulator.incomplete)
        last_ms = self._runtime.clock.monotonic_ms()
        accumulator.flushing += 1
        self._sender.wake()
        try:
            while waiting:
                for batch in waiting:
                    if not batch.result.is_known:
                        await asyncio.shield(batch.result.waiter())
                waiting = [batch for batch in accumulator.incomplete if batch.is_part and batch.created_ms <= last_ms]
        finally:
            accumulator.flushing -= 1
