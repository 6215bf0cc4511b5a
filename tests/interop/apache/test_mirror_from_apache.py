"""Source = Apache Kafka 4.3: mirror, failover; compacted and transactional topics; no failback there (no API 99)."""

from __future__ import annotations

import pathlib

import pytest
from confluent_kafka import Producer
from mirror_harness import (
    FAST_MIRROR,
    add,
    call,
    create_mirror,
    create_topic,
    log_bytes,
    numbered,
    partitions_of,
    produce,
    remove,
    wait_caught_up,
    wait_for,
    wait_state,
)
from peers import apache_kafka

from kmirror.common.topic_partition import TopicPartition
from kmirror.embedded import EmbeddedCluster

pytestmark = pytest.mark.interop


def transactions(bootstrap_servers: str, topic: str, *, leave_open: bool) -> Producer | None:
    """A committed and an aborted transaction, and one that stays open if `leave_open`."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": "tx"})
    producer.init_transactions()
    for index, commit in enumerate((True, False)):
        producer.begin_transaction()
        for value in numbered(f"tx{index}", 5):
            producer.produce(topic, value=value, partition=0)
        producer.flush()
        if commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    if not leave_open:
        return None
    producer.begin_transaction()
    producer.produce(topic, value="open", partition=0)
    producer.flush()
    return producer


def test_apache_is_mirrored_byte_for_byte_and_failed_over(tmp_path: pathlib.Path) -> None:
    with apache_kafka(tmp_path / "apache") as source, EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as b:
        for name in ("plain", "txn"):
            create_topic(source.bootstrap_servers, name)
        create_topic(source.bootstrap_servers, "compacted", cleanup_policy="compact")
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            produce(source.bootstrap_servers, "plain", numbered(codec, 30), compression_type=codec)
        produce(source.bootstrap_servers, "compacted", numbered("c", 50), enable_idempotence="true")
        producer = transactions(source.bootstrap_servers, "txn", leave_open=True)
        create_mirror(b.bootstrap_servers, "k", source.bootstrap_servers)
        add(b.bootstrap_servers, "k", "plain", "txn", "compacted")
        wait_caught_up(b.bootstrap_servers, source.bootstrap_servers, "k")
        for name in ("plain-0", "compacted-0"):
            assert log_bytes(b.log_dir(), name) == log_bytes(source.data, name)
        theirs = log_bytes(source.data, "txn-0")
        ours = log_bytes(b.log_dir(), "txn-0")
        assert ours == theirs[: len(ours)]
        assert len(ours) < len(theirs)
        source.kill()
        del producer
        remove(b.bootstrap_servers, "k", "plain", "txn", "compacted")
        rows = wait_state(b.bootstrap_servers, "k", "STOPPED")
        assert {row.topic: row.destination_offset for row in rows} == {"plain": 151, "txn": 13, "compacted": 51}
        assert produce(b.bootstrap_servers, "txn", ["after"]) == []
        decided = call(b.bootstrap_servers, lambda admin: admin.list_offsets([TopicPartition("txn", 0)], isolation_level=1))
        assert decided == {TopicPartition("txn", 0): 14}


def test_apache_restarts_under_load(tmp_path: pathlib.Path) -> None:
    with apache_kafka(tmp_path / "apache") as source, EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as b:
        create_topic(source.bootstrap_servers, "t")
        produce(source.bootstrap_servers, "t", numbered("a", 40))
        create_mirror(b.bootstrap_servers, "k", source.bootstrap_servers)
        add(b.bootstrap_servers, "k", "t")
        wait_caught_up(b.bootstrap_servers, source.bootstrap_servers, "k")
        source.kill()
        wait_for("the mirror to notice", lambda: partitions_of(b.bootstrap_servers, "k")[0].state == "MIRRORING")
        source.start()
        produce(source.bootstrap_servers, "t", numbered("a2", 40))
        wait_caught_up(b.bootstrap_servers, source.bootstrap_servers, "k")
        assert log_bytes(b.log_dir(), "t-0") == log_bytes(source.data, "t-0")


def test_failback_towards_a_source_without_mirrors_starts_from_scratch(tmp_path: pathlib.Path) -> None:
    """The destination once had the topic itself: Apache Kafka knows no last mirror epoch, so it is mirrored from scratch."""
    with apache_kafka(tmp_path / "apache") as source, EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as b:
        create_topic(source.bootstrap_servers, "t")
        produce(source.bootstrap_servers, "t", numbered("a", 20))
        create_mirror(b.bootstrap_servers, "k", source.bootstrap_servers)
        add(b.bootstrap_servers, "k", "t")
        wait_caught_up(b.bootstrap_servers, source.bootstrap_servers, "k")
        remove(b.bootstrap_servers, "k", "t")
        wait_state(b.bootstrap_servers, "k", "STOPPED")
        produce(b.bootstrap_servers, "t", numbered("mine", 20))
        add(b.bootstrap_servers, "k", "t")
        wait_caught_up(b.bootstrap_servers, source.bootstrap_servers, "k")
        assert log_bytes(b.log_dir(), "t-0") == log_bytes(source.data, "t-0")
