"""What a producer is given, a record, and what its sends wait for (Kafka's `ProducerRecord`,
`RecordMetadata`, `ProduceRequestResult`, `FutureRecordMetadata`).

All records of a batch share one result, and one future, which is made when somebody waits for it and
never holds an exception: a result that nobody awaits disturbs nobody. If the batch is split, its
records go over to the results of the parts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kmirror.common.ports import Buffer
from kmirror.common.sentinels import NO_OFFSET
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.record import NO_TIMESTAMP, Header

NO_ERRORS: Final[Mapping[int, Exception]] = {}
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ProducerRecord:
    """Kafka's `ProducerRecord`, of bytes. `timestamp` in ms, None for now; `partition` None lets
    the partitioner choose.
    """

    topic: str
    value: Buffer | None = None
    key: Buffer | None = None
    headers: Sequence[Header] = ()
    partition: int | None = None
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class RecordMetadata:
    """Where a record was written. The offset is -1 if the broker did not say (acks=0, or a record
    that had been written already). For a batch from elsewhere, `offset` is that of its first record.
    """

    topic_partition: TopicPartition
    offset: int
    timestamp: int

    @property
    def topic(self) -> str:
        return self.topic_partition.topic

    @property
    def partition(self) -> int:
        return self.topic_partition.partition

    @property
    def has_offset(self) -> bool:
        return self.offset != NO_OFFSET


Callback = Callable[[RecordMetadata | None, Exception | None], object]


Receipt = Callable[[int, int, Exception | None], object]
"""Told of a batch that was sent in a run: its number in the run, the offset of its first record (-1 if
the broker did not say), or what it failed with.
"""


class BatchResult:
    """The outcome of one batch. A future is made only if somebody waits for it."""

    __slots__ = ("_new_future", "_waiter", "base_offset", "error", "is_known", "log_append_time", "partition", "record_errors")

    def __init__(self, partition: TopicPartition, new_future: Callable[[], asyncio.Future[None]]) -> None:
        self.partition = partition
        self.is_known = False
        self.base_offset = NO_OFFSET
        self.log_append_time = NO_TIMESTAMP
        self.error: Exception | None = None
        self.record_errors: Mapping[int, Exception] = NO_ERRORS
        self._new_future = new_future
        self._waiter: asyncio.Future[None] | None = None

    def waiter(self) -> asyncio.Future[None]:
        """Completed when the outcome is known; whoever gives up must not cancel it."""
        if self._waiter is None:
            self._waiter = self._new_future()
        return self._waiter

    def now_known(self) -> None:
        self.is_known = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class FutureRecordMetadata:
    """Awaitable: `RecordMetadata`, or the exception that the record failed with."""

    __slots__ = ("_callback", "_index", "_result", "_timestamp")

    def __init__(self, result: BatchResult, index: int, timestamp: int, callback: Callback | None) -> None:
        self._result = result
        self._index = index
        self._timestamp = timestamp
        self._callback = callback

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        while True:
            result = self._result
            if not result.is_known:
                yield from asyncio.shield(result.waiter()).__await__()
            if result is self._result:
                return self.result()

    def done(self) -> bool:
        return self._result.is_known

    def result(self) -> RecordMetadata:
        """The outcome of a record that is done; raises what it failed with."""
        error = self.error()
        if error is not None:
            raise error
        return self._metadata()

    def error(self) -> Exception | None:
        return self._result.record_errors.get(self._index, self._result.error)

    def moved_to(self, other: FutureRecordMetadata) -> FutureRecordMetadata:
        """The batch was split: this record is now the one of `other`. Returns itself."""
        self._result, self._index = other._result, other._index
        return self

    def moved_to_result(self, result: BatchResult) -> None:
        self._result = result

    def call_back(self) -> None:
        if self._callback is None:
            return
        error = self.error()
        try:
            self._callback(None if error is not None else self._metadata(), error)
        except (Exception, asyncio.CancelledError):  # noqa: BLE001 - the application's fault, which must not stop the sender
            _log.exception("Error executing user-provided callback on message for topic-partition '%s'", self._result.partition)

    def _metadata(self) -> RecordMetadata:
        result = self._result
        offset = NO_OFFSET if result.base_offset < 0 else result.base_offset + self._index
        timestamp = self._timestamp if result.log_append_time == NO_TIMESTAMP else result.log_append_time
        return RecordMetadata(result.partition, offset, timestamp)
