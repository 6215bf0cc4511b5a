"""Record batches: whatever is built reads back; whatever is garbage is one of the documented
errors.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kmirror.common.errors import ApiException, Errors
from kmirror.common.varint import VarintError, encode_varint, read_unsigned_varint, read_varint, read_varlong, write_unsigned_varint
from kmirror.record.append_origin import AppendOrigin
from kmirror.record.builder import build_batch, rebuild_batch, rewrite_crc
from kmirror.record.columns import decode_columns
from kmirror.record.compression import CompressionType, decompress
from kmirror.record.record import Record
from kmirror.record.record_batch import RecordBatch, TimestampType, iter_batches
from kmirror.record.validation import ValidationResult, validate_and_assign_offsets

DOCUMENTED = {
    Errors.CORRUPT_MESSAGE,
    Errors.INVALID_RECORD,
    Errors.INVALID_TIMESTAMP,
    Errors.UNKNOWN_SERVER_ERROR,  # Kafka's answer to what does not decompress
    Errors.UNSUPPORTED_COMPRESSION_TYPE,
    Errors.UNSUPPORTED_FOR_MESSAGE_FORMAT,
}
data = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(st.text(max_size=5), data), max_size=4)
timestamps = st.integers(-1, 1 << 62)


@st.composite
def record_lists(draw: st.DrawFn) -> list[Record]:
    steps = draw(st.lists(st.tuples(st.integers(1, 20_000), timestamps, data, data, headers), min_size=1, max_size=20))
    offset = -1
    records = []
    for step, timestamp, key, value, record_headers in steps:
        offset += step
        records.append(Record(offset, timestamp, key, value, record_headers))
    return records


def check_documented(error: ApiException) -> None:
    assert error.error in DOCUMENTED, error


@given(record_lists(), st.sampled_from(list(CompressionType)), st.integers(0, 1 << 60))
@settings(max_examples=60, deadline=None)
def test_batches_read_back_in_both_ways(records: list[Record], codec: CompressionType, base_offset: int) -> None:
    moved = [Record(record.offset + base_offset, record.timestamp, record.key, record.value, record.headers) for record in records]
    batch = RecordBatch(build_batch(moved, base_offset=base_offset, compression=codec))
    batch.ensure_valid()
    assert list(batch.records()) == moved
    columns = decode_columns([batch, batch])
    rows = [
        Record(int(columns.offset[row]), int(columns.timestamp[row]), columns.key(row), columns.value(row), columns.headers(row))
        for row in range(len(columns))
    ]
    assert rows == moved * 2
    assert rebuild_batch(batch, batch.records()) == batch.memory


@given(st.binary(max_size=400))
@settings(max_examples=100, deadline=None)
def test_garbage_is_never_more_than_a_documented_error(garbage: bytes) -> None:
    try:
        for batch in iter_batches(garbage):
            list(batch.records())
    except ApiException as error:
        check_documented(error)
    for codec in CompressionType:
        try:
            decompress(codec, garbage, max_size=1_000_000)
        except ApiException as error:
            check_documented(error)


def validated(batch: bytearray) -> ValidationResult:
    return validate_and_assign_offsets(
        batch,
        offset=5,
        now_ms=1000,
        source_compression=RecordBatch(batch).compression,
        target_compression=RecordBatch(batch).compression,
        compact=False,
        timestamp_type=TimestampType.CREATE_TIME,
        timestamp_before_max_ms=1 << 63,
        timestamp_after_max_ms=1 << 63,
        partition_leader_epoch=0,
        origin=AppendOrigin.CLIENT,
    )


@given(
    record_lists(), st.sampled_from(list(CompressionType)), st.lists(st.tuples(st.integers(0, 100_000), st.integers(0, 255)), max_size=4)
)
@settings(max_examples=100, deadline=None)
def test_damaged_batches_with_a_good_crc_are_read_alike_or_refused_by_all_readers(
    records: list[Record], codec: CompressionType, damage: list[tuple[int, int]]
) -> None:
    batch = build_batch(records, compression=codec)
    for position, value in damage:
        batch[21 + position % (len(batch) - 21)] = value
    rewrite_crc(batch)
    outcomes: list[list[tuple[int, int]] | None] = []
    for reader in (
        lambda: [(record.offset, record.timestamp) for record in RecordBatch(batch).records()],
        lambda: list(zip((columns := decode_columns([RecordBatch(batch)])).offset.tolist(), columns.timestamp.tolist())),
    ):
        try:
            outcomes.append(reader())
        except ApiException as error:
            check_documented(error)
            outcomes.append(None)
    if all(-(1 << 62) < timestamp < 1 << 62 for outcome in outcomes if outcome for _, timestamp in outcome):
        assert outcomes[0] == outcomes[1]
    try:
        validated(batch)
    except ApiException as error:
        check_documented(error)
    else:
        assert outcomes[0] is not None


@given(st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-(1 << 63), (1 << 63) - 1), st.integers(0, (1 << 32) - 1))
def test_varints_round_trip(small: int, large: int, unsigned: int) -> None:
    out = bytearray(b"\xff")
    out += encode_varint(small) + encode_varint(large)
    write_unsigned_varint(out, unsigned)
    got_small, position = read_varint(out, 1)
    got_large, position = read_varlong(out, position)
    assert (got_small, got_large, *read_unsigned_varint(out, position)) == (small, large, unsigned, len(out))


@given(st.binary(max_size=12))
def test_bad_varints_raise_varint_error(buffer: bytes) -> None:
    for read in (read_varint, read_varlong, read_unsigned_varint):
        try:
            _, end = read(buffer, 0)
        except VarintError:
            continue
        assert 0 < end <= len(buffer)
