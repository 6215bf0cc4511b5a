"""What a task of a stream reads: ranges of offsets, wherever they lie by then.

A range comes with the segment slice that held it when the micro-batch was planned. Before it is
read, a broker may have rolled the segment (nothing changes), deleted it, replaced it with a cleaned
one (other bytes, the same offsets) or truncated it. So a slice is only a hint:

    the batch at its first byte must not begin after the range does, or the bytes are not those that
      were planned;
    a slice that ends before the range does counts only if its file still has the planned size;
    what cannot be read is looked up again by offset, from the first record that was not given out
      yet; the same error twice in a row is raised;
    a batch with a later leader epoch than the range's end was written after a truncation, and is
      not part of the range;
    a log that by then ends or begins within the range has lost data.

With `failOnDataLoss=false` lost data is a warning, and the rest is given out.
"""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
from pyspark.sql.datasource import InputPartition

from kmirror.common.errors import CorruptFileError, KmirrorError, disk_error_text
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.columns import Int64s
from kmirror.spark.columns import CORRUPT_COLUMN
from kmirror.spark.files import file_system_for
from kmirror.spark.slice_reader import SliceReader, Wanted
from kmirror.spark.stream_log import settled
from kmirror.storage.reader import read_partition
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
    """Records that a stream had planned to read are gone."""


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

    @property
    def size(self) -> int:
        return self.piece.size


@dataclass
class StreamTask(InputPartition):  # type: ignore[misc]
    """What one task reads."""

    pieces: list[RangePiece] = field(default_factory=list)


def ranges_of(files: FileSystem, slices: Sequence[LogSlice], wanted: WantedRange) -> list[RangePiece]:
    """Returns a range that several slices hold, cut at the offsets where they begin.
    CorruptFileError if these do not ascend: then the file has been replaced."""
    begins = [wanted.low]
    for one in slices[1:]:
        begin = one.base_offset if one.start == 0 else _first_offset(files, one)
        if not begins[-1] <= begin <= max(begins[-1], wanted.high + 1):
            raise CorruptFileError(one.path, one.start, f"a batch at offset {begin}, between {begins[-1]} and {wanted.high}")
        begins.append(begin)
    ends = [*(begin - 1 for begin in begins[1:]), wanted.high]
    found = zip(slices, begins, ends)
    return [
        RangePiece(one, replace(wanted, low=max(low, wanted.low), high=min(high, wanted.high))) for one, low, high in found if low <= high
    ]


def _first_offset(files: FileSystem, one: LogSlice) -> int:
    with closing(files.open(one.path, write=False)) as file:
        data = file.pread(_OFFSET_SIZE, one.start)
    if len(data) < _OFFSET_SIZE:
        raise CorruptFileError(one.path, one.start, "the file became shorter while it was read")
    return int.from_bytes(data, "big", signed=True)


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
        slices, next_offset, last_error = [given.piece], given.wanted.low, ""
        while True:
            try:
                for one in slices:
                    self._check_start(files, one, next_offset)
                    try:
                        yield from self._rows(files, one, replace(given.wanted, low=next_offset))
                    finally:
                        next_offset = max(next_offset, self._reader.next_offset)
                    if next_offset <= given.wanted.high and _is_other_file(files, one):
                        raise _MovedError(f"{one.path} is another file now")
                return
            except (CorruptFileError, OSError, _MovedError) as error:
                if str(error) == last_error:
                    raise
                last_error = str(error)
            slices = self._looked_up(files, given, next_offset)

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
        span = f"offsets {low} to {wanted.high} of {name}"
        try:
            partition = settled(files, read_partition(files, folder, name))
        except (FileNotFoundError, NotADirectoryError) as error:
            wanted.losses.tell(f"{span} were deleted while they were read: {disk_error_text(error)}")
            return []
        if not partition.segments or partition.segments[0].base_offset > low:
            first = partition.segments[0].base_offset if partition.segments else "nowhere"
            wanted.losses.tell(f"{span} were to be read (leader epoch {wanted.most_epoch}), and the log begins at {first} by now")
        end = DirectoryLog(files, partition).log_end_offset() if not self._is_permissive else MAX_OFFSET
        if end <= wanted.high:
            wanted.losses.tell(f"{span} were to be read (leader epoch {wanted.most_epoch}), and the log was truncated to {end} by now")
        listing = Listing(given.piece.location, folder, [partition], True, {})
        return list(listing.slices(files, partition, task_bytes=MAX_OFFSET, low=low, high=wanted.high))


class _MovedError(KmirrorError):
    """The bytes at a slice are not those that were planned."""


def _has_corrupt(table: pa.RecordBatch) -> bool:
    return CORRUPT_COLUMN in table.schema.names and table.column(CORRUPT_COLUMN).null_count < len(table)


def _is_other_file(files: FileSystem, one: LogSlice) -> bool:
    """Whether a segment's size has changed since it was listed; the last segment may have grown."""
    try:
        size = files.size(one.path)
    except FileNotFoundError:
        return True
    return size < one.segment_size if one.is_last_segment else size != one.segment_size
