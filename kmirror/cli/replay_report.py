"""What `kmirror replay` prints at its end: what was sent, and where the replay stands."""

from __future__ import annotations

from kmirror.cli.replay_partition import PartitionOutcome
from kmirror.cli.replay_plan import Plan
from kmirror.cli.replay_progress import Progress, print_event, rates
from kmirror.cli.replay_run import Destination


def report(progress: Progress, outcomes: list[PartitionOutcome], plan: Plan, destination: Destination, *, as_json: bool) -> None:
    """Print what was sent, and where the replay stands if it is not at the end."""
    progress.lag_ms = 0.0
    is_complete = len(outcomes) == len(plan.partitions) and all(one.is_complete for one in outcomes)
    committed, aborted = sum(one.committed for one in outcomes), sum(one.aborted for one in outcomes)
    left_open = sum(len(one.left_open) for one in outcomes)
    if as_json:
        rows = [
            {
                "source": one.source,
                "target": one.target,
                "next_offset": one.next_offset,
                "records": one.records,
                "is_complete": one.is_complete,
            }
            for one in outcomes
        ]
        transactions = {"committed": committed, "aborted": aborted, "open_at_the_end": left_open}
        print_event("result", {**progress.facts(), "is_complete": is_complete, "transactions": transactions, "partitions": rows})
        return
    if not is_complete:
        for one in outcomes:
            if not one.is_complete:
                print(f"{one.source}: stands at offset {one.next_offset}")
        advice = f"run it again with --state {destination.state_folder}" if destination.state_folder else "without --state it begins anew"
        print(f"interrupted: {advice}")
    print(f"{'replayed' if is_complete else 'sent'} {rates(progress, is_paced=False)}")
    if committed or aborted:
        print(
            f"transactions: {committed} committed, {aborted} aborted{f', {left_open} of them open where the recording ends' * (left_open > 0)}"
        )
