"""What a consumer's callers hand in and get back, and the errors that it raises.

Names are Kafka's (`OffsetAndMetadata`, `OffsetAndTimestamp`, `ConsumerRecord`,
`ConsumerGroupMetadata`, `ConsumerRebalanceListener`). Offsets are Kafka offsets, timestamps are ms.
An epoch of -1 means that none is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from kmirror.common.errors import KmirrorError
from kmirror.common.sentinels import NO_EPOCH
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.record.record import Header
from kmirror.record.record_batch import RecordBatch, TimestampType


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """A position to commit: the offset of the next record, the leader epoch of the last one that
    was consumed, and a text of the application's own."""

    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""

    def __post_init__(self) -> None:
        if self.offset < 0:
            raise ValueError("Invalid negative offset")


@dataclass(frozen=True, slots=True)
class OffsetAndTimestamp:
    """The first record whose timestamp is not before the one asked for."""

    offset: int
    timestamp: int
    leader_epoch: int = NO_EPOCH


class ConsumerRecord(msgspec.Struct, gc=False):
    """One record. `key` and `value` are bytes of its own, or None."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: list[Header]
    leader_epoch: int = NO_EPOCH

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class ConsumedBatch(NamedTuple):
    """One raw batch of `KafkaConsumer.poll_batches`: a view into the fetch response, not unpacked.

    `next_offset` is the position behind it. The batch may begin before `position`, where the
    consumer was: then records below `position` are not meant (this happens after a seek into the
    middle of a batch). With read_committed, batches of aborted transactions are not among the
    results. Control batches are, with `is_control` set, because a copy of the log needs to know
    where transactions end; they hold nothing for an application.
    """

    partition: TopicPartition
    batch: RecordBatch
    position: int
    next_offset: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    is_control: bool

    @property
    def data(self) -> memoryview:
        """All bytes of the batch, with its header."""
        return self.batch.memory


class FetchedBatches(NamedTuple):
    """What `poll_batches` returns for one partition. `next_offset` may lie behind the last batch:
    then aborted batches followed it."""

    partition: TopicPartition
    batches: list[ConsumedBatch]
    position: int
    next_offset: int
    high_watermark: int
    log_start_offset: int
    topic_id: Uuid = Uuid.ZERO
    """Of the topic that was asked, zero where brokers have none."""


class ConsumerRecords:
    """What `poll` returned: iterates over the records, partition by partition."""

    def __init__(self, by_partition: Mapping[TopicPartition, list[ConsumerRecord]]) -> None:
        self._by_partition = by_partition

    def __iter__(self) -> Iterator[ConsumerRecord]:
        for records in self._by_partition.values():
            yield from records

    def __len__(self) -> int:
        return sum(len(records) for records in self._by_partition.values())

    def partitions(self) -> list[TopicPartition]:
        return list(self._by_partition)

    def records(self, partition: TopicPartition) -> list[ConsumerRecord]:
        """[] if there are none of it."""
        return self._by_partition.get(partition, [])


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadata:
    """What a transactional producer needs to commit offsets for this member (KIP-447).
    `generation_id` is the member epoch under the consumer protocol."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class ConsumerRebalanceListener:
    """Is told inside of `poll` and `close` what this member owns. A listener that raises makes
    `poll` raise, after all callbacks of that rebalance were called."""

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """These will be given up; offsets can still be committed."""

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """These are new; called with an empty list if nothing is."""

    async def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """These are gone already, and may have another owner. By default handled as revoked."""
        await self.on_partitions_revoked(partitions)


class IllegalStateError(KmirrorError):
    """A call that the consumer's state does not allow (Java's IllegalStateException)."""


class InvalidOffsetError(KmirrorError):
    """A position cannot be used, and there is no auto.offset.reset that would say what to do."""

    def __init__(self, message: str, partitions: Sequence[TopicPartition]) -> None:
        self.partitions = list(partitions)
        super().__init__(message)


class NoOffsetForPartitionException(InvalidOffsetError):
    """Nothing was committed for these partitions and auto.offset.reset is none."""

    def __init__(self, partitions: Sequence[TopicPartition]) -> None:
        super().__init__(f"Undefined offset with no reset policy for partitions: {_listed(partitions)}", partitions)


class OffsetOutOfRangeException(InvalidOffsetError):
    """The position is not in the log and auto.offset.reset is none. `offsets`: the positions."""

    def __init__(self, message: str, offsets: Mapping[TopicPartition, int]) -> None:
        self.offsets = dict(offsets)
        super().__init__(message, list(offsets))


class LogTruncationException(OffsetOutOfRangeException):
    """The log was cut below the position (KIP-320) and auto.offset.reset is none.
    `divergent_offsets`: where the logs part, for partitions where that is known."""

    def __init__(self, offsets: Mapping[TopicPartition, int], divergent_offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.divergent_offsets = dict(divergent_offsets)
        super().__init__(f"Truncated partitions detected with divergent offsets {_offsets(divergent_offsets)}", offsets)


class TopicMadeAnewError(KmirrorError):
    """A topic that is read has another id than before, and the application asked to be told before
    anything of it is read (`KafkaConsumer.refuse_topics_made_anew`). Not Kafka's."""

    def __init__(self, partition: TopicPartition, topic_id: Uuid, former_id: Uuid) -> None:
        super().__init__(f"{partition} was made anew at the source (topic id {topic_id}, before {former_id})")


class CommitFailedException(KmirrorError):
    """The member is no longer in the group: its partitions may have another owner, so the commit
    was not made. Trying again does not help."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(
            message
            or "Offset commit cannot be completed since the consumer is not part of an active group for auto partition assignment; it is likely "
            "that the consumer was kicked out of the group."
        )


class RebalanceInProgressException(KmirrorError):
    """The commit was refused because the group rebalances: `poll`, then commit what is still
    owned."""


class WakeupException(KmirrorError):
    """`wakeup` was called while this call was waiting."""


def _listed(partitions: Sequence[TopicPartition]) -> str:
    return f"[{', '.join(str(partition) for partition in partitions)}]"


def _offsets(offsets: Mapping[TopicPartition, Any]) -> str:
    return f"{{{', '.join(f'{partition}={value}' for partition, value in offsets.items())}}}"
