"""Apache Kafka's MirrorMaker 2 and `connect-mirror-maker`, one workload, four flows: what is determined
is equal.

Both copy at the same time, from Apache's broker and from ours, into Apache's broker and into ours.
Target topics are equal record by record, with their partitions, headers and times; so are topics'
configs and access rules, the newest offset sync and checkpoint of each partition, the offsets that
Connect stores, and those of groups that have read everything, or nothing. What a group in between
gets skips no record, in both.

The flows differ in the isolation level of their consumers, in where offset syncs are, and in whose
defaults topics get.

`KMIRROR_BROKEN="sync.topic.acls.enabled=false"` gives our program such settings: then the test must
fail.
"""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from statistics import median
from typing import TypeVar

import confluent_kafka as ck
import pytest
from support.mirrormaker import like_for_like_script as script
from support.mirrormaker.compared_programs import (
    APACHES,
    OURS,
    Cluster,
    Copy,
    Flow,
    Programs,
    Records,
    assert_syncs_pair_records,
    properties_of,
)
from support.mirrormaker.logs_compared import is_dense, read_topics, rows
from support.mirrormaker.mirror_makers import apache_mirror_maker_2, our_mirror_maker_2
from support.peers.peers import KafkaPeer, apache_kafka

from kmirror import EmbeddedCluster
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.connect_offsets import TOPIC_IDS
from kmirror.mirrormaker.formats import Checkpoint, OffsetSync

pytestmark = pytest.mark.interop

T = TypeVar("T")
SETTINGS = {
    "topics": script.COPIED,
    "groups": "shop, cart, gone, kip-848, beyond",
    "offset.lag.max": "10",
    "sync.topic.acls.enabled": "true",
    "sync.topic.acls.interval.seconds": "1",
}
NO_CHECKPOINT = Checkpoint("", TopicPartition("", 0), -1, -1, "")
COMMITTED = {"source.consumer.isolation.level": "read_committed"}
BROKEN = dict(one.split("=", 1) for one in os.environ.get("KMIRROR_BROKEN", "").split() if one)


def at_once(work: Callable[[T], object], on: Sequence[T]) -> None:
    """Does it in threads, because most of it is waiting."""
    with ThreadPoolExecutor() as threads:
        for _ in threads.map(work, on):
            pass


@contextmanager
def apache_clusters(folder: pathlib.Path) -> Iterator[tuple[KafkaPeer, KafkaPeer]]:
    """Two, started together."""
    with ExitStack() as stack:
        peers = [
            stack.enter_context(apache_kafka(folder / name, formatted=True, started=False, properties=script.BROKER))
            for name in ("from", "to")
        ]
        at_once(lambda peer: (peer.format(), peer.start()), peers)
        yield peers[0], peers[1]


@pytest.fixture(scope="module")
def flows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Flow]]:
    with (
        apache_clusters(tmp_path_factory.mktemp("apache")) as (apache_source, apache_target),
        EmbeddedCluster(config=script.BROKER) as our_source,
        EmbeddedCluster(config=script.BROKER) as our_target,
    ):
        sources = [Cluster("apache", apache_source.bootstrap_servers), Cluster("kmirror", our_source.bootstrap_servers)]
        targets = [Cluster("apache", apache_target.bootstrap_servers), Cluster("kmirror", our_target.bootstrap_servers)]
        yield [
            Flow(sources[0], targets[0], COMMITTED),
            Flow(sources[0], targets[1], {"use.defaults.from": "source"}),
            Flow(sources[1], targets[0], {"use.defaults.from": "source", "offset-syncs.topic.location": "target"}),
            Flow(sources[1], targets[1], COMMITTED | {"use.defaults.from": "target"}),
        ]


def test_both_leave_the_same(tmp_path: pathlib.Path, flows: list[Flow]) -> None:
    sources = list(dict.fromkeys(flow.source for flow in flows))
    open_transactions: list[ck.Producer] = []
    at_once(lambda source: (script.fill(source, open_transactions), script.compact(source)), sources)
    files = {program: properties_of(flows, program, SETTINGS) for program in (APACHES, OURS)}
    with (
        apache_mirror_maker_2(tmp_path / "theirs", files[APACHES]) as apaches,
        our_mirror_maker_2(tmp_path / "ours", files[OURS] | BROKEN) as ours,
    ):
        programs = Programs({APACHES: apaches, OURS: ours}, flows)
        first = {source.name: script.wanted(source, script.AT_FIRST) for source in sources}
        programs.until_copied(first)
        at_once(script.change_topics, sources)
        programs.until("tasks of the changed topics", lambda copy: is_copied(copy, script.ADDED) and not is_copied(copy, {("again", 0)}))
        at_once(script.begin_partitions, sources)
        programs.until("syncs of first records", has_first_syncs)
        at_once(script.make_again, sources)
        programs.until("tasks of the topic made anew", lambda copy: is_copied(copy, {("again", 0)}))
        at_once(script.fill_again, sources)
        programs.until("the topic made anew", lambda copy: copy.end_offsets({"again": 1})["again"][0] >= script.AGAIN + 10)
        at_once(script.change, sources)
        records = {source.name: script.wanted(source, script.AT_LAST) for source in sources}
        for name, levels in records.items():
            for level, topics in levels.items():
                topics["again"][0][:0] = first[name][level]["again"][0]
        programs.until_copied(records)
        programs.until("configs", lambda copy: script.has_changed(copy.configs()))
        programs.until("the added rule", lambda copy: any(script.ADDED_RULE[1] in rule for rule in copy.acls()))
        at_once(script.begin_groups, sources)
        programs.until("groups", lambda copy: has_groups(copy, script.AT_TARGET))
        at_once(script.move_groups, sources)
        programs.until("moved groups", lambda copy: has_groups(copy, script.moved(copy.flow.isolation)))
        programs.until(
            "a group at the beginning", lambda copy: checkpoints(copy).get((script.BACK, "later", 1), NO_CHECKPOINT).upstream_offset == 0
        )
        programs.until("tasks of the groups that are left", lambda copy: script.GONE not in copy.tasks()["MirrorCheckpointConnector"])
        programs.until("heartbeats", lambda copy: len(copy.heartbeats()) > 4)
        programs.stop()
    at_once(lambda flow: compare(Copy(flow, APACHES), Copy(flow, OURS), records[flow.source.name][flow.isolation]), flows)


def is_copied(copy: Copy, partitions: set[tuple[str, int]]) -> bool:
    """Whether tasks have the partitions."""
    return {f"{topic}-{number}" for topic, number in partitions} <= copy.tasks()["MirrorSourceConnector"]


def has_first_syncs(copy: Copy) -> bool:
    """Whether the added partitions have a sync of their first record."""
    found = [OffsetSync.deserialize_record(*one) for one in copy.syncs()]
    return {tuple(one.topic_partition) for one in found if one.upstream_offset == 0} >= script.ADDED


def has_groups(copy: Copy, expected: dict[str, dict[tuple[str, int], int]]) -> bool:
    """Whether the groups are where they must be; others of their partitions may be elsewhere."""
    return all(copy.group_offsets(group).items() >= described(group, places).items() for group, places in expected.items())


def described(group: str, places: dict[tuple[str, int], int]) -> dict[tuple[str, int], tuple[int, str]]:
    """With the metadata that the script gives them."""
    return {place: (offset, f"of {group}") for place, offset in places.items()}


def checkpoints(copy: Copy) -> dict[tuple[str, str, int], Checkpoint]:
    found = {}
    for key, value in copy.checkpoints().items():
        one = Checkpoint.deserialize_record(key, value)
        found[one.consumer_group_id, copy.local(one.topic_partition.topic), one.topic_partition.partition] = one
    return found


# What must be equal


def compare(theirs: Copy, ours: Copy, records: Records) -> None:
    source = read_topics(theirs.flow.source.servers, {topic: count for topic, count in script.AT_LAST.items() if topic != "again"})

    assert ours.configs() == theirs.configs(), theirs.flow
    for copy in (theirs, ours):
        found = copy.records(script.AT_LAST)
        assert {topic: rows(one) for topic, one in found.items()} == records, copy
        assert all(is_dense(one) for one in found.values()), copy
        assert_syncs_pair_records(copy, source, found)
        assert_heartbeats(copy)
    acls = theirs.acls()
    assert ours.acls() == acls, theirs.flow
    assert len(acls) > 8
    their_syncs, our_syncs = dict(theirs.syncs()), dict(ours.syncs())
    assert our_syncs == their_syncs, theirs.flow
    assert len(their_syncs) == sum(script.AT_LAST.values()) - len(script.WITHOUT_SYNCS)
    assert ours.tasks() == theirs.tasks(), theirs.flow
    offsets = stored(theirs)
    assert stored(ours) == offsets, theirs.flow
    assert_ids_of_source_topics(ours, offsets)
    assert {connector for connector, _ in offsets} == {f"Mirror{name}Connector" for name in ("Source", "Checkpoint", "Heartbeat")}
    compare_groups(theirs, ours)


def compare_groups(theirs: Copy, ours: Copy) -> None:
    expected = script.moved(theirs.flow.isolation)
    for group, places in expected.items():
        for copy in (theirs, ours):
            at_target = copy.group_offsets(group)
            between = {place: at_target.pop(place) for place in script.BETWEEN if group == script.LIVELY and place in at_target}
            assert at_target == described(group, places), (copy, group)
            assert all(0 <= offset <= script.BETWEEN[place] for place, (offset, _) in between.items()), (copy, group, between)
    their_checkpoints, our_checkpoints = determined(theirs), determined(ours)
    assert our_checkpoints == their_checkpoints, theirs.flow
    assert their_checkpoints.keys() == {(group, *place) for group, places in expected.items() for place in places}


def determined(copy: Copy) -> dict[tuple[str, str, int], Checkpoint]:
    """Those of places where it is determined what they say."""
    return {key: one for key, one in checkpoints(copy).items() if key[1:] not in script.BETWEEN}


def stored(copy: Copy) -> dict[tuple[str, str], int | None]:
    """But for checkpoints that need not be there, and for the ids of topics, which Connect does not store."""
    found = {}
    for (connector, source), offset in copy.stored().items():
        place = json.loads(source)
        if connector == TOPIC_IDS:
            continue
        if connector != "MirrorCheckpointConnector" or (copy.local(place["topic"]), place["partition"]) not in script.BETWEEN:
            found[connector, source] = offset
    return found


def assert_ids_of_source_topics(ours: Copy, offsets: dict[tuple[str, str], int | None]) -> None:
    """Ours stores the id of a source's topic beside each partition that it has read."""
    places = [json.loads(source) for connector, source in ours.stored() if connector == TOPIC_IDS]
    assert {place["connector"] for place in places} == {"MirrorSourceConnector"}, ours
    read = [json.loads(source) for connector, source in offsets if connector == "MirrorSourceConnector"]
    with_id = {(place["topic"], place["partition"]) for place in places}
    assert {(place["topic"], place["partition"]) for place in read} <= with_id, ours


def assert_heartbeats(copy: Copy) -> None:
    """Their time is the record's, and they do not come more often than they should."""
    beats = copy.heartbeats()
    assert all(row.timestamp == beat.timestamp and not row.headers and row.partition == 0 for row, beat in beats), copy
    times = [beat.timestamp for _, beat in beats]
    assert median(later - earlier for earlier, later in pairwise(times)) > 900, (copy, times)
