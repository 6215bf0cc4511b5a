"""A source topic that is made anew, or whose records are deleted before they are copied, is told with
numbers, and its users decide where the task goes on.
"""

from __future__ import annotations

import asyncio
import logging

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient
from support.mirrormaker.embedded_flows import Clusters, clusters, until, until_it_says
from support.mirrormaker.logs_compared import QUIET, make_topics, produce
from support.mirrormaker.mirror_makers import count_of
from support.waiting import REACHED_S

from kmirror.mirrormaker.driver import MirrorMaker

ONE_WAY = {
    "B->A.enabled": "false",
    "emit.heartbeats.enabled": "false",
    "emit.checkpoints.enabled": "false",
    "A.consumer.allow.auto.create.topics": "false",
    "A->B.topics": "t",
}
NO_AUTO = {"auto.create.topics.enable": "false"}
POLICY = "A->B.kmirror.recreated.topic.policy"


def make_anew(both: Clusters, count: int) -> None:
    admin = AdminClient({"bootstrap.servers": both.a, **QUIET})
    for future in admin.delete_topics(["t"]).values():
        future.result(REACHED_S)
    make_topics(both.a, {"t": 1})
    produce(both.a, "t", count, first=1_000)


def delete_before(both: Clusters, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": both.a, **QUIET})
    for future in admin.delete_records([ck.TopicPartition("t", 0, offset)]).values():
        future.result(REACHED_S)


def lost(maker: MirrorMaker, attribute: str = "records-lost") -> int:
    found = [one.value() for name, one in maker.metrics if name.attribute == attribute and ("topic", "A.t") in name.tags]
    return int(found[0]) if found else 0


def stopped(maker: MirrorMaker, topic: str) -> float:
    (value,) = {one.value() for name, one in maker.metrics if name.attribute == "copying-stopped" and ("topic", topic) in name.tags}
    return float(value)


async def begun(both: Clusters, maker: MirrorMaker, count: int = 50) -> None:
    await until("the first topic is copied", lambda: count_of(both.b, "A.t", 1) == count)
    await until_it_says("it is well", lambda: not maker.reasons())


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize("policy", ["offset", "beginning"])
async def test_a_topic_made_anew_is_told_with_what_is_lost(running: bool, policy: str, caplog: pytest.LogCaptureFixture) -> None:
    with clusters({**ONE_WAY, POLICY: policy}, source=NO_AUTO) as both, caplog.at_level(logging.WARNING):
        make_topics(both.a, {"t": 1})
        produce(both.a, "t", 50)
        async with both.mirrored() as maker:
            await begun(both, maker)
            if running:
                await asyncio.to_thread(make_anew, both, 80)
                await until_it_says("it is told", lambda: "t-0 was made anew at A" in caplog.text)
                await checked(both, maker, policy, caplog)
        if running:
            return
        make_anew(both, 80)
        async with both.mirrored() as maker:
            await until_it_says("it is told", lambda: "t-0 was made anew at A" in caplog.text)
            await checked(both, maker, policy, caplog)


async def checked(both: Clusters, maker: MirrorMaker, policy: str, caplog: pytest.LogCaptureFixture) -> None:
    if policy == "beginning":
        await until("all of it is copied", lambda: count_of(both.b, "A.t", 1) == 130)
        assert lost(maker) == 0 and "records lost" not in caplog.text
    else:
        await until("the rest of it is copied", lambda: count_of(both.b, "A.t", 1) == 80)
        assert "its 50 records from offset 0 to 49 are not copied" in caplog.text
        assert (lost(maker), lost(maker, "records-lost-recreated")) == (50, 50)
        assert any("its 50 records" in warning for warning in maker.health().warnings) and not maker.reasons()


async def test_a_topic_made_anew_with_as_many_records_answers_nothing_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with clusters(ONE_WAY, source=NO_AUTO) as both, caplog.at_level(logging.WARNING):
        make_topics(both.a, {"t": 1})
        produce(both.a, "t", 50)
        async with both.mirrored() as maker:
            await begun(both, maker)
            await asyncio.to_thread(make_anew, both, 50)
            await until_it_says("it is told", lambda: lost(maker) == 50)


@pytest.mark.parametrize("again", [80, 50])
async def test_with_stop_the_other_partitions_of_the_task_stood_still_too(again: int) -> None:
    """Also after a restart of the worker. With as many records as before, the new topic answers
    nothing.
    """
    with clusters({**ONE_WAY, "A->B.topics": "t,u", POLICY: "stop"}, source=NO_AUTO) as both:
        make_topics(both.a, {"t": 1, "u": 1})
        produce(both.a, "t", 50)
        produce(both.a, "u", 10)
        async with both.mirrored() as maker:
            await begun(both, maker)
            await until("the other topic is copied", lambda: count_of(both.b, "A.u", 1) == 10)
            await asyncio.to_thread(make_anew, both, again)
            await only_t_is_stopped(both, maker, 20)
        async with both.mirrored() as maker:
            await only_t_is_stopped(both, maker, 30)


async def only_t_is_stopped(both: Clusters, maker: MirrorMaker, others: int) -> None:
    await until_it_says("it is told", lambda: any("policy=stop" in reason for reason in maker.reasons()))
    await asyncio.to_thread(produce, both.a, "u", 10, first=others - 10)
    await until("the other topic is copied on", lambda: count_of(both.b, "A.u", 1) == others)
    assert await asyncio.to_thread(count_of, both.b, "A.t", 1) == 50
    (reason,) = maker.reasons()
    assert "RUNNING" in reason and "t-0 was made anew at A" in reason and "u-0" not in reason
    assert (stopped(maker, "A.t"), stopped(maker, "A.u")) == (1, 0)


async def test_records_that_are_deleted_before_a_stopped_task_copies_them_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    with clusters(ONE_WAY) as both, caplog.at_level(logging.WARNING):
        make_topics(both.a, {"t": 1})
        produce(both.a, "t", 50)
        async with both.mirrored() as maker:
            await begun(both, maker)
        produce(both.a, "t", 40, first=50)
        delete_before(both, 70)
        async with both.mirrored() as maker:
            await until("the rest is copied", lambda: count_of(both.b, "A.t", 1) == 70)
            assert "records lost: 20 of t-0 at A, offsets 50 to 69" in caplog.text
            assert (lost(maker, "records-lost-retention"), lost(maker, "records-lost-from"), lost(maker, "records-lost-to")) == (20, 50, 70)


async def test_where_a_partition_is_read_first_is_asked_once() -> None:
    """With auto.offset.reset=latest: a task that ended before it copied anything began again at the end of then."""
    with clusters({**ONE_WAY, "A.consumer.auto.offset.reset": "latest"}) as both:
        make_topics(both.a, {"t": 1})
        produce(both.a, "t", 50)
        async with both.mirrored() as maker:
            await until_it_says("it is well", lambda: len(maker.statuses()) >= 3 and not maker.reasons())
            await asyncio.sleep(3)
        produce(both.a, "t", 30, first=50)
        async with both.mirrored():
            await until("what came meanwhile is copied", lambda: count_of(both.b, "A.t", 1) == 30)
