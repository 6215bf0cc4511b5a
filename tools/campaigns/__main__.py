"""`python -m tools.campaigns NAME --rounds N --seed S`."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

import pytest

from tools.campaigns import __doc__ as about
from tools.campaigns import disks, failovers, fronts, kills, link, topics, workers
from tools.campaigns.run import Campaign, CannotRunError, perform

CAMPAIGNS: dict[str, tuple[Campaign, int]] = {
    "kills": (kills.campaign, 100),
    "failovers": (failovers.campaign, 10),
    "fronts": (fronts.campaign, 10),
    "disks": (disks.campaign, 12),
    "topics": (topics.campaign, 3),
    "link": (link.campaign, 30),
    "workers": (workers.campaign, 50),
}
"""By name: what it does, and its rounds unless told otherwise."""


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.campaigns", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=list(CAMPAIGNS), help="the campaign")
    parser.add_argument("--rounds", type=int, help="how many (default: the campaign's own number)")
    parser.add_argument("--seed", type=int, default=1, help="what chooses victims, pauses and kinds (default: 1)")
    parser.add_argument("--folder", type=Path, help="where data and logs go, and stay (default: a new one, which goes if all held)")
    parser.add_argument("--topics", type=int, default=1000, help="of the campaign of that name (default: 1000)")
    parser.add_argument("--combined", action="store_true", help="of the kills: broker 1 is the controller (default: a process of its own)")
    parser.add_argument("--case", default="", help="of the disks: only cases with this in their names (default: all, in turn)")
    parser.add_argument("--at-least-once", action="store_true", help="of the workers: without exactly-once support")
    parser.add_argument(
        "--protocol",
        choices=["eager", "compatible", "sessioned"],
        default="eager",
        help="of the workers: connect.protocol (default: eager)",
    )
    parser.add_argument(
        "--max-stall", type=float, default=20, metavar="S", help="of the workers: the longest time to stand still (default: 20)"
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="of the workers: the times of each round, as JSON")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Runs a campaign; returns the exit code."""
    options = parse(arguments)
    logging.basicConfig(level=logging.ERROR)
    campaign, rounds = CAMPAIGNS[options.name]
    try:
        run = perform(options.name, campaign, rounds=options.rounds or rounds, seed=options.seed, options=options, folder=options.folder)
    except (CannotRunError, pytest.skip.Exception) as error:
        print(f"{options.name} cannot run here: {error}", file=sys.stderr)
        return 2
    return 1 if run.problems else 0


if __name__ == "__main__":
    sys.exit(main())
