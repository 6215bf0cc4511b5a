"""Where the replicas of new partitions go: in stripes over racks and brokers (Kafka's
`StripedReplicaPlacer`).

Racks take turns, and each partition begins one rack further, so that a partition's replicas are
spread over as many racks as possible; that has priority over an even load of brokers. Within a
rack, brokers take turns, unfenced ones first. A fenced broker never leads. When every unfenced
broker could have led once, racks and brokers are shuffled, so that the same sets of brokers do not
recur. Brokers whose directories are all cordoned get nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kmirror.common.errors import ApiException, Errors
from kmirror.common.ports import Random
from kmirror.metadata.registrations import BrokerRegistration

T = TypeVar("T")


def place_replicas(brokers: list[BrokerRegistration], random: Random, *, partitions: int, replication_factor: int) -> list[list[int]]:
    """Returns the replica lists of `partitions` new partitions; raises INVALID_REPLICATION_FACTOR
    with Kafka's text if that is impossible."""
    usable = [broker for broker in brokers if not _is_cordoned(broker)]
    _check(usable, replication_factor)
    racks = _Racks(usable, random)
    return [racks.place(replication_factor) for _ in range(partitions)]


def _is_cordoned(broker: BrokerRegistration) -> bool:
    cordoned = broker.cordoned_directories or ()
    return bool(broker.directories) and all(directory in cordoned for directory in broker.directories)


class _Turns:
    """Brokers of one kind in one rack. In each turn every broker comes at most once; the starting
    point shifts with each turn."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._brokers: list[int] = []
        self._start = 0
        self._turn = -1
        self._taken = 0

    def fill(self, brokers: list[int]) -> None:
        self._brokers = sorted(brokers)
        self._start = self._random.randrange(len(brokers)) if brokers else 0

    def next(self, turn: int) -> int | None:
        if turn != self._turn:
            self._turn, self._taken = turn, 0
        if self._taken == len(self._brokers):
            return None
        self._taken += 1
        return self._brokers[(self._start + turn + self._taken - 1) % len(self._brokers)]

    def shuffle(self) -> None:
        _shuffle(self._brokers, self._random)
        self._turn = -1


class _Rack:
    def __init__(self, random: Random) -> None:
        self.unfenced = _Turns(random)
        self.fenced = _Turns(random)

    def next(self, turn: int) -> int | None:
        broker = self.unfenced.next(turn)
        return self.fenced.next(turn) if broker is None else broker


class _Racks:
    """All racks, and the position of the stripe."""

    def __init__(self, brokers: list[BrokerRegistration], random: Random) -> None:
        self._random = random
        names = sorted({broker.rack or "" for broker in brokers})
        self._racks = []
        for name in names:
            rack = _Rack(random)
            rack.unfenced.fill([broker.id for broker in brokers if (broker.rack or "") == name and not broker.fenced])
            rack.fenced.fill([broker.id for broker in brokers if (broker.rack or "") == name and broker.fenced])
            self._racks.append(rack)
        self._unfenced_count = sum(not broker.fenced for broker in brokers)
        self._first = random.randrange(len(names))
        self._turn = 0

    def place(self, replication_factor: int) -> list[int]:
        if self._turn == self._unfenced_count > 1:
            self._shuffle()
        count = len(self._racks)
        leader_rack, leader = self._take(self._first, lambda rack: rack.unfenced.next(self._turn))
        replicas = [leader]
        at = self._first
        skipped = leader_rack
        while len(replicas) < replication_factor:
            if at == skipped:
                skipped = -1  # the leader's rack has already had its replica in this round
            else:
                broker = self._racks[at].next(self._turn)
                if broker is not None:
                    replicas.append(broker)
            at = (at + 1) % count
        self._turn += 1
        self._first = (self._first + 1) % count
        return replicas

    def _take(self, first: int, pick: Callable[[_Rack], int | None]) -> tuple[int, int]:
        """Returns (rack, broker) for the first rack, from `first` on, that has one."""
        for step in range(len(self._racks)):
            at = (first + step) % len(self._racks)
            broker = pick(self._racks[at])
            if broker is not None:
                return at, broker
        raise AssertionError("a placement without an unfenced broker was not refused before")

    def _shuffle(self) -> None:
        _shuffle(self._racks, self._random)
        for rack in self._racks:
            rack.unfenced.shuffle()
            rack.fenced.shuffle()
        self._turn = 0


def _shuffle(items: list[T], random: Random) -> None:
    for last in range(len(items) - 1, 0, -1):
        other = random.randrange(last + 1)
        items[last], items[other] = items[other], items[last]


def _check(brokers: list[BrokerRegistration], replication_factor: int) -> None:
    if replication_factor <= 0:
        raise _error(f"Invalid replication factor {replication_factor}: the replication factor must be positive.", replication_factor)
    if all(broker.fenced for broker in brokers):
        raise _error("All brokers are currently fenced.", replication_factor)
    if replication_factor > len(brokers):
        text = (
            f"The target replication factor of {replication_factor} cannot be reached because only {len(brokers)} broker(s) are registered "
            "or some brokers have all their log directories cordoned."
        )
        raise _error(text, replication_factor)


def _error(text: str, replication_factor: int) -> ApiException:
    return ApiException(Errors.INVALID_REPLICATION_FACTOR, f"Unable to replicate the partition {replication_factor} time(s): {text}")
