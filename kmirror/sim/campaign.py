"""Many seeds on many cores: every seed is a run of its own, so the result of a seed does not depend on who ran it or beside whom.

Processes are started afresh (spawn), one seed a task; results come back in the order of the seeds. With a ledger (`sim.ledger`) a campaign
goes on where it stopped, and several processes may share it. Ctrl-C begins no further seed; those that are run by then are in the ledger.
"""

from __future__ import annotations

import concurrent.futures
import gc
import logging
import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from kmirror.sim.histories import run_named
from kmirror.sim.ledger import Campaign, Chunk, Ledger, Program, chunks_of


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
    cpu_s: float = field(default=0.0, compare=False)

    @property
    def ok(self) -> bool:
        return not self.violations


def run_seed(history: str, seed: int, without: tuple[str, ...]) -> SeedResult:
    """One run, in this process."""
    logging.disable(logging.CRITICAL)
    began_s = time.process_time()
    try:
        result = run_named(history, seed, without=without)
    finally:
        logging.disable(logging.NOTSET)
    texts = tuple(str(violation) for violation in result.violations)
    rules = tuple(sorted({violation.rule for violation in result.violations}))
    steps, now_us, trace_hash = result.steps, result.now_us, result.trace_hash
    del result
    gc.collect(1)  # a dead world is full of cycles, and the collector is off while a world lives
    return SeedResult(history, seed, texts, rules, trace_hash, steps, now_us, time.process_time() - began_s)


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


def resume_campaign(
    ledger: Ledger,
    program: Program,
    seeds: Sequence[int],
    *,
    history: str,
    without: tuple[str, ...] = (),
    jobs: int = 1,
    on_result: Callable[[SeedResult], None] | None = None,
    on_skip: Callable[[int], None] | None = None,
) -> list[SeedResult]:
    """Those seeds that this program has not run yet and no other process is running; each chunk is in the ledger when it has ended.
    `on_skip` is told how many seeds of a chunk need not be run."""
    campaign = Campaign(history, without)
    results: list[SeedResult] = []
    with ledger.claims(program, campaign) as claims:
        for number, wanted in chunks_of(seeds):
            done = ledger.done(program, campaign)
            missing = [seed for seed in wanted if seed not in done]
            if missing and claims.take(number):
                done = ledger.done(program, campaign)
                missing = [seed for seed in wanted if seed not in done]
                results += _run_chunk(ledger, program, campaign, missing, jobs, on_result)
                claims.give_back(number)
            else:
                missing = []
            if on_skip is not None:
                on_skip(len(wanted) - len(missing))
    return results


def _run_chunk(
    ledger: Ledger,
    program: Program,
    campaign: Campaign,
    seeds: list[int],
    jobs: int,
    on_result: Callable[[SeedResult], None] | None,
) -> list[SeedResult]:
    """Seeds of one chunk, which need not follow each other; what has been run is in the ledger, however this ends."""
    results: list[SeedResult] = []

    def keep(result: SeedResult) -> None:
        results.append(result)
        if on_result is not None:
            on_result(result)

    try:
        return run_campaign(seeds, history=campaign.history, without=campaign.without, jobs=jobs, on_result=keep)
    finally:
        _write_down(ledger, program, campaign, results)


def _write_down(ledger: Ledger, program: Program, campaign: Campaign, results: list[SeedResult]) -> None:
    """A line for each row of seeds that follow each other."""
    lines: list[Chunk] = []
    for result in results:
        if not lines or lines[-1].last + 1 != result.seed:
            lines.append(Chunk(program, campaign, result.seed, result.seed))
        line = lines[-1]
        line.last = result.seed
        line.cpu_s += result.cpu_s
        if not result.ok:
            line.broken[result.seed] = result.violations[0]
    for line in lines:
        ledger.add(line)


def _results(seeds: Sequence[int], history: str, without: tuple[str, ...], jobs: int) -> Iterator[SeedResult]:
    if jobs <= 1 or len(seeds) <= 1:
        for seed in seeds:
            yield run_seed(history, seed, without)
        return
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(min(jobs, len(seeds)), mp_context=context, initializer=_begin_worker) as pool:
        futures = [pool.submit(run_seed, history, seed, without) for seed in seeds]
        try:
            while futures:
                yield futures[0].result()
                del futures[0]
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
            yield from (future.result() for future in futures if not future.cancelled())
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def _begin_worker() -> None:
    """Ctrl-C is the campaign's to answer: it reaches every process of a terminal."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()
