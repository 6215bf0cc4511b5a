"""Logs that are loaded on a worker schedule work for the loop: the loop's own heap of timers was
changed under its hands.
"""

from __future__ import annotations

import asyncio
import threading

from support.waiting import REACHED_S

from kmirror.runtime.asyncio_runtime import AsyncioRuntime
from kmirror.runtime.log_scheduler import RuntimeLogScheduler


async def test_timers_from_workers_run_on_the_loop_and_leave_its_heap_alone() -> None:
    async with asyncio.timeout(REACHED_S):
        runtime = AsyncioRuntime()
        scheduler = RuntimeLogScheduler(runtime)
        loop_thread, ran = threading.get_ident(), []

        def schedule_many() -> None:
            for _ in range(2000):
                scheduler.schedule_once("t", lambda: ran.append(threading.get_ident()), 1)

        busy = [asyncio.ensure_future(runtime.run_blocking(schedule_many)) for _ in range(3)]
        while not all(task.done() for task in busy):
            handles = [runtime.call_later_ms(1 + number, lambda: None) for number in range(50)]
            await asyncio.sleep(0.001)
            for handle in handles:
                handle.cancel()
        while len(ran) < 6000:
            await asyncio.sleep(0.005)
        assert set(ran) == {loop_thread}
        scheduler.close()
        runtime.close()


async def test_a_timer_from_a_worker_that_is_cancelled_does_not_run() -> None:
    runtime = AsyncioRuntime()
    ran: list[int] = []
    timer = await runtime.run_blocking(lambda: runtime.call_later_ms(200, lambda: ran.append(1)))
    timer.cancel()
    await asyncio.sleep(0.4)
    assert ran == []
    runtime.close()
