"""A coordinator's shard: the state of one partition of an internal topic, with synchronous
functions.

A shard never waits and never writes. Its handlers are functions of (state, request, now) that
return a `CoordinatorResult`: the records that carry the decision out, and the response to give once
they are committed. The state changes only in `replay`, whether the record was just decided or is
read back after a restart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar

from kmirror.common.topic_partition import TopicPartition

R = TypeVar("R")


class CoordinatorRecord(NamedTuple):
    """A key and a value of an internal topic; the value None is a tombstone."""

    key: bytes
    value: bytes | None


@dataclass(slots=True)
class CoordinatorResult(Generic[R]):
    """A decision: the records to append, in order, and the response to give when all of them are
    committed."""

    records: list[CoordinatorRecord]
    response: R
    atomic: bool = field(default=False, kw_only=True)
    """Whether the records must share one batch (all or nothing after a crash)."""
    on_appended: Callable[[], None] | None = field(default=None, kw_only=True)
    """Updates soft state that goes with the records (timers, parked requests); called once they are
    appended and replayed."""


class CoordinatorTimer(Protocol):
    """Timers of one shard, by key; scheduling a key again replaces its timer. All end when the
    shard is unloaded."""

    def schedule(self, key: str, delay_ms: int, operation: Callable[[], CoordinatorResult[None]]) -> None:
        """Runs `operation` as a write after `delay_ms`."""
        ...

    def cancel(self, key: str) -> None: ...

    def is_scheduled(self, key: str) -> bool: ...


class CoordinatorShard(Protocol):
    """The state of one partition. All methods run to completion on the loop."""

    def replay(self, offset: int, record: CoordinatorRecord, *, producer_id: int, producer_epoch: int) -> None:
        """Applies a record. `producer_id` is -1 unless the batch is transactional. Unknown record
        types raise KmirrorError."""
        ...

    def replay_end_transaction_marker(self, *, producer_id: int, producer_epoch: int, committed: bool) -> None:
        """Applies the end of a transaction; shards whose topic takes no transactions ignore it."""
        ...

    def on_loaded(self, now_ms: int) -> None:
        """Starts timers: the log was replayed to its end, and this broker leads the partition."""
        ...

    def on_unloaded(self) -> None:
        """Fails parked requests: the leadership is gone. Nothing is called afterwards."""
        ...


@dataclass(frozen=True, slots=True)
class ShardContext:
    """The arguments of a shard's factory."""

    topic_partition: TopicPartition
    leader_epoch: int
    timer: CoordinatorTimer
