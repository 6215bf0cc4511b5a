"""`kafka-log-diff`: inputs, options, exit codes, the three forms of the report."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest
from support.logs.log_folders import batch, batches, write_log

from kmirror.cli import log_diff_run
from kmirror.cli.log_diff import build_parser, main
from kmirror.cli.log_diff_run import settings_of
from kmirror.cli.partition_numbers import parse_partition_numbers
from kmirror.common.errors import KmirrorError
from kmirror.verify.verdict import DifferenceKind


@pytest.fixture
def dirs(tmp_path: Path) -> tuple[Path, Path]:
    """Two data dirs: `same-0` and `same-1` equal, `other-0` with another leader epoch, an internal
    topic that differs.
    """
    a, b = tmp_path / "a", tmp_path / "b"
    for side in (a, b):
        write_log(side / "same-0", *batches(4))
        write_log(side / "same-1", *batches(2))
    write_log(a / "other-0", *batches(3))
    write_log(b / "other-0", batch(0), batch(5, epoch=1), batch(10))
    write_log(a / "__consumer_offsets-0", *batches(1))
    write_log(b / "__consumer_offsets-0", *batches(2))
    return a, b


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_data_dirs_are_matched_by_name_without_internal_topics(dirs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *dirs)
    assert (code, err) == (1, "")
    lines = out.splitlines()
    assert lines[0] == f"A: {dirs[0]}" and lines[1] == f"B: {dirs[1]}"
    assert lines[2].startswith("other-0: different, epoch only: 1; compared from offset 0, ")
    assert lines[3] == "  epoch only at offsets 5 to 9: leader epoch 0 in A, 1 in B"
    assert f"of {dirs[0]}/other-0/00000000000000000000.log, crc " in lines[4] and lines[5].startswith(
        "    B: offsets 5..9, epoch 1, 5 records, "
    )
    assert [line.partition(",")[0] for line in lines[6:8]] == ["same-0: equal", "same-1: equal"]
    assert [line.partition(";")[0] for line in lines[8:10]] == [
        "set of A: 3 partitions, nothing known to be missing or nobody's",
        "set of B: 3 partitions, nothing known to be missing or nobody's",
    ]
    assert lines[10] == "3 partitions: 2 equal, 1 different (epoch only: 1)"


def test_a_topic_of_users_whose_name_begins_as_internal_ones_do_is_compared(
    dirs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    write_log(dirs[0] / "__audit-0", *batches(2))
    for name in ("__mirror_state-0", "__share_group_state-0", "__transaction_state-0", "__cluster_metadata-0"):
        write_log(dirs[0] / name, *batches(1))
    code, out, _ = run(capsys, *dirs, "--topics", "__.*")
    assert code == 1
    assert [line for line in out.splitlines() if line.startswith("__")] == ["__audit-0: different, missing: 1"], out


def test_selection_and_what_does_not_count(dirs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, *dirs, "--topics", "same")[0] == 0
    assert run(capsys, *dirs, "--topics", "sam")[0] == 2, "the whole name must match"
    code, out, _ = run(capsys, *dirs, "--partitions", "1-3")
    assert (code, out.splitlines()[-1]) == (0, "1 partition: 1 equal")
    code, out, _ = run(capsys, *dirs, "--ignore", "epoch-only,compacted")
    assert (code, out.splitlines()[-1]) == (0, "3 partitions: 3 equal; not counted: epoch only: 1")
    assert "__consumer_offsets-0: different, extra: 1" in run(capsys, *dirs, "--include-internal")[1]


def test_partition_folders_are_compared_whatever_they_are_called(dirs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    a, b = dirs
    assert run(capsys, a / "same-0", b / "same-0")[0] == 0
    assert run(capsys, a / "same-1", b / "__consumer_offsets-0")[0] == 0
    copy = write_log(a.parent / "copy", *batches(4))
    assert run(capsys, copy, b / "same-0")[0] == 0
    code, out, _ = run(capsys, a / "other-0", b)
    assert (code, out.splitlines()[-1]) == (1, "1 partition: 1 different (epoch only: 1)")


def test_a_partition_on_one_side_only(dirs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    write_log(dirs[0] / "new-3", *batches(2))
    code, out, _ = run(capsys, *dirs, "--json")
    verdict = next(row for row in json.loads(out)["partitions"] if row["topic"] == "new")
    assert code == 1 and verdict["difference_counts"] == {"missing": 1}
    assert (verdict["differences"][0]["first_offset"], verdict["differences"][0]["last_offset"]) == (0, 9)


def test_checkpoints_beside_the_folders_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    write_log(a / "t-0", *batches(6))
    write_log(b / "t-0", *batches(6)[2:4])
    (a / "replication-offset-checkpoint").write_text("0\n1\nt 0 20\n")
    (a / "log-start-offset-checkpoint").write_text("0\n1\nt 0 3\n")
    (b / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 8\n")
    code, out, _ = run(capsys, a, b, "--json")
    verdict = json.loads(out)["partitions"][0]
    assert code == 1 and verdict["start_offset"] == 3
    found = [(row["kind"], row["first_offset"]) for row in verdict["differences"]]
    assert found == [("key-lost", 0), ("missing", 5), ("beyond-high-watermark", 20), ("beyond-high-watermark", 25)]


def test_json_is_the_whole_report(dirs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    report = json.loads(run(capsys, *dirs, "--json")[1])
    assert (report["status"], report["engine"], report["difference_counts"]) == ("different", "local", {"epoch-only": 1})
    difference = report["partitions"][0]["differences"][0]
    assert (difference["kind"], difference["topic"], difference["partition"]) == ("epoch-only", "other", 0)
    assert difference["right"][0]["leader_epoch"] == 1 and difference["right"][0]["position"] == len(batch(0))


def test_a_long_tail_shows_its_first_batches(dirs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_log(dirs[0] / "same-0", *batches(30))
    code, out, _ = run(capsys, *dirs, "--topics", "same", "--report", tmp_path / "report.html")
    lines = out.splitlines()
    size = sum(map(len, batches(30)[4:]))
    assert code == 1 and lines[2].startswith("same-0: different, missing: 1; ")
    assert lines[3] == f"  missing at offsets 20 to 149: 26 batches ({size:,} bytes) only in A, behind the end of B"
    assert lines[13].startswith("    A: offsets 65..69, ") and lines[14] == "    A: ... and 16 more batches"
    assert "... and 16 more batches" in (tmp_path / "report.html").read_text()
    assert run(capsys, *dirs, "--topics", "same", "--allow-lag")[0] == 0


def test_the_html_report_needs_nothing_beside_it(dirs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "report.html"
    write_log(dirs[0] / "a<b&c-0", *batches(1))
    assert run(capsys, *dirs, "--report", page)[0] == 1
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"(src|href)\s*=\s*[\"'](?!#)|@import|url\(|<script", text)
    assert "The logs are different." in text and "leader epoch 0 in A, 1 in B" in text and "<dd class=changed>1</dd>" in text
    assert "a&lt;b&amp;c-0" in text and "a<b" not in text


def test_errors_are_one_line_and_exit_code_2(dirs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for arguments, words in (
        (("/no/such/dir", dirs[1]), "/no/such/dir is not a directory"),
        ((dirs[0], empty), "holds no partition"),
        ((*dirs, "--ignore", "missin"), "'missin' is not a kind of difference; the kinds are missing, extra, "),
        ((*dirs, "--partitions", "a"), "--partitions takes numbers"),
        ((*dirs, "--topics", "("), "is not a regular expression"),
        ((*dirs, "--max-differences", "-1"), "--max-differences"),
        ((*dirs, "--report", "/no/such/dir/x.html"), "/no/such/dir/x.html"),
        (("bootstrap:nowhere", dirs[1]), "'nowhere' is not host:port"),
        (("bootstrap:127.0.0.1:9", dirs[1], "--engine", "spark"), ""),
        ((*dirs, "--engine", "local", "--master", "yarn"), "--master can only be used with --engine spark"),
        (("ftp://host/dir", dirs[1]), "'ftp' is not supported"),
    ):
        if words:
            code, out, err = run(capsys, *arguments)
            assert code == 2 and not out and words in err and err.count("\n") == 1 and err.startswith("kafka-log-diff: "), (arguments, err)


def test_a_corrupt_log_is_exit_code_2_and_names_the_byte(dirs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    write_log(dirs[1] / "same-0", batch(0), b"\xff" * 80)
    code, out, _ = run(capsys, *dirs)
    assert code == 2
    assert f"same-0: error: {dirs[1]}/same-0/00000000000000000000.log: at byte {len(batch(0))}: " in out
    assert out.splitlines()[-1] == "3 partitions: 1 equal, 1 different, 1 error (epoch only: 1)"


def _killed(*arguments: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_process_of_the_pool_gave_a_traceback(
    dirs: tuple[Path, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_diff_run, "POOL_THRESHOLD_BYTES", 0)
    monkeypatch.setattr(log_diff_run, "_diff_pair", _killed)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    code, out, err = run(capsys, *dirs)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "a process that compared partitions was killed" in err


def test_help_tells_every_kind_and_option() -> None:
    text = build_parser().format_help()
    assert all(f"  {kind.value} " in text for kind in DifferenceKind)
    for option in ("--engine", "--topics", "--partitions", "--json", "--report", "--ignore", "--allow-lag", "--include-internal"):
        assert option in text


def test_partition_lists() -> None:
    assert parse_partition_numbers("0,2-4, 9") == frozenset({0, 2, 3, 4, 9})
    assert parse_partition_numbers(None) is None
    for text in ("", "1-", "x", "1,,2"):
        with pytest.raises(KmirrorError, match="--partitions"):
            parse_partition_numbers(text)


def test_settings_come_from_the_options() -> None:
    settings = settings_of(build_parser().parse_args(["a", "b", "--ignore", "missing, extra", "--allow-lag", "--max-differences", "3"]))
    assert (settings.ignored, settings.allow_lag, settings.max_differences) == (frozenset({"missing", "extra"}), True, 3)
