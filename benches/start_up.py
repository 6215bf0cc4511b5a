"""What a user waits for before anything happens: clusters that become ready, a help text.

Each sample is a process of its own, from before the interpreter starts to the moment that counts
(it ends at once then). On a shared machine the wall time of such a short thing is mostly other
people's work, so the figure is the larger of the median CPU time and the best wall time; the median
wall time is in the note. Roofline, by the same rule: the interpreter with asyncio, msgspec and what
else we cannot do without.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from benches.harness import Context, Row, Usage, in_turn, median, run_command

LIBRARIES = "import asyncio, msgspec, argparse, logging, tempfile, crc32c"
ONE = "from kmirror import EmbeddedCluster; import os; EmbeddedCluster().start(); os._exit(0)"
TWO = "from kmirror import EmbeddedCluster; import os; EmbeddedCluster().start(); EmbeddedCluster().start(); os._exit(0)"
THREE = "from kmirror import EmbeddedCluster; import os; EmbeddedCluster(3).start(); os._exit(0)"
PROCESSES = "from kmirror import EmbeddedCluster; import os; EmbeddedCluster(3, processes=True).start(); os._exit(0)"
ROUNDS = 9


def python(code: str) -> Usage:
    return run_command([sys.executable, "-c", code])


def needed_ms(usages: list[Usage]) -> float:
    return 1000 * max(median([usage.cpu for usage in usages]), min(usage.wall for usage in usages))


def run(context: Context) -> Iterator[Row]:
    os.environ["TMPDIR"] = str(context.folder)
    try:
        yield from _measure(context)
    finally:
        del os.environ["TMPDIR"]


def _measure(context: Context) -> Iterator[Row]:
    commands = {
        "EmbeddedCluster ready, imports included": ([sys.executable, "-c", ONE], 300),
        "two EmbeddedClusters ready, imports included": ([sys.executable, "-c", TWO], 400),
        "three brokers in one process ready, imports included": ([sys.executable, "-c", THREE], 500),
        "three brokers, a process each, ready, imports included": ([sys.executable, "-c", PROCESSES], 1500),
        "kafka-mirrors --help": ([os.path.join(os.path.dirname(sys.executable), "kafka-mirrors"), "--help"], 150),
    }
    for command, _ in commands.values():
        run_command(command)
    measures = [lambda: python(LIBRARIES), *(lambda command=command: run_command(command) for command, _ in commands.values())]
    bare, *measured = in_turn(context.choose(3, ROUNDS), *measures)
    roofline = needed_ms(bare)
    for (metric, (_, limit_ms)), usages in zip(commands.items(), measured, strict=True):
        cpu, wall = median([usage.cpu for usage in usages]), [usage.wall for usage in usages]
        note = f"CPU {1000 * cpu:.0f} ms; wall {1000 * min(wall):.0f} at best, median {1000 * median(wall):.0f}; roofline: interpreter and libraries"
        value = needed_ms(usages)
        yield Row("start_up", metric, value, "ms", f"<= {limit_ms}", value <= limit_ms, roofline=roofline, note=note)
