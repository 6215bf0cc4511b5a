"""Metrics of tasks: under which names, from when, until when."""

from __future__ import annotations

import pytest
from support.logs.storage_doubles import ManualClock

from kmirror.common.metrics import MetricsRegistry
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.cycles import SourceAndTarget
from kmirror.mirrormaker.mirror_metrics import MirrorCheckpointMetrics, MirrorSourceMetrics, TaskOfMetrics

FLOW, PARTITION = SourceAndTarget("A", "B"), TopicPartition("A.t", 0)
OLD = "kafka.connect.mirror:type=MirrorSourceConnector,source=A,target=B,topic=A.t,partition=0"
NEW = "kafka.connect:type=plugins,connector=c,task=3,source=A,target=B,topic=A.t,partition=0"


def beans(registry: MetricsRegistry) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for name, metric in registry:
        found.setdefault(name.mbean, {})[name.attribute] = metric.value()
    return found


@pytest.mark.parametrize(("formats", "names"), [(("legacy",), {OLD}), (("new",), {NEW}), (("legacy", "new"), {OLD, NEW})])
def test_me6_a_partition_has_its_tasks_names_from_the_beginning_to_the_end(formats: tuple[str, ...], names: set[str]) -> None:
    clock = ManualClock()
    registry = MetricsRegistry(clock)
    metrics, task = MirrorSourceMetrics(registry, clock, FLOW), TaskOfMetrics("c", 3, formats)
    metrics.begin(task, [PARTITION])
    assert beans(registry).keys() == names
    assert all(bean["record-count"] == bean["record-age-ms"] == 0 for bean in beans(registry).values())
    metrics.batches_acknowledged(PARTITION, 7, [clock.time_ms()])
    assert all(bean["record-count"] == 7 for bean in beans(registry).values())
    again = TaskOfMetrics("c", 3, formats)
    metrics.begin(again, [PARTITION])
    metrics.end(task)
    assert all(bean["record-count"] == 0 for bean in beans(registry).values()), "the one that follows has begun"
    metrics.end(again)
    assert not beans(registry)


def test_me7_a_groups_begin_with_its_first_checkpoint() -> None:
    clock = ManualClock()
    registry = MetricsRegistry(clock)
    metrics, task = MirrorCheckpointMetrics(registry, clock, FLOW), TaskOfMetrics("c", 0, ("new",))
    metrics.begin(task, ["g"])
    assert not beans(registry)
    metrics.checkpoint_acknowledged("g", PARTITION, clock.time_ms())
    assert list(beans(registry)) == ["kafka.connect:type=plugins,connector=c,task=0,source=A,target=B,group=g,topic=A.t,partition=0"]
    metrics.end(task)
    assert not beans(registry)
