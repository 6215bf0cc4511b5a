"""The headers of a slice: whatever way they are read, the same rows; errors name the byte; bodies
of large batches stay unread.
"""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from kmirror.common.errors import CorruptFileError
from kmirror.common.ports import File
from kmirror.record.builder import build_batch, empty_batch
from kmirror.record.compression import CompressionType
from kmirror.record.control_record import ControlRecordType, build_end_transaction_marker, build_mirror_pid_reset
from kmirror.record.record import Record
from kmirror.record.record_batch import iter_batches
from kmirror.runtime.os_files import OsFileSystem
from kmirror.verify.header_scan import NO_CONTROL_RECORD, HeaderBlock, read_headers
from kmirror.verify.slices import LogSlice

TIME = 1_750_000_000_000
FILES = OsFileSystem()


def data_batch(offset: int, *, size: int = 20, codec: CompressionType = CompressionType.NONE, count: int = 1) -> bytes:
    records = [Record(offset + i, TIME + i, None, os.urandom(size), []) for i in range(count)]
    return bytes(build_batch(records, base_offset=offset, compression=codec, partition_leader_epoch=3))


def marker(offset: int, *, kind: ControlRecordType = ControlRecordType.ABORT) -> bytes:
    return bytes(
        build_end_transaction_marker(
            kind, coordinator_epoch=9, producer_id=7, producer_epoch=1, timestamp=TIME + offset, base_offset=offset
        )
    )


def piece_of(path: Path, *, start: int = 0, end: int | None = None, is_last: bool = True, listed: int | None = None) -> LogSlice:
    size = path.stat().st_size if listed is None else listed
    return LogSlice(str(path.parent), str(path), "t", 0, 0, start, size if end is None else end, size, is_last)


def written(folder: Path, *parts: bytes) -> Path:
    path = folder / f"{0:020d}.log"
    path.write_bytes(b"".join(parts))
    return path


def mixed_log() -> list[bytes]:
    """Small and large batches in turns, so that each way of reading goes over into the other."""
    parts, offset = [], 0
    for number in range(120):
        size = 100_000 if number % 40 > 25 else 10
        part = marker(offset) if number % 11 == 5 else data_batch(offset, size=size, count=1 + number % 3)
        parts.append(part)
        offset = next(iter(iter_batches(part))).next_offset
    return parts


class CountingFile:
    """Counts what is read."""

    def __init__(self, file: File) -> None:
        self.file = file
        self.path = file.path
        self.bytes_read = self.calls = 0

    def pread(self, size: int, position: int) -> bytes:
        data = self.file.pread(size, position)
        self.bytes_read += len(data)
        self.calls += 1
        return data

    def close(self) -> None:
        self.file.close()


class CountingFiles(OsFileSystem):
    opened: CountingFile

    def open(self, path: str, *, create: bool = False, exclusive: bool = False, write: bool = True) -> File:
        self.opened = CountingFile(super().open(path, create=create, exclusive=exclusive, write=write))
        return self.opened  # type: ignore[return-value]


@pytest.mark.parametrize("block_bytes", [61, 500, 4096, 150_000, 4 << 20])
@pytest.mark.parametrize("check_crc", [True, False])
def test_every_way_of_reading_gives_the_same_headers(tmp_path: Path, block_bytes: int, check_crc: bool) -> None:
    parts = mixed_log()
    path = written(tmp_path, *parts)
    blocks = list(read_headers(FILES, piece_of(path), check_crc=check_crc, block_bytes=block_bytes))
    batches = [batch for part in parts for batch in iter_batches(part)]
    positions = np.concatenate([block.positions for block in blocks])
    assert positions.tolist() == np.cumsum([0, *map(len, parts)])[:-1].tolist()
    headers = np.concatenate([block.headers for block in blocks])
    assert [tuple(row) for row in headers[["base_offset", "crc", "last_offset_delta", "record_count"]].tolist()] == [
        (batch.base_offset, batch.crc, batch.last_offset_delta, batch.record_count) for batch in batches
    ]
    assert all(block.crc_ok.all() if check_crc and block.crc_ok is not None else block.crc_ok is None for block in blocks)
    controls = [(int(block.headers["base_offset"][control.row]), control) for block in blocks for control in block.controls]
    assert [offset for offset, _ in controls] == [batch.base_offset for batch in batches if batch.is_control]
    assert all(control[1:] == (ControlRecordType.ABORT, 9, TIME + offset, None) for offset, control in controls)
    assert blocks[-1].end_position == path.stat().st_size


def test_a_slice_is_read_from_its_start_to_its_end(tmp_path: Path) -> None:
    parts = [data_batch(offset) for offset in range(10)]
    path = written(tmp_path, *parts)
    ends = np.cumsum([0, *map(len, parts)]).tolist()
    piece = piece_of(path, start=ends[2], end=ends[7])
    assert pickle.loads(pickle.dumps(piece)) == piece
    (block,) = read_headers(FILES, piece, check_crc=True)
    assert block.headers["base_offset"].tolist() == [2, 3, 4, 5, 6]
    assert block.positions.tolist() == ends[2:7]
    assert list(read_headers(FILES, piece_of(path, start=ends[3], end=ends[3]), check_crc=True)) == []


def test_bodies_of_large_batches_stay_unread_without_crc(tmp_path: Path) -> None:
    path = written(tmp_path, *[data_batch(offset, size=200_000) for offset in range(60)])
    files = CountingFiles()
    blocks = list(read_headers(files, piece_of(path), check_crc=False, block_bytes=1 << 20))
    assert sum(len(block.headers) for block in blocks) == 60
    assert files.opened.bytes_read < 1.2 * (1 << 20)


def test_small_batches_are_read_in_blocks_without_crc(tmp_path: Path) -> None:
    path = written(tmp_path, *[data_batch(offset) for offset in range(3000)])
    files = CountingFiles()
    list(read_headers(files, piece_of(path), check_crc=False, block_bytes=1 << 16))
    assert files.opened.calls < 10


def test_what_control_batches_say(tmp_path: Path) -> None:
    emptied = empty_batch(
        next(iter_batches(marker(2))),
    )
    path = written(
        tmp_path, marker(0, kind=ControlRecordType.COMMIT), build_mirror_pid_reset("A" * 22, timestamp=TIME, base_offset=1), emptied
    )
    (block,) = read_headers(FILES, piece_of(path), check_crc=True)
    assert [control.control_type for control in block.controls] == [
        ControlRecordType.COMMIT,
        ControlRecordType.MIRROR_PID_RESET,
        NO_CONTROL_RECORD,
    ]
    assert [control.source_cluster_id for control in block.controls] == [None, "A" * 22, None]
    assert [control.coordinator_epoch for control in block.controls] == [9, -1, -1]


def test_a_marker_is_read_the_same_wherever_its_fields_lie(tmp_path: Path) -> None:
    """With a delete horizon the timestamp's delta moves everything behind it; an unknown type, or a
    longer value, is no plain marker either.
    """
    plain = next(iter_batches(marker(0)))
    with_horizon = build_batch(
        list(plain.records()),
        base_offset=0,
        producer_id=7,
        producer_epoch=1,
        is_transactional=True,
        is_control=True,
        delete_horizon_ms=TIME + 5000,
    )
    assert len(with_horizon) > len(marker(0))
    record = next(plain.records())
    longer = build_batch(
        [Record(2, record.timestamp, record.key, bytes(record.value or b"") + b"x", [])],
        base_offset=2,
        producer_id=7,
        producer_epoch=1,
        is_transactional=True,
        is_control=True,
    )
    unknown = build_batch([Record(3, TIME, b"\0\0\0\x09", b"\0\0\0\0\0\1", [])], base_offset=3, is_control=True)
    path = written(tmp_path, with_horizon, marker(1), longer, unknown)
    (block,) = read_headers(FILES, piece_of(path), check_crc=True)
    assert [control[1:4] for control in block.controls] == [(0, 9, TIME), (0, 9, TIME + 1), (0, 9, TIME), (9, -1, TIME)]


def test_a_flipped_byte_is_a_row_not_an_error(tmp_path: Path) -> None:
    parts = [bytearray(data_batch(offset)) for offset in range(3)] + [bytearray(marker(3))]
    parts[1][-1] ^= 1
    parts[3][-1] ^= 1
    (block,) = read_headers(FILES, piece_of(written(tmp_path, *parts)), check_crc=True)
    assert block.crc_ok is not None
    assert block.crc_ok.tolist() == [True, False, True, False]
    assert block.controls == []


def until_error(path: Path, piece: LogSlice, *, check_crc: bool) -> tuple[list[HeaderBlock], CorruptFileError]:
    blocks = []
    with pytest.raises(CorruptFileError) as caught:
        for block in read_headers(FILES, piece, check_crc=check_crc):
            blocks.append(block)
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)
    return blocks, caught.value


@pytest.mark.parametrize("size", [20, 100_000])
@pytest.mark.parametrize("check_crc", [True, False])
@pytest.mark.parametrize(
    ("byte", "value", "text"), [(8, b"\0\0\0\5", "record size 5"), (16, b"\1", "format v1"), (8, b"\0\0\0\x20", "smallest has 61")]
)
def test_a_batch_that_is_none_is_named_behind_what_is_sound(
    tmp_path: Path, size: int, check_crc: bool, byte: int, value: bytes, text: str
) -> None:
    parts = [bytearray(data_batch(offset, size=size)) for offset in range(60)]
    parts[55][byte : byte + len(value)] = value
    path = written(tmp_path, *parts)
    blocks, error = until_error(path, piece_of(path), check_crc=check_crc)
    assert sum(len(block.headers) for block in blocks) == 55
    assert error.position == sum(map(len, parts[:55]))
    assert text in error.reason


@pytest.mark.parametrize("size", [20, 100_000])
@pytest.mark.parametrize("check_crc", [True, False])
@pytest.mark.parametrize("left", [1, 16, 17, 60, 61, 80])
def test_an_incomplete_batch_is_an_append_at_the_log_s_end_only(tmp_path: Path, size: int, check_crc: bool, left: int) -> None:
    parts = [data_batch(offset, size=size) for offset in range(60)]
    path = written(tmp_path, *parts[:-1], parts[-1][:left])
    blocks = list(read_headers(FILES, piece_of(path), check_crc=check_crc))
    assert sum(len(block.headers) for block in blocks) == 59
    blocks, error = until_error(path, piece_of(path, is_last=False), check_crc=check_crc)
    assert sum(len(block.headers) for block in blocks) == 59
    assert error.position == sum(map(len, parts[:-1]))
    assert "not the end of the log" in error.reason


def test_a_too_large_length_in_the_middle_is_not_the_end_of_the_last_segment_s_slice(tmp_path: Path) -> None:
    """In the middle of a slice that does not end the segment nothing is being appended."""
    parts = [bytearray(data_batch(offset)) for offset in range(10)]
    parts[4][8:12] = (1 << 20).to_bytes(4, "big")
    path = written(tmp_path, *parts)
    end = sum(map(len, parts[:8]))
    _, error = until_error(path, piece_of(path, end=end), check_crc=True)
    assert error.position == sum(map(len, parts[:4]))


@pytest.mark.parametrize("check_crc", [True, False])
def test_a_segment_cut_since_it_was_listed_ends_without_looping(tmp_path: Path, check_crc: bool) -> None:
    parts = [data_batch(offset, size=100_000) for offset in range(10)]
    path = written(tmp_path, *parts)
    listed = path.stat().st_size
    os.truncate(path, sum(map(len, parts[:6])))
    blocks, error = until_error(path, piece_of(path, listed=listed, is_last=False), check_crc=check_crc)
    assert sum(len(block.headers) for block in blocks) == 6
    assert error.position == sum(map(len, parts[:6]))
    assert sum(len(block.headers) for block in read_headers(FILES, piece_of(path, listed=listed), check_crc=check_crc)) == 6
