"""README.md's examples as programs: its `sh` and `python` blocks by the section they are in, and a
script that runs some of them in order.

The simulator's and Spark's sections are tests of their own: each needs nothing of the others but a
folder of data, and takes as long as all of them together.
"""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from typing import Final, NamedTuple

from kmirror.cli.demo_cluster import free_ports
from support.waiting import PROGRAM_S

ROOT: Final = pathlib.Path(__file__).resolve().parents[3]
README_PORTS: Final = ("19092", "19093", "29092", "29093")
_PART: Final = re.compile(r"^### (?P<section>[^\n]*)\n|^```(?P<language>sh|python)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


class Example(NamedTuple):
    """One block; `section` is the heading above it."""

    section: str
    language: str
    body: str


def examples() -> list[Example]:
    """All of them, in the README's order."""
    found, section = [], ""
    for part in _PART.finditer((ROOT / "README.md").read_text()):
        if part["section"]:
            section = part["section"]
        else:
            found.append(Example(section, part["language"], part["body"]))
    return found


def run_examples(chosen: list[Example], folder: pathlib.Path, *, environment: Mapping[str, str] | None = None) -> None:
    """Run them in one shell, in `folder`, on ports that are free, with the `python` that the
    environment's PATH finds first (default: this one); AssertionError with the end of the output
    when one fails.
    """
    assert chosen, "no such examples"
    if environment is None:
        binaries = pathlib.Path(sys.executable).parent
        environment = os.environ | {"PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"}
    ports = dict(zip(README_PORTS, map(str, free_ports(len(README_PORTS))), strict=True))
    script = ["set -eu", "trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT"]
    for index, example in enumerate(chosen):
        body = re.sub("|".join(README_PORTS), lambda match: ports[match[0]], example.body)
        script.append(f"echo {shlex.quote(f'== example {index} ({example.section})')}")
        if example.language == "python":
            (folder / f"example{index}.py").write_text(body)
            script.append(f"python example{index}.py")
        else:
            script.append(body)
    (folder / "readme.sh").write_text("\n".join(script))
    done = subprocess.run(
        ["bash", "readme.sh"], cwd=folder, env=environment, capture_output=True, text=True, timeout=PROGRAM_S, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
