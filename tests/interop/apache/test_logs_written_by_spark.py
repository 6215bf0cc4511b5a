"""Logs that `df.write.format("kafka-log")` makes: read by Apache's kafka-dump-log, served by an
Apache broker and by one of ours.
"""

from __future__ import annotations

import pathlib
import random
import re
import time

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from support.peers.apache_tools import apache_tools
from support.peers.peers import apache_kafka
from support.tools.spark_writes import table, write_tasks
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.cli import kmirror
from kmirror.spark.partitioner import Partitioner
from kmirror.spark.record_bytes import RECORD_OVERHEAD

pytestmark = pytest.mark.interop
DUMP = "org.apache.kafka.tools.DumpLogSegments"
TIME = 1_750_000_000_000
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
COUNT = 300


def records(topic: str, first: int, count: int) -> pa.RecordBatch:
    """Two partitions, taking turns; some keys, values and headers are missing."""
    chance = random.Random(first)
    numbers = range(first, first + count)
    return table(
        topic=[topic] * count,
        partition=[number % 2 for number in numbers],
        key=[None if number % 5 == 0 else b"k%d" % number for number in numbers],
        value=[None if number % 7 == 0 else b"v%d" % number + chance.randbytes(chance.choice([0, 3, 5_000])) for number in numbers],
        headers=[[("h", b"%d" % number), ("n", None)] if number % 3 == 0 else None for number in numbers],
        timestamp_ms=[TIME + number for number in numbers],
    )


def expected(batch: pa.RecordBatch, partition: int) -> list[tuple]:
    rows = [row for row in batch.to_pylist() if row["partition"] == partition]
    return [
        (row["key"], row["value"], [(one["key"], one["value"]) for one in row["headers"] or []] or None, row["timestamp_ms"])
        for row in rows
    ]


def create(bootstrap_servers: str, *topics: str, partitions: int = 2) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    for made in admin.create_topics([NewTopic(topic, partitions, 1) for topic in topics]).values():
        made.result(REACHED_S)


def consumed(bootstrap_servers: str, topic: str, partition: int, count: int) -> list[tuple]:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "g", "log_level": 0})
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[tuple] = []
    deadline = time.monotonic() + REACHED_S
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None:
            assert message.error() is None, message.error()
            assert message.offset() == len(found)
            found.append((message.key(), message.value(), message.headers(), message.timestamp()[1]))
    consumer.close()
    return found


def append_in_all_codecs(data_dir: pathlib.Path) -> dict[str, pa.RecordBatch]:
    """A topic a codec, written in two tasks that both have rows of both partitions."""
    written = {codec: records(f"t-{codec}", 1000 * index, COUNT) for index, codec in enumerate(CODECS)}
    for codec, batch in written.items():
        options = {"compression_type": codec, "batch_size": 4_000, "segment_bytes": 120_000}
        write_tasks(data_dir, [[batch.slice(0, 200)], [batch.slice(200)]], **options)
    return written


def test_apache_kafka_dumps_every_record_and_its_index_checks_find_nothing(tmp_path: pathlib.Path) -> None:
    written = append_in_all_codecs(tmp_path / "d")
    logs = sorted((tmp_path / "d").glob("t-*/*.log"))
    indexes = sorted((tmp_path / "d").glob("t-*/*index"))
    assert len(logs) > len(CODECS) * 2 and sum(path.stat().st_size for path in indexes) > 1000
    with apache_tools(tmp_path / "tools") as tools:
        deep = tools.run(DUMP, "--deep-iteration", "--files", ",".join(map(str, logs)))
        sanity = tools.run(DUMP, "--index-sanity-check", "--files", ",".join(map(str, indexes)))
        verified = tools.run(DUMP, "--verify-index-only", "--files", ",".join(map(str, indexes)))
    assert (deep.code, sanity.code, verified.code) == (0, 0, 0), (deep.err, sanity.err, verified.err)
    assert deep.out.count("| offset: ") == COUNT * len(written)
    assert "isvalid: false" not in deep.out.lower()
    pairs = re.findall(r"(-?\d+) is followed by (\d+)", deep.out)
    assert {before for before, _ in pairs} <= {"-1"}, "the tool says so of each first offset but 0, and of holes"
    for text in (verified.out + verified.err, sanity.out + sanity.err, deep.err):
        assert not any(word in text.lower() for word in ("mismatch", "out of order", "could not be found", "exception")), text
    assert sanity.out.count("passed sanity check") == len(indexes)


def test_apache_kafka_serves_logs_that_were_appended_to_its_own_log_dir(tmp_path: pathlib.Path, capsys) -> None:
    with apache_kafka(tmp_path / "apache") as peer:
        create(peer.bootstrap_servers, *(f"t-{codec}" for codec in CODECS))
        producer = Producer({"bootstrap.servers": peer.bootstrap_servers, "enable.idempotence": True})
        producer.produce("t-zstd", key=b"first", value=b"of a producer", partition=0, timestamp=TIME)
        assert producer.flush(REACHED_S) == 0
        peer.stop()
        written = append_in_all_codecs(peer.data)
        peer.start()
        for codec, batch in written.items():
            for partition in (0, 1):
                wanted = expected(batch, partition)
                if (codec, partition) == ("zstd", 0):
                    wanted = [(b"first", b"of a producer", None, TIME), *wanted]
                assert consumed(peer.bootstrap_servers, f"t-{codec}", partition, len(wanted)) == wanted, (codec, partition)
        producer = Producer({"bootstrap.servers": peer.bootstrap_servers})
        producer.produce("t-lz4", key=b"last", value=b"of a producer", partition=1)
        assert producer.flush(REACHED_S) == 0
        peer.stop()
        assert not list(peer.data.glob("*-stray"))
        assert kmirror.main(["verify-logs", str(peer.data)]) == 0, capsys.readouterr().out


def test_one_of_our_brokers_serves_them_too_and_agrees_about_partitions(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "ours"
    keys = [b"key-%d" % number + b"x" * (number % 9) for number in range(200)]
    placed: dict[bytes, int] = {}
    with EmbeddedCluster(folder=folder) as cluster:
        create(cluster.bootstrap_servers, "t-none", "t-zstd")
        create(cluster.bootstrap_servers, "keyed", partitions=7)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "partitioner": "murmur2_random"})
        for key in keys:
            producer.produce(
                "keyed", key=key, value=b"", on_delivery=lambda _, message: placed.update({message.key(): message.partition()})
            )
        assert producer.flush(REACHED_S) == 0
        cluster_id, data = cluster.cluster_id, cluster.log_dir()
    chosen = Partitioner(7, batch_bytes=1000, first=0).partitions(pa.array(keys), np.full(len(keys), RECORD_OVERHEAD))
    assert dict(zip(keys, chosen.tolist())) == placed
    written = {topic: records(topic, 0, COUNT) for topic in ("t-none", "t-zstd")}
    for topic, batch in written.items():
        write_tasks(data, [[batch]], compression_type=topic.removeprefix("t-"))
    with EmbeddedCluster(folder=folder, cluster_id=cluster_id) as cluster:
        for topic, batch in written.items():
            for partition in (0, 1):
                wanted = expected(batch, partition)
                assert consumed(cluster.bootstrap_servers, topic, partition, len(wanted)) == wanted
