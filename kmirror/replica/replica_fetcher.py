"""What a follower does with the data of its leader (the hooks of `AbstractFetcher`; Kafka's
`ReplicaFetcherThread`).

A follower appends the leader's bytes as they are, takes over its high watermark and log start, and
cuts its log where the leader says that it diverges. In a mirror partition the batches carry epochs
of the source cluster; they may be appended up to the mirror leader epoch in the leader's answers
(KIP-1279), not up to the leader epoch. Equal epochs do not mean equal batches there, so followers
verify their logs in each new leader epoch (`log_verification`).
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.replica.followed_replicas import FollowedReplicas
from kmirror.replica.leader_end_point import FetchData, PartitionFetchState
from kmirror.replica.log_verification import CompareAt, LogVerification, StartOver
from kmirror.replica.partition import Partition
from kmirror.replica.replica_types import NO_MIRROR_LEADER_EPOCH, DivergingEpoch
from kmirror.storage.log_offset_metadata import LogStartOffsetIncrementReason

_log = logging.getLogger(__name__)


class ReplicaFetcher:
    """The hooks of a follower; owns the verification of logs. Partitions that failed are in
    `failed` until they are added again.
    """

    def __init__(self, replicas: FollowedReplicas) -> None:
        self._replicas = replicas
        self._quota = replicas.quotas.follower
        self.failed: dict[TopicPartition, Errors] = {}
        self.verification = LogVerification()
        self._fetched_from_before: set[TopicPartition] = set()
        """Partitions verified by an answer whose rest could not be appended: the fetcher asks from
        that answer's offset once more.
        """

    def first_fetch_offset(self, topic_partition: TopicPartition, fetch_offset: int) -> int:
        """Where fetching begins in a new leader epoch: at the last batch, because the log has to be
        verified; `fetch_offset` is where the log ends.
        """
        self.verification.end(topic_partition)
        self._fetched_from_before.discard(topic_partition)
        return self._begin_verification(topic_partition)

    def _begin_verification(self, topic_partition: TopicPartition) -> int:
        log = self._partition(topic_partition).local_log
        log_manager = self._replicas.log_manager
        return self.verification.begin(topic_partition, log, cleaned_until=lambda: log_manager.cleaned_until(log))

    def _partition(self, topic_partition: TopicPartition) -> Partition:
        return self._replicas.get_partition_or_exception(topic_partition)

    def process_partition_data(
        self, topic_partition: TopicPartition, state: PartitionFetchState, data: FetchData
    ) -> tuple[int, int | None]:
        partition = self._partition(topic_partition)
        log = partition.local_log
        if self.verification.is_pending(topic_partition):
            return self._verify(topic_partition, state, data)
        if state.fetch_offset != log.log_end_offset:
            if topic_partition in self._fetched_from_before:
                self._fetched_from_before.remove(topic_partition)
                return log.log_end_offset, log.latest_epoch
            raise ApiException(
                Errors.UNKNOWN_SERVER_ERROR,
                f"Offset mismatch for partition {topic_partition}: fetched offset = {state.fetch_offset}, log end offset = {log.log_end_offset}.",
            )
        if data.records:
            # A mirror's batches carry the source's epochs; those above the epoch that we asked with
            # come again in the next answer (C36).
            bound = state.mirror_leader_epoch if state.mirror_leader_epoch >= 0 else state.current_leader_epoch
            partition.append_records_to_follower(data.records, leader_epoch=bound)
            self._replicas.stats.replication_bytes_in.mark(len(data.records))
            if partition.replicas.is_adding(self._replicas.config.broker_id):
                self._replicas.stats.reassignment_bytes_in.mark(len(data.records))
            if self._quota.is_throttled(topic_partition):
                self._quota.record(len(data.records))
        moved = log.maybe_update_high_watermark(data.high_watermark)
        log.maybe_increment_log_start_offset(data.log_start_offset, LogStartOffsetIncrementReason.LEADER_OFFSET_INCREMENTED)
        if moved is not None:
            self._replicas.complete_delayed(topic_partition)
        return log.log_end_offset, log.latest_epoch

    def first_mirror_leader_epoch(self, topic_partition: TopicPartition) -> int:
        """The mirror leader epoch of the first fetch: 0 for a mirror's partition, until the
        leader's answer has a higher one; -1 for others.
        """
        return 0 if self._partition(topic_partition).has_mirror_name else NO_MIRROR_LEADER_EPOCH

    def next_mirror_leader_epoch(self, topic_partition: TopicPartition, state: PartitionFetchState, data: FetchData) -> int:
        """The largest mirror leader epoch that the leader has answered with."""
        first = self.first_mirror_leader_epoch(topic_partition)
        return first if first < 0 else max(first, state.mirror_leader_epoch, data.mirror_leader_epoch)

    def _verify(self, topic_partition: TopicPartition, state: PartitionFetchState, data: FetchData) -> tuple[int, int | None]:
        """Compares the answer with our log; then fetching goes on as usual, or the comparison
        continues.
        """
        log = self._partition(topic_partition).local_log
        leader_has_more = data.high_watermark > state.fetch_offset
        if not data.records and leader_has_more:
            is_throttled = self._replicas.quotas.leader.has_throttle(topic_partition.topic)
            if self.verification.is_worth_asking_again(topic_partition, is_throttled=is_throttled):
                return state.fetch_offset, log.latest_epoch
        verdict = self.verification.check(
            topic_partition,
            log,
            fetch_offset=state.fetch_offset,
            records=data.records,
            leader_log_start_offset=max(0, data.log_start_offset),
            leader_has_more=leader_has_more,
        )
        if isinstance(verdict, CompareAt):
            return verdict.offset, log.latest_epoch
        self.verification.end(topic_partition)
        if isinstance(verdict, StartOver):
            _log.warning("%s: no common part with the leader's log is known; starting over at offset %d", topic_partition, verdict.offset)
            log.truncate_fully_and_start_at(verdict.offset)
            return log.log_end_offset, log.latest_epoch
        if verdict.keep_until < log.log_end_offset:
            _log.warning("%s equals the leader's log only up to offset %d; truncating it there", topic_partition, verdict.keep_until)
            log.truncate_to(verdict.keep_until, at_batch_boundary=True)
        if verdict.append_from is None:
            return log.log_end_offset, log.latest_epoch
        rest = memoryview(data.records)[verdict.append_from :]
        self._fetched_from_before.add(topic_partition)
        moved = self.process_partition_data(topic_partition, replace(state, fetch_offset=log.log_end_offset), replace(data, records=rest))
        self._fetched_from_before.discard(topic_partition)
        return moved

    def truncate(self, topic_partition: TopicPartition, diverging: DivergingEpoch) -> tuple[int, int | None]:
        """Cuts to the smaller end of the common epoch; if the log has no entry to tell its end, to
        the high watermark at most.
        """
        log = self._partition(topic_partition).local_log
        ours = log.end_offset_for_epoch(diverging.epoch)
        if ours is None:
            target = min(diverging.end_offset, log.high_watermark)
        else:
            target = min(diverging.end_offset, ours.offset)
        return self.truncate_to(topic_partition, target)

    def truncate_to(self, topic_partition: TopicPartition, offset: int) -> tuple[int, int | None]:
        log = self._partition(topic_partition).local_log
        if offset < log.high_watermark:
            _log.warning("Truncating %s to offset %d below high watermark %d", topic_partition, offset, log.high_watermark)
        log.truncate_to(offset, at_batch_boundary=True)
        if self.verification.is_pending(topic_partition):
            return self._begin_verification(topic_partition), log.latest_epoch
        return log.log_end_offset, log.latest_epoch

    def truncate_fully_and_start_at(self, topic_partition: TopicPartition, offset: int) -> None:
        self.verification.end(topic_partition)
        self._partition(topic_partition).local_log.truncate_fully_and_start_at(offset)

    def log_end_offset(self, topic_partition: TopicPartition) -> int:
        return self._partition(topic_partition).local_log.log_end_offset

    def log_start_offset(self, topic_partition: TopicPartition) -> int:
        return self._partition(topic_partition).local_log.log_start_offset

    @property
    def is_throttled(self) -> bool:
        return not self._quota.is_unused

    def must_wait(self, topic_partition: TopicPartition, state: PartitionFetchState) -> bool:
        """Whether the follower's throttle holds back a replica that is behind, or may be."""
        is_in_sync = state.lag is not None and state.lag <= 0
        return not is_in_sync and self._quota.must_wait(topic_partition)

    @property
    def may_epochs_begin_anew(self) -> bool:
        return self._replicas.is_mirroring_enabled

    def unverified(self) -> Collection[TopicPartition]:
        return self.verification.of_batches

    def on_partition_failed(self, topic_partition: TopicPartition, error: ApiException) -> None:
        if error.error is Errors.FENCED_LEADER_EPOCH:
            _log.info("The leader of %s has a newer epoch; waiting for the metadata", topic_partition)
        else:
            _log.error("Partition %s marked as failed: %s: %s", topic_partition, error.error.name, error.message)
        self.failed[topic_partition] = error.error
