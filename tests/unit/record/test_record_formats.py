"""Codecs, the scanner of batches, and message formats v0 and v1."""

from __future__ import annotations

import gzip
import struct

import cramjam
import lz4.frame
import pytest
import zstandard

from kmirror.common.errors import ApiException, ConfigError, Errors
from kmirror.record.builder import build_batch
from kmirror.record.compression import CompressionType, compress, decompress
from kmirror.record.produce_validation import RecordSetKind, classify_records, validate_produce_records
from kmirror.record.record import Record, decrement_sequence, increment_sequence
from kmirror.record.record_batch import RecordBatch, iter_batches

DATA = b"".join(b"record %d " % index for index in range(20_000))
COMPRESSED = [codec for codec in CompressionType if codec]
V0 = struct.pack(">qiIbb", 0, 14, 0, 0, 0) + struct.pack(">ii", -1, -1)
V1 = struct.pack(">qiIbbq", 0, 22, 0, 1, 0, 5) + struct.pack(">ii", -1, -1)


@pytest.mark.parametrize("codec", CompressionType)
@pytest.mark.parametrize("data", [b"", b"x", DATA], ids=["empty", "one", "many"])
def test_codecs_round_trip(codec: CompressionType, data: bytes) -> None:
    assert bytes(decompress(codec, compress(codec, data))) == data


def test_raw_snappy_of_librdkafka_and_concatenated_streams_are_read() -> None:
    assert decompress(CompressionType.SNAPPY, bytes(cramjam.snappy.compress_raw(DATA))) == DATA
    twice = bytes(compress(CompressionType.SNAPPY, DATA)) * 2
    assert decompress(CompressionType.SNAPPY, twice) == DATA * 2
    assert decompress(CompressionType.GZIP, gzip.compress(DATA) * 2) == DATA * 2
    assert decompress(CompressionType.ZSTD, zstandard.compress(DATA) * 2) == DATA * 2


def test_lz4_frames_are_as_kafka_writes_them() -> None:
    info = lz4.frame.get_frame_info(bytes(compress(CompressionType.LZ4, DATA)))
    assert (info["block_size_id"], info["block_linked"], info["content_checksum"], info["content_size"]) == (4, False, False, 0)


def test_snappy_blocks_are_32_kib() -> None:
    stream = bytes(compress(CompressionType.SNAPPY, DATA))
    assert stream[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    size = int.from_bytes(stream[16:20], "big")
    assert cramjam.snappy.decompress_raw_len(stream[20 : 20 + size]) == 32 * 1024


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_bomb_is_stopped_at_the_limit(codec: CompressionType) -> None:
    bomb = compress(codec, bytes(50_000_000))
    with pytest.raises(ApiException, match="unpacks to more than 1000000 bytes") as raised:
        decompress(codec, bomb, max_size=1_000_000)
    assert raised.value.error is Errors.CORRUPT_MESSAGE
    assert len(decompress(codec, bomb, max_size=50_000_000)) == 50_000_000


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("cut", [0, 5, 0.5, 0.9])
def test_a_cut_stream_is_corrupt(codec: CompressionType, cut: float) -> None:
    stream = bytes(compress(codec, DATA))
    with pytest.raises(ApiException) as raised:
        if len(decompress(codec, stream[: int(cut if cut > 1 else cut * len(stream))])) < len(DATA):
            raise ApiException(Errors.CORRUPT_MESSAGE)  # a whole number of snappy blocks or zstd blocks: the record reader finds it
    assert raised.value.error is Errors.CORRUPT_MESSAGE


def test_codec_names_and_ids() -> None:
    assert CompressionType.for_name("zstd") is CompressionType.ZSTD
    assert CompressionType.for_name("uncompressed") is CompressionType.NONE
    with pytest.raises(ConfigError):
        CompressionType.for_name("brotli")
    with pytest.raises(ApiException) as raised:
        CompressionType.for_id(5)
    assert raised.value.error is Errors.UNSUPPORTED_COMPRESSION_TYPE


def test_iter_batches_leaves_out_the_incomplete_tail() -> None:
    batch = bytes(build_batch([Record(0, 1, None, b"v", [])]))
    for cut in range(1, len(batch)):
        assert [view.base_offset for view in iter_batches(batch + batch[:cut])] == [0]


@pytest.mark.parametrize(
    ("buffer", "error", "message"),
    [
        (
            bytes(8) + struct.pack(">i", 13) + bytes(20),
            Errors.CORRUPT_MESSAGE,
            "Record size 13 is less than the minimum record overhead (14)",
        ),
        (bytes(8) + struct.pack(">iib", 14, 0, 5) + bytes(20), Errors.CORRUPT_MESSAGE, "Invalid magic found in record: 5"),
        (bytes(8) + struct.pack(">iib", 14, 0, -1) + bytes(20), Errors.CORRUPT_MESSAGE, "Invalid magic found in record: -1"),
        (V0, Errors.UNSUPPORTED_FOR_MESSAGE_FORMAT, "Records of message format v0 are not supported; only v2 (since Kafka 0.11) is"),
    ],
)
def test_iter_batches_refuses(buffer: bytes, error: Errors, message: str) -> None:
    with pytest.raises(ApiException) as raised:
        list(iter_batches(buffer))
    assert (raised.value.error, raised.value.message) == (error, message)


def test_formats_are_told_apart() -> None:
    batch = build_batch([Record(0, 1, None, b"v", [])])
    kinds = [classify_records(buffer) for buffer in (b"", V0, V1, batch, batch[:-1])]
    assert kinds == [RecordSetKind.EMPTY, RecordSetKind.V0, RecordSetKind.V1, RecordSetKind.V2, RecordSetKind.EMPTY]


@pytest.mark.parametrize("buffer", [V0, V1, b""])
def test_old_and_empty_record_sets_are_invalid_in_a_produce_request(buffer: bytes) -> None:
    with pytest.raises(ApiException) as raised:
        validate_produce_records(9, buffer)
    assert raised.value.error is Errors.INVALID_RECORD


def test_produce_requests_take_one_batch_and_zstd_from_version_7() -> None:
    batch = bytes(build_batch([Record(0, 1, None, b"v", [])], compression=CompressionType.ZSTD))
    validate_produce_records(7, batch)
    with pytest.raises(ApiException) as raised:
        validate_produce_records(6, batch)
    assert raised.value.error is Errors.UNSUPPORTED_COMPRESSION_TYPE
    with pytest.raises(ApiException, match="exactly one record batch"):
        validate_produce_records(9, batch * 2)


def test_sequences_wrap_to_zero() -> None:
    assert increment_sequence(2_147_483_647, 1) == 0
    assert decrement_sequence(0, 1) == 2_147_483_647
    batch = build_batch(
        [Record(0, 1, None, b"", []), Record(1, 1, None, b"", [])], producer_id=1, producer_epoch=0, base_sequence=2**31 - 1
    )
    assert RecordBatch(batch).last_sequence == 0
    assert [record.sequence for record in RecordBatch(batch).records()] == [2**31 - 1, 0]
