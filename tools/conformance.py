"""Run tests/conformance and print KIP-1279's checklist with what the tests say of each item (`make conformance`).

    python tools/conformance.py [--missing] [pytest options]

`tests/conformance/items.txt` has a line for each item of the decisions' sections C, D and E. A test shows an item when the
item's number stands in its name or in its parameter's id, in any case and with any separator: `test_d3_14b_...`, `[D3-14b]`.
An item passes when it has tests and all of them pass. E15 is the KIP's own test plan: its items name the suites that cover them,
which have to be there. `--missing` runs nothing and names the items that have no test. The exit code is 0 when no item failed.
"""

from __future__ import annotations

import pathlib
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SUITE = ROOT / "tests" / "conformance"
ITEMS = SUITE / "items.txt"


@dataclass
class Item:
    """A line of the checklist and the outcomes of its tests; `suites` for those that other suites cover."""

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
        if self.suites:
            missing = [suite for suite in self.suites if not (ROOT / suite).exists()]
            return f"failed: no {missing[0]}" if missing else "passed"
        if not self.outcomes:
            return "failed: no test"
        failed = [name for name, outcome in self.outcomes.items() if outcome != "passed"]
        return f"failed: {failed[0]}" if failed else "passed"


def checklist() -> list[Item]:
    """Every item, in the order of the decisions."""
    items: list[Item] = []
    section = ""
    for line in ITEMS.read_text().splitlines():
        if line.startswith("## "):
            section = line[3:]
        elif line and not line.startswith("#"):
            number, _, rest = line.partition(" ")
            title, _, suites = rest.partition(" = ")
            items.append(Item(number, title, section, suites.split()))
    return items


def shown_by(items: Iterable[Item], node_id: str) -> list[Item]:
    """The items whose number the test's name or parameter id has."""
    name = f"_{re.sub('[^a-z0-9]+', '_', node_id.rpartition('::')[2].lower())}_"
    return [item for item in items if item.key in name]


class Collector:
    """A pytest plugin: the outcome of each test goes to its items."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = items

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for test in items:
            for item in shown_by(self._items, test.nodeid):
                item.outcomes[test.nodeid] = "not run"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for item in shown_by(self._items, report.nodeid):
            if report.when == "call" or report.outcome != "passed":
                item.outcomes[report.nodeid] = report.outcome


def table(items: Sequence[Item]) -> list[str]:
    """The rows as printed, with a heading for each section, and the totals last."""
    rows: list[str] = []
    section = ""
    for item in items:
        if item.section != section:
            section = item.section
            rows += ["", section]
        tests = " ".join(item.suites) if item.suites else f"{len(item.outcomes)} test{'' if len(item.outcomes) == 1 else 's'}"
        rows.append(f"  {item.number:<8} {item.title:<86} {tests:<10} {item.verdict}")
    passed = sum(item.verdict == "passed" for item in items)
    return [*rows, "", f"{passed} passed, {len(items) - passed} failed"]


def main(arguments: list[str]) -> int:
    items = checklist()
    missing_only = "--missing" in arguments
    options = [argument for argument in arguments if argument != "--missing"]
    plan = ["--collect-only", "-qq"] if missing_only else ["-q"]
    pytest.main([str(SUITE), "-p", "no:cacheprovider", *plan, *options], plugins=[Collector(items)])
    if missing_only:
        missing = [item for item in items if not item.outcomes and item.verdict != "passed"]
        print("\n".join(f"{item.number} {item.title}" for item in missing))
        print(f"{len(missing)} of {len(items)} items have no test")
        return 1 if missing else 0
    print("\n".join(table(items)))
    return 0 if all(item.verdict == "passed" for item in items) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
