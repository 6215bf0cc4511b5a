"""`kafka-log-diff --engine local` on equal logs, against `cmp` of the same two files, in turn: CPU
seconds, pair by pair (both are one thread that works all the time; the wall time of either says
more about who else is on the machine).
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator

from benches.data import write_log
from benches.harness import MB, Context, Row, in_turn, median, median_ratio, run_command

NAME = "00000000000000000000.log"


def run(context: Context) -> Iterator[Row]:
    left, right = context.folder / "left" / "t-0", context.folder / "right" / "t-0"
    size = write_log(left / NAME, records=context.choose(20_000, 1_000_000)) / MB
    right.mkdir(parents=True)
    shutil.copyfile(left / NAME, right / NAME)
    tool = os.path.join(os.path.dirname(sys.executable), "kafka-log-diff")
    compare = ["cmp", str(left / NAME), str(right / NAME)]
    run_command(compare)
    bare, measured = in_turn(
        context.choose(2, 5), lambda: run_command(compare), lambda: run_command([tool, "--engine", "local", str(left), str(right)])
    )
    ratio = median_ratio([usage.cpu for usage in bare], [usage.cpu for usage in measured])
    wall = median([usage.wall for usage in measured])
    note = f"{ratio:.2f} of cmp; {size:.0f} MB in {wall:.2f} s, CPU {median([usage.cpu for usage in measured]):.2f} s"
    limit = size / median([usage.wall for usage in bare])
    yield Row("log_diff", "equal logs, local engine", size / wall, "MB/s", ">= 0.5 of cmp", ratio >= 0.5, "cmp", limit, limit, note)
