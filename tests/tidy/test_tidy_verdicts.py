"""docs/VERDICTS.md has every verdict that a user can read, and each of its rows is true of the code.

A verdict says that something is well: equal, sound, ready, caught up, nothing would be dropped. The
test reads the texts (string constants that are no docstrings) of the rooms that speak to users. A
text with such a word is a row of the table, or one of `OTHERWISE`, which use the word of something
else.
"""

from __future__ import annotations

import ast
import pathlib
import re
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROOMS = ("cli", "verify", "server", "spark", "sim", "mirrormaker", "admin", "mirror", "embedded.py", "pytest_plugin.py")
WORDS = re.compile(
    r"\b(equal|sound|ready|caught up|would be dropped|nothing differs|every rule held|healthy|harmless|intact"
    r"|no difference|all there|well)\b",
    re.IGNORECASE,
)
OTHERWISE = (
    r"\b(or|must|may not|not be|should|is not|be) equal",
    r"equal to\b",
    r"equal (or|at all)\b",
    r"less than or equal",
    r"as well\b",
    r"offsets are equal at both ends",
    r"server is started and ready",
    r"on a healthy disk|in its healthy directory",
    r"have not caught up to",
    r"color-scheme",
)
"""Texts in which the words judge nothing: checks of configs, the equal offsets of a mirror, which
need no translation, disks, what is still waited for, and colours."""
ROW = re.compile(r"^\| `(?P<words>[^`]+)` \| `(?P<file>[^`]+)` \| (?P<looks>[^|]+) \|(?P<not>[^|]+)\| (?P<tests>[^|]+) \|$")


def rows() -> list[re.Match[str]]:
    lines = (ROOT / "docs" / "VERDICTS.md").read_text().splitlines()
    table = [line for line in lines if line.startswith("| `")]
    found = [ROW.match(line) for line in table]
    assert all(found), [line for line, row in zip(table, found, strict=True) if row is None]
    return [row for row in found if row is not None]


def texts(path: pathlib.Path) -> Iterator[tuple[int, str]]:
    """The string constants of a module, without docstrings."""
    tree = ast.parse(path.read_text())
    definitions = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    documentation = {
        id(statement.value)
        for node in ast.walk(tree)
        if isinstance(node, definitions)
        for statement in node.body
        if isinstance(statement, ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.lineno, node.value


def modules() -> Iterator[pathlib.Path]:
    for room in ROOMS:
        path = ROOT / "kmirror" / room
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]


def verdicts() -> list[tuple[str, int, str]]:
    return [
        (str(path.relative_to(ROOT)), line, text)
        for path in modules()
        for line, text in texts(path)
        if WORDS.search(text) and not any(re.search(other, text) for other in OTHERWISE)
    ]


def test_every_verdict_has_a_row() -> None:
    known: dict[str, list[str]] = {}
    for row in rows():
        known.setdefault(row["file"], []).append(row["words"])
    missing = [
        f"{file}:{line}: {text[:120]!r}"
        for file, line, text in verdicts()
        if not any(words in text or text.strip(" ,:;.") in words for words in known.get(file, []))
    ]
    assert not missing, "no row of docs/VERDICTS.md for:\n" + "\n".join(missing)


def test_every_row_is_of_the_code_and_has_a_test_that_lies_to_it() -> None:
    untrue = []
    for row in rows():
        source = ROOT / row["file"]
        if not source.is_file() or not any(row["words"] in text for _, text in texts(source)):
            untrue.append(f"{row['file']} does not say {row['words']!r}")
        for test in re.findall(r"`([^`]+)`", row["tests"]):
            path, _, name = test.partition("::")
            if not (ROOT / path).is_file() or (name and not re.search(rf"def {name}\b", (ROOT / path).read_text())):
                untrue.append(f"{row['words']!r}: there is no test {test}")
        if "`" not in row["tests"]:
            untrue.append(f"{row['words']!r} names no test")
    assert not untrue, "\n".join(untrue)
