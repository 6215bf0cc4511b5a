"""Every item of the checklist has a test (`make conformance` prints the results)."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from tools.conformance import NOT_RUN, Collector, Item, exit_code, main, table

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_every_item_has_a_test() -> None:
    done = subprocess.run([sys.executable, "tools/conformance.py", "--missing"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, "\n".join(done.stdout.splitlines()[-60:])
    assert done.stdout.splitlines()[-1].startswith("0 of ")


SUITE = "tests/interop/mirrormaker/test_connect_rest.py"
SKIPPED = (SUITE, 40, "Skipped: Apache Kafka 4.3.0's jars are not resolved: run tools/kafka_jars.py --all (needs Maven)")


def report(name: str, outcome: str, *, longrepr: object = None, when: str = "call") -> pytest.TestReport:
    return pytest.TestReport(f"{SUITE}::{name}", (SUITE, 1, name), {}, outcome, longrepr, when)  # type: ignore[arg-type]


def rated(*reports: pytest.TestReport) -> list[Item]:
    """An item whose suite has two tests, after these reports of them."""
    item = Item("RE1", "Connectors", "Connect", [SUITE], {f"{SUITE}::{name}": NOT_RUN for name in ("test_a", "test_b")})
    collector = Collector([item])
    collector._shown = dict.fromkeys(item.outcomes, [item])
    for one in reports:
        collector.pytest_runtest_logreport(one)
    return [item]


def test_an_item_whose_tests_were_skipped_was_not_looked_at() -> None:
    """Without Apache's jars it said `failed` of five rules that nobody had tried."""
    items = rated(report("test_a", "passed"), report("test_b", "skipped", longrepr=SKIPPED, when="setup"))
    assert items[0].verdict == f"not looked at by 1 of 2 tests: {SUITE}::test_b: {SKIPPED[2].removeprefix('Skipped: ')}"
    assert table(items)[-1] == "0 passed, 0 failed, 1 not looked at" and exit_code(items) == 2


def test_an_item_whose_tests_did_not_run_was_not_looked_at() -> None:
    items = rated(report("test_a", "passed"))
    assert items[0].verdict.endswith("test_b: it did not run") and exit_code(items) == 2


def test_a_failure_counts_more_than_a_skip() -> None:
    items = rated(report("test_a", "skipped", longrepr=SKIPPED, when="setup"), report("test_b", "failed"))
    assert items[0].verdict == f"failed: {SUITE}::test_b" and exit_code(items) == 1


def test_an_item_passes_when_all_of_its_tests_passed() -> None:
    items = rated(report("test_a", "passed"), report("test_b", "passed"))
    assert items[0].verdict == "passed" and exit_code(items) == 0
    assert table(items)[-1] == "1 passed, 0 failed, 0 not looked at"


def test_workers_whose_outcomes_it_cannot_count_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """With `-n 2` it said that each of 535 rules had no test."""
    assert main(["-n", "2"]) == 2 and "in one process" in capsys.readouterr().err
