"""The headers of a slice as numpy rows, with every batch's CRC checked if asked: the fast path of
count, fingerprint and replay.

A batch's length says where the next one begins, so one loop goes from length to length. Everything
else is done for a block of batches at a time.

With `check_crc` every byte is read, `block_bytes` at a time. Without it, the size of the previous
batches decides what is read: a block while they are smaller than `SMALL_BATCH_BYTES`, otherwise
each header by itself, with enough after it to hold a marker. A block that is mostly one batch's
body costs reading that body; a separate header costs a call.

Only the bodies of control batches are parsed: which marker, of which coordinator epoch, and which
cluster's producers a MIRROR_PID_RESET forgets.

Trust: `crc_ok` covers a batch from its attributes on. Base offset, length and leader epoch lie
before that. A wrong length shows at the next batch, which is then no batch. There, after everything
before it was given out, CorruptFileError names the byte. An incomplete batch is such an error too,
except at the end of a partition's last segment, where an append may be under way.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kmirror.common.crc32c import crc32c
from kmirror.common.errors import ApiException, CorruptFileError
from kmirror.common.ports import File, FileSystem
from kmirror.record.columns import HEADER_DTYPE, Bytes, Int64s
from kmirror.record.control_record import ControlRecordType, EndTransactionMarker
from kmirror.record.legacy import wrong_magic
from kmirror.record.record_batch import (
    ATTRIBUTES_POSITION,
    COMPRESSION_MASK,
    CONTROL_FLAG,
    CURRENT_MAGIC,
    HEADER_SIZE_UP_TO_MAGIC,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MIN_LEGACY_RECORD_SIZE,
    RECORD_BATCH_OVERHEAD,
    RecordBatch,
)
from kmirror.storage.reader import BLOCK_BYTES
from kmirror.verify.slices import LogSlice
from kmirror.wire.messages.mirror_pid_reset_record import MirrorPidResetRecord
from kmirror.wire.primitives import ProtocolReadError

SMALL_BATCH_BYTES: Final = 16 * 1024
"""Without CRC checks, batches up to this size are read in blocks, larger ones header by header."""
HEADER_READ_BYTES: Final = 512
"""How much of a large batch is read: its header, or a whole marker or reset."""
NO_CONTROL_RECORD: Final = -2
"""The type of a control batch that the cleaner emptied."""
_LENGTH: Final = struct.Struct(">i")
_NATIVE_DTYPE: Final = np.dtype([(name, HEADER_DTYPE[name].newbyteorder("=")) for name in HEADER_DTYPE.names or ()])
_HEADER_BYTES: Final = np.arange(RECORD_BATCH_OVERHEAD)

_MARKER_BYTES: Final = 78
"""The size of an ABORT or COMMIT as brokers write it; `record.control_record` has the grammar. A
marker whose deltas are not 0 is longer."""
_MARKER_BODY: Final = np.arange(RECORD_BATCH_OVERHEAD, _MARKER_BYTES)
_MARKER_TYPE: Final = 8
_MARKER_EPOCH: Final = 12
_MARKER_FIXED: Final = np.array([0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 16])
_MARKER_VALUES: Final = np.array([32, 0, 0, 0, 8, 0, 0, 0, 12, 0, 0, 0], dtype=np.uint8)
"""Record length, attributes, deltas, key length, key version, the type's first byte; value length
and version; no headers.
"""


class ControlBatch(NamedTuple):
    """What a control batch says."""

    row: int
    """The batch's row in the block's `headers`."""
    control_type: int
    """The id in its first record's key (`ControlRecordType`, or one that we do not know);
    NO_CONTROL_RECORD if it has no record.
    """
    coordinator_epoch: int
    """The coordinator epoch of an ABORT or COMMIT, otherwise -1."""
    timestamp: int
    """The record's timestamp."""
    source_cluster_id: str | None
    """The source cluster of a MIRROR_PID_RESET."""


class HeaderBlock(NamedTuple):
    """Batches that follow each other."""

    headers: npt.NDArray[Any]
    """One row per batch: the fields of `record.columns.HEADER_DTYPE` in native byte order."""
    positions: Int64s
    """Where each batch begins, in bytes of the segment."""
    crc_ok: npt.NDArray[np.bool_] | None
    """Whether the stored CRC matches the bytes; None if CRCs were not checked."""
    controls: list[ControlBatch]
    """The control batches, ascending, without those whose CRC was found to be wrong."""

    @property
    def end_position(self) -> int:
        return int(self.positions[-1]) + int(self.headers["length"][-1]) + LOG_OVERHEAD


def read_headers(files: FileSystem, piece: LogSlice, *, check_crc: bool, block_bytes: int = BLOCK_BYTES) -> Iterator[HeaderBlock]:
    """Yields the batches of `piece`, many at a time. CorruptFileError where the bytes are no batch
    (see above); OSError as the file system says."""
    file = files.open(piece.path, write=False)
    try:
        yield from _Scan(file, piece, check_crc=check_crc, block_bytes=max(block_bytes, RECORD_BATCH_OVERHEAD)).blocks()
    finally:
        file.close()


class _Scan:
    def __init__(self, file: File, piece: LogSlice, *, check_crc: bool, block_bytes: int) -> None:
        self._file = file
        self._piece = piece
        self._check_crc = check_crc
        self._block_bytes = block_bytes

    def blocks(self) -> Iterator[HeaderBlock]:
        position, end = self._piece.start, self._piece.end
        wanted = self._block_bytes
        while position < end:
            if wanted == 0:
                position, wanted, lone = self._lone_headers(position)
                if lone is not None:
                    yield lone
                continue
            size = min(wanted, end - position)
            data = memoryview(self._file.pread(size, position))
            cursors, used, problem = self._hop(data, position)
            if cursors:
                yield self._block(data, cursors, position)
            position += used
            if problem is not None:
                raise problem
            if position >= end:
                return
            head = bytes(data[used : used + HEADER_SIZE_UP_TO_MAGIC])
            if len(data) == size and len(head) < HEADER_SIZE_UP_TO_MAGIC:
                head = self._file.pread(min(HEADER_SIZE_UP_TO_MAGIC, end - position), position)
            needed = self._size_at(position, head)
            if len(data) < size or needed is None or needed > end - position:
                self._expect_append_under_way(position, needed, file_end=position - used + len(data))
                return
            wanted = self._next_read(needed, used, len(cursors))

    def _next_read(self, needed: int, used: int, count: int) -> int:
        """Returns how many bytes to read next, 0 for headers one by one; the next batch takes
        `needed` bytes."""
        if not self._check_crc and (needed > self._block_bytes or (count and used > count * SMALL_BATCH_BYTES)):
            return 0
        return max(self._block_bytes, needed)

    # blocks
    def _hop(self, data: memoryview, position: int) -> tuple[list[int], int, CorruptFileError | None]:
        """Returns (where the whole batches in `data` begin, where the last one ends, what is wrong
        there)."""
        cursors: list[int] = []
        append, unpack = cursors.append, _LENGTH.unpack_from
        cursor, size = 0, len(data)
        last = size - RECORD_BATCH_OVERHEAD
        while cursor <= last:
            length: int = unpack(data, cursor + 8)[0]
            if length < RECORD_BATCH_OVERHEAD - LOG_OVERHEAD or data[cursor + 16] < CURRENT_MAGIC:
                return cursors, cursor, self._no_batch(data[cursor : cursor + HEADER_SIZE_UP_TO_MAGIC], position + cursor)
            following = cursor + length + LOG_OVERHEAD
            if following > size:
                break
            append(cursor)
            cursor = following
        return cursors, cursor, None

    def _block(self, data: memoryview, cursors: list[int], position: int) -> HeaderBlock:
        starts = np.array(cursors, dtype=np.int64)
        headers = _headers_at(np.frombuffer(data, dtype=np.uint8), starts)
        crc_ok: npt.NDArray[np.bool_] | None = None
        if self._check_crc:
            ends = (starts + headers["length"] + LOG_OVERHEAD).tolist()
            computed = [crc32c(data[start + ATTRIBUTES_POSITION : end]) for start, end in zip(cursors, ends)]
            crc_ok = np.array(computed, dtype=np.uint32) == headers["crc"]
        is_control = headers["attributes"] & CONTROL_FLAG != 0
        rows = np.flatnonzero(is_control if crc_ok is None else is_control & crc_ok)
        controls = self._controls(data, headers, starts, rows, position) if len(rows) else []
        return HeaderBlock(headers, starts + position, crc_ok, controls)

    def _controls(self, data: memoryview, headers: npt.NDArray[Any], starts: Int64s, rows: Int64s, position: int) -> list[ControlBatch]:
        """Returns what the control batches at `rows` say. A marker as brokers write it has its
        fields at fixed places; all others are parsed."""
        chosen, at = headers[rows], starts[rows]
        is_marker = (
            (chosen["length"] == _MARKER_BYTES - LOG_OVERHEAD)
            & (chosen["attributes"] & COMPRESSION_MASK == 0)
            & (chosen["record_count"] == 1)
        )
        places = np.where(is_marker, at, 0)[:, None] + _MARKER_BODY
        bodies = np.frombuffer(data, dtype=np.uint8)[np.minimum(places, len(data) - 1)]
        is_marker &= (bodies[:, _MARKER_FIXED] == _MARKER_VALUES).all(axis=1) & (bodies[:, _MARKER_TYPE] <= ControlRecordType.COMMIT)
        epochs = np.ascontiguousarray(bodies[:, _MARKER_EPOCH : _MARKER_EPOCH + 4]).view(">i4").ravel().tolist()
        timestamps = np.where(chosen["attributes"] & LOG_APPEND_TIME_FLAG, chosen["max_timestamp"], chosen["base_timestamp"]).tolist()
        return [
            ControlBatch(row, kind, epoch, timestamp, None) if plain else self._control(RecordBatch(data, start), row, position + start)
            for row, plain, kind, epoch, timestamp, start in zip(
                rows.tolist(), is_marker.tolist(), bodies[:, _MARKER_TYPE].tolist(), epochs, timestamps, at.tolist()
            )
        ]

    # headers one by one
    def _lone_headers(self, position: int) -> tuple[int, int, HeaderBlock | None]:
        """Returns (where to go on, bytes to read there, what was found). Reads headers while
        batches are large, at most a block's worth of headers."""
        rows: list[bytes] = []
        positions: list[int] = []
        controls: list[ControlBatch] = []
        end, file = self._piece.end, self._file
        small = 0
        wanted = 0
        while len(rows) * RECORD_BATCH_OVERHEAD < self._block_bytes:
            data = file.pread(min(HEADER_READ_BYTES, end - position), position)
            size = _size_of(data)
            if size is None or size > end - position:
                wanted = self._block_bytes  # an end or an error: reading in blocks tells which
                break
            if data[ATTRIBUTES_POSITION + 1] & CONTROL_FLAG:
                whole = data if size <= len(data) else file.pread(size, position)
                controls.append(self._control(RecordBatch(whole), len(rows), position))
            elif size <= SMALL_BATCH_BYTES:
                small += 1
            else:
                small = 0
            rows.append(data[:RECORD_BATCH_OVERHEAD])
            positions.append(position)
            position += size
            if position >= end:
                break
            if small >= 8:
                wanted = self._block_bytes
                break
        if not rows:
            return position, wanted, None
        starts = np.arange(len(rows), dtype=np.int64) * RECORD_BATCH_OVERHEAD
        headers = _headers_at(np.frombuffer(b"".join(rows), dtype=np.uint8), starts)
        return position, wanted, HeaderBlock(headers, np.array(positions, dtype=np.int64), None, controls)

    # what is no batch
    def _size_at(self, position: int, head: bytes) -> int | None:
        """Returns the size of the batch that begins with `head`, None if `head` is too short to
        tell. CorruptFileError if it is no batch."""
        if len(head) < HEADER_SIZE_UP_TO_MAGIC:
            return None
        length: int = _LENGTH.unpack_from(head, 8)[0]
        if length < RECORD_BATCH_OVERHEAD - LOG_OVERHEAD or head[16] < CURRENT_MAGIC:
            raise self._no_batch(head, position)
        return length + LOG_OVERHEAD

    def _expect_append_under_way(self, position: int, needed: int | None, *, file_end: int) -> None:
        """Handles an incomplete batch at `position`: CorruptFileError where no append can be under
        way."""
        piece = self._piece
        if piece.is_last_segment and piece.ends_segment:
            return
        end = min(piece.end, max(file_end, position))
        there = f"{end - position} bytes are left up to byte {end}"
        claim = "the last batch is not whole" if needed is None else f"a batch claims {needed} bytes"
        raise CorruptFileError(piece.path, position, f"{claim}: {there}, and this is not the end of the log")

    def _no_batch(self, data: bytes | memoryview, position: int) -> CorruptFileError:
        path = self._piece.path
        length: int = _LENGTH.unpack_from(data, 8)[0]
        if length < MIN_LEGACY_RECORD_SIZE:
            text = f"Found record size {length} smaller than minimum record overhead ({MIN_LEGACY_RECORD_SIZE})"
            return CorruptFileError(path, position, text)
        if data[16] < CURRENT_MAGIC:
            return CorruptFileError(path, position, f"{wrong_magic(data[16]).message}; rewrite the topic first")
        return CorruptFileError(path, position, f"a batch of {length + LOG_OVERHEAD} bytes; the smallest has {RECORD_BATCH_OVERHEAD}")

    def _control(self, batch: RecordBatch, row: int, position: int) -> ControlBatch:
        try:
            return _control_batch(batch, row)
        except (ApiException, ProtocolReadError) as error:
            raise CorruptFileError(self._piece.path, position, f"a control batch that cannot be read: {error}") from error


def _size_of(data: bytes) -> int | None:
    """Returns the size of the batch that begins with `data`, None if that is no batch."""
    if len(data) < RECORD_BATCH_OVERHEAD:
        return None
    length: int = _LENGTH.unpack_from(data, 8)[0]
    return length + LOG_OVERHEAD if length >= RECORD_BATCH_OVERHEAD - LOG_OVERHEAD and data[16] >= CURRENT_MAGIC else None


def _headers_at(data: Bytes, starts: Int64s) -> npt.NDArray[Any]:
    raw = data[starts[:, None] + _HEADER_BYTES]
    headers: npt.NDArray[Any] = raw.view(HEADER_DTYPE).reshape(len(starts)).astype(_NATIVE_DTYPE)
    return headers


def _control_batch(batch: RecordBatch, row: int) -> ControlBatch:
    record = next(batch.records(), None)
    if record is None:
        return ControlBatch(row, NO_CONTROL_RECORD, -1, batch.max_timestamp, None)
    control_type = ControlRecordType.parse_type_id(record.key)
    coordinator_epoch, source = -1, None
    if control_type in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        coordinator_epoch = EndTransactionMarker.deserialize(record).coordinator_epoch
    elif control_type == ControlRecordType.MIRROR_PID_RESET and record.value is not None:
        source = MirrorPidResetRecord.read(memoryview(record.value), 0, 0)[0].source_cluster_id
    return ControlBatch(row, control_type, coordinator_epoch, record.timestamp, source)
