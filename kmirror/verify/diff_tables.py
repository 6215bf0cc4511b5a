"""The tables that `kafka-log-diff --output DIR` writes: columns, their types and what they mean.
`log_diff_tables` and `spark.tables` write them.

    partitions    one row per partition: the verdict and both logs
    differences   one row per difference, a range of offsets; the first --max-differences of each
                  partition
    segments      one row per segment of either side: which file was read, and how far it is sound
    chunks        one row per chunk of a segment: an interval of offsets and the fingerprint of the
                  batches in it

The next run with the same DIR uses `segments` and `chunks` to skip what has not changed. Their rows
are in the same order, A before B, with `chunk_count` chunk rows for each segment. `schema_version`
is raised when a column changes its meaning or is removed; new columns may be added at any time. A
value that is not known is null.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from kmirror.verify.chunks import CHUNK_DTYPE, NO_CHUNKS
from kmirror.verify.fingerprint import VERSION
from kmirror.verify.segment_print import SegmentPrint
from kmirror.verify.verdict import BatchFacts, Difference, LogFacts, PartitionVerdict

SCHEMA_VERSION: Final = 1


class Column(NamedTuple):
    name: str
    type: str
    """int64, int32, string, bool or double."""
    meaning: str


class Table(NamedTuple):
    name: str
    columns: tuple[Column, ...]


def _log(side: str, where: str) -> tuple[Column, ...]:
    return (
        Column(f"{side}_log", "string", f"the partition's folder in {where}; null if {where} has no such partition"),
        Column(f"{side}_start_offset", "int64", "its log start offset"),
        Column(f"{side}_end_offset", "int64", "its log end offset"),
        Column(f"{side}_high_watermark", "int64", "its high watermark in replication-offset-checkpoint"),
        Column(f"{side}_size_bytes", "int64", "the size of its .log files in bytes"),
        Column(f"{side}_segment_count", "int32", "the number of its segments"),
        Column(f"{side}_trailing_bytes", "int64", "the bytes of an incomplete batch at its end"),
    )


def _first_batch(side: str) -> tuple[Column, ...]:
    return (
        Column(f"{side}_batch_count", "int64", "the number of batches of this side in the range"),
        Column(f"{side}_size_bytes", "int64", "their bytes"),
        Column(f"{side}_file", "string", "the file of the first of these batches"),
        Column(f"{side}_position", "int64", "the position of that batch in the file"),
        Column(f"{side}_leader_epoch", "int32", "the leader epoch of that batch"),
    )


_VERSION: Final = Column("schema_version", "int32", f"{SCHEMA_VERSION}")
_TOPIC: Final = Column("topic", "string", "the topic")
_PARTITION: Final = Column("partition", "int32", "the partition's number")
_SIDE: Final = Column("side", "string", "A or B")

PARTITIONS: Final = Table(
    "partitions",
    (
        _VERSION,
        _TOPIC,
        _PARTITION,
        Column("replicas_of", "string", "A or B, if both logs are replicas of that side; null where A is compared with B"),
        Column("status", "string", "equal, different or error"),
        Column("start_offset", "int64", "the higher of both log start offsets; nothing below it was compared"),
        *_log("left", "A"),
        *_log("right", "B"),
        Column("equal_bytes", "int64", "the number of bytes that are equal on both sides"),
        Column("difference_count", "int64", "the number of differences that were not ignored"),
        Column("ignored_count", "int64", "the number of differences that --ignore and --allow-lag ignored"),
        Column("left_bytes_read", "int64", "the bytes of A's log that were read for fingerprints in this run"),
        Column("right_bytes_read", "int64", "the same for B's log"),
        Column("error", "string", "the file, the position and the reason if a log cannot be read to its end"),
    ),
)
DIFFERENCES: Final = Table(
    "differences",
    (
        _VERSION,
        _TOPIC,
        _PARTITION,
        Column("replicas_of", "string", "as in `partitions`"),
        Column("kind", "string", "the kind of the difference, see kafka-log-diff --help"),
        Column("first_offset", "int64", "the first offset of the range"),
        Column("last_offset", "int64", "the last offset of the range"),
        *_first_batch("left"),
        *_first_batch("right"),
        Column("detail", "string", "a description of the difference"),
    ),
)
SEGMENTS: Final = Table(
    "segments",
    (
        _VERSION,
        Column("fingerprint_version", "int32", f"{VERSION}; fingerprints of another version are not used"),
        _SIDE,
        _TOPIC,
        _PARTITION,
        Column("folder", "string", "the partition's folder"),
        Column("base_offset", "int64", "the base offset of the segment"),
        Column("size_bytes", "int64", "the size of the .log file when it was read"),
        Column("mtime_ms", "int64", "the modification time of the .log file when it was read"),
        Column("identity", "string", "which file it was: inode and ctime on a local disk, and how far the cleaner had come"),
        Column("is_deep", "bool", "whether the records were hashed too"),
        Column("end_position", "int64", "the position after the last valid batch"),
        Column("last_position", "int64", "the position of that batch; -1 if there is none"),
        Column("last_header", "string", "the 61 bytes of its header in hex"),
        Column("problem", "string", "why the bytes after it are not valid"),
        Column("chunk_count", "int32", "the number of rows in `chunks`"),
    ),
)
CHUNKS: Final = Table(
    "chunks",
    (
        _VERSION,
        _SIDE,
        _TOPIC,
        _PARTITION,
        Column("segment", "int64", "the base offset of the segment"),
        Column("start", "int64", "the first offset of the interval, a multiple of 2^level"),
        Column("level", "int32", "the interval has 2^level offsets"),
        Column("first_offset", "int64", "the offset of the first batch in the interval"),
        Column("last_offset", "int64", "the last offset of the last batch in the interval"),
        Column("batch_count", "int64", "the number of batches in the interval"),
        Column("bad_crc_count", "int64", "the number of batches with a wrong CRC"),
        Column("size_bytes", "int64", "their bytes"),
        Column("position", "int64", "the position of the first of these batches in the segment"),
        Column("fingerprint", "int64", "the fingerprint of the batches, modulo 2^61 - 1"),
    ),
)
TABLES: Final = (PARTITIONS, DIFFERENCES, SEGMENTS, CHUNKS)

Columns = Mapping[str, Sequence[Any] | np.ndarray[Any, Any]]
"""The values of a table, by column."""


class PrintedLog(NamedTuple):
    """The prints of one partition on one side."""

    side: str
    topic: str
    partition: int
    folder: str
    prints: Sequence[SegmentPrint]


def _columns(table: Table, rows: Iterable[Sequence[Any]]) -> Columns:
    values = list(zip(*((SCHEMA_VERSION, *row) for row in rows))) or [()] * len(table.columns)
    assert len(values) == len(table.columns), f"{len(values)} values for the {len(table.columns)} columns of {table.name}"
    return {column.name: list(one) for column, one in zip(table.columns, values)}


def partition_columns(verdicts: Sequence[PartitionVerdict], printed: Sequence[PrintedLog]) -> Columns:
    read = {(one.side, one.folder): sum(segment.bytes_read for segment in one.prints) for one in printed}

    def row(verdict: PartitionVerdict) -> tuple[Any, ...]:
        name = (verdict.topic, verdict.partition)
        sides = (verdict.replicas_of or "A", verdict.replicas_of or "B")
        folders = zip(sides, (verdict.left, verdict.right))
        counts = (
            verdict.difference_count,
            sum(verdict.ignored_counts.values()),
            *(log and read.get((side, log.name)) for side, log in folders),
        )
        start = verdict.start_offset if verdict.start_offset >= 0 else None
        logs = (*_log_values(verdict.left), *_log_values(verdict.right))
        return (*name, verdict.replicas_of, verdict.status.value, start, *logs, verdict.bytes_compared, *counts, verdict.error)

    return _columns(PARTITIONS, map(row, verdicts))


def _log_values(log: LogFacts | None) -> tuple[Any, ...]:
    if log is None:
        return (None,) * 7
    offsets = log.log_start_offset, log.log_end_offset, log.high_watermark
    return (log.name, *offsets, log.size_bytes, log.segment_count, log.trailing_bytes)


def difference_columns(verdicts: Sequence[PartitionVerdict]) -> Columns:
    def row(verdict: PartitionVerdict, one: Difference) -> tuple[Any, ...]:
        left = (one.left_batch_count, one.left_size_bytes, *_batch_values(one.left))
        right = (one.right_batch_count, one.right_size_bytes, *_batch_values(one.right))
        return (one.topic, one.partition, verdict.replicas_of, one.kind.value, one.first_offset, one.last_offset, *left, *right, one.detail)

    return _columns(DIFFERENCES, (row(verdict, one) for verdict in verdicts for one in verdict.differences))


def _batch_values(batches: Sequence[BatchFacts]) -> tuple[Any, ...]:
    return (batches[0].file, batches[0].position, batches[0].leader_epoch) if batches else (None, None, None)


def segment_columns(printed: Sequence[PrintedLog]) -> Columns:
    def row(log: PrintedLog, one: SegmentPrint) -> tuple[Any, ...]:
        file = (one.base_offset, one.size_bytes, one.mtime_ms, one.identity, one.is_deep, one.end_position, one.last_position)
        last = one.last_header.hex() if one.last_header else None
        return (VERSION, log.side, log.topic, log.partition, log.folder, *file, last, one.problem, len(one.chunks))

    return _columns(SEGMENTS, (row(log, one) for log in printed for one in log.prints))


def chunk_columns(printed: Sequence[PrintedLog]) -> Columns:
    logs = [(log, one.chunks) for log in printed for one in log.prints]
    counts = [len(chunks) for _, chunks in logs]
    rows = np.concatenate([NO_CHUNKS, *(chunks for _, chunks in logs)])
    made: dict[str, Any] = {
        "schema_version": np.full(len(rows), SCHEMA_VERSION, dtype=np.int32),
        "side": np.repeat(np.array([log.side for log, _ in logs], dtype=object), counts),
        "topic": np.repeat(np.array([log.topic for log, _ in logs], dtype=object), counts),
        "partition": np.repeat(np.array([log.partition for log, _ in logs], dtype=np.int32), counts),
    }
    for column in CHUNKS.columns[4:]:
        made[column.name] = rows["value" if column.name == "fingerprint" else column.name].astype(column.type)
    return made


def known_prints(segments: Columns, chunks: Columns) -> dict[str, dict[int, SegmentPrint]]:
    """Returns what an earlier run knew, by folder, then by base offset. Rows of another version, or
    that do not add up, are ignored."""
    segments = {name: values.tolist() if isinstance(values, np.ndarray) else values for name, values in segments.items()}
    versions = {*segments["schema_version"], *np.unique(np.asarray(chunks["schema_version"])).tolist()}
    if versions - {SCHEMA_VERSION} or {*segments["fingerprint_version"]} - {VERSION}:
        return {}
    rows = np.zeros(len(chunks["start"]), dtype=CHUNK_DTYPE)
    for name in CHUNK_DTYPE.names or ():
        rows[name] = np.asarray(chunks["fingerprint" if name == "value" else name])
    found: dict[str, dict[int, SegmentPrint]] = {}
    begin = 0
    for index, count in enumerate(segments["chunk_count"]):
        one = {column.name: segments[column.name][index] for column in SEGMENTS.columns}
        behind = begin + count
        print_ = SegmentPrint(
            one["base_offset"],
            one["size_bytes"],
            one["mtime_ms"],
            one["is_deep"],
            one["end_position"],
            one["last_position"],
            bytes.fromhex(one["last_header"] or ""),
            rows[begin:behind],
            one["problem"],
            one["identity"],
        )
        if int(print_.chunks["size_bytes"].sum()) == print_.end_position and (print_.chunks["segment"] == print_.base_offset).all():
            found.setdefault(one["folder"], {})[one["base_offset"]] = print_
        begin = behind
    return found
