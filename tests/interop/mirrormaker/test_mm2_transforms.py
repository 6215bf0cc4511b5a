"""Apache Kafka's MirrorMaker 2 and `connect-mirror-maker` with the same transformations: one workload, the same
topics behind them.

Tombstones of one topic are dropped, topics get another name, and each record a header. The topics that records
are routed to are made as `topic.creation.*` says. Target topics are
equal record by record, and so are heartbeats, which the same transformations work on. Without exactly-once
support, the newest offset sync and checkpoint of each partition are equal, too, and where a group goes on; with
it, which syncs there are depends on when transactions end.

`KMIRROR_BROKEN="transforms=route"`, without a flow's name before it, gives our program such a setting of the
flow: then the test must fail.
"""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient
from support.mirrormaker.compared_programs import APACHES, OURS, Cluster, Copy, Flow, Programs, properties_of
from support.mirrormaker.embedded_flows import config_of
from support.mirrormaker.logs_compared import QUIET, Row, is_dense, make_topics, produce, read, rows
from support.mirrormaker.mirror_makers import apache_mirror_maker_2, our_mirror_maker_2
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.mirrormaker.formats import Checkpoint, OffsetSync

pytestmark = pytest.mark.interop

BROKER = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
PACKAGE = "org.apache.kafka.connect.transforms."
TOPICS = {"orders": 2, "parcels": 2}
ROUTED = {f"via.{name}": count for name, count in TOPICS.items()}
CHAIN = {
    "transforms": "dead,drop,route,mark",
    "transforms.dead.type": f"{PACKAGE}RegexRouter",
    "transforms.dead.regex": r"(.*)\.orders",
    "transforms.dead.replacement": "$1.dead",
    "transforms.dead.predicate": "tombstone",
    "transforms.drop.type": f"{PACKAGE}Filter",
    "transforms.drop.predicate": "dead",
    "transforms.route.type": f"{PACKAGE}RegexRouter",
    "transforms.route.regex": r"(.*)\.(orders|parcels)",
    "transforms.route.replacement": "$1.via.$2",
    "transforms.mark.type": f"{PACKAGE}InsertHeader",
    "transforms.mark.header": "team",
    "transforms.mark.value.literal": "red",
    "predicates": "tombstone,dead",
    "predicates.tombstone.type": f"{PACKAGE}predicates.RecordIsTombstone",
    "predicates.dead.type": f"{PACKAGE}predicates.TopicNameMatches",
    "predicates.dead.pattern": r".*\.dead",
    "header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter",
}
MADE = {
    "topic.creation.groups": "parcels,none",
    "topic.creation.default.replication.factor": "1",
    "topic.creation.default.partitions": "2",
    "topic.creation.default.include": "nothing",
    "topic.creation.default.retention.ms": "777",
    "topic.creation.parcels.include": r".*\.via\..*",
    "topic.creation.parcels.exclude": r".*\.orders",
    "topic.creation.parcels.segment.ms": "888888",
    "topic.creation.none.partitions": "9",
}
"""The topics that records are routed to are made as each program reads this."""
MADE_CONFIGS = ("retention.ms", "segment.ms")
SETTINGS = {"topics": "orders, parcels", "groups": "end", "offset.lag.max": "10"}
BROKEN = dict(one.split("=", 1) for one in os.environ.get("KMIRROR_BROKEN", "").split() if one)


def commit_ends(servers: str) -> None:
    """A group that has read everything."""
    consumer = ck.Consumer({"bootstrap.servers": servers, "group.id": "end", **QUIET})
    places = [ck.TopicPartition(name, number) for name, count in TOPICS.items() for number in range(count)]
    for place in places:
        place.offset = consumer.get_watermark_offsets(place, timeout=REACHED_S)[1]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def wanted(servers: str) -> dict[str, dict[int, list[Row]]]:
    """The source's records behind the chain, but for their headers, which Apache's program turns into text."""
    found = {f"via.{name}": rows(read(servers, name, count)) for name, count in TOPICS.items()}
    found["via.orders"] = {number: [row for row in log if row.value is not None] for number, log in found["via.orders"].items()}
    return {topic: {number: [row._replace(headers=()) for row in log] for number, log in logs.items()} for topic, logs in found.items()}


def without_headers(logs: dict[int, list[Row]]) -> dict[int, list[Row]]:
    return {number: [row._replace(headers=()) for row in log] for number, log in logs.items()}


@pytest.mark.parametrize("support", ["disabled", "enabled"])
def test_both_make_the_same_of_each_record(tmp_path: pathlib.Path, support: str) -> None:
    with EmbeddedCluster(config=BROKER) as source, EmbeddedCluster(config=BROKER) as target:
        a, b = source.bootstrap_servers, target.bootstrap_servers
        flow = Flow(Cluster("a", a), Cluster("b", b), CHAIN | MADE, {"exactly.once.source.support": support})
        make_topics(a, TOPICS)
        for first in (0, 150):
            for name in TOPICS:
                produce(a, name, 150, partitions=2, first=first)
        commit_ends(a)
        files = {program: properties_of([flow], program, SETTINGS) for program in (APACHES, OURS)}
        broken = {f"{Copy(flow, OURS)}.{name}": value for name, value in BROKEN.items()}
        with (
            apache_mirror_maker_2(tmp_path / "theirs", files[APACHES]) as apaches,
            our_mirror_maker_2(tmp_path / "ours", files[OURS] | broken) as ours,
        ):
            programs = Programs({APACHES: apaches, OURS: ours}, [flow])
            expected = wanted(a)
            programs.until_copied({"a": {"read_uncommitted": expected}})
            if not flow.is_exactly_once:
                ends = {
                    (topic.removeprefix("via."), number): len(log) - 1 for topic, logs in expected.items() for number, log in logs.items()
                }
                programs.until("syncs of the ends", lambda copy: newest(copy) == ends)
                programs.until("checkpoints", lambda copy: len(copy.checkpoints()) == 4 and len(copy.group_offsets("end")) == 4)
            programs.until("heartbeats", lambda copy: len(copy.heartbeats()) > 2)
            programs.stop()
        compare(Copy(flow, APACHES), Copy(flow, OURS), expected)


TOLERANT = {
    "transforms": "bad",
    "transforms.bad.type": f"{PACKAGE}ReplaceField$Value",
    "transforms.bad.predicate": "parcels",
    "predicates": "parcels",
    "predicates.parcels.type": f"{PACKAGE}predicates.TopicNameMatches",
    "predicates.parcels.pattern": r".*\.parcels",
    "errors.tolerance": "all",
    "producer.override.max.request.size": "130",
}


def test_both_skip_the_same_records_with_tolerance(tmp_path: pathlib.Path) -> None:
    """Of parcels, each record that is no tombstone fails; of orders, the producer takes only small ones."""
    with EmbeddedCluster(config=BROKER) as source, EmbeddedCluster(config=BROKER) as target:
        a, b = source.bootstrap_servers, target.bootstrap_servers
        flow = Flow(Cluster("a", a), Cluster("b", b), TOLERANT)
        copies = [Copy(flow, program) for program in (APACHES, OURS)]
        make_topics(a, TOPICS)
        for name in TOPICS:
            produce(a, name, 200, partitions=2)
        files = {program: properties_of([flow], program, SETTINGS) for program in (APACHES, OURS)}
        with (
            apache_mirror_maker_2(tmp_path / "theirs", files[APACHES]) as apaches,
            our_mirror_maker_2(tmp_path / "ours", files[OURS]) as ours,
        ):
            programs = Programs({APACHES: apaches, OURS: ours}, [flow])
            programs.until("offsets of what was read", lambda copy: stored_ends(copy) >= STORED.items())
            programs.stop()
        logs = [{topic: rows(log) for topic, log in copy.records(TOPICS).items()} for copy in copies]
        assert logs[0] == logs[1]
        at_source = {name: rows(read(a, name, count)) for name, count in TOPICS.items()}
        assert logs[1]["parcels"] == {number: [row for row in log if row.value is None] for number, log in at_source["parcels"].items()}
        counts = [len(logs[1]["orders"][number]) for number in range(2)]
        assert all(10 < count < 90 for count in counts), f"{counts} of 100 and 100 orders were small"
        assert dict(copies[0].syncs()).keys() == dict(copies[1].syncs()).keys()


def test_both_skip_the_same_records_with_tolerance_alone(tmp_path: pathlib.Path) -> None:
    """Our program copies whole batches until it meets one with a record that is too large for the producer."""
    alone = {"errors.tolerance": "all", "producer.override.max.request.size": "1000"}
    with EmbeddedCluster(config=BROKER) as source, EmbeddedCluster(config=BROKER) as target:
        a, b = source.bootstrap_servers, target.bootstrap_servers
        flow = Flow(Cluster("a", a), Cluster("b", b), alone)
        make_topics(a, {"orders": 1})
        produce(a, "orders", 70)
        large = ck.Producer({"bootstrap.servers": a, "linger.ms": 500, **QUIET})
        for number in range(30):
            large.produce("orders", b"%d" % number * (1_000 if number % 10 == 4 else 1), key=b"k", partition=0)
        assert large.flush(REACHED_S) == 0
        files = {program: properties_of([flow], program, SETTINGS) for program in (APACHES, OURS)}
        with (
            apache_mirror_maker_2(tmp_path / "theirs", files[APACHES]) as apaches,
            our_mirror_maker_2(tmp_path / "ours", files[OURS]) as ours,
        ):
            programs = Programs({APACHES: apaches, OURS: ours}, [flow])
            programs.until("offsets of what was read", lambda copy: stored_ends(copy) >= {("orders", 0): 99}.items())
            programs.stop()
        theirs, mine = (rows(Copy(flow, program).records({"orders": 1})["orders"]) for program in (APACHES, OURS))
        assert theirs == mine == {0: [row for row in rows(read(a, "orders"))[0] if len(row.value or b"") < 1_000]}
        assert "records are copied one by one for a while" in ours.log


STORED = {("orders", 0): 99, ("orders", 1): 99}


def stored_ends(copy: Copy) -> Any:
    """Stored offsets of the topic whose last records were written or refused."""
    if f"mm2-offsets.{copy.source_alias}.internal" not in copy.flow.target.topics():
        return {}.items()
    found = {}
    for (connector, place), offset in copy.stored().items():
        if connector == "MirrorSourceConnector":
            found[json.loads(place)["topic"], json.loads(place)["partition"]] = offset
    return found.items()


def newest(copy: Copy) -> dict[tuple[str, int], int]:
    """The target's offset of each partition's newest sync."""
    found = [OffsetSync.deserialize_record(key, value) for key, value in copy.syncs()]
    return {(one.topic_partition.topic, one.topic_partition.partition): one.downstream_offset for one in found}


def compare(theirs: Copy, ours: Copy, expected: dict[str, dict[int, list[Row]]]) -> None:
    isolation = "read_committed" if theirs.flow.is_exactly_once else "read_uncommitted"
    their_logs, our_logs = theirs.records(ROUTED, isolation), ours.records(ROUTED, isolation)
    assert {topic: rows(one) for topic, one in our_logs.items()} == {topic: rows(one) for topic, one in their_logs.items()}
    assert {topic: without_headers(rows(one)) for topic, one in our_logs.items()} == expected
    assert made(theirs) == made(ours) == {"via.orders": (2, "777", "604800000"), "via.parcels": (2, "604800000", "888888")}
    headers = {header for logs in rows(our_logs["via.orders"]).values() for row in logs for header in row.headers}
    assert {("team", b"red"), ("null", None), ("empty", b"")} <= headers and ("n", b"1") not in headers
    if not theirs.flow.is_exactly_once:
        assert all(is_dense(log) for log in our_logs.values())
        assert dict(ours.syncs()) == dict(theirs.syncs())
        assert placed(ours) == placed(theirs)
        assert ours.group_offsets("end") == theirs.group_offsets("end")
    for copy in (theirs, ours):
        assert all(row.headers == (("team", b"red"),) for row, _ in copy.heartbeats()), copy
        left = read(copy.flow.target.servers, copy.remote("orders"), 2)
        assert left == {0: [], 1: []}, f"{copy}: records that were not routed"
        assert copy.remote("dead") not in AdminClient({"bootstrap.servers": copy.flow.target.servers, **QUIET}).list_topics().topics


def made(copy: Copy) -> dict[str, tuple[int | str, ...]]:
    """Partitions and configs of the topics that records are routed to."""
    servers = copy.flow.target.servers
    topics = AdminClient({"bootstrap.servers": servers, **QUIET}).list_topics(timeout=REACHED_S).topics
    return {
        name: (len(topics[copy.remote(name)].partitions), *(config_of(servers, copy.remote(name), one) for one in MADE_CONFIGS))
        for name in ROUTED
    }


def placed(copy: Copy) -> set[tuple[str, int, int, int]]:
    found = [Checkpoint.deserialize_record(key, value) for key, value in copy.checkpoints().items()]
    return {
        (copy.plain(one.topic_partition.topic), one.topic_partition.partition, one.upstream_offset, one.downstream_offset) for one in found
    }
