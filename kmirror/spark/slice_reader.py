"""Reads a slice of a segment as Arrow batches: the work of a task.

    rows of batches          headers (`verify.header_scan`); the CRC of every batch only for
                             `crc_valid`
    rows of records,
      columns of headers     headers; only batches that were compacted, or lie across an end of the
                             wanted offsets, are unpacked
      others                 every batch with its CRC (`verify.batch_walk`), unpacked in pieces of
                             bounded size (`verify.unpacking`)

An Arrow batch holds the records of at most one piece and at most `MOST_ROWS`. Small ones are
combined, because each costs Spark a round trip.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kmirror.common.errors import ApiException, CorruptFileError
from kmirror.common.ports import FileSystem
from kmirror.record.columns import Int64s, headers_from
from kmirror.record.control_record import ControlRecordType
from kmirror.record.record_batch import CONTROL_FLAG, CURRENT_MAGIC, LOG_OVERHEAD, RECORD_BATCH_OVERHEAD, TRANSACTIONAL_FLAG, RecordBatch
from kmirror.spark.columns import WITHOUT_UNPACKING, Batches, Records, batch_rows, corrupt_row, record_rows
from kmirror.spark.filters import NO_TIME
from kmirror.verify.batch_walk import BadBytes, walk
from kmirror.verify.epoch_claims import EpochClaims, Rise
from kmirror.verify.header_scan import HeaderBlock, read_headers
from kmirror.verify.planner import MAX_OFFSET
from kmirror.verify.slices import LogSlice
from kmirror.verify.tail import check_tail
from kmirror.verify.unpacking import MalformedBatchError, Unpacker
from kmirror.verify.visibility import AbortedTransaction

PIECE_BYTES: Final = 4 << 20
MOST_ROWS: Final = 1 << 17
FEW_ROWS: Final = 4096
_FEW_BYTES: Final = 1 << 20
_LAST_RELATIVE_OFFSET: Final = (1 << 31) - 1


@dataclass(frozen=True)
class Aborted:
    """The aborted transactions of a partition, by ascending first offset. Each entry has the
    producer, the first offset and the marker's offset."""

    producer_id: Int64s
    first_offset: Int64s
    last_offset: Int64s

    @classmethod
    def of(cls, transactions: Sequence[AbortedTransaction]) -> Aborted:
        table = np.array(transactions, dtype=np.int64).reshape(len(transactions), 3)
        return cls(table[:, 0], table[:, 1], table[:, 2])

    def rows(self, headers: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Returns a mask of the batches that belong to an aborted transaction."""
        found = np.zeros(len(headers), dtype=bool)
        if not len(headers) or not len(self.producer_id):
            return found
        first, last = headers["base_offset"].min(), headers["base_offset"].max()
        for entry in np.flatnonzero((self.first_offset <= last) & (self.last_offset >= first)).tolist():
            inside = (headers["base_offset"] >= self.first_offset[entry]) & (headers["base_offset"] <= self.last_offset[entry])
            found |= inside & (headers["producer_id"] == self.producer_id[entry])
        found &= headers["attributes"] & TRANSACTIONAL_FLAG != 0
        return found


@dataclass(frozen=True)
class Wanted:
    """What is wanted of a slice: offsets from `low` to `high`, batches with a record at `time_low`
    or later, optionally without control batches or aborted transactions."""

    low: int = 0
    high: int = MAX_OFFSET
    time_low: int = NO_TIME
    no_control: bool = False
    aborted: Aborted | None = None

    def rows(self, headers: npt.NDArray[Any], last_offset: Int64s) -> npt.NDArray[np.bool_]:
        kept: npt.NDArray[np.bool_] = (last_offset >= self.low) & (headers["base_offset"] <= self.high)
        if self.time_low != NO_TIME:
            kept &= headers["max_timestamp"] >= self.time_low
        if self.no_control:
            kept &= headers["attributes"] & CONTROL_FLAG == 0
        if self.aborted is not None:
            kept &= ~self.aborted.rows(headers)
        return kept


class SliceReader:
    """Reads slices one after the other, with one buffer for all of them."""

    def __init__(self, names: Sequence[str], *, rows_of_batches: bool, permissive: bool, null_headers: bool = False) -> None:
        self.names = names
        self._rows_of_batches = rows_of_batches
        self._permissive = permissive
        self._null_headers = null_headers
        self._unpacker: Unpacker | None = None
        self._headers_do = rows_of_batches or set(names) <= WITHOUT_UNPACKING
        self._derives_offsets = "offset" in names
        self.next_offset = 0
        """All rows of the slice below this offset were given out."""

    def read(self, files: FileSystem, piece: LogSlice, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a slice. CorruptFileError for damage, unless damage is to become
        rows."""
        self.next_offset = wanted.low
        if self._headers_do and not self._permissive:
            yield from self._read_headers(files, piece, wanted)
        else:
            yield from self._read_batches(files, piece, wanted)

    # headers alone
    def _read_headers(self, files: FileSystem, piece: LogSlice, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        position, next_offset, epoch, claims = piece.start, piece.base_offset, -1, EpochClaims(files, piece.path)
        for block in read_headers(files, piece, check_crc=self._rows_of_batches and "crc_valid" in self.names):
            batches = Batches(piece, block.headers, block.positions, _control_types(block), block.crc_ok)
            epoch = _check_order(batches, next_offset, epoch, claims)
            position, next_offset = block.end_position, int(batches.last_offset[-1]) + 1
            kept = batches.take(np.flatnonzero(self._kept(batches, wanted)))
            if len(kept.headers):
                yield from [batch_rows(kept, self.names)] if self._rows_of_batches else self._records_of_headers(files, kept, wanted)
            self.next_offset = next_offset
            if int(batches.headers["base_offset"][-1]) > wanted.high:
                return
        check_tail(files, piece, position, next_offset)

    def _kept(self, batches: Batches, wanted: Wanted) -> npt.NDArray[np.bool_]:
        if self._rows_of_batches:
            base = batches.headers["base_offset"]
            return wanted.rows(batches.headers, batches.last_offset) & (base >= wanted.low)
        return wanted.rows(batches.headers, batches.last_offset) & (batches.headers["record_count"] > 0)

    def _records_of_headers(self, files: FileSystem, batches: Batches, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """Yields rows of records from headers; batches whose headers do not tell enough are
        read."""
        headers = batches.headers
        is_whole = headers["record_count"] == headers["last_offset_delta"].astype(np.int64) + 1
        is_inside = (headers["base_offset"] >= wanted.low) & (batches.last_offset <= wanted.high)
        told = is_whole | is_inside if not self._derives_offsets else is_whole
        bounds = [0, *(np.flatnonzero(told[1:] != told[:-1]) + 1).tolist(), len(told)]
        for start, stop in zip(bounds, bounds[1:]):
            run = batches.take(np.arange(start, stop))
            if told[start]:
                yield from self._derived(run, wanted)
            else:
                found = [_read_batch(files, batches.piece, int(position), int(size)) for position, size in _extents(run)]
                yield from self._unpacked(found, run, wanted)
            self.next_offset = int(run.last_offset[-1]) + 1

    def _derived(self, batches: Batches, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """Yields `MOST_ROWS` at a time, however many records a header claims."""
        base, last = batches.headers["base_offset"], batches.last_offset
        inside = (base >= wanted.low) & (last <= wanted.high)
        ends = np.cumsum(batches.headers["record_count"].astype(np.int64))
        for start in range(0, int(ends[-1]), MOST_ROWS):
            number = np.arange(start, min(start + MOST_ROWS, int(ends[-1])), dtype=np.int64)
            batch_row = np.searchsorted(ends, number, side="right")
            offset = number - ends[batch_row] + batches.headers["record_count"][batch_row] + base[batch_row]
            kept = inside[batch_row] | (offset >= wanted.low) & (offset <= wanted.high)
            yield from self._tables(Records(batches, batch_row[kept], offset[kept]))

    # whole batches
    def _read_batches(self, files: FileSystem, piece: LogSlice, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        epoch = -1
        for run in walk(files, piece, skip_bad=self._permissive):
            if isinstance(run, BadBytes):
                if self.next_offset <= wanted.high:  # the damage may be in the offset that the batch claims
                    yield corrupt_row(piece, run.position, run.offset, run.reason, self.names)
                continue
            headers = headers_from([batch.memory[:RECORD_BATCH_OVERHEAD] for batch in run.batches])
            types = {
                row: _control_type(run.batches[row]) for row in np.flatnonzero(headers["attributes"] & CONTROL_FLAG).tolist()
            } if "control_type" in self.names else {}  # fmt: skip
            batches = Batches(piece, headers, np.array(run.positions, dtype=np.int64), types, np.ones(len(headers), dtype=bool))
            if not self._permissive:
                epoch = _check_magic_and_epochs(batches, epoch)
            rows = np.flatnonzero(self._kept(batches, wanted))
            kept = batches.take(rows)
            if self._rows_of_batches and len(rows):
                yield batch_rows(kept, self.names)
            elif len(rows):
                yield from self._unpacked([run.batches[row] for row in rows.tolist()], kept, wanted)
            self.next_offset = int(batches.last_offset[-1]) + 1
            if run.batches[-1].base_offset > wanted.high:
                return

    def _unpacked(self, found: Sequence[RecordBatch], batches: Batches, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        if self._unpacker is None:
            self._unpacker = Unpacker(PIECE_BYTES)
        done = 0
        while done < len(found):
            try:
                for piece in self._unpacker.pieces(found[done:]):
                    offset = piece.records.offset
                    rows = np.flatnonzero((offset >= wanted.low) & (offset <= wanted.high))
                    batch_row = piece.records.batch_index[rows] + (done + piece.first)
                    yield from self._tables(Records(batches, batch_row, offset[rows], piece.records, rows))
                    if len(rows):
                        self.next_offset = int(offset[rows[-1]]) + 1
                return
            except MalformedBatchError as error:
                row = done + error.index
                position, slice_ = int(batches.positions[row]), batches.piece
                if not self._permissive:
                    raise CorruptFileError(slice_.path, position, error.problem.message) from error
                yield corrupt_row(slice_, position, found[row].base_offset, error.problem.message, self.names)
                done = row + 1

    def _tables(self, records: Records) -> Iterator[pa.RecordBatch]:
        for start in range(0, len(records), MOST_ROWS):
            yield record_rows(records.slice(start, start + MOST_ROWS), self.names, null_headers=self._null_headers)


def check_headers(files: FileSystem, piece: LogSlice, next_offset: int) -> int:
    """Returns the offset behind a slice. CorruptFileError if offsets, counts or leader epochs in its
    headers are impossible."""
    epoch, claims = -1, EpochClaims(files, piece.path)
    for block in read_headers(files, piece, check_crc=False):
        batches = Batches(piece, block.headers, block.positions, {}, None)
        epoch = _check_order(batches, next_offset, epoch, claims)
        next_offset = int(batches.last_offset[-1]) + 1
    return next_offset


def put_together(tables: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the same rows, with small Arrow batches combined."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for table in tables:
        if not table.num_rows:
            continue
        if table.nbytes >= _FEW_BYTES:  # not to be copied: with a record of 2 GB there is no room for others
            if held:
                yield _joined(held)
            yield table
            held, rows, size = [], 0, 0
            continue
        held.append(table)
        rows += table.num_rows
        size += table.nbytes
        if rows >= FEW_ROWS or size >= _FEW_BYTES:
            yield _joined(held)
            held, rows, size = [], 0, 0
    if held:
        yield _joined(held)


def _joined(tables: list[pa.RecordBatch]) -> pa.RecordBatch:
    return tables[0] if len(tables) == 1 else pa.Table.from_batches(tables).combine_chunks().to_batches()[0]


def _check_order(batches: Batches, next_offset: int, epoch: int, claims: EpochClaims) -> int:
    """Returns the last leader epoch. CorruptFileError for the first batch with impossible offsets or
    an impossible record count, another magic, or one whose leader epoch is below that of a batch
    before it (-1 is none) or above what the log has there (`epoch_claims`)."""
    base, last = batches.headers["base_offset"], batches.last_offset
    expected = np.concatenate([[next_offset], last[:-1] + 1])
    wrong = (base < expected) | (last < base) | (last > batches.piece.base_offset + _LAST_RELATIVE_OFFSET)
    miscounted = (batches.headers["record_count"] < 0) | (batches.headers["record_count"] > last - base + 1)
    if (wrong | miscounted).any():
        row = int(np.argmax(wrong | miscounted))
        reason = f"a batch with {batches.headers['record_count'][row]} records at offsets {base[row]} to {last[row]}"
        if wrong[row]:
            reason = f"a batch with offsets {base[row]} to {last[row]}, and offset {expected[row]} is the next"
        raise CorruptFileError(batches.piece.path, int(batches.positions[row]), reason)
    latest = _check_magic_and_epochs(batches, epoch)
    _check_rises(batches, next_offset, epoch, claims)
    return latest


def _check_rises(batches: Batches, next_offset: int, epoch: int, claims: EpochClaims) -> None:
    """Looks only where epochs, which do not fall, rise."""
    found, piece = batches.headers["partition_leader_epoch"], batches.piece
    before = np.maximum.accumulate(np.concatenate([[epoch], found[:-1]]))
    for row in np.flatnonzero((before >= 0) & (found > before)).tolist():
        position, next_of_row = int(batches.positions[row]), int(batches.last_offset[row]) + 1
        end = position + int(batches.headers["length"][row]) + LOG_OVERHEAD
        last_before = next_offset - 1 if row == 0 else int(batches.last_offset[row - 1])
        ends_log = piece.ends_log_at(end)
        rise = Rise(int(found[row]), int(batches.headers["base_offset"][row]), next_of_row, int(before[row]), last_before, ends_log)
        problem = claims.problem(rise)
        if problem is not None:
            raise CorruptFileError(piece.path, position, problem)


def _check_magic_and_epochs(batches: Batches, epoch: int) -> int:
    magic = batches.headers["magic"]
    if (magic != CURRENT_MAGIC).any():
        row = int(np.argmax(magic != CURRENT_MAGIC))
        raise CorruptFileError(
            batches.piece.path, int(batches.positions[row]), f"a batch of magic {magic[row]}; only format v2 can be read"
        )
    found = batches.headers["partition_leader_epoch"]
    latest = np.maximum.accumulate(np.concatenate([[epoch], found]))
    is_lower = (found >= 0) & (found < latest[:-1])
    if is_lower.any():
        row = int(np.argmax(is_lower))
        reason = f"a batch of leader epoch {found[row]} at offset {batches.headers['base_offset'][row]}, behind one of epoch {latest[row]}"
        raise CorruptFileError(batches.piece.path, int(batches.positions[row]), reason)
    return int(latest[-1])


def _control_types(block: HeaderBlock) -> dict[int, str]:
    known = {one.value: one.name for one in ControlRecordType}
    return {control.row: known.get(control.control_type, "UNKNOWN") for control in block.controls}


def _control_type(batch: RecordBatch) -> str:
    try:
        record = next(batch.records(), None)
        return "UNKNOWN" if record is None else ControlRecordType.parse(record.key).name
    except ApiException:
        return "UNKNOWN"


def _extents(batches: Batches) -> Any:
    return zip(batches.positions.tolist(), (batches.headers["length"] + LOG_OVERHEAD).tolist())


def _read_batch(files: FileSystem, piece: LogSlice, position: int, size: int) -> RecordBatch:
    """Returns a batch that lies completely in the segment. CorruptFileError if its CRC is wrong."""
    file = files.open(piece.path, write=False)
    try:
        batch = RecordBatch(file.pread(size, position))
    finally:
        file.close()
    if not batch.is_valid():
        raise CorruptFileError(piece.path, position, f"the CRC of the batch at offset {batch.base_offset} is wrong")
    return batch
