"""What a worker runs, under the names of Connect's MBeans."""

from __future__ import annotations

from support.logs.storage_doubles import ManualClock

from kmirror.common.metrics import MetricsRegistry
from kmirror.mirrormaker.herder.connect_protocol import ConnectorTaskId
from kmirror.mirrormaker.herder.worker_metrics import register_worker_metrics
from kmirror.mirrormaker.kept_running import Status
from kmirror.mirrormaker.startups import WorkerStartups
from kmirror.mirrormaker.state_times import State


def test_connectors_and_tasks_are_counted_by_their_states() -> None:
    clock = ManualClock()
    units: dict[str | ConnectorTaskId, Status] = {
        unit: Status(str(unit), clock) for unit in ("c", ConnectorTaskId("c", 0), ConnectorTaskId("c", 1))
    }
    units["c"].change(State.RUNNING)
    units[ConnectorTaskId("c", 0)].change(State.FAILED, "why")
    registry, startups = MetricsRegistry(clock), WorkerStartups(clock)
    startups.tasks.ended(succeeded=False)
    register_worker_metrics(registry, lambda: units, startups, "A->B")
    clock.now_ms += 10
    found = {str(name): metric.value() for name, metric in registry}
    worker = "kafka.connect:type=connect-worker-metrics,flow=A->B"
    assert (found[f"{worker},attribute=connector-count"], found[f"{worker},attribute=task-count"]) == (1, 2)
    counts = {
        what: found[f"{worker},connector=c,attribute=connector-{what}-task-count"] for what in ("total", "failed", "unassigned", "running")
    }
    assert counts == {"total": 2, "failed": 1, "unassigned": 1, "running": 0}
    assert found["kafka.connect:type=connector-task-metrics,flow=A->B,connector=c,task=0,attribute=status"] == "failed"
    assert found["kafka.connect:type=connector-task-metrics,flow=A->B,connector=c,task=0,attribute=running-ratio"] == 0
    assert (found[f"{worker},attribute=task-startup-attempts-total"], found[f"{worker},attribute=task-startup-failure-percentage"]) == (
        1,
        1,
    )
