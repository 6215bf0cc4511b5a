"""The transaction coordinator of one broker (Kafka's `TransactionCoordinator`): its requests and
its background work.

A transactional id lives in partition abs(hash(id)) mod n of `__transaction_state`, at the broker
that leads that partition; the leader epoch is the *coordinator epoch* that markers carry, so that a
deposed coordinator is refused by the partitions.

    EndTxn ── decided (PrepareCommit / PrepareAbort) ── committed ──> the producer has its answer
                                                            └──────> markers to every partition ──> Complete, written

The second half runs as a separate task for each decided end, and again after a change of the
coordinator. In addition, every `transaction.abort.timed.out.transaction.cleanup.interval.ms`
transactions that have been open for too long are aborted and their producers fenced, and a timer of
the shard expires unused ids.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Final, TypeVar

from kmirror.common.errors import ApiException, Errors
from kmirror.common.metrics import MetricName, MetricsRegistry
from kmirror.common.topic_partition import TRANSACTION_STATE_TOPIC_NAME, TopicPartition, partition_for
from kmirror.coordinator.common.coordinator_runtime import CoordinatorRuntime, CoordinatorState
from kmirror.coordinator.common.coordinator_runtime_metrics import CoordinatorRuntimeMetrics
from kmirror.coordinator.common.coordinator_shard import CoordinatorResult, ShardContext
from kmirror.coordinator.common.partition_log import PartitionLog
from kmirror.coordinator.transaction.transaction_checks import ProducerIdNeededError
from kmirror.coordinator.transaction.transaction_coordinator_shard import (
    PendingCompletion,
    ProducerResult,
    TransactionConfig,
    TransactionCoordinatorShard,
    TransactionFilter,
)
from kmirror.coordinator.transaction.transaction_marker_channel_manager import TransactionMarkerChannelManager
from kmirror.coordinator.transaction.transaction_metadata import TWO_PHASE_COMMIT_TIMEOUT_MS, TransactionMetadata
from kmirror.metadata.features import TRANSACTION_VERSION
from kmirror.metadata.image import MetadataImage, TopicImage
from kmirror.runtime.api import Runtime, TaskScope, run_together
from kmirror.runtime.supervision import Supervised

R = TypeVar("R")
APPEND_RETRY_BACKOFF_MS: Final = 100
_NOT_AVAILABLE: Final = (
    Errors.UNKNOWN_TOPIC_OR_PARTITION,
    Errors.NOT_ENOUGH_REPLICAS,
    Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    Errors.REQUEST_TIMED_OUT,
)
_NOT_COORDINATOR: Final = (Errors.KAFKA_STORAGE_ERROR, Errors.NOT_LEADER_OR_FOLLOWER)
_TOO_LARGE: Final = (Errors.MESSAGE_TOO_LARGE, Errors.RECORD_LIST_TOO_LARGE)

Operation = Callable[[TransactionCoordinatorShard, int, int | None], CoordinatorResult[R]]

_log = logging.getLogger(__name__)


class TransactionCoordinator:
    """`on_metadata_update` follows the leadership of `__transaction_state`; `start` begins the
    background work.

    Methods answer with the request's error, including those of the coordinator itself
    (NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE,
    CONCURRENT_TRANSACTIONS).
    """

    def __init__(
        self,
        runtime: Runtime,
        config: TransactionConfig,
        *,
        log: PartitionLog,
        broker_id: int,
        image: Callable[[], MetadataImage],
        generate_producer_id: Callable[[], Awaitable[int]],
        markers: TransactionMarkerChannelManager,
        metrics: MetricsRegistry,
    ) -> None:
        self._runtime = runtime
        self._config = config
        self._broker_id = broker_id
        self._image = image
        self._generate_producer_id = generate_producer_id
        self._markers = markers
        self._scope = TaskScope(runtime, "transaction-coordinator")
        self._topic: TopicImage | None = None
        self._partition_count = 0
        self._leader_epochs: dict[TopicPartition, int] = {}
        self._append_retries = 0
        self._shards: CoordinatorRuntime[TransactionCoordinatorShard] = CoordinatorRuntime(
            runtime,
            name="transaction-coordinator",
            log=log,
            shard_factory=self._make_shard,
            metrics=CoordinatorRuntimeMetrics(metrics, "transaction-coordinator-metrics"),
        )
        metrics.gauge(
            MetricName("kafka.coordinator.transaction", "TransactionMarkerChannelManager", "LogAppendRetryQueueSize"),
            lambda: self._append_retries,
        )

    def _make_shard(self, context: ShardContext) -> TransactionCoordinatorShard:
        return TransactionCoordinatorShard(
            self._config,
            context,
            clock=self._runtime.clock,
            transaction_version=lambda: self._image().features.level(TRANSACTION_VERSION),
            on_prepared=self._on_prepared,
        )

    def start(self) -> None:
        rounds = Supervised(self._runtime, self._abort_timed_out_transactions, name="transaction-abort")
        self._scope.spawn(rounds.run(), name="transaction-abort")

    async def shutdown(self) -> None:
        await self._scope.cancel()
        await self._markers.shutdown()
        await self._shards.shutdown()

    def on_metadata_update(self, image: MetadataImage) -> None:
        """Loads the shards whose partitions this broker leads, and drops the others."""
        topic = image.topics.topic(TRANSACTION_STATE_TOPIC_NAME)
        if topic is not None and topic is self._topic:
            return  # most updates are about other topics
        if topic is not None and self._topic is not None and topic.id != self._topic.id:
            self._unload_all()  # deleted and created again at once: its epochs start again
        self._topic = topic
        partitions = {} if topic is None else topic.partitions
        for number in range(max(self._partition_count, len(partitions))):
            topic_partition = TopicPartition(TRANSACTION_STATE_TOPIC_NAME, number)
            registration = partitions.get(number)
            if registration is not None and registration.leader == self._broker_id:
                self._leader_epochs[topic_partition] = registration.leader_epoch
                self._shards.schedule_load(topic_partition, registration.leader_epoch)
            else:
                self._leader_epochs.pop(topic_partition, None)
                self._shards.schedule_unload(topic_partition, None if registration is None else registration.leader_epoch)
        self._partition_count = len(partitions)

    def _unload_all(self) -> None:
        for number in range(self._partition_count):
            topic_partition = TopicPartition(TRANSACTION_STATE_TOPIC_NAME, number)
            self._leader_epochs.pop(topic_partition, None)
            self._shards.schedule_unload(topic_partition)

    def partition_for(self, transactional_id: str) -> TopicPartition:
        """Returns the partition that holds the id; raises NOT_COORDINATOR, as Kafka does, while the
        topic does not exist."""
        if self._partition_count == 0:
            raise ApiException(Errors.NOT_COORDINATOR)
        return TopicPartition(TRANSACTION_STATE_TOPIC_NAME, partition_for(transactional_id, self._partition_count))

    # -- requests ----------------------------------------------------------------------------------

    async def init_producer_id(
        self,
        transactional_id: str,
        *,
        timeout_ms: int,
        expected: tuple[int, int] | None,
        enable_two_phase_commit: bool = False,
        keep_prepared_transaction: bool = False,
    ) -> ProducerResult:
        """Initializes a producer; `expected` is the id and epoch that the producer claims to
        have."""
        config = self._config
        if not transactional_id:
            return ProducerResult(Errors.INVALID_REQUEST)
        if enable_two_phase_commit and not config.two_phase_commit_enable:
            return ProducerResult(Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if keep_prepared_transaction:
            return ProducerResult(Errors.UNSUPPORTED_VERSION)
        if not enable_two_phase_commit and not 0 < timeout_ms <= config.transaction_max_timeout_ms:
            return ProducerResult(Errors.INVALID_TRANSACTION_TIMEOUT)
        resolved_ms = TWO_PHASE_COMMIT_TIMEOUT_MS if enable_two_phase_commit else timeout_ms
        return await self._ask_producer(
            transactional_id,
            lambda shard, now_ms, new_producer_id: shard.init_producer_id(
                transactional_id, timeout_ms=resolved_ms, expected=expected, new_producer_id=new_producer_id, now_ms=now_ms
            ),
        )

    async def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        *,
        client_transaction_version: int,
    ) -> Errors:
        if not transactional_id:
            return Errors.INVALID_REQUEST
        try:
            return await self._write(
                self.partition_for(transactional_id),
                lambda shard, now_ms, _: shard.add_partitions(
                    transactional_id,
                    producer_id,
                    producer_epoch,
                    partitions,
                    client_transaction_version=client_transaction_version,
                    now_ms=now_ms,
                ),
            )
        except ApiException as error:
            return error.error

    async def verify_partitions(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, Errors]:
        if not transactional_id:
            return dict.fromkeys(partitions, Errors.INVALID_REQUEST)
        try:
            return await self._shards.read(
                self.partition_for(transactional_id),
                lambda shard, _: shard.verify_partitions(transactional_id, producer_id, producer_epoch, partitions),
            )
        except ApiException as error:
            return dict.fromkeys(partitions, _translated(error).error)

    async def end_transaction(
        self, transactional_id: str, producer_id: int, producer_epoch: int, *, commit: bool, client_transaction_version: int
    ) -> ProducerResult:
        if not transactional_id:
            return ProducerResult(Errors.INVALID_REQUEST)
        return await self._ask_producer(
            transactional_id,
            lambda shard, now_ms, new_producer_id: shard.end_transaction(
                transactional_id,
                producer_id,
                producer_epoch,
                commit=commit,
                client_transaction_version=client_transaction_version,
                new_producer_id=new_producer_id,
                now_ms=now_ms,
            ),
        )

    async def describe_transaction(self, transactional_id: str) -> TransactionMetadata:
        """Returns the transaction; raises ApiException TRANSACTIONAL_ID_NOT_FOUND, INVALID_REQUEST
        (no id), or the coordinator's error."""
        if not transactional_id:
            raise ApiException(Errors.INVALID_REQUEST)
        try:
            found = await self._shards.read(self.partition_for(transactional_id), lambda shard, _: shard.transaction(transactional_id))
        except ApiException as error:
            raise _translated(error) from error
        if found is None:
            raise ApiException(Errors.TRANSACTIONAL_ID_NOT_FOUND)
        return found

    async def list_transactions(self, wanted: TransactionFilter) -> list[TransactionMetadata]:
        """Lists the transactions of all shards here; raises COORDINATOR_LOAD_IN_PROGRESS while one
        of them is loading. A shard that is unloaded meanwhile adds none."""
        if any(self._shards.state(topic_partition) is CoordinatorState.LOADING for topic_partition in self._leader_epochs):
            raise ApiException(Errors.COORDINATOR_LOAD_IN_PROGRESS)
        found: list[TransactionMetadata] = []
        for topic_partition in self._shards.active_partitions():
            try:
                found += await self._shards.read(topic_partition, lambda shard, now_ms: shard.list_transactions(wanted, now_ms))
            except ApiException as error:
                told = _translated(error)
                if told.error is not Errors.NOT_COORDINATOR:
                    raise told from error
        return found

    async def _ask_producer(self, transactional_id: str, operation: Operation[ProducerResult]) -> ProducerResult:
        try:
            return await self._write(self.partition_for(transactional_id), operation)
        except ApiException as error:
            return ProducerResult(error.error)

    async def _write(self, topic_partition: TopicPartition, operation: Operation[R]) -> R:
        """Decides and waits for the commit; fetches a producer id if the decision needs one."""
        new_producer_id: int | None = None

        def decide(shard: TransactionCoordinatorShard, now_ms: int) -> CoordinatorResult[R]:
            return operation(shard, now_ms, new_producer_id)

        while True:
            try:
                return await self._shards.write(topic_partition, decide)
            except ProducerIdNeededError:
                new_producer_id = await self._generate_producer_id()
            except ApiException as error:
                raise _translated(error) from error

    # -- markers -----------------------------------------------------------------------------------

    def _on_prepared(self, topic_partition: TopicPartition, transactional_id: str) -> None:
        if not self._scope.closed:
            name = f"complete-{transactional_id}"
            completion = Supervised(self._runtime, partial(self._complete, topic_partition, transactional_id), name=name, may_return=True)
            self._scope.spawn(completion.run(), name=name)

    async def _complete(self, topic_partition: TopicPartition, transactional_id: str) -> None:
        """Takes a transaction from its decided end to its Complete record, unless another
        coordinator takes over."""
        pending = await self._until_available(
            lambda: self._shards.read(topic_partition, lambda shard, now_ms: shard.pending_completion(transactional_id, now_ms))
        )
        if pending is None:
            return
        if not await self._markers.write_markers(pending, lambda: self._is_coordinator(topic_partition, pending)):
            return
        await self._until_available(lambda: self._shards.write(topic_partition, lambda shard, _: shard.complete(pending)))

    def _is_coordinator(self, topic_partition: TopicPartition, pending: PendingCompletion) -> bool:
        return self._leader_epochs.get(topic_partition) == pending.coordinator_epoch

    async def _until_available(self, attempt: Callable[[], Awaitable[R]]) -> R | None:
        """Returns the result of `attempt`, which is retried while the log cannot be written or the
        commit takes long; None once this broker is no longer the coordinator."""
        waiting = False
        try:
            while True:
                try:
                    return await attempt()
                except ApiException as error:
                    if _translated(error).error is not Errors.COORDINATOR_NOT_AVAILABLE:
                        return None
                if not waiting:
                    waiting = True
                    self._append_retries += 1
                await self._runtime.sleep_ms(APPEND_RETRY_BACKOFF_MS)
        finally:
            self._append_retries -= waiting

    # -- timeouts ----------------------------------------------------------------------------------

    async def _abort_timed_out_transactions(self) -> None:
        while True:
            await self._runtime.sleep_ms(self._config.abort_timed_out_transactions_interval_ms)
            for topic_partition in self._shards.active_partitions():
                try:
                    await self.abort_timed_out(topic_partition)
                except ApiException:
                    continue  # the coordinator moves, or its log cannot be written now: the next round tries again

    async def abort_timed_out(self, topic_partition: TopicPartition) -> None:
        """Runs one round over one shard."""
        timed_out = await self._shards.read(topic_partition, lambda shard, now_ms: shard.timed_out(now_ms))
        if timed_out:
            aborts = [self._try_to_abort(topic_partition, metadata) for metadata in timed_out]
            await run_together(self._runtime, "abort-timed-out", aborts)

    async def _try_to_abort(self, topic_partition: TopicPartition, timed_out: TransactionMetadata) -> None:
        """Aborts one transaction. A failure does not stop the others; the next round tries
        again."""
        try:
            await self._write(topic_partition, partial(_abort_timed_out, timed_out))
        except ApiException as error:
            _log.info("The transaction of %s has timed out but could not be aborted yet: %s", timed_out.transactional_id, error)


def _abort_timed_out(
    metadata: TransactionMetadata, shard: TransactionCoordinatorShard, now_ms: int, new_producer_id: int | None
) -> CoordinatorResult[bool]:
    return shard.abort_timed_out(metadata, new_producer_id=new_producer_id, now_ms=now_ms)


def _translated(error: ApiException) -> ApiException:
    """Returns a refusal of the log as the error that producers know."""
    if error.error in _NOT_AVAILABLE:
        return ApiException(Errors.COORDINATOR_NOT_AVAILABLE, error.message)
    if error.error in _NOT_COORDINATOR:
        return ApiException(Errors.NOT_COORDINATOR, error.message)
    if error.error in _TOO_LARGE:
        return ApiException(Errors.UNKNOWN_SERVER_ERROR, error.message)  # a transaction has too many partitions for one record
    return error
