"""`kafka-dump-log --deep-iteration --print-data-log` as a process, against Kafka's tool on the same
file, in turn.

What a user waits for is compared (wall), pair by pair; CPU seconds of both are in the note.
"""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Iterator, Sequence

from benches import foreign
from benches.data import write_log
from benches.harness import MB, Context, Row, in_turn, median, median_ratio, run_command

TOOL = "org.apache.kafka.tools.DumpLogSegments"
OPTIONS = ("--deep-iteration", "--print-data-log", "--files")


def ours(path: pathlib.Path) -> Sequence[str]:
    return [os.path.join(os.path.dirname(sys.executable), "kafka-dump-log"), *OPTIONS, str(path)]


def run(context: Context) -> Iterator[Row]:
    missing = foreign.missing_kafka()
    for label, records, target, rounds in (
        ("1 MB of log", 1_800, 5.0, 5),
        ("600 MB of log", context.choose(20_000, 1_000_000), 1.0, context.choose(1, 2)),
    ):
        path = context.folder / "t-0" / "00000000000000000000.log"
        size = write_log(path, records=records, records_per_batch=900 if records < 10_000 else 1_000) / MB
        measures = [lambda path=path: run_command(ours(path))]
        if missing is None:
            command = [*foreign.tool_command(TOOL), *OPTIONS, str(path)]
            measures.append(lambda command=command: run_command(command))
        measured, *peers = in_turn(rounds, *measures)
        wall = median([usage.wall for usage in measured])
        note = f"CPU {median([usage.cpu for usage in measured]):.2f} s"
        ratio, peer_value = 0.0, None
        if peers:
            ratio = median_ratio([usage.wall for usage in peers[0]], [usage.wall for usage in measured])
            peer_value = size / median([usage.wall for usage in peers[0]])
            note = f"{ratio:.2f} x as fast; {note}, Kafka's {median([usage.cpu for usage in peers[0]]):.2f} s"
        yield Row(
            "dump_log", label, size / wall, "MB/s", f">= {target:g} x Kafka's", ratio >= target,
            peer=missing or "Kafka's kafka-dump-log", peer_value=peer_value, note=f"{size:.0f} MB in {wall:.2f} s; {note}",
        )  # fmt: skip
