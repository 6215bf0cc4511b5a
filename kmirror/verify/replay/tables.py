"""The tables of a replay: one dataclass per table, one field per column, annotated with its
meaning. They are written as `verify.diff_tables.Table`s.

    logs                one row per partition folder
    structure           one row per segment
    leader_epochs       one row per run of batches of one epoch, or per epoch of the checkpoint that
                        has no batch
    producers           one row per producer id at the end of the log, as every broker that reads
                        the log must know it
    transactions        one row per transaction that was aborted, is open, or was forgotten at a
                        MIRROR_PID_RESET
    transaction_counts  one row per partition folder: committed transactions are only counted
    indexes             one row per .index or .timeindex
    compaction          one row per sound compacted log: what its keys say
    findings            one row per contradiction between a file and the log
    kept                what the next run need not read again

The internal topics have one row per record (`internal_records`): group_offsets, groups,
mirror_states, last_mirror_epochs, coordinator_transactions, leaders, topics, assignments.

`log` joins the tables: replicas of a topic's partition are different logs. `schema_version` is
raised when a column changes its meaning or is removed; new columns may be added at any time. A
value that is not known or does not exist is null, never -1.
"""

from __future__ import annotations

import functools
import typing
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from types import NoneType
from typing import Annotated, Any, Final

from kmirror.verify.diff_tables import Column, Columns, Table
from kmirror.verify.replay.findings import SCHEMA_VERSION, Finding, PartitionRow
from kmirror.verify.replay.internal_records import (
    AssignmentRow,
    CoordinatorTransactionRow,
    GroupRow,
    LastMirrorEpochRow,
    LeaderRow,
    MirrorStateRow,
    OffsetCommitRow,
    TopicRow,
)

BaseOffset = Annotated[int, "the segment's"]


@dataclass(frozen=True, slots=True)
class LogRow(PartitionRow):
    """A row of `logs`."""

    log_start_offset: Annotated[int, "the base offset of the first segment, or the offset in the log-start checkpoint if that is higher"]
    log_end_offset: Annotated[int, "the offset after the last complete batch"]
    high_watermark: Annotated[int | None, "the high watermark in replication-offset-checkpoint"]
    first_unstable_offset: Annotated[
        int | None, "the first offset of the oldest open transaction; no read_committed consumer reads past it"
    ]
    segments: Annotated[int, "its segments"]
    size: Annotated[int, "bytes of whole batches"]
    batches: Annotated[int, "whole batches"]
    records: Annotated[int, "as the batches count them"]
    gaps: Annotated[int, "the number of places within segments where offsets are missing"]
    missing_offsets: Annotated[int, "the number of offsets that are in no batch, including those between segments"]
    max_timestamp: Annotated[int | None, "the newest, in ms"]
    resets: Annotated[int, "MIRROR_PID_RESETs (KIP-1279)"]
    findings: Annotated[int, "rows of findings"]


@dataclass(frozen=True, slots=True)
class SegmentRow(PartitionRow):
    """A row of `structure`."""

    base_offset: BaseOffset
    path: Annotated[str, "the .log"]
    segment_size: Annotated[int, "bytes of the .log, as listed"]
    size: Annotated[int, "bytes of whole batches"]
    batches: Annotated[int, "whole batches"]
    records: Annotated[int, "as the batches count them"]
    first_offset: Annotated[int | None, "of the first batch"]
    last_offset: Annotated[int | None, "of the last batch"]
    max_timestamp: Annotated[int | None, "the newest, in ms"]
    largest_batch: Annotated[int, "bytes"]
    control_batches: Annotated[int, "markers, resets and the like"]
    transactional_batches: Annotated[int, "data and markers of transactions"]
    producer_batches: Annotated[int, "batches with a producer id"]
    none: Annotated[int, "uncompressed batches"]
    gzip: Annotated[int, "batches of this codec"]
    snappy: Annotated[int, "batches of this codec"]
    lz4: Annotated[int, "batches of this codec"]
    zstd: Annotated[int, "batches of this codec"]
    gaps: Annotated[int, "places where offsets are missing"]
    missing_offsets: Annotated[int, "offsets in no batch"]
    short_batches: Annotated[int, "the number of batches from which the cleaner removed records"]
    crc_errors: Annotated[int, "the number of batches with a wrong CRC"]
    problems: Annotated[int, "the number of batches that no broker writes, including crc_errors"]


@dataclass(frozen=True, slots=True)
class LeaderEpochRow(PartitionRow):
    """A row of `leader_epochs`."""

    epoch: Annotated[int, "the leader epoch"]
    first_offset: Annotated[int | None, "the first offset of the epoch; null for an epoch without a batch"]
    next_offset: Annotated[int | None, "the offset after the last batch of the epoch"]
    claimed_offset: Annotated[int | None, "the start offset of the epoch in leader-epoch-checkpoint"]


@dataclass(frozen=True, slots=True)
class ProducerRow(PartitionRow):
    """A row of `producers`."""

    producer_id: Annotated[int, "the producer's id"]
    producer_epoch: Annotated[int | None, "its last epoch"]
    last_sequence: Annotated[int | None, "of its last batch"]
    last_offset: Annotated[int | None, "of its last batch"]
    last_timestamp: Annotated[int | None, "of its last batch or marker, in ms"]
    coordinator_epoch: Annotated[int | None, "of its last marker"]
    first_open_offset: Annotated[int | None, "of its open transaction"]
    cached_batches: Annotated[int, "the number of its last batches that a broker recognises as duplicates (at most 5)"]


@dataclass(frozen=True, slots=True)
class TransactionRow(PartitionRow):
    """A row of `transactions`."""

    producer_id: Annotated[int, "the producer's id"]
    producer_epoch: Annotated[int, "of its last data"]
    state: Annotated[str, "ABORTED, ONGOING or FORGOTTEN"]
    first_offset: Annotated[int, "of its first data"]
    begins_before_log: Annotated[bool, "whether it may have begun below the log: first_offset is then that of the first batch that is left"]
    last_offset: Annotated[int | None, "of its marker, or of the reset"]
    last_stable_offset: Annotated[int | None, "at its ABORT"]
    first_timestamp: Annotated[int, "of its first data, in ms"]
    last_timestamp: Annotated[int, "of its last data, in ms"]
    coordinator_epoch: Annotated[int | None, "of its marker"]
    batches: Annotated[int, "of its data"]
    age_ms: Annotated[int | None, "of an open one: since its first batch, at the time of the replay, else of the log's newest batch"]
    protocol: Annotated[int | None, "2 if the marker raised the producer's epoch (KIP-890), otherwise 1"]


@dataclass(frozen=True, slots=True)
class TransactionCounts(PartitionRow):
    """A row of `transaction_counts`."""

    committed: Annotated[int, "transactions with data that were committed"]
    aborted: Annotated[int, "transactions with data that were aborted"]
    ongoing: Annotated[int, "open ones"]
    forgotten: Annotated[int, "the number of transactions that were open at a MIRROR_PID_RESET"]
    empty_markers: Annotated[int, "the number of markers without data before them"]
    epoch_bumps: Annotated[int, "transactions of protocol version 2"]


@dataclass(frozen=True, slots=True)
class IndexRow(PartitionRow):
    """A row of `indexes`."""

    base_offset: BaseOffset
    kind: Annotated[str, "index or timeindex"]
    entries: Annotated[int, "slots in use"]
    exact: Annotated[int, "entries as Kafka 4 writes them"]
    sound: Annotated[int, "entries by which a look-up ends at the right batch all the same"]
    wrong: Annotated[int, "entries by which a look-up may pass over batches"]


@dataclass(frozen=True, slots=True)
class CompactionRow(PartitionRow):
    """A row of `compaction`. It counts records from the log start on, without control records. A
    tombstone is a committed record with a key and no value."""

    cleaned_offset: Annotated[int | None, "up to where the cleaner has been, as cleaner-offset-checkpoint says"]
    first_dirty_offset: Annotated[
        int, "where its next pass begins to read: there, or at the log start if that says nothing that can be true"
    ]
    first_uncleanable_offset: Annotated[int, "where that pass ends: the active segment, or the one that the last stable offset lies in"]
    clean_bytes: Annotated[int, "of the segments that begin below the first dirty offset"]
    cleanable_bytes: Annotated[int, "of the segments that the pass would read"]
    dirty_ratio: Annotated[
        float, "cleanable bytes of both together, what min.cleanable.dirty.ratio is held against; 0 where there are none"
    ]
    records: Annotated[int, "of all kinds"]
    keys: Annotated[int, "different keys of committed records, by 128-bit hash"]
    live_keys: Annotated[int, "those whose newest committed record is no tombstone"]
    superseded_records: Annotated[int, "committed records with a newer committed one of their key"]
    superseded_bytes: Annotated[int, "their bytes, unpacked"]
    removable_records: Annotated[int, "those that the pass would remove, lag settings left aside"]
    removable_bytes: Annotated[int, "their bytes, unpacked"]
    unkeyed_records: Annotated[int, "committed records without a key, which a cleaner drops"]
    aborted_records: Annotated[int, "data of aborted transactions that is left"]
    open_records: Annotated[int, "data of open transactions"]
    tombstones: Annotated[int, "that are left"]
    tombstones_with_horizon: Annotated[int, "of batches with a delete horizon: a pass has met them"]
    tombstones_past_horizon: Annotated[
        int, "of those, the ones that the next pass may remove, at the time of the replay, else of the log's newest batch"
    ]
    first_delete_horizon: Annotated[int | None, "the earliest horizon, in ms"]


@dataclass(frozen=True, slots=True)
class KeptRow(PartitionRow):
    """A row of `kept`: only for the next run (`kept.py`)."""

    base_offset: Annotated[int | None, "the segment's; null: the keys of the whole log"]
    identity: Annotated[str, "what must not have changed"]
    kept: Annotated[str, "the partial, or the counts, as JSON"]


_TYPES: Final = {int: "int64", str: "string", bool: "bool", float: "double"}


@dataclass(slots=True)
class ReplayTables:
    """The rows of every table."""

    logs: list[LogRow] = field(default_factory=list)
    structure: list[SegmentRow] = field(default_factory=list)
    leader_epochs: list[LeaderEpochRow] = field(default_factory=list)
    producers: list[ProducerRow] = field(default_factory=list)
    transactions: list[TransactionRow] = field(default_factory=list)
    transaction_counts: list[TransactionCounts] = field(default_factory=list)
    indexes: list[IndexRow] = field(default_factory=list)
    compaction: list[CompactionRow] = field(default_factory=list)
    group_offsets: list[OffsetCommitRow] = field(default_factory=list)
    groups: list[GroupRow] = field(default_factory=list)
    mirror_states: list[MirrorStateRow] = field(default_factory=list)
    last_mirror_epochs: list[LastMirrorEpochRow] = field(default_factory=list)
    coordinator_transactions: list[CoordinatorTransactionRow] = field(default_factory=list)
    leaders: list[LeaderRow] = field(default_factory=list)
    topics: list[TopicRow] = field(default_factory=list)
    assignments: list[AssignmentRow] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    kept: list[KeptRow] = field(default_factory=list)

    def rows(self, table: str) -> Sequence[Any]:
        rows: Sequence[Any] = getattr(self, table)
        return rows

    def extend(self, other: ReplayTables) -> None:
        """Takes in the rows of other partitions."""
        for table in TABLES:
            getattr(self, table).extend(other.rows(table))


TABLES: Final[dict[str, type[Any]]] = {name: typing.get_args(rows)[0] for name, rows in typing.get_type_hints(ReplayTables).items()}
"""The class of each table's rows, in the order of `ReplayTables`."""


@functools.cache
def table_of(name: str) -> Table:
    """Returns the columns of a table as they are written: `schema_version`, then the fields of its
    rows."""
    columns = [Column("schema_version", "int32", str(SCHEMA_VERSION))]
    for column, hint in typing.get_type_hints(TABLES[name], include_extras=True).items():
        kind, meaning = typing.get_args(hint)
        (known,) = [each for each in typing.get_args(kind) or (kind,) if each is not NoneType]
        columns.append(Column(column, _TYPES[known], meaning))
    return Table(name, tuple(columns))


def columns_of(name: str, rows: Sequence[Any]) -> Columns:
    """Returns the values of a table's rows, by column."""
    values: dict[str, list[Any]] = {"schema_version": [SCHEMA_VERSION] * len(rows)}
    for column in fields(TABLES[name]):
        values[column.name] = [getattr(row, column.name) for row in rows]
    return values


def as_dict(row: object) -> dict[str, Any]:
    """Returns a row as column -> value."""
    return {column.name: getattr(row, column.name) for column in fields(row)}  # type: ignore[arg-type]
