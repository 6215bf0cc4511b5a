"""`kmirror demo` on its small setting: exit code 0, equal logs, both reports."""

from __future__ import annotations

import json
import subprocess
import sys

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
    assert {sample["state"] for sample in report["timeline"]} >= {"MIRRORING", "STOPPED"}
    page = (tmp_path / "report.html").read_text()
    assert page.count("<svg") == 2 and "http" not in page.replace("http-equiv", "")


def test_a_wrong_number_of_records_is_one_line() -> None:
    command = [sys.executable, "-m", "kmirror.cli.kmirror", "demo", "--records", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PROGRAM_S, check=False)
    assert done.returncode == 1 and done.stderr.strip().splitlines() == ["kmirror demo: --records must be a number above 0, not 0"]
