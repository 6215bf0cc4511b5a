"""The tables of a replay: a dataclass a table, a field a column, the docstring of a field what it means. `SCHEMA_VERSION` is theirs.

`log` is the partition's folder: replicas of a topic's partition are different logs, and it joins the tables. Offsets are Kafka's, times are ms since 1970, sizes bytes. `None` is "not known" or "none"; a column never uses -1 for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from kmirror.verify.replay.findings import Finding


@dataclass(frozen=True, slots=True)
class LogRow:
    """`logs`: a partition as a whole."""

    log: str
    topic: str
    partition: int
    log_start_offset: int
    """Of the first segment, or the log-start checkpoint's if that is higher."""
    log_end_offset: int
    high_watermark: int | None
    """As `replication-offset-checkpoint` says."""
    first_unstable_offset: int | None
    """Where the oldest open transaction begins: no read_committed reader comes past it."""
    segments: int
    size: int
    batches: int
    records: int
    gaps: int
    missing_offsets: int
    max_timestamp: int | None
    resets: int
    """MIRROR_PID_RESETs (KIP-1279)."""
    findings: int


@dataclass(frozen=True, slots=True)
class SegmentRow:
    """`structure`: a segment."""

    log: str
    topic: str
    partition: int
    base_offset: int
    path: str
    segment_size: int
    size: int
    """Of whole batches."""
    batches: int
    records: int
    first_offset: int | None
    last_offset: int | None
    max_timestamp: int | None
    largest_batch: int
    control_batches: int
    transactional_batches: int
    producer_batches: int
    none: int
    """Batches by codec: none, gzip, snappy, lz4, zstd."""
    gzip: int
    snappy: int
    lz4: int
    zstd: int
    gaps: int
    missing_offsets: int
    short_batches: int
    """Batches that the cleaner took records from."""
    crc_errors: int
    problems: int


@dataclass(frozen=True, slots=True)
class LeaderEpochRow:
    """`leader_epochs`: a run of batches of one epoch, or an epoch of the checkpoint that has no batch."""

    log: str
    topic: str
    partition: int
    epoch: int
    first_offset: int | None
    next_offset: int | None
    claimed_offset: int | None
    """Where `leader-epoch-checkpoint` has it begin."""


@dataclass(frozen=True, slots=True)
class ProducerRow:
    """`producers`: a producer id at the end of the log, as every broker that reads the log must know it."""

    log: str
    topic: str
    partition: int
    producer_id: int
    producer_epoch: int | None
    last_sequence: int | None
    last_offset: int | None
    last_timestamp: int | None
    coordinator_epoch: int | None
    first_open_offset: int | None
    cached_batches: int
    """How many of its last batches a broker can recognise as duplicates (at most 5)."""


@dataclass(frozen=True, slots=True)
class TransactionRow:
    """`transactions`: one that was aborted, is open, or was forgotten at a reset. Committed ones are counted in `transaction_counts`."""

    log: str
    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    state: str
    """ABORTED, ONGOING or FORGOTTEN."""
    first_offset: int
    begins_before_log: bool
    """Then `first_offset` is that of the first batch that is left."""
    last_offset: int | None
    """Of its marker, or of the reset."""
    last_stable_offset: int | None
    """At its ABORT."""
    first_timestamp: int
    last_timestamp: int
    """Of its data."""
    coordinator_epoch: int | None
    batches: int
    age_ms: int | None
    """Of an open one: since its first batch, at the time of the replay, or of the log's newest batch if no time was given."""
    protocol: int | None
    """2 where the marker raised the producer's epoch (KIP-890), 1 where it did not, None without a marker."""


@dataclass(frozen=True, slots=True)
class TransactionCounts:
    """`transaction_counts`: a partition's transactions."""

    log: str
    topic: str
    partition: int
    committed: int
    aborted: int
    ongoing: int
    forgotten: int
    empty_markers: int
    epoch_bumps: int


@dataclass(frozen=True, slots=True)
class IndexRow:
    """`indexes`: an `.index` or `.timeindex`."""

    log: str
    topic: str
    partition: int
    base_offset: int
    kind: str
    entries: int
    exact: int
    sound: int
    wrong: int


TABLES: Final[dict[str, type[Any]]] = {
    "logs": LogRow,
    "structure": SegmentRow,
    "leader_epochs": LeaderEpochRow,
    "producers": ProducerRow,
    "transactions": TransactionRow,
    "transaction_counts": TransactionCounts,
    "indexes": IndexRow,
    "findings": Finding,
}


@dataclass(slots=True)
class ReplayTables:
    """Rows of every table; `+=` of other partitions' rows by `extend`."""

    logs: list[LogRow] = field(default_factory=list)
    structure: list[SegmentRow] = field(default_factory=list)
    leader_epochs: list[LeaderEpochRow] = field(default_factory=list)
    producers: list[ProducerRow] = field(default_factory=list)
    transactions: list[TransactionRow] = field(default_factory=list)
    transaction_counts: list[TransactionCounts] = field(default_factory=list)
    indexes: list[IndexRow] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def rows(self, table: str) -> Sequence[Any]:
        rows: Sequence[Any] = getattr(self, table)
        return rows

    def extend(self, other: ReplayTables) -> None:
        for table in TABLES:
            getattr(self, table).extend(other.rows(table))


def as_dict(row: object) -> dict[str, Any]:
    """A row as column -> value."""
    return {column.name: getattr(row, column.name) for column in fields(row)}  # type: ignore[arg-type]
