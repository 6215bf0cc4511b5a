"""One listing of an input, cuts at what the offset index knows, and slices packed into tasks."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from support.logs.log_folders import batch, batches, write_log, write_segments

from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.runtime.os_files import OsFileSystem
from kmirror.spark.files import LocalFiles
from kmirror.verify.planner import Listing, list_input, list_tree, pack, plan
from kmirror.verify.slices import LogSlice


def listed(path: Path) -> Listing:
    ours, executors = (list_input(files, str(path)) for files in (OsFileSystem(), LocalFiles()))
    assert ours == executors, "both file systems list the same"
    return executors


def indexed(folder: Path, count: int, *, every: int = 1) -> tuple[Path, list[int]]:
    """A segment of `count` batches of five records with an index entry for each `every`th; (the
    folder, where batches begin).
    """
    parts = batches(count)
    positions = [sum(map(len, parts[:row])) for row in range(count)]
    write_log(folder, *parts)
    entries = b"".join(struct.pack(">ii", 5 * row + 4, positions[row]) for row in range(every, count, every))
    (folder / f"{0:020d}.index").write_bytes(entries + bytes(80))
    return folder, positions


def test_a_log_dir_a_partition_a_folder_of_segments_and_a_cluster(tmp_path: Path) -> None:
    for node in ("node-1", "node-2"):
        for name in ("t-0", "t-10", "t-9", "gone-0.0123456789abcdef0123456789abcdef-delete"):
            write_log(tmp_path / node / "data" / name, *batches(1))
        (tmp_path / node / "data" / "replication-offset-checkpoint").write_text("nonsense")
        (tmp_path / node / "server.log").write_text("not a segment")
    names = [TopicPartition("t", 0), TopicPartition("t", 9), TopicPartition("t", 10)]
    cluster = listed(tmp_path)
    assert [one.topic_partition for one in cluster.partitions] == names * 2 and not cluster.is_one_partition
    assert list(cluster.data_dir_files) == [f"{tmp_path}/node-1/data", f"{tmp_path}/node-2/data"]
    log_dir = listed(tmp_path / "node-1" / "data")
    assert [one.topic_partition for one in log_dir.partitions] == names
    assert log_dir.data_dir_files == {f"{tmp_path}/node-1/data": ["replication-offset-checkpoint"]}
    one = listed(tmp_path / "node-1" / "data" / "t-9")
    assert one.is_one_partition and one.partitions[0].topic_partition == ("t", 9)
    copy = write_log(tmp_path / "copy", *batches(1))
    assert listed(copy).partitions[0].topic_partition == ("copy", 0)


def test_a_copy_below_a_log_dir_is_not_read_twice(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", *batches(1))
    write_log(tmp_path / "backup" / "t-0", *batches(1))
    assert [one.path for one in listed(tmp_path).partitions] == [f"{tmp_path}/t-0"]


def test_what_is_no_input_is_told_in_one_line(tmp_path: Path) -> None:
    for path, words in ((tmp_path / "none", "is not a directory; give"), (tmp_path, "holds no partition")):
        with pytest.raises(KmirrorError, match=words) as raised:
            list_input(LocalFiles(), str(path))
        assert "\n" not in str(raised.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_nobody_may_read_is_passed_over_unless_it_is_a_partition(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", *batches(1))
    for name in ("lost+found", "t-1"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0)
        if name == "t-1":
            with pytest.raises(PermissionError):
                list_input(LocalFiles(), str(tmp_path))
        else:
            assert len(listed(tmp_path).partitions) == 1


def test_slices_are_cut_where_batches_begin_and_cover_the_segment(tmp_path: Path) -> None:
    folder, positions = indexed(tmp_path / "t-0", 100, every=3)
    listing = listed(folder)
    (segment,) = listing.partitions[0].segments
    largest = segment.log_size - positions[-1]
    for task_bytes in (1, 400, 1_000, 5_000, 1 << 30):
        slices = list(listing.slices(LocalFiles(), listing.partitions[0], task_bytes=task_bytes))
        assert [one.start for one in slices[1:]] == [one.end for one in slices[:-1]]
        assert (slices[0].start, slices[-1].end) == (0, segment.log_size)
        assert {one.start for one in slices} <= set(positions)
        assert all(one.size <= task_bytes + 6 * largest for one in slices)
        assert len(slices) >= min(30, segment.log_size // task_bytes)


def test_offsets_choose_segments_and_their_bytes(tmp_path: Path) -> None:
    _, positions = indexed(tmp_path / "t-0", 100, every=3)
    write_segments(tmp_path / "t-0", (500, [batch(500)]), (505, []))
    listing = listed(tmp_path / "t-0")

    def bytes_for(low: int, high: int) -> list[tuple[int, int, int]]:
        slices = listing.slices(LocalFiles(), listing.partitions[0], low=low, high=high, task_bytes=1_000)
        return [(one.base_offset, one.start, one.end) for one in slices]

    positions += [listing.partitions[0].segments[0].log_size] * 9
    for low in range(0, 488, 7):
        for high in (low, low + 11, 498):
            pieces = bytes_for(low, high)
            assert pieces[0][1] <= positions[low // 5] and pieces[-1][2] >= positions[high // 5 + 1]
            assert pieces[0][1] >= positions[max(0, low // 5 - 3)] and pieces[-1][2] <= positions[high // 5 + 8]
    assert [piece[0] for piece in bytes_for(500, 1 << 62)] == [500] and bytes_for(504, 504)[0][0] == 500
    assert [one.is_last_segment for one in listing.slices(LocalFiles(), listing.partitions[0])] == [False, False]


@pytest.mark.parametrize("damage", ["garbage", "shifted", "missing"])
def test_an_index_that_is_wrong_never_cuts_a_batch(tmp_path: Path, damage: str) -> None:
    folder, positions = indexed(tmp_path / "t-0", 100)
    path = folder / f"{0:020d}.index"
    entries = list(struct.iter_unpack(">ii", path.read_bytes()))
    if damage == "garbage":
        path.write_bytes(bytes(range(1, 256)) * 3)
    elif damage == "shifted":
        path.write_bytes(b"".join(struct.pack(">ii", offset, position + 1) for offset, position in entries))
    else:
        path.unlink()
    listing = listed(folder)
    slices = list(listing.slices(LocalFiles(), listing.partitions[0], task_bytes=500, low=200, high=300))
    assert {one.start for one in slices} <= set(positions)
    assert {one.end for one in slices} <= {*positions, listing.partitions[0].segments[0].log_size}


def test_an_index_whose_offsets_are_too_great_hides_no_record(tmp_path: Path) -> None:
    """It says of each batch that it ends far behind what is wanted: a slice used to end there."""
    folder, positions = indexed(tmp_path / "t-0", 100)
    path = folder / f"{0:020d}.index"
    entries = [entry for entry in struct.iter_unpack(">ii", path.read_bytes()) if entry[1]]
    path.write_bytes(b"".join(struct.pack(">ii", offset + (300 if offset > 60 else 0), position) for offset, position in entries))
    listing = listed(folder)
    for low in (0, 150, 330):
        slices = list(listing.slices(LocalFiles(), listing.partitions[0], task_bytes=500, low=low, high=350))
        assert slices[0].start <= positions[low // 5] and slices[-1].end >= positions[350 // 5 + 1]
        assert all(low < one.first_offset <= 350 for one in slices[1:])


def piece(size: int) -> LogSlice:
    return LogSlice("x", "x/0.log", "t", 0, 0, 0, size, size, True)


def test_small_slices_share_a_task_and_large_ones_have_their_own() -> None:
    tasks = pack([piece(50_000)] * 10_000, task_bytes=64 << 20)
    assert 8 <= len(tasks) <= 40 and sum(map(len, tasks)) == 10_000
    assert [len(task) for task in pack([piece(60 << 20), *[piece(1 << 20)] * 3, piece(60 << 20)], task_bytes=64 << 20)] == [4, 1]
    assert len(pack([piece(64 << 20)] * 16, task_bytes=64 << 20)) == 16
    assert pack([]) == []


def test_a_plan_of_what_is_wanted(tmp_path: Path) -> None:
    for number in range(3):
        write_log(tmp_path / f"t-{number}", *batches(2))
    (task,) = plan(LocalFiles(), listed(tmp_path), wants=lambda name: (0, 100) if name.partition < 2 else None)
    assert [(one.topic, one.partition) for one in task] == [("t", 0), ("t", 1)]
    assert sorted(one.path for one in list_tree(OsFileSystem(), str(tmp_path), 1)) == [
        f"{tmp_path}/t-{number}/{0:020d}.log" for number in range(3)
    ]
