"""What a producer is told whose batch does not decompress, by codec: Apache Kafka 4.3's answers.

`test_produce_of_streams_that_do_not_decompress` of the differential suite asks Apache Kafka itself.
Clients retry CORRUPT_MESSAGE, so a producer with a broken compressor sent such a batch until its
delivery timeout.
"""

from __future__ import annotations

import struct

import pytest

from kmirror.common.errors import ApiException, Errors
from kmirror.record import validation
from kmirror.record.append_origin import AppendOrigin
from kmirror.record.builder import build_batch, rewrite_crc
from kmirror.record.compression import (
    CompressionType,
    DecompressionError,
    compress,
    decompress,
)
from kmirror.record.record import Record
from kmirror.record.record_batch import LOG_OVERHEAD, RECORD_BATCH_OVERHEAD, TimestampType
from kmirror.record.validation import validate_and_assign_offsets

NOW = 1_750_000_000_000
CODECS = [codec for codec in CompressionType if codec is not CompressionType.NONE]
UNKNOWN, INVALID, OK = Errors.UNKNOWN_SERVER_ERROR, Errors.INVALID_RECORD, Errors.NONE


def batch_with(codec: CompressionType, stream: bytes) -> bytearray:
    """A batch that says it has three records, whatever the stream holds."""
    made = build_batch([Record(index, NOW, b"k", b"v", []) for index in range(3)], compression=codec)
    made = made[:RECORD_BATCH_OVERHEAD] + bytearray(stream)
    struct.pack_into(">i", made, 8, len(made) - LOG_OVERHEAD)
    rewrite_crc(made)
    return made


def answer(batch: bytearray) -> Errors:
    codec = CompressionType.for_id(batch[22] & 7)
    try:
        validate_and_assign_offsets(
            batch,
            offset=0,
            now_ms=NOW,
            source_compression=codec,
            target_compression=codec,
            compact=False,
            timestamp_type=TimestampType.CREATE_TIME,
            timestamp_before_max_ms=2**62,
            timestamp_after_max_ms=2**62,
            partition_leader_epoch=0,
            origin=AppendOrigin.CLIENT,
        )
    except ApiException as error:
        return error.error
    return OK


def records_stream(codec: CompressionType) -> bytes:
    records = [Record(index, NOW, b"k", b"v%d" % index * 99, []) for index in range(3)]
    return bytes(build_batch(records, compression=codec)[RECORD_BATCH_OVERHEAD:])


# The answers by codec: gzip, snappy, lz4, zstd.
TABLE = {
    "whole": (OK, OK, OK, OK),
    "empty": (UNKNOWN, UNKNOWN, UNKNOWN, INVALID),
    "garbage": (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN),
    "zeros": (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN),
    "of non-records": (INVALID, INVALID, INVALID, INVALID),
    "of nothing": (INVALID, INVALID, INVALID, INVALID),
    "and bytes behind": (OK, UNKNOWN, OK, UNKNOWN),
    "cut to a byte": (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN),
    "cut in its header": (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN),
    "cut by half": (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN),
    "cut by a byte": (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN),
}


def damaged(codec: CompressionType, how: str) -> bytes:
    stream = records_stream(codec)
    return {
        "whole": stream,
        "empty": b"",
        "garbage": b"garbagegarbage",
        "zeros": bytes(40),
        "of non-records": bytes(compress(codec, b"not records at all")),
        "of nothing": bytes(compress(codec, b"")),
        "and bytes behind": stream + b"\xff" * 20,
        "cut to a byte": stream[:1],
        "cut in its header": stream[:6],
        "cut by half": stream[: len(stream) // 2],
        "cut by a byte": stream[:-1],
    }[how]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("how", TABLE)
def test_a_batch_that_did_not_decompress_was_sent_again_for_ever(codec: CompressionType, how: str) -> None:
    assert answer(batch_with(codec, damaged(codec, how))) is TABLE[how][CODECS.index(codec)]


def test_uncompressed_garbage_is_an_invalid_record() -> None:
    assert answer(batch_with(CompressionType.NONE, b"garbagegarbage")) is INVALID


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_that_unpacks_to_too_much_is_too_large(codec: CompressionType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java's producer splits it; it was told CORRUPT_MESSAGE and sent it again as it was."""
    monkeypatch.setattr(validation, "MAX_VALIDATED_SIZE_BYTES", 100)
    assert answer(batch_with(codec, records_stream(codec))) is Errors.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("size", [0, 5, 300, 200_000])
@pytest.mark.parametrize("is_checked", [False, True])
def test_a_cut_zstd_stream_gave_what_it_had_until_then(size: int, is_checked: bool) -> None:
    import zstandard

    compressor = zstandard.ZstdCompressor(write_checksum=is_checked)
    stream = compressor.compress(bytes(range(250)) * (size // 250) + b"x" * (size % 250))
    skippable = bytes.fromhex("502a4d18") + struct.pack("<I", 3) + b"abc"
    assert len(decompress(CompressionType.ZSTD, skippable + stream + stream)) == 2 * size
    for cut in {*range(1, min(len(stream), 40)), len(stream) - 1, len(stream) // 2}:
        with pytest.raises(DecompressionError):
            decompress(CompressionType.ZSTD, stream[:cut])
        with pytest.raises(DecompressionError):
            decompress(CompressionType.ZSTD, stream + stream[:cut])
