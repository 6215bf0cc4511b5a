"""What one task writes: a folder for each partition that it has records of, with segments as a
broker writes them.

    TaskWriter    sorts incoming Arrow batches by topic and partition
    StagedLog     the records of one partition: collects some MB, builds batches (`record_bytes`),
                  appends them to segments (`storage`)
    Piece         the result, for the commit

Records without offsets of their own get 0, 1, 2 ...; the commit shifts those (a batch's base offset
is not covered by its CRC, and indexes are relative). Memory holds some MB per partition, at most
about `PENDING_BYTES` for all partitions, or one record if that is larger.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.columns import Int64s
from kmirror.record.record import NO_TIMESTAMP
from kmirror.runtime.system_ports import SystemClock
from kmirror.spark.arrow_bytes import HEADERS
from kmirror.spark.local_writes import PutOff, WritableLocalFiles, local_ports
from kmirror.spark.options import NAME
from kmirror.spark.partitioner import Partitioner
from kmirror.spark.record_bytes import MAX_RECORD_BYTES, ROWS, BuiltBatch, build_batches, cut_into_batches, record_sizes
from kmirror.spark.write_options import WriteOptions, check_topic
from kmirror.storage.log_segment import LogSegment
from kmirror.storage.ports import LogPorts

PIECE_BYTES: Final = 8 << 20
PENDING_BYTES: Final = 64 << 20
JOINED_BYTES: Final = 256 << 20
MOST_OFFSET: Final = (1 << 63) - 2
"""The log's end, which is the next offset, has 64 bits too."""


class StagedSegment(NamedTuple):
    """A closed segment, with the offsets as they were staged."""

    base_offset: int
    last_offset: int
    size: int
    max_timestamp: int


class Piece(NamedTuple):
    """The records of one partition that one task wrote. `epochs`: (leader epoch, its first offset),
    or nothing if the commit is to set it."""

    topic_partition: TopicPartition
    folder: str
    has_offsets: bool
    segments: tuple[StagedSegment, ...]
    epochs: tuple[tuple[int, int], ...]

    @property
    def first_offset(self) -> int:
        return self.segments[0].base_offset

    @property
    def last_offset(self) -> int:
        return self.segments[-1].last_offset


class StagedLog:
    """The records of one partition, in the order in which they arrive."""

    def __init__(self, topic_partition: TopicPartition, folder: str, options: WriteOptions, ports: LogPorts) -> None:
        self._name = topic_partition
        self._folder = folder
        self._options = options
        self._ports = ports
        self._pending: list[pa.RecordBatch] = []
        self.pending_bytes = 0
        self._next_offset = 0
        self._last_given: int | None = None
        self._has: dict[str, bool] = {}
        self._segment: LogSegment | None = None
        self._last_offset = -1
        self._segments: list[StagedSegment] = []
        self._epochs: list[tuple[int, int]] = []

    def add(self, rows: pa.RecordBatch, size: int) -> None:
        """Adds rows; `size` is about how many bytes they have."""
        self._check_all_or_none(rows, "offset")
        self._check_all_or_none(rows, "epoch")
        if self._has["offset"]:
            self._check_ascending(rows.column("offset").to_numpy())
        if self._pending and self.pending_bytes + size > JOINED_BYTES:
            self.flush(whole=True)
        self._pending.append(rows)
        self.pending_bytes += size
        if self.pending_bytes >= PIECE_BYTES + self._options.batch_bytes:
            self.flush(whole=False)

    def _check_all_or_none(self, rows: pa.RecordBatch, name: str) -> None:
        nulls = rows.column(name).null_count
        has = nulls == 0
        if nulls not in (0, rows.num_rows) or self._has.setdefault(name, has) is not has:
            column = "leader_epoch" if name == "epoch" else name
            raise KmirrorError(f"{NAME}: {self._name}: some records have a value in column {column} and some have none")

    def _check_ascending(self, offsets: Int64s) -> None:
        outside = (offsets < 0) | (offsets > MOST_OFFSET)
        if outside.any():
            raise KmirrorError(f"{NAME}: {self._name}: offset {offsets[np.argmax(outside)]}: offsets are from 0 to {MOST_OFFSET}")
        before = -1 if self._last_given is None else self._last_given
        steps = np.diff(offsets, prepend=before)
        if (steps <= 0).any():
            row = int(np.argmax(steps <= 0))
            above = int(offsets[row - 1]) if row else before
            raise KmirrorError(
                f"{NAME}: {self._name}: offset {int(offsets[row])} after {above}: offsets must ascend within a partition; "
                "kmirror.spark.write_log sorts them first"
            )
        self._last_given = int(offsets[-1])

    def flush(self, *, whole: bool) -> None:
        """Writes what is pending. The last batch, which may still grow, is written only with
        `whole`."""
        if not self._pending:
            return
        rows = self._pending[0] if len(self._pending) == 1 else _concatenated(self._pending)
        sizes = record_sizes(rows)
        cuts = cut_into_batches(rows, sizes, self._options.batch_bytes)
        kept = None
        if not whole and len(cuts) > 2:
            kept = rows.slice(cuts[-2])
            cuts = cuts[:-1]
        elif not whole:
            kept = rows
            cuts = [0]
        ends = np.concatenate([[0], np.cumsum(sizes)])
        for group in _groups(cuts, ends):
            part = rows.slice(group[0], group[-1] - group[0])
            self._build(part, [cut - group[0] for cut in group])
        self._pending = [kept] if kept is not None else []
        self.pending_bytes = int(ends[-1] - ends[cuts[-1]])

    def _build(self, rows: pa.RecordBatch, cuts: list[int]) -> None:
        options = self._options
        for batch in build_batches(rows, cuts, options.codec, first_offset=self._next_offset, epoch=options.leader_epoch or 0):
            self._append(batch)
        self._next_offset = self._last_offset + 1
        if self._segment is not None:
            self._segment.release_file()

    def _append(self, batch: BuiltBatch) -> None:
        header, last_offset, config = batch.header, batch.last_offset, self._options.log_config
        if self._segment is None or self._segment.should_roll(
            config,
            max_timestamp_in_messages=header[8],
            max_offset_in_messages=last_offset,
            messages_size=len(batch.data),
            now_ms=self._ports.clock.time_ms(),
        ):
            self._close_segment()
            ports = self._ports
            self._segment = LogSegment.open(self._folder, header[0], config, files=ports.files, clock=ports.clock, random=ports.random)
        self._segment.append(last_offset, (header,), batch.data)
        self._last_offset = last_offset
        epoch = header[2]
        if (self._has["epoch"] or self._options.leader_epoch is not None) and (not self._epochs or self._epochs[-1][0] != epoch):
            if self._epochs and epoch < self._epochs[-1][0]:
                raise KmirrorError(f"{NAME}: {self._name}: leader epoch {epoch} at offset {header[0]} after epoch {self._epochs[-1][0]}")
            self._epochs.append((epoch, header[0]))

    def _close_segment(self) -> None:
        segment, self._segment = self._segment, None
        if segment is not None:
            segment.on_become_inactive_segment()
            segment.flush()
            segment.close()
            self._segments.append(StagedSegment(segment.base_offset, self._last_offset, segment.size, segment.max_timestamp_so_far))

    def finish(self) -> Piece:
        """Writes everything to disk."""
        self.flush(whole=True)
        self._close_segment()
        return Piece(self._name, self._folder, self._has["offset"], tuple(self._segments), tuple(self._epochs))


def _concatenated(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _groups(cuts: list[int], ends: Int64s) -> Iterator[list[int]]:
    """Yields the cuts of batches that together have about `PIECE_BYTES`."""
    start = 0
    for index in range(1, len(cuts)):
        if index + 1 == len(cuts) or ends[cuts[index + 1]] - ends[cuts[start]] > PIECE_BYTES:
            yield cuts[start : index + 1]
            start = index


class TaskWriter:
    """Writes the records of one task into `folder`, which must exist."""

    def __init__(self, options: WriteOptions, folder: str, task_number: int) -> None:
        self._options = options
        self._folder = folder
        self._files = WritableLocalFiles()
        self._ports = local_ports(self._files, PutOff())
        self._logs: dict[TopicPartition, StagedLog] = {}
        count = options.partition_count
        self._partitioner = None if count is None else Partitioner(count, batch_bytes=options.batch_bytes, first=task_number)

    def write(self, batches: Iterable[pa.RecordBatch]) -> list[Piece]:
        for batch in batches:
            if batch.num_rows:
                self._add(batch)
        return [log.finish() for log in self._logs.values()]

    def _add(self, batch: pa.RecordBatch) -> None:
        columns = dict(zip(batch.schema.names, batch.columns))
        _refuse(columns, batch.num_rows)
        rows = _rows(columns, batch.num_rows, self._options)
        sizes = record_sizes(rows)
        if int(sizes.max()) > MAX_RECORD_BYTES:
            raise KmirrorError(f"{NAME}: a record has {int(sizes.max())} bytes, but a batch can have at most {MAX_RECORD_BYTES}")
        names, codes = self._places(columns, rows.column("key"), sizes)
        if (codes[1:] < codes[:-1]).any():
            order = np.argsort(codes, kind="stable")
            rows, sizes, codes = rows.take(pa.array(order)), sizes[order], codes[order]
        bounds = [0, *(np.flatnonzero(codes[1:] != codes[:-1]) + 1).tolist(), len(codes)]
        for start, stop in zip(bounds, bounds[1:]):
            code = int(codes[start])
            log = self._log(TopicPartition(names[code >> 32], code & 0xFFFFFFFF))
            log.add(rows.slice(start, stop - start), int(sizes[start:stop].sum()))
        while sum(log.pending_bytes for log in self._logs.values()) > PENDING_BYTES:
            max(self._logs.values(), key=lambda log: log.pending_bytes).flush(whole=True)

    def _places(self, columns: dict[str, Any], keys: pa.BinaryArray, sizes: Int64s) -> tuple[list[str], Int64s]:
        """Returns (topics, and for each record its topic's index there * 2^32 + its partition)."""
        partitions = self._partitions(columns, keys, sizes).astype(np.int64)
        if self._options.topic is not None:
            return [self._options.topic], partitions
        topics = columns["topic"]
        if topics.null_count:
            raise KmirrorError(f"{NAME}: a record has no topic; give every record one, or option topic")
        encoded = topics.dictionary_encode()
        return encoded.dictionary.to_pylist(), (encoded.indices.to_numpy().astype(np.int64) << 32) | partitions

    def _partitions(self, columns: dict[str, Any], keys: pa.BinaryArray, sizes: Int64s) -> Any:
        given = columns.get("partition")
        nulls = len(sizes) if given is None else given.null_count
        chosen: Any = None
        if nulls:
            if self._partitioner is None:
                raise KmirrorError(f"{NAME}: records name no partition; give a column partition, or option numPartitions")
            chosen = self._partitioner.partitions(keys, sizes)
        if given is None:
            return chosen
        found = pc.fill_null(given.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
        if found.min() < 0 or found.max() >= 1 << 31:
            raise KmirrorError(f"{NAME}: {int(found.min() if found.min() < 0 else found.max())} is not a partition number")
        return found if chosen is None else np.where(given.is_null().to_numpy(zero_copy_only=False), chosen, found)

    def _log(self, name: TopicPartition) -> StagedLog:
        if name not in self._logs:
            check_topic(name.topic)
            folder = f"{self._folder}/{name}"
            os.mkdir(folder)  # not the folders above: an abort may have removed those
            self._logs[name] = StagedLog(name, folder, self._options, self._ports)
        return self._logs[name]


def _refuse(columns: dict[str, Any], count: int) -> None:
    """KmirrorError for rows that cannot be written as records."""
    reasons = {
        "is_control": "is a control record, which only a transaction coordinator writes; leave those out with where('not is_control')",
        "is_transactional": "belongs to a transaction, which is not written: read with isolation.level=read_committed, then drop the column",
    }
    for name, reason in reasons.items():
        found = columns.get(name)
        if found is not None and pc.any(found).as_py():
            raise KmirrorError(f"{NAME}: {_place(columns, pc.index(found, True).as_py())} {reason}")
    damaged = columns.get("_corrupt")
    if damaged is not None and damaged.null_count < count:
        row = pc.index(damaged.is_valid(), True).as_py()
        raise KmirrorError(f"{NAME}: {_place(columns, row)} is damaged: {damaged[row].as_py()}")


def _place(columns: dict[str, Any], row: int) -> str:
    """Returns a record's place, for an error message."""
    topic, partition, offset = (columns[name][row].as_py() if name in columns else None for name in ("topic", "partition", "offset"))
    place = "a record" if topic is None or partition is None else f"{topic}-{partition}: a record"
    return place if offset is None else f"{place} (offset {offset})"


def _rows(columns: dict[str, Any], count: int, options: WriteOptions) -> pa.RecordBatch:
    """Returns the records as `record_bytes` wants them, in their order."""
    is_log_time = _is_log_time(columns, count, options)
    timestamps = _timestamps(columns, count, options)
    if count and int(timestamps.min()) < NO_TIMESTAMP:
        raise KmirrorError(f"{NAME}: a record has timestamp {int(timestamps.min())} ms; Kafka has none before 1970")
    nothing = pa.nulls(count)
    epochs = nothing if options.leader_epoch is not None else columns.get("leader_epoch", nothing)
    epochs = epochs.cast(pa.int32())
    arrays = [
        columns.get("key", nothing).cast(pa.binary()),
        columns["value"].cast(pa.binary()),
        columns.get("headers", nothing).cast(HEADERS),
        pa.array(timestamps),
        columns.get("offset", nothing).cast(pa.int64()),
        pc.if_else(pc.less(epochs, 0), pa.scalar(None, pa.int32()), epochs),
        pa.array(is_log_time),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=ROWS)


def _timestamps(columns: dict[str, Any], count: int, options: WriteOptions) -> Int64s:
    """Returns ms; the time of writing for rows without a timestamp, and for all with
    LogAppendTime."""
    found = np.full(count, SystemClock().time_ms(), dtype=np.int64)
    if options.is_log_append_time:
        return found
    for name in ("timestamp", "timestamp_ms"):
        given = columns.get(name)
        if given is None:
            continue
        if pa.types.is_timestamp(given.type):
            number = pc.fill_null(given.cast(pa.timestamp("us", given.type.tz)).cast(pa.int64()), 0).to_numpy(zero_copy_only=False) // 1000
        else:
            number = pc.fill_null(given, 0).to_numpy(zero_copy_only=False)
        found = np.where(given.is_null().to_numpy(zero_copy_only=False), found, number)
    return found


def _is_log_time(columns: dict[str, Any], count: int, options: WriteOptions) -> Any:
    if options.has_timestamp_type:
        return np.full(count, options.is_log_append_time)
    for name, values in (("timestamp_type", ("CreateTime", "LogAppendTime")), ("timestampType", (0, 1))):
        given = columns.get(name)
        if given is not None:
            known = pc.is_in(given, value_set=pa.array(values, type=given.type))
            if not pc.all(pc.or_(known, given.is_null())).as_py():
                raise KmirrorError(f"{NAME}: column {name} is {values[0]!r} or {values[1]!r}")
            return pc.fill_null(pc.equal(given, pa.scalar(values[1], given.type)), False).to_numpy(zero_copy_only=False)
    return np.zeros(count, dtype=np.bool_)
