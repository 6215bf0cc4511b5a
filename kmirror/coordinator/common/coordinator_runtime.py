"""The runtime shared by all coordinators: shards over the partitions of one internal topic.

    leadership gained -> LOADING: the log is read from its start and replayed -> ACTIVE
    write(fn): fn(shard, now) -> CoordinatorResult -> append -> replay -> wait for the high
        watermark -> response
    write_transactional(fn): the same in a producer's transaction; complete_transaction writes the
        marker that ends it
    read(fn): fn(shard, now) -> wait until everything it may have seen is committed -> response
    leadership lost -> CLOSED: parked responses fail with NOT_COORDINATOR, timers end, the state is
        dropped

Records are appended before they are replayed, in one synchronous step: a refused append changes
nothing, and no check is separated from its use. Responses wait for the high watermark. Reads wait
until all records appended so far are committed, too, so no answer depends on a record that could
still be lost with this leader (a linearizable read, where Kafka keeps a snapshot per committed
offset). While a partition loads, requests get COORDINATOR_LOAD_IN_PROGRESS; on a broker that does
not lead it, NOT_COORDINATOR; after a failed replay, COORDINATOR_NOT_AVAILABLE until the next leader
epoch. A log that could not be read to its end is loaded again after pauses that grow: a coordinator
never serves with a part of its state (`log_replay`).

The owner calls `schedule_load` and `schedule_unload` from metadata updates, in any order and as
often as it likes: a load for a leader epoch that is not newer, and an unload for an older one, are
ignored.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from typing import Generic, TypeVar

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.coordinator.common.commit_waits import CommitWaits
from kmirror.coordinator.common.coordinator_batches import NO_PRODUCER, ProducerIdAndEpoch, batch_of, split_records
from kmirror.coordinator.common.coordinator_runtime_metrics import CoordinatorRuntimeMetrics
from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord, CoordinatorResult, CoordinatorShard, ShardContext
from kmirror.coordinator.common.coordinator_timers import RETRY_BACKOFF_MS, CoordinatorTimers
from kmirror.coordinator.common.log_replay import replay_log
from kmirror.coordinator.common.partition_log import PartitionLog
from kmirror.record.control_record import ControlRecordType, build_end_transaction_marker
from kmirror.runtime.api import Runtime, TaskScope
from kmirror.storage.producer_state_entry import VerificationGuard

S = TypeVar("S", bound=CoordinatorShard)
R = TypeVar("R")

_LOGGER = logging.getLogger(__name__)

LOAD_AGAIN_AFTER_MS = 1000
LONGEST_LOAD_PAUSE_MS = 30_000
"""A log that the disk could not deliver is read again after LOAD_AGAIN_AFTER_MS; the pause doubles
up to LONGEST_LOAD_PAUSE_MS."""
DEFAULT_WRITE_TIMEOUT_MS = 5_000
NO_FAILURE = (
    Errors.NOT_COORDINATOR,
    Errors.NOT_LEADER_OR_FOLLOWER,
    Errors.COORDINATOR_LOAD_IN_PROGRESS,
    Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.REQUEST_TIMED_OUT,
    Errors.KAFKA_STORAGE_ERROR,
)
"""Errors of the coordinator's own writes that are no failure: another leader will do the work,
after a load or because the log directory failed here; or the record is already in the log and waits
for its commit."""


class CoordinatorState(Enum):
    """The states of a partition's shard."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


class _Context(Generic[S]):
    """One partition's shard with its state, parked responses and timers."""

    def __init__(
        self, topic_partition: TopicPartition, leader_epoch: int, shard: S, timers: CoordinatorTimers, commits: CommitWaits
    ) -> None:
        self.topic_partition = topic_partition
        self.leader_epoch = leader_epoch
        self.shard = shard
        self.timers = timers
        self.state = CoordinatorState.LOADING
        self.load_pause_ms = LOAD_AGAIN_AFTER_MS
        self.commits = commits
        self.stop_listening: Callable[[], None] | None = None
        self.after_load: list[tuple[str, Callable[[S], CoordinatorResult[None]]]] = []


class CoordinatorRuntime(Generic[S]):
    """All shards of one coordinator on this broker."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        name: str,
        log: PartitionLog,
        shard_factory: Callable[[ShardContext], S],
        write_timeout_ms: int = DEFAULT_WRITE_TIMEOUT_MS,
        flush_single_replica: bool = False,
        on_state_change: Callable[[TopicPartition, CoordinatorState], None] | None = None,
        metrics: CoordinatorRuntimeMetrics | None = None,
    ) -> None:
        self._runtime = runtime
        self._name = name
        self._log = log
        self._shard_factory = shard_factory
        self._write_timeout_ms = write_timeout_ms
        self._flush_single_replica = flush_single_replica
        self._on_state_change = on_state_change
        self._contexts: dict[TopicPartition, _Context[S]] = {}
        self._metrics = metrics
        if metrics is not None:
            metrics.show_states(lambda: [context.state.name.lower() for context in self._contexts.values()])
        self._scope = TaskScope(runtime, name)

    def schedule_load(self, topic_partition: TopicPartition, leader_epoch: int) -> None:
        """Loads the partition's shard: this broker leads it from `leader_epoch` on."""
        current = self._contexts.get(topic_partition)
        if current is not None:
            if current.leader_epoch >= leader_epoch:
                return
            self._close(current)
        timers = CoordinatorTimers(self._runtime, lambda key, operation, again: self._run_timer(topic_partition, key, operation, again))
        shard = self._shard_factory(ShardContext(topic_partition, leader_epoch, timers))
        context = _Context(topic_partition, leader_epoch, shard, timers, CommitWaits(self._runtime))
        self._contexts[topic_partition] = context
        self._scope.spawn(self._load(context), name=f"load-{topic_partition}-{leader_epoch}")

    def schedule_unload(self, topic_partition: TopicPartition, leader_epoch: int | None = None) -> None:
        """Drops the partition's shard: this broker does not lead it any more (from `leader_epoch`
        on, if given)."""
        current = self._contexts.get(topic_partition)
        if current is None or (leader_epoch is not None and current.leader_epoch > leader_epoch):
            return
        del self._contexts[topic_partition]
        self._close(current)

    def state(self, topic_partition: TopicPartition) -> CoordinatorState:
        context = self._contexts.get(topic_partition)
        return CoordinatorState.CLOSED if context is None else context.state

    def active_partitions(self) -> list[TopicPartition]:
        """Returns the partitions whose shard is loaded, sorted."""
        return sorted(tp for tp, context in self._contexts.items() if context.state is CoordinatorState.ACTIVE)

    def shards(self) -> list[S]:
        """Returns all shards, even those that are loading."""
        return [context.shard for context in self._contexts.values()]

    def partitions(self) -> list[TopicPartition]:
        """Returns the partitions that this broker leads, loaded or not, sorted."""
        return sorted(self._contexts)

    def active_shards(self) -> list[S]:
        """Returns the loaded shards, in the order of their partitions."""
        return [self._contexts[topic_partition].shard for topic_partition in self.active_partitions()]

    def run(self, topic_partition: TopicPartition, name: str, operation: Callable[[S], CoordinatorResult[None]]) -> None:
        """Writes without a caller that waits; retries while the ISR is too small."""

        def again() -> None:
            self._runtime.call_later_ms(RETRY_BACKOFF_MS, lambda: self.run(topic_partition, name, operation))

        self._run(topic_partition, name, operation, again)

    def run_everywhere(self, name: str, operation: Callable[[S], CoordinatorResult[None]]) -> None:
        """Calls `run` for every shard; for those that are loading, as soon as they have loaded."""
        for topic_partition, context in sorted(self._contexts.items()):
            if context.state is CoordinatorState.LOADING:
                context.after_load.append((name, operation))
            elif context.state is CoordinatorState.ACTIVE:
                self.run(topic_partition, name, operation)

    def _run(
        self, topic_partition: TopicPartition, name: str, operation: Callable[[S], CoordinatorResult[None]], again: Callable[[], None]
    ) -> None:
        """Writes and ignores errors in `NO_FAILURE`. While the ISR is too small nothing is written,
        and `again` is called. Other failures are reported."""

        async def write() -> None:
            try:
                await self.write(topic_partition, lambda shard, now_ms: operation(shard))
            except ApiException as error:
                if error.error is Errors.NOT_ENOUGH_REPLICAS:
                    again()
                elif error.error not in NO_FAILURE:
                    self._runtime.report_failure(f"{self._name}: {name} of {topic_partition} failed", error)

        if not self._scope.closed:
            self._scope.spawn(write(), name=name)

    async def write(
        self,
        topic_partition: TopicPartition,
        operation: Callable[[S, int], CoordinatorResult[R]],
        *,
        timeout_ms: int | None = None,
    ) -> R:
        """Decides, appends, replays, and answers once committed. Raises ApiException for the
        coordinator's state, a refused append, or REQUEST_TIMED_OUT."""
        return await self._write(topic_partition, operation, NO_PRODUCER, None, timeout_ms)

    async def write_transactional(
        self,
        topic_partition: TopicPartition,
        operation: Callable[[S, int], CoordinatorResult[R]],
        *,
        producer: ProducerIdAndEpoch,
        verification_guard: VerificationGuard | None = None,
        timeout_ms: int | None = None,
    ) -> R:
        """Does what `write` does, in one transactional batch of `producer`; `verification_guard`
        proves that its transaction was verified."""
        return await self._write(topic_partition, operation, producer, verification_guard, timeout_ms)

    async def _write(
        self,
        topic_partition: TopicPartition,
        operation: Callable[[S, int], CoordinatorResult[R]],
        producer: ProducerIdAndEpoch,
        verification_guard: VerificationGuard | None,
        timeout_ms: int | None,
    ) -> R:
        context = self._active(topic_partition)
        result, end_offset = self._decide(context, operation, producer, verification_guard)
        if result.records and self._flush_single_replica:
            await self._log.flush_if_single_replica(topic_partition)
        await self._wait_committed(context, end_offset, timeout_ms or self._write_timeout_ms)
        return result.response

    async def complete_transaction(
        self,
        topic_partition: TopicPartition,
        *,
        producer: ProducerIdAndEpoch,
        coordinator_epoch: int,
        committed: bool,
        transaction_version: int = 0,
        timeout_ms: int | None = None,
    ) -> None:
        """Writes the marker that ends the producer's transaction here, applies it, and returns once
        it is committed."""
        context = self._active(topic_partition)
        marker = build_end_transaction_marker(
            ControlRecordType.COMMIT if committed else ControlRecordType.ABORT,
            coordinator_epoch=coordinator_epoch,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            timestamp=self._runtime.clock.time_ms(),
        )
        end_offset = self._log.append(topic_partition, marker, leader_epoch=context.leader_epoch, transaction_version=transaction_version)
        context.shard.replay_end_transaction_marker(
            producer_id=producer.producer_id, producer_epoch=producer.producer_epoch, committed=committed
        )
        await self._wait_committed(context, end_offset, timeout_ms or self._write_timeout_ms)

    async def read(self, topic_partition: TopicPartition, operation: Callable[[S, int], R]) -> R:
        """Asks the shard; the answer is given once everything appended so far is committed."""
        context = self._active(topic_partition)
        response = operation(context.shard, self._runtime.clock.time_ms())
        await self._wait_committed(context, self._log.log_end_offset(topic_partition), self._write_timeout_ms)
        return response

    async def shutdown(self) -> None:
        for topic_partition in list(self._contexts):
            self.schedule_unload(topic_partition)
        await self._scope.cancel()

    def _active(self, topic_partition: TopicPartition) -> _Context[S]:
        context = self._contexts.get(topic_partition)
        if context is None or context.state is CoordinatorState.CLOSED:
            raise ApiException(Errors.NOT_COORDINATOR)
        if context.state is CoordinatorState.LOADING:
            raise ApiException(Errors.COORDINATOR_LOAD_IN_PROGRESS)
        if context.state is CoordinatorState.FAILED:
            raise ApiException(Errors.COORDINATOR_NOT_AVAILABLE)
        return context

    def _decide(
        self,
        context: _Context[S],
        operation: Callable[[S, int], CoordinatorResult[R]],
        producer: ProducerIdAndEpoch,
        verification_guard: VerificationGuard | None,
    ) -> tuple[CoordinatorResult[R], int]:
        now_ms = self._runtime.clock.time_ms()
        result = operation(context.shard, now_ms)
        limit = None if result.atomic else self._log.max_batch_size(context.topic_partition) // 2
        batches = split_records(result.records, limit)
        end_offset = self._log.log_end_offset(context.topic_partition)
        for records in batches:
            end_offset = self._append(context, records, now_ms, producer, verification_guard)
            for index, record in enumerate(records):
                offset = end_offset - len(records) + index
                context.shard.replay(offset, record, producer_id=producer.producer_id, producer_epoch=producer.producer_epoch)
        if result.on_appended is not None:
            result.on_appended()
        return result, end_offset

    def _append(
        self,
        context: _Context[S],
        records: list[CoordinatorRecord],
        now_ms: int,
        producer: ProducerIdAndEpoch,
        verification_guard: VerificationGuard | None,
    ) -> int:
        batch = batch_of(records, now_ms, producer)
        limit = self._log.max_batch_size(context.topic_partition)
        if len(batch) > limit:
            raise ApiException(
                Errors.RECORD_LIST_TOO_LARGE, f"a batch of {len(batch)} bytes for {context.topic_partition}, which takes {limit}"
            )
        return self._log.append(context.topic_partition, batch, leader_epoch=context.leader_epoch, verification_guard=verification_guard)

    async def _wait_committed(self, context: _Context[S], offset: int, timeout_ms: int) -> None:
        if context.state is not CoordinatorState.ACTIVE:
            raise ApiException(Errors.NOT_COORDINATOR)
        if self._log.high_watermark(context.topic_partition) >= offset:
            return
        await context.commits.wait(offset, timeout_ms)

    async def _load(self, context: _Context[S]) -> None:
        started_ms = self._runtime.clock.monotonic_ms()
        try:
            await replay_log(
                self._runtime, self._log, context.topic_partition, context.shard, lambda: context.state is CoordinatorState.LOADING
            )
        except Exception as error:  # noqa: BLE001 - reported; requests must not see LOADING for ever
            if context.state is not CoordinatorState.LOADING:
                return
            context.state = CoordinatorState.FAILED
            self._on_load_failure(context, error)
            self._notify(context)
            return
        if context.state is not CoordinatorState.LOADING:
            return
        context.state = CoordinatorState.ACTIVE
        if self._metrics is not None:
            self._metrics.loaded(self._runtime.clock.monotonic_ms() - started_ms)
        context.stop_listening = self._log.add_listener(context.topic_partition, context.commits.on_high_watermark)
        context.shard.on_loaded(self._runtime.clock.time_ms())
        for name, operation in context.after_load:
            self.run(context.topic_partition, name, operation)
        self._notify(context)

    def _on_load_failure(self, context: _Context[S], error: Exception) -> None:
        """Retries after a disk failure, which is no bug and may pass; reports every other error."""
        what = f"{self._name}: {context.topic_partition} could not be loaded"
        if not isinstance(error, ApiException) or error.error is not Errors.KAFKA_STORAGE_ERROR:
            self._runtime.report_failure(what, error)
            return
        pause_ms = context.load_pause_ms
        _LOGGER.error("%s; the load is tried again in %d ms: %s", what, pause_ms, error.message)
        self._runtime.call_later_ms(pause_ms, lambda: self._load_again(context))

    def _load_again(self, context: _Context[S]) -> None:
        """The disk could not be read for a reason that may pass (no free descriptor), so the load
        is retried without waiting for an election. Corrupt data fails again, and a broker that no
        longer leads the partition gets an error."""
        if self._contexts.get(context.topic_partition) is context and context.state is CoordinatorState.FAILED:
            self.schedule_unload(context.topic_partition)
            self.schedule_load(context.topic_partition, context.leader_epoch)
            self._contexts[context.topic_partition].load_pause_ms = min(2 * context.load_pause_ms, LONGEST_LOAD_PAUSE_MS)

    def _run_timer(
        self, topic_partition: TopicPartition, key: str, operation: Callable[[], CoordinatorResult[None]], again: Callable[[], None]
    ) -> None:
        fired = self._contexts.get(topic_partition)

        def again_while_active() -> None:
            if fired is not None and fired.state is CoordinatorState.ACTIVE:
                again()

        self._run(topic_partition, f"timer-{key}", lambda shard: operation(), again_while_active)

    def _close(self, context: _Context[S]) -> None:
        was_loaded = context.state is CoordinatorState.ACTIVE
        context.state = CoordinatorState.CLOSED
        context.timers.cancel_all()
        if context.stop_listening is not None:
            context.stop_listening()
        context.commits.fail_all(ApiException(Errors.NOT_COORDINATOR))
        if was_loaded:
            context.shard.on_unloaded()
        self._notify(context)

    def _notify(self, context: _Context[S]) -> None:
        if self._on_state_change is not None:
            self._on_state_change(context.topic_partition, context.state)
