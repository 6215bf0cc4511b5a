"""Whether what should run at a worker is known, and runs (`herder.worker_health`)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.logs.storage_doubles import ManualClock

from kmirror.mirrormaker.herder.cluster_config_state import (
    ClusterConfigState,
    connector_record,
    target_state_record,
    task_records,
)
from kmirror.mirrormaker.herder.connect_protocol import Assignment, ConnectorTaskId
from kmirror.mirrormaker.herder.herder import TargetState
from kmirror.mirrormaker.herder.worker_health import WorkerFacts, worker_health
from kmirror.mirrormaker.kept_running import SILENT_MS, Status
from kmirror.mirrormaker.state_times import State

SOURCE = "MirrorSourceConnector"
TASK = ConnectorTaskId(SOURCE, 0)


class Facts:
    def __init__(self, *, tasks: int = 1) -> None:
        self.clock = ManualClock()
        self.state = ClusterConfigState()
        for key, value in (*[connector_record(SOURCE, {"topics": "t"})], *task_records(SOURCE, [{"n": "0"}] * tasks)):
            self.state.handle_record(key, value)
        self.statuses = {unit: Status(f"A->B|{unit}", self.clock) for unit in (SOURCE, TASK)}
        for status in self.statuses.values():
            status.change(State.RUNNING)
        held = Assignment("one", "", 0, [SOURCE], [TASK])
        self.facts = WorkerFacts("A->B", "A-mm2", None, False, held, self.state, self.statuses, None, lambda name: name == SOURCE)  # type: ignore[arg-type]

    def reasons(self, **other: object) -> list[str]:
        return worker_health(replace(self.facts, **other)).all_reasons  # type: ignore[arg-type]


def test_a_worker_whose_work_runs_is_ready_and_names_it() -> None:
    health = worker_health(Facts().facts)
    assert health.is_ready
    assert health.looked_at[0] == "A->B: in group A-mm2, 1 of 1 connectors and 1 of 1 tasks are this worker's"
    assert [line.split(" for ")[0] for line in health.looked_at[1:]] == [f"A->B|{SOURCE}: RUNNING", f"A->B|{TASK}: RUNNING"]
    assert "connectors and tasks of other workers" in health.not_looked_at


def test_a_worker_that_is_not_in_its_group_is_not_ready_though_nothing_failed() -> None:
    """It has given its work up, so there is nothing of which it could be said that it is not well."""
    (reason,) = Facts().reasons(lost="its coordinator has not answered", statuses={}, assignment=None)
    assert reason.endswith("what should run here is not known: its coordinator has not answered") and "A-mm2" in reason


def test_a_group_that_is_being_assigned_anew_is_not_ready() -> None:
    assert Facts().reasons(is_moving=True, statuses={}, assignment=None)


def test_work_that_was_given_and_does_not_run_is_told() -> None:
    (reason,) = Facts().reasons(statuses={})[:1]
    assert reason == f"A->B|{SOURCE}: it is this worker's, and does not run"


def test_a_flow_without_tasks_is_not_ready() -> None:
    bench = Facts(tasks=0)
    (reason,) = bench.reasons(statuses={SOURCE: bench.statuses[SOURCE]})
    assert "no tasks" in reason and SOURCE in reason
    bench.state.handle_record(*target_state_record(SOURCE, TargetState.PAUSED))
    assert bench.reasons(statuses={SOURCE: bench.statuses[SOURCE]}) == []
    assert Facts(tasks=0).reasons(needs_tasks=lambda name: False, statuses={}, assignment=None) == []


def test_the_leader_tells_what_no_worker_has() -> None:
    nobodys = Facts().reasons(owned=frozenset({SOURCE}), assignment=Assignment("one", "", 0, [SOURCE], []))
    assert nobodys == [f"A->B|{TASK}: no worker of the group has it"]
    assert Facts().reasons(owned=None, assignment=Assignment("one", "", 0, [SOURCE], [])) == []


@pytest.mark.parametrize("trouble", [True, False])
def test_work_that_runs_in_trouble_is_not_well_and_work_with_a_warning_is(trouble: bool) -> None:
    bench = Facts()
    (bench.statuses[TASK].trouble if trouble else bench.statuses[TASK].warn)("source", "A does not answer")
    health = worker_health(bench.facts)
    assert health.is_ready is not trouble
    assert any("A does not answer" in line for line in (health.reasons if trouble else health.warnings))
    bench.statuses[TASK].trouble("source", None)
    assert worker_health(bench.facts).is_ready


def test_work_that_is_not_heard_of_is_not_well() -> None:
    bench = Facts()
    bench.clock.now_ms += SILENT_MS + 1_000
    assert all("UNKNOWN" in reason for reason in bench.reasons())


def test_a_cluster_without_connectors_is_ready_and_says_that_nothing_runs() -> None:
    """A Connect cluster is told over REST what to run: it has to be reachable for that."""
    health = worker_health(replace(Facts().facts, state=ClusterConfigState(), statuses={}, assignment=Assignment("one", "", 0)))
    assert health.is_ready and health.looked_at == ["A->B: no connector is configured, so nothing runs"]
