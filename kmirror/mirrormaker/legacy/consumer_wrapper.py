"""One stream's consumer, the offsets that it may commit, and its rebalance listener (Kafka's
`ConsumerWrapper`, `commitOffsets` and `InternalRebalanceListener`).

`offsets` holds, by partition, the offset behind the last record whose results were handed to the
producer. They are committed after a flush only, so each of them was acknowledged by then.

How a commit ends:

    done                                   the offsets are forgotten
    the time is up, coordinator not there  offsets of topics that are gone are dropped; again after 100 ms, for ever
    CommitFailedException                  a warning; the partitions have other owners, who read some records again
    RebalanceInProgressException           a warning; the next commit has them. (Kafka's stream ends with it.)

A rebalance: before partitions are given up, flush, then commit, then the user's listener. What is
assigned, the user's listener is told alone. Lost partitions are not committed. Whatever was not
committed of partitions that are gone is dropped: another member may be ahead of it already, and a
later commit would take the group back there. (Kafka keeps it, and commits it later.)
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from kmirror.clients.consumer.consumer_types import (
    CommitFailedException,
    ConsumerRebalanceListener,
    ConsumerRecords,
    OffsetAndMetadata,
    RebalanceInProgressException,
)
from kmirror.common.errors import ApiException, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.runtime.api import Runtime

COMMIT_PAUSE_MS: Final = 100
NEVER: Final = -1
_log = logging.getLogger(__name__)


class Consumer(Protocol):
    """What is needed of `KafkaConsumer`."""

    @property
    def answered_fetches(self) -> int: ...

    @property
    def records_lost(self) -> int: ...

    def trouble(self) -> str | None: ...

    def subscribe(self, topics: Iterable[str] | re.Pattern[str], listener: ConsumerRebalanceListener | None = None) -> None: ...

    async def poll(self, timeout_ms: float) -> ConsumerRecords: ...

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None) -> None: ...

    async def list_topics(self) -> Mapping[str, Any]: ...

    def wakeup(self) -> None: ...

    def refuse_topics_made_anew(self) -> None: ...

    async def close(self) -> None: ...


class ConsumerWrapper:
    """`name` is the stream's, for the log; `flush` is the shared producer's; `may_commit` is False
    once a failed send aborts.
    """

    def __init__(
        self,
        runtime: Runtime,
        name: str,
        consumer: Consumer,
        include: re.Pattern[str],
        listener: ConsumerRebalanceListener | None,
        *,
        flush: Callable[[], Awaitable[None]],
        may_commit: Callable[[], bool],
    ) -> None:
        self.name = name
        self.consumer = consumer
        self.offsets: dict[TopicPartition, int] = {}
        self.last_successful_commit_ms = NEVER
        self.partition_count: int | None = None
        """How many partitions the group gave to it; None while it is not in the group."""
        self._runtime = runtime
        self._include = include
        self._listener = InternalRebalanceListener(self, listener)
        self._flush = flush
        self._may_commit = may_commit

    def subscribe(self) -> None:
        self.consumer.subscribe(self._include, self._listener)

    def mirrored(self, partition: TopicPartition, offset: int) -> None:
        """All results of the record at `offset` were handed to the producer."""
        self.offsets[partition] = offset + 1

    async def flush_and_commit(self) -> None:
        """Commits what was handed to the producer before the call."""
        await self._flush()
        await self.commit_offsets()

    async def commit_offsets(self) -> None:
        retries = 0
        while self.offsets:
            if not self._may_commit():
                _log.info("Exiting on send failure, skip committing offsets.")
                return
            try:
                await self._commit()
            except CommitFailedException:
                _log.warning(
                    "Failed to commit offsets because the consumer group has rebalanced and assigned partitions to another instance. If you see "
                    "this regularly, it could indicate that you need to either increase the consumer's session.timeout.ms or reduce the number "
                    "of records handled on each iteration with max.poll.records"
                )
                return
            except RebalanceInProgressException as error:
                _log.warning("Offsets are committed after the rebalance: %s", error)
                return
            except ApiException as error:
                if not error.error.retriable:
                    raise
                retries += 1
                await self._before_the_next_try(retries)

    async def _commit(self) -> None:
        committed = dict(self.offsets)
        await self.consumer.commit({partition: OffsetAndMetadata(offset) for partition, offset in committed.items()})
        self.last_successful_commit_ms = self._runtime.clock.time_ms()
        self.offsets = {partition: offset for partition, offset in self.offsets.items() if committed.get(partition) != offset}

    async def _before_the_next_try(self, retries: int) -> None:
        try:
            visible = await self.consumer.list_topics()
        except KmirrorError as error:
            _log.warning("Failed to list all authorized topics after committing offsets timed out: %s", error)
        else:
            self.offsets = {partition: offset for partition, offset in self.offsets.items() if partition.topic in visible}
        _log.warning(
            "Failed to commit offsets because the offset commit request processing can not be completed in time. If you see this regularly, it "
            "could indicate that you need to increase the consumer's default.api.timeout.ms Last successful offset commit timestamp=%d, "
            "retry count=%d",
            self.last_successful_commit_ms,
            retries,
        )
        await self._runtime.sleep_ms(COMMIT_PAUSE_MS)

    def forget(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            self.offsets.pop(partition, None)


class InternalRebalanceListener(ConsumerRebalanceListener):
    """Keeps a clean rebalance free of duplicates; then calls the user's listener."""

    def __init__(self, wrapper: ConsumerWrapper, listener: ConsumerRebalanceListener | None) -> None:
        self._wrapper = wrapper
        self._listener = listener

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._tell("Revoke previously assigned partitions", partitions)
        await self._wrapper.flush_and_commit()
        self._wrapper.forget(partitions)
        self._wrapper.partition_count = max(0, (self._wrapper.partition_count or 0) - len(partitions))
        if self._listener is not None:
            await self._listener.on_partitions_revoked(partitions)

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._tell("Adding newly assigned partitions", partitions)
        self._wrapper.partition_count = (self._wrapper.partition_count or 0) + len(partitions)
        if self._listener is not None:
            await self._listener.on_partitions_assigned(partitions)

    async def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._tell("Lost previously assigned partitions", partitions)
        self._wrapper.partition_count = None
        self._wrapper.forget(partitions)

    def _tell(self, what: str, partitions: Sequence[TopicPartition]) -> None:
        _log.info("[%s] %s: %s", self._wrapper.name, what, ", ".join(str(partition) for partition in partitions))
