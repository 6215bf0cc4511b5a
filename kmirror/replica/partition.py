"""One partition as this broker sees it: role, epochs, ISR, high watermark, and whether clients may write.

Who changes what. `ReplicaManager.apply_delta` makes it leader or follower (epochs and assignment come from the metadata
image); appends and fetches move the log and with it the high watermark; `mirror` sets the read-only reason and the mirror
leader epoch. All of it on the loop, so every check and its use are one step.

The rules that matter:

* A change with an older partition epoch than the one known is skipped; a new *leader epoch* (not a new partition epoch)
  starts a leader's epoch: the epoch cache gets an entry at the log end, followers' states are reset. A partition whose
  topic has a `mirror.name` gets no such entry: there, entries come only with batches (an empty entry of a local epoch
  would stand between the epochs of the source and truncate wrongly; D5 of the KIP decisions).
* The high watermark of a leader is the smallest log end offset of the *maximal* ISR (what is in it, or may be by an
  AlterPartition in flight), and of replicas that are about to join; never lower than before, and not under min.insync.replicas.
* A proposed ISR stays *pending* until the controller says that it was not applied (INELIGIBLE_REPLICA,
  OPERATION_NOT_ATTEMPTED), until it says what it decided, or until newer metadata comes. After any other error nobody here
  knows whether it was applied, so the larger ISR goes on holding the high watermark back.
* Read-only. A partition that mirrors another cluster refuses appends of clients with READ_ONLY_TOPIC, or with the
  retriable NOT_LEADER_OR_FOLLOWER as long as its mirror state is not known. Appends of the coordinator and of
  replication pass. Becoming read-only fails what waits for the ISR: the log is about to be rewritten, and a waiting
  produce would otherwise be acknowledged when other records pass its offset.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from kmirror.common.errors import ApiException, Errors
from kmirror.common.ports import Buffer, Clock
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.metadata.registrations import PartitionRegistration
from kmirror.replica.alter_partition import AWAIT_METADATA, NOT_APPLIED, AlterPartitionItem
from kmirror.replica.follower_append import append_as_follower
from kmirror.replica.replica import BrokersView, Replica
from kmirror.replica.replica_types import ReplicaConfig
from kmirror.storage.log_append_info import AppendOrigin, LogAppendInfo
from kmirror.storage.log_offset_metadata import LogOffsetMetadata
from kmirror.storage.producer_state_entry import VerificationGuard
from kmirror.storage.unified_log import UnifiedLog

if TYPE_CHECKING:
    from kmirror.replica.alter_partition import AlterPartitionManager
    from kmirror.replica.follower_session import FollowerSession
    from kmirror.wire.messages.alter_partition import AlterPartitionResponsePartitionData

_log = logging.getLogger(__name__)


class ReadOnlyReason(enum.Enum):
    """Why clients may not write, and the error that tells them."""

    MIRROR_TOPIC = Errors.READ_ONLY_TOPIC
    MIRROR_STATE_UNKNOWN = Errors.NOT_LEADER_OR_FOLLOWER


class Partition:
    """Leader or follower of one partition. `log` is None until the first make_leader / make_follower."""

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
        self.assigned_replicas: tuple[int, ...] = ()
        self.in_sync_replicas: tuple[int, ...] = ()
        self.has_mirror_name = False
        self.remote_replicas: dict[int, Replica] = {}
        self.on_follower_change: Callable[[], None] | None = None
        """Called when a follower has fetched or the ISR has changed, while somebody waits for that (`mirror` in D4 and D5)."""
        self._registration: PartitionRegistration | None = None
        self._read_only_reason: ReadOnlyReason | None = None
        self._pending_isr: AlterPartitionItem | None = None
        self._config = config
        self._clock = clock
        self._on_progress = on_progress
        self._on_high_watermark = on_high_watermark
        self._on_read_only = on_read_only
        self._alter_partition_manager = alter_partition_manager
        self._brokers = brokers

    def __repr__(self) -> str:
        role = "leader" if self.is_leader else "follower"
        return f"Partition({self.topic_partition}, {role}, leader_epoch={self.leader_epoch}, isr={list(self.in_sync_replicas)})"

    # --- role -------------------------------------------------------------------------------------------------------

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
        """The log of a partition that this broker leads; ApiException NOT_LEADER_OR_FOLLOWER otherwise."""
        if not self.is_leader:
            raise ApiException(
                Errors.NOT_LEADER_OR_FOLLOWER,
                f"Leader not local for partition {self.topic_partition} on broker {self._config.broker_id}",
            )
        return self.local_log

    def readable_log(self, *, fetch_only_leader: bool) -> UnifiedLog:
        """The log for reading: of the leader alone, or also of a follower."""
        return self.leader_log if fetch_only_leader else self.local_log

    def make_leader(self, registration: PartitionRegistration, log: UnifiedLog) -> bool:
        """Lead from `registration` on; True when this broker did not lead before."""
        if registration.partition_epoch < self.partition_epoch:
            return False
        is_new_leader = not self.is_leader
        is_new_leader_epoch = registration.leader_epoch > self.leader_epoch
        self._update_assignment(registration)
        self.log = log
        if is_new_leader_epoch:
            self._start_leader_epoch(log, registration, is_new_leader=is_new_leader)
        self.partition_epoch = registration.partition_epoch
        self.leader_id = self._config.broker_id
        if self._maybe_increment_leader_high_watermark(log):
            self._on_progress(self.topic_partition)
        return is_new_leader

    def make_follower(self, registration: PartitionRegistration, log: UnifiedLog) -> bool:
        """Follow `registration.leader`; True when the leader epoch is new, so that fetching has to start anew."""
        if registration.partition_epoch < self.partition_epoch:
            return False
        is_new_leader_epoch = registration.leader_epoch > self.leader_epoch
        self._update_assignment(registration)
        self.remote_replicas.clear()
        self.in_sync_replicas = ()
        self.log = log
        if is_new_leader_epoch:
            self.leader_epoch_start_offset = None
        self.leader_epoch = registration.leader_epoch
        self.partition_epoch = registration.partition_epoch
        self.leader_id = registration.leader if registration.has_leader else None
        return is_new_leader_epoch

    def _update_assignment(self, registration: PartitionRegistration) -> None:
        self.assigned_replicas = registration.replicas
        self.in_sync_replicas = registration.isr
        self._pending_isr = None
        self._registration = registration
        others = [replica for replica in registration.replicas if replica != self._config.broker_id]
        self.remote_replicas = {broker_id: self.remote_replicas.get(broker_id) or Replica(broker_id) for broker_id in others}

    def _start_leader_epoch(self, log: UnifiedLog, registration: PartitionRegistration, *, is_new_leader: bool) -> None:
        start_offset = log.log_end_offset
        if not self.has_mirror_name:
            log.maybe_assign_epoch_start_offset(registration.leader_epoch, start_offset)
        now_ms = self._clock.monotonic_ms()
        for replica in self.remote_replicas.values():
            replica.reset(
                leader_log_end_offset=start_offset,
                now_ms=now_ms,
                is_new_leader=is_new_leader,
                is_follower_in_sync=replica.broker_id in registration.isr,
            )
        self.leader_epoch = registration.leader_epoch
        self.leader_epoch_start_offset = start_offset

    def check_current_leader_epoch(self, current_leader_epoch: int | None) -> None:
        """ApiException FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH when a request's epoch is not ours."""
        if current_leader_epoch is None or current_leader_epoch == self.leader_epoch:
            return
        error = Errors.FENCED_LEADER_EPOCH if current_leader_epoch < self.leader_epoch else Errors.UNKNOWN_LEADER_EPOCH
        raise ApiException(
            error,
            f"Failed to find leader log for partition {self.topic_partition} with leader epoch {current_leader_epoch}. "
            f"The current leader is {self.leader_id} and the current epoch {self.leader_epoch}",
        )

    # --- read only --------------------------------------------------------------------------------------------------

    @property
    def is_read_only(self) -> bool:
        return self._read_only_reason is not None

    @property
    def read_only_reason(self) -> ReadOnlyReason | None:
        return self._read_only_reason

    def set_read_only(self, reason: ReadOnlyReason | None) -> None:
        """Called by `mirror`. None makes the partition writable; becoming read-only fails the produces that wait."""
        became_read_only = reason is not None and self._read_only_reason is None
        self._read_only_reason = reason
        if became_read_only:
            self.fail_pending_produces()

    def fail_pending_produces(self) -> None:
        """Produces that wait for the ISR answer NOT_LEADER_OR_FOLLOWER (D1: on becoming read-only and before each cut)."""
        self._on_read_only(self.topic_partition)

    def on_leader_log_cut(self) -> None:
        """The leader's own log was cut: its epoch begins at the new end at the latest, or clients and followers would wait for the
        offsets that are gone (ListOffsets OFFSET_NOT_AVAILABLE, no ISR expansion)."""
        if self.leader_epoch_start_offset is not None:
            self.leader_epoch_start_offset = min(self.leader_epoch_start_offset, self.leader_log.log_end_offset)
        self._on_progress(self.topic_partition)

    def check_writable(self) -> None:
        """ApiException with the error of the read-only reason, if there is one."""
        if self._read_only_reason is not None:
            error: Errors = self._read_only_reason.value
            raise ApiException(error, f"Partition {self.topic_partition} is read-only: {self._read_only_reason.name}")

    # --- append -----------------------------------------------------------------------------------------------------

    def append_records_to_leader(
        self,
        records: Buffer,
        *,
        origin: AppendOrigin,
        required_acks: int,
        verification_guard: VerificationGuard | None = None,
        transaction_version: int = 0,
    ) -> LogAppendInfo:
        """Append a batch of a client or a coordinator; ApiException otherwise. The caller then completes what waits for it."""
        log = self.leader_log
        if origin is AppendOrigin.CLIENT:
            self.check_writable()
        min_in_sync_replicas = self.effective_min_isr
        in_sync = len(self.in_sync_replicas)
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
        """Append a source cluster's bytes unchanged, as the leader of a mirror partition; our own ISR moves the high watermark.

        Whoever waits for the log is told by the caller (`ReplicaManager.complete_delayed_together`), once for all that it appends."""
        log = self.leader_log
        info = log.append_as_follower(records, leader_epoch=source_leader_epoch)
        self._maybe_increment_leader_high_watermark(log)
        return info

    # --- high watermark and ISR -------------------------------------------------------------------------------------

    @property
    def effective_min_isr(self) -> int:
        """min.insync.replicas, or the number of replicas where that is smaller."""
        return min(self.local_log.config.min_in_sync_replicas, len(self.assigned_replicas))

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The ISR, and what may be in it if an AlterPartition in flight succeeds."""
        if self._pending_isr is None:
            return self.in_sync_replicas
        return (*self.in_sync_replicas, *(replica for replica in self._pending_isr.members if replica not in self.in_sync_replicas))

    @property
    def is_under_min_isr(self) -> bool:
        return self.is_leader and len(self.in_sync_replicas) < self.effective_min_isr

    @property
    def is_at_min_isr(self) -> bool:
        return self.is_leader and len(self.in_sync_replicas) == self.effective_min_isr

    def is_adding_replica(self, broker_id: int) -> bool:
        """Whether a reassignment brings the partition to this broker."""
        return self._registration is not None and broker_id in self._registration.adding_replicas

    @property
    def is_reassigning(self) -> bool:
        """Whether this leader's replicas are being moved."""
        registration = self._registration
        return self.is_leader and registration is not None and bool(registration.adding_replicas or registration.removing_replicas)

    @property
    def is_under_replicated(self) -> bool:
        return self.is_leader and len(self.in_sync_replicas) < len(self.assigned_replicas)

    def check_enough_replicas_reach_offset(self, required_offset: int) -> tuple[bool, Errors]:
        """Whether a produce up to `required_offset` is done, and how it ended."""
        if not self.is_leader or self.log is None:
            return True, Errors.NOT_LEADER_OR_FOLLOWER
        if self.log.high_watermark < required_offset:
            return False, Errors.NONE
        enough = self.effective_min_isr <= len(self.maximal_isr)
        return True, Errors.NONE if enough else Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND

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
        """A follower fetched: what it has is known now, so the ISR may grow and the watermarks move.

        `fetch_offset_metadata`: where the read found the fetch offset, so that a watermark that moves there need not be looked up.

        ApiException for a follower that is not assigned (it may know of a reassignment before us: then it shall try again, with
        UNKNOWN_LEADER_EPOCH) and for a fetch of an incarnation of the broker that is gone.
        """
        replica = self.remote_replicas.get(replica_id)
        if replica is None:
            raise ApiException(
                Errors.NOT_LEADER_OR_FOLLOWER if current_leader_epoch is None else Errors.UNKNOWN_LEADER_EPOCH,
                f"Replica {replica_id} is not recognized to be one of the assigned replicas "
                f"{','.join(map(str, self.assigned_replicas))} for leader epoch {self.leader_epoch} with partition epoch {self.partition_epoch}",
            )
        registered_epoch = self._brokers.alive_broker_epoch(replica_id)
        if broker_epoch != -1 and registered_epoch is not None and registered_epoch > broker_epoch:
            raise ApiException(
                Errors.NOT_LEADER_OR_FOLLOWER,
                f"Received stale fetch state update. broker epoch={broker_epoch} vs expected={registered_epoch}",
            )
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
        if len(self.in_sync_replicas) < self.effective_min_isr:
            return False
        new_high_watermark = log.log_end_offset_metadata
        smallest = self._smallest_awaited_offset(new_high_watermark.message_offset)
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

    def _smallest_awaited_offset(self, log_end_offset: int) -> int:
        smallest = log_end_offset
        maximal_isr = self.maximal_isr
        now_ms = self._clock.monotonic_ms()
        for replica in self.remote_replicas.values():
            if replica.log_end_offset >= smallest:
                continue
            about_to_join = replica.is_caught_up(
                leader_log_end_offset=log_end_offset, now_ms=now_ms, max_lag_ms=self._config.replica_lag_time_max_ms
            ) and self._is_eligible(replica)
            if replica.broker_id in maximal_isr or about_to_join:
                smallest = replica.log_end_offset
        return smallest

    def _is_eligible(self, replica: Replica) -> bool:
        assert self._registration is not None, "replicas come with a registration"
        directory_id = self._registration.directory(replica.broker_id)
        return self._brokers.is_replica_eligible(replica.broker_id, replica.broker_epoch, directory_id)

    def _maybe_expand_isr(self, replica: Replica) -> None:
        if self._pending_isr is not None or replica.broker_id in self.in_sync_replicas or self._alter_partition_manager is None:
            return
        log = self.leader_log
        start_offset = self.leader_epoch_start_offset
        caught_up = start_offset is not None and replica.log_end_offset >= max(log.high_watermark, start_offset)
        if caught_up and self._is_eligible(replica):
            self._submit_isr((*self.in_sync_replicas, replica.broker_id))

    def maybe_shrink_isr(self) -> None:
        """Drop followers that have been behind for longer than replica.lag.time.max.ms (called every half of it)."""
        if not self.is_leader or self._pending_isr is not None or self._alter_partition_manager is None:
            return
        now_ms = self._clock.monotonic_ms()
        log_end_offset = self.local_log.log_end_offset
        lagging = [
            replica.broker_id
            for replica in self.remote_replicas.values()
            if replica.broker_id in self.in_sync_replicas
            and not replica.is_caught_up(
                leader_log_end_offset=log_end_offset, now_ms=now_ms, max_lag_ms=self._config.replica_lag_time_max_ms
            )
        ]
        if lagging:
            self._submit_isr(tuple(replica for replica in self.in_sync_replicas if replica not in lagging))

    def _submit_isr(self, isr: tuple[int, ...]) -> None:
        manager = self._alter_partition_manager
        assert manager is not None
        epochs = {replica.broker_id: replica.broker_epoch for replica in self.remote_replicas.values()}
        epochs[self._config.broker_id] = manager.broker_epoch
        self._pending_isr = AlterPartitionItem(
            self.topic_id,
            self.topic_partition.partition,
            self.leader_epoch,
            self.partition_epoch,
            tuple((member, epochs.get(member, -1)) for member in isr),
            self._on_alter_partition_answer,
            is_expansion=len(isr) > len(self.in_sync_replicas),
        )
        manager.submit(self._pending_isr)

    def _on_alter_partition_answer(
        self, item: AlterPartitionItem, error: Errors, answer: AlterPartitionResponsePartitionData | None
    ) -> None:
        if self._pending_isr is not item:
            return  # metadata was here before the answer
        if answer is not None:
            self._complete_isr_change(answer)
        elif error in NOT_APPLIED:
            _log.info("The ISR of %s stays %s: %s", self.topic_partition, list(self.in_sync_replicas), error.name)
            self._pending_isr = None
        elif error not in AWAIT_METADATA and self._alter_partition_manager is not None:
            _log.warning("Failed to change the ISR of %s (%s); trying again", self.topic_partition, error.name)
            self._alter_partition_manager.submit(item)

    def _complete_isr_change(self, answer: AlterPartitionResponsePartitionData) -> None:
        if answer.leader_epoch != self.leader_epoch or answer.partition_epoch < self.partition_epoch:
            return
        self._pending_isr = None
        self.in_sync_replicas = tuple(answer.isr)
        self.partition_epoch = answer.partition_epoch
        if self.log is not None:
            self._maybe_increment_leader_high_watermark(self.log)
        self._on_progress(self.topic_partition)
        if self.on_follower_change is not None:
            self.on_follower_change()

    def end_session(self, replica_id: int, session: FollowerSession) -> None:
        """The follower's session fetches this partition no more."""
        replica = self.remote_replicas.get(replica_id)
        if replica is not None and replica.session is session:
            replica.end_session()

    def is_settled(self, replica_id: int, fetch_offset: int, session: FollowerSession) -> bool:
        """Whether a follower has all there is, is in the ISR, and was found so by this session."""
        replica = self.remote_replicas.get(replica_id)
        return (
            replica is not None
            and replica.session is session
            and replica_id in self.in_sync_replicas
            and self.log is not None
            and fetch_offset == replica.log_end_offset == self.log.log_end_offset
        )

    def low_watermark(self) -> int:
        """The smallest log start offset of all live replicas (what DeleteRecords waits for)."""
        replicas = self.remote_replicas.values()
        starts = [replica.log_start_offset for replica in replicas if self._brokers.alive_broker_epoch(replica.broker_id) is not None]
        return min([self.leader_log.log_start_offset, *starts])
