"""The pages of docs/examples: which there are, what each says to run, and what it shows.

A number behind `~` depends on how fast the machine is. It is not compared.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
from typing import Final

from support.tools.readme_examples import ROOT
from support.waiting import PROGRAM_S

EXAMPLES: Final = ROOT / "docs" / "examples"
_ROW: Final = re.compile(r"^\| \[(?P<name>[\w-]+)\]\((?P=name)/README\.md\) \|", re.MULTILINE)
_RUN: Final = re.compile(r"^```sh\n(?P<command>.*?)^```\n\n```console\n(?P<shown>.*?)^```$", re.MULTILINE | re.DOTALL)
_ABOUT: Final = re.compile(r"~\d+")


def examples_in(table: str) -> list[str]:
    """The names of one table of the index, by its first heading."""
    index = (EXAMPLES / "README.md").read_text()
    return _ROW.findall(index.partition(f"| {table} |")[2].partition("\n\n")[0])


def folders() -> list[str]:
    return sorted(script.parent.name for script in EXAMPLES.glob("*/run.py"))


def assert_prints_what_its_page_shows(name: str, **variables: str) -> None:
    """Runs the page's command, with more environment variables, and compares what it prints with
    the page.
    """
    page = (EXAMPLES / name / "README.md").read_text()
    (run,) = _RUN.finditer(page)
    binaries = pathlib.Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"} | variables
    done = subprocess.run(
        ["bash", "-euc", run["command"]], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PROGRAM_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr[-6000:]
    assert comparable(done.stdout) == comparable(run["shown"])


def comparable(printed: str) -> list[str]:
    return _ABOUT.sub("~N", printed).splitlines()
