"""Moves replicas between the log directories of one broker (Kafka's `ReplicaAlterLogDirsManager`; KIP-113, KIP-858).

A *future* log, in a folder named `-future` in the target directory, follows the current one: the fetcher framework with this
broker's own log as the leader, whether the broker leads the partition or follows it. When it has caught up

    COPYING ── caught up ──> ASSIGNING ── the controller took the new directory ──> ACCEPTED ── caught up again ──> the future log
                                                                                                       takes the place of the current

*A future log is a beginning of the current one, batch for batch.* It was copied from it, and a cut of the current log is made in the
future one first, in the same step (`LogManager`). A restart may find another one: a power loss brings back what was cut, or the cut
of the current log was the last thing that happened. So a future log that is found is compared before it is followed on, header by
header from its start, and cut where the two differ; in a new leader epoch, and right before the change, the last batch is. Equal
ends and equal epochs, which is what Kafka asks, say little in a mirror: a failback cuts and copies other batches in equal epochs.

*What was synced stays so.* A broker may have told somebody that a record is on its disk, and a partition with one replica has no
other. So the future log is synced before it takes the current one's place, as far as that one was. (Kafka renames it as it is.)

The controller comes first, or a failure of the old directory right after the change would make it elect others for nothing. A move
that is given up after the controller was asked tells it the old directory again. Appends go on all the time; the change itself is
one step of the loop. A future log that is found at start is followed on. The copying is throttled by
`replica.alter.log.dirs.io.max.bytes.per.second`; the cleaner keeps away from what is being moved.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicIdPartition, TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.replica.fetcher import AbstractFetcher, FetchedPartition, PartitionFetchState, fetcher_id
from kmirror.replica.follower_append import append_as_follower
from kmirror.replica.partition import Partition
from kmirror.replica.partition_reader import diverging_epoch
from kmirror.replica.replica_types import NO_MIRROR_LEADER_EPOCH, DivergingEpoch
from kmirror.storage.batch_header import BatchHeader
from kmirror.storage.fetch_data_info import FetchIsolation
from kmirror.storage.log_file_names import MAX_DIR_NAME_LENGTH, log_future_dir_name
from kmirror.storage.log_offset_metadata import LogStartOffsetIncrementReason
from kmirror.storage.unified_log import UnifiedLog

if TYPE_CHECKING:
    from kmirror.replica.replica_manager import ReplicaManager

HEADERS_COMPARED_A_TURN = 1000
IDLE_MS = 50
"""How long the mover rests when nothing is to be copied: it waits for the controller, or for the next append."""

AssignmentListener = Callable[[TopicIdPartition, Uuid, Callable[[], None]], None]
"""(replica, directory, what to call when the controller has taken it)."""

_log = logging.getLogger(__name__)


class _Stage(enum.Enum):
    COPYING = 0
    ASSIGNING = 1
    ACCEPTED = 2


@dataclass(slots=True)
class _Move:
    """One partition on its way."""

    topic: TopicIdPartition
    original_directory: Uuid | None
    compare_from: int | None
    """Up to here the future log is known to be the current one's beginning; None when all of it is."""

    stage: _Stage = _Stage.COPYING
    flush: asyncio.Task[None] | None = None
    """Of the future log, on a worker, before it takes the place of the current one."""


class LocalLeader:
    """This broker's current logs as the leader of the future ones. Of one that is `unverified` only offsets are told."""

    def __init__(self, replica_manager: ReplicaManager, unverified: Callable[[TopicPartition], bool]) -> None:
        self._replica_manager = replica_manager
        self._unverified = unverified
        self.has_copied = False

    async def fetch(
        self,
        partitions: Mapping[TopicPartition, PartitionFetchState],
        touched: Collection[TopicPartition] | None,
        *,
        max_wait_ms: int | None,
    ) -> dict[TopicPartition, FetchedPartition]:
        await self._replica_manager.runtime.sleep_ms(0 if self.has_copied else IDLE_MS)
        answers: dict[TopicPartition, FetchedPartition] = {}
        for topic_partition, state in list(partitions.items()):
            try:
                answers[topic_partition] = self._read(topic_partition, state)
            except ApiException as error:
                answers[topic_partition] = FetchedPartition(error.error)
        self.has_copied = any(answer.records or self._unverified(topic_partition) for topic_partition, answer in answers.items())
        return answers

    def _read(self, topic_partition: TopicPartition, state: PartitionFetchState) -> FetchedPartition:
        partition = self._replica_manager.get_partition_or_exception(topic_partition)
        log, epoch = partition.local_log, state.last_fetched_epoch
        if self._unverified(topic_partition):
            return FetchedPartition(Errors.NONE, high_watermark=log.high_watermark, log_start_offset=log.log_start_offset)
        diverging = None if epoch is None else diverging_epoch(partition, log, state.fetch_offset, epoch)
        records = b""
        if diverging is None:
            max_bytes = self._replica_manager.config.replica_fetch_max_bytes
            read = log.read(state.fetch_offset, max_bytes, FetchIsolation.LOG_END, min_one_message=True)
            records = read.records.to_bytes()
        return FetchedPartition(
            Errors.NONE,
            high_watermark=log.high_watermark,
            log_start_offset=log.log_start_offset,
            records=records,
            diverging_epoch=diverging,
        )

    async def fetch_earliest_offset(self, topic_partition: TopicPartition, current_leader_epoch: int) -> int:
        return self._replica_manager.get_partition_or_exception(topic_partition).local_log.log_start_offset

    async def fetch_latest_offset(self, topic_partition: TopicPartition, current_leader_epoch: int) -> int:
        return self._replica_manager.get_partition_or_exception(topic_partition).local_log.log_end_offset

    async def close(self) -> None:
        self.has_copied = False


class ReplicaAlterLogDirs:
    """The moves of one broker, and the hooks of their fetcher. `on_assignment` is set by `server`; without it nobody is asked."""

    def __init__(self, replica_manager: ReplicaManager) -> None:
        self.on_assignment: AssignmentListener | None = None
        self._replica_manager = replica_manager
        self._log_manager = replica_manager.log_manager
        self._moves: dict[TopicPartition, _Move] = {}
        self._fetchers: dict[int, AbstractFetcher] = {}
        self.failed: dict[TopicPartition, None] = {}
        """Moves that an error ended which does not pass."""
        self._quota = replica_manager.quotas.alter_log_dirs
        self._log_manager.future_logs.on_cut = self._on_cut

    # --- requests ---------------------------------------------------------------------------------------------------

    def alter_replica_log_dir(self, topic_partition: TopicPartition, destination: str) -> Errors:
        """AlterReplicaLogDirs for one partition."""
        try:
            self._alter(topic_partition, destination)
        except ApiException as error:
            _log.warning("Unable to alter log dirs for %s: %s", topic_partition, error.message)
            return Errors.REPLICA_NOT_AVAILABLE if error.error is Errors.NOT_LEADER_OR_FOLLOWER else error.error
        return Errors.NONE

    def _alter(self, topic_partition: TopicPartition, destination: str) -> None:
        manager = self._replica_manager
        if len(log_future_dir_name(topic_partition, manager.runtime.random)) > MAX_DIR_NAME_LENGTH:
            raise ApiException(Errors.INVALID_TOPIC_EXCEPTION, "The topic name is too long.")
        if not self._log_manager.is_log_dir_online(destination):
            raise ApiException(Errors.KAFKA_STORAGE_ERROR, f"Log directory {destination} is offline")
        future = self._log_manager.future_log(topic_partition)
        if future is not None and future.parent_dir != destination:
            self.cancel(topic_partition)
        if manager.get_partition(topic_partition) is None:
            self._log_manager.prefer_log_dir(topic_partition, destination)
        partition = manager.get_partition_or_exception(topic_partition)
        if partition.local_log.parent_dir == destination:
            return
        if self._log_manager.future_log(topic_partition) is None:
            self._log_manager.create_future_log(topic_partition, destination, topic_id=partition.topic_id)
        self.resume(partition)

    def resume(self, partition: Partition) -> None:
        """Follow the partition's future log if it has one (also in a new leader epoch), once it is known to be a beginning of the current."""
        topic_partition = partition.topic_partition
        future = self._log_manager.future_log(topic_partition)
        log = partition.log
        if future is None or log is None:
            return
        fetcher = self._fetcher_of(topic_partition)
        fetcher.remove_partitions([topic_partition])
        try:
            future.assign_topic_id(partition.topic_id)
        except ApiException as error:
            _log.warning("Dropping the future log of %s: %s", topic_partition, error.message)
            self.cancel(topic_partition)
            return
        if topic_partition not in self._moves:
            self._log_manager.abort_and_pause_cleaning(topic_partition)
            topic = TopicIdPartition(partition.topic_id, topic_partition.topic, topic_partition.partition)
            directory = self._log_manager.directory_id(log.parent_dir)
            self._moves[topic_partition] = _Move(topic, directory, None if future.is_empty else future.log_start_offset)
        self.failed.pop(topic_partition, None)
        try:
            self._bring_into_range(log, future)
            self._compare_ends(topic_partition, log, future)
        except ApiException as error:
            self.on_partition_failed(topic_partition, error)
            return
        state = PartitionFetchState(
            partition.topic_id,
            future.log_end_offset,
            partition.leader_epoch,
            future.latest_epoch,
            log_start_offset=future.log_start_offset,
        )
        fetcher.add_partitions({topic_partition: state})

    @staticmethod
    def _bring_into_range(log: UnifiedLog, future: UnifiedLog) -> None:
        """A future log that is found may end behind the current one, or begin elsewhere."""
        if future.log_end_offset > log.log_end_offset:
            future.truncate_to(log.log_end_offset, at_batch_boundary=True)
        if log.log_start_offset < future.log_start_offset or log.log_start_offset > future.log_end_offset:
            future.truncate_fully_and_start_at(log.log_start_offset)
        future.maybe_update_high_watermark(min(log.high_watermark, future.log_end_offset))
        future.maybe_increment_log_start_offset(log.log_start_offset, LogStartOffsetIncrementReason.LEADER_OFFSET_INCREMENTED)

    def _compare_ends(self, topic_partition: TopicPartition, log: UnifiedLog, future: UnifiedLog) -> bool:
        """Whether the future log's last batch is the current one's too. If not, all of it is compared."""
        last = future.last_batch()
        if last is None or (theirs := log.batch_containing(last.base_offset)) is not None and _is_equal(last, theirs):
            return True
        self._moves[topic_partition].compare_from = future.log_start_offset
        return False

    def cancel(self, topic_partition: TopicPartition) -> None:
        """Give the move up and drop the future log, if there is one."""
        move = self._moves.get(topic_partition)
        self._forget(topic_partition)
        if self._log_manager.future_log(topic_partition) is not None:
            self._log_manager.delete_future_log(topic_partition)
        if move is not None and move.stage is not _Stage.COPYING and move.original_directory is not None and self.on_assignment is not None:
            self.on_assignment(move.topic, move.original_directory, lambda: None)

    def handle_log_dir_failure(self) -> None:
        """A directory went offline: moves from or to it are over."""
        for topic_partition in list(self._moves):
            if self._log_manager.future_log(topic_partition) is None or self._replica_manager.get_partition(topic_partition) is None:
                self._forget(topic_partition)

    def _forget(self, topic_partition: TopicPartition) -> None:
        for fetcher in self._fetchers.values():
            fetcher.remove_partitions([topic_partition])
        self.failed.pop(topic_partition, None)
        if self._moves.pop(topic_partition, None) is not None:
            self._log_manager.resume_cleaning(topic_partition)

    # --- life -------------------------------------------------------------------------------------------------------

    def _fetcher_of(self, topic_partition: TopicPartition) -> AbstractFetcher:
        """One of num.replica.alter.log.dirs.threads."""
        manager = self._replica_manager
        number = fetcher_id(topic_partition, manager.config.num_replica_alter_log_dirs_threads)
        fetcher = self._fetchers.get(number)
        if fetcher is None:
            backoff_ms = manager.config.replica_fetch_backoff_ms
            name = f"ReplicaAlterLogDirsThread-{number}"
            fetcher = self._fetchers[number] = AbstractFetcher(
                manager.runtime, name, LocalLeader(manager, self.is_unverified), self, backoff_ms=backoff_ms
            )
            fetcher.start()
        return fetcher

    def lags(self) -> list[int]:
        """How many records each future log is behind its current one."""
        return [max(0, state.lag or 0) for fetcher in self._fetchers.values() for _, state in fetcher.states()]

    @property
    def dead_fetcher_count(self) -> int:
        """Fetchers whose task ended though nobody ended it, and has not begun again yet."""
        return sum(fetcher.is_dead for fetcher in self._fetchers.values())

    def kill(self) -> None:
        for fetcher in self._fetchers.values():
            fetcher.stop()

    # --- hooks of the fetcher ---------------------------------------------------------------------------------------

    def _future(self, topic_partition: TopicPartition) -> UnifiedLog:
        log = self._log_manager.future_log(topic_partition)
        if log is None:
            raise ApiException(Errors.REPLICA_NOT_AVAILABLE, f"Future log for partition {topic_partition} is not available")
        return log

    def is_unverified(self, topic_partition: TopicPartition) -> bool:
        """Whether it is not known yet that the future log is a beginning of the current one."""
        move = self._moves.get(topic_partition)
        return move is not None and move.compare_from is not None

    def _on_cut(self, topic_partition: TopicPartition, end_offset: int) -> None:
        """The future log was cut with the current one: what was compared behind its new end counts no more."""
        move = self._moves.get(topic_partition)
        if move is not None and move.compare_from is not None:
            move.compare_from = min(move.compare_from, end_offset)

    def _compare_some(self, move: _Move, log: UnifiedLog, future: UnifiedLog) -> None:
        """Go on comparing from where it is known that the logs are equal; at a difference, cut the future log."""
        assert move.compare_from is not None, "compares a future log that is verified"
        begin = max(move.compare_from, log.log_start_offset)  # what lies before may be gone from the current log already
        theirs = log.batch_headers(begin)
        for number, ours in enumerate(future.batch_headers(begin)):
            if number == HEADERS_COMPARED_A_TURN:
                return
            if not _is_equal(ours, next(theirs, None)):
                _log.warning("The future log of %s is the current one's only up to offset %d", move.topic, ours.base_offset)
                if ours.base_offset <= future.log_start_offset:
                    future.truncate_fully_and_start_at(log.log_start_offset)
                else:
                    future.truncate_to(ours.base_offset)
                break
            move.compare_from = ours.next_offset
        move.compare_from = None

    def process_partition_data(
        self, topic_partition: TopicPartition, state: PartitionFetchState, data: FetchedPartition
    ) -> tuple[int, int | None]:
        partition = self._replica_manager.get_partition_or_exception(topic_partition)
        future, log, move = self._future(topic_partition), partition.local_log, self._moves.get(topic_partition)
        if move is not None and move.compare_from is not None:
            self._compare_some(move, log, future)
            return future.log_end_offset, future.latest_epoch
        if state.fetch_offset != future.log_end_offset:
            return future.log_end_offset, future.latest_epoch  # it was cut meanwhile
        if data.records:
            # A mirror's batches carry the source's epochs, which may be above ours.
            append_as_follower(future, data.records, leader_epoch=max(partition.leader_epoch, log.latest_epoch or 0))
            self._quota.record(len(data.records))
        future.maybe_update_high_watermark(min(data.high_watermark, future.log_end_offset))
        future.maybe_increment_log_start_offset(data.log_start_offset, LogStartOffsetIncrementReason.LEADER_OFFSET_INCREMENTED)
        result = future.log_end_offset, future.latest_epoch
        if future.log_end_offset == log.log_end_offset and future.log_start_offset == log.log_start_offset:
            self._on_caught_up(topic_partition, partition, future)
        return result

    def next_mirror_leader_epoch(self, topic_partition: TopicPartition, state: PartitionFetchState, data: FetchedPartition) -> int:
        return NO_MIRROR_LEADER_EPOCH

    def _on_caught_up(self, topic_partition: TopicPartition, partition: Partition, future: UnifiedLog) -> None:
        move = self._moves.get(topic_partition)
        target = self._log_manager.directory_id(future.parent_dir)
        if move is None:
            return
        if move.stage is _Stage.COPYING:
            move.stage = _Stage.ASSIGNING

            def accepted() -> None:
                move.stage = _Stage.ACCEPTED

            if self.on_assignment is None or target is None:
                accepted()
            else:
                self.on_assignment(move.topic, target, accepted)
        elif (
            move.stage is _Stage.ACCEPTED
            and self._compare_ends(topic_partition, partition.local_log, future)
            and self._is_synced(move, partition.local_log, future)
        ):
            _take_over_empty_epoch(partition.local_log, future)
            self._log_manager.replace_current_with_future_log(topic_partition)
            partition.log = future
            self._forget(topic_partition)
            self._replica_manager.complete_delayed(topic_partition)

    def _is_synced(self, move: _Move, log: UnifiedLog, future: UnifiedLog) -> bool:
        """Whether the future log has on its disk what the current one has on its own. A worker syncs what was copied; what was appended
        meanwhile is little, and is synced at once: under steady load there would always be some."""
        if future.recovery_point >= log.recovery_point:
            return True
        if move.flush is None:
            move.flush = self._replica_manager.runtime.spawn(self._flush(future), name=f"flush-future-{future.topic_partition}")
        if not move.flush.done():
            return False
        future.flush()
        return True

    async def _flush(self, future: UnifiedLog) -> None:
        try:
            await self._replica_manager.runtime.run_blocking(future.flush)
        except ApiException as error:  # its directory goes offline, and with it the move
            _log.error("The future log %s cannot be synced: %s", future.directory, error.message)

    def truncate(self, topic_partition: TopicPartition, diverging: DivergingEpoch) -> tuple[int, int | None]:
        ours = self._future(topic_partition).end_offset_for_epoch(diverging.epoch)
        target = diverging.end_offset if ours is None else min(diverging.end_offset, ours.offset)
        return self.truncate_to(topic_partition, target)

    def truncate_to(self, topic_partition: TopicPartition, offset: int) -> tuple[int, int | None]:
        future = self._future(topic_partition)
        future.truncate_to(offset, at_batch_boundary=True)
        return future.log_end_offset, future.latest_epoch

    def truncate_fully_and_start_at(self, topic_partition: TopicPartition, offset: int) -> None:
        self._future(topic_partition).truncate_fully_and_start_at(offset)

    def log_end_offset(self, topic_partition: TopicPartition) -> int:
        return self._future(topic_partition).log_end_offset

    def log_start_offset(self, topic_partition: TopicPartition) -> int:
        future = self._log_manager.future_log(topic_partition)
        return -1 if future is None else future.log_start_offset

    may_epochs_begin_anew = False  # the leader's log is here

    @property
    def is_throttled(self) -> bool:
        return self._quota.is_quota_exceeded

    def must_wait(self, topic_partition: TopicPartition, state: PartitionFetchState) -> bool:
        return self._quota.is_quota_exceeded

    def unverified(self) -> Collection[TopicPartition]:
        return ()

    def on_partition_failed(self, topic_partition: TopicPartition, error: ApiException) -> None:
        _log.error("Moving %s to another log directory failed: %s: %s", topic_partition, error.error.name, error.message)
        if self._log_manager.future_log(topic_partition) is None:
            self.cancel(topic_partition)
        else:
            self.failed[topic_partition] = None


def _is_equal(ours: BatchHeader, theirs: BatchHeader | None) -> bool:
    """Whether two headers are of the same bytes: the CRC has all that is not named here."""
    return theirs is not None and (ours.base_offset, ours.size_in_bytes, ours.partition_leader_epoch, ours.crc) == (
        theirs.base_offset,
        theirs.size_in_bytes,
        theirs.partition_leader_epoch,
        theirs.crc,
    )


def _take_over_empty_epoch(log: UnifiedLog, future: UnifiedLog) -> None:
    """A leader's present epoch begins before there is a batch in it; a follower that asks for it must find it behind the change, too."""
    latest = log.latest_epoch
    if latest is not None and (future.latest_epoch is None or latest > future.latest_epoch):
        future.maybe_assign_epoch_start_offset(latest, future.log_end_offset)
