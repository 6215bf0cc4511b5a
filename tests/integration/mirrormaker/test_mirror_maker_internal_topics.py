"""MirrorMaker 2 while somebody deletes its own topics, makes them anew, or writes into them."""

from __future__ import annotations

import asyncio

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient
from support.mirrormaker.embedded_flows import clusters, config_of, set_topic_config, until, until_it_says
from support.mirrormaker.logs_compared import QUIET, is_dense, make_topics, produce, read, until_copied
from support.mirrormaker.mirror_makers import commit, committed, topics_of
from support.waiting import REACHED_S

from kmirror.mirrormaker import internal_topics

ONE_WAY = {"B->A.enabled": "false", "B->A.emit.heartbeats.enabled": "false"}
COMPACTED = {"cleanup.policy": "compact"}
GARBAGE = (
    (None, b"{}"), (b"", b""), (b"\xff", b"\x00"), (b"[" * 100_000, b"[" * 100_000), (b'["MirrorSourceConnector",{"topic":"\\ud800"}]', b'{"offset":7}'),
    ("task-MirrorSourceConnector-\u00b2".encode(), b'{"properties":{}}'), (b"connector-MirrorSourceConnector", b"[" * 100_000),
    (b"connector-none", b'{"properties":{}}'), (b"\x00\x05a", b"\x00"), (b"\x00\x01t\x00\x00\x00\x00", b"\x7f" * 16),
)  # fmt: skip
"""For topics of JSON, and for those of structs."""


def made_anew(servers: str, topic: str) -> None:
    """Deletes a topic and makes it again, without its records."""
    client = AdminClient({"bootstrap.servers": servers, **QUIET})
    client.delete_topics([topic])[topic].result(REACHED_S)
    make_topics(servers, {topic: 1}, COMPACTED)


async def test_a_topic_of_configs_that_was_made_anew_keeps_no_new_topic_from_being_copied() -> None:
    with clusters(ONE_WAY) as both:
        make_topics(both.a, {"t": 1})
        produce(both.a, "t", 20)
        async with both.mirrored() as maker:
            await until_copied(both.a, "t", both.b, "A.t")
            await asyncio.to_thread(made_anew, both.b, "mm2-configs.A.internal")
            make_topics(both.a, {"new": 1})
            produce(both.a, "new", 20)
            assert is_dense(await until_copied(both.a, "new", both.b, "A.new"))
            await until("no reason is left", lambda: not maker.reasons())


@pytest.mark.parametrize(("at", "topic"), [("a", "mm2-offset-syncs.B.internal"), ("b", "A.checkpoints.internal"), ("b", "heartbeats")])
async def test_a_topic_of_a_connector_that_is_deleted_is_made_anew(
    at: str, topic: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where brokers make no topics, offsets were not translated any more until the next start."""
    monkeypatch.setattr(internal_topics, "LOOK_AFTER_MS", 300)
    brokers = {"auto.create.topics.enable": "false"}
    with clusters({"B->A.enabled": "false"}, source=brokers, target=brokers) as both:
        make_topics(both.a, {"t": 1})
        produce(both.a, "t", 100)
        commit(both.a, "shop", {("t", 0): 50})
        async with both.mirrored() as maker:
            await until("shop is synced", lambda: committed(both.b, "shop", [("A.t", 0)]).get(("A.t", 0), -1) > 0)
            servers = {"a": both.a, "b": both.b}[at]
            client = AdminClient({"bootstrap.servers": servers, **QUIET})
            client.delete_topics([topic])[topic].result(REACHED_S)
            await until_it_says("it is told", lambda: f"Topic {topic} was gone" in caplog.text)
            assert config_of(servers, topic, "cleanup.policy") == "compact"
            produce(both.a, "t", 100, first=100)
            commit(both.a, "shop", {("t", 0): 180})
            await until("shop follows", lambda: 150 < committed(both.b, "shop", [("A.t", 0)]).get(("A.t", 0), -1) <= 180)
            await until("something is written there", lambda: any(read(servers, topic).values()))
            await until_it_says("no reason is left", lambda: not maker.reasons())


async def test_a_topic_of_a_connector_that_forgets_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with clusters({"B->A.enabled": "false"}) as both:
        make_topics(both.a, {"t": 1, "mm2-offset-syncs.B.internal": 1})
        make_topics(both.b, {"A.checkpoints.internal": 1}, COMPACTED)
        async with both.mirrored():
            said = "Topic mm2-offset-syncs.B.internal has cleanup.policy=delete, so offset syncs would be lost in time; set cleanup.policy=compact"
            await until_it_says("it is told", lambda: said in caplog.text)
            assert "Topic A.checkpoints.internal has" not in caplog.text


async def test_garbage_in_its_own_topics_is_ignored() -> None:
    with clusters(ONE_WAY) as both:
        make_topics(both.a, {"t": 1, "mm2-offset-syncs.B.internal": 1})
        made = ("mm2-configs.A.internal", "mm2-offsets.A.internal", "mm2-status.A.internal", "A.checkpoints.internal")
        make_topics(both.b, dict.fromkeys(made, 1), COMPACTED)
        for servers in (both.a, both.b):
            producer = ck.Producer({"bootstrap.servers": servers, **QUIET})
            for topic in topics_of(servers):
                for key, value in GARBAGE if topic != "t" else ():
                    producer.produce(topic, key=key, value=value, partition=0)
            assert producer.flush(REACHED_S) == 0
        produce(both.a, "t", 20)
        async with both.mirrored() as maker:
            assert is_dense(await until_copied(both.a, "t", both.b, "A.t"))
            await until("no reason is left", lambda: not maker.reasons())


@pytest.mark.parametrize("topic", ["mm2-offsets.A.internal", "mm2-configs.A.internal", "mm2-status.A.internal"])
async def test_a_topic_of_the_workers_that_forgets_is_refused_until_it_is_compacted(topic: str) -> None:
    with clusters(ONE_WAY) as both:
        make_topics(both.a, {"t": 1})
        make_topics(both.b, {topic: 1}, {"cleanup.policy": "delete,compact"})
        produce(both.a, "t", 20)
        async with both.mirrored() as maker:
            await until("it is told", lambda: any(f"Topic {topic} has cleanup.policy=" in reason for reason in maker.reasons()))
            assert "A.t" not in topics_of(both.b)
            set_topic_config(both.b, topic, "cleanup.policy", "compact")
            assert is_dense(await until_copied(both.a, "t", both.b, "A.t"))


async def test_a_topic_of_configs_with_several_partitions_is_refused() -> None:
    with clusters(ONE_WAY) as both:
        make_topics(both.b, {"mm2-configs.A.internal": 3}, COMPACTED)
        async with both.mirrored() as maker:
            await until("it is told", lambda: any("must have one partition, and has 3" in reason for reason in maker.reasons()))
