"""Snapshots of the metadata log: `<end offset>-<epoch>.checkpoint`, and the `bootstrap.checkpoint`
of a formatted directory.

A snapshot is a plain run of record batches with offsets of its own, from 0 on, in the leader epoch
of the snapshot:

    control batch   SNAPSHOT_HEADER [KRAFT_VERSION, KRAFT_VOTERS]
    data batches    records, at most `MAX_RECORDS_PER_BATCH` each
    control batch   SNAPSHOT_FOOTER

KRAFT_VERSION and KRAFT_VOTERS are there from kraft.version 1 on. The end offset and epoch in the
name say how much of the log the snapshot covers: all offsets below the end offset. Nothing is
compressed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct, field

from kmirror.common.errors import CorruptFileError
from kmirror.common.ports import Buffer, Clock
from kmirror.metadata.record import ApiMessageAndVersion
from kmirror.record.builder import build_batch
from kmirror.record.control_record import ControlRecordType, build_control_batch, build_snapshot_footer, control_value
from kmirror.record.record import Record
from kmirror.record.record_batch import iter_batches
from kmirror.wire.messages.kraft_version_record import KRaftVersionRecord
from kmirror.wire.messages.snapshot_header_record import SnapshotHeaderRecord
from kmirror.wire.messages.voters_record import VotersRecord
from kmirror.wire.records import read_metadata_record, write_metadata_record

MAX_RECORDS_PER_BATCH = 1024
BOOTSTRAP_FILE_NAME = "bootstrap.checkpoint"
CHECKPOINT_SUFFIX = ".checkpoint"
_NAME = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")


class SnapshotId(NamedTuple):
    """`end_offset` is the first offset that is not in the snapshot; `epoch` is the epoch of the
    last one that is."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}{CHECKPOINT_SUFFIX}"

    @classmethod
    def parse(cls, file_name: str) -> SnapshotId | None:
        """Returns the id of a finished snapshot's file name; None for any other name."""
        match = _NAME.fullmatch(file_name)
        return None if match is None else cls(int(match[1]), int(match[2]))


class Snapshot(Struct):
    """A decoded snapshot."""

    last_contained_log_timestamp: int = 0
    kraft_version: int = 0
    voters: VotersRecord | None = None
    records: list[Any] = field(default_factory=list)


def encode_snapshot(
    records: Iterable[ApiMessageAndVersion],
    clock: Clock,
    *,
    last_contained_log_timestamp: int,
    epoch: int = 0,
    kraft_version: int = 0,
    voters: VotersRecord | None = None,
) -> bytes:
    """Returns the bytes of a snapshot file. The clock is read once for each batch, when it is
    made."""
    header = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_contained_log_timestamp)
    control: list[tuple[ControlRecordType, Buffer]] = [(ControlRecordType.SNAPSHOT_HEADER, control_value(header))]
    control += voters_control_records(kraft_version, voters)
    out = bytearray(build_control_batch(control, timestamp=clock.time_ms(), base_offset=0, partition_leader_epoch=epoch))
    offset = len(control)
    for chunk in _chunks(records):
        out += build_data_batch(chunk, base_offset=offset, leader_epoch=epoch, time_ms=clock.time_ms())
        offset += len(chunk)
    out += build_snapshot_footer(timestamp=clock.time_ms(), base_offset=offset, partition_leader_epoch=epoch)
    return bytes(out)


def voters_control_records(kraft_version: int, voters: VotersRecord | None) -> list[tuple[ControlRecordType, Buffer]]:
    """Returns the records that describe a dynamic quorum, in a snapshot's header batch or in the
    batch that begins the first epoch."""
    if kraft_version < 1:
        return []
    version = control_value(KRaftVersionRecord(version=0, kraft_version=kraft_version))
    records: list[tuple[ControlRecordType, Buffer]] = [(ControlRecordType.KRAFT_VERSION, version)]
    if voters is not None:
        records.append((ControlRecordType.KRAFT_VOTERS, control_value(voters)))
    return records


def build_data_batch(records: Sequence[ApiMessageAndVersion], *, base_offset: int, leader_epoch: int, time_ms: int) -> bytearray:
    """Returns one batch of metadata records as the leader writes it: without a producer, and all
    with the time of the append."""
    return build_batch(
        [Record(base_offset + i, time_ms, None, write_metadata_record(r.message, r.version), []) for i, r in enumerate(records)],
        base_offset=base_offset,
        partition_leader_epoch=leader_epoch,
    )


def _chunks(records: Iterable[ApiMessageAndVersion]) -> Iterable[list[ApiMessageAndVersion]]:
    chunk: list[ApiMessageAndVersion] = []
    for record in records:
        chunk.append(record)
        if len(chunk) == MAX_RECORDS_PER_BATCH:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def decode_snapshot(data: Buffer, path: str) -> Snapshot:
    """Reads a whole snapshot file; raises CorruptFileError (naming `path`) if a batch is broken or
    if the header or footer is missing."""
    snapshot = Snapshot()
    position = 0
    seen: list[ControlRecordType] = []
    for batch in iter_batches(data):
        if not batch.is_valid():
            raise CorruptFileError(path, position, f"the batch at offset {batch.base_offset} fails its CRC")
        for record in batch.records():
            if batch.is_control:
                seen.append(_take_control_record(snapshot, record))
            elif record.value is None:
                raise CorruptFileError(path, position, f"the record at offset {record.offset} has no value")
            else:
                snapshot.records.append(read_metadata_record(record.value))
        position += batch.size_in_bytes
    if not seen or seen[0] is not ControlRecordType.SNAPSHOT_HEADER:
        raise CorruptFileError(path, 0, "a snapshot begins with a snapshot header record")
    if seen[-1] is not ControlRecordType.SNAPSHOT_FOOTER or position != len(data):
        raise CorruptFileError(path, position, "a snapshot ends with a snapshot footer record")
    return snapshot


def _take_control_record(snapshot: Snapshot, record: Record) -> ControlRecordType:
    kind = ControlRecordType.parse(record.key)
    value = memoryview(record.value or b"")
    if kind is ControlRecordType.SNAPSHOT_HEADER:
        snapshot.last_contained_log_timestamp = SnapshotHeaderRecord.read(value, 0, 0)[0].last_contained_log_timestamp
    elif kind is ControlRecordType.KRAFT_VERSION:
        snapshot.kraft_version = KRaftVersionRecord.read(value, 0, 0)[0].kraft_version
    elif kind is ControlRecordType.KRAFT_VOTERS:
        snapshot.voters = VotersRecord.read(value, 0, 0)[0]
    return kind
