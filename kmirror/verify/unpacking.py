"""The records of batches as columns, in pieces of bounded size, whatever a batch unpacks to.

A batch of 2 KB may unpack to a gigabyte, and a block of 2 MB holds a thousand such batches. So
codecs are read as streams into one buffer, which is used again and again. When it is full, the
whole records in it are a piece, and the incomplete last record moves to the front. The buffer grows
only for a record that is larger than it.

A piece is valid until the next one is requested. Columns are those of `record.columns`; a batch
that is cut has a row in each of its pieces.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kmirror.common.errors import ApiException, KmirrorError
from kmirror.record.columns import PADDING, RecordColumns, columns_at, headers_from, record_positions
from kmirror.record.compression import CompressionType, DecompressionError
from kmirror.record.record import invalid_record
from kmirror.record.record_batch import RECORD_BATCH_OVERHEAD, RecordBatch

PIECE_BYTES: Final = 8 << 20
"""Large enough that numpy works on thousands of records, small enough for any worker."""
_MAX_SNAPPY_RATIO: Final = 64
"""A copy of 64 bytes takes three bytes. Data that claims more than this is damaged, and does not
get the memory that it claims."""
_STEP_BYTES: Final = 1 << 20
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16

ReadInto = Callable[[memoryview], int]
"""Fills a view from its beginning and returns how many bytes it wrote; 0 at the end."""


class UnpackedPiece(NamedTuple):
    first: int
    """The index of the first batch that has records here; the rows of `records.batches` are that
    batch and those after it."""
    records: RecordColumns


class MalformedBatchError(KmirrorError):
    """Batch number `index` cannot be decoded, for the reason in `problem`."""

    def __init__(self, index: int, problem: ApiException) -> None:
        super().__init__(problem.message)
        self.index = index
        self.problem = problem


class Unpacker:
    """Unpacks batches into one buffer."""

    def __init__(self, piece_bytes: int = PIECE_BYTES) -> None:
        self._piece_bytes = piece_bytes
        self._buffer = bytearray(piece_bytes + len(PADDING))
        self._used = 0
        self._parsed = 0
        self._positions: list[int] = []
        self._counts: list[int] = []
        self._first = 0

    def pieces(self, batches: Sequence[RecordBatch]) -> Iterator[UnpackedPiece]:
        """Yields the records of `batches`, control batches included, one piece at a time. CRCs are
        not checked.

        MalformedBatchError for the first batch that is not what its header claims, after everything
        before it was given out.
        """
        headers = headers_from([batch.memory[:RECORD_BATCH_OVERHEAD] for batch in batches])
        self._start(0)
        for index, batch in enumerate(batches):
            self._counts.append(0)
            try:
                yield from self._pieces_of(batch, index, headers)
            except ApiException as error:
                problem = error
            else:
                continue
            self._drop_last()
            yield from self._give(headers)
            raise MalformedBatchError(index, problem)
        yield from self._give(headers)

    def _start(self, first: int) -> None:
        self._used = self._parsed = 0
        self._positions, self._counts, self._first = [], [], first

    def _drop_last(self) -> None:
        """Forgets what the buffer has of the last batch."""
        count, self._counts[-1] = self._counts[-1], 0
        if count:
            self._parsed = self._positions[-count]
            del self._positions[-count:]
        self._used = self._parsed

    def _pieces_of(self, batch: RecordBatch, index: int, headers: npt.NDArray[Any]) -> Iterator[UnpackedPiece]:
        left = batch.record_count
        if left < 0:
            raise invalid_record(f"Found invalid record count {left} in magic v{batch.magic} batch")
        if left == 0:
            return
        read = _reader(batch)
        while True:
            room = memoryview(self._buffer)[self._used : -len(PADDING)]
            size = read(room) if room else 0
            room.release()
            self._used += size
            if size:
                continue
            is_full = self._used == len(self._buffer) - len(PADDING)
            left -= self._parse(index, left, is_whole=not is_full)
            if not is_full:
                break
            if self._positions:
                yield from self._give(headers)
                self._move_rest(index)
            else:
                self._grow()
        if left:
            raise invalid_record("Incorrect declared batch size, premature EOF reached")

    def _parse(self, index: int, left: int, *, is_whole: bool) -> int:
        """Returns how many records begin after what was parsed. An incomplete record at the end is
        allowed only if the stream goes on."""
        found = record_positions(self._buffer, self._parsed, self._used)
        if not found and self._used > self._parsed:
            raise invalid_record("Found invalid record structure")
        end = self._used
        if found and found[-1] < 0:
            if is_whole:
                raise invalid_record("Found invalid record structure")
            found.pop()
            end = found.pop()
        if len(found) > left:
            raise invalid_record("Incorrect declared batch size, records still remaining in file")
        self._positions += found
        self._counts[index - self._first] += len(found)
        self._parsed = end
        return len(found)

    def _move_rest(self, index: int) -> None:
        """Begins the next piece with the rest of an incomplete record of batch number `index`."""
        rest = bytes(memoryview(self._buffer)[self._parsed : self._used])
        self._start(index)
        self._counts.append(0)
        self._buffer[: len(rest)] = rest
        self._used = len(rest)

    def _grow(self) -> None:
        old, self._buffer = self._buffer, bytearray(2 * len(self._buffer))
        self._buffer[: self._used] = memoryview(old)[: self._used]

    def _give(self, headers: npt.NDArray[Any]) -> Iterator[UnpackedPiece]:
        """Yields what the buffer has, if anything, up to the first malformed batch, if there is
        one."""
        while self._positions:
            columns = self._columns(headers)
            if not isinstance(columns, int):
                yield UnpackedPiece(self._first, columns)
                return
            bad = self._first + columns
            del self._counts[columns:], self._positions[sum(self._counts[:columns]) :]
            yield from self._give(headers)
            raise MalformedBatchError(bad, invalid_record("Found invalid record structure"))

    def _columns(self, headers: npt.NDArray[Any]) -> RecordColumns | int:
        rows = headers[self._first : self._first + len(self._counts)].copy()
        rows["record_count"] = self._counts
        end, padding = self._parsed, len(PADDING)
        behind = bytes(self._buffer[end : end + padding])
        self._buffer[end : end + padding] = PADDING
        columns = columns_at(memoryview(self._buffer)[: end + padding], rows, np.array(self._positions, dtype=np.int64))
        self._buffer[end : end + padding] = behind
        return columns


def _reader(batch: RecordBatch) -> ReadInto:
    payload = batch.memory[RECORD_BATCH_OVERHEAD:]
    return _READERS[batch.compression](payload)


class _PlainReader:
    def __init__(self, payload: memoryview) -> None:
        self._rest = payload

    def __call__(self, view: memoryview) -> int:
        size = min(len(view), len(self._rest))
        view[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


class _ChunkReader:
    """Reads a codec that returns its own bytes: `chunks(most)` returns some, b"" at the end."""

    def __init__(self, chunks: Callable[[int], bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def __call__(self, view: memoryview) -> int:
        if not self._rest:
            self._rest = memoryview(self._chunks(len(view)))
        size = min(len(view), len(self._rest))
        view[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def _gzip_reader(payload: memoryview) -> ReadInto:
    inflate = zlib.decompressobj(31)
    rest: bytes | memoryview = payload
    is_first = True

    def chunks(most: int) -> bytes:
        nonlocal inflate, rest, is_first
        while True:
            if inflate.eof:
                rest, inflate, is_first = inflate.unused_data, zlib.decompressobj(31), False
            if not rest and not is_first:
                return b""
            try:
                part = inflate.decompress(rest, most)
            except zlib.error as error:
                if not is_first:
                    return b""  # bytes after the last member; java.util.zip.GZIPInputStream ignores them too
                raise DecompressionError(f"damaged gzip data ({error})") from error
            rest = inflate.unconsumed_tail
            if part:
                return part
            if not inflate.eof:
                raise DecompressionError("damaged gzip data (unexpected end of the stream)")

    return _ChunkReader(chunks)


def _lz4_reader(payload: memoryview) -> ReadInto:
    import lz4.frame

    context = lz4.frame.create_decompression_context()
    position = 0
    is_end = False

    def chunks(most: int) -> bytes:
        nonlocal position, is_end
        part = b""
        try:
            while not is_end and not part:
                limit = min(most, max(_STEP_BYTES, 4 * len(payload)))
                part, used, is_end = lz4.frame.decompress_chunk(context, payload[position:], max_length=limit)
                position += used
                if not part and not used and not is_end:
                    raise DecompressionError("damaged lz4 data (unexpected end of the stream)")
        except (RuntimeError, ValueError) as error:
            raise DecompressionError(f"damaged lz4 data ({error})") from error
        return part

    return _ChunkReader(chunks)


def _snappy_reader(payload: memoryview) -> ReadInto:
    position = 0
    is_framed = bytes(payload[:8]) == _XERIAL_MAGIC

    def chunks(most: int) -> bytes:
        nonlocal position
        while is_framed and bytes(payload[position : position + 8]) == _XERIAL_MAGIC:
            position += _XERIAL_HEADER_BYTES
        if position >= len(payload):
            return b""
        start, size = position, len(payload)
        if is_framed:
            start, size = position + 4, int.from_bytes(payload[position : position + 4], "big", signed=True)
            if size < 0 or start + size > len(payload):
                raise DecompressionError(f"damaged snappy data (a block of {size} bytes where {len(payload) - start} are left)")
        position = start + size
        return _snappy_block(payload[start : start + size])

    return _ChunkReader(chunks)


def _snappy_block(block: memoryview) -> bytes:
    import cramjam

    try:
        claimed = cramjam.snappy.decompress_raw_len(block)
        if claimed > _MAX_SNAPPY_RATIO * len(block):
            raise DecompressionError(f"damaged snappy data (a block of {len(block)} bytes claims {claimed})")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise DecompressionError(f"damaged snappy data ({error})") from error


def _zstd_reader(payload: memoryview) -> ReadInto:
    import zstandard

    stream = _zstd_decompressor().stream_reader(payload, read_across_frames=True)

    def read(view: memoryview) -> int:
        try:
            return int(stream.readinto(view))
        except zstandard.ZstdError as error:
            raise DecompressionError(f"damaged zstd data ({error})") from error

    return read


@cache
def _zstd_decompressor() -> Any:
    import zstandard

    return zstandard.ZstdDecompressor()


_READERS: Final[dict[CompressionType, Callable[[memoryview], ReadInto]]] = {
    CompressionType.NONE: _PlainReader,
    CompressionType.GZIP: _gzip_reader,
    CompressionType.SNAPPY: _snappy_reader,
    CompressionType.LZ4: _lz4_reader,
    CompressionType.ZSTD: _zstd_reader,
}
