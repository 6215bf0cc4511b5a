"""Whether, and when, a producer accepts a record: its topic must be known, its size allowed, the
transaction open, and memory free. All this may take max.block.ms together.

A record that is refused leaves nothing behind: no memory, and no partition in the transaction. But as
in Kafka, the transaction can then only be aborted, so that nobody commits it without the record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from operator import index
from typing import Final

from kmirror.clients.buffer_pool import BufferPool
from kmirror.clients.call_times import CallTimes
from kmirror.clients.cluster_client import ClusterClient
from kmirror.clients.producer_batch import IllegalStateError
from kmirror.clients.producer_config import ProducerConfig
from kmirror.clients.rated_total import RatedTotal
from kmirror.clients.transaction_manager import TransactionManager
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.sensors import MetricConfig, Rate
from kmirror.common.topic_partition import TopicPartition
from kmirror.runtime.api import Runtime

MAX_TIMESTAMP_MS: Final = (1 << 63) - 1
METADATA_WAIT: Final = "metadata-wait"
BUFFERPOOL_WAIT: Final = "bufferpool-wait"
_CONFIG: Final = MetricConfig()


class RecordAdmission:
    """One producer's. `closed` is set by its owner; `wake_sender` is called when somebody begins to wait
    for memory.
    """

    def __init__(
        self,
        runtime: Runtime,
        config: ProducerConfig,
        cluster: ClusterClient,
        pool: BufferPool,
        manager: TransactionManager | None,
        *,
        wake_sender: Callable[[], None],
    ) -> None:
        self.closed = False
        self._runtime = runtime
        self._config = config
        self._cluster = cluster
        self._pool = pool
        self._manager = manager
        self._transaction = manager if manager is not None and manager.is_transactional else None
        self._wake_sender = wake_sender
        self._missing: dict[object, str] = {}
        self._times = CallTimes(runtime.clock, METADATA_WAIT, BUFFERPOOL_WAIT)
        self._exhausted = RatedTotal("buffer-exhausted", runtime.clock)
        """Records, or runs of batches, that found no memory in max.block.ms."""
        self._waited_s = Rate()

    def readings(self) -> Iterator[tuple[str, float]]:
        """Yields what is measured here of Kafka's `producer-metrics`."""
        yield from self._exhausted.readings()
        yield from self._times.readings()
        yield "bufferpool-wait-ratio", self._waited_s.measure(_CONFIG, self._runtime.clock.monotonic_ms())

    def ensure_open(self) -> None:
        if self.closed:
            raise IllegalStateError("Cannot perform operation after producer has been closed")

    def may_add(self, partition: TopicPartition) -> None:
        """Raises why no record may be sent to the partition now."""
        self.ensure_open()
        if self._manager is not None:
            self._manager.may_add(partition)

    def added(self, partition: TopicPartition) -> None:
        """A record was accepted."""
        if self._transaction is not None:
            self._transaction.added(partition)

    def ensure_size(self, size: int) -> None:
        limit = self._config.max_request_size
        if size > limit:
            raise self._too_large(
                f"The message is {size} bytes when serialized which is larger than {limit}, which is the value of the "
                "max.request.size configuration."
            )
        if size > self._config.buffer_memory:
            raise self._too_large(
                f"The message is {size} bytes when serialized which is larger than the total memory buffer you have configured with "
                "the buffer.memory configuration."
            )

    def trouble(self) -> str | None:
        """What is missing from the metadata that the first of the waiting records needs."""
        return next(iter(self._missing.values()), None)

    # Metadata

    async def until_known(self, topic: str, partition: int | None) -> int:
        """Waits for the metadata that a record needs; returns what is left of max.block.ms."""
        clock = self._runtime.clock
        began_ms = clock.monotonic_ms()
        try:
            await self.wait_on_metadata(topic, partition)
            return max(0, self._config.max_block_ms - (clock.monotonic_ms() - began_ms))
        except ApiException as error:
            self._refused(error)
            raise

    async def wait_on_metadata(self, topic: str, partition: int | None) -> None:
        """Waits until the topic, and the partition if one is given, is known."""
        waits = object()
        try:
            with self._times.taking(METADATA_WAIT):
                await self._wait_until_present(waits, topic, partition)
        finally:
            self._missing.pop(waits, None)

    async def _wait_until_present(self, waits: object, topic: str, partition: int | None) -> None:
        """`waits` is what `trouble` knows this call by."""
        clock, cluster, most_ms = self._runtime.clock, self._cluster, self._config.max_block_ms
        deadline_ms = clock.monotonic_ms() + most_ms
        while True:
            left_ms = deadline_ms - clock.monotonic_ms()
            try:
                async with asyncio.timeout(max(left_ms, 1) / 1000):
                    found = await cluster.partitions_for(topic)
                if len(found) > (partition or 0):
                    return
                if found or not clock.monotonic_ms() >= deadline_ms:
                    async with asyncio.timeout(max(left_ms, 1) / 1000):
                        await cluster.request_update([topic])
                    if cluster.partition_count(topic) > (partition or 0):
                        return
            except TimeoutError:
                pass
            except ApiException as error:
                if not error.error.retriable:
                    raise
            self.ensure_open()
            waited_ms = most_ms + clock.monotonic_ms() - deadline_ms
            self._missing[waits] = self._not_present(topic, partition, waited_ms)
            if waited_ms >= most_ms:
                raise ApiException(Errors.REQUEST_TIMED_OUT, self._not_present(topic, partition, most_ms))

    def _not_present(self, topic: str, partition: int | None, waited_ms: int) -> str:
        waited = f"after {waited_ms} ms."
        count = self._cluster.partition_count(topic)
        if partition is None or not count:
            return f"Topic {topic} not present in metadata {waited}"
        return f"Partition {partition} of topic {topic} with partition count {count} is not present in metadata {waited}"

    # Memory

    async def take_memory(self, size: int, partition: TopicPartition, most_ms: int) -> None:
        """Takes what a record needs of buffer.memory, unless it may not be sent any more by then."""
        await self._wait_for_memory(size, most_ms)
        try:
            self.may_add(partition)
        except KmirrorError:
            self._pool.give_back(size)
            raise

    async def _wait_for_memory(self, size: int, most_ms: int) -> None:
        pool = self._pool
        if size > pool.total:
            raise self._too_large(f"Attempt to allocate {size} bytes, but there is a hard limit of {pool.total} on memory allocations.")
        if pool.try_take(size):
            return
        began_ms = self._runtime.clock.monotonic_ms()
        granted = self._runtime.create_future()
        pool.wait_for(size, granted)
        self._wake_sender()
        try:
            with self._times.taking(BUFFERPOOL_WAIT):
                async with asyncio.timeout(most_ms / 1000):
                    await asyncio.shield(granted)
        except TimeoutError as error:
            self._exhausted.record(1)
            free = pool.free
            pool.give_up(size, granted)
            text = (
                f"Failed to allocate {size} bytes within the configured max blocking time {most_ms} ms. "
                f"Total memory: {pool.total} bytes. Available memory: {free} bytes. Poolable size: {self._config.batch_size} bytes"
            )
            raise self._refused(ApiException(Errors.REQUEST_TIMED_OUT, text)) from error
        except asyncio.CancelledError:
            pool.give_up(size, granted)
            raise
        finally:
            now_ms = self._runtime.clock.monotonic_ms()
            self._waited_s.record(_CONFIG, (now_ms - began_ms) / 1000, now_ms)

    # Inside

    def _too_large(self, text: str) -> ApiException:
        return self._refused(ApiException(Errors.MESSAGE_TOO_LARGE, text))

    def _refused(self, error: ApiException) -> ApiException:
        """What a record is not accepted with."""
        if self._manager is not None:
            self._manager.refused(error)
        return error


def checked_time(timestamp: int) -> int:
    """The time of a record in ms; IllegalStateError, with Kafka's text, unless it is a Java long from 0 on."""
    if not 0 <= index(timestamp) <= MAX_TIMESTAMP_MS:
        raise IllegalStateError(f"Invalid timestamp: {timestamp}. Timestamp should always be non-negative or null.")
    return timestamp
