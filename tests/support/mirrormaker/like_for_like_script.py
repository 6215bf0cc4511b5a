"""The workload that `test_mm2_like_for_like` copies: what a source holds before the programs begin, and
what happens to it while they run.

Everything is such that its outcome at a target is determined. A topic is compacted before anything is
copied, then no more. Groups commit where an offset sync must be: behind the last record of a
partition; or at its first if that was copied alone, for a task drops syncs while ten are on their way.
What they commit in between (BETWEEN) may be translated to an earlier offset, never to a later one.
"""

from __future__ import annotations

from collections.abc import Mapping

import confluent_kafka as ck
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    NewPartitions,
    ResourcePatternType,
    ResourceType,
)

from kmirror.admin.results import ConfigOperation, ConfigResourceType
from kmirror.mirrormaker.formats import Heartbeat
from support.mirrormaker.compared_programs import Cluster, Records, wait_until
from support.mirrormaker.logs_compared import (
    CODECS,
    EPOCH_MS,
    QUIET,
    make_topics,
    produce,
    produce_transactions,
    read,
    read_topics,
    rows,
)
from support.mirrors.mirror_harness import call
from support.waiting import REACHED_S

BROKER = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.backoff.ms": "100",
    "auto.create.topics.enable": "false",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""Of each cluster. All connections are the super user's. A consumer that still asks for a topic that was
deleted must not make it."""
COPIED = "orders, money, bills, later, state, stamped, trimmed, empty, again, my.tight, open"
AT_FIRST = {
    "orders": 3,
    "money": 1,
    "bills": 2,
    "state": 2,
    "stamped": 1,
    "trimmed": 1,
    "empty": 1,
    "again": 1,
    "my.tight": 1,
    "open": 1,
    "heartbeats": 1,
}
AT_LAST = AT_FIRST | {"orders": 5, "later": 2}
ADDED = {("later", 0), ("later", 1), ("orders", 3), ("orders", 4)}
WITHOUT_SYNCS = {("empty", 0)}
TRIMMED, AGAIN = 40, 30
"""So many records of the topic trimmed were deleted, and of the topic again before it was made anew."""
RECORDS = 60
"""Of each partition of the compacted topic, before they were compacted."""

MOVED = {("orders", 1): 400, ("orders", 3): 101, ("money", 0): 144, ("later", 1): 120}
BETWEEN = {("orders", 0): 0, ("bills", 0): 101, ("orders", 2): 250}
"""Which of the syncs between the first and the last are written depends on how many are on their way."""
LIVELY, BACK, GONE, NEW, BEYOND = "shop", "cart", "gone", "kip-848", "beyond"
"""Groups: one that goes on, one that is reset to the beginning, one that is deleted, a consumer group of
KIP-848's protocol, and one that is beyond the end. The others are classic. The first also commits where
no sync can be: in an empty partition, and before the first record that was copied."""
ADDED_RULE = ("later", "User:late")

TOPIC = ConfigResourceType.TOPIC
LITERAL, PREFIXED = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY


def fill(cluster: Cluster, open_transactions: list[ck.Producer]) -> None:
    """All codecs, headers, nulls, transactions, of which one stays open, times of the broker, a batch that the topic would not take
    any more, configs, access rules, a heartbeat that came from elsewhere.
    """
    servers = cluster.servers
    alter_configs(servers, ConfigResourceType.BROKER, "", {"log.retention.ms": "7200000000"})
    make_topics(servers, {"orders": 3}, {"retention.ms": "864000000", "max.message.bytes": "2000000", "flush.ms": "90000"})
    make_topics(servers, {"money": 1}, {"min.insync.replicas": "1", "segment.bytes": "2000000", "compression.type": "producer"})
    make_topics(servers, {"bills": 2}, {"cleanup.policy": "compact", "min.compaction.lag.ms": "86400000"})
    make_topics(servers, {"stamped": 1}, {"message.timestamp.type": "LogAppendTime"})
    make_topics(servers, {"heartbeats": 1}, {"cleanup.policy": "compact"})
    make_topics(servers, {"empty": 1, "again": 1, "trimmed": 1}, {"cleanup.policy": "delete,compact", "min.compaction.lag.ms": "86400000"})
    for number, codec in enumerate(CODECS):
        produce(servers, "orders", 180, partitions=3, first=180 * number, codec=codec)
        produce(servers, "bills", 100, partitions=2, first=100 * number, codec=codec, keyed=True)
        produce(servers, "stamped", 20, first=20 * number, codec=codec)
    produce_transactions(servers, "money", 24)
    produce(servers, "trimmed", 100, codec="gzip", keyed=True)
    produce(servers, "again", AGAIN, keyed=True)
    for future in cluster.admin.delete_records([ck.TopicPartition("trimmed", 0, TRIMMED)]).values():
        future.result(REACHED_S)
    make_topics(servers, {"open": 1})
    produce(servers, "open", 5)
    writer = ck.Producer({"bootstrap.servers": servers, "transactional.id": "open", "transaction.timeout.ms": 900_000, **QUIET})
    writer.init_transactions(REACHED_S)
    writer.begin_transaction()
    for number in range(5):
        writer.produce("open", b"not committed %d" % number, timestamp=EPOCH_MS)
    assert writer.flush(REACHED_S) == 0
    open_transactions.append(writer)
    make_topics(servers, {"my.tight": 1})
    _Writer(servers).send("my.tight", [(0, b"k", b"%d" % number * 500, EPOCH_MS) for number in range(100)])
    alter_configs(servers, TOPIC, "my.tight", {"max.message.bytes": "20000"})
    beat = Heartbeat("elsewhere", "here", EPOCH_MS)
    _Writer(servers).send("heartbeats", [(0, beat.record_key, beat.record_value, EPOCH_MS)])
    add_rules(
        cluster,
        [
            _rule("orders", "User:reader", AclOperation.READ),
            _rule("orders", "User:far-reader", AclOperation.READ, host="10.1.2.3"),
            _rule("orders", "User:writer", AclOperation.WRITE),
            _rule("orders", "User:owner", AclOperation.ALL),
            _rule("orders", "User:nobody", AclOperation.ALL, DENY),
            _rule("money", "User:writer", AclOperation.WRITE, DENY),
            _rule("money", "User:*", AclOperation.DESCRIBE),
            _rule("money", "User:keeper", AclOperation.ALTER_CONFIGS),
            _rule("*", "User:auditor", AclOperation.READ),
            _rule("bills", "User:gone", AclOperation.READ),
            _rule("not-copied", "User:reader", AclOperation.READ),
            _rule("ord", "User:prefixed", AclOperation.READ, pattern=PREFIXED),
            AclBinding(ResourceType.GROUP, "shop", LITERAL, "User:reader", "*", AclOperation.READ, ALLOW),
        ],
    )


def compact(cluster: Cluster) -> None:
    """Fills a compacted topic, tombstones included, and waits until the cleaner has left gaps. Then
    nothing more is compacted, at the target neither, which gets the same configs.
    """
    settings = {"cleanup.policy": "compact", "segment.ms": "60000", "min.cleanable.dirty.ratio": "0.01"}
    make_topics(cluster.servers, {"state": 2}, settings)
    newest = {_key(number): number for number in range(RECORDS)}
    kept = {partition: [*sorted(newest.values()), RECORDS] for partition in range(2)}
    producer = _Writer(cluster.servers)
    for first in range(0, RECORDS, 10):
        values = {number: None if number % 5 == 4 else b"%d" % number for number in range(first, first + 10)}
        producer.send(
            "state", [(partition, _key(number), value, EPOCH_MS + number) for number, value in values.items() for partition in kept]
        )
    producer.send("state", [(partition, b"next segment", b"", EPOCH_MS + 1_800_000) for partition in kept])
    wait_until(
        f"{cluster.name} has compacted",
        lambda: {number: [offset for offset, _ in found] for number, found in read(cluster.servers, "state", 2).items()} == kept,
    )
    alter_configs(cluster.servers, TOPIC, "state", {"min.compaction.lag.ms": "86400000"})


def _key(number: int) -> bytes:
    """One of six. What is compacted away lies within batches, too."""
    return b"k%d" % (number * number % 11)


def change_topics(cluster: Cluster) -> None:
    """A topic and partitions come while both run, and a topic goes. Tasks begin anew for them, so that
    nothing else may be on its way.
    """
    for future in cluster.admin.delete_topics(["again"]).values():
        future.result(REACHED_S)
    make_topics(cluster.servers, {"later": 2}, {"retention.bytes": "123456789"})
    cluster.admin.create_partitions([NewPartitions("orders", 5)])["orders"].result(REACHED_S)
    wait_until("topics have changed", lambda: "again" not in cluster.topics() and cluster.topics()["orders"] == 5)


def begin_partitions(cluster: Cluster) -> None:
    """Each partition that was added gets its first record."""
    produce(cluster.servers, "later", 2, partitions=2)
    produce(cluster.servers, "orders", 2, partitions=5, first=903)


def make_again(cluster: Cluster) -> None:
    """The topic that was deleted."""
    make_topics(cluster.servers, {"again": 1}, {"cleanup.policy": "delete,compact", "min.compaction.lag.ms": "86400000"})


def fill_again(cluster: Cluster) -> None:
    """With fewer records than it had."""
    produce(cluster.servers, "again", 10, first=500, keyed=True)


def change(cluster: Cluster) -> None:
    """More comes while both run: records; configs are changed, and go back to their defaults; access
    rules come and go.
    """
    servers = cluster.servers
    alter_configs(servers, TOPIC, "orders", {"retention.ms": "123456789", "segment.index.bytes": "65536"}, "flush.ms")
    alter_configs(servers, TOPIC, "money", {"delete.retention.ms": "5000"}, "segment.bytes")
    removed = AclBindingFilter(ResourceType.TOPIC, "bills", LITERAL, "User:gone", None, AclOperation.ANY, AclPermissionType.ANY)
    for future in cluster.admin.delete_acls([removed]).values():
        assert future.result(REACHED_S)
    topic, user = ADDED_RULE
    add_rules(cluster, [_rule(topic, user, AclOperation.ALL), _rule(topic, user, AclOperation.DELETE, DENY, host="10.1.2.3")])
    produce(servers, "later", 238, partitions=2, first=2, codec="zstd")
    produce(servers, "orders", 500, partitions=5, first=905, codec="lz4")
    produce(servers, "stamped", 20, first=100)
    _Writer(servers).send("state", [(0, b"another", b"key", EPOCH_MS + 1_800_001)])


def has_changed(configs: Mapping[str, tuple[int, Mapping[str, str]]]) -> bool:
    """Whether the configs of a target are those after `change`. What went back to its default has that
    of the source, or none.
    """
    orders, money = configs["orders"][1], configs["money"][1]
    changed = orders.get("retention.ms") == "123456789" and money.get("delete.retention.ms") == "5000"
    return changed and orders.get("flush.ms") != "90000" and money.get("segment.bytes") != "2000000"


def begin_groups(cluster: Cluster) -> None:
    servers = cluster.servers
    commit(servers, LIVELY, {("orders", 1): 100, ("orders", 0): 0})
    commit_as_member(servers, BACK, {("later", 1): 120, ("bills", 1): 250}, protocol="classic")
    commit(servers, GONE, {("orders", 4): 101})
    commit_as_member(servers, NEW, {("later", 0): 0, ("later", 1): 120}, protocol="consumer")


def move_groups(cluster: Cluster) -> None:
    """One goes forwards, one back to the beginning, one is deleted."""
    servers = cluster.servers
    commit(servers, LIVELY, MOVED | BETWEEN | dict.fromkeys(WITHOUT_SYNCS, 0) | {("trimmed", 0): TRIMMED // 2})
    commit(servers, BEYOND, {("orders", 3): 1000, ("trimmed", 0): 100, ("my.tight", 0): 100})
    commit(servers, BACK, {("later", 1): 0})
    for future in cluster.admin.delete_consumer_groups([GONE]).values():
        future.result(REACHED_S)


AT_TARGET = {
    BACK: {("later", 1): 120, ("bills", 1): 250},
    GONE: {("orders", 4): 101},
    NEW: {("later", 0): 0, ("later", 1): 120},
}
"""Offsets there after `begin_groups`. They stay, for none goes back there."""


def moved(isolation: str) -> dict[str, dict[tuple[str, int], int]]:
    """Offsets at the target after `move_groups`, where they are determined."""
    money = 80 if isolation == "read_committed" else 120
    beyond = {("orders", 3): 101, ("trimmed", 0): 100 - TRIMMED, ("my.tight", 0): 100}
    return AT_TARGET | {LIVELY: MOVED | {("money", 0): money}, BEYOND: beyond}


def wanted(cluster: Cluster, topics: Mapping[str, int]) -> dict[str, Records]:
    """By isolation level, the records of the source, without their offsets."""
    levels = ("read_committed", "read_uncommitted")
    return {
        level: {topic: rows(found) for topic, found in read_topics(cluster.servers, topics, isolation=level).items()} for level in levels
    }


# Tools


def alter_configs(servers: str, kind: ConfigResourceType, name: str, added: Mapping[str, str], *deleted: str) -> None:
    """An empty name stands for the defaults of all brokers."""
    changes = [(one, ConfigOperation.SET, value) for one, value in added.items()] + [(one, ConfigOperation.DELETE, None) for one in deleted]
    call(servers, lambda admin: admin.incremental_alter_configs(kind, name, changes))


def add_rules(cluster: Cluster, rules: list[AclBinding]) -> None:
    for future in cluster.admin.create_acls(rules).values():
        future.result(REACHED_S)


def _rule(
    topic: str,
    user: str,
    operation: AclOperation,
    permission: AclPermissionType = ALLOW,
    *,
    host: str = "*",
    pattern: ResourcePatternType = LITERAL,
) -> AclBinding:
    return AclBinding(ResourceType.TOPIC, topic, pattern, user, host, operation, permission)


class _Writer:
    """A producer whose every `send` is a batch of each partition."""

    def __init__(self, servers: str) -> None:
        self._producer = ck.Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 20, **QUIET})
        self._refused: list[object] = []

    def send(self, topic: str, records: list[tuple[int, bytes, bytes | None, int]]) -> None:
        for partition, key, value, timestamp in records:
            self._producer.produce(topic, value, key, partition=partition, timestamp=timestamp, on_delivery=self._delivered)
        assert self._producer.flush(REACHED_S) == 0
        assert not self._refused, self._refused

    def _delivered(self, error: object, _message: object) -> None:
        if error:
            self._refused.append(error)


def commit(servers: str, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """As a consumer that is no member of the group."""
    consumer = ck.Consumer({"bootstrap.servers": servers, "group.id": group, "enable.auto.commit": False, **QUIET})
    consumer.commit(offsets=_positions(group, offsets), asynchronous=False)
    consumer.close()


def commit_as_member(servers: str, group: str, offsets: Mapping[tuple[str, int], int], *, protocol: str) -> None:
    """As the only member of a group of that protocol."""
    settings = {"bootstrap.servers": servers, "group.id": group, "group.protocol": protocol, "enable.auto.commit": False}
    consumer = ck.Consumer({**settings, "auto.offset.reset": "latest", **QUIET})
    consumer.subscribe([*{topic for topic, _ in offsets}])

    def has_partitions() -> bool:
        consumer.poll(0.1)
        return {(one.topic, one.partition) for one in consumer.assignment()} >= set(offsets)

    wait_until(f"{group} has its partitions", has_partitions)
    consumer.commit(offsets=_positions(group, offsets), asynchronous=False)
    consumer.close()


def _positions(group: str, offsets: Mapping[tuple[str, int], int]) -> list[ck.TopicPartition]:
    return [ck.TopicPartition(topic, number, offset, metadata=f"of {group}") for (topic, number), offset in offsets.items()]
