"""One broker, one controller and one partition in the cluster image.

All three are immutable. `PartitionRegistration.merge` applies a PartitionChangeRecord by Kafka's
rules: a field that the record leaves out stays; a record with a leader field (even for the same
leader, or for none) raises the leader epoch; every record raises the partition epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from msgspec import Struct

from kmirror.common.sentinels import NO_LEADER
from kmirror.common.uuid import Uuid
from kmirror.metadata.record import ApiMessageAndVersion
from kmirror.wire.messages import register_broker_record, register_controller_record
from kmirror.wire.messages.partition_change_record import PartitionChangeRecord
from kmirror.wire.messages.partition_record import PartitionRecord

NO_LEADER_CHANGE = -2
RECOVERED = 0
RECOVERING = 1
NO_RECOVERY_CHANGE = -1

DIRECTORY_MIGRATING = Uuid(b"\0" * 16)
DIRECTORY_UNASSIGNED = Uuid(b"\0" * 15 + b"\x01")
DIRECTORY_LOST = Uuid(b"\0" * 15 + b"\x02")


class Endpoint(NamedTuple):
    """A listener's name and address; `security_protocol` is Kafka's id (0 PLAINTEXT, 1 SSL, 2
    SASL_PLAINTEXT, 3 SASL_SSL)."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


class VersionRange(NamedTuple):
    """Supported levels of one feature, both ends included."""

    min: int
    max: int

    def __contains__(self, level: object) -> bool:
        return isinstance(level, int) and self.min <= level <= self.max

    def __str__(self) -> str:
        return f"{self.min}" if self.min == self.max else f"{self.min}-{self.max}"


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """A registered broker. `listeners` and `supported_features` keep the order of the
    registration."""

    id: int
    epoch: int
    incarnation_id: Uuid
    listeners: dict[str, Endpoint]
    supported_features: dict[str, VersionRange]
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    is_migrating_zk_broker: bool = False
    directories: tuple[Uuid, ...] = ()
    cordoned_directories: tuple[Uuid, ...] | None = None

    @classmethod
    def from_record(cls, record: register_broker_record.RegisterBrokerRecord) -> BrokerRegistration:
        cordoned = record.cordoned_log_dirs
        return cls(
            id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            listeners={e.name: Endpoint(e.name, e.host, e.port, e.security_protocol) for e in record.end_points},
            supported_features={f.name: VersionRange(f.min_supported_version, f.max_supported_version) for f in record.features},
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            is_migrating_zk_broker=record.is_migrating_zk_broker,
            directories=tuple(sorted(record.log_dirs)),
            cordoned_directories=None if cordoned is None else tuple(cordoned),
        )

    @property
    def active(self) -> bool:
        """Neither fenced nor shutting down: it may lead and may get new replicas."""
        return not self.fenced and not self.in_controlled_shutdown

    def has_online_dir(self, directory: Uuid) -> bool:
        """True for the unassigned and the migrating directory; false for the lost one and for
        directories that the broker did not register."""
        if not self.directories:
            return True
        return directory in (DIRECTORY_UNASSIGNED, DIRECTORY_MIGRATING) or directory in self.directories

    def to_record(self, metadata_version: int) -> ApiMessageAndVersion:
        """Returns the snapshot form: one RegisterBrokerRecord with the current state."""
        return ApiMessageAndVersion(self.to_message(metadata_version), register_broker_record_version(metadata_version))

    def to_message(self, metadata_version: int) -> register_broker_record.RegisterBrokerRecord:
        version = register_broker_record_version(metadata_version)
        return register_broker_record.RegisterBrokerRecord(
            broker_id=self.id,
            is_migrating_zk_broker=self.is_migrating_zk_broker,
            incarnation_id=self.incarnation_id,
            broker_epoch=self.epoch,
            end_points=[
                register_broker_record.BrokerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
                for e in self.listeners.values()
            ],
            features=[
                register_broker_record.BrokerFeature(name=name, min_supported_version=r.min, max_supported_version=r.max)
                for name, r in self.supported_features.items()
            ],
            rack=self.rack,
            fenced=self.fenced,
            in_controlled_shutdown=self.in_controlled_shutdown,
            log_dirs=list(self.directories) if version >= 3 else [],
            cordoned_log_dirs=list(self.cordoned_directories) if version >= 4 and self.cordoned_directories is not None else None,
        )


def register_broker_record_version(metadata_version: int) -> int:
    """Returns 4 from 4.3-IV0 (cordoned directories), 3 from 3.7-IV2 (directories), 2 from 3.4-IV0,
    else 1."""
    if metadata_version >= 30:
        return 4
    return 3 if metadata_version >= 17 else 2 if metadata_version >= 8 else 1


@dataclass(frozen=True, slots=True)
class ControllerRegistration:
    """A registered controller."""

    id: int
    incarnation_id: Uuid
    listeners: dict[str, Endpoint]
    supported_features: dict[str, VersionRange]
    zk_migration_ready: bool = False

    @classmethod
    def from_record(cls, record: register_controller_record.RegisterControllerRecord) -> ControllerRegistration:
        return cls(
            id=record.controller_id,
            incarnation_id=record.incarnation_id,
            listeners={e.name: Endpoint(e.name, e.host, e.port, e.security_protocol) for e in record.end_points},
            supported_features={f.name: VersionRange(f.min_supported_version, f.max_supported_version) for f in record.features},
            zk_migration_ready=record.zk_migration_ready,
        )

    def to_record(self) -> ApiMessageAndVersion:
        return ApiMessageAndVersion(
            register_controller_record.RegisterControllerRecord(
                controller_id=self.id,
                incarnation_id=self.incarnation_id,
                zk_migration_ready=self.zk_migration_ready,
                end_points=[
                    register_controller_record.ControllerEndpoint(
                        name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol
                    )
                    for e in self.listeners.values()
                ],
                features=[
                    register_controller_record.ControllerFeature(name=name, min_supported_version=r.min, max_supported_version=r.max)
                    for name, r in self.supported_features.items()
                ],
            ),
            0,
        )


class PartitionRegistration(Struct, frozen=True, gc=False):
    """A partition as the controller knows it. `directories` has one entry per entry of
    `replicas`."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int = NO_LEADER
    leader_epoch: int = 0
    partition_epoch: int = 0
    leader_recovery_state: int = RECOVERED
    directories: tuple[Uuid, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    @classmethod
    def from_record(cls, record: PartitionRecord) -> PartitionRegistration:
        directories = tuple(record.directories) or (DIRECTORY_MIGRATING,) * len(record.replicas)
        return cls(
            replicas=tuple(record.replicas),
            isr=tuple(record.isr),
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            leader_recovery_state=record.leader_recovery_state,
            directories=directories,
            removing_replicas=tuple(record.removing_replicas),
            adding_replicas=tuple(record.adding_replicas),
            elr=tuple(record.eligible_leader_replicas or ()),
            last_known_elr=tuple(record.last_known_elr or ()),
        )

    def merge(self, record: PartitionChangeRecord) -> PartitionRegistration:
        """Returns this partition after `record`."""
        replicas = self.replicas if record.replicas is None else tuple(record.replicas)
        directories = self.directories
        if record.directories is not None:
            directories = tuple(record.directories)
        elif record.replicas is not None:
            known = dict(zip(self.replicas, self.directories, strict=False))
            directories = tuple(known.get(replica, DIRECTORY_UNASSIGNED) for replica in replicas)
        leader_changes = record.leader != NO_LEADER_CHANGE
        recovery = record.leader_recovery_state
        return PartitionRegistration(
            replicas=replicas,
            directories=directories,
            isr=self.isr if record.isr is None else tuple(record.isr),
            removing_replicas=self.removing_replicas if record.removing_replicas is None else tuple(record.removing_replicas),
            adding_replicas=self.adding_replicas if record.adding_replicas is None else tuple(record.adding_replicas),
            elr=self.elr if record.eligible_leader_replicas is None else tuple(record.eligible_leader_replicas),
            last_known_elr=self.last_known_elr if record.last_known_elr is None else tuple(record.last_known_elr),
            leader=record.leader if leader_changes else self.leader,
            leader_epoch=self.leader_epoch + 1 if leader_changes else self.leader_epoch,
            leader_recovery_state=self.leader_recovery_state if recovery == NO_RECOVERY_CHANGE else recovery,
            partition_epoch=self.partition_epoch + 1,
        )

    @property
    def has_leader(self) -> bool:
        return self.leader != NO_LEADER

    @property
    def is_reassigning(self) -> bool:
        return bool(self.removing_replicas or self.adding_replicas)

    @property
    def preferred_replica(self) -> int:
        return self.replicas[0] if self.replicas else NO_LEADER

    def directory(self, replica: int) -> Uuid:
        """Returns the log directory of `replica`; DIRECTORY_UNASSIGNED if it is not a replica."""
        for index, candidate in enumerate(self.replicas):
            if candidate == replica and index < len(self.directories):
                return self.directories[index]
        return DIRECTORY_UNASSIGNED

    def to_message(self, topic_id: Uuid, partition_id: int, metadata_version: int) -> PartitionRecord:
        version = partition_record_version(metadata_version)
        return PartitionRecord(
            partition_id=partition_id,
            topic_id=topic_id,
            replicas=list(self.replicas),
            isr=list(self.isr),
            removing_replicas=list(self.removing_replicas),
            adding_replicas=list(self.adding_replicas),
            leader=self.leader,
            leader_recovery_state=self.leader_recovery_state,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            directories=list(self.directories) if version >= 1 else [],
            eligible_leader_replicas=(list(self.elr) or None) if version >= 2 else None,
            last_known_elr=(list(self.last_known_elr) or None) if version >= 2 else None,
        )

    def to_record(self, topic_id: Uuid, partition_id: int, metadata_version: int) -> ApiMessageAndVersion:
        return ApiMessageAndVersion(self.to_message(topic_id, partition_id, metadata_version), partition_record_version(metadata_version))


def partition_record_version(metadata_version: int) -> int:
    """Returns 2 from 4.0-IV1 (eligible leader replicas), 1 from 3.7-IV2 (directories), else 0."""
    return 2 if metadata_version >= 23 else 1 if metadata_version >= 17 else 0
