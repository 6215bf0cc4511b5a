"""Many seeds on many cores: every seed is a run of its own, so the result of a seed does not depend on who ran it or beside whom.

Processes are started afresh (spawn), one seed a task; results come back in the order of the seeds.
"""

from __future__ import annotations

import concurrent.futures
import gc
import logging
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kmirror.sim.histories import run_named


@dataclass(frozen=True, slots=True)
class SeedResult:
    """What a campaign keeps of a run. `violations` as text, in the order of time."""

    history: str
    seed: int
    violations: tuple[str, ...]
    rules: tuple[str, ...]
    trace_hash: str
    steps: int
    now_us: int

    @property
    def ok(self) -> bool:
        return not self.violations


def run_seed(history: str, seed: int, without: tuple[str, ...]) -> SeedResult:
    """One run, in this process."""
    logging.disable(logging.CRITICAL)
    try:
        result = run_named(history, seed, without=without)
    finally:
        logging.disable(logging.NOTSET)
    texts = tuple(str(violation) for violation in result.violations)
    rules = tuple(sorted({violation.rule for violation in result.violations}))
    kept = SeedResult(history, seed, texts, rules, result.trace_hash, result.steps, result.now_us)
    del result
    gc.collect(1)  # a dead world is full of cycles, and the collector is off while a world lives
    return kept


def run_campaign(
    seeds: Sequence[int],
    *,
    history: str = "storm",
    without: tuple[str, ...] = (),
    jobs: int = 1,
    on_result: Callable[[SeedResult], None] | None = None,
) -> list[SeedResult]:
    """All seeds, over `jobs` processes (1: in this one)."""
    results = []
    for result in _results(seeds, history, without, jobs):
        results.append(result)
        if on_result is not None:
            on_result(result)
    return results


def _results(seeds: Sequence[int], history: str, without: tuple[str, ...], jobs: int) -> Iterator[SeedResult]:
    if jobs <= 1 or len(seeds) <= 1:
        for seed in seeds:
            yield run_seed(history, seed, without)
        return
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(min(jobs, len(seeds)), mp_context=context, initializer=gc.freeze) as pool:
        futures = [pool.submit(run_seed, history, seed, without) for seed in seeds]
        for future in futures:
            yield future.result()
