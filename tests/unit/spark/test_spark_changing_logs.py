"""Batch queries over logs that change between planning and reading, or that a cleaner is just
changing: without a JVM.
"""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
from support.logs.log_folders import batch, batches, write_log, write_segments

pytest.importorskip("pyspark", reason="pyspark is not installed (kmirror[spark])")
pytest.importorskip("pyarrow", reason="pyarrow is not installed (kmirror[spark])")

from support.tools.spark_rows import PlannedRead, read_rows
from support.tools.stream_runs import StreamRun

from kmirror.common.errors import KmirrorError
from kmirror.spark.range_reader import RangeTask
from kmirror.spark.slice_reader import SliceReader

SIZE = len(batch(100))
"""Of each batch with offsets from 100 to 999."""


def offsets(rows: list[dict[str, Any]]) -> list[int]:
    return [row["offset"] for row in rows]


def indexed(folder: Path, base_offset: int, parts: list[bytes], *, every: int = 5) -> None:
    """A segment with an offset index: an entry for each `every` batches of five."""
    write_segments(folder, (base_offset, parts))
    entries = [
        struct.pack(">ii", int.from_bytes(part[:8], "big") + 4 - base_offset, row * SIZE)
        for row, part in enumerate(parts)
        if row and row % every == 0
    ]
    (folder / f"{base_offset:020d}.index").write_bytes(b"".join(entries))


@pytest.mark.parametrize("options", [{}, {"columns": "offset"}, {"mode": "PERMISSIVE"}], ids=str)
def test_what_a_cleaner_swaps_in_between_planning_and_reading_is_no_damage(tmp_path: Path, options: dict[str, str]) -> None:
    """Two segments become one, with every third batch: it used to be an error that called the sound
    log damaged.
    """
    folder = tmp_path / "t-0"
    write_segments(folder, (0, batches(20)), (100, batches(20, first=100)), (200, batches(2, first=200)))
    query = PlannedRead(tmp_path, splitBytes="700", **options)
    first = query.read(query.tasks[:1])
    write_segments(folder, (0, batches(40)[::3]))
    (folder / f"{100:020d}.log").unlink()
    rest = query.read(query.tasks[1:])
    expected = [offset for base in range(0, 200, 15) for offset in range(base, base + 5)] + list(range(200, 210))
    last = offsets(first)[-1]
    assert offsets(first) == list(range(last + 1))
    assert offsets(rest) == [offset for offset in expected if offset > last]
    assert all(row.get("_corrupt") is None for row in rest)


def test_a_cut_that_is_a_batch_of_other_offsets_by_now_is_no_cut(tmp_path: Path) -> None:
    """All batches have the same size, so in the cleaned segment a batch begins where the slice did,
    farther on in the log: what lies before it used to be left out without a word.
    """
    parts = batches(60, first=100)
    indexed(tmp_path / "t-0", 100, parts)
    write_segments(tmp_path / "t-0", (400, batches(1, first=400)))
    query = PlannedRead(tmp_path, splitBytes=str(10 * SIZE))
    pieces = [piece for task in query.tasks for piece in task.pieces]
    assert len(pieces) > 4
    first = query.read([RangeTask(pieces[:2])])
    cleaned = [part for part in parts if int.from_bytes(part[:8], "big") % 10 == 0]
    indexed(tmp_path / "t-0", 100, cleaned)
    end = offsets(first)[-1] + 1
    rest = [*range(end + (-end % 10), 400)]
    assert offsets(query.read([RangeTask(pieces[2:])])) == [offset for offset in rest if offset % 10 < 5] + [*range(400, 405)]


def test_a_front_deleted_between_planning_and_reading_is_lost_as_the_option_says(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = write_segments(tmp_path / "t-0", (0, batches(2)), (10, batches(2, first=10)))
    write_log(tmp_path / "t-1", *batches(1))
    careful, careless = PlannedRead(tmp_path), PlannedRead(tmp_path, failOnDataLoss="false")
    (folder / f"{0:020d}.log").unlink()
    with pytest.raises(KmirrorError, match=r"data loss: offsets 0 to 9 of t-0 were to be read, and the log begins at 10 by now"):
        careful.read(careful.tasks)
    assert offsets(careless.read(careless.tasks)) == [*range(10, 20), *range(5)]
    assert "data loss: offsets 0 to 9 of t-0" in caplog.text
    (folder / f"{10:020d}.log").unlink()
    folder.rmdir()
    with pytest.raises(KmirrorError, match=r"data loss: offsets 0 to 9 of t-0 were deleted while they were read: .*/t-0: No such file"):
        careful.read(careful.tasks)
    assert offsets(careless.read(careless.tasks)) == [*range(5)]


def test_a_log_that_is_deleted_after_it_was_read_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_log(tmp_path / "t-0", *batches(2))
    query = PlannedRead(tmp_path)
    original = SliceReader.read

    def read(*arguments: Any) -> Any:
        yield from original(*arguments)
        shutil.rmtree(tmp_path / "t-0")

    monkeypatch.setattr(SliceReader, "read", read)
    assert offsets(query.read(query.tasks)) == list(range(10))


def test_a_log_that_was_truncated_by_then_is_read_as_it_is(tmp_path: Path) -> None:
    parts = batches(40, first=100)
    indexed(tmp_path / "t-0", 100, parts)
    query = PlannedRead(tmp_path, splitBytes=str(10 * SIZE), failOnDataLoss="false")
    write_log(tmp_path / "t-0", *parts[:12], base_offset=100)
    assert offsets(query.read(query.tasks)) == list(range(100, 160))


def test_a_swap_under_way_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of it the segment has no name that a reader knows, and its records used to be
    left out.
    """
    folder = write_segments(tmp_path / "t-0", (0, batches(2)), (10, batches(2, first=10)), (20, batches(2, first=20)))
    middle, swap = folder / f"{10:020d}.log", folder / f"{10:020d}.log.swap"
    middle.rename(swap)
    monkeypatch.setattr("kmirror.spark.settled.time.sleep", lambda seconds: swap.exists() and swap.rename(middle))
    assert offsets(read_rows(tmp_path)) == list(range(30))
    middle.rename(swap)
    monkeypatch.setattr("kmirror.spark.settled.SETTLE_S", 0.0)
    monkeypatch.setattr("kmirror.spark.settled.time.sleep", lambda seconds: None)
    with pytest.raises(KmirrorError, match=r"t-0: cleaned segments are being swapped in, and that does not end: 0+10.log.swap"):
        read_rows(tmp_path)


def test_a_partition_that_is_deleted_while_the_input_is_listed_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker renames a deleted partition's folder; queries of all others used to fail."""
    for number in range(3):
        write_log(tmp_path / f"t-{number}", *batches(1))
    listdir = os.listdir

    def delete_and_list(path: str) -> Any:
        if path.endswith("/t-1"):
            (tmp_path / "t-1").rename(tmp_path / "t-1.0123456789abcdef0123456789abcdef-delete")
        return listdir(path)

    monkeypatch.setattr("kmirror.spark.files.os.listdir", delete_and_list)
    assert sorted({row["partition"] for row in read_rows(tmp_path)}) == [0, 2]


def test_offsets_that_go_back_at_a_cut_are_damage(tmp_path: Path) -> None:
    """No CRC covers a base offset, and each task sees only its own slice: the records of two
    batches had the same offsets, without an error.
    """
    parts = [bytearray(part) for part in batches(40, first=100)]
    folder = tmp_path / "t-0"
    indexed(folder, 100, [bytes(part) for part in parts])
    cut = PlannedRead(tmp_path, splitBytes=str(10 * SIZE)).tasks[1].pieces[0].piece.start // SIZE
    parts[cut][:8] = (100 + 5 * cut - 7).to_bytes(8, "big")
    write_log(folder, *(bytes(part) for part in parts), base_offset=100)
    for options in ({}, {"columns": "offset"}, {"rows": "batch", "columns": "base_offset"}):
        with pytest.raises(KmirrorError, match=f"at byte {cut * SIZE}: a batch .*offset"):
            read_rows(tmp_path, splitBytes=str(10 * SIZE), **options)
    rows = read_rows(tmp_path, splitBytes=str(10 * SIZE), mode="PERMISSIVE")
    assert [row["position"] for row in rows if row["_corrupt"] is not None] == [cut * SIZE]
    with pytest.raises(KmirrorError, match=f"at byte {cut * SIZE}: a batch .*offset"):
        StreamRun(tmp_path, splitBytes=str(10 * SIZE)).batch()


@pytest.mark.parametrize("claimed", [1 << 40, 0])
def test_damage_in_a_base_offset_is_a_row_whatever_it_claims(tmp_path: Path, claimed: int) -> None:
    """With an end to read up to, a batch that claimed an offset behind it was left out."""
    parts = [bytearray(part) for part in batches(6)]
    position = len(parts[0])
    parts[1][:8] = claimed.to_bytes(8, "big")
    write_log(tmp_path / "t-0", *(bytes(part) for part in parts))
    for rows in (
        read_rows(tmp_path, mode="PERMISSIVE", endingOffsets='{"t":{"0":20}}'),
        StreamRun(tmp_path, mode="PERMISSIVE").batch(),
    ):
        assert [row["position"] for row in rows if row["_corrupt"] is not None] == [position]
