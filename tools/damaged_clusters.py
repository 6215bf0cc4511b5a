"""Clusters that are damaged in one place each, and sound ones: what `kmirror verify-logs` and
`kafka-log-diff --mirror` find of them, and say of them.

    python -m tools.damaged_clusters --count 200 --seed 1
    python -m tools.damaged_clusters --kind "tail missing" --count 20

A seed tells the story of two clusters, of which one mirrors the other
(`tests/support/logs/cluster_stories.py`). Nothing may be said of them. Then one thing is damaged,
the kinds in turn (`tests/support/logs/cluster_damage.py`): that must be found, and named: the file,
the partition, the kind, the offset. Apache's own directories, of which nothing may be said either,
are those of `tests/golden`.

Prints a table by kind, and a line for each cluster of which too much or too little was said;
`--keep DIR` leaves those there. Exit code 1 if there are any.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
for _folder in (ROOT, ROOT / "tests"):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))

from support.logs.cluster_damage import DAMAGES, Clusters, Expected, Nowhere, is_named  # noqa: E402
from support.logs.cluster_stories import MirrorStory  # noqa: E402

from kmirror.cli.kmirror import main as kmirror  # noqa: E402
from kmirror.cli.log_diff import main as log_diff  # noqa: E402


class Said(NamedTuple):
    """What the tools report about two clusters."""

    findings: list[dict[str, Any]]
    report: dict[str, Any]

    @property
    def lines(self) -> list[str]:
        lines = [
            f"{one['table']} {one['kind']}: {one['file']} {one['position']} {one['first_offset']}: {one['text']}" for one in self.findings
        ]
        for verdict in self.report["partitions"]:
            name = f"{verdict['topic']}-{verdict['partition']} ({verdict['replicas_of'] or 'A and B'})"
            lines += [f"{name}: {verdict['error']}"] if verdict["error"] else []
            lines += [f"{name}: {one['kind']} at {one['first_offset']}: {one['detail']}" for one in verdict["differences"]]
        return lines


class Outcome(NamedTuple):
    kind: str
    seed: int
    expected: Expected
    said: Said
    sound: Said
    """What the tools report before the damage."""

    @property
    def is_found(self) -> bool:
        return bool(self.said.lines)

    @property
    def is_named(self) -> bool:
        return is_named(self.expected, self.said.findings, self.said.report)


def ask(folder: Path) -> Said:
    """Runs both tools on both clusters."""
    findings = []
    for side in "AB":
        findings += _json_of(kmirror, "verify-logs", str(folder / side), "--deep", "--json")["findings"]
    return Said(findings, _json_of(log_diff, str(folder / "A"), str(folder / "B"), "--mirror", "--json"))


def _json_of(program: Any, *arguments: str) -> dict[str, Any]:
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        program(list(arguments))
    if not out.getvalue():
        return {
            "findings": [],
            "partitions": [{"topic": "-", "partition": -1, "replicas_of": None, "error": errors.getvalue(), "differences": []}],
        }
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


def damaged(folder: Path, kind: str, seed: int) -> Outcome:
    """Writes the clusters of `seed`, damages them, and runs the tools.

    If they have no place for the damage, other seeds are tried.
    """
    for attempt in range(50):
        told = seed + 1_000_000 * attempt
        shutil.rmtree(folder, ignore_errors=True)
        MirrorStory(folder, told).tell()
        sound = ask(folder)
        try:
            return Outcome(kind, told, DAMAGES[kind](Clusters(folder, told)), ask(folder), sound)
        except Nowhere:
            continue
    raise AssertionError(f"no story from seed {seed} on has a place for: {kind}")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    kinds = [kind for kind in DAMAGES if options.kind in kind]
    totals, found, named, noisy, problems = Counter(), Counter(), Counter(), 0, 0
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(options.count):
            kind = kinds[number % len(kinds)]
            folder = Path(scratch) / "clusters"
            outcome = damaged(folder, kind, options.seed + number)
            totals[kind] += 1
            found[kind] += outcome.is_found
            named[kind] += outcome.is_named
            noisy += bool(outcome.sound.lines)
            if outcome.sound.lines or not outcome.is_named:
                problems += 1
                _explain(outcome)
                if options.keep is not None:
                    shutil.copytree(folder, options.keep / f"{outcome.seed}")
    print(f"{'kind':<40}{'damaged':>8}{'found':>8}{'named':>8}")
    for kind in kinds:
        print(f"{kind:<40}{totals[kind]:>8}{found[kind]:>8}{named[kind]:>8}")
    print(f"{'all':<40}{sum(totals.values()):>8}{sum(found.values()):>8}{sum(named.values()):>8}")
    print(f"sound clusters: {options.count}, of {noisy} of them something was said")
    return 1 if problems else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.damaged_clusters", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=200, help="how many clusters (default: 200)")
    parser.add_argument("--seed", type=int, default=1, help="of the first one (default: 1)")
    parser.add_argument("--kind", default="", help="only kinds with this in their names (default: all, in turn)")
    parser.add_argument("--keep", type=Path, help="a folder for the clusters of which too much or too little was said")
    return parser


def _explain(outcome: Outcome) -> None:
    for line in outcome.sound.lines:
        print(f"seed {outcome.seed}, sound: {line}")
    if not outcome.is_named:
        print(f"seed {outcome.seed}, {outcome.kind}: expected {outcome.expected}")
        for line in outcome.said.lines[:8] or ["nothing was said"]:
            print(f"    {line}")


if __name__ == "__main__":
    sys.exit(main())
