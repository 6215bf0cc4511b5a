"""Topics that tasks make with `topic.creation.*` before they write to them, at brokers that make none themselves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from support.mirrormaker.embedded_flows import config_of, until
from support.mirrormaker.logs_compared import QUIET, make_topics, produce, read, rows
from support.mirrormaker.source_tasks import BROKER, OFFSETS, SYNCS, Pair
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.common.errors import KmirrorError
from kmirror.mirrormaker.error_handling import ErrorCounts, ErrorSettings, RecordErrors
from kmirror.mirrormaker.missing_topics import MissingTopics, TopicCreationConfig
from kmirror.mirrormaker.topic_creation_groups import topic_creation_groups
from kmirror.mirrormaker.transforming import Transforming
from kmirror.mirrormaker.transforms import make_chain

DEFAULT = {"replication.factor": "1", "partitions": "2", "retention.ms": "777"}
ROUTED = {
    "transforms": "r",
    "transforms.r.type": "RegexRouter",
    "transforms.r.regex": r"A\.(.*)",
    "transforms.r.replacement": "from-a-$1",
}


@asynccontextmanager
async def strict_pair() -> AsyncIterator[Pair]:
    """A topic `t` of one partition at A; B makes no topics by itself, and has none but MirrorMaker's own."""
    with (
        EmbeddedCluster(config=BROKER) as a,
        EmbeddedCluster(config={**BROKER, "auto.create.topics.enable": "false"}) as b,
    ):
        make_topics(a.bootstrap_servers, {"t": 1, SYNCS: 1})
        make_topics(b.bootstrap_servers, {OFFSETS: 1})
        yield Pair(a.bootstrap_servers, b.bootstrap_servers)


def creation(clusters: Pair, default: dict[str, str] = DEFAULT, **others: str) -> TopicCreationConfig:
    props = {f"topic.creation.default.{name}": value for name, value in default.items()} | others
    groups = topic_creation_groups(props, is_enabled=True)
    assert groups is not None
    return TopicCreationConfig(groups, {"bootstrap.servers": clusters.b})


def routed(clusters: Pair, *, tolerates_all: bool = False) -> Transforming:
    errors = RecordErrors("c-0", ErrorSettings(tolerates_all), ErrorCounts(), clusters.runtime.clock)
    return Transforming(make_chain(ROUTED), errors)


def partitions(servers: str, topic: str) -> int:
    return len(AdminClient({"bootstrap.servers": servers, **QUIET}).list_topics(timeout=REACHED_S).topics[topic].partitions)


@pytest.mark.parametrize("transactional_id", [None, "A-mm2-c-0"])
@pytest.mark.parametrize("is_routed", [True, False])
async def test_a_topic_that_is_not_there_is_made_as_its_group_says(is_routed: bool, transactional_id: str | None) -> None:
    async with strict_pair() as clusters:
        produce(clusters.a, "t", 50)
        changes: dict[str, Any] = {"transforming": routed(clusters)} if is_routed else {}
        config = clusters.config({"t": 1}, topic_creation=creation(clusters), transactional_id=transactional_id, **changes)
        async with clusters.running(config) as (task, _):
            await until("everything is copied", lambda: task.progress.records == 50)
        name = "from-a-t" if is_routed else "A.t"
        assert (partitions(clusters.b, name), await asyncio.to_thread(config_of, clusters.b, name, "retention.ms")) == (2, "777")
        assert rows(read(clusters.b, name, isolation="read_committed")) == rows(read(clusters.a, "t"))
        assert task.progress.batches_passed_on == 0 if is_routed else task.progress.batches_passed_on > 0


@pytest.mark.parametrize("is_routed", [True, False])
async def test_a_topic_that_cannot_be_made_ends_the_task_whatever_is_tolerated(is_routed: bool, caplog: pytest.LogCaptureFixture) -> None:
    async with strict_pair() as clusters:
        produce(clusters.a, "t", 5)
        too_many = creation(clusters, {**DEFAULT, "replication.factor": "9"})
        transforming = routed(clusters, tolerates_all=True)
        if not is_routed:
            transforming = transforming._replace(chain=make_chain({}), only_tolerates=True)
        config = clusters.config({"t": 1}, topic_creation=too_many, transforming=transforming)
        async with clusters.running(config) as (_, running):
            with pytest.raises(KmirrorError, match=r"Unable to create topic\(s\) '(from-a-|A\.)t': INVALID_REPLICATION_FACTOR"):
                await asyncio.wait_for(asyncio.shield(running), REACHED_S)
        assert clusters.stored() == {}, "the record was not skipped"
        assert "refuses a batch" not in caplog.text


async def test_a_topic_that_is_there_is_left_as_it_is_and_asked_for_once() -> None:
    async with strict_pair() as clusters:
        make_topics(clusters.b, {"x": 1})
        missing = MissingTopics(clusters.runtime, "c", creation(clusters))
        try:
            assert missing.is_required("x")
            await missing.make("x")
            assert not missing.is_required("x") and missing.is_required("y")
        finally:
            missing.close()
        assert partitions(clusters.b, "x") == 1
        assert not MissingTopics(clusters.runtime, "c", None).is_required("x")
