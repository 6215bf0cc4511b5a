"""One run of a campaign: its folder, its random source, its counts, and the broken promises."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path


class CannotRunError(Exception):
    """The campaign needs something that this machine lacks; the text says what."""


@dataclass
class Run:
    """Handed to a campaign.

    `say` is for people, `broken` for the verdict, `count` for the numbers in it.
    """

    name: str
    rounds: int
    seed: int
    folder: Path
    options: argparse.Namespace
    problems: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    held: int = 0
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self.started:8.1f} s  {text}", flush=True)

    def broken(self, problem: str) -> None:
        """Records a promise that was not kept; the campaign goes on as far as it can."""
        self.say(f"BROKEN: {problem}")
        self.problems.append(problem)

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + number

    def promise(self, what: str, check: Callable[[], object]) -> bool:
        """Runs `check`; an AssertionError means a broken promise."""
        try:
            check()
        except AssertionError as error:
            self.broken(f"{what}: {error}")
            return False
        self.held += 1
        self.say(f"held: {what}")
        return True

    @property
    def verdict(self) -> str:
        """One line."""
        numbers = ", ".join(f"{number} {what}" for what, number in self.counts.items())
        told = f"{self.name}: {self.rounds} rounds, seed {self.seed}, {time.monotonic() - self.started:.0f} s; {numbers or 'nothing counted'}; "
        if not self.problems:
            return f"{told}each of {self.held} promises held"
        more = f" and {len(self.problems) - 1} more" if len(self.problems) > 1 else ""
        first = self.problems[0].splitlines()[0]
        return f"{told}BROKEN: {first}{more}; logs and data: {self.folder}"


Campaign = Callable[[Run], None]


def perform(name: str, campaign: Campaign, *, rounds: int, seed: int, options: argparse.Namespace, folder: Path | None = None) -> Run:
    """Runs `campaign` to its end.

    A campaign that breaks off counts as a broken promise, too; its folder stays.
    """
    given = folder is not None
    folder = folder or Path(tempfile.mkdtemp(prefix=f"kmirror-campaign-{name}-"))
    folder.mkdir(parents=True, exist_ok=True)
    run = Run(name, rounds, seed, folder, options)
    try:
        campaign(run)
    except CannotRunError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    except Exception as error:  # noqa: BLE001 - whatever ended it, the verdict says so and the folder is kept
        run.broken(f"the campaign broke off: {type(error).__name__}: {error}")
    if not run.held and not run.problems:
        run.broken("no promise was checked, so none is known to hold")
    print(run.verdict)
    sys.stdout.flush()
    if not run.problems and not given:
        shutil.rmtree(folder, ignore_errors=True)
    return run
