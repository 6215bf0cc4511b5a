"""Whether what should run at a worker is known, and runs.

What should run is what its group gave to it, as far as it is configured. So a worker is not well
while it is not in its group, although it does nothing wrong: it does nothing. A source connector
without tasks copies nothing either. The leader, which alone knows who has what, also names what no
worker has. Other workers of the group are not looked at: each has a page of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from kmirror.common.health import Health, joined
from kmirror.mirrormaker.herder.cluster_config_state import ClusterConfigState
from kmirror.mirrormaker.herder.connect_protocol import Assignment, ConnectorTaskId
from kmirror.mirrormaker.herder.herder import TargetState
from kmirror.mirrormaker.kept_running import Status, health_of

NOT_LOOKED_AT: Final = ("connectors and tasks of other workers", "whether the records at the target are those of the source")
NOTHING_TO_COPY: Final = (
    "it has no tasks, so nothing is copied: no topic of the source is one of its topics, or it has not said yet which are"
)
_Unit = str | ConnectorTaskId


@dataclass(frozen=True)
class WorkerFacts:
    """`lost` is why the worker is not in its group; None if it is. `owned` are the units that some worker
    has, None where that is not known: only the leader knows it. `needs_tasks` says of a connector whether
    it copies nothing without tasks.
    """

    name: str
    group_id: str
    lost: str | None
    is_moving: bool
    assignment: Assignment | None
    state: ClusterConfigState
    statuses: Mapping[_Unit, Status]
    owned: frozenset[_Unit] | None
    needs_tasks: Callable[[str], bool]


def worker_health(facts: WorkerFacts) -> Health:
    membership = Health([*_unknown(facts)], [_membership(facts)], NOT_LOOKED_AT)
    if facts.lost is not None:
        return joined([membership, health_of(facts.statuses.values())])
    return joined([membership, Health([*_missing(facts), *without_tasks(facts)]), health_of(facts.statuses.values())])


def _unknown(facts: WorkerFacts) -> Iterator[str]:
    if facts.lost is not None:
        yield f"{facts.name}: the worker is not in its group {facts.group_id}, so what should run here is not known: {facts.lost}"
    elif facts.is_moving:
        yield f"{facts.name}: the group {facts.group_id} is being assigned anew, so what should run here is not known"


def _membership(facts: WorkerFacts) -> str:
    connectors, held = len(facts.state.connectors), facts.assignment
    if facts.lost is not None or held is None:
        return f"{facts.name}: the worker's place in its group {facts.group_id}"
    tasks = sum(len(facts.state.tasks(name)) for name in facts.state.connectors)
    here = f"{len(held.connectors)} of {connectors} connectors and {len(held.tasks)} of {tasks} tasks are this worker's"
    return (
        f"{facts.name}: in group {facts.group_id}, {here}" if connectors else f"{facts.name}: no connector is configured, so nothing runs"
    )


def _missing(facts: WorkerFacts) -> Iterator[str]:
    for unit in _configured(facts):
        if facts.assignment is not None and unit in (*facts.assignment.connectors, *facts.assignment.tasks):
            if unit not in facts.statuses:
                yield f"{facts.name}|{unit}: it is this worker's, and does not run"
        elif facts.owned is not None and unit not in facts.owned:
            yield f"{facts.name}|{unit}: no worker of the group has it"


def _configured(facts: WorkerFacts) -> Iterator[_Unit]:
    for name in facts.state.connectors:
        yield name
        yield from facts.state.tasks(name)


def without_tasks(facts: WorkerFacts) -> Iterator[str]:
    for name in facts.state.connectors:
        is_started = facts.state.target_state(name) is TargetState.STARTED
        if is_started and facts.needs_tasks(name) and not facts.state.tasks(name):
            yield f"{facts.name}|{name}: {NOTHING_TO_COPY}"
