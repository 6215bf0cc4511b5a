"""Apache Kafka's MirrorMaker 2 and `connect-mirror-maker` beside each other, where the world is odd: what comes over
is equal, record by record.

Aliases have dots. A consumer takes a record at a time, and a producer packs each by itself. Records have
headers of the same name, empty keys, and times far from now. A log begins in its middle, a topic is made again
with fewer partitions and records, and one is deleted at the target.
"""

from __future__ import annotations

import pathlib

import confluent_kafka as ck
import pytest
from support.mirrormaker.compared_programs import APACHES, OURS, Cluster, Copy, Flow, Programs, properties_of, wait_until
from support.mirrormaker.logs_compared import EPOCH_MS, QUIET, make_topics, produce, read, rows
from support.mirrormaker.mirror_makers import apache_mirror_maker_2, our_mirror_maker_2
from support.mirrors.mirror_harness import call
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.common.topic_partition import TopicPartition

pytestmark = pytest.mark.interop

BROKER = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1", "auto.create.topics.enable": "false"}
HEADERS = [("h", b"1"), ("h", b"2"), ("h", None), ("", b""), ("\u00e9", "\u00fc".encode())]
DAY_MS = 86_400_000
SETTINGS = {
    "topics": "odd, eu.west.own, fewer, middle, stamped",
    "offset.lag.max": "0",
    "source.consumer.max.poll.records": "1",
    "source.consumer.fetch.max.bytes": "100",
    "source.consumer.max.partition.fetch.bytes": "50",
    "producer.override.batch.size": "0",
    "producer.override.compression.type": "gzip",
    "producer.override.acks": "1",
    "producer.override.enable.idempotence": "false",
}


def fill(cluster: Cluster) -> dict[str, int]:
    """Returns the topics, with their counts of partitions."""
    servers = cluster.servers
    make_topics(servers, {"odd": 1}, {"message.timestamp.after.max.ms": str(2**62), "message.timestamp.before.max.ms": str(2**62)})
    make_topics(servers, {"stamped": 1}, {"message.timestamp.type": "LogAppendTime"})
    made = {"fewer": 3, "middle": 1, "eu.west.own": 2}
    make_topics(servers, made)
    producer = ck.Producer({"bootstrap.servers": servers, "linger.ms": 50, **QUIET})
    times = (0, 1, DAY_MS, EPOCH_MS, 2 * EPOCH_MS, 2**50)
    for timestamp in times:
        for key, value in ((b"", b""), (None, b""), (b"", None), (None, None), (b"k", b"v" * 300)):
            producer.produce("odd", value, key=key, headers=HEADERS, timestamp=timestamp, partition=0)
    assert producer.flush(REACHED_S) == 0
    for topic, partitions in {**made, "stamped": 1}.items():
        produce(servers, topic, 30, partitions=partitions)
    call(servers, lambda admin: admin.delete_records({TopicPartition("middle", 0): 20}))
    return {"odd": 1, "stamped": 1, **made}


def delete(cluster: Cluster, topic: str) -> None:
    call(cluster.servers, lambda admin: admin.delete_topics([topic])).all()
    wait_until(f"the end of {topic}", lambda: topic not in cluster.topics())


def test_both_copy_what_is_odd(tmp_path: pathlib.Path) -> None:
    with EmbeddedCluster(config=BROKER) as a, EmbeddedCluster(config=BROKER) as b:
        source, target = Cluster("eu.west", a.bootstrap_servers), Cluster("us", b.bootstrap_servers)
        flow = Flow(source, target, SETTINGS)
        topics = fill(source)
        files = {program: properties_of([flow], program, {"topics": SETTINGS["topics"]}) for program in (APACHES, OURS)}
        with (
            apache_mirror_maker_2(tmp_path / "theirs", files[APACHES]) as apaches,
            our_mirror_maker_2(tmp_path / "ours", files[OURS]) as ours,
        ):
            programs = Programs({APACHES: apaches, OURS: ours}, [flow])

            def logs(copy: Copy) -> dict[str, dict[int, list]]:
                return {topic: rows(log) for topic, log in copy.records(topics).items()}

            def until_equal(what: str, expected: dict[str, dict[int, list]]) -> None:
                total = {topic: [len(log) for log in found.values()] for topic, found in expected.items()}
                programs.until(what, lambda copy: copy.end_offsets(topics) == total)
                for copy in programs.copies:
                    assert logs(copy) == expected, f"{copy}: {what}"

            expected = {topic: rows(read(source.servers, topic, count)) for topic, count in topics.items()}
            assert len(expected["middle"][0]) == 10
            until_equal("what there is at first", expected)
            delete(source, "fewer")
            make_topics(source.servers, {"fewer": 1})
            produce(source.servers, "fewer", 5, first=1_000)
            expected["fewer"][0] += rows(read(source.servers, "fewer"))[0]
            until_equal("the topic that was made again", expected)
            for copy in programs.copies:
                delete(target, copy.remote("stamped"))
            produce(source.servers, "stamped", 7, first=500)
            expected["stamped"] = {0: rows(read(source.servers, "stamped"))[0][30:]}
            until_equal("the topic that was deleted at the target", expected)
            programs.stop()
