"""The codecs of record batches. After the 61-byte header comes one compressed stream of all
records.

    gzip    RFC 1952; several members may follow each other
    snappy  what Java writes ("xerial"): 82 'SNAPPY' 00, version i32 1, compatible i32 1, then blocks of at most 32 KiB of input:
            length i32, raw snappy. librdkafka writes one raw snappy block without framing; both are read.
    lz4     the LZ4 frame format: 64 KiB blocks, independent, no checksums, no content size
    zstd    one frame at level 3

A compressed batch of 1 MB may claim gigabytes. `decompress` never produces more than `max_size`
bytes: it asks the codec for the size if the format states it, and reads in steps otherwise.

Every fault of a stream is CORRUPT_MESSAGE (`DecompressionError`), even if the stream only ends too
early: a codec that returned what it has so far would make that look like too few records. Only zstd
takes no bytes at all for a stream (of no records), as in Java. A leader reports these faults to
producers with other codes; see `validation`.
"""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum
from typing import Final

from kmirror.common.errors import ApiException, ConfigError, Errors
from kmirror.common.ports import Buffer

MAX_DECOMPRESSED_SIZE_BYTES: Final = 512 * 1024 * 1024
"""The bytes that one batch may decompress to, unless the caller says otherwise."""
_STEP_BYTES: Final = 1024 * 1024
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_ZSTD_MAGIC: Final = 0xFD2FB528
_ZSTD_SKIPPABLE_MAGIC: Final = 0x184D2A50
_GZIP_HEADER: Final = bytes.fromhex("1f8b08000000000000ff")


class DecompressionError(ApiException):
    """A compressed stream is damaged or ends too early."""

    def __init__(self, message: str) -> None:
        super().__init__(Errors.CORRUPT_MESSAGE, f"Failed to decompress record stream: {message}")


class DecompressedTooLargeError(DecompressionError):
    """A stream decompresses to more bytes than the caller allows."""


class CompressionType(IntEnum):
    """Kafka's `CompressionType`: bits 0 to 2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def text(self) -> str:
        """The name in configurations and tool output: none, gzip, snappy, lz4, zstd."""
        return self.name.lower()

    @classmethod
    def for_id(cls, code: int) -> CompressionType:
        """The codec of an attribute value; UNSUPPORTED_COMPRESSION_TYPE for 5 to 7."""
        if 0 <= code <= 4:
            return _BY_ID[code]
        raise ApiException(Errors.UNSUPPORTED_COMPRESSION_TYPE, f"Unknown compression type id: {code}")

    @classmethod
    def for_name(cls, name: str) -> CompressionType:
        """The codec of a configuration value (`uncompressed` is NONE); ConfigError for an unknown
        name.
        """
        for member in cls:
            if member.text == name or (name == "uncompressed" and member is cls.NONE):
                return member
        raise ConfigError(f"Unknown compression name: {name}")


_BY_ID: Final = list(CompressionType)


def compress(compression: CompressionType, data: Buffer, *, level: int | None = None) -> Buffer:
    """`data` as one stream of `compression`, framed as Kafka's Java code does; `level` None is the
    codec's default.
    """
    if compression is CompressionType.GZIP:
        deflate = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, -15)
        body = deflate.compress(data) + deflate.flush()
        return b"".join((_GZIP_HEADER, body, struct.pack("<II", zlib.crc32(data), len(data) & 0xFFFFFFFF)))
    if compression is CompressionType.SNAPPY:
        return _compress_snappy(data)
    if compression is CompressionType.LZ4:
        import lz4.frame

        lz4_level = 0 if level is None or level == 9 else level
        compressed: bytes = lz4.frame.compress(
            data, compression_level=lz4_level, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False
        )
        return compressed
    if compression is CompressionType.ZSTD:
        import zstandard

        return zstandard.ZstdCompressor(level=3 if level is None else level).compress(data)
    return data


def decompress(compression: CompressionType, data: Buffer, *, max_size: int = MAX_DECOMPRESSED_SIZE_BYTES) -> Buffer:
    """The bytes of a compressed stream.

    `DecompressionError` if it is damaged or would give more than `max_size` bytes.
    """
    if compression is CompressionType.NONE:
        return data
    return _DECOMPRESSORS[compression](memoryview(data), max_size)


def _too_big(compression: CompressionType, max_size: int) -> DecompressedTooLargeError:
    return DecompressedTooLargeError(f"the {compression.text} data unpacks to more than {max_size} bytes")


def _damaged(compression: CompressionType, error: Exception | str) -> DecompressionError:
    return DecompressionError(f"damaged {compression.text} data ({error})")


def _decompress_gzip(data: memoryview, max_size: int) -> Buffer:
    parts: list[bytes] = []
    left = max_size
    rest: Buffer = data
    while True:
        inflate = zlib.decompressobj(31)
        try:
            part = inflate.decompress(rest, left + 1)
        except zlib.error as error:
            if parts:
                break  # bytes after the last member; java.util.zip.GZIPInputStream ignores them too
            raise _damaged(CompressionType.GZIP, error) from error
        if len(part) > left:
            raise _too_big(CompressionType.GZIP, max_size)
        if not inflate.eof:
            raise _damaged(CompressionType.GZIP, "unexpected end of the stream")
        parts.append(part)
        left -= len(part)
        rest = inflate.unused_data
        if not rest:
            break
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _compress_snappy(data: Buffer) -> Buffer:
    import cramjam

    view = memoryview(data)
    parts: list[Buffer] = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (struct.pack(">i", len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: memoryview, max_size: int) -> Buffer:
    if bytes(data[:8]) != _XERIAL_MAGIC:
        return _snappy_block(data, left=max_size, max_size=max_size)
    parts: list[Buffer] = []
    left = max_size
    position = 0
    while position < len(data):
        if bytes(data[position : position + 8]) == _XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)
            if position > len(data):
                raise _damaged(CompressionType.SNAPPY, "the header is cut off")
            continue
        if position + 4 > len(data):
            raise _damaged(CompressionType.SNAPPY, "a block's length is cut off")
        size = int.from_bytes(data[position : position + 4], "big", signed=True)
        position += 4
        if size < 0 or position + size > len(data):
            raise _damaged(CompressionType.SNAPPY, f"a block of {size} bytes where {len(data) - position} are left")
        part = _snappy_block(data[position : position + size], left=left, max_size=max_size)
        left -= len(part)
        parts.append(part)
        position += size
    return b"".join(parts)


def _snappy_block(block: memoryview, *, left: int, max_size: int) -> bytes:
    import cramjam

    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > left:
            raise _too_big(CompressionType.SNAPPY, max_size)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise _damaged(CompressionType.SNAPPY, error) from error


def _decompress_lz4(data: memoryview, max_size: int) -> Buffer:
    import lz4.frame

    context = lz4.frame.create_decompression_context()
    parts: list[bytes] = []
    left = max_size + 1
    position = 0
    end_of_frame = False
    try:
        while not end_of_frame:
            limit = min(left, max(_STEP_BYTES, 4 * len(data)))
            part, used, end_of_frame = lz4.frame.decompress_chunk(context, data[position:], max_length=limit)
            if not part and not used and not end_of_frame:
                raise _damaged(CompressionType.LZ4, "unexpected end of the stream")
            parts.append(part)
            position += used
            left -= len(part)
            if left <= 0:
                raise _too_big(CompressionType.LZ4, max_size)
    except (RuntimeError, ValueError) as error:
        raise _damaged(CompressionType.LZ4, error) from error
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _decompress_zstd(data: memoryview, max_size: int) -> Buffer:
    import zstandard

    if not data:
        return b""
    _ensure_zstd_frames_are_whole(data)
    decompressor = zstandard.ZstdDecompressor()
    parts: list[bytes] = []
    left = max_size
    try:
        size = zstandard.frame_content_size(data)
        if size > max_size:
            raise _too_big(CompressionType.ZSTD, max_size)
        with decompressor.stream_reader(data, read_across_frames=True) as reader:
            while part := reader.read(_STEP_BYTES):
                parts.append(part)
                left -= len(part)
                if left < 0:
                    raise _too_big(CompressionType.ZSTD, max_size)
    except zstandard.ZstdError as error:
        raise _damaged(CompressionType.ZSTD, error) from error
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _ensure_zstd_frames_are_whole(data: memoryview) -> None:
    """Goes from block to block (of up to 128 KiB of records), because the library returns what it
    has of a frame that ends too early.

    The library finds all other faults (RFC 8878, 3.1).
    """
    position = 0
    while position < len(data):
        magic = int.from_bytes(data[position : position + 4], "little")
        if magic & ~0xF == _ZSTD_SKIPPABLE_MAGIC:
            position += 8 + int.from_bytes(data[position + 4 : position + 8], "little")
        elif magic == _ZSTD_MAGIC or position + 4 > len(data):
            position = _end_of_zstd_frame(data, position)
        else:
            return
    if position > len(data):
        raise _damaged(CompressionType.ZSTD, "unexpected end of the stream")


def _end_of_zstd_frame(data: memoryview, position: int) -> int:
    """Where the frame at `position` ends; beyond the data if it is cut off."""
    descriptor = data[position + 4] if position + 4 < len(data) else 0
    is_single_segment = descriptor >> 5 & 1
    position += 5 + (not is_single_segment)
    position += (0, 1, 2, 4)[descriptor & 3]  # dictionary id
    position += (is_single_segment, 2, 4, 8)[descriptor >> 6]  # content size
    is_last = 0
    while not is_last:
        if position + 3 > len(data):
            return len(data) + 1
        header = int.from_bytes(data[position : position + 3], "little")
        is_last = header & 1
        is_run_of_one_byte = header >> 1 & 3 == 1
        position += 3 + (1 if is_run_of_one_byte else header >> 3)
    return position + 4 * (descriptor >> 2 & 1)  # checksum


_DECOMPRESSORS: Final = {
    CompressionType.GZIP: _decompress_gzip,
    CompressionType.SNAPPY: _decompress_snappy,
    CompressionType.LZ4: _decompress_lz4,
    CompressionType.ZSTD: _decompress_zstd,
}
