"""The replicas of one partition as its leader sees them: assignment, followers, and ISR.

Kafka keeps this in `Partition` (`remoteReplicasMap`, `AssignmentState`, `PartitionState`).

* A proposed ISR stays *pending* until the controller says that it was not applied
  (INELIGIBLE_REPLICA, OPERATION_NOT_ATTEMPTED), until it says what it decided, or until newer
  metadata comes. After any other error nobody here knows whether it was applied, so the larger ISR
  goes on holding the high watermark back (`maximal_isr`).
* A follower may join when its log end offset has reached the high watermark and the start of the
  leader epoch, and the metadata allow it. One that has been behind for longer than
  replica.lag.time.max.ms is dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kmirror.common.errors import ApiException, Errors
from kmirror.common.ports import Clock
from kmirror.common.topic_partition import TopicIdPartition
from kmirror.metadata.registrations import PartitionRegistration
from kmirror.replica.alter_partition import AWAIT_METADATA, NOT_APPLIED, AlterPartitionItem, AlterPartitionManager
from kmirror.replica.follower_session import FollowerSession
from kmirror.replica.replica import BrokersView, Replica
from kmirror.wire.messages.alter_partition import AlterPartitionResponsePartitionData

_log = logging.getLogger(__name__)


class ReplicaSet:
    """Owns the assignment, the ISR, the pending proposal and the followers' states. `assigned` and
    `in_sync` are broker ids; `remote` has what is known about each follower.

    On a follower `remote` and `in_sync` are empty. Without an `alter_partition_manager` the ISR
    changes by metadata only. `on_isr_answer` is called with what the controller decided.
    """

    def __init__(
        self,
        topic: TopicIdPartition,
        broker_id: int,
        clock: Clock,
        brokers: BrokersView,
        alter_partition_manager: AlterPartitionManager | None,
        *,
        max_lag_ms: int,
        on_isr_answer: Callable[[AlterPartitionResponsePartitionData], None],
    ) -> None:
        self.assigned: tuple[int, ...] = ()
        self.in_sync: tuple[int, ...] = ()
        self.remote: dict[int, Replica] = {}
        self.pending_isr: AlterPartitionItem | None = None
        self._topic = topic
        self._broker_id = broker_id
        self._clock = clock
        self._brokers = brokers
        self._alter_partition_manager = alter_partition_manager
        self._max_lag_ms = max_lag_ms
        self._on_isr_answer = on_isr_answer
        self._registration: PartitionRegistration | None = None

    # --- assignment
    # -------------------------------------------------------------------------------------------------

    def assign(self, registration: PartitionRegistration) -> None:
        """Takes the assignment from metadata; an earlier proposal no longer counts."""
        self.assigned = registration.replicas
        self.in_sync = registration.isr
        self.pending_isr = None
        self._registration = registration
        others = [replica for replica in registration.replicas if replica != self._broker_id]
        self.remote = {broker_id: self.remote.get(broker_id) or Replica(broker_id) for broker_id in others}

    def forget_followers(self) -> None:
        """Forgets the followers, since this broker is a follower now and knows nothing about the
        others.
        """
        self.remote.clear()
        self.in_sync = ()

    def start_leader_epoch(self, log_end_offset: int, *, is_new_leader: bool) -> None:
        """Resets what was known about the followers' logs, which no longer holds."""
        now_ms = self._clock.monotonic_ms()
        for replica in self.remote.values():
            replica.reset(
                leader_log_end_offset=log_end_offset,
                now_ms=now_ms,
                is_new_leader=is_new_leader,
                is_follower_in_sync=replica.broker_id in self.in_sync,
            )

    def is_adding(self, broker_id: int) -> bool:
        """Whether a reassignment brings the partition to this broker."""
        return self._registration is not None and broker_id in self._registration.adding_replicas

    @property
    def is_reassigning(self) -> bool:
        """Whether the replicas are being moved."""
        registration = self._registration
        return registration is not None and bool(registration.adding_replicas or registration.removing_replicas)

    # --- what followers have
    # ----------------------------------------------------------------------------------------

    def smallest_awaited_offset(self, log_end_offset: int) -> int:
        """The offset up to which the maximal ISR, and followers about to join it, have the log."""
        smallest = log_end_offset
        maximal_isr = self.maximal_isr
        now_ms = self._clock.monotonic_ms()
        for replica in self.remote.values():
            if replica.log_end_offset >= smallest:
                continue
            about_to_join = replica.is_caught_up(
                leader_log_end_offset=log_end_offset, now_ms=now_ms, max_lag_ms=self._max_lag_ms
            ) and self._is_eligible(replica)
            if replica.broker_id in maximal_isr or about_to_join:
                smallest = replica.log_end_offset
        return smallest

    def check_broker_epoch(self, broker_id: int, broker_epoch: int) -> None:
        """ApiException for a fetch from an earlier incarnation of the broker (-1: not told)."""
        registered_epoch = self._brokers.alive_broker_epoch(broker_id)
        if broker_epoch != -1 and registered_epoch is not None and registered_epoch > broker_epoch:
            raise ApiException(
                Errors.NOT_LEADER_OR_FOLLOWER,
                f"Received stale fetch state update. broker epoch={broker_epoch} vs expected={registered_epoch}",
            )

    def low_watermark(self, log_start_offset: int) -> int:
        """The smallest log start offset of all live replicas; `log_start_offset` is the leader's."""
        replicas = self.remote.values()
        starts = [replica.log_start_offset for replica in replicas if self._brokers.alive_broker_epoch(replica.broker_id) is not None]
        return min([log_start_offset, *starts])

    def is_settled(self, broker_id: int, fetch_offset: int, log_end_offset: int, session: FollowerSession) -> bool:
        """Whether a follower has everything, is in the ISR, and this session found it so."""
        replica = self.remote.get(broker_id)
        return (
            replica is not None
            and replica.session is session
            and broker_id in self.in_sync
            and fetch_offset == replica.log_end_offset == log_end_offset
        )

    def end_session(self, broker_id: int, session: FollowerSession) -> None:
        """The follower's session no longer fetches this partition."""
        replica = self.remote.get(broker_id)
        if replica is not None and replica.session is session:
            replica.end_session()

    def _is_eligible(self, replica: Replica) -> bool:
        assert self._registration is not None, "replicas come with a registration"
        directory_id = self._registration.directory(replica.broker_id)
        return self._brokers.is_replica_eligible(replica.broker_id, replica.broker_epoch, directory_id)

    # --- changes of the ISR
    # -----------------------------------------------------------------------------------------

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The ISR, and what may be in it if an AlterPartition in flight succeeds."""
        if self.pending_isr is None:
            return self.in_sync
        return (*self.in_sync, *(replica for replica in self.pending_isr.members if replica not in self.in_sync))

    def maybe_expand_isr(self, replica: Replica, joins_from: int, *, leader_epoch: int, partition_epoch: int) -> None:
        """Propose the follower if it has the log up to `joins_from`."""
        if replica.log_end_offset >= joins_from and self._is_eligible(replica):
            self._propose((*self.in_sync, replica.broker_id), leader_epoch, partition_epoch)

    def maybe_shrink_isr(self, log_end_offset: int, *, leader_epoch: int, partition_epoch: int) -> None:
        """Propose the ISR without those who have been behind for too long."""
        now_ms = self._clock.monotonic_ms()
        lagging = [
            replica.broker_id
            for replica in self.remote.values()
            if replica.broker_id in self.in_sync
            and not replica.is_caught_up(leader_log_end_offset=log_end_offset, now_ms=now_ms, max_lag_ms=self._max_lag_ms)
        ]
        if lagging:
            self._propose(tuple(replica for replica in self.in_sync if replica not in lagging), leader_epoch, partition_epoch)

    @property
    def may_propose(self) -> bool:
        """Whether a proposal may be made: there is one at a time."""
        return self.pending_isr is None and self._alter_partition_manager is not None

    def _propose(self, isr: tuple[int, ...], leader_epoch: int, partition_epoch: int) -> None:
        manager = self._alter_partition_manager
        assert manager is not None
        epochs = {replica.broker_id: replica.broker_epoch for replica in self.remote.values()}
        epochs[self._broker_id] = manager.broker_epoch
        self.pending_isr = AlterPartitionItem(
            self._topic.topic_id,
            self._topic.partition,
            leader_epoch,
            partition_epoch,
            tuple((member, epochs.get(member, -1)) for member in isr),
            self._on_answer,
            is_expansion=len(isr) > len(self.in_sync),
        )
        manager.submit(self.pending_isr)

    def _on_answer(self, item: AlterPartitionItem, error: Errors, answer: AlterPartitionResponsePartitionData | None) -> None:
        if self.pending_isr is not item:
            return  # metadata was here before the answer
        if answer is not None:
            self._on_isr_answer(answer)
        elif error in NOT_APPLIED:
            _log.info("The ISR of %s stays %s: %s", self._topic.topic_partition, list(self.in_sync), error.name)
            self.pending_isr = None
        elif error not in AWAIT_METADATA and self._alter_partition_manager is not None:
            reason = f"Failed to change the ISR of {self._topic.topic_partition} ({error.name}); trying again"
            self._alter_partition_manager.submit_again(item, reason)

    def set_isr(self, isr: tuple[int, ...]) -> None:
        """What the controller decided about our proposal."""
        self.pending_isr = None
        self.in_sync = isr
