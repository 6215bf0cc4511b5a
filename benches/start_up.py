"""What a user waits for before anything happens: clusters that become ready, a help text.

Each sample is a process of its own. Wall seconds are counted from before the interpreter starts to the moment that counts
(the process ends at once then); CPU seconds of the same process say what a machine of one's own would show. Roofline: the
interpreter with asyncio, msgspec and what else we cannot do without.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from benches.harness import Context, Row, Usage, in_turn, median, run_command

LIBRARIES = "import asyncio, msgspec, argparse, logging, tempfile, crc32c"
ONE = "from kmirror import EmbeddedCluster; import os; EmbeddedCluster().start(); os._exit(0)"
TWO = "from kmirror import EmbeddedCluster; import os; EmbeddedCluster().start(); EmbeddedCluster().start(); os._exit(0)"
ROUNDS = 9


def python(code: str) -> Usage:
    return run_command([sys.executable, "-c", code])


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
        "kafka-mirrors --help": ([os.path.join(os.path.dirname(sys.executable), "kafka-mirrors"), "--help"], 150),
    }
    for command, _ in commands.values():
        run_command(command)
    measures = [lambda: python(LIBRARIES), *(lambda command=command: run_command(command) for command, _ in commands.values())]
    bare, *measured = in_turn(context.choose(3, ROUNDS), *measures)
    roofline = 1000 * median([usage.wall for usage in bare])
    for (metric, (_, limit_ms)), usages in zip(commands.items(), measured, strict=True):
        wall = 1000 * median([usage.wall for usage in usages])
        cpu = 1000 * median([usage.cpu for usage in usages])
        note = f"CPU {cpu:.0f} ms; best {1000 * min(usage.wall for usage in usages):.0f} ms; roofline: interpreter and libraries"
        yield Row("start_up", metric, wall, "ms", f"<= {limit_ms}", wall <= limit_ms, roofline=roofline, note=note)
