"""To which partition a record without one goes (Kafka's `BuiltInPartitioner`, KIP-794).

With a key: `murmur2(key)` made positive, modulo the number of all partitions, so that a key stays
where every Kafka producer puts it. Without a key: one partition is kept until it has been given
batch.size bytes and its batch is full, or twice batch.size, then another one is chosen at random. A
batch is not left half full, because nothing may come to it any more until linger.ms is over.
Partitions whose queues are longer get proportionally less (adaptive partitioning); those without a
leader get nothing while others have one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from kmirror.common.ports import Buffer, Random

_M: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C
_MASK: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF
NO_PARTITION: Final = -1


def murmur2(data: Buffer) -> int:
    """Kafka's `Utils.murmur2`, as an unsigned number of 32 bits."""
    length = len(data)
    hashed = _SEED ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        k = int.from_bytes(data[position : position + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        hashed = (hashed * _M & _MASK) ^ k
    if length != whole:
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    hashed = (hashed ^ hashed >> 13) * _M & _MASK
    return hashed ^ hashed >> 15


def partition_for_key(key: Buffer, partitions: int) -> int:
    return (murmur2(key) & _POSITIVE) % partitions


class StickyPartitioner:
    """Chooses for the records of one topic that have no key."""

    def __init__(self, random: Random, sticky_bytes: int, *, adaptive: bool) -> None:
        self._random = random
        self._sticky_bytes = sticky_bytes
        self._adaptive = adaptive
        self._current = NO_PARTITION
        self._produced = 0
        self._load: tuple[Sequence[int], list[int]] | None = None

    def has_choice(self, partitions: int) -> bool:
        """Whether `current` only repeats what it said last."""
        return 0 <= self._current < partitions

    def current(self, partitions: int, available: Sequence[int]) -> int:
        """The partition for the next record; `available` are those with a leader."""
        if not 0 <= self._current < partitions:
            self._current = self._next(partitions, available)
            self._produced = 0
        return self._current

    @property
    def has_its_share(self) -> bool:
        """Whether the current partition has got batch.size bytes, so that it is left when its
        batch is full.
        """
        return self._produced >= self._sticky_bytes

    def move_on(self) -> None:
        """Another partition is chosen for the next record."""
        self._current = NO_PARTITION

    def appended(self, size: int, *, batch_is_full: bool) -> None:
        """Notes that a batch of the current partition has grown by `size` bytes."""
        self._produced += size
        if self._produced >= 2 * self._sticky_bytes or (batch_is_full and self.has_its_share):
            self.move_on()

    def update_load(self, queue_sizes: Sequence[int], partition_ids: Sequence[int]) -> None:
        """Tells how many batches wait for each partition that has a leader."""
        if not self._adaptive or len(partition_ids) < 2:
            self._load = None
            return
        most = max(queue_sizes) + 1
        self._load = (partition_ids, list(accumulate(most - size for size in queue_sizes)))

    def _next(self, partitions: int, available: Sequence[int]) -> int:
        if self._load is not None:
            ids, cumulative = self._load
            return ids[bisect_right(cumulative, self._random.randrange(cumulative[-1]))]
        return available[self._random.randrange(len(available))] if available else self._random.randrange(partitions)
