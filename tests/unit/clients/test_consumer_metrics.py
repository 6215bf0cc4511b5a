"""What a consumer measures of its polls and fetches, on the simulated clock."""

from __future__ import annotations

import math

import pytest
from support.clients.scripted_cluster import ScriptedCluster
from support.clients.scripted_reads import FETCH_WAIT_MS, ScriptedReads, consumer, read
from support.logs.storage_doubles import ManualClock

from kmirror.clients.consumer.consumer_metrics import ConsumerMetrics
from kmirror.clients.consumer.consumer_types import OffsetAndMetadata
from kmirror.common.topic_partition import TopicPartition
from kmirror.wire.api_keys import ApiKeys

A = TopicPartition("t", 0)


def test_fetches_have_latencies_and_sizes():
    cluster = ScriptedCluster()
    reads = ScriptedReads(cluster, t=1)
    reads.fill(A, 5)

    async def story():
        async with consumer(cluster, "classic") as reader:
            reader.assign([A])
            before = dict(reader.fetch_readings())
            arrived, go_on = reads.hold(ApiKeys.FETCH)
            reading = cluster.runtime.spawn(read(reader, 5), name="reading")
            await arrived
            await cluster.runtime.sleep_ms(400)
            go_on.set_result(None)
            await reading
            return before, dict(reader.fetch_readings()), {node: dict(found) for node, found in reader.node_readings()}

    before, after, nodes = cluster.run(story())
    assert before["fetch-total"] == 0 and math.isnan(before["fetch-latency-max"]) and math.isnan(before["records-lead-min"])
    assert after["fetch-total"] >= 1 and after["fetch-rate"] > 0
    assert 400 <= after["fetch-latency-max"] <= 400 + 10 * FETCH_WAIT_MS
    assert nodes == {0: {"request-latency-avg": after["fetch-latency-avg"], "request-latency-max": after["fetch-latency-max"]}}
    assert after["fetch-size-max"] > 61 and after["fetch-throttle-time-max"] == 0
    assert (after["records-lead-min"], after["records-lag-max"]) == (5, 0)
    cluster.close()


def test_a_poll_is_idle_while_it_waits_for_the_brokers():
    clock = ManualClock()
    metrics = ConsumerMetrics(clock)
    assert dict(metrics.readings())["last-poll-seconds-ago"] == -1
    for polls_ms, works_ms in ((100, 300), (100, 300), (100, 0)):
        with metrics.polling():
            clock.now_ms += polls_ms
        clock.now_ms += works_ms
    found = dict(metrics.readings())
    assert (found["time-between-poll-avg"], found["time-between-poll-max"]) == (400, 400)
    assert found["poll-idle-ratio-avg"] == pytest.approx((1 + 0.25 + 0.25) / 3), "of the first poll nothing came before"
    clock.now_ms += 7_000
    assert dict(metrics.readings())["last-poll-seconds-ago"] == 7


def test_a_consumer_that_is_always_polled_is_idle_all_the_time():
    clock = ManualClock()
    metrics = ConsumerMetrics(clock)
    for _ in range(3):
        with metrics.polling():
            clock.now_ms += 50
    assert dict(metrics.readings())["poll-idle-ratio-avg"] == 1


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_commits_take_time(protocol):
    cluster = ScriptedCluster()
    reads = ScriptedReads(cluster, t=1)
    reads.fill(A, 1)
    reads.assigned = [A]

    async def story():
        async with consumer(cluster, protocol) as reader:
            reader.subscribe(["t"])
            await read(reader, 1)
            before = dict(reader.readings())
            await reader.commit({A: OffsetAndMetadata(1)})
            await reader.committed([A])
            return before, dict(reader.readings())

    before, after = cluster.run(story())
    for name in ("commit-sync-time-ns-total", "committed-time-ns-total"):
        assert before[name] == 0 < after[name]
    assert after["last-poll-seconds-ago"] == 0
    cluster.close()
