"""What a source task and the rebalances of its worker measure, under the names of Connect's MBeans."""

from __future__ import annotations

import math

import pytest
from support.logs.storage_doubles import ManualClock

from kmirror.common.metrics import MetricsRegistry, Value
from kmirror.mirrormaker.herder.rebalance_metrics import Rebalances, register_rebalance_metrics
from kmirror.mirrormaker.source_task_metrics import SourceTaskMetrics


def values(registry: MetricsRegistry, kind: str) -> dict[str, Value]:
    return {name.attribute: metric.value() for name, metric in registry if name.type == kind}


def test_records_on_their_way_are_those_read_and_not_written() -> None:
    clock = ManualClock()
    registry = MetricsRegistry(clock)
    metrics = SourceTaskMetrics(registry, clock, "A->B")
    with metrics.of_task("c", 3) as meter:
        meter.polled(10)
        meter.poll_took(4)
        meter.poll_took(8)
        meter.written(6)
        meter.dropped(1)
        found = values(registry, "source-task-metrics")
        assert (found["source-record-poll-total"], found["source-record-write-total"]) == (10, 6)
        assert (found["source-record-active-count"], found["source-record-active-count-max"]) == (3, 10)
        assert (found["poll-batch-avg-time-ms"], found["poll-batch-max-time-ms"]) == (6, 8)
        assert found["source-record-poll-rate"] == 10 / 30
        (tags,) = {name.tags for name, _ in registry}
        assert tags == (("flow", "A->B"), ("connector", "c"), ("task", "3"))
    assert not list(registry), "what a task has measured is gone with it"


def test_a_rebalance_lasts_until_the_work_is_taken_over() -> None:
    clock = ManualClock()
    registry = MetricsRegistry(clock)
    rebalances = Rebalances(clock, "sessioned")
    register_rebalance_metrics(registry, lambda: rebalances)
    found = values(registry, "connect-worker-rebalance-metrics")
    assert (found["connect-protocol"], found["leader-name"], found["epoch"], found["rebalancing"]) == ("sessioned", "", -1, 0)
    assert found["time-since-last-rebalance-ms"] == math.inf
    for took_ms in (20, 40):
        with rebalances.assigned("compatible", "http://w:1/", 7):
            clock.now_ms += took_ms
            assert values(registry, "connect-worker-rebalance-metrics")["rebalancing"] == 1
    clock.now_ms += 100
    found = values(registry, "connect-worker-rebalance-metrics")
    assert (found["connect-protocol"], found["leader-name"], found["epoch"]) == ("compatible", "http://w:1/", 7)
    assert (found["completed-rebalances-total"], found["rebalance-avg-time-ms"], found["rebalance-max-time-ms"]) == (2, 30, 40)
    assert found["time-since-last-rebalance-ms"] == 100


def test_a_rebalance_that_fails_is_not_completed() -> None:
    clock = ManualClock()
    rebalances = Rebalances(clock, "eager")
    with pytest.raises(OSError), rebalances.assigned("eager", "", 1):
        raise OSError
    assert (dict(rebalances.read())["completed-rebalances-total"], dict(rebalances.read())["rebalancing"]) == (0, 0)
