"""`kmirror sim`: replay a disaster, or a thousand, in the deterministic simulator.

    kmirror sim --seed 42                       the story of one seed, its verdict and its trace hash
    kmirror sim --seed 42 --trace FILE          ... and every step of it, to compare two runs
    kmirror sim --seeds 0..999 --jobs 2         a campaign; exit code 1 if any seed breaks a rule
    kmirror sim --seeds 0..99999 --history mirrors --resume     ... continued where it stopped, by a ledger
    kmirror sim --summary                       the results in the ledger, by commit
    kmirror sim torn_tail --seed 1 --without tail_recovery      a history by its name (or --history NAME), with a safeguard off
    kmirror sim --list                          the histories, the safeguards, and the faults of storms

With the same program, the same seed gives the same run, step for step, on every machine; the trace
hash proves it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from kmirror.cli.sim_ledger import ledger_at, show_summary, tell_resumed
from kmirror.common.errors import ConfigError
from kmirror.sim.ablations import safeguard_names
from kmirror.sim.campaign import SeedResult, resume_campaign, run_campaign
from kmirror.sim.events import Converged, History
from kmirror.sim.fault_kinds import FAULTS
from kmirror.sim.fleet_events import Healed
from kmirror.sim.histories.registry import HISTORIES, run_named, summary_of
from kmirror.sim.ledger import Campaign, Ledger, this_program
from kmirror.sim.run import RunResult

SHOWN_VIOLATIONS = 20
SHOWN_FAILURES = 10


def add_arguments(parser: argparse.ArgumentParser, command: str) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--seed", type=int, metavar="N", help="run one seed and print what happens in it")
    what.add_argument("--seeds", metavar="A..B", help="run the seeds A to B, both included")
    what.add_argument(
        "--summary", action="store_true", help="print the contents of the ledger: the seeds of each commit and history, and the failures"
    )
    what.add_argument("--list", action="store_true", help="list the histories, the safeguards and the faults")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("named", nargs="?", metavar="HISTORY", help="which history to play (default: storm)")
    which.add_argument("--history", default="storm", metavar="NAME", help="the same")
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="SAFEGUARD",
        help="switch a safeguard off, to see which rule fails without it; repeatable",
    )
    parser.add_argument("--jobs", type=int, default=0, metavar="N", help="the number of processes for --seeds (default: one for each core)")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="keep the results of --seeds in a ledger, and skip seeds that this version has already run; Ctrl-C keeps the results so far",
    )
    parser.add_argument("--ledger", metavar="FILE", help="the ledger (default: build/sim-ledger/seeds.jsonl in the checkout)")
    parser.add_argument("--trace", metavar="FILE", help="write every step of --seed to FILE")
    parser.add_argument("--json", action="store_true", help="machine-readable output (JSON lines for --seeds)")


def run(command: str, options: argparse.Namespace) -> int:
    """Returns 0 if every rule held, 1 if one was broken."""
    if options.list:
        return _list(as_json=options.json)
    if options.summary:
        return show_summary(ledger_at(options.ledger), as_json=options.json)
    if options.ledger and not options.resume:
        raise ConfigError("--ledger can only be used with --resume or --summary")
    history = options.named or options.history
    without = tuple(name for given in options.without for name in given.split(",") if name)
    if options.seed is not None and options.resume:
        raise ConfigError("--resume can only be used with --seeds")
    if options.seed is not None:
        return _run_one(history, options.seed, without, trace=options.trace, as_json=options.json)
    if options.trace:
        raise ConfigError("--trace can only be used with --seed")
    ledger = ledger_at(options.ledger) if options.resume else None
    jobs = options.jobs or os.cpu_count() or 1
    return _run_many(history, _seeds(options.seeds), without, jobs=jobs, as_json=options.json, ledger=ledger)


def _seeds(text: str) -> range:
    first, separator, last = text.partition("..")
    if not separator or not first.isdigit() or not last.isdigit() or int(last) < int(first):
        raise ConfigError(f"--seeds {text!r} is not of the form A..B with A <= B")
    return range(int(first), int(last) + 1)


def replay_command(history: str, seed: int, without: tuple[str, ...]) -> str:
    """Returns the command that shows this run again."""
    named = [] if history == "storm" else ["--history", history]
    off = [part for name in without for part in ("--without", name)]
    return " ".join(["kmirror", "sim", "--seed", str(seed), *named, *off])


def _list(*, as_json: bool) -> int:
    if as_json:
        histories = {name: summary_of(name) for name in HISTORIES}
        faults = {fault.name: fault.about for fault in FAULTS}
        print(json.dumps({"histories": histories, "safeguards": safeguard_names(), "faults": faults}))
        return 0
    width = max(map(len, HISTORIES))
    print("histories:")
    for name in HISTORIES:
        print(f"  {name:<{width}}  {summary_of(name)}")
    print("\nsafeguards (--without):")
    for name in safeguard_names():
        print(f"  {name}")
    width = max(len(fault.name) for fault in FAULTS)
    print("\nfaults of storms (those of disks in mirrors_disks_break, and in some seeds of mirrors):")
    for fault in FAULTS:
        print(f"  {fault.name:<{width}}  {fault.about}")
    return 0


def _run_one(history: str, seed: int, without: tuple[str, ...], *, trace: str | None, as_json: bool) -> int:
    logging.disable(logging.CRITICAL)
    try:
        with _trace_to(trace) as on_trace:
            result = run_named(history, seed, without=without, on_trace=on_trace)
    finally:
        logging.disable(logging.NOTSET)
    if as_json:
        print(json.dumps(_as_json(result, without)))
    else:
        _tell(result, without)
    return 0 if result.ok else 1


@contextlib.contextmanager
def _trace_to(path: str | None) -> Iterator[Callable[[str], None] | None]:
    if path is None:
        yield None
        return
    try:
        file = open(path, "w", encoding="utf-8")  # noqa: SIM115 - closed below
    except OSError as error:
        raise ConfigError(f"--trace {path}: {error.strerror}") from error

    def write(line: str) -> None:
        file.write(line)

    with file:
        yield write


def _as_json(result: RunResult, without: tuple[str, ...]) -> dict[str, Any]:
    return {
        "history": result.name,
        "seed": result.seed,
        "without": list(without),
        "ok": result.ok,
        "violations": [{"rule": found.rule, "time_ms": found.now_us / 1000, "text": found.text} for found in result.violations],
        "story": [{"time_ms": now_us / 1000, "who": who, "what": what} for now_us, who, what in result.history.story()],
        "steps": result.steps,
        "virtual_ms": result.now_us / 1000,
        "trace_hash": result.trace_hash,
        "replay": replay_command(result.name, result.seed, without),
    }


def _tell(result: RunResult, without: tuple[str, ...]) -> None:
    print(f"{result.name}, seed {result.seed}" + (f", without {', '.join(without)}" if without else ""))
    for now_us, who, what in result.history.story():
        print(f"{now_us / 1_000_000:10.3f} s  {who:<9} {what}")
    print()
    for violation in result.violations[:SHOWN_VIOLATIONS]:
        print(f"BROKEN {violation}")
    if len(result.violations) > SHOWN_VIOLATIONS:
        print(f"... and {len(result.violations) - SHOWN_VIOLATIONS} more")
    verdict = _held(result.history) if result.ok else f"{len(result.violations)} violations"
    print(f"{verdict}; {result.steps} steps, {result.now_us / 1_000_000:.3f} s of virtual time, trace {result.trace_hash}")
    if not result.ok:
        print(f"replay: {replay_command(result.name, result.seed, without)}")


def _held(history: History) -> str:
    """What the rules looked at. Logs are compared only where nobody writes and the lag is 0."""
    healed = any(isinstance(event, (Converged, Healed)) for event in history.events)
    compared = "logs compared where both sides were still" if healed else "NO LOGS COMPARED: the two sides were never still"
    return f"every rule held: {len(history.events):,} recorded events judged, {compared}"


def _run_many(history: str, seeds: range, without: tuple[str, ...], *, jobs: int, as_json: bool, ledger: Ledger | None) -> int:
    if history not in HISTORIES:
        raise ConfigError(f"there is no history {history!r}; there are {', '.join(HISTORIES)}")
    with _progress(len(seeds), shown=sys.stderr.isatty() and not as_json) as advance:

        def on_result(result: SeedResult) -> None:
            if as_json:
                print(json.dumps(_seed_as_json(result, without)), flush=True)
            advance(result)

        if ledger is not None:
            program, was_stopped = this_program(), False
            try:
                resume_campaign(
                    ledger, program, seeds, history=history, without=without, jobs=jobs, on_result=on_result, on_skip=advance.skip
                )
            except KeyboardInterrupt:
                was_stopped = True
        else:
            results = run_campaign(seeds, history=history, without=without, jobs=jobs, on_result=on_result)
    if ledger is not None:
        campaign = Campaign(history, without)
        code = tell_resumed(ledger, program, campaign, seeds, advance.ran, was_stopped=was_stopped, as_json=as_json)
        return 130 if was_stopped else code
    failed = [result for result in results if not result.ok]
    if not as_json:
        _summarize(results, failed, without)
    return 1 if failed else 0


def _seed_as_json(result: SeedResult, without: tuple[str, ...]) -> dict[str, Any]:
    return {
        "history": result.history,
        "seed": result.seed,
        "ok": result.ok,
        "violations": list(result.violations),
        "steps": result.steps,
        "virtual_ms": result.now_us / 1000,
        "trace_hash": result.trace_hash,
        "replay": replay_command(result.history, result.seed, without),
    }


class _Progress:
    """Counts the seeds that were run and those that need not be; `show` may draw a bar."""

    def __init__(self) -> None:
        self.show: Callable[[], None] = lambda: None
        self.ran = self.broken = self.skipped = 0

    def __call__(self, result: SeedResult) -> None:
        self.ran += 1
        self.broken += not result.ok
        self.show()

    def skip(self, count: int) -> None:
        """Count seeds that need not be run."""
        self.skipped += count
        self.show()


@contextlib.contextmanager
def _progress(total: int, *, shown: bool) -> Iterator[_Progress]:
    state = _Progress()
    if not shown:
        yield state
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class RateColumn(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text("" if task.speed is None else f"{task.speed:.1f} seeds/s")

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), RateColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("seeds", total=total)

        def show() -> None:
            description = f"seeds, {state.broken} broken" if state.broken else "seeds"
            bar.update(task, completed=state.ran, total=total - state.skipped, description=description)

        state.show = show
        yield state


def _summarize(results: list[SeedResult], failed: list[SeedResult], without: tuple[str, ...]) -> None:
    for result in failed[:SHOWN_FAILURES]:
        print(f"seed {result.seed}: {result.violations[0]}")
        print(f"  replay: {replay_command(result.history, result.seed, without)}")
    if len(failed) > SHOWN_FAILURES:
        print(f"... and {len(failed) - SHOWN_FAILURES} more seeds")
    steps = sum(result.steps for result in results)
    virtual_s = sum(result.now_us for result in results) / 1_000_000
    print(f"{len(results)} seeds, {len(failed)} broken; {steps} steps, {virtual_s:.0f} s of virtual time")
