"""Run tests/conformance and print KIP-1279's checklist with what the tests say of each item (`make
conformance`).

    python tools/conformance.py [--missing] [pytest options]

The items are the entries of `docs/RULES.md`. A test counts for an item when the item's number is in
its name or in its parameter's id, in any case and with any separator (`test_d3_14b_...`,
`[D3-14b]`), or in its mark: `@pytest.mark.item("B12")`. E15 is the KIP's own test plan:
`tests/conformance/suites.txt` names the suites that cover its items, and every test of those suites
counts. An item passes when it has tests and all of them pass. `--missing` runs nothing and names
the items that have no test. The tests of section F, histories, are the simulator's. The exit code
is 0 when no item failed.
"""

from __future__ import annotations

import pathlib
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SUITES = ("tests/conformance", "tests/simulation")
RULES = ROOT / "docs" / "RULES.md"
SUITES_OF_ITEMS = ROOT / "tests" / "conformance" / "suites.txt"


@dataclass
class Item:
    """An entry of the rules and the outcomes of its tests.

    `suites` are files and folders; all of their tests count for the item.
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
            return f"failed: no test{f' in {empty[0]}' if empty else ''}"
        failed = [name for name, outcome in self.outcomes.items() if outcome != "passed"]
        return f"failed: {failed[0]}" if failed else "passed"


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
                item.outcomes[test.nodeid] = "not run"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for item in self._shown.get(report.nodeid, ()):
            if report.when == "call" or report.outcome != "passed":
                item.outcomes[report.nodeid] = report.outcome


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
    passed = sum(item.verdict == "passed" for item in items)
    return [*rows, "", f"{passed} passed, {len(items) - passed} failed"]


def main(arguments: list[str]) -> int:
    items = checklist()
    missing_only = "--missing" in arguments
    options = [argument for argument in arguments if argument != "--missing"]
    plan = ["--collect-only", "-qq"] if missing_only else ["-q"]
    suites = dict.fromkeys([*SUITES, *(suite for item in items for suite in item.suites)])
    collector = Collector(items)
    pytest.main(
        [*(str(ROOT / suite) for suite in suites), "-m", "not interop and not foreign", "-p", "no:cacheprovider", *plan, *options],
        plugins=[collector],
    )
    if collector.unknown:
        print("\n".join(f"no such item: {line}" for line in collector.unknown))
        return 1
    if missing_only:
        missing = [item for item in items if item.verdict.startswith("failed: no test")]
        print("\n".join(f"{item.number} {item.title}" for item in missing))
        print(f"{len(missing)} of {len(items)} items have no test")
        return 1 if missing else 0
    print("\n".join(table(items)))
    return 0 if all(item.verdict == "passed" for item in items) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
