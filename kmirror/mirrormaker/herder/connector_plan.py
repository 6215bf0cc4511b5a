"""What a worker needs to know of a connector: how it and its tasks are made from properties."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kmirror.common.errors import ConfigError
from kmirror.mirrormaker.kept_running import Work
from kmirror.mirrormaker.scheduler import Job


async def _nothing_to_check() -> None:
    pass


@dataclass(frozen=True)
class TaskContext:
    """What a task has of its worker. It calls `check` with exactly-once support, once its former lives are
    shut out and before it reads where it goes on: KmirrorError if the task is no longer this worker's. It
    calls `writes_to` with a topic before it first writes there.
    """

    check: Callable[[], Awaitable[object]] = _nothing_to_check
    writes_to: Callable[[str], object] = lambda _: None


class Connector(Protocol):
    """What a herder needs of a connector. `task_properties` are what each task has besides the
    properties of the connector.
    """

    async def start(self) -> None: ...
    def jobs(self) -> list[Job]: ...
    def task_properties(self) -> Sequence[Mapping[str, str]]: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class ConnectorPlan:
    """`properties` are as written, references of config providers included; `make` gets what to call
    when the tasks are to be asked for again, `make_task` a task's properties, number and context. Tasks of
    a plan that `is_source` write to the worker's own cluster, so they can do it exactly once. One that
    `needs_tasks` copies nothing without them.
    """

    name: str
    properties: Mapping[str, str]
    make: Callable[[Callable[[], object]], Connector]
    make_task: Callable[[Mapping[str, str], int, TaskContext], Work]
    admin_timeout_ms: int
    is_source: bool
    needs_tasks: bool = False


MakePlan = Callable[[Mapping[str, str]], ConnectorPlan]
"""Makes a plan from properties of the topic of configs. ConfigError for what cannot run here."""


class ConnectorPlans:
    """The plans of the connectors that a worker knows: those `of_file`, a properties file, as long as it is
    what they are configured with, and others that it makes. `properties_of` says with what.
    """

    def __init__(self, of_file: Mapping[str, ConnectorPlan], make: MakePlan, properties_of: Callable[[str], Mapping[str, str]]) -> None:
        self.of_file = of_file
        self._make = make
        self._properties_of = properties_of
        self._made: dict[str, ConnectorPlan] = {}

    def plan(self, connector: str) -> ConnectorPlan:
        """ConfigError for a connector that cannot run here."""
        properties = self._properties_of(connector)
        for known in (self.of_file.get(connector), self._made.get(connector)):
            if known is not None and known.properties == properties:
                return known
        made = self._made[connector] = self._make(properties)
        return made

    def is_source(self, connector: str) -> bool:
        try:
            return self.plan(connector).is_source
        except ConfigError:
            return False

    def needs_tasks(self, connector: str) -> bool:
        try:
            return self.plan(connector).needs_tasks
        except ConfigError:
            return False


def file_differences(worker: str, of_file: Mapping[str, ConnectorPlan], stored: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Returns a line for each connector that this worker's file configures otherwise than its group. Values are
    not shown: they may be secrets.
    """
    found = []
    for name, plan in of_file.items():
        others = stored.get(name)
        if others is not None and others != plan.properties:
            names = sorted(one for one in {*others, *plan.properties} if others.get(one) != plan.properties.get(one))
            found.append(
                f"[{worker}] The file of this process differs from what its group runs of {name}, in {', '.join(names)}: what the leader's "
                "file says counts. Give all processes of a flow the same file"
            )
    return found
