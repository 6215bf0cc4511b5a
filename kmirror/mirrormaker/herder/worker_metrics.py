"""What a worker runs, under the names of Connect's MBeans.

    kafka.connect:type=connect-worker-metrics                connector-count, task-count, and how starts went
                                                             (`startups`)
    kafka.connect:type=connect-worker-metrics,connector=c    connector-total-task-count, and the counts of
                                                             running, paused, failed, unassigned,
                                                             restarting and destroyed tasks
    kafka.connect:type=connector-metrics,connector=c         status
    kafka.connect:type=connector-task-metrics,connector=c,task=0      status, running-ratio, pause-ratio: fractions
                                                             of the time since the task was given to the worker

Only what runs at this worker is counted, as in Connect. A process of `connect-mirror-maker` has a
worker for each flow, whose MBeans would have the same names: there a tag `flow` tells them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from kmirror.common.metrics import MetricName, MetricsRegistry, Value
from kmirror.mirrormaker.herder.connect_protocol import ConnectorTaskId
from kmirror.mirrormaker.kept_running import Status
from kmirror.mirrormaker.startups import WorkerStartups
from kmirror.mirrormaker.state_times import State
from kmirror.mirrormaker.task_metrics import TASK

GROUP: Final = "kafka.connect"
WORKER: Final = "connect-worker-metrics"
TASK_STATES: Final = {
    "running": State.RUNNING,
    "paused": State.PAUSED,
    "failed": State.FAILED,
    "unassigned": State.UNASSIGNED,
    "restarting": State.RESTARTING,
    "destroyed": State.STOPPED,
}
Units = Mapping[str | ConnectorTaskId, Status]
Tags = tuple[tuple[str, str], ...]


def register_worker_metrics(
    registry: MetricsRegistry, units: Callable[[], Units], startups: WorkerStartups, flow: str | None = None
) -> None:
    """`units` are the connectors and tasks that run here now."""
    tags: Tags = () if flow is None else (("flow", flow),)

    def collect() -> Iterator[tuple[MetricName, Value]]:
        yield from _readings(units(), tags)
        for attribute, value in startups.read():
            yield MetricName(GROUP, WORKER, "", tags, attribute), value

    registry.add_collector(collect)


def _readings(units: Units, tags: Tags) -> Iterator[tuple[MetricName, Value]]:
    tasks = {task: status for task, status in units.items() if isinstance(task, ConnectorTaskId)}
    connectors = {name: status for name, status in units.items() if isinstance(name, str)}
    yield MetricName(GROUP, WORKER, "", tags, "connector-count"), len(connectors)
    yield MetricName(GROUP, WORKER, "", tags, "task-count"), len(tasks)
    for name in dict.fromkeys([*connectors, *(task.connector for task in tasks)]):
        own = [status for task, status in tasks.items() if task.connector == name]
        named = (*tags, ("connector", name))
        yield MetricName(GROUP, WORKER, "", named, "connector-total-task-count"), len(own)
        for what, state in TASK_STATES.items():
            yield MetricName(GROUP, WORKER, "", named, f"connector-{what}-task-count"), sum(status.state is state for status in own)
    for name, status in connectors.items():
        yield MetricName(GROUP, "connector-metrics", "", (*tags, ("connector", name)), "status"), status.state.value.lower()
    for task, status in tasks.items():
        named = (*tags, ("connector", task.connector), ("task", str(task.task)))
        yield MetricName(GROUP, TASK, "", named, "status"), status.state.value.lower()
        yield MetricName(GROUP, TASK, "", named, "running-ratio"), status.times.ratio(State.RUNNING)
        yield MetricName(GROUP, TASK, "", named, "pause-ratio"), status.times.ratio(State.PAUSED)
