"""What `kmirror sim` prints of its ledger: the progress of a campaign, and all runs by commit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from kmirror.sim.ledger import Campaign, Ledger, Program, Total, default_path, total_as_json, totals

SHOWN_BROKEN = 10


def ledger_at(path: str | None) -> Ledger:
    """Returns the ledger of --ledger, or the checkout's."""
    return Ledger(Path(path) if path is not None else default_path())


def tell_resumed(
    ledger: Ledger, program: Program, campaign: Campaign, seeds: Sequence[int], ran: int, *, was_stopped: bool, as_json: bool
) -> int:
    """Print, after a campaign, which of its seeds this program has run, in whichever process.

    Returns 1 if any of them broke a rule.
    """
    done = {seed: text for seed, text in ledger.done(program, campaign).items() if seed in seeds}
    broken = {seed: text for seed, text in sorted(done.items()) if text}
    if not as_json:
        _print_broken(campaign, broken)
        missing = len(seeds) - len(done)
        why = "the same command goes on" if was_stopped else "another process is at them"
        rest = f", {missing} not run ({why})" if missing else ""
        print(f"{program.commit}: {len(done)} of {len(seeds)} seeds run ({ran} now), {len(broken)} broken{rest}; ledger {ledger.path}")
    return 1 if broken else 0


def _print_broken(campaign: Campaign, broken: dict[int, str], where: str = "") -> None:
    """Print the first broken seeds, each with its first violation."""
    off = "".join(f" --without {name}" for name in campaign.without)
    for seed, text in sorted(broken.items())[:SHOWN_BROKEN]:
        print(f"seed {seed}{where}: {text}")
        print(f"  replay: kmirror sim --seed {seed} --history {campaign.history}{off}")
    if len(broken) > SHOWN_BROKEN:
        print(f"... and {len(broken) - SHOWN_BROKEN} more seeds")


def show_summary(ledger: Ledger, *, as_json: bool) -> int:
    """Print results by commit and history, then the seeds that broke a rule, then totals.

    Runs without a safeguard, which are meant to break a rule, are only in the table.
    """
    found = totals(ledger)
    if as_json:
        print(json.dumps([total_as_json(total) for total in found]))
        return 0
    if not found:
        print(f"no seeds in {ledger.path}")
        return 0
    rows = [_cells(total) for total in found]
    widths = [max(len(row[column]) for row in [_HEADER, *rows]) for column in range(len(_HEADER))]
    for row in [_HEADER, *rows]:
        print(
            "  ".join(
                cell.ljust(width) if column < 2 else cell.rjust(width) for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
        )
    counted = [total for total in found if not total.campaign.without]
    for total in counted:
        _print_broken(total.campaign, total.broken, f" of {total.campaign}, {total.commit}")
    clean = sum(len(total.seeds) - len(total.broken) for total in counted)
    print(f"{clean} seeds clean, {sum(len(total.broken) for total in counted)} broken, {sum(total.cpu_s for total in counted):.0f} CPU-s")
    return 0


_HEADER = ("COMMIT", "HISTORY", "CLEAN", "BROKEN", "CPU-S", "SEEDS PER CPU-S")


def _cells(total: Total) -> tuple[str, ...]:
    clean = len(total.seeds) - len(total.broken)
    speed = f"{len(total.seeds) / total.cpu_s:.2f}" if total.cpu_s else "-"
    return total.commit, str(total.campaign), str(clean), str(len(total.broken)), f"{total.cpu_s:.0f}", speed
