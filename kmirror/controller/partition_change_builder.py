"""Makes the PartitionChangeRecord of one partition: who leads, who is in sync, who may lead later
(Kafka's `PartitionChangeBuilder`).

The caller sets what it wants (`target_isr`, an election mode, a reassignment); `build` elects a
leader and returns the record, or None if nothing changes. Rules:

- The present leader stays if it is in the target ISR and acceptable; otherwise the first such
  replica, in replica order, leads.
- With eligible leader replicas (ELR, KIP-966), replicas that leave the ISR while it is below
  min.insync.replicas become ELR members, and an ELR member may lead when the ISR is empty. Without
  ELR the ISR never becomes empty: its last member stays in it even when it is gone.
- An unclean election takes any acceptable replica. The ISR is then that replica alone, and the
  partition is RECOVERING.
- The leader epoch rises when the leader changes, when a replica leaves the assignment, and (only
  for a metadata.version below 3.6-IV0) when the ISR shrinks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

from msgspec import Struct, field

from kmirror.common.sentinels import NO_LEADER
from kmirror.common.uuid import Uuid
from kmirror.metadata.record import ApiMessageAndVersion
from kmirror.metadata.registrations import DIRECTORY_UNASSIGNED, NO_LEADER_CHANGE, NO_RECOVERY_CHANGE, RECOVERING, PartitionRegistration
from kmirror.wire.messages.partition_change_record import PartitionChangeRecord

MV_NO_EPOCH_BUMP_ON_SHRINK = 12  # 3.6-IV0


class Election(Enum):
    ONLINE = "online"
    """Keep the leader if it may lead, otherwise any in-sync replica."""
    PREFERRED = "preferred"
    """The first replica, if it may lead."""
    UNCLEAN = "unclean"
    """As ONLINE; if no in-sync replica may lead, any replica that is alive."""


class PartitionChangeBuilder(Struct):
    """Set what is wanted, then call `build`. `acceptable` says whether a broker may lead this
    partition."""

    partition: PartitionRegistration
    topic_id: Uuid
    partition_id: int
    acceptable: Callable[[int], bool]
    metadata_version: int
    min_isr: int
    elr_enabled: bool = False
    election: Election = Election.ONLINE
    target_isr: list[int] | None = None
    target_replicas: list[int] | None = None
    target_removing: list[int] | None = None
    target_adding: list[int] | None = None
    target_recovery_state: int | None = None
    unclean_shutdown_replicas: Sequence[int] = ()
    default_directory: Callable[[int], Uuid] = lambda replica: DIRECTORY_UNASSIGNED
    directories: dict[int, Uuid] = field(default_factory=dict)
    _elr: list[int] = field(default_factory=list)
    _last_known_elr: list[int] = field(default_factory=list)

    def build(self) -> ApiMessageAndVersion | None:
        """Returns the record to append, in the version that metadata.version asks for; None if it
        would change nothing."""
        partition = self.partition
        isr = list(partition.isr) if self.target_isr is None else list(self.target_isr)
        replicas = list(partition.replicas) if self.target_replicas is None else list(self.target_replicas)
        removing = list(partition.removing_replicas) if self.target_removing is None else list(self.target_removing)
        adding = list(partition.adding_replicas) if self.target_adding is None else list(self.target_adding)
        if (removing or adding) and _reassignment_is_complete(isr, replicas, removing):
            replicas = [replica for replica in replicas if replica not in removing]
            isr = [replica for replica in isr if replica not in removing]
            removing, adding = [], []
        self._elr, self._last_known_elr = self._eligible_replicas(isr)
        record = PartitionChangeRecord(topic_id=self.topic_id, partition_id=self.partition_id)
        isr = self._elect(record, isr, replicas)
        if record.leader == NO_LEADER_CHANGE and any(replica not in replicas for replica in partition.replicas):
            record.leader = partition.leader
        self._set_elr(record)
        if record.isr is None and (isr or self.elr_enabled) and isr != list(partition.isr):
            record.isr = isr
        shrinks = record.isr is not None and any(replica not in record.isr for replica in partition.isr)
        if shrinks and self.metadata_version < MV_NO_EPOCH_BUMP_ON_SHRINK and record.leader == NO_LEADER_CHANGE:
            record.leader = partition.leader
        self._set_last_known_leader(record)
        self._set_assignment(record, replicas, removing, adding)
        if self.target_recovery_state is not None and self.target_recovery_state != partition.leader_recovery_state:
            record.leader_recovery_state = self.target_recovery_state
        if _says_nothing(record):
            return None
        return ApiMessageAndVersion(record, partition_change_record_version(self.metadata_version))

    def _eligible_replicas(self, isr: list[int]) -> tuple[list[int], list[int]]:
        partition = self.partition
        if not self.elr_enabled or len(isr) >= self.min_isr:
            return [], []
        candidates = sorted({*partition.elr, *partition.isr} - set(isr))
        elr = [replica for replica in candidates if replica not in self.unclean_shutdown_replicas]
        known = sorted({*candidates, *partition.last_known_elr} - set(isr) - set(elr))
        return elr, known

    def _may_lead(self, replica: int, isr: list[int]) -> bool:
        eligible = replica in isr or (not isr and replica in self._elr)
        return eligible and self.acceptable(replica)

    def _choose(self, isr: list[int], replicas: list[int]) -> tuple[int, bool]:
        """Returns (the leader, whether the election is unclean)."""
        partition = self.partition
        order = [partition.leader, *replicas]
        if self.election is Election.PREFERRED:
            order = [replicas[0], *order]
        for replica in order:
            if self._may_lead(replica, isr):
                return replica, False
        if self._may_elect_last_known(isr):
            return partition.last_known_elr[0], True
        if self.election is Election.UNCLEAN:
            for replica in replicas:
                if self.acceptable(replica):
                    return replica, True
        return NO_LEADER, False

    def _may_elect_last_known(self, isr: list[int]) -> bool:
        """Whether the only last known leader may come back, because neither ISR nor ELR has anyone
        left (KIP-966)."""
        known = self.partition.last_known_elr
        return self.elr_enabled and not self._elr and not isr and len(known) == 1 and self.acceptable(known[0])

    def _elect(self, record: PartitionChangeRecord, isr: list[int], replicas: list[int]) -> list[int]:
        """Puts the elected leader into `record`; returns the resulting ISR."""
        leader, unclean = self._choose(isr, replicas)
        if leader == self.partition.leader:
            return isr
        record.leader = leader
        if leader in self._elr:
            isr = [leader]
            self._elr = [replica for replica in self._elr if replica != leader]
        if unclean:
            record.isr = [leader]
            if self.partition.leader_recovery_state != RECOVERING:
                record.leader_recovery_state = RECOVERING
        return isr

    def _set_elr(self, record: PartitionChangeRecord) -> None:
        if record.isr is not None or not self.elr_enabled:
            self._elr = []
        if self._elr != list(self.partition.elr):
            record.eligible_leader_replicas = self._elr

    def _set_last_known_leader(self, record: PartitionChangeRecord) -> None:
        if not self.elr_enabled:
            return
        partition = self.partition
        if record.isr is not None and not record.isr and partition.last_known_elr != (partition.leader,):
            record.last_known_elr = [partition.leader]
        elif partition.last_known_elr and (record.leader >= 0 or (partition.leader != NO_LEADER and record.leader != NO_LEADER)):
            record.last_known_elr = []

    def _set_assignment(self, record: PartitionChangeRecord, replicas: list[int], removing: list[int], adding: list[int]) -> None:
        partition = self.partition
        if self.metadata_version >= 17:
            known = dict(zip(partition.replicas, partition.directories, strict=False)) | self.directories
            directories = [known[replica] if replica in known else self.default_directory(replica) for replica in replicas]
            if directories != list(partition.directories):
                record.directories = directories
        if replicas != list(partition.replicas):
            record.replicas = replicas
        if removing != list(partition.removing_replicas):
            record.removing_replicas = removing
        if adding != list(partition.adding_replicas):
            record.adding_replicas = adding


def _reassignment_is_complete(isr: list[int], replicas: list[int], removing: list[int]) -> bool:
    """Whether all replicas that stay are in sync; until then, a leaving replica may be the one that
    has the data."""
    staying = [replica for replica in replicas if replica not in removing]
    return bool(staying) and all(replica in isr for replica in staying)


def partition_change_record_version(metadata_version: int) -> int:
    """Returns 2 from 4.0-IV1 (eligible leader replicas), 1 from 3.7-IV2 (directories), else 0."""
    return 2 if metadata_version >= 23 else 1 if metadata_version >= 17 else 0


def _says_nothing(record: PartitionChangeRecord) -> bool:
    lists = (record.isr, record.replicas, record.removing_replicas, record.adding_replicas, record.directories)
    elr = (record.eligible_leader_replicas, record.last_known_elr)
    return (
        record.leader == NO_LEADER_CHANGE and record.leader_recovery_state == NO_RECOVERY_CHANGE and all(v is None for v in (*lists, *elr))
    )
