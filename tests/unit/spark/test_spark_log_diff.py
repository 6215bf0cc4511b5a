"""`kafka-log-diff --engine spark`: one report whatever the engine, and a large partition in many
tasks.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from support.logs.cluster_damage import DAMAGES, Clusters
from support.logs.cluster_stories import MirrorStory
from support.logs.log_folders import batch, batches, records, write_log, write_segments

from kmirror.cli import log_diff_prints
from kmirror.cli.log_diff import main
from kmirror.record.builder import build_batch
from kmirror.spark import log_diff
from kmirror.verify import chunks, planner


@pytest.fixture
def dirs(tmp_path: Path) -> tuple[Path, Path]:
    """`large-0` with an index and three differences, many small ones, one of which differs, one
    torn in B, one only in A.
    """
    parts = batches(400)
    other = [*parts[:50], batch(250, text="other"), *parts[51:200], *parts[203:380]]
    for side, log in (("a", parts), ("b", other)):
        folder = write_segments(tmp_path / side / "large-0", (0, log[:40]), (200, log[40:]))
        position, entries = 0, b""
        for data in log[40:]:
            if position:
                entries += struct.pack(">ii", int.from_bytes(data[:8], "big") - 200, position)
            position += len(data)
        (folder / f"{200:020d}.index").write_bytes(entries)
        for number in range(30):
            write_log(tmp_path / side / f"small-{number}", *parts[: number % 4], *([batch(500)] if side == "a" and number == 7 else []))
    write_log(tmp_path / "a" / "torn-0", *parts[:6])
    write_segments(tmp_path / "b" / "torn-0", (0, [*parts[:2], parts[2][:66]]), (15, parts[3:6]))
    write_log(tmp_path / "a" / "alone-0", *parts[:6])
    return tmp_path / "a", tmp_path / "b"


def report_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    assert main([*map(str, arguments), "--json"]) == 2
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    report.pop("engine")
    return report


def test_the_report_does_not_depend_on_the_engine(
    spark: Any, dirs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = report_of(capsys, *dirs)
    assert expected["difference_counts"] == {"missing": 4, "bytes-differ": 1}
    monkeypatch.setattr(log_diff, "TASK_BYTES", 3_000)
    monkeypatch.setattr(planner, "TASK_BYTES", 3_000)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 2_000)
    ran: list[int] = []
    original = log_diff._run

    def counted(session: Any, tasks: Any, *rest: Any) -> Any:
        ran.append(len(tasks))
        return original(session, tasks, *rest)

    monkeypatch.setattr(log_diff, "_run", counted)
    assert report_of(capsys, *dirs, "--engine", "spark") == expected
    assert ran[0] > 8, "pieces of the large one"
    ran.clear()
    for _ in range(2):
        assert report_of(capsys, *dirs, "--engine", "spark", "--output", tmp_path / "out") == expected
    assert len(ran) == 5, "printed, told apart, and where keys must tell as a whole; the second time not printed"
    assert report_of(capsys, *dirs, "--engine", "local", "--output", tmp_path / "out") == expected


@pytest.mark.parametrize(
    ("texts", "code", "counts", "least"),
    [(("value", "other"), 1, {"bytes-differ": 200}, 8), (("value", "value"), 0, {}, 1)],
    ids=["differs everywhere", "equal"],
)
def test_a_large_partition_is_told_apart_by_as_many_tasks_as_it_differs(
    spark: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    texts: tuple[str, str],
    code: int,
    counts: dict[str, int],
    least: int,
) -> None:
    """One that differed everywhere was told apart by one task, for which the whole cluster waited;
    of an equal one nothing was left to be joined.
    """
    for side, text in zip("ab", texts):
        parts = [batch(5 * number, text=text) for number in range(200)]
        folder = write_segments(tmp_path / side / "huge-0", (0, parts))
        sizes = [sum(map(len, parts[:number])) for number in range(200)]
        entries = [struct.pack(">ii", 5 * number, size) for number, size in enumerate(sizes) if number]
        (folder / f"{0:020d}.index").write_bytes(b"".join(entries))
    monkeypatch.setattr(log_diff, "TASK_BYTES", 3_000)
    monkeypatch.setattr(planner, "TASK_BYTES", 3_000)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 2_000)
    tasks: list[int] = []
    original = log_diff._run

    def counted(session: Any, work: Any, function: Any, *rest: Any) -> Any:
        if function is log_diff._diff_piece:
            tasks.append(len(work))
        return original(session, work, function, *rest)

    monkeypatch.setattr(log_diff, "_run", counted)
    reports = []
    for arguments in ((), ("--engine", "spark"), ("--engine", "spark", "--output", str(tmp_path / "out"))):
        assert main([str(tmp_path / "a"), str(tmp_path / "b"), "--json", *arguments]) == code
        reports.append(json.loads(capsys.readouterr().out)["partitions"])
    assert reports[0] == reports[1] == reports[2] and reports[0][0]["difference_counts"] == counts
    assert min(tasks) >= least


def test_progress_is_told_as_tasks_end(spark: Any, dirs: tuple[Path, Path]) -> None:
    from kmirror.cli.log_diff_inputs import FolderInput
    from kmirror.verify.log_diff import DiffSettings

    left, right = (FolderInput(str(path)) for path in dirs)
    names = [name for name in left.names if name in right.names]
    told: list[int] = []
    pairs = [(left.log(name), right.log(name)) for name in names]
    log_diff.diff_on_spark(spark, pairs, left.name, right.name, DiffSettings(), told.append)
    assert sum(told) == sum(one.size_bytes + other.size_bytes for one, other in pairs)


@pytest.mark.parametrize("kind", [None, "reset missing", "mirror diverged"])
def test_a_mirror_is_judged_alike_by_both_engines(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, kind: str | None
) -> None:
    folder = tmp_path / "clusters"
    MirrorStory(folder, 21).tell(steps=30)
    sides = [str(folder / side) for side in "AB"]
    monkeypatch.setattr(log_diff, "TASK_BYTES", 400)
    monkeypatch.setattr(planner, "TASK_BYTES", 400)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 700)
    monkeypatch.setattr(log_diff_prints, "MAX_ENDS_ON_DRIVER", 0)
    cut: list[bool] = []
    original = log_diff._cut

    def noted(*arguments: Any) -> Any:
        slices, end = original(*arguments)
        cut.append(bool(slices) and end is not None)
        return slices, end

    monkeypatch.setattr(log_diff, "_cut", noted)

    def judged(*arguments: object) -> tuple[int, dict[str, Any]]:
        code = main([*sides, "--mirror", "--json", *map(str, arguments)])
        report: dict[str, Any] = json.loads(capsys.readouterr().out)
        assert report.pop("engine") == ("spark" if "spark" in arguments else "local")
        return code, report

    if kind is not None:
        DAMAGES[kind](Clusters(folder, 21))
    expected = judged()
    assert expected[0] == (0 if kind is None else 1)
    assert judged("--engine", "spark") == expected and any(cut)
    for _ in range(2):
        assert judged("--engine", "spark", "--output", tmp_path / "out") == expected


def test_a_key_that_was_lost_is_found_by_both_engines(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a large partition, too, whose pieces do not know the keys of the others."""
    monkeypatch.setattr(log_diff, "TASK_BYTES", 3_000)
    monkeypatch.setattr(planner, "TASK_BYTES", 3_000)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 2_000)
    parts = batches(120)
    again = bytes(build_batch(records(600, 100, keys=100), base_offset=600))
    for side, kept in (("a", parts), ("b", parts[:12] + parts[13:70] + parts[71:])):
        write_segments(tmp_path / side / "t-0", (0, [*kept, again]), (700, [batch(700)]))
        (tmp_path / side / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 500\n")
    reports = []
    for arguments in ((), ("--engine", "spark"), ("--engine", "spark", "--output", str(tmp_path / "out"))):
        assert main([str(tmp_path / "a"), str(tmp_path / "b"), "--json", *arguments]) == 1
        reports.append(json.loads(capsys.readouterr().out)["partitions"])
    assert reports[0] == reports[1] == reports[2]
    assert [(one["kind"], one["first_offset"], one["last_offset"]) for one in reports[0][0]["differences"]] == [
        ("compacted", 60, 64),
        ("key-lost", 350, 354),
    ]
