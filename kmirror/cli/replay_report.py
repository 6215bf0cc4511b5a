"""What `kmirror replay` prints at its end: what was sent, and where the replay stands.

A recorded transaction over three partitions becomes three at the destination (`replay_partition`),
and a partition's log does not say which of them were one. So the count is of those at the
destination, and says so. Records of a transaction that was lost in between are sent twice, and are
counted by themselves.
"""

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
    again = sum(one.records_again for one in outcomes)
    left_open = sum(len(one.left_open) for one in outcomes)
    if as_json:
        rows = [
            {
                "source": one.source,
                "target": one.target,
                "next_offset": one.next_offset,
                "records": one.records,
                "records_again": one.records_again,
                "is_complete": one.is_complete,
            }
            for one in outcomes
        ]
        transactions = {"committed": committed, "aborted": aborted, "open_at_the_end": left_open, "counted_per": "partition"}
        print_event("result", {**progress.facts(), "is_complete": is_complete, "transactions": transactions, "partitions": rows})
        return
    if not is_complete:
        for one in outcomes:
            if not one.is_complete:
                print(f"{one.source}: stands at offset {one.next_offset}")
        advice = f"run it again with --state {destination.state_folder}" if destination.state_folder else "without --state it begins anew"
        print(f"interrupted: {advice}")
    print(f"{'replayed' if is_complete else 'sent'} {rates(progress, is_paced=False)}")
    if again:
        print(f"{again:,} of these records were sent again, because the destination had ended their transaction")
    if committed or aborted:
        print(
            f"transactions, one for each partition that a recorded one wrote to: {committed} committed, {aborted} aborted"
            f"{f', {left_open} of them open where the recording ends' * (left_open > 0)}"
        )
