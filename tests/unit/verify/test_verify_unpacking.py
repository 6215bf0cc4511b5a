"""Batches decoded in pieces of bounded size: the same records as at once, for every codec, and the
same faults.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.logs.log_folders import TIME, batch
from support.waiting import PROGRAM_S

from kmirror.record.builder import build_batch
from kmirror.record.columns import RecordColumns, decode_columns
from kmirror.record.compression import CompressionType
from kmirror.record.record import Record
from kmirror.record.record_batch import RecordBatch
from kmirror.verify.unpacking import MalformedBatchError, Unpacker

CODECS = list(CompressionType)


def rows(batches: Sequence[RecordBatch], piece_bytes: int) -> tuple[list[tuple[object, ...]], int]:
    found: list[tuple[object, ...]] = []
    pieces = 0
    for piece in Unpacker(piece_bytes).pieces(batches):
        pieces += 1
        found += as_rows(piece.records, piece.first)
    return found, pieces


def as_rows(columns: RecordColumns, first: int = 0) -> list[tuple[object, ...]]:
    def read(row: int) -> tuple[object, ...]:
        key, value = columns.key(row), columns.value(row)
        numbers = (first + columns.batch_index[row], columns.offset[row], columns.timestamp[row], columns.sequence[row])
        return (*map(int, numbers), key and bytes(key), value and bytes(value), tuple(columns.headers(row)))

    return [read(row) for row in range(len(columns))]


@pytest.mark.parametrize("codec", CODECS)
def test_pieces_of_any_size_have_the_same_records(codec: CompressionType) -> None:
    large = build_batch(
        [Record(100 + row, TIME, None, b"%d" % row * 997, [("h", None)]) for row in range(50)], base_offset=100, compression=codec
    )
    batches = [RecordBatch(data) for data in (batch(0, 7, codec=codec, producer_id=3), large, batch(150, 3, codec=codec))]
    expected = as_rows(decode_columns(batches))
    counts = set()
    for piece_bytes in (64, 200, 1_000, 5_000, 1 << 20):
        found, pieces = rows(batches, piece_bytes)
        assert found == expected
        counts.add(pieces)
    assert min(counts) == 1 and max(counts) > 25


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("piece_bytes", [100, 1 << 20])
def test_a_malformed_batch_is_named_after_all_in_front_of_it(codec: CompressionType, piece_bytes: int) -> None:
    def wrong_count(count: int) -> RecordBatch:
        data = bytearray(batch(10, 5, codec=codec))
        data[57:61] = count.to_bytes(4, "big", signed=True)
        return RecordBatch(data)

    sound = [RecordBatch(batch(0, 5, codec=codec)), RecordBatch(batch(5, 5, codec=codec))]
    for wrong in (wrong_count(4), wrong_count(6), wrong_count(-1)):
        found = []
        with pytest.raises(MalformedBatchError) as raised:
            for piece in Unpacker(piece_bytes).pieces([*sound, wrong, sound[0]]):
                found += piece.records.offset.tolist()
        assert raised.value.index == 2 and found[:10] == list(range(10)) and len(found) <= 15


def test_a_record_whose_fields_do_not_add_up_is_named_too() -> None:
    data = bytearray(batch(5, 5))
    data[data.index(b"k7") - 1] = 60  # the key's length
    found = []
    with pytest.raises(MalformedBatchError, match="invalid record structure") as raised:
        for piece in Unpacker().pieces([RecordBatch(batch(0, 5)), RecordBatch(data)]):
            found += piece.records.offset.tolist()
    assert raised.value.index == 1 and found == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_stream_that_is_cut_off_is_malformed(codec: CompressionType) -> None:
    data = bytes(build_batch([Record(row, TIME, None, b"%d" % row * 99, []) for row in range(99)], compression=codec))
    for size in (62, 70, len(data) // 2, len(data) - 9):
        cut = bytearray(data[:size])
        cut[8:12] = (size - 12).to_bytes(4, "big")
        with pytest.raises(MalformedBatchError):
            rows([RecordBatch(cut)], 1 << 20)


def test_memory_does_not_follow_what_a_batch_unpacks_to(tmp_path: Path) -> None:
    """300 MB of zeros in one batch of some KB. The peak is that of a program of its own."""
    program = (
        "import re, sys\n"
        "from kmirror.record.record_batch import RecordBatch\n"
        "from kmirror.verify.unpacking import Unpacker\n"
        "batch = RecordBatch(open(sys.argv[1], 'rb').read())\n"
        "count = sum(len(piece.records) for piece in Unpacker().pieces([batch]))\n"
        "print(count, int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]) >> 10)\n"
    )
    bomb = tmp_path / "bomb"
    bomb.write_bytes(build_batch([Record(row, TIME, None, bytes(1 << 20), []) for row in range(300)], compression=CompressionType.ZSTD))
    done = subprocess.run([sys.executable, "-c", program, str(bomb)], capture_output=True, text=True, timeout=PROGRAM_S, check=True)
    count, peak_mb = map(int, done.stdout.split())
    assert count == 300 and peak_mb < 150, done.stdout
