"""Work of a worker that goes on until its owner ends it, and what is known of it.

A connector or a task ends when a cluster refuses or cannot be reached. Then it is FAILED, one line
says why, and it begins again after a pause that doubles up to LONGEST_PAUSE_MS (Apache's MirrorMaker
leaves a failed task FAILED until somebody restarts it). Errors that nobody foresaw go through
`Supervised`, which reports them with their place in the program.

Work that is RUNNING says so again and again (`heard`). If it has not for SILENT_MS, its state is not
known, and `described` says UNKNOWN with the age of what was last heard. Work that runs may be in
trouble all the same: a cluster does not answer it, or a job of it fails. It says so (`trouble`) until
that is over, and is not well meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, Protocol

from kmirror.common.errors import KmirrorError
from kmirror.common.health import Health
from kmirror.common.ports import Clock
from kmirror.mirrormaker.scheduler import Job
from kmirror.mirrormaker.startups import Startups
from kmirror.mirrormaker.state_times import State, StateTimes
from kmirror.runtime.api import Runtime, TaskScope
from kmirror.runtime.supervision import Supervised

FIRST_PAUSE_MS: Final = 1_000
LONGEST_PAUSE_MS: Final = 30_000
SILENT_MS: Final = 60_000
_log = logging.getLogger(__name__)


class Told(Protocol):
    """What work tells of itself while it runs: `Status`."""

    def heard(self) -> None: ...
    def trouble(self, what: str, reason: str | None) -> None: ...
    def warn(self, what: str, reason: str | None) -> None: ...
    def job_ended(self, job: Job, failed: str | None) -> None: ...


class Unheard:
    """Of work whose owner does not ask how it is."""

    def heard(self) -> None: ...
    def trouble(self, what: str, reason: str | None) -> None: ...
    def warn(self, what: str, reason: str | None) -> None: ...
    def job_ended(self, job: Job, failed: str | None) -> None: ...


class Status:
    """What is known of one connector or task. Times are of the monotonic clock. `times` are those of a
    former unit that this one goes on for. `startups` hears how each start went.
    """

    def __init__(self, name: str, clock: Clock, *, times: StateTimes | None = None, startups: Startups | None = None) -> None:
        self.name = name
        self.state = State.UNASSIGNED
        self.error: str | None = None
        self.failures = 0
        self.troubles: dict[str, str] = {}
        self.warnings: dict[str, str] = {}
        self.times = times or StateTimes(clock)
        self.times.enter(State.UNASSIGNED)
        self._startups = startups
        self._has_started = False
        self._rests = False
        self._clock = clock
        self.since_ms = self.heard_ms = clock.monotonic_ms()

    def change(self, state: State, error: str | None = None) -> None:
        self.state, self.error, self._rests = state, error, False
        self.times.enter(state)
        self._note_startup(state)
        self.since_ms = self.heard_ms = self._clock.monotonic_ms()
        self.failures += state is State.FAILED
        self.troubles, self.warnings = {}, {}

    def _note_startup(self, state: State) -> None:
        if self._startups is not None and not self._has_started and state in (State.RUNNING, State.FAILED):
            self._startups.ended(succeeded=state is State.RUNNING)
        self._has_started = state is State.RUNNING

    def trouble(self, what: str, reason: str | None) -> None:
        """The work runs, but `what` is in trouble; None: it is not, or not any more."""
        _note(self.troubles, what, reason)

    def warn(self, what: str, reason: str | None) -> None:
        """The work is well, but something beside it, `what`, does not work; None: it does."""
        _note(self.warnings, what, reason)

    def rest(self, state: State) -> None:
        """Its users have paused or stopped it: it does nothing, and that is well."""
        self.change(state)
        self._rests = True

    def job_ended(self, job: Job, failed: str | None) -> None:
        """A job of the work has run; `failed` says how it failed, if it did."""
        tell = self.trouble if job.is_vital else self.warn
        tell(job.description, None if failed is None else f"{job.description}: {failed}")

    def heard(self) -> None:
        """The work is alive."""
        self.heard_ms = self._clock.monotonic_ms()
        if self.state is not State.RUNNING:
            self.change(State.RUNNING)

    def described(self) -> str:
        """One line: name, state, and why or since when."""
        now_ms = self._clock.monotonic_ms()
        if self.state is State.RUNNING and now_ms - self.heard_ms > SILENT_MS:
            return f"{self.name}: UNKNOWN, last heard of {(now_ms - self.heard_ms) // 1000} s ago"
        since = f"{self.name}: {self.state.value} for {(now_ms - self.since_ms) // 1000} s"
        reason = self.error or "; ".join(self.troubles.values())
        return f"{since}: {reason}" if reason else since

    @property
    def is_well(self) -> bool:
        if self.troubles:
            return False
        return self._rests or (self.state is State.RUNNING and self._clock.monotonic_ms() - self.heard_ms <= SILENT_MS)


def _note(of: dict[str, str], what: str, reason: str | None) -> None:
    if reason is None:
        of.pop(what, None)
    else:
        of[what] = reason


def health_of(statuses: Iterable[Status]) -> Health:
    """Returns the health of work that is to run."""
    every = list(statuses)
    return Health(
        [status.described() for status in every if not status.is_well],
        [status.described() for status in every],
        warnings=[f"{status.name}: {warning}" for status in every for warning in status.warnings.values()],
    )


Work = Callable[[Status], Coroutine[Any, Any, object]]


class KeptRunning:
    """Runs `work` until `stop`, again and again. It is told of its `Status`, to call `heard`; `times` and
    `startups` are those of the status.
    """

    def __init__(
        self, runtime: Runtime, name: str, work: Work, *, times: StateTimes | None = None, startups: Startups | None = None
    ) -> None:
        self.status = Status(name, runtime.clock, times=times, startups=startups)
        self._runtime = runtime
        self._work = work
        self._scope = TaskScope(runtime, name)
        self._ending: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._scope.spawn(Supervised(self._runtime, self._run, name=self.status.name, on_end=self._ended).run(), name="run")

    async def stop(self) -> None:
        """Cancels the work, once, and waits until it has cleaned up.

        A worker that ends may find that its group was just stopping the work, and gave up waiting. If
        the work were cancelled again, it would not store its offsets, and copy some records twice.
        """
        if self._ending is None:
            self._ending = self._runtime.spawn(self._end(), name=f"{self.status.name} ends")
        await asyncio.shield(self._ending)

    async def _end(self) -> None:
        await self._scope.cancel()
        self.status.change(State.STOPPED)

    def _ended(self, error: Exception) -> None:
        self.status.change(State.FAILED, str(error) or type(error).__name__)

    async def _run(self) -> None:
        pause_ms = FIRST_PAUSE_MS
        while True:
            began_ms = self._runtime.clock.monotonic_ms()
            try:
                await self._work(self.status)
                return
            except KmirrorError as error:
                if self._runtime.clock.monotonic_ms() - began_ms > LONGEST_PAUSE_MS:
                    pause_ms = FIRST_PAUSE_MS
                self._ended(error)
                _log.error("[%s] failed, begins again in %d s: %s", self.status.name, pause_ms // 1000, error)
            await self._runtime.sleep_ms(pause_ms)
            pause_ms = min(2 * pause_ms, LONGEST_PAUSE_MS)
