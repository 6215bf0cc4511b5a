"""Keeps the results of simulator campaigns for good: joins ledgers into the one in the repository.

    python tools/keep_ledger.py [--into FILE] [LEDGER ...]

`kmirror sim --resume` writes build/sim-ledger/seeds.jsonl, which git ignores and a new checkout
lacks. This script joins it (or the named ledgers) with tests/simulation/ledger.jsonl, puts
neighbouring seeds of one program into one line, and rewrites that file. This shows what it then
holds:

    kmirror sim --summary --ledger tests/simulation/ledger.jsonl
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kmirror.cli.sim_ledger import show_summary
from kmirror.common.errors import KmirrorError
from kmirror.sim.ledger import Ledger, default_path, joined

KEPT = Path(__file__).resolve().parent.parent / "tests" / "simulation" / "ledger.jsonl"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Join ledgers of the simulator's campaigns into the one that is kept")
    parser.add_argument("ledgers", nargs="*", type=Path, metavar="LEDGER", help="default: the checkout's")
    parser.add_argument("--into", type=Path, default=KEPT, metavar="FILE", help="default: tests/simulation/ledger.jsonl")
    options = parser.parse_args(arguments)
    sources = options.ledgers or [default_path()]
    if missing := [str(path) for path in sources if not path.is_file()]:
        parser.error(f"there is no {missing[0]}")
    try:
        lines = joined([Ledger(path) for path in (options.into, *sources)])
    except KmirrorError as error:
        parser.error(str(error))
    beside = options.into.with_suffix(".new")
    beside.write_text("".join(line.to_json() + "\n" for line in lines))
    os.replace(beside, options.into)
    return show_summary(Ledger(options.into), as_json=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
