"""One connector of a standalone worker, with its tasks: what is wanted, and what runs.

The connector runs in a `KeptRunning`, and so does each task. When the connector says that its tasks are
others than those that run, these stop and the new ones start. A paused connector keeps its tasks, which
do nothing; a stopped one has none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from kmirror.mirrormaker.herder.connector_life import idle, run_connector
from kmirror.mirrormaker.herder.connector_plan import ConnectorPlan, TaskContext
from kmirror.mirrormaker.herder.herder import TargetState
from kmirror.mirrormaker.kept_running import KeptRunning, Status
from kmirror.mirrormaker.startups import WorkerStartups
from kmirror.mirrormaker.state_times import StateTimes
from kmirror.runtime.api import Runtime, run_together

STARTED_MS: Final = 10_000
_log = logging.getLogger(__name__)


class StandaloneConnector:
    """Whoever changes it holds `turn`, which it takes itself to start other tasks. `writes_to` is told of
    topics that tasks are about to write to, `startups` hears how each start went.
    """

    def __init__(
        self,
        runtime: Runtime,
        name: str,
        plan: ConnectorPlan,
        target_state: TargetState,
        turn: asyncio.Lock,
        writes_to: Callable[[str], object],
        startups: WorkerStartups,
    ) -> None:
        self._startups = startups
        self.name = name
        self.plan = plan
        self.target_state = target_state
        self.task_configs: list[dict[str, str]] = []
        self.tasks: list[KeptRunning] = []
        self._runtime = runtime
        self._turn = turn
        self._context = TaskContext(writes_to=writes_to)
        self._settled = asyncio.Event()
        """The connector has said what its tasks are, or has failed."""
        self.life = self._new_life()

    @property
    def statuses(self) -> list[Status]:
        """Of the connector, then of its tasks."""
        return [self.life.status, *(kept.status for kept in self.tasks)]

    def start(self, times: Sequence[StateTimes] = ()) -> None:
        """`times` are those of former tasks, which go on in another state."""
        self.life.start()
        self._start_tasks(times)

    async def halt(self) -> None:
        """The connector first, so that it starts no other task; tasks store what they have copied."""
        await self.life.stop()
        await self._halt_tasks()

    async def change_state(self, state: TargetState) -> None:
        times = [kept.status.times for kept in self.tasks]
        await self.halt()
        self.target_state = state
        if state is TargetState.STOPPED:
            self.task_configs = []
        self.life = self._new_life()
        self.start(times)

    async def restart_connector(self) -> None:
        """The connector alone."""
        await self.life.stop()
        self.life = self._new_life()
        self.life.start()

    async def restart_tasks(self, numbers: Sequence[int]) -> None:
        await run_together(self._runtime, f"tasks of {self.name} stop", [self.tasks[number].stop() for number in numbers])
        for number in numbers:
            self.tasks[number] = self._task(number)
            self.tasks[number].start()

    async def settled(self) -> None:
        """Waits until the connector has said what its tasks are, or has failed; STARTED_MS at most."""
        try:
            async with asyncio.timeout(STARTED_MS / 1000):
                await self._settled.wait()
        except TimeoutError:
            _log.warning("[%s] the connector has not started yet", self.name)

    # The connector

    def _new_life(self) -> KeptRunning:
        self._settled.clear()

        async def live(status: Status) -> None:
            try:
                await self._live(status)
            finally:
                self._settled.set()

        return KeptRunning(self._runtime, self.name, live, startups=self._startups.connectors)

    async def _live(self, status: Status) -> None:
        if self.target_state is not TargetState.STARTED:
            await self._rest(status)
        await run_connector(self._runtime, self.name, self.plan, status, self._publish)

    async def _publish(self, tasks: list[dict[str, str]]) -> None:
        """Has other tasks run, if the connector wants others."""
        async with self._turn:
            if tasks != self.task_configs:
                await self._halt_tasks()
                self.task_configs = tasks
                self._start_tasks()
        self._settled.set()

    # Tasks

    def _start_tasks(self, times: Sequence[StateTimes] = ()) -> None:
        self.tasks = [self._task(number, *times[number : number + 1]) for number in range(len(self.task_configs))]
        for kept in self.tasks:
            kept.start()

    def _task(self, number: int, times: StateTimes | None = None) -> KeptRunning:
        async def live(status: Status) -> None:
            if self.target_state is not TargetState.STARTED:
                await self._rest(status)
            await self.plan.make_task(self.task_configs[number], number, self._context)(status)

        return KeptRunning(self._runtime, f"{self.name}-{number}", live, times=times, startups=self._startups.tasks)

    async def _rest(self, status: Status) -> None:
        """Of a connector or task that its users have paused or stopped."""
        self._settled.set()
        await idle(self._runtime, status, self.target_state)

    async def _halt_tasks(self) -> None:
        await run_together(self._runtime, f"tasks of {self.name} stop", [kept.stop() for kept in self.tasks])
        self.tasks = []
