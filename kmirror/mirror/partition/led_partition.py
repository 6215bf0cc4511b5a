"""The local side of a mirrored partition that this broker leads: its log, its followers, its leader
epoch, its topic's settings.

PREPARING and STOPPING work on it. It knows nothing of states. It owns one fact: whether a bump of
the leader epoch is owed. After a cut of the leader's log the epoch has to be bumped before anything
is appended; otherwise a slow follower keeps its own batches beside the source's in one epoch (F1).
`note_cut` sets this, and only a completed bump clears it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kmirror.metadata.mirror_names import association_of, is_unclean_election_supported, max_truncation_records
from kmirror.mirror.coordination.mirror_partition_id import MirrorPartitionId
from kmirror.mirror.mirror_state_machine import MirrorPartitionState, WantedState, wanted_state
from kmirror.mirror.partition.leader_epoch_bumper import EpochBump
from kmirror.mirror.partition.mirror_services import MirrorServices
from kmirror.mirror.partition.partition_wait import PartitionWait
from kmirror.mirror.source.mirror import Mirror
from kmirror.replica.partition import Partition, ReadOnlyReason
from kmirror.storage.log_append_info import AppendOrigin
from kmirror.storage.unified_log import UnifiedLog

T = TypeVar("T")


class LedPartition:
    """One for each mirrored partition that this broker leads."""

    __slots__ = ("_services", "_wait", "id", "is_bump_owed", "is_bumping", "partition")

    def __init__(self, services: MirrorServices, partition_id: MirrorPartitionId, partition: Partition) -> None:
        self.id = partition_id
        self.partition = partition
        self.is_bump_owed = False
        """Whether the leader's log was cut in the current leader epoch, so that nothing may be
        appended in it any more.
        """
        self.is_bumping = False
        """Whether our own bump is under way, which explains a new leader epoch."""
        self._services = services
        self._wait = PartitionWait(services.runtime, partition, timeout_ms=services.config.mirror_truncation_backoff_ms)

    @property
    def log(self) -> UnifiedLog:
        return self.partition.leader_log

    @property
    def mirror(self) -> Mirror:
        return self._services.mirror(self.id.mirror_name)

    # --- the topic's settings
    # -----------------------------------------------------------------------------------------

    @property
    def wanted(self) -> WantedState:
        """What `mirror.name` asks for."""
        association = association_of(self._services.image().configs.topic(self.id.topic))
        if association is not None and association.mirror_name != self.id.mirror_name:
            return WantedState.NOT_MIRRORED
        return wanted_state(association)

    @property
    def unclean_supported(self) -> bool:
        """mirror.support.unclean.leader.election of the topic."""
        return is_unclean_election_supported(self._services.image().configs.topic(self.id.topic))

    def max_truncation_records(self, *, is_added: bool) -> int:
        """mirror.max.truncation.records of the topic, or of its mirror.

        `is_added`: the topic is being added.
        """
        return max_truncation_records(self._services.image().configs.topic(self.id.topic), self.mirror.configs, is_added=is_added)

    # --- the log
    # ------------------------------------------------------------------------------------------------------

    def cleaned_until(self) -> int:
        """The offset up to which our own cleaner has been through the log."""
        return self._services.replica_manager.log_manager.cleaned_until(self.log)

    async def run_blocking(self, work: Callable[[], T]) -> T:
        """Runs a scan of the log on a worker, since it may take long."""
        return await self._services.runtime.run_blocking(work)

    def append_as_coordinator(self, batch: bytearray) -> int:
        """Appends a batch of our own in this leader epoch. Returns its offset without waiting for
        followers.
        """
        offset = self.log.log_end_offset
        self.partition.append_records_to_leader(batch, origin=AppendOrigin.COORDINATOR, required_acks=1)
        self._services.replica_manager.complete_delayed(self.id.topic_partition)
        return offset

    def apply_read_only(self, state: MirrorPartitionState) -> None:
        """Makes the partition writable only in STOPPED (D1). Until the state is known, and while
        the partition is on its way to STOPPED, Produce gets a retriable error (C38).
        """
        self.partition.set_read_only(self._read_only_reason(state) if self._services.safeguards.read_only_enforced else None)

    def _read_only_reason(self, state: MirrorPartitionState) -> ReadOnlyReason | None:
        if state is MirrorPartitionState.UNKNOWN:
            return ReadOnlyReason.MIRROR_STATE_UNKNOWN
        if not state.read_only:
            return None
        is_stopping = state is MirrorPartitionState.STOPPING or self.wanted is WantedState.STOP
        return ReadOnlyReason.MIRROR_STOPPING if is_stopping else ReadOnlyReason.MIRROR_TOPIC

    # --- the followers
    # ------------------------------------------------------------------------------------------------

    async def wait_until(self, problem: Callable[[], str | None]) -> None:
        """Waits until `problem()` is None; NotYetError with its text after
        mirror.truncation.backoff.ms.
        """
        await self._wait.until(problem)

    def on_metadata_update(self) -> None:
        """The leader epoch or the ISR may have changed: whoever waits looks again."""
        self._wait.notify()

    # --- the leader epoch
    # ---------------------------------------------------------------------------------------------

    def note_cut(self) -> None:
        """Notes that the leader's log was cut: a bump is owed before anything is appended (D5 step
        4).
        """
        self.is_bump_owed = self._services.safeguards.bump_after_cut

    async def bump(self, min_leader_epoch: int) -> None:
        """Have the controller raise the leader epoch above `min_leader_epoch`, and wait until this
        broker leads in it.
        """
        self.is_bumping = True
        try:
            await self._request_bump(min_leader_epoch)
            await self.wait_until(lambda: self._bump_problem(min_leader_epoch))
        finally:
            self.is_bumping = False
        self.is_bump_owed = False

    def bump_without_waiting(self, min_leader_epoch: int) -> None:
        """Requests a bump without awaiting it, which the safeguard pid_reset_after_bump forbids."""
        self._services.scope.spawn(self._request_bump(min_leader_epoch), name=f"unawaited-bump-{self.id.topic_partition}")

    async def _request_bump(self, min_leader_epoch: int) -> None:
        await self._services.bumper.bump(EpochBump(self.id.topic, self.id.topic_id, self.id.partition, min_leader_epoch))

    def _bump_problem(self, min_leader_epoch: int) -> str | None:
        if self.partition.is_leader and self.partition.leader_epoch > min_leader_epoch:
            return None
        return f"the leader epoch is still {self.partition.leader_epoch}, not above {min_leader_epoch}"
