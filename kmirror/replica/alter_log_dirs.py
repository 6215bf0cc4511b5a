"""Moves replicas between the log directories of one broker (Kafka's `ReplicaAlterLogDirsManager`;
KIP-113, KIP-858).

A *future* log, in a folder named `-future` in the target directory, follows the current one: the
fetcher framework with this broker's own log as the leader (`local_leader_end_point`), whether the
broker leads the partition or follows it. When it has caught up

    COPYING    the controller is asked to take the new directory      -> ASSIGNING
    ASSIGNING  the controller took it                                 -> ACCEPTED
    ACCEPTED   caught up again: the future log takes the place of the current one

The future log must be a beginning of the current one, and be on disk before it takes the current
one's place; `log_dir_move` says how that is known.

The controller is asked first; otherwise a failure of the old directory right after the change would
make it elect other leaders needlessly. If a move is given up after that, the controller is told the
old directory again. Appends continue throughout; the change itself is one step of the loop. The
move of a future log that is found at start continues. The copying is throttled by
`replica.alter.log.dirs.io.max.bytes.per.second`; the cleaner leaves partitions alone that are being
moved.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicIdPartition, TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.replica.abstract_fetcher import AbstractFetcher, fetcher_id
from kmirror.replica.follower_append import append_as_follower
from kmirror.replica.hosted_partitions import HostedPartitions
from kmirror.replica.leader_end_point import FetchData, PartitionFetchState
from kmirror.replica.local_leader_end_point import LocalLeaderEndPoint
from kmirror.replica.log_dir_move import LogDirMove, MoveStage
from kmirror.replica.partition import Partition
from kmirror.replica.replica_types import NO_MIRROR_LEADER_EPOCH, DivergingEpoch, ReplicaConfig
from kmirror.replica.replication_quota_manager import ReplicationQuotaManager
from kmirror.runtime.api import Runtime
from kmirror.storage.log_file_names import MAX_DIR_NAME_LENGTH, log_future_dir_name
from kmirror.storage.log_manager import LogManager
from kmirror.storage.log_offset_metadata import LogStartOffsetIncrementReason
from kmirror.storage.unified_log import UnifiedLog

AssignmentListener = Callable[[TopicIdPartition, Uuid, Callable[[], None]], None]
"""(replica, directory, what to call when the controller has taken it)."""

_log = logging.getLogger(__name__)


class ReplicaAlterLogDirs:
    """Owns the moves of one broker and their fetchers, and is the fetchers' hooks. `server` sets
    `on_assignment`; without it nobody is asked. `on_replaced` is called when a partition's log was
    replaced.
    """

    def __init__(
        self,
        config: ReplicaConfig,
        runtime: Runtime,
        log_manager: LogManager,
        hosted: HostedPartitions,
        quota: ReplicationQuotaManager,
        *,
        on_replaced: Callable[[TopicPartition], None],
    ) -> None:
        self.on_assignment: AssignmentListener | None = None
        self.failed: dict[TopicPartition, None] = {}
        """Moves that ended with a permanent error."""
        self._config = config
        self._runtime = runtime
        self._log_manager = log_manager
        self._hosted = hosted
        self._quota = quota
        self._on_replaced = on_replaced
        self._moves: dict[TopicPartition, LogDirMove] = {}
        self._fetchers: dict[int, AbstractFetcher] = {}
        self._log_manager.future_logs.on_cut = self._on_future_log_cut

    # --- requests
    # ---------------------------------------------------------------------------------------------------

    def alter_replica_log_dir(self, topic_partition: TopicPartition, destination: str) -> Errors:
        """AlterReplicaLogDirs for one partition."""
        try:
            self._alter(topic_partition, destination)
        except ApiException as error:
            _log.warning("Unable to alter log dirs for %s: %s", topic_partition, error.message)
            return Errors.REPLICA_NOT_AVAILABLE if error.error is Errors.NOT_LEADER_OR_FOLLOWER else error.error
        return Errors.NONE

    def _alter(self, topic_partition: TopicPartition, destination: str) -> None:
        if len(log_future_dir_name(topic_partition, self._runtime.random)) > MAX_DIR_NAME_LENGTH:
            raise ApiException(Errors.INVALID_TOPIC_EXCEPTION, "The topic name is too long.")
        if not self._log_manager.is_log_dir_online(destination):
            raise ApiException(Errors.KAFKA_STORAGE_ERROR, f"Log directory {destination} is offline")
        future = self._log_manager.future_log(topic_partition)
        if future is not None and future.parent_dir != destination:
            self.cancel(topic_partition)
        if self._hosted.get(topic_partition) is None:
            self._log_manager.prefer_log_dir(topic_partition, destination)
        partition = self._hosted.get_or_exception(topic_partition)
        if partition.local_log.parent_dir == destination:
            return
        if self._log_manager.future_log(topic_partition) is None:
            self._log_manager.create_future_log(topic_partition, destination, topic_id=partition.topic_id)
        self.resume(partition)

    def resume(self, partition: Partition) -> None:
        """Continues the partition's move if it has a future log (also in a new leader epoch), once
        that log is known to be a beginning of the current one.
        """
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
            self._moves[topic_partition] = LogDirMove(topic, directory, future)
        move = self._moves[topic_partition]
        self.failed.pop(topic_partition, None)
        try:
            move.bring_into_range(log, future)
            move.compare_ends(log, future)
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

    def cancel(self, topic_partition: TopicPartition) -> None:
        """Gives up the move and deletes the future log, if there is one."""
        move = self._moves.get(topic_partition)
        self._forget(topic_partition)
        if self._log_manager.future_log(topic_partition) is not None:
            self._log_manager.delete_future_log(topic_partition)
        if (
            move is not None
            and move.stage is not MoveStage.COPYING
            and move.original_directory is not None
            and self.on_assignment is not None
        ):
            self.on_assignment(move.topic, move.original_directory, lambda: None)

    def handle_log_dir_failure(self) -> None:
        """A directory went offline: moves from or to it are over."""
        for topic_partition in list(self._moves):
            if self._log_manager.future_log(topic_partition) is None or self._hosted.get(topic_partition) is None:
                self._forget(topic_partition)

    def _forget(self, topic_partition: TopicPartition) -> None:
        for fetcher in self._fetchers.values():
            fetcher.remove_partitions([topic_partition])
        self.failed.pop(topic_partition, None)
        if self._moves.pop(topic_partition, None) is not None:
            self._log_manager.resume_cleaning(topic_partition)

    # --- life
    # -------------------------------------------------------------------------------------------------------

    def _fetcher_of(self, topic_partition: TopicPartition) -> AbstractFetcher:
        """The fetcher of a partition: one of num.replica.alter.log.dirs.threads."""
        number = fetcher_id(topic_partition, self._config.num_replica_alter_log_dirs_threads)
        fetcher = self._fetchers.get(number)
        if fetcher is None:
            leader = LocalLeaderEndPoint(self._runtime, self._hosted, self.is_unverified, max_bytes=self._config.replica_fetch_max_bytes)
            name = f"ReplicaAlterLogDirsThread-{number}"
            fetcher = self._fetchers[number] = AbstractFetcher(
                self._runtime, name, leader, self, backoff_ms=self._config.replica_fetch_backoff_ms
            )
            fetcher.start()
        return fetcher

    def lags(self) -> list[int]:
        """How many records each future log is behind its current one."""
        return [max(0, state.lag or 0) for fetcher in self._fetchers.values() for _, state in fetcher.states()]

    @property
    def dead_fetcher_count(self) -> int:
        """The number of fetchers whose task ended although nobody ended it, and has not been
        restarted.
        """
        return sum(fetcher.is_dead for fetcher in self._fetchers.values())

    def kill(self) -> None:
        for fetcher in self._fetchers.values():
            fetcher.stop()

    # --- hooks of the fetcher
    # ---------------------------------------------------------------------------------------

    def _future(self, topic_partition: TopicPartition) -> UnifiedLog:
        log = self._log_manager.future_log(topic_partition)
        if log is None:
            raise ApiException(Errors.REPLICA_NOT_AVAILABLE, f"Future log for partition {topic_partition} is not available")
        return log

    def is_unverified(self, topic_partition: TopicPartition) -> bool:
        """Whether the future log is not yet known to be a beginning of the current one."""
        move = self._moves.get(topic_partition)
        return move is not None and move.is_unverified

    def _on_future_log_cut(self, topic_partition: TopicPartition, end_offset: int) -> None:
        move = self._moves.get(topic_partition)
        if move is not None:
            move.on_future_log_cut(end_offset)

    def process_partition_data(
        self, topic_partition: TopicPartition, state: PartitionFetchState, data: FetchData
    ) -> tuple[int, int | None]:
        partition = self._hosted.get_or_exception(topic_partition)
        future, log, move = self._future(topic_partition), partition.local_log, self._moves.get(topic_partition)
        if move is not None and move.is_unverified:
            move.compare_some(log, future)
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

    def next_mirror_leader_epoch(self, topic_partition: TopicPartition, state: PartitionFetchState, data: FetchData) -> int:
        return NO_MIRROR_LEADER_EPOCH

    def _on_caught_up(self, topic_partition: TopicPartition, partition: Partition, future: UnifiedLog) -> None:
        move = self._moves.get(topic_partition)
        target = self._log_manager.directory_id(future.parent_dir)
        if move is None:
            return
        if move.stage is MoveStage.COPYING:
            move.stage = MoveStage.ASSIGNING

            def accepted() -> None:
                move.stage = MoveStage.ACCEPTED

            if self.on_assignment is None or target is None:
                accepted()
            else:
                self.on_assignment(move.topic, target, accepted)
        elif (
            move.stage is MoveStage.ACCEPTED
            and move.compare_ends(partition.local_log, future)
            and move.is_synced(partition.local_log, future, self._runtime)
        ):
            _take_over_empty_epoch(partition.local_log, future)
            self._log_manager.replace_current_with_future_log(topic_partition)
            partition.replace_log(future)
            self._forget(topic_partition)
            self._on_replaced(topic_partition)

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


def _take_over_empty_epoch(log: UnifiedLog, future: UnifiedLog) -> None:
    """Copies a leader epoch without batches: a leader's current epoch begins before it has a batch,
    and a follower that asks for it must still find it after the change.
    """
    latest = log.latest_epoch
    if latest is not None and (future.latest_epoch is None or latest > future.latest_epoch):
        future.maybe_assign_epoch_start_offset(latest, future.log_end_offset)
