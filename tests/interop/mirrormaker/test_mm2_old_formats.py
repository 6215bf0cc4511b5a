"""MirrorMaker 2 from an Apache broker whose topics have messages of the formats 0 and 1, which cannot be
passed on as batches, and batches of format 2 behind them. A group of that broker is checkpointed.
"""

from __future__ import annotations

import asyncio
import pathlib

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType
from support.mirrormaker.embedded_flows import BROKER, Clusters, until, until_it_says
from support.mirrormaker.logs_compared import QUIET, Row, is_dense, read, until_copied
from support.mirrormaker.mirror_makers import commit, count_of, last_checkpoints, topics_of
from support.peers.peer_clusters import kafka_cluster
from support.waiting import PROGRAM_S, REACHED_S

from kmirror import EmbeddedCluster

pytestmark = [pytest.mark.interop, pytest.mark.timeout(2 * PROGRAM_S)]
ONE_NODE = {"offsets.topic.replication.factor": "1", "transaction.state.log.replication.factor": "1", "default.replication.factor": "1"}
FORMATS = {"zero": "0.9.0", "one": "0.10.2"}
CODECS = ("none", "gzip", "snappy", "lz4")


def produce(servers: str, topic: str, first: int) -> None:
    """Forty records of each codec, by a client of that time for whom the broker converts nothing back."""
    for codec in CODECS:
        producer = ck.Producer({"bootstrap.servers": servers, "compression.type": codec, "linger.ms": 20, **QUIET})
        for number in range(first, first + 40):
            producer.produce(topic, key=b"k%d" % number, value=b"%s %d" % (codec.encode(), number), partition=0)
        assert producer.flush(REACHED_S) == 0


def set_format(servers: str, topic: str, version: str) -> None:
    change = ConfigEntry("message.format.version", version, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    client = AdminClient({"bootstrap.servers": servers, **QUIET})
    for future in client.incremental_alter_configs([resource]).values():
        future.result(REACHED_S)


def without_times(read_records: dict[int, list[tuple[int, Row]]]) -> list[tuple[bytes | None, bytes | None]]:
    return [(row.key, row.value) for _, row in read_records[0]]


async def test_messages_of_old_formats_are_copied_and_batches_behind_them(tmp_path: pathlib.Path) -> None:
    with kafka_cluster(tmp_path / "source", "2.8.2", nodes=1, properties=ONE_NODE) as source, EmbeddedCluster(config=BROKER) as target:
        client = AdminClient({"bootstrap.servers": source.bootstrap_servers, **QUIET})
        topics = [NewTopic(name, 1, 1, config={"message.format.version": version}) for name, version in FORMATS.items()]
        for future in client.create_topics(topics).values():
            future.result(REACHED_S)
        for name in FORMATS:
            produce(source.bootstrap_servers, name, 0)
            set_format(source.bootstrap_servers, name, "2.8")
            produce(source.bootstrap_servers, name, 40)
        commit(source.bootstrap_servers, "g", {("one", 0): 320})
        both = Clusters(source, target, {"B->A.enabled": "false", "B->A.emit.heartbeats.enabled": "false"})  # type: ignore[arg-type]
        async with both.mirrored() as maker:
            for name in FORMATS:
                await until(f"A.{name} is there", lambda name=name: f"A.{name}" in topics_of(both.b))
            assert is_dense(await until_copied(both.a, "one", both.b, "A.one"))
            await until("all is copied", lambda: count_of(both.b, "A.zero", 1) == 320)
            copied, wanted = [await asyncio.to_thread(read, *place) for place in ((both.b, "A.zero"), (both.a, "zero"))]
            assert without_times(copied) == without_times(wanted), "format 0 has no times"
            await until("the group is checkpointed", lambda: ("g", "A.one-0") in last_checkpoints(both.b, "A.checkpoints.internal"))
            await until_it_says("no reason is left", lambda: not maker.reasons())
