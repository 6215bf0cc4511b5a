"""`kafka-log-diff --output DIR`: the report of a run without it, tables that say what they are, and
a second run that reads nothing.
"""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import pytest
from support.logs.log_folders import batch, batches, write_log, write_segments

from kmirror.cli import log_diff_output, log_diff_prints
from kmirror.cli.log_diff import main
from kmirror.verify.diff_tables import CHUNKS, SEGMENTS, TABLES

FORMATS = ["parquet", "jsonl"] if importlib.util.find_spec("pyarrow") else ["jsonl"]


@pytest.fixture(params=FORMATS)
def table_format(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name: str = request.param
    monkeypatch.setattr(log_diff_output, "has_parquet", lambda: name == "parquet")
    return name


@pytest.fixture
def dirs(tmp_path: Path) -> tuple[Path, Path]:
    """`same-0` and `empty-0` equal, `other-0` with another leader epoch and without its tail,
    `alone-0` in A only, `torn-0` broken in B.
    """
    a, b = tmp_path / "a", tmp_path / "b"
    parts = batches(6)
    write_segments(a / "same-0", (0, parts[:2]), (10, parts[2:]))
    write_segments(b / "same-0", (0, parts[:5]), (25, parts[5:]))
    write_log(a / "other-0", *parts)
    write_log(b / "other-0", batch(0), batch(5, epoch=1), batch(10))
    write_log(a / "alone-0", *parts)
    write_log(a / "empty-0")
    write_log(b / "empty-0")
    write_log(a / "torn-0", *parts)
    write_segments(b / "torn-0", (0, [*parts[:2], parts[2][:66]]), (15, parts[3:]))
    return a, b


def report_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, Any]]:
    code = main([*map(str, arguments), "--json"])
    return code, json.loads(capsys.readouterr().out)


def rows_of(folder: Path, name: str, table_format: str) -> list[dict[str, Any]]:
    if table_format == "jsonl":
        return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = pq.read_table(folder / f"{name}.parquet").to_pylist()
    return rows


def test_the_report_is_that_of_a_run_without_it(
    dirs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], table_format: str
) -> None:
    code, plain = report_of(capsys, *dirs)
    assert code == 2
    for extra in ((), (), ("--deep",)):
        code, found = report_of(capsys, *dirs, "--output", tmp_path / "out", *extra)
        assert (code, found) == (2, plain)


def test_tables_have_the_columns_that_are_documented(
    dirs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], table_format: str
) -> None:
    out = tmp_path / "out"
    report_of(capsys, *dirs, "--output", out)
    assert sorted(path.name for path in out.iterdir()) == sorted(["report.html", *(f"{table.name}.{table_format}" for table in TABLES)])
    for table in TABLES:
        for row in rows_of(out, table.name, table_format):
            assert list(row) == [column.name for column in table.columns] and row["schema_version"] == 1
    partitions = {row["topic"]: row for row in rows_of(out, "partitions", table_format)}
    assert {topic: row["status"] for topic, row in partitions.items()} == {
        "alone": "different", "empty": "equal", "other": "different", "same": "equal", "torn": "error"
    }  # fmt: skip
    size = sum(map(len, batches(6)))
    same = partitions["same"]
    assert (same["left_end_offset"], same["equal_bytes"], same["left_bytes_read"], same["difference_count"]) == (30, size, size, 0)
    assert partitions["alone"]["right_log"] is None and "incomplete batch" in partitions["torn"]["error"]
    found = [
        (row["topic"], row["kind"], row["first_offset"], row["last_offset"], row["left_batch_count"], row["right_position"])
        for row in rows_of(out, "differences", table_format)
    ]
    first = len(batch(0))
    assert found == [("alone", "missing", 0, 29, 0, None), ("other", "epoch-only", 5, 9, 1, first), ("other", "missing", 15, 29, 3, None)]
    chunks = rows_of(out, "chunks", table_format)
    segments = rows_of(out, "segments", table_format)
    assert sum(row["chunk_count"] for row in segments) == len(chunks)
    assert {(row["side"], row["topic"]) for row in segments} == {
        (side, topic) for side in "AB" for topic in ("empty", "other", "same", "torn")
    }


def test_a_second_run_reads_nothing_of_the_logs(
    dirs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], table_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    selected = (*dirs, "--topics", "same|empty", "--output", out)
    assert report_of(capsys, *selected)[0] == 0
    opened: list[str] = []
    from kmirror.runtime.os_files import OsFileSystem

    original = OsFileSystem.open

    def noted(self: OsFileSystem, path: str, **options: Any) -> Any:
        opened.append(path)
        return original(self, path, **options)

    monkeypatch.setattr(OsFileSystem, "open", noted)
    code, report = report_of(capsys, *selected)
    assert (code, report["partitions"][1]["bytes_compared"]) == (0, sum(map(len, batches(6))))
    assert not [path for path in opened if path.endswith(".log")]
    assert [row["left_bytes_read"] for row in rows_of(out, "partitions", table_format)] == [0, 0]
    parts = batches(6)
    for side in dirs:
        last = max((side / "same-0").glob("*.log"))
        last.write_bytes(last.read_bytes() + batch(30))
    assert report_of(capsys, *selected)[0] == 0
    rows = {row["topic"]: row for row in rows_of(out, "partitions", table_format)}
    assert (rows["same"]["left_bytes_read"], rows["same"]["left_end_offset"]) == (len(batch(30)), 35)
    assert rows["same"]["equal_bytes"] == sum(map(len, parts)) + len(batch(30))


@pytest.mark.parametrize("damage", ["other-version", "not-a-table", "half", "foreign-chunks"])
def test_tables_that_make_no_sense_are_not_believed(
    dirs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    monkeypatch.setattr(log_diff_output, "has_parquet", lambda: False)
    out = tmp_path / "out"
    selected = (*dirs, "--topics", "same", "--output", out)
    report_of(capsys, *selected)
    segments, chunks = out / f"{SEGMENTS.name}.jsonl", out / f"{CHUNKS.name}.jsonl"
    match damage:
        case "other-version":
            segments.write_text(segments.read_text().replace('"fingerprint_version": 1', '"fingerprint_version": 2'))
        case "not-a-table":
            segments.write_text("[]\n")
        case "half":
            chunks.write_text("".join(chunks.read_text().splitlines(keepends=True)[:-1]))
        case "foreign-chunks":
            chunks.write_text(chunks.read_text().replace('"size_bytes": ', '"size_bytes": 1'))
    assert report_of(capsys, *selected)[0] == 0
    assert sum(row["left_bytes_read"] + row["right_bytes_read"] for row in rows_of(out, "partitions", "jsonl")) > 0


def test_slices_of_large_logs_are_read_by_a_process_for_each_core(
    dirs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_diff_prints, "POOL_THRESHOLD_BYTES", 0)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    plain = report_of(capsys, *dirs)
    assert report_of(capsys, *dirs, "--output", tmp_path / "out") == plain


def cluster(folder: Path, replicas: dict[int, list[bytes]]) -> Path:
    """A folder of log.dirs with `t-0` in each, all replicas of it, the leader's with the latest
    leader epoch.
    """
    for node, parts in replicas.items():
        data = folder / f"node-{node}" / "data"
        write_log(data / "t-0", *parts)
        (data / "t-0" / "leader-epoch-checkpoint").write_text(f"0\n1\n{1 if node == 2 else 0} 0\n")
        (data / "replication-offset-checkpoint").write_text("0\n1\nt 0 20\n")
    return folder


def test_replicas_of_a_cluster_are_compared_with_the_one_that_would_be_elected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = batches(6)
    sound = cluster(tmp_path / "a", {1: parts[:4], 2: parts[:5], 3: [*parts[:4], batch(20, text="not committed"), parts[5]]})
    other = cluster(tmp_path / "b", {1: [*parts[:1], batch(5, text="diverged"), *parts[2:5]], 2: parts[:5]})
    code = main([str(sound), str(other)])
    lines = capsys.readouterr().out.splitlines()
    names = [line.partition(",")[0] for line in lines if line.startswith("t-0")]
    assert code == 1 and names == ["t-0: equal"] + ["t-0 (replicas of A): equal"] * 2 + ["t-0 (replicas of B): different"]
    assert lines[-1] == "4 partitions: 3 equal, 1 different (bytes differ: 1); not counted: beyond high watermark: 3"
    for _ in range(2):
        assert main([str(sound), str(other), "--output", str(tmp_path / "out")]) == 1
        assert capsys.readouterr().out.splitlines() == lines
    assert main([str(sound), str(other), "--no-replicas", "--report", str(tmp_path / "report.html")]) == 0
    assert main([str(sound / "node-2" / "data"), str(other)]) == 1, "B's replicas are compared, too"


def test_what_does_not_go_together_is_said(dirs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, words in (
        ((*dirs, "--deep"), "--deep can only be used with --output"),
        ((*dirs, "--full"), "--full can only be used with --output"),
        ((*dirs, "--output", dirs[0] / "same-0" / f"{0:020d}.log"), f"{0:020d}.log"),
    ):
        assert main([*map(str, arguments)]) == 2
        captured = capsys.readouterr()
        assert not captured.out and words in captured.err and captured.err.count("\n") == 1, captured.err


def bytes_read(out: Path) -> dict[str, list[int]]:
    return {row["topic"]: [row["left_bytes_read"], row["right_bytes_read"]] for row in rows_of(out, "partitions", FORMATS[0])}


def test_a_segment_that_was_written_in_place_or_replaced_is_read_again(
    dirs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its old size and time it passed for unchanged."""
    out = tmp_path / "out"
    selected = (*dirs, "--topics", "same", "--output", out)
    assert report_of(capsys, *selected)[0] == report_of(capsys, *selected)[0] == 0
    assert bytes_read(out) == {"same": [0, 0]}
    first, last = sorted((dirs[1] / "same-0").glob("*.log"))
    before = last.stat()
    with last.open("r+b") as file:
        file.seek(70)
        byte = file.read(1)[0]
        file.seek(70)
        file.write(bytes([byte ^ 1]))
    os.utime(last, ns=(before.st_atime_ns, before.st_mtime_ns))
    code, report = report_of(capsys, *selected)
    assert (code, report["difference_counts"]) == (1, {"bytes-differ": 1})
    assert bytes_read(out) == {"same": [0, before.st_size]}
    before = first.stat()
    copy = first.with_suffix(".copy")
    copy.write_bytes(first.read_bytes())
    os.utime(copy, ns=(before.st_atime_ns, before.st_mtime_ns))
    copy.replace(first)
    report_of(capsys, *selected)
    assert bytes_read(out) == {"same": [0, before.st_size]}, "as a cleaner replaces it"


def test_a_cleaners_pass_makes_segments_be_read_again_where_files_tell_nothing(
    dirs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from kmirror.runtime.os_files import OsFileSystem

    monkeypatch.setattr(OsFileSystem, "file_identity", lambda self, path: "")
    out = tmp_path / "out"
    selected = (*dirs, "--topics", "same", "--output", out)
    assert report_of(capsys, *selected)[0] == report_of(capsys, *selected)[0] == 0
    assert bytes_read(out) == {"same": [0, 0]}
    (dirs[0] / "cleaner-offset-checkpoint").write_text("0\n1\nsame 0 10\n")
    assert report_of(capsys, *selected)[0] == 0
    first = min((dirs[0] / "same-0").glob("*.log"))
    assert bytes_read(out) == {"same": [first.stat().st_size, 0]}, "the second one begins where the cleaner ended"


def test_full_trusts_nothing(dirs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    selected = (*dirs, "--topics", "same", "--output", tmp_path / "out")
    assert report_of(capsys, *selected)[0] == report_of(capsys, *selected, "--full")[0] == 0
    size = sum(map(len, batches(6)))
    assert bytes_read(tmp_path / "out") == {"same": [size, size]}
