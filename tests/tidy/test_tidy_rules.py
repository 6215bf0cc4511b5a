"""Whoever reads a code such as C36b or D3-22 finds it in docs/RULES.md.

(That every rule has a test is `tests/conformance/test_checklist.py`'s.)
"""

from __future__ import annotations

import pathlib
import re
import subprocess

import pytest

from tools import state_diagram

ROOT = pathlib.Path(__file__).resolve().parents[2]
MIRROR_MAKER = ["RT", "CY", "IT", "RP", "FI", "OS", "CP", "SY", "MC", "CU", "DG", "RE", "RU"]
FAMILIES = [
    *MIRROR_MAKER,
    "A",
    "B",
    "C",
    "F",
    "S",
    "RS",
    "CFG",
    "SYN",
    "ACL",
    "CLI",
    "ADM",
    "MET",
    "ERR",
    "FM",
    "THR",
    "UPG",
    "FEA",
    "NOT",
    "TST",
    "RPC",
]
CODE = re.compile(rf"(?<![\w.\-/{{])(?:(?:{'|'.join(FAMILIES)})\d{{1,3}}[a-z]?|D[1-6](?:-\d+[a-z]?)?)(?![\w-])")
NO_RULES = re.compile(r"noqa: \w+|\bRS256\b")
"""What reads like one: a lint's name, a signature's algorithm."""
MAX_TITLE = 100


def entries() -> dict[str, list[str]]:
    """By code: the lines of its entry, title first."""
    found: dict[str, list[str]] = {}
    code = None
    for line in (ROOT / "docs" / "RULES.md").read_text().splitlines():
        if line.startswith("### "):
            code, _, title = line[4:].partition(". ")
            assert code not in found, f"{code} has two entries"
            found[code] = [title]
        elif line.startswith("## "):
            code = None
        elif code is not None:
            found[code].append(line)
    return found


def cited(text: str) -> set[str]:
    return set(CODE.findall(NO_RULES.sub("", text)))


def test_every_code_in_the_tree_is_explained() -> None:
    names = ["kmirror/*.py", "tests/*.py", "tools/*.py", "benches/*.py", "*.md"]
    files = subprocess.run(["git", "ls-files", *names], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    if not files:
        pytest.skip("not a git checkout")
    known = set(entries())
    unknown = {
        f"{name}: {code}"
        for name in files
        if not name.startswith("kmirror/wire/messages/") and (ROOT / name).is_file()
        for code in cited((ROOT / name).read_text(encoding="utf-8")) - known
    }
    assert not unknown, f"docs/RULES.md does not say what they mean: {sorted(unknown)}"


def test_an_unknown_code_is_seen() -> None:
    assert cited("Cut there (C36b, D3-22); see SYN19, D9-1 and C" + "999.") == {"C36b", "D3-22", "SYN19", "C" + "999"}


def test_every_entry_has_a_title_and_says_something() -> None:
    for code, (title, *lines) in entries().items():
        assert CODE.fullmatch(code), f"{code}: the tree is not searched for it"
        assert title and len(title) <= MAX_TITLE and not title.endswith("."), code
        assert len(" ".join(lines).split()) >= 12, f"{code} says too little"


def test_the_diagram_of_the_states_is_the_tables() -> None:
    assert state_diagram.main(["--check"]) == 0
