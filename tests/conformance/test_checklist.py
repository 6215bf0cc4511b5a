"""Every item of the checklist has a test (`make conformance` prints the results)."""

from __future__ import annotations

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_every_item_has_a_test() -> None:
    done = subprocess.run([sys.executable, "tools/conformance.py", "--missing"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, "\n".join(done.stdout.splitlines()[-60:])
    assert done.stdout.splitlines()[-1].startswith("0 of ")
