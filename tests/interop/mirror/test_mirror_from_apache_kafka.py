"""Issue 3, 4.1: the source is Apache Kafka 4.3: plain, compressed, compacted and transactional topics, byte for byte."""

from __future__ import annotations

import pathlib
import threading
import time

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from mirror_harness import (
    FAST_MIRROR,
    assert_equal_logs,
    create_mirror_by_tool,
    create_topic,
    kafka_mirrors,
    log_bytes,
    produce_numbered,
    produce_transactions,
    wait_for,
    wait_states,
)
from peers import KafkaPeer, apache_kafka

from kmirror import EmbeddedCluster
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
    admin.incremental_alter_configs([resource])[resource].result(20)
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

    wait_for("the source's cleaner", compacted, 60)
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


def test_there_is_no_failback_to_a_source_without_the_mirror_apis_but_failover_works(tmp_path, source, destination) -> None:
    create_topic(source.bootstrap_servers, "f-topic")
    produce_numbered(source.bootstrap_servers, "f-topic", 0, 50)
    mirror(tmp_path, source, destination, "f-topic", 1)
    assert_equal_logs(source.data, destination.log_dir(), ["f-topic-0"])
    mirrored = log_bytes(source.data, "f-topic-0")
    kafka_mirrors(destination.bootstrap_servers, "--remove", "--mirror", "m", "--topic", "f-topic")
    wait_states(destination.bootstrap_servers, "m", "STOPPED", partitions=1)
    produce_numbered(destination.bootstrap_servers, "f-topic", 50, 10)
    ours = log_bytes(destination.log_dir(), "f-topic-0")
    assert ours.startswith(mirrored)
    epochs = [batch.partition_leader_epoch for batch in iter_batches(ours)]
    reset = next(batch for batch in iter_batches(ours) if batch.is_control)
    assert (
        reset.base_offset == 50
        and reset.size_in_bytes == 98
        and reset.partition_leader_epoch > max(epochs[: epochs.index(reset.partition_leader_epoch)])
    )
