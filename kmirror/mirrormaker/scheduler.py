"""What a connector does regularly (Kafka's `Scheduler`): its jobs run one after the other, each at a
fixed rate. A job that fails is logged and runs again when its time comes.

A job may take long: a request for each of thousands of groups, to a source far away. So its limits are not
of the whole job but of the time from one step to the next. admin.timeout.ms says when that is told, and
ends nothing, as in Kafka: with admin.timeout.ms=0 all jobs are done, and each is told. A job that has not
got on for STANDS_STILL_MS as well is ended, so that it holds up no other one; its requests have limits of
their own, and end sooner.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from kmirror.common.errors import KmirrorError
from kmirror.runtime.api import Runtime

STANDS_STILL_MS: Final = 60_000
_log = logging.getLogger(__name__)


Step = Callable[[], object]


@dataclass(frozen=True)
class Job:
    """`run` calls what it is given whenever it has got on. `interval_ms` None means never. With `delayed`,
    the first time is after one interval. A job that `is_vital` says what is copied: while it fails, that is
    not known.
    """

    run: Callable[[Step], Awaitable[object]]
    interval_ms: int | None
    description: str
    delayed: bool = False
    is_vital: bool = False


async def _nothing() -> None:
    pass


def _nobody(_: Job, __: str | None) -> None:
    pass


async def run_regularly(
    runtime: Runtime,
    name: str,
    jobs: Sequence[Job],
    *,
    timeout_ms: int,
    heard: Callable[[], object],
    after: Callable[[], Awaitable[object]] = _nothing,
    alive_ms: int = 10_000,
    ended: Callable[[Job, str | None], object] = _nobody,
) -> None:
    """Runs jobs until it is cancelled. Calls `heard` at least each `alive_ms` between jobs, and with each
    step of a job; `after` behind each job, whose time limit it does not share. `ended` gets each job and how it
    failed, if it did.
    """
    clock = runtime.clock
    begin_ms = clock.monotonic_ms()
    active = [job for job in jobs if job.interval_ms is not None]
    due = {index: begin_ms + (max(job.interval_ms or 0, 1) if job.delayed else 0) for index, job in enumerate(active)}
    while True:
        heard()
        index = min(due, key=lambda number: (due[number], number)) if due else None
        wait_ms = alive_ms if index is None else due[index] - clock.monotonic_ms()
        if index is None or wait_ms > 0:
            await runtime.sleep_ms(min(wait_ms, alive_ms))
            continue
        failed = await execute(name, active[index], timeout_ms, heard)
        ended(active[index], failed)
        await after()
        now_ms = clock.monotonic_ms()
        interval_ms = max(active[index].interval_ms or 0, 1)
        missed = max(0, (now_ms - due[index]) // interval_ms)
        due[index] += interval_ms * max(1, missed)


async def execute(name: str, job: Job, timeout_ms: int, heard: Callable[[], object]) -> str | None:
    """Runs a job once; logs what goes wrong, and a step that takes longer than `timeout_ms`. Returns how it
    failed, if it did.
    """
    limit_s, loop = max(timeout_ms, STANDS_STILL_MS) / 1000, asyncio.get_running_loop()
    last_s, longest_s = loop.time(), 0.0
    failed: str | None = None

    def got_on() -> None:
        nonlocal last_s, longest_s
        longest_s, last_s = max(longest_s, loop.time() - last_s), loop.time()

    try:
        async with asyncio.timeout(limit_s) as limit:

            def step() -> None:
                heard()
                got_on()
                if not limit.expired():
                    limit.reschedule(loop.time() + limit_s)

            await job.run(step)
    except TimeoutError:
        _log.error("[%s] timed out running task: %s", name, job.description)
        return "it timed out"
    except KmirrorError as error:
        failed = str(error)
        _log.error("[%s] caught exception in scheduled task: %s: %s", name, job.description, error)
    got_on()
    if longest_s * 1000 > timeout_ms:
        _log.error("[%s] took too long (%.0f ms) running task: %s", name, longest_s * 1000, job.description)
    return failed
