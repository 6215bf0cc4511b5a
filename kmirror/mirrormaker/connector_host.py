"""One connector and its tasks on this node (what Connect's herder and worker do for one connector).

The connector says what its tasks are. When that changes, tasks with the same configuration go on; the
others are stopped first, so that no partition is copied by two tasks at a time, and then new ones
begin. A connector that fails begins again and leaves its tasks alone meanwhile.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from kmirror.mirrormaker.kept_running import KeptRunning, Status, Work
from kmirror.mirrormaker.scheduler import Job, run_regularly
from kmirror.runtime.api import Runtime, run_together


class Connector(Protocol):
    """What a host needs of a connector. Task configurations are equal if their tasks do the same."""

    async def start(self) -> None: ...
    def jobs(self) -> list[Job]: ...
    def task_configs(self) -> Sequence[Any]: ...
    def close(self) -> None: ...


MakeConnector = Callable[[Callable[[], object]], Connector]
"""Gets what to call when the tasks are to be asked for again."""
MakeTask = Callable[[Any], Work]
"""Makes a task's work from its configuration."""


class ConnectorHost:
    """Keeps one connector and its tasks running. `prepare` runs before each start of the
    connector.
    """

    def __init__(
        self,
        runtime: Runtime,
        name: str,
        make_connector: MakeConnector,
        make_task: MakeTask,
        *,
        prepare: Callable[[], Awaitable[object]] | None = None,
        admin_timeout_ms: int = 60_000,
    ) -> None:
        self.name = name
        self._runtime = runtime
        self._make_connector = make_connector
        self._make_task = make_task
        self._prepare = prepare
        self._admin_timeout_ms = admin_timeout_ms
        self._connector = KeptRunning(runtime, name, self._live)
        self._tasks: list[tuple[Any, KeptRunning]] = []
        self._changed = False
        self._next_task = 0

    @property
    def statuses(self) -> list[Status]:
        """Of the connector, then of its tasks."""
        return [self._connector.status, *(task.status for _, task in self._tasks)]

    def start(self) -> None:
        self._connector.start()

    async def stop(self) -> None:
        """Stops the connector, then its tasks, which store what they have copied."""
        await self._connector.stop()
        await self._stop_tasks(self._tasks)
        self._tasks = []

    async def _live(self, status: Status) -> None:
        connector = self._make_connector(self._reconfigure)
        try:
            if self._prepare is not None:
                await self._prepare()
            await connector.start()
            status.heard()
            await self._assign(connector.task_configs())

            async def after() -> None:
                if self._changed:
                    self._changed = False
                    await self._assign(connector.task_configs())

            await run_regularly(
                self._runtime, self.name, connector.jobs(), timeout_ms=self._admin_timeout_ms, heard=status.heard, after=after
            )
        finally:
            connector.close()

    def _reconfigure(self) -> None:
        self._changed = True

    async def _assign(self, configs: Sequence[Any]) -> None:
        wanted = list(configs)
        kept, ended = [], []
        for config, task in self._tasks:
            if config in wanted:
                wanted.remove(config)
                kept.append((config, task))
            else:
                ended.append((config, task))
        self._tasks = kept
        await self._stop_tasks(ended)
        for config in wanted:
            task = KeptRunning(self._runtime, f"{self.name}-task-{self._next_task}", self._make_task(config))
            self._next_task += 1
            self._tasks.append((config, task))
            task.start()

    async def _stop_tasks(self, tasks: Sequence[tuple[Any, KeptRunning]]) -> None:
        await run_together(self._runtime, f"{self.name} stops", [task.stop() for _, task in tasks])
