"""What a task has read of its source, and what it can never read.

A task goes on at an offset. That says where, not in what: a topic that is deleted and made anew has
the same name and other records, and a log may begin behind the offset when retention was faster. A
consumer goes on in both cases, as Kafka's does, and says nothing. So for each partition the ledger
keeps the topic's id and the next offset, and holds them against each answer:

    the id is another one             MADE_ANEW    lost: the new topic's records before the position
    the position has jumped forward   OVERTAKEN    lost: the records in between, which the source deleted
    the position has jumped back      WENT_BACK    lost: nothing here; records are copied again

What the former topic had beyond what was copied is lost, too. How much is only known up to the high
watermark of its last answer, so a `Finding` counts that much, and says that it is the least.

An id of zero (a source before 2.8) is not known, and cannot be compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid

UNKNOWN: Final = -1


class Why(Enum):
    """The name is that of the metric, too."""

    MADE_ANEW = "recreated"
    OVERTAKEN = "retention"
    WENT_BACK = "went-back"


@dataclass(frozen=True, slots=True)
class Finding:
    """Records `start` to `end - 1` of the source are not copied. `uncopied` counts those that the former
    topic is known to have had behind the last one that was copied.
    """

    partition: TopicPartition
    why: Why
    start: int
    end: int
    position: int
    former_id: Uuid
    topic_id: Uuid
    uncopied: int = 0

    @property
    def count(self) -> int:
        return max(0, self.end - self.start)

    @property
    def loses(self) -> bool:
        return self.count + self.uncopied > 0


@dataclass(slots=True)
class _Known:
    topic_id: Uuid
    next_offset: int
    high_watermark: int = UNKNOWN


class SourceLedger:
    """Of one life of a task. Pure."""

    def __init__(self) -> None:
        self._known: dict[TopicPartition, _Known] = {}

    def begin(self, partition: TopicPartition, next_offset: int, topic_id: Uuid) -> None:
        """`next_offset` UNKNOWN: wherever the partition is read first."""
        self._known[partition] = _Known(topic_id, next_offset)

    def next_offset(self, partition: TopicPartition) -> int:
        return self._known[partition].next_offset

    def topic_id(self, partition: TopicPartition) -> Uuid:
        return self._known[partition].topic_id

    def is_as_known(self, partition: TopicPartition, topic_id: Uuid, position: int) -> bool:
        known = self._known[partition]
        return position == known.next_offset and topic_id in (known.topic_id, Uuid.ZERO)

    def look(self, partition: TopicPartition, topic_id: Uuid, position: int, log_start_offset: int) -> Finding | None:
        """The partition is read on at `position` of a log with this id and start. Returns what that means
        for records, if it is not as it was to be.
        """
        known = self._known[partition]
        former_id, before, high_watermark = known.topic_id, known.next_offset, known.high_watermark
        known.topic_id, known.next_offset = topic_id or former_id, position
        if before == UNKNOWN:
            return None
        if topic_id and former_id and topic_id != former_id:
            known.high_watermark = UNKNOWN
            uncopied = max(0, high_watermark - before)
            return Finding(partition, Why.MADE_ANEW, log_start_offset, position, position, former_id, topic_id, uncopied)
        if position > before:
            return Finding(partition, Why.OVERTAKEN, before, position, position, former_id, topic_id)
        if position < before:
            return Finding(partition, Why.WENT_BACK, position, position, position, former_id, topic_id)
        return None

    def read(self, partition: TopicPartition, next_offset: int, high_watermark: int = UNKNOWN) -> None:
        known = self._known[partition]
        known.next_offset = next_offset
        known.high_watermark = max(high_watermark, next_offset)
