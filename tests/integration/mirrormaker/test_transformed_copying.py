"""A source task with transformations: what is kept arrives in order and nothing else does, offsets go on
behind what was dropped, and errors.tolerance=all skips what cannot be made or written.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import confluent_kafka as ck
import pytest
from support.mirrormaker.embedded_flows import clusters, set_topic_config
from support.mirrormaker.logs_compared import EPOCH_MS, QUIET, Row, make_topics, produce, read, rows
from support.mirrormaker.source_tasks import CONNECTOR, Pair, pair
from support.waiting import REACHED_S

from kmirror.common.errors import KmirrorError
from kmirror.common.metrics import MetricsRegistry
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker import source_task
from kmirror.mirrormaker.connect_offsets import offset_key, record_source
from kmirror.mirrormaker.error_handling import ErrorCounts, ErrorHandlingMetrics, ErrorSettings, RecordErrors
from kmirror.mirrormaker.source_task_config import SourceTaskConfig
from kmirror.mirrormaker.transforming import Transforming
from kmirror.mirrormaker.transforms import make_chain
from kmirror.runtime.asyncio_runtime import AsyncioRuntime

WITHOUT_TOMBSTONES = {
    "transforms": "drop",
    "transforms.drop.type": "Filter",
    "transforms.drop.predicate": "dead",
    "predicates": "dead",
    "predicates.dead.type": "RecordIsTombstone",
}
BYTES_AS_STRUCT = {"transforms": "s", "transforms.s.type": "org.apache.kafka.connect.transforms.ReplaceField$Value"}
"""Fails for every record but tombstones, as in Connect."""
STRICT = ErrorSettings()
P0 = TopicPartition("t", 0)


def transformed(
    clusters: Pair, props: dict[str, str], settings: ErrorSettings = STRICT, *, partitions: int = 1, **changes: Any
) -> tuple[SourceTaskConfig, ErrorCounts]:
    counts = ErrorCounts()
    errors = RecordErrors(f"{CONNECTOR}-0", settings, counts, clusters.runtime.clock)
    return clusters.config({"t": partitions}, transforming=Transforming(make_chain(props), errors), **changes), counts


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(REACHED_S):
        while not await asyncio.to_thread(condition):
            await asyncio.sleep(0.05)


def plain(records: list[tuple[int, Row]]) -> list[Row]:
    return [row for _, row in records]


def kept(servers: str, partitions: int = 1) -> dict[int, list[tuple[int, Row]]]:
    """The source's records that are no tombstones."""
    return {number: [one for one in found if one[1].value is not None] for number, found in read(servers, "t", partitions).items()}


@pytest.mark.parametrize("transactional_id", [None, "A-mm2-c-0"])
async def test_a_filter_keeps_the_order_and_offsets_go_on_behind_it(transactional_id: str | None) -> None:
    async with pair({"t": 2}) as clusters:
        config, _ = transformed(clusters, WITHOUT_TOMBSTONES, partitions=2, transactional_id=transactional_id, offset_lag_max=0)
        for first in (0, 200):  # the second life goes on where the first ended
            produce(clusters.a, "t", 200, partitions=2, first=first, codec="lz4")
            dead = ck.Producer({"bootstrap.servers": clusters.a, **QUIET})
            for number in range(10):
                dead.produce("t", key=b"dead", partition=number % 2, timestamp=EPOCH_MS)
            assert dead.flush(REACHED_S) == 0
            end = (first + 200) // 2 + 5 * (first // 200 + 1)
            keys = [offset_key(CONNECTOR, record_source("A", TopicPartition("t", number))) for number in range(2)]
            async with clusters.running(config) as (task, _):
                await until(lambda end=end, keys=keys: [clusters.stored().get(key) for key in keys] == [end - 1, end - 1])
            assert task.progress.records_dropped > 10
        wanted, found = kept(clusters.a, 2), read(clusters.b, "A.t", 2, isolation="read_committed")
        assert rows(found) == rows(wanted)
        pairs = {
            (number, source[0], target[0]) for number in range(2) for source, target in zip(wanted[number], found[number], strict=True)
        }
        syncs = {(one.topic_partition.partition, one.upstream_offset, one.downstream_offset) for one in clusters.syncs()}
        assert syncs and syncs <= pairs, "an offset sync of a record that was not copied"


@pytest.mark.parametrize("transactional_id", [None, "A-mm2-c-0"])
async def test_offsets_are_stored_where_everything_is_dropped(transactional_id: str | None) -> None:
    async with pair({"t": 1}) as clusters:
        produce(clusters.a, "t", 30)
        config, _ = transformed(clusters, {"transforms": "f", "transforms.f.type": "Filter"}, transactional_id=transactional_id)
        key = offset_key(CONNECTOR, record_source("A", P0))
        async with clusters.running(config):
            await until(lambda: clusters.stored().get(key) == 29)
        assert (read(clusters.b, "A.t")[0], clusters.syncs()) == ([], [])
        async with clusters.running(config) as (task, _):
            produce(clusters.a, "t", 5, first=30)
            await until(lambda: clusters.stored().get(key) == 34)
        assert task.progress.records_dropped == 5, "it went on behind what was dropped"


async def test_a_router_and_a_regular_expression_send_records_to_other_topics() -> None:
    props = {
        "transforms": "route,late",
        "transforms.route.type": "RegexRouter",
        "transforms.route.regex": r"A\.(.*)",
        "transforms.route.replacement": "from-a-$1",
        "transforms.late.type": "TimestampRouter",
        "transforms.late.topic.format": "${topic}-null",
        "transforms.late.predicate": "dead",
        "predicates": "dead",
        "predicates.dead.type": "RecordIsTombstone",
    }
    async with pair({"t": 1}) as clusters:
        produce(clusters.a, "t", 100)
        make_topics(clusters.b, {"from-a-t": 1})
        written: list[str] = []
        config, _ = transformed(clusters, props)
        async with clusters.running(config, written.append) as (task, _):
            await until(lambda: task.progress.records == 100)
        wanted = plain(read(clusters.a, "t")[0])
        assert plain(read(clusters.b, "from-a-t")[0]) == [row for row in wanted if row.value is not None]
        assert plain(read(clusters.b, "from-a-t-null")[0]) == [row for row in wanted if row.value is None], "made by the broker"
        assert (read(clusters.b, "A.t")[0], sorted(written)) == ([], ["A.t", "from-a-t", "from-a-t-null"])
        assert clusters.stored()[offset_key(CONNECTOR, record_source("A", P0))] == 99


async def test_a_record_that_fails_ends_the_task_and_what_came_before_is_stored() -> None:
    async with pair({"t": 1}) as clusters:
        producer = ck.Producer({"bootstrap.servers": clusters.a, **QUIET})
        for value in (None, None, b"v", None):
            producer.produce("t", value, key=b"k", partition=0)
        assert producer.flush(REACHED_S) == 0
        config, counts = transformed(clusters, BYTES_AS_STRUCT, ErrorSettings(log=True))
        async with clusters.running(config) as (_, running):
            with pytest.raises(KmirrorError, match=r"Tolerance exceeded.*DataException: Only Struct objects .* found: \[B"):
                await asyncio.wait_for(asyncio.shield(running), REACHED_S)
        assert (counts.failures, counts.errors, counts.skipped, counts.logged) == (1, 1, 0, 1)
        assert len(read(clusters.b, "A.t")[0]) == 2
        assert clusters.stored()[offset_key(CONNECTOR, record_source("A", P0))] == 1


@pytest.mark.parametrize("transactional_id", [None, "A-mm2-c-0"])
async def test_with_tolerance_a_record_that_fails_is_skipped_and_told(
    transactional_id: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    async with pair({"t": 1}) as clusters:
        produce(clusters.a, "t", 50)
        settings = ErrorSettings(tolerates_all=True, log=True, log_messages=True)
        config, counts = transformed(clusters, BYTES_AS_STRUCT, settings, transactional_id=transactional_id)
        with caplog.at_level(logging.ERROR):
            async with clusters.running(config):
                await until(lambda: clusters.stored().get(offset_key(CONNECTOR, record_source("A", P0))) == 49)
        dead = [row for row in plain(read(clusters.a, "t")[0]) if row.value is None]
        assert plain(read(clusters.b, "A.t", isolation="read_committed")[0]) == dead
        assert (counts.failures, counts.errors, counts.skipped, counts.logged) == (50 - len(dead),) * 4
        assert counts.last_error_ms > EPOCH_MS
        line = next(one.getMessage() for one in caplog.records if "Error encountered" in one.getMessage())
        assert line.startswith(
            "Error encountered in task MirrorSourceConnector-0. Executing stage 'TRANSFORMATION' with class "
            "'org.apache.kafka.connect.transforms.ReplaceField$Value', where source record is = SourceRecord{sourcePartition={cluster=A, "
            "partition=0, topic=t}, sourceOffset={offset=0}} ConnectRecord{topic='A.t', kafkaPartition=0, key=null"
        ), line


@pytest.mark.parametrize("at", ["client", "broker"])
async def test_with_tolerance_a_record_that_is_too_large_is_skipped(at: str) -> None:
    async with pair({"t": 1}) as clusters:
        producer = ck.Producer({"bootstrap.servers": clusters.a, "linger.ms": 500, **QUIET})
        values = [b"%d" % number + b"x" * (5_000 if number % 10 == 4 else 10) for number in range(40)]
        for value in values:
            producer.produce("t", value, partition=0, timestamp=EPOCH_MS)
        assert producer.flush(REACHED_S) == 0
        if at == "broker":
            make_topics(clusters.b, {"small": 1}, {"max.message.bytes": "2000"})
        props = {"transforms": "r", "transforms.r.type": "RegexRouter", "transforms.r.regex": ".*", "transforms.r.replacement": "small"}
        limits = {"max.request.size": "3000"} if at == "client" else {"batch.size": "100000"}
        config, counts = transformed(clusters, props, ErrorSettings(tolerates_all=True), producer=limits)
        async with clusters.running(config):
            await until(lambda: clusters.stored().get(offset_key(CONNECTOR, record_source("A", P0))) == 39)
        assert [row.value for row in plain(read(clusters.b, "small")[0])] == [value for value in values if len(value) < 5_000]
        assert (counts.failures, counts.errors, counts.skipped) == (4, 0, 0)


def tolerant(clusters: Pair, **changes: Any) -> tuple[SourceTaskConfig, ErrorCounts]:
    """A task with errors.tolerance=all, and nothing else to be done to records."""
    config, counts = transformed(clusters, {}, ErrorSettings(tolerates_all=True, log=True), **changes)
    assert config.transforming is not None
    return replace(config, transforming=config.transforming._replace(only_tolerates=True)), counts


@pytest.mark.parametrize("transactional_id", [None, "A-mm2-c-0"])
async def test_with_tolerance_alone_batches_go_on_whole_while_nothing_fails(transactional_id: str | None) -> None:
    async with pair({"t": 1}) as clusters:
        produce(clusters.a, "t", 100)
        config, counts = tolerant(clusters, transactional_id=transactional_id)
        async with clusters.running(config) as (task, _):
            await until(lambda: task.progress.records == 100)
        assert (task.progress.batches_rewritten, counts.failures) == (0, 0)
        assert rows(read(clusters.b, "A.t", isolation="read_committed")) == rows(read(clusters.a, "t"))


@pytest.mark.parametrize("at", ["client", "broker", "compacted"])
async def test_with_tolerance_alone_a_batch_that_is_refused_is_taken_apart(
    at: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the bad records are missing, all others are there in their order, and batches go on whole again. If
    the producer has split the batch for the broker, its records come twice, once in the life of a task.
    """
    monkeypatch.setattr(source_task, "CAREFUL_POLLS", 2)
    async with pair({"t": 1}) as clusters:
        producer = ck.Producer({"bootstrap.servers": clusters.a, "linger.ms": 500, **QUIET})
        values = [b"%d" % number + b"x" * (5_000 if number % 10 == 4 else 10) for number in range(40)]
        for value in values:
            key = None if at == "compacted" and len(value) > 5_000 else b"k" + value[:2]
            producer.produce("t", value, key=key, partition=0, timestamp=EPOCH_MS)
        assert producer.flush(REACHED_S) == 0
        rule = {"broker": ("max.message.bytes", "2000"), "compacted": ("cleanup.policy", "compact")}.get(at)
        if rule is not None:
            await asyncio.to_thread(set_topic_config, clusters.b, "A.t", *rule)
        limits = {"client": {"max.request.size": "3000"}, "broker": {}, "compacted": {"batch.size": "0"}}[at]
        config, counts = tolerant(clusters, producer=limits)
        with caplog.at_level(logging.WARNING):
            async with clusters.running(config) as (task, _):
                await until(lambda: clusters.stored().get(offset_key(CONNECTOR, record_source("A", P0))) == 39)
                whole = task.progress.batches_passed_on
                for number in range(3):
                    produce(clusters.a, "t", 1, first=1_000 + 10 * number, keyed=True)
                    await until(lambda number=number: task.progress.positions[P0] >= 41 + number)
        assert (task.progress.batches_passed_on > whole) is (at != "broker")
        assert (counts.failures, counts.errors, counts.skipped, counts.logged) == (4, 0, 0, 4)
        good = [row for row in plain(read(clusters.a, "t")[0]) if len(row.value or b"") < 5_000]
        assert plain(read(clusters.b, "A.t")[0]) == (good[:36] + good if at == "broker" else good)
        told = [one.getMessage() for one in caplog.records if "refuses a batch" in one.getMessage()]
        assert len(told) == 1, told


async def test_without_tolerance_a_record_that_is_too_large_ends_the_task() -> None:
    async with pair({"t": 1}) as clusters:
        produce(clusters.a, "t", 10)
        config, _ = transformed(clusters, WITHOUT_TOMBSTONES, producer={"max.request.size": "90"})
        async with clusters.running(config) as (_, running):
            with pytest.raises(KmirrorError, match="larger than 90"):
                await asyncio.wait_for(asyncio.shield(running), REACHED_S)


async def test_a_flow_takes_transformations_from_its_file_and_shows_its_errors() -> None:
    """All three connectors have what is said of the flow; heartbeats go to another topic here."""
    settings = {
        **{f"A->B.{name}": value for name, value in WITHOUT_TOMBSTONES.items()},
        "A->B.transforms": "drop,route",
        "A->B.transforms.route.type": "RegexRouter",
        "A->B.transforms.route.regex": "heartbeats|A[.]t",
        "A->B.transforms.route.replacement": "routed.$0",
        "B->A.enabled": "false",
        "B->A.emit.heartbeats.enabled": "false",
        "errors.tolerance": "all",
        "topics": "t",
    }
    with clusters(settings) as both:
        make_topics(both.a, {"t": 1})
        make_topics(both.b, {"routed.A.t": 1, "routed.heartbeats": 1})
        produce(both.a, "t", 60)
        async with both.mirrored() as maker:
            wanted = [row for row in plain(read(both.a, "t")[0]) if row.value is not None]
            await until(lambda: plain(read(both.b, "routed.A.t")[0]) == wanted and len(read(both.b, "routed.heartbeats")[0]) > 1)
            mbeans = maker.metrics.mbeans()
            assert (
                mbeans["kafka.connect:type=task-error-metrics,flow=A->B,connector=MirrorSourceConnector,task=0"]["total-records-skipped"]
                == 0
            )
        assert read(both.b, "heartbeats")[0] == []


async def test_counts_of_a_task_are_gone_with_it() -> None:

    registry = MetricsRegistry(AsyncioRuntime().clock)
    metrics = ErrorHandlingMetrics(registry)
    with metrics.of_task("c", 0) as counts:
        counts.skipped = 3
        with metrics.of_task("c", 0):  # the task begins again before the old life is over
            pass
        assert registry.mbeans() == {}
    with metrics.of_task("c", 1) as counts:
        counts.failures = 2
        (bean,) = registry.mbeans().items()
        assert bean[0] == "kafka.connect:type=task-error-metrics,connector=c,task=1"
        assert set(bean[1]) == {
            "total-record-failures", "total-record-errors", "total-records-skipped", "total-retries", "total-errors-logged",
            "deadletterqueue-produce-requests", "deadletterqueue-produce-failures", "last-error-timestamp",
        }  # fmt: skip
        assert bean[1]["total-record-failures"] == 2
