"""The connectors and tasks that were given to a worker, kept running (Connect's `Worker`).

A unit, connector or task, is started for certain properties and a target state, and goes on as long as
both stay so. A paused or stopped one has its unit, which does nothing. Nothing here knows the group: what
to run comes as an assignment, together with what the topic of configs says then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kmirror.common.errors import KmirrorError
from kmirror.mirrormaker.herder.cluster_config_state import ClusterConfigState
from kmirror.mirrormaker.herder.connect_protocol import Assignment, ConnectorTaskId
from kmirror.mirrormaker.herder.connector_life import idle
from kmirror.mirrormaker.herder.herder import RestartRequest, TargetState
from kmirror.mirrormaker.herder.leader_assignor import held_after
from kmirror.mirrormaker.kept_running import KeptRunning, Status
from kmirror.mirrormaker.startups import WorkerStartups
from kmirror.mirrormaker.state_times import StateTimes
from kmirror.runtime.api import Runtime, run_together

ConnectorLife = Callable[[str, Status], Coroutine[Any, Any, object]]
TaskLife = Callable[[ConnectorTaskId, Mapping[str, str], Status], Coroutine[Any, Any, object]]
"""Gets the properties that the task was started for."""


@dataclass(frozen=True)
class _Unit:
    properties: Mapping[str, str]
    target_state: TargetState
    kept: KeptRunning


class AssignedWork:
    """`connector_life` and `task_life` are what runs, each until it is cancelled; `startups` hears how each
    start went. Calls that change what runs must not overlap.
    """

    def __init__(self, runtime: Runtime, name: str, connector_life: ConnectorLife, task_life: TaskLife, startups: WorkerStartups) -> None:
        self._runtime = runtime
        self._name = name
        self._connector_life = connector_life
        self._task_life = task_life
        self._startups = startups
        self.assignment: Assignment | None = None
        """What is to run, as far as it is configured; none at first, and after `stop_all`."""
        self._connectors: dict[str, _Unit] = {}
        self._tasks: dict[ConnectorTaskId, _Unit] = {}

    @property
    def connectors(self) -> list[str]:
        return list(self._connectors)

    @property
    def tasks(self) -> list[ConnectorTaskId]:
        return list(self._tasks)

    @property
    def running(self) -> set[str]:
        """The connectors that are wanted to run."""
        return {name for name, unit in self._connectors.items() if unit.target_state is TargetState.STARTED}

    @property
    def statuses(self) -> dict[str | ConnectorTaskId, Status]:
        """Connectors first."""
        found: dict[str | ConnectorTaskId, Status] = {name: unit.kept.status for name, unit in self._connectors.items()}
        return found | {task: unit.kept.status for task, unit in self._tasks.items()}

    async def run(self, assignment: Assignment, state: ClusterConfigState) -> list[str]:
        """Runs what is assigned; what runs already, for the same, goes on. Returns the connectors that
        were started.
        """
        self.assignment = assignment
        return await self._run(assignment, state, same_tasks=False)

    async def run_on(self, state: ClusterConfigState) -> list[str]:
        """The same of what is assigned; other configs of tasks wait for the next assignment."""
        return [] if self.assignment is None else await self._run(self.assignment, state, same_tasks=True)

    async def _run(self, assignment: Assignment, state: ClusterConfigState, *, same_tasks: bool) -> list[str]:
        connectors = {
            name: (state.connectors[name], state.target_state(name)) for name in sorted(assignment.connectors) if name in state.connectors
        }
        tasks: dict[ConnectorTaskId, tuple[Mapping[str, str], TargetState]] = {
            task: (self._tasks[task].properties if same_tasks else state.task_config(task), state.target_state(task.connector))
            for task in sorted(assignment.tasks)
            if (task in self._tasks if same_tasks else task in state.tasks(task.connector))
        }
        ended = [task for task, unit in self._tasks.items() if tasks.get(task) != (unit.properties, unit.target_state)]
        others = [name for name, unit in self._connectors.items() if connectors.get(name) != (unit.properties, unit.target_state)]
        # A task that is paused, or goes on, is the same task.
        times = {
            task: self._tasks[task].kept.status.times for task in ended if task in tasks and tasks[task][0] == self._tasks[task].properties
        }
        await self.stop(ended, others)
        started = [name for name in connectors if name not in self._connectors]
        for name in started:
            self._start_connector(name, *connectors[name])
        for task, (properties, target_state) in tasks.items():
            if task not in self._tasks:
                self._start_task(task, properties, target_state, times.get(task))
        return started

    def require_current(self, task: ConnectorTaskId, properties: Mapping[str, str], state: ClusterConfigState) -> None:
        """KmirrorError unless the task is still configured so, and this worker's."""
        if task not in state.tasks(task.connector) or state.task_config(task) != properties or state.pending_fencing(task.connector):
            raise KmirrorError(f"the connector has other tasks by now, so {task} waits for them")
        if self.assignment is None or task not in self.assignment.tasks:
            raise KmirrorError(f"{task} is not assigned to this worker any more")

    def wanted(self, request: RestartRequest) -> list[str | ConnectorTaskId]:
        """Returns what a request restarts of what runs here."""
        of_request = [name for name in self._connectors if name == request.connector]
        tasks = [task for task in self._tasks if task.connector == request.connector] if request.include_tasks else []
        statuses = self.statuses
        found: Iterable[str | ConnectorTaskId] = (*of_request, *tasks)
        return [of for of in found if request.concerns(statuses[of].state.value)]

    async def restart(self, units: Sequence[str | ConnectorTaskId]) -> None:
        connectors = {of: self._connectors[of] for of in units if isinstance(of, str) and of in self._connectors}
        tasks = {of: self._tasks[of] for of in units if isinstance(of, ConnectorTaskId) and of in self._tasks}
        await self.stop(list(tasks), list(connectors))
        for name, unit in connectors.items():
            self._start_connector(name, unit.properties, unit.target_state)
        for task, unit in tasks.items():
            self._start_task(task, unit.properties, unit.target_state)

    async def stop_tasks(self, connectors: Sequence[str] | None = None) -> None:
        """Stops the tasks of some connectors, or all."""
        await self.stop([task for task in self._tasks if connectors is None or task.connector in connectors], [])

    async def stop_changed(self, state: ClusterConfigState, connectors: Collection[str]) -> None:
        """Stops the tasks that are configured otherwise by now, or not at all, and all tasks of some
        connectors.
        """
        same = {
            task
            for task, unit in self._tasks.items()
            if task in state.tasks(task.connector) and state.task_config(task) == unit.properties and task.connector not in connectors
        }
        await self.stop([task for task in self._tasks if task not in same], [])

    async def stop_revoked(self, assignment: Assignment) -> list[str | ConnectorTaskId]:
        """Stops what an assignment takes away; returns what ran of it."""
        if self.assignment is not None:
            self.assignment = held_after(self.assignment, replace(assignment, connectors=[], tasks=[]))
        connectors = [name for name in assignment.revoked_connectors if name in self._connectors]
        tasks = [task for task in assignment.revoked_tasks if task in self._tasks]
        await self.stop(tasks, connectors)
        return [*connectors, *tasks]

    async def stop_all(self) -> None:
        self.assignment = None
        await self.stop(list(self._tasks), list(self._connectors))

    async def stop(self, tasks: Sequence[ConnectorTaskId], connectors: Sequence[str]) -> None:
        """Connectors first, so that none starts another task."""
        try:
            await run_together(self._runtime, f"{self._name} stops", [self._connectors[name].kept.stop() for name in connectors])
        finally:
            await run_together(self._runtime, f"{self._name} stops", [self._tasks[task].kept.stop() for task in tasks])
        for name in connectors:
            self._connectors.pop(name, None)
        for task in tasks:
            self._tasks.pop(task, None)

    def _start_connector(self, name: str, properties: Mapping[str, str], target_state: TargetState) -> None:
        async def live(status: Status) -> None:
            if target_state is not TargetState.STARTED:
                await idle(self._runtime, status, target_state)
            await self._connector_life(name, status)

        kept = KeptRunning(self._runtime, f"{self._name}|{name}", live, startups=self._startups.connectors)
        self._connectors[name] = _Unit(properties, target_state, kept)
        kept.start()

    def _start_task(
        self, task: ConnectorTaskId, properties: Mapping[str, str], target_state: TargetState, times: StateTimes | None = None
    ) -> None:
        async def live(status: Status) -> None:
            if target_state is not TargetState.STARTED:
                await idle(self._runtime, status, target_state)
            await self._task_life(task, properties, status)

        name = f"{self._name}|{task.connector}-task-{task.task}"
        kept = KeptRunning(self._runtime, name, live, times=times, startups=self._startups.tasks)
        self._tasks[task] = _Unit(properties, target_state, kept)
        kept.start()
