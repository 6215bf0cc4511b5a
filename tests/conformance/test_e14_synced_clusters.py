"""Metadata sync on whole clusters: a source of two brokers, a destination of three, and one mirror
per test (parts of E14, E3 and D3).

S11, S12, S15, S16, S19; SYN4, SYN7, SYN14; D3-22, D3-32, D3-35, D3-36; FM9, FM14, FM20; CFG1 to
CFG4.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, Producer
from confluent_kafka import TopicPartition as GroupPartition
from confluent_kafka.admin import AdminClient as ConfluentAdmin
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    add,
    call,
    create_mirror,
    create_topic,
    kafka_mirrors,
    log_bytes,
    numbered,
    partitions_of,
    produce,
    quiet,
    remove,
    wait_caught_up,
    wait_for,
    wait_state,
)
from support.waiting import REACHED_S

from kmirror.admin.results import ConfigOperation, ConfigResourceType
from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.embedded import EmbeddedCluster
from kmirror.record.record_batch import iter_batches

Clusters = tuple[EmbeddedCluster, EmbeddedCluster]


@pytest.fixture(scope="module")
def clusters() -> Iterator[Clusters]:
    with (
        EmbeddedCluster(brokers=2, mirroring=True, config=FAST_MIRROR) as a,
        EmbeddedCluster(brokers=3, mirroring=True, config=FAST_MIRROR) as b,
    ):
        yield a, b


def leader_of(cluster: EmbeddedCluster, topic: str, partition: int = 0) -> int:
    """Returns the index of the node that leads a partition."""
    described = call(cluster.bootstrap_servers, lambda admin: admin.describe_topics([topic]))[topic]
    leader = next(each.leader for each in described.partitions if each.partition == partition)
    return next(index for index, node in enumerate(cluster.nodes) if node.node_id == leader)


def log_of(cluster: EmbeddedCluster, topic: str, partition: int = 0) -> bytes:
    return log_bytes(cluster.log_dir(leader_of(cluster, topic, partition)), f"{topic}-{partition}")


def start_mirror(a: EmbeddedCluster, b: EmbeddedCluster, mirror: str, *topics: str) -> None:
    create_mirror(b.bootstrap_servers, mirror, a.bootstrap_servers)
    add(b.bootstrap_servers, mirror, *topics)
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, mirror)


def end_mirror(b: EmbeddedCluster, mirror: str, *topics: str) -> None:
    remove(b.bootstrap_servers, mirror, *topics)
    wait_state(b.bootstrap_servers, mirror, "STOPPED")


def overrides(cluster: EmbeddedCluster, topic: str) -> dict[str, str | None]:
    entries = call(cluster.bootstrap_servers, lambda admin: admin.describe_configs(ConfigResourceType.TOPIC, topic))
    return {entry.name: entry.value for entry in entries if entry.source == 1}


def set_configs(cluster: EmbeddedCluster, kind: ConfigResourceType, name: str, **values: str) -> None:
    changes = [(key.replace("_", "."), ConfigOperation.SET, value) for key, value in values.items()]
    call(cluster.bootstrap_servers, lambda admin: admin.incremental_alter_configs(kind, name, changes))


def commit(cluster: EmbeddedCluster, group: str, topic: str, offset: int, partition: int = 0) -> None:
    """Commits an offset for a group without members, as an operator does."""
    wanted = ConsumerGroupTopicPartitions(group, [GroupPartition(topic, partition, offset)])
    client = ConfluentAdmin(quiet({"bootstrap.servers": cluster.bootstrap_servers}))
    client.alter_consumer_group_offsets([wanted])[group].result(REACHED_S)


def committed(cluster: EmbeddedCluster, group: str, topic: str, partition: int = 0) -> int:
    """Returns the committed offset, or -1 if there is none."""
    client = ConfluentAdmin(quiet({"bootstrap.servers": cluster.bootstrap_servers}))
    found = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(REACHED_S).topic_partitions
    return next((each.offset for each in found if (each.topic, each.partition) == (topic, partition)), -1)


def refresh_errors(cluster: EmbeddedCluster) -> int:
    """Returns the sum of MetadataRefreshError over all brokers."""

    def read(server: Any) -> int:
        return int(server.broker.mirror.metadata_manager.errors.metadata_refresh)

    return sum(cluster.call(read, node=index) for index in range(len(cluster.nodes)))


# --- the owner


def test_syn1_another_broker_takes_the_sync_over(clusters: Clusters) -> None:
    """The broker that owns the mirror's sync is stopped, and the next leader of the
    `__mirror_state` partition that the mirror's name hashes to continues.
    """
    a, b = clusters

    def owner_of(mirror: str) -> int:
        def read(server: Any) -> int:
            return int(server.broker.mirror.coordinator.sync_owner(mirror))

        return b.call(read)

    create_topic(a.bootstrap_servers, "syn1", retention_ms="777000")
    names = [f"syn1-{number}" for number in range(6)]
    create_mirror(b.bootstrap_servers, names[0], a.bootstrap_servers)
    wait_for("owners", lambda: all(owner_of(name) >= 0 for name in names))
    name = next(name for name in names if owner_of(name) != b.nodes[0].node_id)
    if name != names[0]:
        create_mirror(b.bootstrap_servers, name, a.bootstrap_servers)
    add(b.bootstrap_servers, name, "syn1")
    wait_state(b.bootstrap_servers, name, "MIRRORING")
    first = owner_of(name)
    victim = next(index for index, node in enumerate(b.nodes) if node.node_id == first)
    b.stop_node(victim)
    try:
        wait_for("another owner", lambda: owner_of(name) not in (-1, first))
        set_configs(a, ConfigResourceType.TOPIC, "syn1", retention_ms="888000")
        wait_for("the source's change", lambda: overrides(b, "syn1") == {"retention.ms": "888000"})
    finally:
        b.start_node(victim)


# --- topics


def test_syn4_a_missing_topic_is_made_as_the_source_has_it(clusters: Clusters) -> None:
    """The broker that is asked to add the topic creates it, with the destination's default
    replication factor or the one that the tool is given (B17).
    """
    a, b = clusters
    create_topic(a.bootstrap_servers, "syn4", 3, retention_ms="777000", min_insync_replicas="1")
    create_topic(a.bootstrap_servers, "syn4-rf2", 2)
    create_mirror(b.bootstrap_servers, "syn4", a.bootstrap_servers)
    add(b.bootstrap_servers, "syn4", "syn4")
    theirs, ours = (call(c.bootstrap_servers, lambda admin: admin.describe_topics(["syn4"]))["syn4"] for c in (a, b))
    assert (ours.topic_id, len(ours.partitions)) == (theirs.topic_id, 3)
    assert {len(each.replicas) for each in ours.partitions} == {1}
    assert overrides(b, "syn4") == {"retention.ms": "777000"}
    kafka_mirrors(b.bootstrap_servers, "--add", "--mirror", "syn4", "--topic", "syn4-rf2", "--replication-factor", "2")
    wide = call(b.bootstrap_servers, lambda admin: admin.describe_topics(["syn4-rf2"]))["syn4-rf2"]
    assert {len(each.replicas) for each in wide.partitions} == {2}
    wait_state(b.bootstrap_servers, "syn4", "MIRRORING")
    nowhere = call(b.bootstrap_servers, lambda admin: admin.add_topics_to_mirror("syn4", ["syn4-nowhere"])).failed["syn4-nowhere"]
    assert nowhere.error is Errors.UNKNOWN_TOPIC_OR_PARTITION


def test_s16_d3_36_new_source_partitions_are_mirrored_from_0(clusters: Clusters) -> None:
    a, b = clusters
    create_topic(a.bootstrap_servers, "s16", 3)
    produce(a.bootstrap_servers, "s16", numbered("a", 30))
    start_mirror(a, b, "s16", "s16")
    call(a.bootstrap_servers, lambda admin: admin.create_partitions({"s16": 5})).all()
    for partition in (3, 4):
        produce(a.bootstrap_servers, "s16", numbered("new", 20), partition=partition)
    wait_for("5 partitions", lambda: len(partitions_of(b.bootstrap_servers, "s16")) == 5)
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "s16")
    for partition in (0, 3, 4):
        assert log_of(a, "s16", partition) == log_of(b, "s16", partition) != b""


def test_s19_fm20_local_config_changes_are_overridden_and_excluded_ones_are_not(clusters: Clusters) -> None:
    a, b = clusters
    create_topic(a.bootstrap_servers, "s19", retention_ms="777000")
    start_mirror(a, b, "s19", "s19")
    local = {"retention.ms": "1", "min.insync.replicas": "1", "mirror.replication.throttled.replicas": "*"}
    set_configs(b, ConfigResourceType.TOPIC, "s19", **local)
    wait_for("retention.ms to be overridden", lambda: overrides(b, "s19") == local | {"retention.ms": "777000"})
    set_configs(a, ConfigResourceType.TOPIC, "s19", retention_ms="888000", min_insync_replicas="2")
    wait_for("the source's change", lambda: overrides(b, "s19") == local | {"retention.ms": "888000"})


@pytest.mark.item("B5")
def test_s15_c14_d3_22_fm9_syn7_a_deleted_source_topic_stays_stopped_and_writable_through_leader_changes(clusters: Clusters) -> None:
    a, b = clusters
    for topic, partitions in (("s15", 3), ("s15-kept", 1)):
        create_topic(a.bootstrap_servers, topic, partitions)
        produce(a.bootstrap_servers, topic, numbered("a", 30))
    create_mirror(b.bootstrap_servers, "s15", a.bootstrap_servers)
    kafka_mirrors(b.bootstrap_servers, "--add", "--mirror", "s15", "--topic", "s15.*", "--replication-factor", "3")
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "s15")
    call(a.bootstrap_servers, lambda admin: admin.delete_topics(["s15"])).all()
    wait_state(b.bootstrap_servers, "s15", "STOPPED", topic="s15")

    def association(server: Any) -> str:
        return str(server.broker.mirror.image().configs.topic("s15")["mirror.name"])

    assert b.call(association) == "s15.paused"
    assert produce(b.bootstrap_servers, "s15", ["mine"], acks="all") == []
    victim = next(index for index in (leader_of(b, "s15"), 1) if index != 0)
    b.stop_node(victim)
    try:
        wait_state(b.bootstrap_servers, "s15", "STOPPED", topic="s15")
        assert produce(b.bootstrap_servers, "s15", ["mine too"], acks="all") == []
    finally:
        b.start_node(victim)
    (kept,) = wait_state(b.bootstrap_servers, "s15", "MIRRORING", topic="s15-kept")
    assert kept.destination_offset == 30
    out = kafka_mirrors(b.bootstrap_servers, "--remove", "--mirror", "s15", "--topic", "s15.*")
    assert out.strip() == "Removed 2 topic(s) from mirror s15: [s15, s15-kept]"
    wait_state(b.bootstrap_servers, "s15", "STOPPED")
    kafka_mirrors(b.bootstrap_servers, "--delete", "--mirror", "s15")


# --- configs of mirrors


def test_d3_32_cfg1_an_altered_mirror_reconnects(clusters: Clusters) -> None:
    a, b = clusters
    create_topic(a.bootstrap_servers, "d3-32")
    produce(a.bootstrap_servers, "d3-32", numbered("a", 20))
    start_mirror(a, b, "d3-32", "d3-32")
    before = refresh_errors(b)
    set_configs(b, ConfigResourceType.MIRROR, "d3-32", bootstrap_servers="127.0.0.1:1")
    wait_for("failing refreshes", lambda: refresh_errors(b) >= before + 2)
    produce(a.bootstrap_servers, "d3-32", numbered("unseen", 10))
    (row,) = partitions_of(b.bootstrap_servers, "d3-32")
    assert (row.state, row.destination_offset) == ("MIRRORING", 20)
    set_configs(b, ConfigResourceType.MIRROR, "d3-32", bootstrap_servers=a.bootstrap_servers)
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "d3-32")
    assert log_of(a, "d3-32") == log_of(b, "d3-32")


def test_cfg2_cfg3_cfg4_syn19_filters_hold_from_the_next_cycle_on(clusters: Clusters) -> None:
    a, b = clusters
    create_topic(a.bootstrap_servers, "cfg2", retention_ms="777000", segment_ms="600000")
    produce(a.bootstrap_servers, "cfg2", numbered("a", 20))
    filters = {
        "bootstrap.servers": a.bootstrap_servers,
        "mirror.topic.properties.exclude": "retention\\..*",
        "mirror.groups.include": "cfg2-in.*",
        "mirror.acl.include": "TOPIC;nothing",
    }
    call(b.bootstrap_servers, lambda admin: admin.create_mirror("cfg2", filters))
    add(b.bootstrap_servers, "cfg2", "cfg2")
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "cfg2")
    for group in ("cfg2-in", "cfg2-out"):
        commit(a, group, "cfg2", 5)
    wait_for("the included group", lambda: committed(b, "cfg2-in", "cfg2") == 5)
    assert (overrides(b, "cfg2"), committed(b, "cfg2-out", "cfg2")) == ({"segment.ms": "600000"}, -1)
    set_configs(b, ConfigResourceType.MIRROR, "cfg2", mirror_topic_properties_exclude="x", mirror_groups_include="cfg2-.*")
    wait_for("the other group", lambda: committed(b, "cfg2-out", "cfg2") == 5)
    wait_for("retention.ms", lambda: overrides(b, "cfg2") == {"segment.ms": "600000", "retention.ms": "777000"})


def test_d3_35_another_cluster_at_the_sources_address_suspends_the_mirror(clusters: Clusters) -> None:
    a, b = clusters
    create_topic(a.bootstrap_servers, "d3-35", retention_ms="777000")
    produce(a.bootstrap_servers, "d3-35", numbered("a", 20))
    start_mirror(a, b, "d3-35", "d3-35")
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as other:
        create_topic(other.bootstrap_servers, "d3-35", 2, retention_ms="1")
        produce(other.bootstrap_servers, "d3-35", numbered("wrong", 50))
        before = refresh_errors(b)
        set_configs(b, ConfigResourceType.MIRROR, "d3-35", bootstrap_servers=other.bootstrap_servers)
        wait_for("refused refreshes", lambda: refresh_errors(b) >= before + 4)
        (row,) = partitions_of(b.bootstrap_servers, "d3-35")
        assert (row.state, row.destination_offset) == ("MIRRORING", 20)
        assert overrides(b, "d3-35") == {"retention.ms": "777000"}
        assert produce(b.bootstrap_servers, "d3-35", ["refused"])[0].code() == Errors.READ_ONLY_TOPIC
    set_configs(b, ConfigResourceType.MIRROR, "d3-35", bootstrap_servers=a.bootstrap_servers)
    produce(a.bootstrap_servers, "d3-35", numbered("more", 5))
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "d3-35")
    assert log_of(a, "d3-35") == log_of(b, "d3-35")


# --- groups


def poll_one(cluster: EmbeddedCluster, group: str, topic: str, **settings: str) -> tuple[int | None, KafkaError | None]:
    """Returns what a consumer of the group gets first: the offset of a record, or an error, which
    for the end of the partition has its offset.
    """
    values = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": group, "enable.auto.commit": "false"}
    consumer = Consumer(quiet(values | {key.replace("_", "."): value for key, value in settings.items()}))
    consumer.subscribe([topic])
    try:
        return wait_for("a record or an error", lambda: _poll(consumer))
    finally:
        consumer.close()


def _poll(consumer: Consumer) -> tuple[int | None, KafkaError | None] | None:
    message = consumer.poll(0.2)
    if message is None:
        return None
    error = message.error()
    is_end = error is not None and error.code() == KafkaError._PARTITION_EOF
    return (message.offset() if error is None or is_end else None), error


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_s11_c32_fm14_an_offset_beyond_the_end_is_kept_and_the_reset_policy_decides(clusters: Clusters, protocol: str) -> None:
    """Offset 100 is committed at the source, 80 records are mirrored, and B fails over."""
    a, b = clusters
    name = f"s11-{protocol}"
    create_topic(a.bootstrap_servers, name)
    produce(a.bootstrap_servers, name, numbered("a", 80))
    commit(a, name, name, 100)
    start_mirror(a, b, name, name)
    wait_for("the synced offset", lambda: committed(b, name, name) == 100)
    end_mirror(b, name, name)
    assert committed(b, name, name) == 100
    offset, error = poll_one(b, name, name, group_protocol=protocol, auto_offset_reset="error")
    assert offset is None and error is not None and error.code() == KafkaError._AUTO_OFFSET_RESET
    assert "out of range" in str(error).lower()
    end, eof = poll_one(b, name, name, group_protocol=protocol, auto_offset_reset="latest", enable_partition_eof="true")
    assert eof is not None and (end, eof.code()) == (81, KafkaError._PARTITION_EOF)


def test_syn14_group_offsets_reach_coordinators_on_all_brokers(clusters: Clusters) -> None:
    """The coordinators of twelve groups are spread over the three brokers, one of which owns the
    sync.
    """
    a, b = clusters
    create_topic(a.bootstrap_servers, "syn14", 2)
    produce(a.bootstrap_servers, "syn14", numbered("a", 20))
    groups = [f"syn14-{number}" for number in range(12)]
    for number, group in enumerate(groups):
        commit(a, group, "syn14", number, partition=number % 2)
    start_mirror(a, b, "syn14", "syn14")

    def synced() -> bool:
        return [committed(b, group, "syn14", number % 2) for number, group in enumerate(groups)] == list(range(12))

    wait_for("all groups", synced)
    end_mirror(b, "syn14", "syn14")
    commit(a, groups[0], "syn14", 17)
    create_topic(a.bootstrap_servers, "syn14-still")
    add(b.bootstrap_servers, "syn14", "syn14-still")
    commit(a, groups[1], "syn14-still", 3)
    wait_for("a later cycle", lambda: committed(b, groups[1], "syn14-still") == 3)
    assert committed(b, groups[0], "syn14") == 0


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_c18_syn14_a_group_with_members_here_keeps_its_offsets_until_they_leave(clusters: Clusters, protocol: str) -> None:
    a, b = clusters
    name = f"c18-{protocol}"
    create_topic(a.bootstrap_servers, name)
    produce(a.bootstrap_servers, name, numbered("a", 40))
    commit(a, name, name, 5)
    start_mirror(a, b, name, name)
    wait_for("the synced offset", lambda: committed(b, name, name) == 5)
    settings = {"bootstrap.servers": b.bootstrap_servers, "group.id": name, "group.protocol": protocol, "enable.auto.commit": False}
    consumer = Consumer(quiet(settings))
    consumer.subscribe([name])
    message = wait_for("a record of the mirror topic", lambda: consumer.poll(0.2))
    assert message.error() is None and message.offset() == 5
    consumer.commit(asynchronous=False)
    commit(a, name, name, 30)
    commit(a, f"{name}-marker", name, 1)
    wait_for("a cycle that saw it", lambda: consumer.poll(0.05) is not None and committed(b, f"{name}-marker", name) == 1)
    assert committed(b, name, name) == 6
    consumer.close()
    wait_for("the source's offset", lambda: committed(b, name, name) == 30)


# --- compaction


def test_s12_a_tombstone_that_was_not_mirrored_at_failover_is_gone_for_good(clusters: Clusters, tmp_path: pathlib.Path) -> None:
    """A key is at offset 3 and its tombstone at 100. After 50 mirrored records, a failover and a
    failback, the key stays on both sides, as follows from the KIP (C31).
    """
    a, b = clusters
    create_topic(a.bootstrap_servers, "s12", cleanup_policy="compact")
    keys = [f"k{number}" for number in range(50)]
    keys[3] = "ghost"
    produce_keyed(a, "s12", [(key, "value") for key in keys])
    start_mirror(a, b, "s12", "s12")
    end_mirror(b, "s12", "s12")
    produce_keyed(a, "s12", [(f"late{number}", "value") for number in range(50)] + [("ghost", None)])
    assert [row for row in rows_of(a, "s12") if row[1] == b"ghost"] == [(3, b"ghost", b"value"), (100, b"ghost", None)]
    create_mirror(a.bootstrap_servers, "s12", b.bootstrap_servers)
    add(a.bootstrap_servers, "s12", "s12")
    wait_caught_up(a.bootstrap_servers, b.bootstrap_servers, "s12")
    wait_for("equal logs", lambda: log_of(a, "s12") == log_of(b, "s12"))
    for cluster in clusters:
        assert [row for row in rows_of(cluster, "s12") if row[1] == b"ghost"] == [(3, b"ghost", b"value")]


def produce_keyed(cluster: EmbeddedCluster, topic: str, rows: list[tuple[str, str | None]]) -> None:
    producer = Producer(quiet({"bootstrap.servers": cluster.bootstrap_servers}))
    for key, value in rows:
        producer.produce(topic, key=key, value=value)
    assert producer.flush(REACHED_S) == 0


def rows_of(cluster: EmbeddedCluster, topic: str) -> list[tuple[int, bytes | None, bytes | None]]:
    """Returns offset, key and value of the data records of partition 0."""
    return [
        (record.offset, record.key, record.value)
        for batch in iter_batches(log_of(cluster, topic))
        if not batch.is_control
        for record in batch.records()
    ]


def test_topic_partitions_of_the_tests_are_whole(clusters: Clusters) -> None:
    """No partition of any mirror in the tests above has failed."""
    _, b = clusters
    names = [listing.mirror_name for listing in call(b.bootstrap_servers, lambda admin: admin.list_mirrors())]
    failed = [
        TopicPartition(row.topic, row.partition)
        for name in names
        for row in partitions_of(b.bootstrap_servers, name)
        if row.state == "FAILED"
    ]
    assert failed == []
