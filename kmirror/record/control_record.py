"""Control records: records that are written for the log's own sake, in batches with the control
bit. Consumers do not see them.

The key of each is version i16 = 0, type i16. Ids and values:

    0 ABORT, 1 COMMIT   end of a producer's transaction; attributes transactional + control, the producer's id and epoch, sequence -1;
                        value = version i16 0, coordinatorEpoch i32; 78 bytes in all
    2 LEADER_CHANGE     first record of a KRaft epoch            (LeaderChangeMessage)
    3 SNAPSHOT_HEADER, 4 SNAPSHOT_FOOTER, 5 KRAFT_VERSION, 6 KRAFT_VOTERS     (the messages of these names)
    7 MIRROR_PID_RESET  KIP-1279: a mirrored partition became writable; every replica that appends or replays it forgets all
                        producers (MirrorPidResetRecord); no producer id, 98 bytes with a 22-character cluster id

Types 2 to 7 carry the flexible message without a version prefix; its first field is the version. An
unknown type is UNKNOWN, which readers skip.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

from kmirror.common.ports import Buffer
from kmirror.common.sentinels import NO_PARTITION_LEADER_EPOCH
from kmirror.record.builder import build_batch
from kmirror.record.record import Record, invalid_record
from kmirror.wire.messages.kraft_version_record import KRaftVersionRecord
from kmirror.wire.messages.leader_change_message import LeaderChangeMessage
from kmirror.wire.messages.mirror_pid_reset_record import MirrorPidResetRecord
from kmirror.wire.messages.snapshot_footer_record import SnapshotFooterRecord
from kmirror.wire.messages.snapshot_header_record import SnapshotHeaderRecord
from kmirror.wire.messages.voters_record import VotersRecord
from kmirror.wire.primitives import Writer

_KEY = struct.Struct(">hh")
_END_TRANSACTION_VALUE = struct.Struct(">hi")


class ControlRecordType(IntEnum):
    """The type in a control record's key."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    MIRROR_PID_RESET = 7
    UNKNOWN = -1

    @property
    def key(self) -> bytes:
        """The 4 bytes of the record's key."""
        return _KEY.pack(0, self)

    @classmethod
    def parse_type_id(cls, key: Buffer | None) -> int:
        """The raw type id of a control record's key; INVALID_RECORD if the key has fewer than 4
        bytes or a negative version.
        """
        if key is None or len(key) < _KEY.size:
            size = 0 if key is None else len(key)
            raise invalid_record(
                f"Invalid value size found for end control record key. Must have at least {_KEY.size} bytes, but found only {size}"
            )
        version, type_id = _KEY.unpack_from(key)
        if version < 0:
            raise invalid_record(f"Invalid version found for control record: {version}. May indicate data corruption")
        return int(type_id)

    @classmethod
    def parse(cls, key: Buffer | None) -> ControlRecordType:
        """The type of a control record's key; UNKNOWN for an id that this version does not know."""
        type_id = cls.parse_type_id(key)
        return cls(type_id) if 0 <= type_id <= 7 else cls.UNKNOWN


class EndTransactionMarker(NamedTuple):
    """The end of a transaction: ABORT or COMMIT, and the epoch of the coordinator that wrote it."""

    control_type: ControlRecordType
    coordinator_epoch: int

    @classmethod
    def deserialize(cls, record: Record) -> EndTransactionMarker:
        """Parses a marker's record; INVALID_RECORD if it is not one."""
        control_type = ControlRecordType.parse(record.key)
        if control_type not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
            raise invalid_record(f"Invalid control record type for end transaction marker {control_type.name}")
        value = record.value
        if value is None or len(value) < _END_TRANSACTION_VALUE.size:
            size = 0 if value is None else len(value)
            raise invalid_record(
                f"Invalid value size found for end transaction marker. Must have at least {_END_TRANSACTION_VALUE.size} bytes, "
                f"but found only {size}"
            )
        version, coordinator_epoch = _END_TRANSACTION_VALUE.unpack_from(value)
        if version < 0:
            raise invalid_record(f"Invalid version found for end transaction marker: {version}. May indicate data corruption")
        return cls(control_type, coordinator_epoch)


class ControlMessage(Protocol):
    """A message that a control record of type 2 to 7 carries."""

    def write(self, out: Writer, version: int) -> None: ...


def control_value(message: ControlMessage, *, version: int = 0) -> bytes:
    """The value of a control record of type 2 to 7."""
    out = Writer()
    message.write(out, version)
    return out.to_bytes()


def build_end_transaction_marker(
    control_type: ControlRecordType,
    *,
    coordinator_epoch: int,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
) -> bytearray:
    """The batch of an ABORT or COMMIT marker."""
    assert control_type in (ControlRecordType.ABORT, ControlRecordType.COMMIT), f"{control_type!r} ends no transaction"
    record = Record(base_offset, timestamp, control_type.key, _END_TRANSACTION_VALUE.pack(0, coordinator_epoch), [])
    return build_batch(
        [record],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
        partition_leader_epoch=partition_leader_epoch,
    )


def build_control_batch(
    values: Sequence[tuple[ControlRecordType, Buffer]], *, timestamp: int, base_offset: int, partition_leader_epoch: int
) -> bytearray:
    """One batch of control records without a producer; `values` are (type, encoded value), one
    record each.
    """
    records = [Record(base_offset + index, timestamp, kind.key, value, []) for index, (kind, value) in enumerate(values)]
    return build_batch(records, base_offset=base_offset, is_control=True, partition_leader_epoch=partition_leader_epoch)


def build_leader_change(message: LeaderChangeMessage, *, timestamp: int, base_offset: int, partition_leader_epoch: int) -> bytearray:
    """The batch that begins a KRaft epoch without dynamic voters."""
    value = control_value(message, version=message.version)
    return build_control_batch(
        [(ControlRecordType.LEADER_CHANGE, value)],
        timestamp=timestamp,
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
    )


def build_snapshot_header(
    *,
    last_contained_log_timestamp: int,
    timestamp: int,
    base_offset: int = 0,
    partition_leader_epoch: int = 0,
    kraft_version: int = 0,
    voters: VotersRecord | None = None,
) -> bytearray:
    """The first batch of a snapshot: the header and, from kraft.version 1 on, that version and the
    voters if they are known.
    """
    header = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_contained_log_timestamp)
    values: list[tuple[ControlRecordType, Buffer]] = [(ControlRecordType.SNAPSHOT_HEADER, control_value(header))]
    if kraft_version > 0:
        values.append((ControlRecordType.KRAFT_VERSION, control_value(KRaftVersionRecord(version=0, kraft_version=kraft_version))))
        if voters is not None:
            values.append((ControlRecordType.KRAFT_VOTERS, control_value(voters)))
    return build_control_batch(values, timestamp=timestamp, base_offset=base_offset, partition_leader_epoch=partition_leader_epoch)


def build_snapshot_footer(*, timestamp: int, base_offset: int, partition_leader_epoch: int) -> bytearray:
    """The last batch of a snapshot."""
    value = control_value(SnapshotFooterRecord(version=0))
    return build_control_batch(
        [(ControlRecordType.SNAPSHOT_FOOTER, value)],
        timestamp=timestamp,
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
    )


def build_mirror_pid_reset(
    source_cluster_id: str, *, timestamp: int, base_offset: int = 0, partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH
) -> bytearray:
    """The batch that a mirrored partition is given when it becomes writable (KIP-1279)."""
    value = control_value(MirrorPidResetRecord(version=0, source_cluster_id=source_cluster_id))
    return build_control_batch(
        [(ControlRecordType.MIRROR_PID_RESET, value)],
        timestamp=timestamp,
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
    )
