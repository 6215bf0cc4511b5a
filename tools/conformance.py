"""Run tests/conformance and print KIP-1279's checklist with what the tests say of each item (`make
conformance`).

    python tools/conformance.py [--missing] [pytest options]

The items are the entries of `docs/RULES.md`. A test counts for an item when the item's number is in
its name or in its parameter's id, in any case and with any separator (`test_d3_14b_...`,
`[D3-14b]`), or in its mark: `@pytest.mark.item("B12")`. E15 is the KIP's own test plan:
`tests/conformance/suites.txt` names the suites that cover its items, and every test of those suites
counts. Some of them ask Apache's own program. Its jars are resolved first, if Maven is there.

An item has passed when it has tests and all of them passed. It has failed when it has no test or
one failed. Otherwise some of its tests were skipped or never ran, and the item was not looked at;
the row says why. `--missing` runs nothing and names the items that have no test. The tests of
section F, histories, are the simulator's. The exit code is 0 when all items passed, 1 when one
failed, and 2 when none failed and some were not looked at.
"""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SUITES = ("tests/conformance", "tests/simulation")
RULES = ROOT / "docs" / "RULES.md"
SUITES_OF_ITEMS = ROOT / "tests" / "conformance" / "suites.txt"
PASSED, FAILED, NOT_LOOKED_AT = "passed", "failed", "not looked at"
NOT_RUN = "it did not run"


@dataclass
class Item:
    """An entry of the rules and the outcomes of its tests.

    `suites` are files and folders; all of their tests count for the item. An outcome is `passed`,
    `failed`, or the reason why the test says nothing.
    """

    number: str
    title: str
    section: str
    suites: list[str] = field(default_factory=list)
    outcomes: dict[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return f"_{re.sub('[^a-z0-9]+', '_', self.number.lower())}_"

    @property
    def verdict(self) -> str:
        empty = [suite for suite in self.suites if not any(_is_in(suite, name) for name in self.outcomes)]
        if empty or not self.outcomes:
            return f"{FAILED}: no test{f' in {empty[0]}' if empty else ''}"
        failed = [name for name, outcome in self.outcomes.items() if outcome == FAILED]
        if failed:
            return f"{FAILED}: {failed[0]}"
        silent = [(name, outcome) for name, outcome in self.outcomes.items() if outcome != PASSED]
        if not silent:
            return PASSED
        name, reason = silent[0]
        return f"{NOT_LOOKED_AT} by {len(silent)} of {len(self.outcomes)} tests: {name}: {reason}"

    def is_(self, kind: str) -> bool:
        return self.verdict.startswith(kind)


def checklist() -> list[Item]:
    """Every item, in the order of the rules."""
    suites = {words[0]: words[1:] for line in SUITES_OF_ITEMS.read_text().splitlines() if (words := line.split()) and words[0] != "#"}
    items: list[Item] = []
    section = ""
    for line in RULES.read_text().splitlines():
        if line.startswith("## "):
            section = line[3:]
        elif line.startswith("### "):
            number, _, title = line[4:].partition(". ")
            items.append(Item(number, title, section, suites.get(number, [])))
    return items


def _is_in(suite: str, node_id: str) -> bool:
    return node_id.startswith((f"{suite}/", f"{suite}::"))


def shown_by(items: Iterable[Item], node_id: str, marked: Iterable[str] = ()) -> list[Item]:
    """Returns the items whose number is in the test's name, parameter id or mark, or whose suites
    contain the test.
    """
    name = f"_{re.sub('[^a-z0-9]+', '_', node_id.partition('::')[2].lower())}_"
    numbers = set(marked)
    return [item for item in items if item.key in name or item.number in numbers or any(_is_in(suite, node_id) for suite in item.suites)]


class Collector:
    """A pytest plugin that adds the outcome of each test to its items."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = items
        self._shown: dict[str, list[Item]] = {}
        self.unknown: list[str] = []

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        known = {item.number for item in self._items}
        for test in items:
            marked = [number for mark in test.iter_markers("item") for number in mark.args]
            self.unknown += [f"{test.nodeid}: {number}" for number in marked if number not in known]
            self._shown[test.nodeid] = shown_by(self._items, test.nodeid, marked)
            for item in self._shown[test.nodeid]:
                item.outcomes[test.nodeid] = NOT_RUN

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for item in self._shown.get(report.nodeid, ()):
            if report.when == "call" or report.outcome != "passed":
                item.outcomes[report.nodeid] = _outcome(report)


def _outcome(report: pytest.TestReport) -> str:
    if report.outcome != "skipped":
        return report.outcome
    where = report.longrepr
    return where[2].removeprefix("Skipped: ") if isinstance(where, tuple) else str(where)


def table(items: Sequence[Item]) -> list[str]:
    """Returns the printed rows: a heading for each section, its items, and the totals last."""
    rows: list[str] = []
    section = ""
    for item in items:
        if item.section != section:
            section = item.section
            rows += ["", section]
        tests = f"{len(item.outcomes)} test{'' if len(item.outcomes) == 1 else 's'}"
        rows.append(f"  {item.number:<8} {item.title:<86} {tests:<10} {item.verdict}")
    return [*rows, "", ", ".join(f"{sum(item.is_(kind) for item in items)} {kind}" for kind in (PASSED, FAILED, NOT_LOOKED_AT))]


def exit_code(items: Sequence[Item]) -> int:
    """0: all passed; 1: one failed; 2: none failed, but some were not looked at."""
    if any(item.is_(FAILED) for item in items):
        return 1
    return 2 if any(item.is_(NOT_LOOKED_AT) for item in items) else 0


def resolve_apaches_jars() -> None:
    """Says what is missing; the tests that need it then say so, too."""
    if shutil.which("mvn") is None:
        print("Apache Kafka's jars cannot be resolved: no Maven (mvn) on the PATH")
        return
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "kafka_jars.py")], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"Apache Kafka's jars cannot be resolved: {(done.stderr or done.stdout).strip().splitlines()[-1]}")


def main(arguments: list[str]) -> int:
    items = checklist()
    missing_only = "--missing" in arguments
    options = [argument for argument in arguments if argument != "--missing"]
    if any(option.startswith(("-n", "--numprocesses", "--dist")) for option in options):
        print("the outcomes are counted in one process: run it without -n, --numprocesses and --dist", file=sys.stderr)
        return 2
    plan = ["--collect-only", "-qq"] if missing_only else ["-q"]
    suites = dict.fromkeys([*SUITES, *(suite for item in items for suite in item.suites)])
    if not missing_only:
        resolve_apaches_jars()
    collector = Collector(items)
    pytest.main(
        [*(str(ROOT / suite) for suite in suites), "-m", "not foreign", "-p", "no:cacheprovider", *plan, *options], plugins=[collector]
    )
    if collector.unknown:
        print("\n".join(f"no such item: {line}" for line in collector.unknown))
        return 1
    if missing_only:
        missing = [item for item in items if item.verdict.startswith(f"{FAILED}: no test")]
        print("\n".join(f"{item.number} {item.title}" for item in missing))
        print(f"{len(missing)} of {len(items)} items have no test")
        return 1 if missing else 0
    print("\n".join(table(items)))
    return exit_code(items)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
