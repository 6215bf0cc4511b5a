"""Many seeds on many cores. Every seed is a run of its own, so its result does not depend on who
ran it or beside which other seeds.

Worker processes are started afresh (spawn) once for a campaign. Each runs one seed to warm up, and
then runs every seed in a child of its own (fork) that ends with it. A dead world is full of cycles,
and collecting it would cost a tenth of a run, while the system takes back a whole process at no
cost. Results come back in the order of the seeds.

With a ledger (`sim.ledger`) a campaign goes on where it stopped, and several processes may share
it. After Ctrl-C no further seed begins. Results reported by then are in the ledger, and so are
those of seeds that were under way, unless the interrupt came just while a result was reported. The
same holds if a worker is killed, by hand or for lack of memory: the campaign then ends with a
KmirrorError.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import gc
import logging
import multiprocessing
import os
import pickle
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, NoReturn

from kmirror.common.errors import ApiException, KmirrorError
from kmirror.sim import loop
from kmirror.sim.histories.registry import run_named
from kmirror.sim.ledger import Campaign, Chunk, Ledger, Program, chunks_of

WORKER_DIED: Final = (
    "a worker process was killed, either by hand or because the machine ran out of memory. --jobs N runs fewer at once. With --resume "
    "the results so far are kept, and the same command continues"
)


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
    result = _run(history, seed, without)
    # A dead world is full of cycles. Unless the loop has collected in between, all of it is young.
    gc.collect(1 if result.steps < loop.GC_STEPS else 2)
    return result


def _run(history: str, seed: int, without: tuple[str, ...]) -> SeedResult:
    """... which leaves its world to the collector."""
    logging.disable(logging.CRITICAL)
    began_s = time.process_time()
    collecting = gc.isenabled()
    gc.disable()  # judging makes nothing that is worth a look at the whole world
    try:
        result = run_named(history, seed, without=without)
    finally:
        logging.disable(logging.NOTSET)
        if collecting:
            gc.enable()
    texts = tuple(str(violation) for violation in result.violations)
    rules = tuple(sorted({violation.rule for violation in result.violations}))
    return SeedResult(history, seed, texts, rules, result.trace_hash, result.steps, result.now_us, time.process_time() - began_s)


def run_campaign(
    seeds: Sequence[int],
    *,
    history: str = "storm",
    without: tuple[str, ...] = (),
    jobs: int = 1,
    on_result: Callable[[SeedResult], None] | None = None,
) -> list[SeedResult]:
    """All seeds, over `jobs` processes (1: in this one)."""
    results: list[SeedResult] = []
    with Workers(jobs) as workers:
        _run_all(workers, seeds, history, without, results, on_result)
    return results


def _run_all(
    workers: Workers,
    seeds: Sequence[int],
    history: str,
    without: tuple[str, ...],
    results: list[SeedResult],
    on_result: Callable[[SeedResult], None] | None,
) -> None:
    """`results` has what has been run, however this ends."""
    for result in workers.run(seeds, history, without):
        results.append(result)
        if on_result is not None:
            on_result(result)


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
    """Those seeds that this program has not run yet and no other process is running; each chunk is
    in the ledger when it has ended. `on_skip` is told how many seeds of a chunk need not be run.
    """
    campaign = Campaign(history, without)
    results: list[SeedResult] = []
    with ledger.claims(program, campaign) as claims, Workers(jobs) as workers:
        for number, wanted in chunks_of(seeds):
            done = ledger.done(program, campaign)
            missing = [seed for seed in wanted if seed not in done]
            if missing and claims.take(number):
                done = ledger.done(program, campaign)
                missing = [seed for seed in wanted if seed not in done]
                results += _run_chunk(ledger, program, campaign, missing, workers, on_result)
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
    workers: Workers,
    on_result: Callable[[SeedResult], None] | None,
) -> list[SeedResult]:
    """Seeds of one chunk, which need not follow each other; what has been run is in the ledger,
    however this ends.
    """
    results: list[SeedResult] = []
    try:
        _run_all(workers, seeds, campaign.history, campaign.without, results, on_result)
    finally:
        _write_down(ledger, program, campaign, results)
    return results


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


class Workers:
    """The processes of a campaign, started when they are needed first.

    With one job every seed is run in this process.
    """

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._pool: concurrent.futures.ProcessPoolExecutor | None = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def run(self, seeds: Sequence[int], history: str, without: tuple[str, ...]) -> Iterator[SeedResult]:
        """The results, in the order of `seeds`."""
        if self._jobs <= 1 or (self._pool is None and len(seeds) <= 1):
            for seed in seeds:
                yield run_seed(history, seed, without)
            return
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = concurrent.futures.ProcessPoolExecutor(
                self._jobs, mp_context=context, initializer=_begin_worker, initargs=(history,)
            )
        futures: list[concurrent.futures.Future[SeedResult]] = []
        try:
            with _interrupts_held_back():
                futures += (self._pool.submit(run_seed_in_child, history, seed, without) for seed in seeds)
            while futures:
                yield futures[0].result()
                del futures[0]
        except KeyboardInterrupt:
            self._pool.shutdown(cancel_futures=True)
            yield from (future.result() for future in futures if not future.cancelled())
            raise
        except BrokenProcessPool:
            yield from (future.result() for future in futures if future.done() and future.exception() is None)
            raise KmirrorError(WORKER_DIED) from None


@contextlib.contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Ctrl-C comes when the block is left; processes that are started in it never get one, also
    while they load their modules.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin_worker(history: str) -> None:
    """What the children find made: modules, caches, and bytecode that has met its types."""
    with contextlib.suppress(Exception):  # whoever runs a seed is told
        run_seed(history, 0, ())
    gc.collect()
    gc.freeze()


def run_seed_in_child(history: str, seed: int, without: tuple[str, ...]) -> SeedResult:
    """One run, in a child of this process, which must have no other thread.

    KmirrorError as in the child, and when that dies of something else than an error of Python's;
    RuntimeError with the child's traceback for every other error.
    """
    if not hasattr(os, "fork"):
        return run_seed(history, seed, without)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _answer_and_end(writing, history, seed, without)
    os.close(writing)
    with open(reading, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    if status:
        raise KmirrorError(f"the process that ran seed {seed} of {history} ended with status {os.waitstatus_to_exitcode(status)}")
    outcome = pickle.loads(answer)
    if isinstance(outcome, BaseException):
        raise outcome
    assert isinstance(outcome, SeedResult)
    return outcome


def _answer_and_end(writing: int, history: str, seed: int, without: tuple[str, ...]) -> NoReturn:
    status = 1
    try:
        gc.disable()
        outcome: SeedResult | Exception
        try:
            outcome = _run(history, seed, without)
        except Exception as error:  # noqa: BLE001 - raised again by the parent
            is_told = isinstance(error, KmirrorError) and not isinstance(error, ApiException)
            outcome = KmirrorError(str(error)) if is_told else RuntimeError(f"seed {seed} of {history}: {traceback.format_exc()}")
        with open(writing, "wb") as pipe:
            pickle.dump(outcome, pipe)
        status = 0
    finally:
        os._exit(status)
