"""Simulated histories a second on one core: `clean_failback`, two clusters with one failover and
one failback each.

CPU seconds of one process that has everything imported. No peer and no roofline: nobody else
simulates this.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from benches.harness import Context, Row, median
from kmirror.sim.campaign import run_campaign

HISTORY = "clean_failback"


def run(context: Context) -> Iterator[Row]:
    run_campaign([0], history=HISTORY)
    used: list[float] = []
    for seed in range(1, 1 + context.choose(5, 40)):
        began = time.process_time()
        results = run_campaign([seed], history=HISTORY)
        used.append(time.process_time() - began)
        assert all(result.ok for result in results), results
    rate = 1 / median(used)
    note = f"{1000 * median(used):.1f} ms a history"
    yield Row("simulation", f"histories ({HISTORY})", rate, "1/CPU-s", ">= 20", rate >= 20, note=note)
