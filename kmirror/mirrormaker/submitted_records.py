"""Which source offsets may be stored: those up to which the target has everything (Kafka Connect's
`SubmittedRecords`).

Per source partition, what was sent waits in order. What is acknowledged leaves the front; the last
upstream offset that left is committable. An acknowledgement that overtakes another waits for it, so
a stored offset never skips a record that the target lacks (MC12).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from kmirror.common.topic_partition import TopicPartition


class Submitted:
    """One batch on its way."""

    __slots__ = ("acknowledged", "last_offset")

    def __init__(self, last_offset: int) -> None:
        self.last_offset = last_offset
        self.acknowledged = False


class SubmittedRecords:
    """What a task has sent and not stored yet."""

    def __init__(self) -> None:
        self._waiting: dict[TopicPartition, deque[Submitted]] = {}
        self._committable: dict[TopicPartition, int] = {}

    @property
    def in_flight(self) -> int:
        """Batches that were not acknowledged."""
        return sum(1 for waiting in self._waiting.values() for one in waiting if not one.acknowledged)

    def submit(self, partition: TopicPartition, last_offsets: Iterable[int]) -> list[Submitted]:
        """Batches of the source's partition go out; each ends with one of `last_offsets`."""
        run = [Submitted(offset) for offset in last_offsets]
        self._waiting.setdefault(partition, deque()).extend(run)
        return run

    def acknowledge(self, partition: TopicPartition, written: Iterable[Submitted]) -> None:
        """The target has these."""
        for one in written:
            one.acknowledged = True
        waiting = self._waiting[partition]
        last = None
        while waiting and waiting[0].acknowledged:
            last = waiting.popleft()
        if last is not None:
            self._committable[partition] = last.last_offset
        if not waiting:
            del self._waiting[partition]

    def pass_over(self, partition: TopicPartition, offset: int) -> None:
        """A record is not sent: it counts with the one before it."""
        waiting = self._waiting.get(partition)
        if waiting:
            waiting[-1].last_offset = offset
        else:
            self._committable[partition] = offset

    def take_committable(self) -> dict[TopicPartition, int]:
        """Returns what became committable since the last call: by partition, the last offset that
        the target has.
        """
        taken, self._committable = self._committable, {}
        return taken

    def give_back(self, offsets: dict[TopicPartition, int]) -> None:
        """What was taken could not be stored: it is committable again, unless newer offsets are."""
        self._committable = offsets | self._committable
