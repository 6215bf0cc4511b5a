"""`KafkaProducer` on embedded clusters: what it writes is what is read, while brokers die too."""

from __future__ import annotations

from collections.abc import Iterator

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient as LibrdkafkaAdmin
from confluent_kafka.admin import NewTopic
from support.clients.ended_transactions import wait_until_ended
from support.clients.produced_story import Row, write_story, write_transactions
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.clients.kafka_producer import KafkaProducer, ProducerRecord
from kmirror.common.errors import ApiException, Errors
from kmirror.embedded_security import Security
from kmirror.record.compression import CompressionType
from kmirror.runtime.api import Runtime
from kmirror.runtime.asyncio_runtime import run

CONFIG = {
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.num.partitions": "3",
    "broker.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "200",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3, config=CONFIG) as running:
        yield running


def create(cluster: EmbeddedCluster, topic: str, partitions: int = 1) -> None:
    admin = LibrdkafkaAdmin({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(topic, partitions, 3, config={"retention.ms": "-1"})])[topic].result(REACHED_S)


def read(cluster: EmbeddedCluster, topic: str, isolation: str = "read_committed") -> list[Row]:
    consumer = ck.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "g",
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "log_level": 0,
        }
    )
    consumer.assign([ck.TopicPartition(topic, 0, ck.OFFSET_BEGINNING)])
    rows: list[Row] = []
    while (message := consumer.poll(REACHED_S)) is not None and message.error() is None:
        rows.append((message.timestamp()[1], message.key(), message.value(), tuple(message.headers() or ())))
    consumer.close()
    assert message is not None and message.error().code() == ck.KafkaError._PARTITION_EOF, message and message.error()
    return rows


@pytest.mark.parametrize("codec", list(CompressionType), ids=lambda codec: codec.text)
def test_everything_is_read_as_it_was_sent(cluster: EmbeddedCluster, codec: CompressionType) -> None:
    topic = f"codec-{codec.text}"
    create(cluster, topic)

    async def main(runtime: Runtime) -> list[Row]:
        return await write_story(runtime, cluster.bootstrap_servers, topic, codec)

    rows = run(main)
    assert read(cluster, topic) == rows


def test_aborted_transactions_are_not_read(cluster: EmbeddedCluster) -> None:
    create(cluster, "tx")

    async def main(runtime: Runtime) -> tuple[list[bytes], list[bytes]]:
        return await write_transactions(runtime, cluster.bootstrap_servers, "tx")

    written, committed = run(main)
    assert [row[2] for row in read(cluster, "tx")] == committed
    assert [row[2] for row in read(cluster, "tx", "read_uncommitted")] == written


def test_a_newer_producer_fences_the_older_one(cluster: EmbeddedCluster) -> None:
    create(cluster, "fenced")

    async def main(runtime: Runtime) -> None:
        configs = {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "one"}
        async with KafkaProducer(runtime, configs) as older, KafkaProducer(runtime, configs) as newer:
            await older.init_transactions()
            await older.begin_transaction()
            await (await older.send(ProducerRecord("fenced", b"older")))
            await newer.init_transactions()
            with pytest.raises(ApiException) as failure:
                await older.commit_transaction()
            assert failure.value.error in (Errors.INVALID_PRODUCER_EPOCH, Errors.PRODUCER_FENCED)
            await newer.begin_transaction()
            await newer.send(ProducerRecord("fenced", b"newer"))
            await newer.commit_transaction()

    run(main)
    wait_until_ended(cluster.bootstrap_servers, "fenced")
    assert [row[2] for row in read(cluster, "fenced")] == [b"newer"]


def test_nothing_is_lost_or_written_twice_while_the_leader_is_killed() -> None:
    with EmbeddedCluster(brokers=3, config=CONFIG | {"min.insync.replicas": "2"}) as cluster:
        first, second, third = (node.node_id for node in cluster.nodes)  # the first is the controller, too
        admin = LibrdkafkaAdmin({"bootstrap.servers": cluster.bootstrap_servers})
        admin.create_topics([NewTopic("kill", 1, replica_assignment=[[second, third, first]])])["kill"].result(REACHED_S)

        async def main(runtime: Runtime) -> list[int]:
            configs = {"bootstrap.servers": cluster.bootstrap_servers, "batch.size": "500", "request.timeout.ms": "5000"}
            async with KafkaProducer(runtime, configs) as producer:
                sent = []
                for number in range(3_000):
                    sent.append(await producer.send(ProducerRecord("kill", b"%05d" % number)))
                    if number == 1_000:
                        await sent[500]
                        await runtime.run_blocking(lambda: cluster.kill_node(1))
                return [(await one).offset for one in sent]

        offsets = run(main)
        assert [row[2] for row in read(cluster, "kill")] == [b"%05d" % number for number in range(3_000)]
        assert all(offset in (-1, number) for number, offset in enumerate(offsets))


def test_a_secured_cluster_is_written_to_with_sasl_and_tls() -> None:
    with EmbeddedCluster(security=Security.sasl_ssl(users={"alice": "alice-secret"})) as cluster:

        async def main(runtime: Runtime) -> int:
            configs = {**cluster.client_properties("alice", style="java"), "bootstrap.servers": cluster.bootstrap_servers}
            async with KafkaProducer(runtime, configs) as producer:
                return (await (await producer.send(ProducerRecord("secured", b"v")))).offset

        assert run(main) == 0
