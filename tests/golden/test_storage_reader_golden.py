"""The read-only walk over every data directory that Apache Kafka wrote: complete, independent of
the block size, and it writes nothing.
"""

from __future__ import annotations

import pathlib

import pytest
from support.logs.golden_vectors import golden_cases, golden_dir

from kmirror.common.errors import CorruptFileError
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.columns import batch_columns, batch_positions
from kmirror.runtime.os_files import OsFileSystem
from kmirror.storage.index_reader import read_offset_index, read_time_index, read_transaction_index
from kmirror.storage.reader import SegmentReader, read_partition
from kmirror.verify.planner import list_input

_ANY = TopicPartition("any", 0)


def state(folder: pathlib.Path) -> list[tuple[str, int, int]]:
    return sorted((str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*"))


@pytest.mark.parametrize("case", [case for case in golden_cases() if case != "20-reference"])
def test_every_segment_is_read_the_same_with_any_block_size(case: str) -> None:
    folder = golden_dir() / case
    before = state(folder)
    files = OsFileSystem()
    for path in sorted({path.parent for path in folder.rglob("*.log") if path.is_file()}):
        partition = read_partition(files, str(path), None if "-" in path.name and path.name[-1].isdigit() else _ANY)
        assert partition.size == sum(file.stat().st_size for file in path.glob("*.log"))
        assert partition.topic_id(files) is not None or not (path / "partition.metadata").exists()
        for segment in partition.segments:
            with SegmentReader(files, segment.path()) as reader:
                assert_reads_alike(reader, pathlib.Path(segment.path()).read_bytes())
            for suffix, read in ((".index", read_offset_index), (".timeindex", read_time_index), (".txnindex", read_transaction_index)):
                if suffix in segment.sizes:
                    rows = read(files, segment.path(suffix))
                    assert len(rows) == segment.sizes[suffix] // rows.dtype.itemsize
    assert state(folder) == before


def assert_reads_alike(reader: SegmentReader, data: bytes) -> None:
    outcomes: list[tuple[list[tuple[int, bytes]], int | None]] = []
    for block_bytes in (4 << 20, 1000, 17):
        seen: list[tuple[int, bytes]] = []
        damage = None
        try:
            for position, batch in reader.batches(block_bytes=block_bytes):
                seen.append((position, bytes(batch.memory)))
        except CorruptFileError as error:
            damage = error.position
        outcomes.append((seen, damage))
    assert outcomes[0] == outcomes[1] == outcomes[2]
    seen, damage = outcomes[0]
    assert b"".join(batch for _, batch in seen) == data[: sum(len(batch) for _, batch in seen)]
    if damage is None:
        positions, end = batch_positions(data)
        assert [position for position, _ in seen] == positions
        assert reader.trailing_bytes == len(data) - end
        header_positions, headers = reader.headers()
        assert header_positions.tolist() == positions
        assert (headers == batch_columns(data, positions)).all()


def test_a_data_dir_is_walked_by_partition(tmp_path: pathlib.Path) -> None:
    for name in ("b-0", "a-1", "a-1.0123456789abcdef0123456789abcdef-delete", "nothing"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "00000000000000000000.log").write_bytes(b"")
    partitions = list_input(OsFileSystem(), str(tmp_path)).partitions
    assert [str(partition.topic_partition) for partition in partitions] == ["a-1", "b-0"]
    assert [partition.topic_partition.topic for partition in list_input(OsFileSystem(), str(tmp_path / "b-0")).partitions] == ["b"]
