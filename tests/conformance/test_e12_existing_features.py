"""What a mirror does to existing features of topics, producers and consumers, on two clusters
(E12).

Also pause and resume (S5), and the document on unclean elections after the cut (FM16).
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    add,
    call,
    create_mirror,
    create_topic,
    data_batch,
    keys_read,
    kip_transactions,
    log_bytes,
    numbered,
    produce,
    produce_transactions,
    quiet,
    rebuild_log,
    remove,
    send,
    wait_for,
    wait_state,
)
from support.waiting import REACHED_S

from kmirror.admin.results import ConfigOperation, ConfigResourceType
from kmirror.cli import dump_log
from kmirror.common.errors import Errors
from kmirror.embedded import EmbeddedCluster
from kmirror.record.record_batch import iter_batches
from kmirror.wire.messages.init_producer_id import InitProducerIdRequest

Clusters = tuple[EmbeddedCluster, EmbeddedCluster]
GUIDE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "MIRRORING.md"


@pytest.fixture(scope="module")
def clusters() -> Iterator[Clusters]:
    """Each has the other's mirror m; a test brings its own topics."""
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a, EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as b:
        create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
        create_mirror(a.bootstrap_servers, "back", b.bootstrap_servers)
        yield a, b


def same(a: EmbeddedCluster, b: EmbeddedCluster, folder: str) -> bool:
    left = log_bytes(a.log_dir(), folder)
    return len(left) > 0 and left == log_bytes(b.log_dir(), folder)


def mirror(a: EmbeddedCluster, b: EmbeddedCluster, topic: str, partitions: int = 1) -> None:
    add(b.bootstrap_servers, "m", topic)
    caught_up(a, b, topic, partitions)


def caught_up(a: EmbeddedCluster, b: EmbeddedCluster, topic: str, partitions: int = 1, *, name: str = "m") -> None:
    """B mirrors all of A's topic. (The other topics of the mirror may be stopped or paused.)"""
    wait_state(b.bootstrap_servers, name, "MIRRORING", topic=topic)
    for number in range(partitions):
        wait_for(f"{topic}-{number} to be mirrored", lambda folder=f"{topic}-{number}": same(a, b, folder), REACHED_S)


def fail_over(b: EmbeddedCluster, topic: str) -> None:
    remove(b.bootstrap_servers, "m", topic)
    wait_state(b.bootstrap_servers, "m", "STOPPED", topic=topic)


def test_fea1_batches_of_every_codec_and_producer_are_byte_identical(clusters: Clusters) -> None:
    """Offsets, leader epochs, CRCs, timestamps, producer fields; also where the destination's
    compression.type asks for another codec.
    """
    a, b = clusters
    create_topic(a.bootstrap_servers, "bytes", compression_type="producer")
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        assert produce(a.bootstrap_servers, "bytes", numbered(codec, 30), compression_codec=codec) == []
    assert produce(a.bootstrap_servers, "bytes", numbered("idempotent", 30), enable_idempotence="true") == []
    produce_transactions(a.bootstrap_servers, "bytes")
    mirror(a, b, "bytes")
    call(
        b.bootstrap_servers,
        lambda admin: admin.incremental_alter_configs(
            ConfigResourceType.TOPIC, "bytes", [("compression.type", ConfigOperation.SET, "gzip")]
        ),
    )
    produce(a.bootstrap_servers, "bytes", numbered("later", 30), compression_codec="zstd")
    caught_up(a, b, "bytes")
    batches = list(iter_batches(memoryview(log_bytes(b.log_dir(), "bytes-0"))))
    assert len({batch.compression for batch in batches}) == 5
    assert any(batch.producer_id >= 0 and not batch.is_transactional for batch in batches) and any(batch.is_control for batch in batches)


def test_fea5_name_id_and_partition_count_are_the_sources(clusters: Clusters) -> None:
    a, b = clusters
    create_topic(a.bootstrap_servers, "shape", 3)
    for number in range(3):
        produce(a.bootstrap_servers, "shape", numbered("v", 5), partition=number)
    mirror(a, b, "shape", 3)
    described = [cluster.call(lambda server: server.broker.metadata_cache.image.topics.topic("shape")) for cluster in (a, b)]
    assert described[0].id == described[1].id
    assert sorted(described[0].partitions) == sorted(described[1].partitions) == [0, 1, 2]


def test_fea2_compacted_topics_keep_their_gaps_and_go_on_behind_the_highest_offset(clusters: Clusters) -> None:
    a, b = clusters
    create_topic(a.bootstrap_servers, "compact", cleanup_policy="compact")
    log = data_batch(0, (b"a", b"1")) + data_batch(7, (b"b", b"2"), (b"c", b"3")) + data_batch(30, (b"d", b"4"))
    rebuild_log(a, "compact-0", log)
    mirror(a, b, "compact")
    assert log_bytes(b.log_dir(), "compact-0") == log
    fail_over(b, "compact")
    assert produce(b.bootstrap_servers, "compact", ["next"]) == []
    offsets = [batch.base_offset for batch in iter_batches(memoryview(log_bytes(b.log_dir(), "compact-0")))]
    assert offsets == [0, 7, 30, 31, 32], "the reset is at 31, the next local record behind it"


def test_fea4_consumers_read_a_mirror_while_it_runs(clusters: Clusters) -> None:
    """read_committed works from the source's markers."""
    a, b = clusters
    create_topic(a.bootstrap_servers, "read")
    rebuild_log(a, "read-0", b"".join(kip_transactions()))
    mirror(a, b, "read")
    assert keys_read(b.bootstrap_servers, "read") == [b"A", b"B", b"Z"]
    assert keys_read(b.bootstrap_servers, "read", isolation="read_uncommitted") == [b"A", b"B", b"X", b"Z"]
    consumer = Consumer(quiet({"bootstrap.servers": b.bootstrap_servers, "group.id": "of-the-mirror"}))
    consumer.assign([TopicPartition("read", 0, 6)])
    produce(a.bootstrap_servers, "read", ["live"])
    message = wait_for("the record that came while reading", lambda: consumer.poll(0.2), REACHED_S)
    consumer.close()
    assert (message.value(), message.offset()) == (b"live", 6)


def test_fea6_idempotent_producers_begin_anew_after_a_failover(clusters: Clusters) -> None:
    """Both clusters hand out producer ids from 0: without the reset, sequence 0 of an id that is in
    the mirrored log would be taken for a duplicate.
    """
    a, b = clusters
    create_topic(a.bootstrap_servers, "producers")
    given = send(b.bootstrap_servers, InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)).producer_id
    log = b"".join(
        data_batch(offset, (b"of A", b"%d" % offset), producer_id=given + 1 + offset, producer_epoch=0, base_sequence=0)
        for offset in range(5)
    )
    rebuild_log(a, "producers-0", log)
    mirror(a, b, "producers")
    fail_over(b, "producers")
    assert produce(b.bootstrap_servers, "producers", ["of B"], enable_idempotence="true") == []
    last = list(iter_batches(memoryview(log_bytes(b.log_dir(), "producers-0"))))[-1]
    assert given < last.producer_id <= given + 5, "an id that the mirrored log has, too"
    assert (last.base_offset, last.producer_epoch, last.base_sequence) == (6, 0, 0)


@pytest.mark.item("A14")
def test_fea7_the_log_dump_shows_the_reset(clusters: Clusters, capfd: pytest.CaptureFixture[str]) -> None:
    a, b = clusters
    create_topic(a.bootstrap_servers, "dumped")
    produce(a.bootstrap_servers, "dumped", ["v"])
    mirror(a, b, "dumped")
    fail_over(b, "dumped")
    segment = next((b.log_dir() / "dumped-0").glob("*.log"))
    assert dump_log.main(["--files", str(segment), "--print-data-log"]) == 0
    assert f'MirrorPidReset {{"version":0,"sourceClusterId":"{a.cluster_id}"}}' in capfd.readouterr().out


def test_fea12_two_clusters_mirror_different_topics_to_each_other(clusters: Clusters) -> None:
    a, b = clusters
    create_topic(a.bootstrap_servers, "from-a")
    create_topic(b.bootstrap_servers, "from-b")
    add_both = ((b, "m", "from-a"), (a, "back", "from-b"))
    for cluster, name, topic in add_both:
        add(cluster.bootstrap_servers, name, topic)
    for number in range(3):
        produce(a.bootstrap_servers, "from-a", numbered(f"a{number}", 10))
        produce(b.bootstrap_servers, "from-b", numbered(f"b{number}", 10))
    caught_up(a, b, "from-a")
    caught_up(b, a, "from-b", name="back")
    assert [error.code() for error in produce(b.bootstrap_servers, "from-a", ["x"])] == [Errors.READ_ONLY_TOPIC]
    assert [error.code() for error in produce(a.bootstrap_servers, "from-b", ["x"])] == [Errors.READ_ONLY_TOPIC]


def test_s5_a_paused_topic_is_not_copied_and_goes_on_without_truncation(clusters: Clusters) -> None:
    a, b = clusters
    create_topic(a.bootstrap_servers, "paused")
    produce(a.bootstrap_servers, "paused", numbered("before", 20))
    mirror(a, b, "paused")
    call(b.bootstrap_servers, lambda admin: admin.pause_mirror_topics("m", ["paused"])).all()
    wait_state(b.bootstrap_servers, "m", "PAUSED", topic="paused")
    before, epoch = log_bytes(b.log_dir(), "paused-0"), leader_epoch(b, "paused")
    produce(a.bootstrap_servers, "paused", numbered("while", 20))
    call(
        a.bootstrap_servers,
        lambda admin: admin.incremental_alter_configs(
            ConfigResourceType.TOPIC, "paused", [("retention.ms", ConfigOperation.SET, "7200000")]
        ),
    )
    assert [error.code() for error in produce(b.bootstrap_servers, "paused", ["x"])] == [Errors.READ_ONLY_TOPIC]
    cycle(b)
    assert log_bytes(b.log_dir(), "paused-0") == before
    assert "retention.ms" not in configs(b, "paused"), "nothing of a paused topic is synced"
    call(b.bootstrap_servers, lambda admin: admin.resume_mirror_topics("m", ["paused"])).all()
    caught_up(a, b, "paused")
    assert log_bytes(b.log_dir(), "paused-0").startswith(before)
    assert leader_epoch(b, "paused") == epoch, "what was cut would have been followed by a bump"
    wait_for("the config", lambda: configs(b, "paused").get("retention.ms") == "7200000")


def leader_epoch(cluster: EmbeddedCluster, topic: str) -> int:
    return int(cluster.call(lambda server: server.broker.metadata_cache.image.topics.topic(topic).partitions[0].leader_epoch))


def configs(cluster: EmbeddedCluster, topic: str) -> dict[str, str]:
    return dict(cluster.call(lambda server: server.broker.metadata_cache.image.configs.topic(topic)))


def cycle(cluster: EmbeddedCluster) -> None:
    """Until the metadata manager has asked the source twice more."""

    def requests() -> int:
        return int(cluster.call(lambda server: server.broker.mirror.mirror("m").source._client.metrics.requests))

    first = requests()
    wait_for("two cycles", lambda: requests() >= first + 4)


def test_fea13_producers_of_the_source_wait_for_nobody(clusters: Clusters) -> None:
    """The destination is dead, and acks=all is answered as ever; what was produced comes later."""
    a, b = clusters
    create_topic(a.bootstrap_servers, "alone")
    produce(a.bootstrap_servers, "alone", ["first"])
    mirror(a, b, "alone")
    b.kill_node()
    producer = Producer(quiet({"bootstrap.servers": a.bootstrap_servers, "acks": "all", "message.timeout.ms": "5000"}))
    errors: list[object] = []
    for value in numbered("alone", 50):
        producer.produce("alone", value, on_delivery=lambda error, _: errors.append(error) if error else None)
    assert producer.flush(REACHED_S) == 0 and not errors
    b.start_node()
    caught_up(a, b, "alone")


def test_fm16_the_guide_says_what_of_an_unclean_election_after_the_cut_is_not_noticed() -> None:
    text = " ".join(GUIDE.read_text().split())
    assert "what differs further back stays, and `--verify` and `kafka-log-diff` find it" in text
    assert "mirror.support.unclean.leader.election=true" in text
