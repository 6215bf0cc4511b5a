"""What a task reads: ranges of offsets, wherever they lie by then.

A range comes with the segment slice that held it when the query or micro-batch was planned. Before
it is read, a broker may have rolled the segment (nothing changes), deleted it, replaced it with a
cleaned one (other bytes, the same offsets) or truncated it. So a slice is only a hint:

    the batch at its first byte must not begin after the range does, or the bytes are not those that
      were planned;
    a slice that ends before the range does counts only if its file still has the planned size;
    a slice that ends after the range does, at a cut, is damaged if its file is still the same:
      offsets went back there, and no CRC covers a base offset;
    what cannot be read is looked up again by offset, from the first record that was not given out
      yet; the same error twice in a row is raised. First the headers from the range's start on are
      read again, and offsets that still go back there are damage: no CRC covers a base offset, so
      the record that was given out last may claim one far behind the rest;
    a batch with a later leader epoch than the range's end was written after a truncation, and is
      not part of the range;
    a log that by then ends or begins within the range has lost data. (A range of a batch query
      without an ending offset ends where the log does.)

With `failOnDataLoss=false` lost data is a warning, and the rest is given out.
"""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
from pyspark.sql.datasource import InputPartition

from kmirror.common.errors import CorruptFileError, KmirrorError, disk_error_text
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.columns import Int64s
from kmirror.spark.columns import CORRUPT_COLUMN, corrupt_row
from kmirror.spark.files import file_system_for
from kmirror.spark.options import ReadOptions
from kmirror.spark.settled import settled
from kmirror.spark.slice_reader import SliceReader, Wanted, check_headers
from kmirror.storage.reader import PartitionFiles, read_partition
from kmirror.verify.compared_log import DirectoryLog
from kmirror.verify.planner import MAX_OFFSET, Listing
from kmirror.verify.slices import LogSlice

if TYPE_CHECKING:
    import pyarrow as pa

    from kmirror.common.ports import FileSystem

MOST_EPOCH: Final = (1 << 31) - 1
_OFFSET_SIZE: Final = 8
_LOG: Final = logging.getLogger(__name__)


class DataLossError(KmirrorError):
    """Records that a query had planned to read are gone."""


@dataclass(frozen=True)
class LossReport:
    """How a query reacts to lost data: `failOnDataLoss`."""

    fails: bool
    is_silent: bool = False

    def tell(self, text: str) -> None:
        if self.fails:
            raise DataLossError(
                f"data loss: {text} (failOnDataLoss=true; with false the query logs a warning and continues with the records that are there)"
            )
        if not self.is_silent:
            _LOG.warning("kafka-log: data loss: %s", text)


@dataclass(frozen=True)
class WantedRange(Wanted):
    """`Wanted`, limited to batches up to the leader epoch at the range's end."""

    name: TopicPartition = TopicPartition("", 0)
    most_epoch: int = MOST_EPOCH
    losses: LossReport = LossReport(fails=True)

    def span(self, low: int) -> str:
        """Returns the range from `low` on, for an error message."""
        offsets = f"offsets from {low} on" if self.high == MAX_OFFSET else f"offsets {low} to {self.high}"
        return f"{offsets} of {self.name}"

    def planned(self, low: int) -> str:
        return f"{self.span(low)} were to be read" + ("" if self.most_epoch == MOST_EPOCH else f" (leader epoch {self.most_epoch})")

    def rows(self, headers: npt.NDArray[Any], last_offset: Int64s) -> npt.NDArray[np.bool_]:
        epoch = headers["partition_leader_epoch"]
        is_later = (epoch > self.most_epoch) & (last_offset >= self.low) & (headers["base_offset"] <= self.high)
        if is_later.any():
            row = int(np.argmax(is_later))
            self.losses.tell(
                f"{self.name} was truncated while it was read: offsets {self.low} to {self.high} were planned up to leader epoch "
                f"{self.most_epoch}, and offset {headers['base_offset'][row]} is of leader epoch {epoch[row]}"
            )
        return super().rows(headers, last_offset) & ~is_later


@dataclass(frozen=True)
class RangePiece:
    """Offsets `wanted.low` to `wanted.high` of a partition, and the slice where they were."""

    piece: LogSlice
    wanted: WantedRange
    ends_at_cut: bool = False
    """Whether the range goes on in the next piece."""

    @property
    def size(self) -> int:
        return self.piece.size


@dataclass
class RangeTask(InputPartition):  # type: ignore[misc]
    """What one task reads."""

    pieces: list[RangePiece] = field(default_factory=list)


def ranges_of(slices: Sequence[LogSlice], wanted: WantedRange) -> list[RangePiece]:
    """Returns a range that several slices hold, cut at the offsets where they begin.
    CorruptFileError if these do not ascend: then a file has been replaced, or is damaged."""
    if len(slices) == 1 and wanted.low <= wanted.high:
        return [RangePiece(slices[0], wanted)]
    begins = [wanted.low]
    for one in slices[1:]:
        begin = one.first_offset
        if not begins[-1] <= begin <= max(begins[-1], wanted.high + 1):
            raise CorruptFileError(one.path, one.start, f"a batch at offset {begin}, between {begins[-1]} and {wanted.high}")
        begins.append(begin)
    ends = [*(begin - 1 for begin in begins[1:]), wanted.high]
    last = len(slices) - 1
    return [
        RangePiece(one, replace(wanted, low=max(low, wanted.low), high=min(high, wanted.high)), ends_at_cut=row < last)
        for row, (one, low, high) in enumerate(zip(slices, begins, ends))
        if low <= high
    ]


def _first_offset(files: FileSystem, one: LogSlice) -> int:
    with closing(files.open(one.path, write=False)) as file:
        data = file.pread(_OFFSET_SIZE, one.start)
    if len(data) < _OFFSET_SIZE:
        raise CorruptFileError(one.path, one.start, "the file became shorter while it was read")
    return int.from_bytes(data, "big", signed=True)


def rows_of(options: ReadOptions, task: RangeTask) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a task as the options say."""
    names = (*options.columns, CORRUPT_COLUMN) if options.drops_damage else options.columns
    slices = SliceReader(names, rows_of_batches=options.rows == "batch", permissive=options.is_permissive, null_headers=options.is_kafka)
    reader = RangeReader(slices, is_permissive=options.is_permissive)
    for piece in task.pieces:
        tables = reader.read(piece)
        yield from map(_without_damage, tables) if options.drops_damage else tables


class RangeReader:
    """Reads ranges one after the other."""

    def __init__(self, reader: SliceReader, *, is_permissive: bool) -> None:
        self._reader = reader
        self._is_permissive = is_permissive
        self._opened: dict[str, FileSystem] = {}

    def read(self, given: RangePiece) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a range. CorruptFileError for damage, DataLossError for what is gone,
        as the options say."""
        files = self._files(given.piece.location)
        is_as_planned = yield from self._range(files, given)
        behind = self._reader.next_offset - 1
        if not (is_as_planned and given.ends_at_cut and behind > given.wanted.high) or _is_other_file(files, given.piece):
            return
        position, following = given.piece.end, given.wanted.high + 1
        reason = f"a batch at offset {following}, behind offset {behind}"
        if not self._is_permissive:
            raise CorruptFileError(given.piece.path, position, reason)
        yield corrupt_row(given.piece, position, following, reason, self._reader.names)

    def _range(self, files: FileSystem, given: RangePiece) -> Generator[pa.RecordBatch, None, bool]:
        """Yields the rows, and returns whether they were where they had been planned."""
        slices, next_offset, last_error = [given.piece], given.wanted.low, ""
        while True:
            try:
                for one in slices:
                    self._check_start(files, one, next_offset)
                    try:
                        yield from self._rows(files, one, replace(given.wanted, low=next_offset))
                    finally:
                        next_offset = max(next_offset, self._reader.next_offset)
                    if next_offset <= given.wanted.high < MAX_OFFSET and _is_other_file(files, one):
                        raise _MovedError(f"{one.path} is another file now")
                return not last_error
            except (CorruptFileError, OSError, _MovedError) as error:
                if str(error) == last_error or isinstance(error, CorruptFileError) and self._goes_back(files, given):
                    raise
                last_error = str(error)
            slices = self._looked_up(files, given, next_offset)

    def _goes_back(self, files: FileSystem, given: RangePiece) -> bool:
        """Whether offsets or leader epochs go back in the log as it is now, within the range."""
        wanted = given.wanted
        try:
            partition = settled(files, read_partition(files, posixpath.dirname(given.piece.path), wanted.name))
            listing = Listing(given.piece.location, partition.path, [partition], True, {})
            next_offset = -1
            for one in listing.slices(files, partition, task_bytes=MAX_OFFSET, low=wanted.low, high=wanted.high):
                next_offset = check_headers(files, one, max(next_offset, one.base_offset))
        except CorruptFileError:
            return True
        except OSError:
            return False
        return False

    def _files(self, location: str) -> FileSystem:
        if location not in self._opened:
            self._opened[location] = file_system_for(location)[0]
        return self._opened[location]

    def _rows(self, files: FileSystem, one: LogSlice, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        for table in self._reader.read(files, one, wanted):
            if self._is_permissive and _has_corrupt(table) and _is_other_file(files, one):
                raise _MovedError(f"{one.path} is another file now")
            yield table

    def _check_start(self, files: FileSystem, one: LogSlice, low: int) -> None:
        if one.start and _first_offset(files, one) > low:
            raise _MovedError(f"{one.path}: at byte {one.start}: no batch that begins at offset {low} or before")

    def _looked_up(self, files: FileSystem, given: RangePiece, low: int) -> list[LogSlice]:
        """Returns where the range, from `low` on, lies now."""
        wanted = given.wanted
        if low > wanted.high:
            return []
        folder, name = posixpath.dirname(given.piece.path), wanted.name
        try:
            partition = settled(files, read_partition(files, folder, name))
        except (FileNotFoundError, NotADirectoryError) as error:
            wanted.losses.tell(f"{wanted.span(low)} were deleted while they were read: {disk_error_text(error)}")
            return []
        if not partition.segments or partition.segments[0].base_offset > low:
            first = partition.segments[0].base_offset if partition.segments else "nowhere"
            wanted.losses.tell(f"{wanted.planned(low)}, and the log begins at {first} by now")
        end = self._end(files, partition) if wanted.high != MAX_OFFSET else MAX_OFFSET
        if end <= wanted.high < MAX_OFFSET:
            wanted.losses.tell(f"{wanted.planned(low)}, and the log was truncated to {end} by now")
        listing = Listing(given.piece.location, folder, [partition], True, {})
        return list(listing.slices(files, partition, task_bytes=MAX_OFFSET, low=low, high=wanted.high))

    def _end(self, files: FileSystem, partition: PartitionFiles) -> int:
        """Returns the log's end; MAX_OFFSET if damage hides it, which who reads the range finds."""
        if self._is_permissive:
            return MAX_OFFSET
        try:
            return DirectoryLog(files, partition).log_end_offset()
        except CorruptFileError:
            return MAX_OFFSET


class _MovedError(KmirrorError):
    """The bytes at a slice are not those that were planned."""


def _without_damage(table: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the sound rows, without the column that says so."""
    corrupt = table.column(CORRUPT_COLUMN)
    return table.filter(corrupt.is_null()).drop_columns([CORRUPT_COLUMN])


def _has_corrupt(table: pa.RecordBatch) -> bool:
    return CORRUPT_COLUMN in table.schema.names and table.column(CORRUPT_COLUMN).null_count < len(table)


def _is_other_file(files: FileSystem, one: LogSlice) -> bool:
    """Whether a segment's size has changed since it was listed; the last segment may have grown."""
    try:
        size = files.size(one.path)
    except FileNotFoundError:
        return True
    return size < one.segment_size if one.is_last_segment else size != one.segment_size
