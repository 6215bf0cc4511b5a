"""What our producer writes to Apache's brokers (4.3, 3.9, 2.8), read by Apache's console consumer
and by librdkafka.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from support.clients.produced_story import Row, write_story, write_transactions
from support.peers.peer_clusters import PeerCluster, kafka_cluster
from support.peers.peers import java_tool
from support.waiting import REACHED_S

from kmirror.record.compression import CompressionType
from kmirror.runtime.api import Runtime
from kmirror.runtime.asyncio_runtime import run

pytestmark = pytest.mark.interop

ONE_REPLICA = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "default.replication.factor": "1",
}


@pytest.fixture(scope="module", params=["4.3.0", pytest.param("3.9.1", marks=pytest.mark.round), "2.8.2"])
def peers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PeerCluster]:
    folder: pathlib.Path = tmp_path_factory.mktemp("apache")
    with kafka_cluster(folder, request.param, nodes=1, properties=ONE_REPLICA) as cluster:
        yield cluster


def create(peers: PeerCluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": peers.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 1, 1, config={"retention.ms": "-1"})])[topic].result(REACHED_S)


def read(peers: PeerCluster, topic: str) -> list[Row]:
    consumer = ck.Consumer({"bootstrap.servers": peers.bootstrap_servers, "group.id": "g", "enable.partition.eof": True})
    consumer.assign([ck.TopicPartition(topic, 0, ck.OFFSET_BEGINNING)])
    rows: list[Row] = []
    while (message := consumer.poll(REACHED_S)) is not None and message.error() is None:
        rows.append((message.timestamp()[1], message.key(), message.value(), tuple(message.headers() or ())))
    consumer.close()
    assert message is not None and message.error().code() == ck.KafkaError._PARTITION_EOF, message and message.error()
    return rows


def console_consumer(peers: PeerCluster, topic: str, count: int, *options: str) -> list[str]:
    """What Apache's tool of 4.3 prints; it ends after `count` records."""
    done = java_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", peers.bootstrap_servers, "--topic", topic, "--from-beginning", "--max-messages", str(count)),
        *("--timeout-ms", "60000", *options),
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("codec", list(CompressionType), ids=lambda codec: codec.text)
def test_apache_has_what_was_sent(peers: PeerCluster, codec: CompressionType) -> None:
    topic = f"codec-{codec.text}"
    create(peers, topic)

    async def main(runtime: Runtime) -> list[Row]:
        return await write_story(runtime, peers.bootstrap_servers, topic, codec)

    rows = run(main)
    assert read(peers, topic) == rows
    printed = console_consumer(peers, topic, len(rows))
    assert printed == ["null" if row[2] is None else row[2].decode() for row in rows]


def test_apaches_consumer_reads_only_what_was_committed(peers: PeerCluster) -> None:
    create(peers, "tx")

    async def main(runtime: Runtime) -> tuple[list[bytes], list[bytes]]:
        return await write_transactions(runtime, peers.bootstrap_servers, "tx")

    written, committed = run(main)
    assert console_consumer(peers, "tx", len(committed), "--isolation-level", "read_committed") == [one.decode() for one in committed]
    assert console_consumer(peers, "tx", len(written)) == [one.decode() for one in written]
