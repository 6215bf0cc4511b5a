"""A transaction coordinator's shard without a runtime: decisions are logged and replayed at once, a
crash reads the log back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kmirror.common.topic_partition import TopicPartition
from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord, CoordinatorResult, ShardContext
from kmirror.coordinator.transaction.transaction_checks import ProducerIdNeededError
from kmirror.coordinator.transaction.transaction_coordinator_shard import (
    ProducerResult,
    TransactionConfig,
    TransactionCoordinatorShard,
)
from kmirror.coordinator.transaction.transaction_metadata import TransactionMetadata
from kmirror.coordinator.transaction.transaction_state import TransactionState
from support.logs.storage_doubles import ManualClock

R = TypeVar("R")
TOPIC_PARTITION = TopicPartition("__transaction_state", 0)
TIMEOUT_MS = 60_000


class NoTimer:
    """Timers run when a test says so (`ShardWorld.remove_expired`)."""

    def schedule(self, key: str, delay_ms: int, operation: object) -> None: ...

    def cancel(self, key: str) -> None: ...

    def is_scheduled(self, key: str) -> bool:
        return False


class ShardWorld:
    """One shard, its log, and a counter of producer ids.

    `prepared` are the ids whose end was decided since it was last emptied, `moves` the changes of
    state.
    """

    def __init__(self, *, transaction_version: int = 2) -> None:
        self.clock = ManualClock()
        self.transaction_version = transaction_version
        self.config = TransactionConfig()
        self.log: list[CoordinatorRecord] = []
        self.prepared: list[str] = []
        self.moves: list[tuple[TransactionState, TransactionState]] = []
        self.next_producer_id = 1000
        self.coordinator_epoch = -1
        self.restart()

    def restart(self) -> None:
        """Another broker takes over: everything comes from the log."""
        self.coordinator_epoch += 1
        self.prepared.clear()
        self.shard = TransactionCoordinatorShard(
            self.config,
            ShardContext(TOPIC_PARTITION, self.coordinator_epoch, NoTimer()),
            clock=self.clock,
            transaction_version=lambda: self.transaction_version,
            on_prepared=lambda _, transactional_id: self.prepared.append(transactional_id),
        )
        for offset, record in enumerate(self.log):
            self.shard.replay(offset, record, producer_id=-1, producer_epoch=-1)
        self.shard.on_loaded(self.now_ms)

    @property
    def now_ms(self) -> int:
        return self.clock.time_ms()

    def apply(self, result: CoordinatorResult[R]) -> R:
        for record in result.records:
            self.log.append(record)
            name = record.key[4:].decode()
            before = self.shard.transaction(name)
            self.shard.replay(len(self.log) - 1, record, producer_id=-1, producer_epoch=-1)
            after = self.shard.transaction(name)
            if before is not None and after is not None:
                self.moves.append((before.state, after.state))
        return result.response

    def with_producer_id(self, decide: Callable[[int | None], CoordinatorResult[R]]) -> R:
        try:
            return self.apply(decide(None))
        except ProducerIdNeededError:
            self.next_producer_id += 1
            return self.apply(decide(self.next_producer_id))

    # -- requests
    # -------------------------------------------------------------------------------------------------------------

    def init(self, name: str = "tx", expected: tuple[int, int] | None = None, timeout_ms: int = TIMEOUT_MS) -> ProducerResult:
        return self.with_producer_id(
            lambda new_id: self.shard.init_producer_id(
                name, timeout_ms=timeout_ms, expected=expected, new_producer_id=new_id, now_ms=self.now_ms
            )
        )

    def add(self, producer: tuple[int, int], *partitions: TopicPartition, name: str = "tx", version: int = 2) -> object:
        result = self.shard.add_partitions(name, *producer, partitions, client_transaction_version=version, now_ms=self.now_ms)
        return self.apply(result)

    def end(self, producer: tuple[int, int], *, commit: bool, name: str = "tx", version: int = 2) -> ProducerResult:
        return self.with_producer_id(
            lambda new_id: self.shard.end_transaction(
                name, *producer, commit=commit, client_transaction_version=version, new_producer_id=new_id, now_ms=self.now_ms
            )
        )

    def complete(self, name: str = "tx") -> bool:
        """All markers were written; False when there is nothing to complete."""
        pending = self.shard.pending_completion(name, self.now_ms)
        return pending is not None and self.apply(self.shard.complete(pending))

    def abort_timed_out(self) -> int:
        timed_out = self.shard.timed_out(self.now_ms)
        for metadata in timed_out:
            self.with_producer_id(
                lambda new_id, metadata=metadata: self.shard.abort_timed_out(metadata, new_producer_id=new_id, now_ms=self.now_ms)
            )
        return len(timed_out)

    def remove_expired(self) -> None:
        self.apply(self.shard.remove_expired(self.now_ms))

    def state(self, name: str = "tx") -> TransactionMetadata:
        found = self.shard.transaction(name)
        assert found is not None, f"{name} is not known"
        return found
