"""A group coordinator's shard outside of a broker: its records go into a list, its timers fire when the test says how time goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from storage_doubles import ManualClock, SeededRandom

from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord, CoordinatorResult
from kmirror.coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from kmirror.coordinator.group.group_metadata_manager import GroupConfig

R = TypeVar("R")


class ManualTimers:
    """`CoordinatorTimer` whose operations are run by `due`."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._operations: dict[str, tuple[int, Callable[[], CoordinatorResult[None]]]] = {}

    def schedule(self, key: str, delay_ms: int, operation: Callable[[], CoordinatorResult[None]]) -> None:
        self._operations[key] = (self._clock.time_ms() + delay_ms, operation)

    def cancel(self, key: str) -> None:
        self._operations.pop(key, None)

    def is_scheduled(self, key: str) -> bool:
        return key in self._operations

    @property
    def keys(self) -> list[str]:
        return list(self._operations)

    def next_at_ms(self) -> int | None:
        return min((at_ms for at_ms, _ in self._operations.values()), default=None)

    def pop_due(self) -> Callable[[], CoordinatorResult[None]] | None:
        due = [(at_ms, key) for key, (at_ms, _) in self._operations.items() if at_ms <= self._clock.time_ms()]
        return self._operations.pop(min(due)[1])[1] if due else None


class ShardHarness:
    """One shard with its log. `run` is what the runtime's write does, without waiting for anything."""

    def __init__(self, config: GroupConfig | None = None, *, log: list[Any] | None = None, clock: ManualClock | None = None) -> None:
        self.config = config or GroupConfig()
        self.clock = clock or ManualClock()
        self.random = SeededRandom(0)
        self.log: list[Any] = []
        self.timers = ManualTimers(self.clock)
        self.shard = GroupCoordinatorShard(self.config, timer=self.timers, clock=self.clock, random=self.random)
        for entry in log or []:
            self._replay(entry)
        self.is_loaded = False

    def load(self) -> ShardHarness:
        """The log is read to its end: start timers."""
        self.is_loaded = True
        self.shard.on_loaded(self.clock.time_ms())
        return self

    def reloaded(self) -> ShardHarness:
        """Another broker's shard, made from this one's log."""
        return ShardHarness(self.config, log=self.log, clock=self.clock)

    def append(self, record: CoordinatorRecord, producer_id: int = -1) -> None:
        self._replay((record, producer_id))

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        self._replay((committed, producer_id))

    def _replay(self, entry: Any) -> None:
        what, producer_id = entry
        offset = len(self.log)
        self.log.append(entry)
        if isinstance(what, bool):
            self.shard.replay_end_transaction_marker(producer_id=producer_id, producer_epoch=0, committed=what)
        else:
            self.shard.replay(offset, what, producer_id=producer_id, producer_epoch=-1 if producer_id == -1 else 0)

    def run(self, result: CoordinatorResult[R], producer_id: int = -1) -> R:
        for record in result.records:
            self.append(record, producer_id)
        return result.response

    def advance(self, ms: int) -> None:
        """Let `ms` pass; timers fire in their order, each at its time."""
        end_ms = self.clock.time_ms() + ms
        while (at_ms := self.timers.next_at_ms()) is not None and at_ms <= end_ms:
            self.clock.now_ms = max(at_ms, self.clock.now_ms)
            operation = self.timers.pop_due()
            assert operation is not None, "a timer is due"
            self.run(operation())
        self.clock.now_ms = end_ms
