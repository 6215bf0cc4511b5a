"""A deterministic event loop: virtual time, a seeded schedule, a hash of everything that ran.

Time is an integer number of microseconds that moves only when nothing is ready, to the next timer.
Steps cost no time.

Order. Plain callbacks run first in, first out, as asyncio promises. Steps of different tasks
promise no order among each other, so if several of them stand at the head of the queue, the seed
picks the next one (`reorder=False` leaves them in order). Timers of one microsecond run in the
order in which they were set.

Ownership (`sim.owners`). A step belongs to the node that its context names. When one dies, whatever
still stands in the queue for it is dropped: that is how a crash stops a node between two steps.

Trace. Every step adds its number, time and a label (task name, or qualified name of the function)
to a hash; network and disk add what they do (`note`). Labels contain no addresses, no ids of this
process, nothing that depends on PYTHONHASHSEED, so two processes with one seed have one hash; the
first differing line of `on_trace` is the place to look.

Cost. A campaign spends its time here more than anywhere else, so `_run` is one long loop over slim
handles, labels are made once per task and method (`sim.steps`), lines are hashed 256 at a time, and
what only counts tasks (`_forget_task`) is no step.

The cyclic garbage collector is off while the loop runs and called every GC_STEPS steps: finalizers
would otherwise run at times that depend on the process. What the simulator does not model raises
`NotModelledError`, it never reaches the machine.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import hashlib
import heapq
import struct
import weakref
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

from kmirror.runtime.system_ports import SeededRandom
from kmirror.sim.loop_errors import SimulationBudgetError, SimulationStuckError, not_modelled
from kmirror.sim.owners import Failure, NodeKilledError, Owner, current_owner, is_of_the_dead
from kmirror.sim.steps import SimHandle, StepLabels, describe

T = TypeVar("T")
REORDER_WINDOW = 8
UNSEEN_US = 1_000_000
"""A task's error may stay unseen for this long."""
GC_STEPS = 50_000
LINES_AT_ONCE = 256
US_PER_S = 1_000_000


class SimLoop(asyncio.AbstractEventLoop):
    """The loop of one simulation. It owns virtual time, the queue of steps, the timers and the
    trace.

    `failures` collects what a real loop would log; a campaign looks at it after the run.
    """

    def __init__(
        self,
        seed: int | str,
        *,
        reorder: bool = True,
        max_steps: int = 50_000_000,
        max_time_us: int = 1 << 62,
        on_trace: Callable[[str], None] | None = None,
    ) -> None:
        self.seed = seed
        self.now_us = 0
        self.steps = 0
        self.failures: list[Failure] = []
        self._chance = SeededRandom(f"{seed}/loop").random
        self._reorder = reorder
        self._max_steps = max_steps
        self._check_at_step = min(GC_STEPS, max_steps + 1)
        self._max_time_us = max_time_us
        self._on_trace = on_trace
        self._ready: deque[SimHandle] = deque()
        self._timers: list[tuple[int, int, SimHandle]] = []
        self._timer_count = 0
        self._task_count = 0
        self._lines: list[str] = []
        self._times_us: list[int] = []
        self._labels = StepLabels()
        self._hash = hashlib.blake2b(digest_size=16)
        self._paused_until_us: dict[Owner, int] = {}
        self._root = contextvars.copy_context()
        self._forget = self._forget_task
        self._failed: list[weakref.ref[asyncio.Task[Any]]] = []
        self._running = False
        self._stopping = False
        self._closed = False

    # Trace

    @property
    def trace_hash(self) -> str:
        self._hash_lines()
        return self._hash.hexdigest()

    def note(self, text: str) -> None:
        """Adds to the trace something that happened beside the steps."""
        self._lines.append(text)
        self._times_us.append(self.now_us)
        if len(self._lines) == LINES_AT_ONCE:
            self._hash_lines()
        if self._on_trace is not None:
            self._on_trace(f"{self.steps} {self.now_us} {text}\n")

    def _hash_lines(self) -> None:
        self._hash.update("\n".join(self._lines).encode())
        self._hash.update(struct.pack(f"<{len(self._times_us)}q", *self._times_us))
        self._lines.clear()
        self._times_us.clear()

    def add_failure(self, message: str, error: BaseException | None) -> None:
        owner = current_owner.get(None)
        failure = Failure(owner.name if owner else "", message, error, self.now_us)
        self.failures.append(failure)
        self.note(f"failure {failure.node} {message} {type(error).__name__}")

    # Time and callbacks

    def time(self) -> float:
        return self.now_us / US_PER_S

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> SimHandle:
        handle = SimHandle(callback, args, contextvars.copy_context() if context is None else context)
        if callback is self._forget:
            callback(*args)
        else:
            self._ready.append(handle)
        return handle

    def run_or_call_soon(self, callback: Callable[[], object], context: contextvars.Context) -> None:
        """Runs `callback` within the current step if nothing stands in the queue before it, else in
        its turn.

        `context` is not the step's own. An error of the callback is reported like that of a step of
        its own.
        """
        if self._ready or self._paused_until_us:
            self._ready.append(SimHandle(callback, (), context))
        else:
            try:
                context.run(callback)
            except Exception as error:  # noqa: BLE001 - told, not raised
                self._tell(error, callback, context)

    def _tell(self, error: BaseException, callback: Callable[..., object], context: contextvars.Context) -> None:
        """Reports the error as one of the node that `context` belongs to."""
        context.run(self.call_exception_handler, {"message": f"Exception in callback {describe(callback)}", "exception": error})

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> SimHandle:
        return self.call_at_us(self.now_us + round(delay * US_PER_S), callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> SimHandle:
        return self.call_at_us(round(when * US_PER_S), callback, *args, context=context)

    def call_at_us(
        self, when_us: int, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> SimHandle:
        """`call_at` in microseconds; a time in the past is due now."""
        handle = SimHandle(callback, args, contextvars.copy_context() if context is None else context)
        self._timer_count += 1
        if when_us < self.now_us:
            when_us = self.now_us
        heapq.heappush(self._timers, (when_us, self._timer_count, handle))
        return handle

    # Tasks and futures

    def create_future(self) -> asyncio.Future[Any]:
        """Returns a future that knows its node: nobody is told of an error in a dead node's future."""
        future: asyncio.Future[Any] = asyncio.Future(loop=self)  # (of no subclass: asyncio awaits that faster)
        future.owner = current_owner.get(None)  # type: ignore[attr-defined]
        return future

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[T]:
        self._task_count += 1
        owner = context.get(current_owner) if context is not None else current_owner.get(None)
        name = name or f"task-{self._task_count}"
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        task.label = f"task {name}"  # type: ignore[attr-defined]
        if owner is not None:
            task.owner = owner  # type: ignore[attr-defined]
            owner.tasks[task] = None
            task.add_done_callback(self._forget, context=self._root)
        return task

    def _forget_task(self, task: asyncio.Task[Any]) -> None:
        """Removes a task from its owner. Runs at once when the task is done, see `call_soon`."""
        task.owner.tasks.pop(task, None)  # type: ignore[attr-defined]
        if task._exception is not None:
            task.failed_us = self.now_us  # type: ignore[attr-defined]
            if task.owner.alive and not isinstance(task._exception, NodeKilledError):  # type: ignore[attr-defined]
                self._failed.append(weakref.ref(task))

    def add_unseen_failures(self) -> None:
        """Called at the end: adds the errors that nobody has looked at, of tasks of living nodes
        that failed a while ago and that somebody still holds. (The collector reports tasks that
        nobody holds.)
        """
        for task in filter(None, (reference() for reference in self._failed)):
            if task._log_traceback and task.failed_us < self.now_us - UNSEEN_US:  # type: ignore[attr-defined]
                task._log_traceback = False
                failure = Failure(task.owner.name, f"{task.get_name()} ended unseen", task._exception, task.failed_us)  # type: ignore[attr-defined]
                self.failures.append(failure)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, NodeKilledError) and not is_of_the_dead(context.get("future")) and not self._closed:
            self.add_failure(str(context.get("message", "")), error)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    # Running

    def run_until_complete(self, future: Generator[Any, None, T] | Coroutine[Any, Any, T] | asyncio.Future[T]) -> T:  # type: ignore[override]
        """Runs until `future` is done; SimulationStuckError if it never will be."""
        target: asyncio.Future[T] = future if isinstance(future, asyncio.Future) else self.create_task(future, name="main")
        self._run(target.done)
        if not target.done():
            raise SimulationStuckError(
                f"nothing left to do at {self.now_us} us, and {describe(target)} is not done; waiting: {self._waiting()}"
            )
        return target.result()

    def run_for_us(self, duration_us: int) -> None:
        """Runs everything that happens in the next `duration_us` of virtual time."""
        reached: list[bool] = []
        self.call_at_us(self.now_us + duration_us, reached.append, True)
        self._run(lambda: bool(reached))

    def run_forever(self) -> None:
        """Runs until `stop`, or until nothing is left to happen."""
        self._run(lambda: False)

    def stop(self) -> None:
        self._stopping = True

    def _run(self, finished: Callable[[], bool]) -> None:
        if self._running or self._closed:
            raise RuntimeError("the simulated loop is running already, or closed")
        self._running = True
        self._stopping = False
        collecting = gc.isenabled()
        gc.disable()
        previous = events._get_running_loop()
        events._set_running_loop(self)
        try:
            self._run_steps(finished)
        finally:
            events._set_running_loop(previous)
            self._running = False
            if collecting:
                gc.enable()

    def _advance(self) -> bool:
        """Moves time to the next timer and makes ready what is due; returns False if there is no
        timer.
        """
        timers = self._timers
        while timers and timers[0][2].callback is None:
            heapq.heappop(timers)
        if not timers:
            return False
        self.now_us = timers[0][0]
        if self.now_us > self._max_time_us:
            raise SimulationBudgetError(f"virtual time passed {self._max_time_us} us")
        while timers and timers[0][0] <= self.now_us:
            handle = heapq.heappop(timers)[2]
            if handle.callback is not None:
                self._ready.append(handle)
        return True

    def _run_steps(self, finished: Callable[[], bool]) -> None:
        """In one function, for a call would cost as much as most of its lines."""
        ready, paused, label_of = self._ready, self._paused_until_us, self._labels.of
        while not finished() and not self._stopping:
            if not ready and not self._advance():
                return
            handle = ready.popleft() if len(ready) == 1 else self._next_handle()
            callback = handle.callback
            if callback is None:
                continue
            owner = handle.context.get(current_owner)
            if owner is not None and (not owner.alive or (owner in paused and self._postpone(owner, handle))):
                continue
            self.steps += 1
            if self.steps >= self._check_at_step:
                self._check_steps()
            self.note(label_of(handle.task, callback))
            try:
                handle.context.run(callback, *handle.args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # noqa: BLE001 - as asyncio: told, not raised
                self._tell(error, callback, handle.context)

    def _check_steps(self) -> None:
        if self.steps > self._max_steps:
            raise SimulationBudgetError(f"more than {self._max_steps} steps")
        gc.collect()
        self._check_at_step = min(self.steps + GC_STEPS, self._max_steps + 1)

    def pause_owner(self, owner: Owner, duration_us: int) -> None:
        """Run nothing of `owner` for a while."""
        self._paused_until_us[owner] = self.now_us + duration_us
        self.note(f"pause {owner.name} {duration_us}")

    def forget_owner(self, owner: Owner) -> None:
        """It is dead, and stands still no more: nothing waits for its sake."""
        self._paused_until_us.pop(owner, None)

    def _postpone(self, owner: Owner, handle: SimHandle) -> bool:
        until_us = self._paused_until_us[owner]
        if until_us <= self.now_us:
            del self._paused_until_us[owner]
            return False
        self._timer_count += 1
        heapq.heappush(self._timers, (until_us, self._timer_count, handle))
        return True

    def _next_handle(self) -> SimHandle:
        ready = self._ready
        if not self._reorder:
            return ready.popleft()
        count = 0
        for handle in ready:
            if handle.task is None or count == REORDER_WINDOW:
                break
            count += 1
        if count < 2:
            return ready.popleft()
        index = int(self._chance() * count)
        handle = ready[index]
        del ready[index]
        return handle

    def _waiting(self) -> str:
        names = sorted(task.get_name() for task in asyncio.all_tasks(self) if not task.done())
        return ", ".join(names[:20]) or "no task"

    # State

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    get_debug = staticmethod(bool)  # a function of C that says False: asyncio asks for each future

    def close(self) -> None:
        """Drops what is left to happen. Tasks that have not made their first step are closed, or
        Python would warn that nobody awaited their coroutines; those of nodes are closed by
        `SimRuntime.close_tasks`.
        """
        self._closed = True
        self._on_trace = None
        for handle in self._ready:
            handle.close_if_new()
        self._ready.clear()
        self._timers.clear()

    async def shutdown_asyncgens(self) -> None:
        """Nothing to do: asynchronous generators are not tracked."""

    async def shutdown_default_executor(self) -> None:
        """Nothing to do: there is no executor."""


for _name in sorted(vars(asyncio.AbstractEventLoop)):
    if not _name.startswith("_") and _name not in vars(SimLoop):
        setattr(SimLoop, _name, not_modelled(_name))

new_loop: Callable[..., SimLoop] = SimLoop
"""Makes a loop; a type checker does not see that the methods above are there."""
