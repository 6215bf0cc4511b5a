"""MirrorFetcher: copies batches from one source broker for one mirror (the KIP's MirrorFetcherThread, as a task).

One fetcher per (fetcher id, source broker, mirror): mirrors never share one, for their credentials differ. It has one fetch
in flight (B27). What it does with an answer is D3-12 ... D3-16:

* records: appended as they are, at the local log end; the high watermark follows our own ISR, the log start the source's
* OFFSET_OUT_OF_RANGE, diverging epochs: cut where the source says, never more than that; after a cut the partition is given
  back to its driver, which bumps the leader epoch before anything is appended (F1)
* leader errors and lost connections: the partition is given back; the driver finds the source's leader again, after
  mirror.fetch.backoff.ms, without cutting anything
* a batch that cannot be one, a topic id that is not ours, a refused authorization that lasts: the partition fails

The position of a partition is its log's end and nothing else, so no answer can be appended twice or with a hole. A partition
that was removed while its answer was under way is not touched by it. Not here yet: throttling by mirror.replication.throttled.*
(E10), fetch sessions towards the source (FEA9), the fetchers' metrics of E7.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.mirror.local_log import cut, cut_fully, first_offset_above
from kmirror.mirror.log_verifier import SourceLog, verify_log
from kmirror.mirror.mirror_metrics import FetcherStats
from kmirror.mirror.source_cluster import SourceError
from kmirror.mirror.source_end_point import FetchedPartition, FetchPosition, SourceEndPoint
from kmirror.network.client_metrics import ClientMetrics
from kmirror.record.record_batch import RecordBatch, next_batch_size
from kmirror.runtime.api import Runtime
from kmirror.storage.log_offset_metadata import LogStartOffsetIncrementReason

if TYPE_CHECKING:
    from kmirror.mirror.mirror_partition import MirrorPartition

ANY_EPOCH = 2**31 - 1
CORRUPT_ANSWERS_UNTIL_FAILED = 2

_LEADER_ERRORS = frozenset(
    {
        Errors.NOT_LEADER_OR_FOLLOWER,
        Errors.FENCED_LEADER_EPOCH,
        Errors.UNKNOWN_LEADER_EPOCH,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.UNKNOWN_TOPIC_ID,
        Errors.LEADER_NOT_AVAILABLE,
        Errors.REPLICA_NOT_AVAILABLE,
    }
)
_log = logging.getLogger(__name__)


class FetchedMirrorPartition:
    """One partition of a fetcher."""

    def __init__(self, driver: MirrorPartition, *, topic_id: Uuid, source_epoch: int, source_is_mirror: bool) -> None:
        self.driver = driver
        self.topic_id = topic_id
        self.source_epoch = source_epoch
        self.source_is_mirror = source_is_mirror
        self.is_verified = False
        self.delayed_until_ms = 0
        self.corrupt_answers = 0

    @property
    def topic_partition(self) -> TopicPartition:
        return self.driver.id.topic_partition

    def position(self) -> FetchPosition:
        log = self.driver.log
        epoch = log.latest_batch_epoch()
        return FetchPosition(self.topic_id, log.log_end_offset, self.source_epoch, -1 if epoch is None else epoch)


class MirrorFetcher:
    """One task. `add` and `remove` take effect at once."""

    def __init__(self, runtime: Runtime, end_point: SourceEndPoint, name: str) -> None:
        self.name = name
        self.stats = FetcherStats(runtime.clock)
        self._runtime = runtime
        self._end_point = end_point
        self._partitions: dict[TopicPartition, FetchedMirrorPartition] = {}
        self._waiter: asyncio.Future[None] | None = None

    @property
    def is_empty(self) -> bool:
        return not self._partitions

    @property
    def node_id(self) -> int:
        return self._end_point.node.id

    def owns(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._partitions

    def lags(self) -> Iterator[tuple[TopicPartition, int]]:
        """How far each partition is behind the source's high watermark, in records; 0 while that is not known."""
        for topic_partition, partition in list(self._partitions.items()):
            log, source_offset = partition.driver.partition.log, partition.driver.status.source_offset
            yield topic_partition, max(0, source_offset - log.log_end_offset) if log is not None and source_offset >= 0 else 0

    @property
    def client_metrics(self) -> ClientMetrics:
        """What its connection counts."""
        return self._end_point.client_metrics

    def add(self, partition: FetchedMirrorPartition) -> None:
        self._partitions[partition.topic_partition] = partition
        self._wake()

    def remove(self, topic_partition: TopicPartition) -> None:
        """From now on the partition is not touched: every change of a log follows a look at whether the partition is still ours."""
        self._partitions.pop(topic_partition, None)

    async def run(self) -> None:
        """Until cancelled. A failure that nobody expected gives all partitions back and goes on."""
        while True:
            ready = self._ready()
            if not ready:
                await self._wait()
                continue
            try:
                await self._round(ready)
            except SourceError as error:
                self._give_back(ready, str(error))

    def close(self) -> None:
        self._end_point.close()

    async def _round(self, ready: list[FetchedMirrorPartition]) -> None:
        for partition in ready:
            if not partition.is_verified and self._is_current(partition):
                await self._verify(partition)
        positions = {}
        for partition in ready:
            if partition.is_verified and self._is_current(partition) and partition.driver.partition.is_leader:
                positions[partition.topic_partition] = partition.position()
        if not positions:
            return
        answers = await self._end_point.fetch(positions)
        self.stats.fetched(sum(len(fetched.records) for fetched in answers.values()))
        current = {partition.topic_partition: partition for partition in ready if self._is_current(partition)}
        for topic_partition, fetched in answers.items():
            answered = current.get(topic_partition)
            position = positions.get(topic_partition)
            if answered is not None and position is not None:
                await self._handle(answered, position, fetched)

    # --- verification -------------------------------------------------------------------------------------------------

    async def _verify(self, partition: FetchedMirrorPartition) -> None:
        """C36b."""
        driver = partition.driver
        if not driver.services.safeguards.first_fetch_verified:
            partition.is_verified = True
            return
        try:
            source = self._source_log(partition)
            verdict = await verify_log(driver.log, source, is_compacted=driver.log.config.compact)
            if not self._is_current(partition):
                return
            if verdict.start_over:
                removed = cut_fully(driver.partition, verdict.offset)
            else:
                removed = cut(driver.partition, verdict.offset)
            partition.is_verified = True
            if removed > 0:
                self._after_cut(partition, "the log differs from the source's")
        except (SourceError, ApiException) as error:
            self._give_back([partition], str(error))
        except OSError as error:
            driver.on_storage_error(str(error))
            self._partitions.pop(partition.topic_partition, None)

    def _source_log(self, partition: FetchedMirrorPartition) -> SourceLog:
        topic_partition, epoch = partition.topic_partition, partition.source_epoch
        end_point = self._end_point

        async def fetch_batch(offset: int, size: int) -> FetchedPartition:
            return await end_point.fetch_batch(topic_partition, FetchPosition(partition.topic_id, offset, epoch, -1), size)

        async def earliest_offset() -> int:
            return await end_point.earliest_offset(topic_partition, epoch)

        async def end_offset() -> int:
            return (await end_point.epoch_end_offset(topic_partition, epoch, ANY_EPOCH if epoch < 0 else epoch))[1]

        return SourceLog(fetch_batch, earliest_offset, end_offset)

    # --- answers ------------------------------------------------------------------------------------------------------

    async def _handle(self, partition: FetchedMirrorPartition, position: FetchPosition, fetched: FetchedPartition) -> None:
        driver = partition.driver
        try:
            if fetched.error is Errors.NONE:
                await self._handle_data(partition, position, fetched)
            elif fetched.error is Errors.OFFSET_OUT_OF_RANGE:
                await self._handle_out_of_range(partition)
            elif fetched.error in _LEADER_ERRORS:
                self._give_back([partition], f"source broker {self.node_id}: {fetched.error.name}")
            elif fetched.error is Errors.INCONSISTENT_TOPIC_ID:
                self._reject(partition, "the source's topic has another id")
            elif fetched.error is Errors.TOPIC_AUTHORIZATION_FAILED:
                driver.mirror.note_refused(partition.topic_partition, driver)
                self._delay(partition, "the source refuses to let us read the topic")
            else:
                self._delay(partition, f"source broker {self.node_id}: {fetched.error.name}")
        except SourceError as error:
            self._give_back([partition], str(error))
        except ApiException as error:
            if error.error in (Errors.CORRUPT_MESSAGE, Errors.INVALID_RECORD, Errors.MESSAGE_TOO_LARGE):
                self._handle_corrupt(partition, error)
            elif error.error is Errors.KAFKA_STORAGE_ERROR:
                self._partitions.pop(partition.topic_partition, None)
                driver.on_storage_error(str(error))
            else:
                partition.is_verified = False
                self._give_back([partition], str(error))
        except OSError as error:
            self._partitions.pop(partition.topic_partition, None)
            driver.on_storage_error(str(error))

    async def _handle_data(self, partition: FetchedMirrorPartition, position: FetchPosition, fetched: FetchedPartition) -> None:
        driver = partition.driver
        log = driver.log
        driver.mirror.note_allowed(partition.topic_partition)
        if fetched.diverging_epoch >= 0:
            await self._handle_divergence(partition, fetched.diverging_epoch, fetched.diverging_end_offset)
            return
        if log.log_end_offset != position.offset:
            return
        if next_batch_size(fetched.records, 0) is not None:
            await self._append(partition, fetched)
        if not self._is_current(partition):
            return
        status = driver.status
        status.source_offset = fetched.high_watermark
        status.highest_source_epoch = max(status.highest_source_epoch, partition.source_epoch)
        status.reason = None
        new_start = min(fetched.log_start_offset, log.high_watermark)
        if new_start > log.log_start_offset:
            log.maybe_increment_log_start_offset(new_start, LogStartOffsetIncrementReason.LEADER_OFFSET_INCREMENTED)

    async def _append(self, partition: FetchedMirrorPartition, fetched: FetchedPartition) -> None:
        driver = partition.driver
        log = driver.log
        first = RecordBatch(fetched.records)
        if first.base_offset < log.log_end_offset <= first.last_offset and log.last_batch() is None:
            cut_fully(driver.partition, first.base_offset)
        accepted = ANY_EPOCH if partition.source_is_mirror or partition.source_epoch < 0 else partition.source_epoch
        info = driver.partition.append_records_to_mirror_leader(fetched.records, source_leader_epoch=accepted)
        partition.corrupt_answers = 0
        if info is not None and info.skipped_higher_epoch:
            partition.source_is_mirror = await driver.mirror.is_source_topic_mirrored(partition.topic_partition.topic)
            if not partition.source_is_mirror:
                self._give_back([partition], "the source sent batches of a newer leader epoch than the one it was asked in")

    async def _handle_divergence(self, partition: FetchedMirrorPartition, epoch: int, source_end_offset: int) -> None:
        """D3-15: cut to where the source's epoch ends, or to where ours does if that is earlier."""
        log = partition.driver.log
        above = first_offset_above(log, epoch)
        ours = log.log_end_offset if above is None else above
        await self._cut_to(partition, min(ours, source_end_offset), f"epoch {epoch} ends at {source_end_offset} at the source")

    async def _handle_out_of_range(self, partition: FetchedMirrorPartition) -> None:
        """D3-14 where retention passed us, else D3-14b: the common point by epochs, never everything."""
        driver = partition.driver
        source_start = await self._end_point.earliest_offset(partition.topic_partition, partition.source_epoch)
        log_end_offset = driver.log.log_end_offset
        if not self._is_current(partition):
            return
        if log_end_offset < source_start:
            had_batches = cut_fully(driver.partition, source_start) > 0
            if had_batches:
                self._after_cut(partition, f"the source begins at {source_start}")
            return
        epoch = driver.log.latest_batch_epoch()
        while epoch is not None and epoch >= 0:
            found, end_offset = await self._end_point.epoch_end_offset(partition.topic_partition, partition.source_epoch, epoch)
            if not self._is_current(partition):
                return
            if found == epoch and end_offset >= 0:
                await self._handle_divergence(partition, epoch, end_offset)
                return
            epoch = self._older_epoch(driver, epoch, found)
        self._delay(partition, f"the source knows no epoch of our log, which ends at {log_end_offset}")

    @staticmethod
    def _older_epoch(driver: MirrorPartition, epoch: int, found: int) -> int | None:
        """Our largest epoch at or below the source's `found`, below `epoch`."""
        limit = min(found, epoch - 1)
        best: int | None = None
        for header in driver.log.batch_headers(driver.log.log_start_offset):
            if header.partition_leader_epoch > limit:
                break
            best = header.partition_leader_epoch
        return best

    async def _cut_to(self, partition: FetchedMirrorPartition, offset: int, reason: str) -> None:
        driver = partition.driver
        log = driver.log
        if offset < log.log_start_offset:
            source_start = await self._end_point.earliest_offset(partition.topic_partition, partition.source_epoch)
            if not self._is_current(partition):
                return
            removed = cut_fully(driver.partition, source_start)
        else:
            removed = cut(driver.partition, offset)
        if removed > 0:
            self._after_cut(partition, reason)
        else:
            self._delay(partition, reason)

    def _after_cut(self, partition: FetchedMirrorPartition, reason: str) -> None:
        """A cut leader bumps its epoch before it appends again: back to the driver."""
        _log.warning("mirror fetcher %s: %s was cut: %s", self.name, partition.topic_partition, reason)
        if partition.driver.services.safeguards.bump_after_cut:
            partition.driver.note_cut()
        self._partitions.pop(partition.topic_partition, None)
        partition.driver.on_fetcher_gone(None)

    def _handle_corrupt(self, partition: FetchedMirrorPartition, error: ApiException) -> None:
        partition.corrupt_answers += 1
        if partition.corrupt_answers >= CORRUPT_ANSWERS_UNTIL_FAILED:
            self._reject(partition, f"malformed batch from the source: {error.message}")
        else:
            self._delay(partition, f"malformed batch from the source: {error.message}")

    def _reject(self, partition: FetchedMirrorPartition, reason: str) -> None:
        self._partitions.pop(partition.topic_partition, None)
        partition.driver.on_rejected(reason)

    # --- bookkeeping --------------------------------------------------------------------------------------------------

    def _is_current(self, partition: FetchedMirrorPartition) -> bool:
        return self._partitions.get(partition.topic_partition) is partition

    def _give_back(self, partitions: list[FetchedMirrorPartition], reason: str) -> None:
        for partition in partitions:
            if self._is_current(partition):
                del self._partitions[partition.topic_partition]
                partition.driver.on_fetcher_gone(reason)

    def _delay(self, partition: FetchedMirrorPartition, reason: str) -> None:
        services = partition.driver.services
        partition.delayed_until_ms = services.runtime.clock.monotonic_ms() + services.config.mirror_fetch_backoff_ms
        partition.driver.status.reason = reason

    def _ready(self) -> list[FetchedMirrorPartition]:
        now_ms = self._runtime.clock.monotonic_ms()
        return [partition for partition in self._partitions.values() if partition.delayed_until_ms <= now_ms]

    async def _wait(self) -> None:
        """For a partition, or until the first delay is over."""
        waiter: asyncio.Future[None] = self._runtime.create_future()
        self._waiter = waiter
        timer = None
        if self._partitions:
            first_ms = min(partition.delayed_until_ms for partition in self._partitions.values())
            timer = self._runtime.call_later_ms(max(1, first_ms - self._runtime.clock.monotonic_ms()), self._wake)
        try:
            await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
