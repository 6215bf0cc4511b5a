"""One partition as this broker sees it: role, epochs, high watermark, and who may write.

Who changes what: `ReplicaManager.apply_delta` makes it leader or follower (epochs and assignment
come from the metadata image); appends and fetches move the log and with it the high watermark;
`mirror` sets the read-only reason. All of this runs on the loop, so every check and its use are one
step.

The rules that matter:

* A change with an older partition epoch than the one known is skipped; a new *leader epoch* (not a
  new partition epoch) starts a leader's epoch: the epoch cache gets an entry at the log end,
  followers' states are reset. A partition whose topic has a `mirror.name` gets no such entry:
  there, entries come only with batches (an empty entry of a local epoch would stand between the
  epochs of the source and truncate wrongly; D5 of the KIP decisions).
* The high watermark of a leader is the smallest log end offset of the *maximal* ISR (what is in it,
  or may be by an AlterPartition in flight), and of replicas that are about to join; never lower
  than before, and not under min.insync.replicas. Who is in the ISR, and how it changes, is in
  `ReplicaSet`.
* Read-only. A partition that mirrors another cluster refuses appends of clients with
  READ_ONLY_TOPIC, or with the retriable NOT_LEADER_OR_FOLLOWER as long as its mirror state is not
  known, or if it is about to become writable. Appends of the coordinator and of replication pass. Becoming read-only fails what waits for
  the ISR: the log is about to be rewritten, and a waiting produce would otherwise be acknowledged
  when other records pass its offset.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

from kmirror.common.errors import ApiException, Errors
from kmirror.common.ports import Buffer, Clock
from kmirror.common.topic_partition import TopicIdPartition, TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.metadata.registrations import PartitionRegistration
from kmirror.replica.alter_partition import AlterPartitionManager
from kmirror.replica.follower_append import append_as_follower
from kmirror.replica.follower_session import FollowerSession
from kmirror.replica.replica import BrokersView, Replica
from kmirror.replica.replica_set import ReplicaSet
from kmirror.replica.replica_types import ReplicaConfig
from kmirror.storage.log_append_info import AppendOrigin, LogAppendInfo
from kmirror.storage.log_offset_metadata import LogOffsetMetadata
from kmirror.storage.producer_state_entry import VerificationGuard
from kmirror.storage.unified_log import UnifiedLog
from kmirror.wire.messages.alter_partition import AlterPartitionResponsePartitionData


class ReadOnlyReason(enum.Enum):
    """Why clients may not write."""

    MIRROR_TOPIC = "the topic is a mirror"
    MIRROR_STATE_UNKNOWN = "the state of the mirrored partition is not known yet"
    MIRROR_STOPPING = "the mirrored partition is about to become writable"

    @property
    def error(self) -> Errors:
        """What clients get: one that they retry, unless the answer will stay the same."""
        return Errors.READ_ONLY_TOPIC if self is ReadOnlyReason.MIRROR_TOPIC else Errors.NOT_LEADER_OR_FOLLOWER


class Partition:
    """Owns the role, epochs, replicas and read-only reason of one partition; `log` is None until it
    was made leader or follower.
    """

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: Uuid,
        config: ReplicaConfig,
        clock: Clock,
        *,
        on_progress: Callable[[TopicPartition], None],
        on_high_watermark: Callable[[TopicPartition, int], None],
        on_read_only: Callable[[TopicPartition], None],
        alter_partition_manager: AlterPartitionManager | None = None,
        brokers: BrokersView,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log: UnifiedLog | None = None
        self.leader_id: int | None = None
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.leader_epoch_start_offset: int | None = None
        self.has_mirror_name = False
        self.on_follower_change: Callable[[], None] | None = None
        """Called when a follower has fetched or the ISR has changed, if somebody waits for that
        (`mirror` in D4 and D5).
        """
        self._read_only_reason: ReadOnlyReason | None = None
        self._config = config
        self._clock = clock
        self._on_progress = on_progress
        self._on_high_watermark = on_high_watermark
        self._on_read_only = on_read_only
        self.replicas = ReplicaSet(
            TopicIdPartition(topic_id, topic_partition.topic, topic_partition.partition),
            config.broker_id,
            clock,
            brokers,
            alter_partition_manager,
            max_lag_ms=config.replica_lag_time_max_ms,
            on_isr_answer=self._on_isr_answer,
        )

    def __repr__(self) -> str:
        role = "leader" if self.is_leader else "follower"
        return f"Partition({self.topic_partition}, {role}, leader_epoch={self.leader_epoch}, isr={list(self.replicas.in_sync)})"

    # --- role
    # -------------------------------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        return self.leader_id == self._config.broker_id

    @property
    def local_log(self) -> UnifiedLog:
        """The log; ApiException NOT_LEADER_OR_FOLLOWER while there is none."""
        if self.log is None:
            raise ApiException(
                Errors.NOT_LEADER_OR_FOLLOWER,
                f"Log for partition {self.topic_partition} is not available on broker {self._config.broker_id}",
            )
        return self.log

    @property
    def leader_log(self) -> UnifiedLog:
        """The log, if this broker leads; ApiException NOT_LEADER_OR_FOLLOWER otherwise."""
        if not self.is_leader:
            raise ApiException(
                Errors.NOT_LEADER_OR_FOLLOWER,
                f"Leader not local for partition {self.topic_partition} on broker {self._config.broker_id}",
            )
        return self.local_log

    def readable_log(self, *, fetch_only_leader: bool) -> UnifiedLog:
        """The log for reading: only if this broker leads, or also if it follows."""
        return self.leader_log if fetch_only_leader else self.local_log

    def make_leader(self, registration: PartitionRegistration, log: UnifiedLog) -> bool:
        """Makes this broker the leader; True if it did not lead before."""
        if registration.partition_epoch < self.partition_epoch:
            return False
        is_new_leader = not self.is_leader
        is_new_leader_epoch = registration.leader_epoch > self.leader_epoch
        self.replicas.assign(registration)
        self.log = log
        if is_new_leader_epoch:
            self._start_leader_epoch(log, registration, is_new_leader=is_new_leader)
        self.partition_epoch = registration.partition_epoch
        self.leader_id = self._config.broker_id
        self._tell_log()
        if self._maybe_increment_leader_high_watermark(log):
            self._on_progress(self.topic_partition)
        return is_new_leader

    def make_follower(self, registration: PartitionRegistration, log: UnifiedLog) -> bool:
        """Follows `registration.leader`; True if the leader epoch is new, so that fetching starts
        again.
        """
        if registration.partition_epoch < self.partition_epoch:
            return False
        is_new_leader_epoch = registration.leader_epoch > self.leader_epoch
        self.replicas.assign(registration)
        self.replicas.forget_followers()
        self.log = log
        if is_new_leader_epoch:
            self.leader_epoch_start_offset = None
        self.leader_epoch = registration.leader_epoch
        self.partition_epoch = registration.partition_epoch
        self.leader_id = registration.leader if registration.has_leader else None
        self._tell_log()
        return is_new_leader_epoch

    def _start_leader_epoch(self, log: UnifiedLog, registration: PartitionRegistration, *, is_new_leader: bool) -> None:
        start_offset = log.log_end_offset
        if not self.has_mirror_name:
            log.maybe_assign_epoch_start_offset(registration.leader_epoch, start_offset)
        self.replicas.start_leader_epoch(start_offset, is_new_leader=is_new_leader)
        self.leader_epoch = registration.leader_epoch
        self.leader_epoch_start_offset = start_offset

    def check_current_leader_epoch(self, current_leader_epoch: int | None) -> None:
        """FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH when a request's epoch is not ours."""
        if current_leader_epoch is None or current_leader_epoch == self.leader_epoch:
            return
        error = Errors.FENCED_LEADER_EPOCH if current_leader_epoch < self.leader_epoch else Errors.UNKNOWN_LEADER_EPOCH
        raise ApiException(
            error,
            f"Failed to find leader log for partition {self.topic_partition} with leader epoch {current_leader_epoch}. "
            f"The current leader is {self.leader_id} and the current epoch {self.leader_epoch}",
        )

    # --- read only
    # --------------------------------------------------------------------------------------------------

    @property
    def is_read_only(self) -> bool:
        return self._read_only_reason is not None

    @property
    def read_only_reason(self) -> ReadOnlyReason | None:
        return self._read_only_reason

    def set_read_only(self, reason: ReadOnlyReason | None) -> None:
        """None makes the partition writable; becoming read-only fails the produces that wait."""
        became_read_only = reason is not None and self._read_only_reason is None
        self._read_only_reason = reason
        self._tell_log()
        if became_read_only:
            self.fail_pending_produces()

    def replace_log(self, log: UnifiedLog) -> None:
        """Goes on with the log that a move between log directories has made."""
        self.log = log
        self._tell_log()

    def _tell_log(self) -> None:
        if self.log is not None:
            self.log.note_writable(is_writable=self.is_leader and self._read_only_reason is None)

    def fail_pending_produces(self) -> None:
        """Produces that wait for the ISR answer NOT_LEADER_OR_FOLLOWER (D1: on becoming read-only
        and before each cut)."""
        self._on_read_only(self.topic_partition)

    def on_leader_log_cut(self) -> None:
        """The leader's own log was cut: its epoch now begins at the new end at the latest.
        Otherwise clients and followers would wait for offsets that are gone (ListOffsets
        OFFSET_NOT_AVAILABLE, no ISR expansion).
        """
        if self.leader_epoch_start_offset is not None:
            self.leader_epoch_start_offset = min(self.leader_epoch_start_offset, self.leader_log.log_end_offset)
        self._on_progress(self.topic_partition)

    def check_writable(self) -> None:
        """ApiException with the error of the read-only reason, if there is one."""
        if self._read_only_reason is not None:
            reason = self._read_only_reason
            raise ApiException(reason.error, f"Partition {self.topic_partition} is read-only: {reason.name}")

    # --- append
    # -----------------------------------------------------------------------------------------------------

    def append_records_to_leader(
        self,
        records: Buffer,
        *,
        origin: AppendOrigin,
        required_acks: int,
        verification_guard: VerificationGuard | None = None,
        transaction_version: int = 0,
    ) -> LogAppendInfo:
        """Append a batch of a client or a coordinator. The caller completes what waits for it."""
        log = self.leader_log
        if origin is AppendOrigin.CLIENT:
            self.check_writable()
        min_in_sync_replicas = self.effective_min_isr
        in_sync = len(self.replicas.in_sync)
        if required_acks == -1 and in_sync < min_in_sync_replicas:
            raise ApiException(
                Errors.NOT_ENOUGH_REPLICAS,
                f"The size of the current ISR : {in_sync} is insufficient to satisfy the min.isr requirement of "
                f"{min_in_sync_replicas} for partition {self.topic_partition}",
            )
        info = log.append_as_leader(
            records,
            leader_epoch=self.leader_epoch,
            origin=origin,
            verification_guard=verification_guard,
            transaction_version=transaction_version,
        )
        self._maybe_increment_leader_high_watermark(log)
        return info

    def append_records_to_follower(self, records: Buffer, *, leader_epoch: int) -> LogAppendInfo:
        """Append a leader's bytes unchanged. The caller then sets the high watermark."""
        return append_as_follower(self.local_log, records, leader_epoch=leader_epoch)

    def append_records_to_mirror_leader(self, records: Buffer, *, source_leader_epoch: int) -> LogAppendInfo:
        """Append a source cluster's bytes unchanged; our own ISR moves the high watermark.

        The caller notifies waiters once for all its appends (`complete_delayed_together`).
        """
        log = self.leader_log
        info = log.append_as_follower(records, leader_epoch=source_leader_epoch)
        self._maybe_increment_leader_high_watermark(log)
        return info

    # --- high watermark and ISR
    # -------------------------------------------------------------------------------------

    @property
    def effective_min_isr(self) -> int:
        """min.insync.replicas, or the number of replicas if that is smaller."""
        return min(self.local_log.config.min_in_sync_replicas, len(self.replicas.assigned))

    @property
    def assigned_replicas(self) -> tuple[int, ...]:
        return self.replicas.assigned

    @property
    def in_sync_replicas(self) -> tuple[int, ...]:
        return self.replicas.in_sync

    @property
    def is_under_min_isr(self) -> bool:
        return self.is_leader and len(self.replicas.in_sync) < self.effective_min_isr

    @property
    def is_at_min_isr(self) -> bool:
        return self.is_leader and len(self.replicas.in_sync) == self.effective_min_isr

    @property
    def is_reassigning(self) -> bool:
        """Whether this leader's replicas are being moved."""
        return self.is_leader and self.replicas.is_reassigning

    @property
    def is_under_replicated(self) -> bool:
        return self.is_leader and len(self.replicas.in_sync) < len(self.replicas.assigned)

    def check_enough_replicas_reach_offset(self, required_offset: int) -> tuple[bool, Errors]:
        """Whether a produce up to `required_offset` is done, and how it ended."""
        if not self.is_leader or self.log is None:
            return True, Errors.NOT_LEADER_OR_FOLLOWER
        if self.log.high_watermark < required_offset:
            return False, Errors.NONE
        enough = self.effective_min_isr <= len(self.replicas.maximal_isr)
        return True, Errors.NONE if enough else Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def follower_replica_or_raise(self, replica_id: int, current_leader_epoch: int | None) -> Replica:
        """Returns the follower; ApiException for one that is not assigned (it may know of a
        reassignment before us, and then has to retry: UNKNOWN_LEADER_EPOCH)."""
        replica = self.replicas.remote.get(replica_id)
        if replica is None:
            raise ApiException(
                Errors.NOT_LEADER_OR_FOLLOWER if current_leader_epoch is None else Errors.UNKNOWN_LEADER_EPOCH,
                f"Replica {replica_id} is not recognized to be one of the assigned replicas "
                f"{','.join(map(str, self.replicas.assigned))} for leader epoch {self.leader_epoch} with partition epoch {self.partition_epoch}",
            )
        return replica

    def update_follower_fetch_state(
        self,
        *,
        replica_id: int,
        fetch_offset: int,
        follower_log_start_offset: int,
        leader_log_end_offset: int,
        broker_epoch: int,
        current_leader_epoch: int | None = None,
        session: FollowerSession | None = None,
        fetch_offset_metadata: LogOffsetMetadata | None = None,
    ) -> None:
        """A follower fetched: it has everything before the fetch offset, so the ISR and watermarks
        may move.

        `fetch_offset_metadata`: where the read found the fetch offset, so that a watermark that
        moves there need not be looked up.

        ApiException for a follower that is not assigned, and for a fetch from an earlier
        incarnation of the broker.
        """
        replica = self.follower_replica_or_raise(replica_id, current_leader_epoch)
        self.replicas.check_broker_epoch(replica_id, broker_epoch)
        previous_log_end_offset = replica.log_end_offset
        previous_log_start_offset = replica.log_start_offset
        replica.update_fetch_state(
            fetch_offset=fetch_offset,
            follower_log_start_offset=follower_log_start_offset,
            leader_log_end_offset=leader_log_end_offset,
            now_ms=self._clock.monotonic_ms(),
            broker_epoch=broker_epoch,
            session=session,
        )
        self._maybe_expand_isr(replica)
        moved = previous_log_end_offset != replica.log_end_offset and self._maybe_increment_leader_high_watermark(
            self.leader_log, fetch_offset_metadata
        )
        if moved or previous_log_start_offset != replica.log_start_offset:
            self._on_progress(self.topic_partition)
        if self.on_follower_change is not None:
            self.on_follower_change()

    def _maybe_increment_leader_high_watermark(self, log: UnifiedLog, known: LogOffsetMetadata | None = None) -> bool:
        if len(self.replicas.in_sync) < self.effective_min_isr:
            return False
        new_high_watermark = log.log_end_offset_metadata
        smallest = self.replicas.smallest_awaited_offset(new_high_watermark.message_offset)
        if smallest < new_high_watermark.message_offset:
            if smallest <= log.high_watermark:
                return False
            if known is None or known.message_offset != smallest or known.message_offset_only:
                known = log.maybe_convert_to_offset_metadata(smallest)
            new_high_watermark = known
        previous = log.maybe_increment_high_watermark(new_high_watermark)
        if previous is None or previous.message_offset == new_high_watermark.message_offset:
            return False
        self._on_high_watermark(self.topic_partition, new_high_watermark.message_offset)
        return True

    def _maybe_expand_isr(self, replica: Replica) -> None:
        if not self.replicas.may_propose or replica.broker_id in self.replicas.in_sync:
            return
        log, start_offset = self.leader_log, self.leader_epoch_start_offset
        if start_offset is not None:
            joins_from = max(log.high_watermark, start_offset)
            self.replicas.maybe_expand_isr(replica, joins_from, leader_epoch=self.leader_epoch, partition_epoch=self.partition_epoch)

    def maybe_shrink_isr(self) -> None:
        """Drop followers that lag for too long; called every half replica.lag.time.max.ms."""
        if self.is_leader and self.replicas.may_propose:
            log_end_offset = self.local_log.log_end_offset
            self.replicas.maybe_shrink_isr(log_end_offset, leader_epoch=self.leader_epoch, partition_epoch=self.partition_epoch)

    def _on_isr_answer(self, answer: AlterPartitionResponsePartitionData) -> None:
        if answer.leader_epoch != self.leader_epoch or answer.partition_epoch < self.partition_epoch:
            return
        self.replicas.set_isr(tuple(answer.isr))
        self.partition_epoch = answer.partition_epoch
        if self.log is not None:
            self._maybe_increment_leader_high_watermark(self.log)
        self._on_progress(self.topic_partition)
        if self.on_follower_change is not None:
            self.on_follower_change()

    def low_watermark(self) -> int:
        """The smallest log start offset of all live replicas (what DeleteRecords waits for)."""
        return self.replicas.low_watermark(self.leader_log.log_start_offset)
