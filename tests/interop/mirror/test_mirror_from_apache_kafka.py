"""kmirror mirrors an Apache Kafka 4.3 source: plain, compressed, compacted and transactional
topics, byte for byte.
"""

from __future__ import annotations

import pathlib
import threading
import time

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from support.logs.golden_vectors import golden_dir
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    add,
    assert_equal_logs,
    call,
    create_mirror,
    create_mirror_by_tool,
    create_topic,
    kafka_mirrors,
    keys_read,
    log_bytes,
    numbered,
    produce,
    produce_numbered,
    produce_transactions,
    rebuild_log,
    remove,
    wait_caught_up,
    wait_for,
    wait_state,
    wait_states,
)
from support.peers.peers import KafkaPeer, apache_kafka
from support.waiting import OPEN_TRANSACTION_MS, REACHED_S

from kmirror import EmbeddedCluster
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.record_batch import iter_batches

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    with apache_kafka(tmp_path_factory.mktemp("source"), properties={"log.cleaner.backoff.ms": "200"}) as peer:
        yield peer


@pytest.fixture
def destination():
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as cluster:
        yield cluster


def mirror(folder: pathlib.Path, source: KafkaPeer, destination: EmbeddedCluster, pattern: str, partitions: int) -> None:
    create_mirror_by_tool(folder, destination.bootstrap_servers, source.bootstrap_servers, "m")
    kafka_mirrors(destination.bootstrap_servers, "--add", "--mirror", "m", "--topic", pattern)
    wait_states(destination.bootstrap_servers, "m", "MIRRORING", partitions=partitions)


def idle_cleaner(bootstrap_servers: str, topic: str) -> None:
    """Make the topic uncleanable, and wait until a pass that may be under way is over."""
    settings = {"min.cleanable.dirty.ratio": "1", "max.compaction.lag.ms": "9223372036854775807", "segment.ms": "604800000"}
    changes = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in settings.items()]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=changes)
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.incremental_alter_configs([resource])[resource].result(REACHED_S)
    time.sleep(2)


def test_every_codec_and_transactions_arrive_byte_for_byte(tmp_path, source, destination) -> None:
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    for codec in codecs:
        create_topic(source.bootstrap_servers, f"a-{codec}", 2)
        produce_numbered(source.bootstrap_servers, f"a-{codec}", 0, 400, codec=codec, partitions=2, **{"enable.idempotence": True})
    create_topic(source.bootstrap_servers, "a-txn")
    produce_transactions(source.bootstrap_servers, "a-txn")
    mirror(tmp_path, source, destination, "a-.*", 11)
    for codec in codecs:
        produce_numbered(source.bootstrap_servers, f"a-{codec}", 400, 200, codec=codec, partitions=2)
    produce_transactions(source.bootstrap_servers, "a-txn")
    folders = [f"a-{codec}-{partition}" for codec in codecs for partition in (0, 1)] + ["a-txn-0"]
    assert_equal_logs(source.data, destination.log_dir(), folders)
    batches = list(iter_batches(log_bytes(destination.log_dir(), "a-txn-0")))
    assert any(batch.is_control for batch in batches) and any(batch.is_transactional for batch in batches)


def test_a_compacted_topic_arrives_with_its_gaps(tmp_path, source, destination) -> None:
    create_topic(
        source.bootstrap_servers,
        "c-topic",
        cleanup_policy="compact",
        segment_bytes="1048576",
        segment_ms="1000",
        min_cleanable_dirty_ratio="0.01",
        max_compaction_lag_ms="1000",
    )
    produce_numbered(source.bootstrap_servers, "c-topic", 0, 2000)

    def compacted() -> bool:
        produce_numbered(source.bootstrap_servers, "c-topic", 0, 1)
        offsets = [batch.base_offset for batch in iter_batches(log_bytes(source.data, "c-topic-0"))]
        return bool(offsets) and (offsets[0] > 0 or any(second - first > 150 for first, second in zip(offsets, offsets[1:])))

    wait_for("the source's cleaner", compacted, REACHED_S)
    idle_cleaner(source.bootstrap_servers, "c-topic")
    mirror(tmp_path, source, destination, "c-topic", 1)
    assert_equal_logs(source.data, destination.log_dir(), ["c-topic-0"])
    offsets = [(batch.base_offset, batch.last_offset) for batch in iter_batches(log_bytes(destination.log_dir(), "c-topic-0"))]
    gaps = [after[0] - before[1] for before, after in zip(offsets, offsets[1:], strict=False)]
    assert offsets[0][0] > 0 or max(gaps) > 1, "the mirrored log has no gap, so nothing was compacted"


def test_the_source_is_killed_and_restarted_under_load(tmp_path, source, destination) -> None:
    create_topic(source.bootstrap_servers, "k-topic", 2)
    mirror(tmp_path, source, destination, "k-topic", 2)
    stop = threading.Event()
    failures: list[BaseException] = []

    def load() -> None:
        number = 0
        while not stop.is_set():
            try:
                produce_numbered(source.bootstrap_servers, "k-topic", number, 200, codec="lz4", partitions=2)
            except AssertionError as error:
                failures.append(error)
            number += 200

    thread = threading.Thread(target=load)
    thread.start()
    try:
        for _ in range(2):
            source.kill()
            destination.kill_node()
            source.start()
            destination.start_node()
            wait_for("some mirrored bytes", lambda: len(log_bytes(destination.log_dir(), "k-topic-0")) > 1000)
    finally:
        stop.set()
        thread.join()
    produce_numbered(source.bootstrap_servers, "k-topic", 0, 10, partitions=2)
    assert_equal_logs(source.data, destination.log_dir(), ["k-topic-0", "k-topic-1"])


def test_failover_from_a_dead_source_cuts_the_open_transaction_and_failback_starts_from_scratch(source, destination) -> None:
    """Nothing undecided arrives; the reset is in a new epoch.

    Apache Kafka knows no last mirror epoch, so its log replaces ours whole.
    """
    address = destination.bootstrap_servers
    for name in ("f-plain", "f-txn"):
        create_topic(source.bootstrap_servers, name)
    create_topic(source.bootstrap_servers, "f-compacted", cleanup_policy="compact")
    produce_numbered(source.bootstrap_servers, "f-plain", 0, 150)
    produce(source.bootstrap_servers, "f-compacted", numbered("c", 50), enable_idempotence="true")
    producer = open_transaction(source.bootstrap_servers, "f-txn")
    create_mirror(address, "f", source.bootstrap_servers)
    add(address, "f", "f-plain", "f-txn", "f-compacted")
    wait_caught_up(address, source.bootstrap_servers, "f")
    assert_equal_logs(source.data, destination.log_dir(), ["f-plain-0", "f-compacted-0"])
    theirs, ours = log_bytes(source.data, "f-txn-0"), log_bytes(destination.log_dir(), "f-txn-0")
    assert len(ours) < len(theirs) and theirs.startswith(ours)
    source.kill()
    del producer
    remove(address, "f", "f-plain", "f-txn", "f-compacted")
    rows = wait_state(address, "f", "STOPPED")
    assert {row.topic: row.destination_offset for row in rows} == {"f-plain": 151, "f-txn": 13, "f-compacted": 51}
    *data, reset = iter_batches(log_bytes(destination.log_dir(), "f-plain-0"))
    assert (reset.base_offset, reset.is_control, reset.size_in_bytes) == (150, True, 98)
    assert reset.partition_leader_epoch > max(batch.partition_leader_epoch for batch in data)
    assert produce(address, "f-txn", ["after"]) == []
    decided = call(address, lambda admin: admin.list_offsets([TopicPartition("f-txn", 0)], isolation_level=1))
    assert decided == {TopicPartition("f-txn", 0): 14}
    source.start()
    add(address, "f", "f-plain")
    wait_for(
        "the log to be the source's again", lambda: log_bytes(destination.log_dir(), "f-plain-0") == log_bytes(source.data, "f-plain-0")
    )


def open_transaction(bootstrap_servers: str, topic: str) -> Producer:
    """A committed transaction (0-5), an aborted one (6-11), and one that stays open (12)."""
    producer = Producer(
        {"bootstrap.servers": bootstrap_servers, "transactional.id": f"{topic}-open", "transaction.timeout.ms": OPEN_TRANSACTION_MS}
    )
    producer.init_transactions()
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        for value in numbered("tx", 5):
            producer.produce(topic, value=value, partition=0)
        producer.flush()
        end()
    producer.begin_transaction()
    producer.produce(topic, value="open", partition=0)
    producer.flush()
    return producer


def test_a_chain_carries_transactions_from_apache_kafka_over_two_mirrors(source, destination) -> None:
    """Apache Kafka -> A -> B: A's source epochs are not B's; then A fails over, and B gets its
    reset.
    """
    create_topic(source.bootstrap_servers, "h-txn")
    produce_transactions(source.bootstrap_servers, "h-txn")
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as end:
        create_mirror(destination.bootstrap_servers, "h", source.bootstrap_servers)
        add(destination.bootstrap_servers, "h", "h-txn")
        wait_caught_up(destination.bootstrap_servers, source.bootstrap_servers, "h")
        create_mirror(end.bootstrap_servers, "h2", destination.bootstrap_servers)
        add(end.bootstrap_servers, "h2", "h-txn")
        wait_caught_up(end.bootstrap_servers, destination.bootstrap_servers, "h2")
        source.restart()
        produce_transactions(source.bootstrap_servers, "h-txn")
        assert_equal_logs(source.data, destination.log_dir(), ["h-txn-0"])
        assert_equal_logs(source.data, end.log_dir(), ["h-txn-0"])
        committed = keys_read(source.bootstrap_servers, "h-txn")
        assert len(committed) == 120 and keys_read(end.bootstrap_servers, "h-txn") == committed
        remove(destination.bootstrap_servers, "h", "h-txn")
        wait_state(destination.bootstrap_servers, "h", "STOPPED")
        assert produce(destination.bootstrap_servers, "h-txn", numbered("own", 5)) == []
        assert_equal_logs(destination.log_dir(), end.log_dir(), ["h-txn-0"])


def test_a_transactional_folder_that_kafka_wrote_is_mirrored_from_a_kmirror_source(destination) -> None:
    """The recorded topic folders with transactions, put into a kmirror node's data dir."""
    folders = [sorted((golden_dir() / name / "log").rglob("*.log")) for name in ("03-txn-java", "03-txn-librdkafka", "03-txn-rolled-java")]
    assert all(folders), "the vectors have no folders 03"
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as source:
        logs = {f"g{number}": b"".join(path.read_bytes() for path in paths) for number, paths in enumerate(folders)}
        for name, data in logs.items():
            create_topic(source.bootstrap_servers, name)
            rebuild_log(source, f"{name}-0", data)
        create_mirror(destination.bootstrap_servers, "g", source.bootstrap_servers)
        add(destination.bootstrap_servers, "g", *logs)
        wait_caught_up(destination.bootstrap_servers, source.bootstrap_servers, "g")
        for name, data in logs.items():
            decided = log_bytes(destination.log_dir(), f"{name}-0")
            assert decided and log_bytes(source.log_dir(), f"{name}-0").startswith(decided)
            assert data.startswith(decided)
