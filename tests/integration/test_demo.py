"""`kmirror demo` on its small setting: exit code 0, equal logs, both reports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.waiting import PROGRAM_S


def test_the_demonstration_ends_with_equal_logs_and_its_reports(tmp_path) -> None:
    command = [sys.executable, "-m", "kmirror.cli.kmirror", "demo", "--engine", "local", "--records", "4000", "--output", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PROGRAM_S, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "equal, byte for byte" in done.stdout
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["logs_equal"] and report["failover_s"] > 0 and report["failback_s"] > 0
    assert report["acked_by_source"] >= 4000 and report["truncated_records"] > 0
    assert 0 < report["failback_bytes"] < report["log_bytes"]
    assert {sample["state"] for sample in report["timeline"]} >= {"MIRRORING", "STOPPED", "UNSEEN"}
    page = (tmp_path / "report.html").read_text()
    assert "STOPPED from" in page and "Looked at" in page and "http" not in page.replace("http-equiv", "")


@pytest.mark.parametrize(
    "missing, arguments, words",
    [
        ("confluent_kafka", [], "needs the package confluent-kafka: pip install 'kmirror[clients]'"),
        ("pyspark", ["--engine", "spark"], "--engine spark needs pyspark and pyarrow; install kmirror[spark]"),
    ],
)
def test_what_is_missing_is_said_before_a_cluster_starts(tmp_path: Path, missing: str, arguments: list[str], words: str) -> None:
    """It was said after both clusters had started, or after the whole disaster."""
    finder = f"import sys; sys.modules[{missing!r}] = None"
    spec = "import importlib.util as u; found = u.find_spec; u.find_spec = lambda name, *a: None if name == MISSING else found(name, *a)"
    program = f"{finder}; MISSING = {missing!r}; {spec}; from kmirror.cli.kmirror import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "demo", "--output", str(tmp_path), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PROGRAM_S, check=False)
    assert done.returncode == 1 and done.stdout == "" and len(done.stderr.splitlines()) == 1, done.stdout + done.stderr
    assert words in done.stderr


def test_a_wrong_number_of_records_is_one_line() -> None:
    command = [sys.executable, "-m", "kmirror.cli.kmirror", "demo", "--records", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PROGRAM_S, check=False)
    assert done.returncode == 1 and done.stderr.strip().splitlines() == ["kmirror demo: --records must be a number above 0, not 0"]
