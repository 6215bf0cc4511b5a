"""Connect's metrics and warnings of a running worker say what it has done."""

from __future__ import annotations

import logging
import math
from typing import Any

import pytest
from support.mirrormaker.embedded_flows import clusters, set_topic_config, until, until_it_says
from support.mirrormaker.logs_compared import make_topics, produce
from support.mirrormaker.mirror_makers import count_of

from kmirror.common.metrics import MetricName
from kmirror.mirrormaker.driver import MirrorMaker

DROP_ALL = {
    "A->B.transforms": "drop",
    "A->B.transforms.drop.type": "org.apache.kafka.connect.transforms.Filter",
}
ONE_WAY = {"B->A.enabled": "false", "emit.heartbeats.enabled": "false", "emit.checkpoints.enabled": "false", "A->B.topics": "t"}


def values(maker: MirrorMaker, kind: str) -> dict[str, Any]:
    return {name.attribute: one.value() for name, one in maker.metrics if name.type == kind and ("flow", "A->B") in name.tags}


def task_of(maker: MirrorMaker) -> dict[str, Any]:
    """What any task measures, of the one that copies."""
    return {
        name.attribute: one.value()
        for name, one in maker.metrics
        if name.type == "connector-task-metrics" and ("connector", "MirrorSourceConnector") in name.tags
    }


def is_beat(name: MetricName) -> bool:
    return ("connector", "MirrorHeartbeatConnector") in name.tags


def clients_of(maker: MirrorMaker, kind: str) -> dict[str, Any]:
    """The metrics of the one client of this kind."""
    (client_id,) = {dict(name.tags)["client-id"] for name, _ in maker.metrics if name.type == kind}
    assert client_id
    return {name.attribute: one.value() for name, one in maker.metrics if name.type == kind}


async def test_a_task_counts_what_it_reads_and_writes_and_its_worker_the_rebalances() -> None:
    with clusters(ONE_WAY) as both:
        make_topics(both.a, {"t": 1})
        produce(both.a, "t", 50)
        async with both.mirrored() as maker:
            await until("it is copied", lambda: count_of(both.b, "A.t", 1) == 50)
            await until_it_says("all is acknowledged", lambda: values(maker, "source-task-metrics")["source-record-active-count"] == 0)
            task = values(maker, "source-task-metrics")
            assert (task["source-record-poll-total"], task["source-record-write-total"]) == (50, 50)
            assert task["source-record-poll-rate"] > 0 and not math.isnan(task["poll-batch-avg-time-ms"])
            producer, consumer = clients_of(maker, "producer-metrics"), clients_of(maker, "consumer-metrics")
            assert producer["record-send-total"] == 50 and producer["outgoing-byte-total"] > 0 and producer["connection-count"] >= 1
            assert producer["buffer-available-bytes"] == producer["buffer-total-bytes"] and consumer["response-total"] > 0
            assert 0 < producer["request-latency-avg"] <= producer["request-latency-max"] and producer["requests-in-flight"] == 0
            assert clients_of(maker, "producer-node-metrics")["request-latency-max"] == producer["request-latency-max"]
            assert producer["batch-size-max"] >= producer["batch-size-avg"] > 61 and producer["metadata-age"] >= 0
            assert consumer["time-between-poll-max"] > 0 and 0 < consumer["poll-idle-ratio-avg"] <= 1
            fetched = clients_of(maker, "consumer-fetch-manager-metrics")
            assert (fetched["records-consumed-total"], fetched["records-lag-max"]) == (50, 0)
            assert fetched["fetch-latency-max"] > 0 and fetched["fetch-total"] >= 1 and fetched["records-lead-min"] == 50
            await until_it_says("offsets are stored", lambda: task_of(maker)["offset-commit-success-percentage"] == 1)
            assert task_of(maker)["batch-size-max"] == 50 and task_of(maker)["offset-commit-failure-percentage"] == 0
            assert 0 < task_of(maker)["running-ratio"] <= 1 and task_of(maker)["pause-ratio"] == 0
            worker = values(maker, "connect-worker-metrics")
            assert worker["connector-startup-success-total"] >= 1 and worker["task-startup-success-percentage"] == 1
            rebalance = values(maker, "connect-worker-rebalance-metrics")
            assert rebalance["connect-protocol"] == "sessioned" and rebalance["epoch"] >= 1 and rebalance["rebalancing"] == 0
            assert rebalance["completed-rebalances-total"] >= 1 and rebalance["time-since-last-rebalance-ms"] < math.inf


async def test_a_failing_write_of_offsets_is_seen() -> None:
    """Nothing may be written to the topic of offsets, so nothing can be stored; copying goes on."""
    with clusters(ONE_WAY) as both:
        make_topics(both.a, {"t": 1})
        produce(both.a, "t", 20)
        async with both.mirrored() as maker:
            await until_it_says("offsets are stored", lambda: task_of(maker).get("offset-commit-success-percentage") == 1)
            set_topic_config(both.b, "mm2-offsets.A.internal", "max.message.bytes", "1")
            produce(both.a, "t", 20)
            await until_it_says("a commit has failed", lambda: 0 < task_of(maker)["offset-commit-failure-percentage"] < 1)
            found = task_of(maker)
            assert found["offset-commit-success-percentage"] + found["offset-commit-failure-percentage"] == pytest.approx(1)
            set_topic_config(both.b, "mm2-offsets.A.internal", "max.message.bytes", "1048588")


async def test_every_metric_of_all_tasks_of_two_flows_has_a_name_of_its_own() -> None:
    """Prometheus refuses a page with a series twice. Heartbeats and checkpoints are source tasks, too."""
    flows = {"groups": ".*", "emit.heartbeats.interval.seconds": "1"}
    with clusters(flows) as both:
        make_topics(both.a, {"t": 1})
        async with both.mirrored() as maker:

            def beats() -> float:
                found = [one.value() for name, one in maker.metrics if name.attribute == "source-record-write-total" and is_beat(name)]
                return min(found) if len(found) == 2 else 0

            await until_it_says("both flows have heartbeats", lambda: beats() >= 2)
            names = [str(name) for name, _ in maker.metrics]
            assert sorted(names) == sorted(set(names))
            kinds = {(name.type, dict(name.tags).get("connector")) for name, _ in maker.metrics}
            assert ("connector-task-metrics", "MirrorHeartbeatConnector") in kinds
            sizes = [one.value() for name, one in maker.metrics if name.attribute == "batch-size-max" and is_beat(name)]
            assert sizes == [1, 1], "each beat is a poll"


async def test_a_group_that_the_source_does_not_have_is_named(caplog: pytest.LogCaptureFixture) -> None:
    flow = {**ONE_WAY, "emit.checkpoints.enabled": "true", "A->B.groups": "nobody"}
    with clusters(flow) as both, caplog.at_level(logging.WARNING):
        async with both.mirrored():
            text = "No consumer group of A has the name, or matches the expression: nobody (groups)"
            await until_it_says("it is told", lambda: text in caplog.text)


async def test_what_a_filter_drops_is_read_and_on_no_way() -> None:
    with clusters({**ONE_WAY, **DROP_ALL}) as both:
        make_topics(both.a, {"t": 1})
        produce(both.a, "t", 30)
        async with both.mirrored() as maker:
            await until_it_says("it is read", lambda: values(maker, "source-task-metrics").get("source-record-poll-total") == 30)
            await until_it_says("it is dropped", lambda: values(maker, "source-task-metrics")["source-record-active-count"] == 0)
            assert values(maker, "source-task-metrics")["source-record-write-total"] == 0
