"""What any task measures, how long it was in its states, and how starts went, under Connect's names."""

from __future__ import annotations

import asyncio
import math

import pytest
from support.logs.storage_doubles import ManualClock

from kmirror.common.errors import KmirrorError
from kmirror.common.metrics import MetricsRegistry, Value
from kmirror.mirrormaker.error_handling import ErrorHandlingMetrics
from kmirror.mirrormaker.herder.assigned_work import AssignedWork
from kmirror.mirrormaker.herder.cluster_config_state import ClusterConfigState, connector_record, target_state_record, task_records
from kmirror.mirrormaker.herder.connect_protocol import Assignment, ConnectorTaskId
from kmirror.mirrormaker.herder.herder import TargetState
from kmirror.mirrormaker.kept_running import Status
from kmirror.mirrormaker.source_task_metrics import SourceTaskMeter, SourceTaskMetrics
from kmirror.mirrormaker.source_task_offset_committer import SourceTaskOffsetCommitter
from kmirror.mirrormaker.startups import WorkerStartups
from kmirror.mirrormaker.state_times import State
from kmirror.mirrormaker.task_transactions import TaskTransactions
from kmirror.runtime.asyncio_runtime import AsyncioRuntime


class Store:
    """Where offsets go; it takes 40 ms, and fails when the test says so."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.error: BaseException | None = None

    async def store(self, *_: object) -> None:
        self.clock.now_ms += 40
        if self.error is not None:
            raise self.error


def committer_of(store: Store, meter: SourceTaskMeter) -> SourceTaskOffsetCommitter:
    return SourceTaskOffsetCommitter(AsyncioRuntime(), "t", 1_000, store.store, meter)


async def test_an_offset_write_that_fails_raises_the_percentage_of_failures() -> None:
    clock = ManualClock()
    store, meter = Store(clock), SourceTaskMeter(clock)
    committer = committer_of(store, meter)
    before = dict(meter.read_task())
    assert all(math.isnan(value) for value in before.values()), "nothing is known before the first attempt"
    await committer.commit()
    found = dict(meter.read_task())
    assert (found["offset-commit-success-percentage"], found["offset-commit-failure-percentage"]) == (1, 0)
    store.error = KmirrorError("the topic of offsets has no leader")
    for _ in range(3):
        with pytest.raises(KmirrorError):
            await committer.commit()
    found = dict(meter.read_task())
    assert (found["offset-commit-success-percentage"], found["offset-commit-failure-percentage"]) == (0.25, 0.75)
    assert (found["offset-commit-avg-time-ms"], found["offset-commit-max-time-ms"]) == (40, 40), "a failure has no time"
    clock.now_ms += 120_000
    assert math.isnan(dict(meter.read_task())["offset-commit-failure-percentage"]), "the windows are over"


async def test_a_commit_that_is_cut_off_has_failed() -> None:
    clock = ManualClock()
    store, meter = Store(clock), SourceTaskMeter(clock)
    store.error = asyncio.CancelledError()
    with pytest.raises(asyncio.CancelledError):
        await committer_of(store, meter).commit()
    assert dict(meter.read_task())["offset-commit-failure-percentage"] == 1


def test_a_batch_is_what_one_poll_brought() -> None:
    clock = ManualClock()
    registry = MetricsRegistry(clock)
    with SourceTaskMetrics(registry, clock, "A->B").of_task("c", 0) as meter:
        for parts in ((3, 4), (), (1,)):
            for records in parts:
                meter.polled(records)
            meter.poll_ended()
        found = {name.attribute: metric.value() for name, metric in registry if name.type == "connector-task-metrics"}
    assert (found["batch-size-avg"], found["batch-size-max"]) == (4, 7), "a poll that brought nothing is no batch"


class Producer:
    """Commits, unless it is to fail."""

    error: Exception | None = None

    async def begin_transaction(self) -> None: ...

    async def commit_transaction(self) -> None:
        if self.error is not None:
            raise self.error


class Offsets:
    async def write(self, *_: object) -> None: ...


async def test_a_transaction_has_the_records_that_were_accepted_and_is_a_commit_of_offsets() -> None:
    clock, producer = ManualClock(), Producer()
    meter = SourceTaskMeter(clock)
    transactions: TaskTransactions[str] = TaskTransactions(
        producer,  # type: ignore[arg-type]
        Offsets(),  # type: ignore[arg-type]
        clock,
        connector="c",
        source_of=lambda source: {"topic": source},
        most_ms=0,
        meter=meter,
    )
    for sizes in ((5, 2), (1,)):
        await transactions.begin()
        for size in sizes:
            transactions.accepted("t", size, size)
        await transactions.commit()
    found = dict(meter.read())
    assert (found["transaction-size-avg"], found["transaction-size-max"], found["transaction-size-min"]) == (4, 7, 1)
    assert dict(meter.read_task())["offset-commit-success-percentage"] == 1
    producer.error = KmirrorError("fenced")
    await transactions.begin()
    with pytest.raises(KmirrorError):
        await transactions.commit()
    assert dict(meter.read_task())["offset-commit-failure-percentage"] == pytest.approx(1 / 3)
    assert dict(meter.read())["transaction-size-min"] == 1, "what was not committed is no transaction"


def test_ratios_are_fractions_of_the_time_since_the_task_was_given() -> None:
    clock = ManualClock()
    status = Status("t", clock)
    assert math.isnan(status.times.ratio(State.RUNNING))
    clock.now_ms += 100
    status.heard()
    clock.now_ms += 600
    status.change(State.FAILED, "why")
    clock.now_ms += 100
    status.heard()
    clock.now_ms += 200
    assert status.times.ratio(State.RUNNING) == 0.8
    assert status.times.ratio(State.PAUSED) == 0
    clock.now_ms += 1_000
    assert status.times.ratio(State.RUNNING) == 0.9


async def test_a_task_that_is_paused_is_the_same_task() -> None:
    """Its time in the state before was forgotten, so that it had been paused all its life."""
    runtime, state, task = AsyncioRuntime(), ClusterConfigState(), ConnectorTaskId("c", 0)

    async def live(status: Status) -> None:
        status.heard()
        await asyncio.Event().wait()

    work = AssignedWork(runtime, "w", lambda _, status: live(status), lambda _, __, status: live(status), WorkerStartups(runtime.clock))
    for key, value in (connector_record("c", {}), *task_records("c", [{}])):
        state.handle_record(key, value)
    await work.run(Assignment("w", "", 1, ["c"], [task]), state)
    times = work.statuses[task].times
    while times.ratio(State.RUNNING) <= 0 or math.isnan(times.ratio(State.RUNNING)):
        await runtime.sleep_ms(1)
    state.handle_record(*target_state_record("c", TargetState.PAUSED))
    await work.run_on(state)
    paused = work.statuses[task].times
    while not paused.ratio(State.PAUSED) > 0:
        await runtime.sleep_ms(1)
    assert paused.ratio(State.RUNNING) > 0
    await work.restart([task])
    assert work.statuses[task].times is not paused, "one that was restarted is another"
    await work.stop_all()


def test_a_start_has_succeeded_when_the_task_runs_and_failed_when_it_ends_before() -> None:
    clock = ManualClock()
    startups = WorkerStartups(clock)
    assert math.isnan(dict(startups.read())["task-startup-failure-percentage"])
    status, connector = Status("t", clock, startups=startups.tasks), Status("c", clock, startups=startups.connectors)
    status.change(State.FAILED, "no target")
    status.change(State.FAILED, "no target")
    status.heard()
    status.change(State.FAILED, "the target refuses a record")
    status.heard()
    status.heard()
    connector.rest(State.PAUSED)
    found = dict(startups.read())
    assert [found[f"task-startup-{what}-total"] for what in ("attempts", "success", "failure")] == [4, 2, 2]
    assert (found["task-startup-success-percentage"], found["task-startup-failure-percentage"]) == (0.5, 0.5)
    assert found["connector-startup-attempts-total"] == 0, "one that is paused did not try"


def test_errors_of_two_flows_of_a_process_have_two_names() -> None:
    clock = ManualClock()
    registry = MetricsRegistry(clock)
    flows = [ErrorHandlingMetrics(registry, flow) for flow in ("A->B", "B->A")]
    with flows[0].of_task("MirrorSourceConnector", 0), flows[1].of_task("MirrorSourceConnector", 0):
        names: list[tuple[str, Value]] = [(str(name), metric.value()) for name, metric in registry]
    assert len(names) == len({name for name, _ in names}) > 0
