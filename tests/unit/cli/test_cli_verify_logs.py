"""`kmirror verify-logs`: inputs, options, exit codes, reports, tables."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest
from support.logs.replay_stories import Story

from kmirror.cli import log_diff_output, verify_engines
from kmirror.cli.kmirror import main
from kmirror.verify.replay import folder
from kmirror.verify.replay.tables import TABLES


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    story = Story(folder, 5, others=("roll", "epoch", "reset"))
    story.tell(100)
    story.end()
    return folder


def damage(data_dir: Path) -> Path:
    path = max((data_dir / "t-0").glob("*.log"), key=lambda path: path.stat().st_size)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    return path


def test_a_sound_data_dir_is_exit_code_0(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify-logs", str(data_dir)]) == 0
    out = capsys.readouterr().out
    unseen = "records inside batches (--deep unpacks them), which partitions belong here (the input has no"
    assert out.startswith("t-0: sound, offsets 0 to ")
    assert f"1 log, all sound; not looked at: {unseen} __cluster_metadata" in out


def test_damage_is_exit_code_1_and_a_line_with_file_and_byte(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = damage(data_dir)
    assert main(["verify-logs", str(data_dir)]) == 1
    out = capsys.readouterr().out
    assert f"  structure crc: {path}, byte " in out and "with findings (structure crc: 1)" in out
    assert main(["verify-logs", str(data_dir), "--no-crc"]) == 0


def test_json_has_logs_and_findings(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = damage(data_dir)
    assert main(["verify-logs", str(data_dir / "t-0"), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["version"] == 1
    assert [(row["topic"], row["partition"], row["findings"]) for row in report["logs"]] == [("t", 0, 1)]
    assert [(row["kind"], row["file"]) for row in report["findings"]] == [("crc", str(path))]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "nowhere is not a directory"),
        ([".", "--topics", "("], "not a regular expression"),
        ([".", "--partitions", "x"], "--partitions takes numbers"),
        (["DATA", "--topics", "other"], "nothing to verify"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(
    data_dir: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert main(["verify-logs", *(str(data_dir) if word == "DATA" else word for word in arguments)]) == 2
    captured = capsys.readouterr()
    assert words in captured.err and captured.err.count("\n") == 1 and captured.err.startswith("kmirror verify-logs: ")


def test_gaps_count_where_topics_are_known_not_to_be_compacted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    story = Story(tmp_path / "data", 3, others=("clean", "clean", "roll"), policy="compact")
    story.tell(150)
    story.end()
    folder = str(tmp_path / "data")
    assert main(["verify-logs", folder]) == 0
    assert main(["verify-logs", folder, "--compacted", "t,u"]) == 0
    capsys.readouterr()
    assert main(["verify-logs", folder, "--compacted", "none"]) == 1
    assert "structure gap: " in capsys.readouterr().out


def test_a_pool_of_processes_finds_the_same(
    data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    damage(data_dir)
    assert main(["verify-logs", str(data_dir)]) == 1
    alone = capsys.readouterr().out
    monkeypatch.setattr(verify_engines, "POOL_THRESHOLD_BYTES", 0)
    monkeypatch.setattr(folder, "plan_tasks", lambda *args, **kwargs: [[p] for t in plan(*args, **kwargs) for p in t])
    assert main(["verify-logs", str(data_dir)]) == 1
    assert capsys.readouterr().out == alone


plan = folder.plan_tasks


def test_every_table_is_written_as_json_lines_without_arrow(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_diff_output, "has_parquet", lambda: False)
    assert main(["verify-logs", str(data_dir), "--output", str(tmp_path / "out")]) == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(["report.html", *(f"{table}.jsonl" for table in TABLES)])
    rows = [json.loads(line) for line in (tmp_path / "out" / "producers.jsonl").read_text().splitlines()]
    assert rows and {(row["topic"], row["schema_version"]) for row in rows} == {("t", 1)}


def test_every_table_is_written_as_parquet(data_dir: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    damage(data_dir)
    assert main(["verify-logs", str(data_dir), "--output", str(tmp_path / "out")]) == 1
    for table, row_type in TABLES.items():
        found = parquet.read_table(tmp_path / "out" / f"{table}.parquet")
        assert found.schema.names == ["schema_version", *(field.name for field in fields(row_type))]
        assert all(len(field.metadata[b"meaning"]) > 0 for field in found.schema)
        assert set(found.column("schema_version").to_pylist()) <= {1}
    assert parquet.read_table(tmp_path / "out" / "findings.parquet").column("kind").to_pylist() == ["crc"]
