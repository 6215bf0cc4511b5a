"""Issue 4: SIGKILL of any of three brokers under load loses no acknowledged record and leaves equal
logs.

The whole thing is `python tools/sigkill_campaign.py --kills 100`; this is three kills of it,
without its time limits.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

CAMPAIGN = pathlib.Path(__file__).resolve().parents[2] / "tools" / "sigkill_campaign.py"


@pytest.mark.soak
def test_three_sigkills_under_load_lose_no_acknowledged_record(tmp_path) -> None:
    report = tmp_path / "report.json"
    command = [sys.executable, str(CAMPAIGN), "--kills", "3", "--seed", "4", "--partitions", "4", "--no-limits", "--json", str(report)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    result = json.loads(report.read_text())
    assert result["problems"] == [] and result["kills"] == 3
    assert result["read"] == result["acknowledged"] > 0
