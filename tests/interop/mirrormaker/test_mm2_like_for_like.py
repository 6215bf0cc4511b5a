"""Apache Kafka's MirrorMaker 2 and `connect-mirror-maker`, one workload, one source, a target each:
what is determined is equal.

Both copy from the same Apache broker at the same time. Target topics are equal record by record,
with their partitions, headers and times; so are topics' configs, the newest offset sync of each
partition, the offsets that Connect stores, and the checkpoints and offsets of a group that has read
everything. What a group in between gets skips no record, in both.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, ResourceType
from support.mirrormaker.logs_compared import CODECS, make_topics, produce, produce_transactions, read
from support.mirrormaker.mirror_makers import (
    MirrorMakerProcess,
    all_syncs,
    apache_mirror_maker_2,
    commit,
    committed,
    copied,
    count_of,
    last_checkpoints,
    our_mirror_maker_2,
    own_configs,
    properties,
    stored_offsets,
    topics_of,
)
from support.peers.peers import KafkaPeer, apache_kafka
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.mirrormaker.formats import Heartbeat

pytestmark = pytest.mark.interop

ONE_REPLICA = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
BROKER = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
PARTITIONS = {"orders": 5, "money": 1, "bills": 2, "later": 2}
MOVED = {("orders", 1): 400, ("orders", 3): 100, ("money", 0): 143, ("later", 1): 120}
BETWEEN = {("orders", 0): 0, ("bills", 0): 101, ("orders", 2): 250}
"""Which of the syncs between the first and the last are written depends on how many are on their way."""
SETTINGS = {"offset.lag.max": "10"}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaPeer]:
    with apache_kafka(tmp_path_factory.mktemp("apache"), properties=ONE_REPLICA) as running:
        yield running


def fill(servers: str) -> None:
    """What is there before MirrorMaker begins: all codecs, headers, nulls, transactions, configs."""
    make_topics(servers, {"orders": 3}, {"retention.ms": "864000000", "max.message.bytes": "2000000"})
    make_topics(servers, {"money": 1}, {"min.insync.replicas": "1", "segment.bytes": "2000000"})
    make_topics(servers, {"bills": 2}, {"cleanup.policy": "compact"})
    for number, codec in enumerate(CODECS):
        produce(servers, "orders", 180, partitions=3, first=180 * number, codec=codec)
        produce(servers, "bills", 100, partitions=2, first=100 * number, codec=codec, keyed=True)
    produce_transactions(servers, "money", 24)


def change(servers: str) -> None:
    """What comes while both run: a topic, partitions, records, a config."""
    make_topics(servers, {"later": 2})
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    admin.create_partitions([NewPartitions("orders", 5)])["orders"].result(REACHED_S)
    entry = ConfigEntry("retention.ms", "123456789", incremental_operation=AlterConfigOpType.SET)
    for future in admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, "orders", incremental_configs=[entry])]).values():
        future.result(REACHED_S)
    produce(servers, "later", 240, partitions=2, codec="zstd")
    produce(servers, "orders", 500, partitions=5, first=900, codec="lz4")


def wanted(servers: str, topics: dict[str, int]) -> dict[str, dict[int, list]]:
    """Committed records of the source, without their offsets."""
    return {
        topic: {number: [row for _, row in rows] for number, rows in read(servers, topic, count, isolation="read_committed").items()}
        for topic, count in topics.items()
    }


def arrived(servers: str, topics: dict[str, int]) -> dict[str, dict[int, list]]:
    found = {}
    for topic, count in topics.items():
        records = copied(servers, f"A.{topic}", count)
        found[topic] = {number: [row for _, row in rows] for number, rows in records.items()}
        assert all([offset for offset, _ in rows] == list(range(len(rows))) for rows in records.values()), f"gaps in A.{topic}"
    return found


def test_both_leave_the_same(tmp_path: pathlib.Path, source: KafkaPeer) -> None:
    a = source.bootstrap_servers
    fill(a)
    settings = SETTINGS | {"topics": "orders, money, bills, later", "groups": "shop", "A.consumer.isolation.level": "read_committed"}
    with EmbeddedCluster(config=BROKER) as theirs, EmbeddedCluster(config=BROKER) as ours:
        targets = {"theirs": theirs.bootstrap_servers, "ours": ours.bootstrap_servers}
        files = {name: properties(("A", name), (a, servers), settings) for name, servers in targets.items()}
        with (
            apache_mirror_maker_2(tmp_path / "theirs", files["theirs"]) as apache,
            our_mirror_maker_2(tmp_path / "ours", files["ours"]) as kmirror,
        ):
            programs = {"theirs": apache, "ours": kmirror}
            first = {"orders": 3, "money": 1, "bills": 2}
            _until_equal(programs, targets, wanted(a, first), first)
            change(a)
            _until_equal(programs, targets, wanted(a, PARTITIONS), PARTITIONS)
            commit(a, "shop", MOVED | BETWEEN)
            expected = {(f"A.{topic}", number): 80 if topic == "money" else offset for (topic, number), offset in MOVED.items()}
            between = [(f"A.{topic}", number) for topic, number in BETWEEN]
            for name, program in programs.items():
                servers = targets[name]
                program.until("the changed config", lambda: own_configs(servers, "A.orders")["retention.ms"] == "123456789")
                program.until(f"the group at {expected}", lambda: committed(servers, "shop", [*expected]) == expected)
                for (topic, number), offset in committed(servers, "shop", between).items():
                    assert 0 <= offset <= BETWEEN[topic.removeprefix("A."), number], (name, topic, number, offset)
            for program in programs.values():
                assert program.stop() in (0, 143), program.log[-4000:]
        _compare(a, targets)


def _until_equal(
    programs: dict[str, MirrorMakerProcess], targets: dict[str, str], records: dict[str, dict[int, list]], topics: dict[str, int]
) -> None:
    for name, servers in targets.items():
        for topic, by_partition in records.items():
            expected = sum(map(len, by_partition.values()))
            programs[name].until(f"A.{topic}", lambda: count_of(servers, f"A.{topic}", topics[topic]) >= expected)
        assert arrived(servers, topics) == records, name


def _compare(a: str, targets: dict[str, str]) -> None:
    names = [topics_of(servers) for servers in targets.values()]
    theirs, ours = (
        {name: count for name, count in one.items() if not name.startswith(("mm2-configs", "mm2-status", "__"))} for one in names
    )
    assert ours == theirs
    for topic in ours:
        assert own_configs(targets["ours"], topic) == own_configs(targets["theirs"], topic), topic
    syncs = {name: all_syncs(a, f"mm2-offset-syncs.{name}.internal") for name in targets}
    syncs = {name: {key: rows for key, rows in one.items() if not key.startswith("heartbeats")} for name, one in syncs.items()}
    assert {key: rows[-1] for key, rows in syncs["ours"].items()} == {key: rows[-1] for key, rows in syncs["theirs"].items()}
    stored = {name: _stored(name, servers) for name, servers in targets.items()}
    assert {connector for connector, _ in stored["theirs"]} == {f"Mirror{name}Connector" for name in ("Source", "Checkpoint", "Heartbeat")}
    assert stored["ours"] == stored["theirs"]
    checkpoints = {name: last_checkpoints(servers, "A.checkpoints.internal") for name, servers in targets.items()}
    for topic, number in MOVED:
        key = ("shop", f"A.{topic}-{number}")
        assert checkpoints["ours"][key] == checkpoints["theirs"][key], key
    for name, servers in targets.items():
        beats = [Heartbeat.deserialize_record(row.key, row.value) for _, row in copied(servers, "heartbeats", 1)[0]]
        assert beats and all((beat.source_cluster_alias, beat.target_cluster_alias) == ("A", name) for beat in beats)


def _stored(alias: str, servers: str) -> dict[tuple[str, bytes], int | None]:
    """Connect's offsets by connector and key, but for checkpoints that need not be there."""
    found: dict[tuple[str, bytes], int | None] = {}
    for key, offset in stored_offsets(servers, "mm2-offsets.A.internal", 3).items():
        connector, source = json.loads(key)
        place = source.get("topic", "").removeprefix("A."), source.get("partition")
        if connector != "MirrorCheckpointConnector" or place not in BETWEEN:
            found[connector, key.replace(alias.encode(), b"target")] = offset
    return found
