"""Apache Kafka's MirrorMaker 2 and `connect-mirror-maker` while leaders of the source change: by
reassignments, by elections of preferred leaders, and because brokers are killed.

Records and transactions are written all the time. Both programs copy them at least once and, into other
targets, exactly once. Each target gets each record once and in its order: no task ends because a leader
changes, it only fetches on. Offset syncs name the same record at both ends, and a group that has read
everything goes on behind the last record (exactly once, Apache's may be before it).

`KMIRROR_MATRIX=1` has Apache's brokers as the source, too, and both kinds of targets for each flow.
Then both programs are also killed twice while they copy.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support.mirrormaker.compared_programs import (
    APACHES,
    OURS,
    Cluster,
    Copy,
    Flow,
    Logs,
    Programs,
    Records,
    assert_syncs_pair_records,
    properties_of,
    wait_until,
)
from support.mirrormaker.like_for_like_script import commit
from support.mirrormaker.logs_compared import Row, is_dense, read_topics, rows
from support.mirrormaker.mirror_makers import apache_mirror_maker_2, our_mirror_maker_2
from support.mirrormaker.moving_leaders import MAY_BE_KILLED, MOVED_TO, REPLICAS, Source, running_source, written
from support.peers.peers import apache_kafka

from kmirror import EmbeddedCluster
from kmirror.mirrormaker.formats import OffsetSync

pytestmark = pytest.mark.interop

TARGET = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
TOPICS = {"t": len(REPLICAS), "money": 1}
MATRIX = bool(os.environ.get("KMIRROR_MATRIX"))
AT_LEAST_ONCE = {"session.timeout.ms": "10000"} if MATRIX else {}
"""Whoever is killed is missed sooner."""
EXACTLY_ONCE = AT_LEAST_ONCE | {"exactly.once.source.support": "enabled"}
COMMITTED = {"source.consumer.isolation.level": "read_committed"}
SETTINGS = {"topics": "t, money", "groups": "shop", "offset-syncs.topic.replication.factor": "3", "offset.lag.max": "10", "tasks.max": "2"}
ONLY_APACHES = {"dedicated.mode.enable.internal.rest": "true", "listeners": "http://127.0.0.1:0"}
BROKEN = dict(one.split("=", 1) for one in os.environ.get("KMIRROR_BROKEN", "").split() if one)
"""As in `test_mm2_like_for_like`."""


def flows_of(source: Cluster, apache: str, ours: str) -> list[Flow]:
    """At least once into our cluster, exactly once into Apache's; with the matrix the other way, too."""
    flows = [
        Flow(source, Cluster("kmirror", ours), COMMITTED, AT_LEAST_ONCE),
        Flow(Cluster(f"{source.name}-exactly", source.servers), Cluster("apache-exactly", apache), COMMITTED, EXACTLY_ONCE),
    ]
    if MATRIX:
        flows += [
            Flow(source, Cluster("apache", apache), {}, AT_LEAST_ONCE),
            Flow(Cluster(f"{source.name}-exactly", source.servers), Cluster("kmirror-exactly", ours), COMMITTED, EXACTLY_ONCE),
        ]
    return flows


@pytest.mark.round
@pytest.mark.parametrize("kind", ["kmirror", "apache"] if MATRIX else ["kmirror"])
def test_both_copy_each_record_once_while_leaders_move(tmp_path: pathlib.Path, kind: str) -> None:
    with (
        apache_kafka(tmp_path / "apache", properties=TARGET) as apache,
        EmbeddedCluster(config=TARGET) as ours,
        running_source(kind, tmp_path / "source") as source,
    ):
        source.make_topics()
        flows = flows_of(source.cluster, apache.bootstrap_servers, ours.bootstrap_servers)
        with running(tmp_path, flows) as programs:
            with written(source.cluster.servers) as count:
                move_leaders(programs, source, count)
            copied_to_the_end(programs, source)
            if not MATRIX:
                programs.stop()
        compare(flows, source, repeated=False)
        if MATRIX:
            kill_and_go_on(tmp_path, flows, source)


@contextmanager
def running(folder: pathlib.Path, flows: list[Flow]) -> Iterator[Programs]:
    """Both programs; killed at the end, whatever they do then."""
    files = {program: properties_of(flows, program, SETTINGS) for program in (APACHES, OURS)}
    with (
        apache_mirror_maker_2(folder / "theirs", files[APACHES] | ONLY_APACHES) as apaches,
        our_mirror_maker_2(folder / "ours", files[OURS] | BROKEN) as kmirror,
    ):
        yield Programs({APACHES: apaches, OURS: kmirror}, flows)


def kill_and_go_on(folder: pathlib.Path, flows: list[Flow], source: Source) -> None:
    """Both are killed while they copy, and begin again: exactly once, nothing comes twice even so."""
    with written(source.cluster.servers, next_number(source)) as count:
        for _ in range(2):
            with running(folder, flows) as programs:
                copied_on(programs, count)
    with running(folder, flows) as programs:
        # The sync of a record that was copied just before may be lost.
        with written(source.cluster.servers, next_number(source)) as count:
            copied_on(programs, count)
        copied_to_the_end(programs, source)
        programs.stop()
    compare(flows, source, repeated=True)


def next_number(source: Source) -> int:
    return sum(source.cluster.end_offsets(TOPICS)["t"])


def copied_to_the_end(programs: Programs, source: Source) -> None:
    """Waits until all records are there, and a group that has read them goes on behind the last."""
    records = {level: at_source(source.cluster, level) for level in ("read_committed", "read_uncommitted")}
    programs.until("all records", lambda copy: last_of(at_target(copy)) == last_of(records[copy.flow.isolation]))
    ends = {("t", number): end for number, end in enumerate(source.cluster.end_offsets(TOPICS)["t"])}
    commit(source.cluster.servers, "shop", ends)
    programs.until("the last syncs", lambda copy: may_lack_syncs(copy) or has_last_syncs(copy, ends))
    programs.until("the group", lambda copy: may_lack_syncs(copy) or is_behind_last(copy, copy.records(TOPICS, "read_committed")))


def move_leaders(programs: Programs, source: Source, count: list[int]) -> None:
    copied_on(programs, count)
    source.reassign(MOVED_TO)
    source.elect_preferred({number: replicas[0] for number, replicas in MOVED_TO.items()})
    copied_on(programs, count)
    source.reassign(REPLICAS)
    source.elect_preferred({number: replicas[0] for number, replicas in REPLICAS.items()})
    for number in MAY_BE_KILLED:
        recover = source.fail_over(number, REPLICAS)
        copied_on(programs, count)
        recover()
        copied_on(programs, count)


def copied_on(programs: Programs, count: list[int]) -> None:
    """Waits until everything that was written to t before is copied, and something after."""
    before = count[0]
    wait_until("more is written", lambda: count[0] > before)
    programs.until(f"{before} records", lambda copy: sum(copy.end_offsets({"t": TOPICS["t"]})["t"]) > before)


def at_source(cluster: Cluster, isolation: str) -> Records:
    return by_topic(read_topics(cluster.servers, TOPICS, isolation=isolation))


def at_target(copy: Copy) -> Records:
    return by_topic(copy.records(TOPICS, "read_committed"))


def last_of(records: Records) -> dict[tuple[str, int], Row | None]:
    return {(topic, number): found[-1] if found else None for topic, log in records.items() for number, found in log.items()}


def may_lack_syncs(copy: Copy) -> bool:
    """Apache's sends no more syncs after its last transaction, if ten were on their way then."""
    return copy.program == APACHES and copy.flow.is_exactly_once


def is_behind_last(copy: Copy, log: Logs) -> bool:
    """Whether a group that has read all of t goes on behind the last record; or before, if it may."""
    expected = {("t", number): found[-1][0] + 1 for number, found in log["t"].items()}
    offsets = {place: offset for place, (offset, _) in copy.group_offsets("shop").items()}
    if may_lack_syncs(copy):
        return all(offset <= expected[place] for place, offset in offsets.items())
    return offsets == expected


def has_last_syncs(copy: Copy, ends: dict[tuple[str, int], int]) -> bool:
    """Whether the last record of each partition has its sync."""
    found = [OffsetSync.deserialize_record(*one) for one in copy.syncs()]
    return {(*place, end - 1) for place, end in ends.items()} <= {(*one.topic_partition, one.upstream_offset) for one in found}


def compare(flows: list[Flow], source: Source, *, repeated: bool) -> None:
    """With `repeated`, what is copied at least once may have come again."""
    log = read_topics(source.cluster.servers, TOPICS)
    records = {level: at_source(source.cluster, level) for level in ("read_committed", "read_uncommitted")}
    for copy in [Copy(flow, program) for flow in flows for program in (APACHES, OURS)]:
        found = copy.records(TOPICS, "read_committed")
        is_exact = copy.flow.is_exactly_once
        if repeated and not is_exact:
            once = {topic: {number: list(dict.fromkeys(one)) for number, one in parts.items()} for topic, parts in by_topic(found).items()}
            assert once == records[copy.flow.isolation], copy
        else:
            assert by_topic(found) == records[copy.flow.isolation], copy
        # Only transactions leave gaps at the target.
        assert is_dense(found["t"]) != is_exact, copy
        assert_syncs_pair_records(copy, log, found)
        assert is_behind_last(copy, found), copy


def by_topic(log: Logs) -> Records:
    return {topic: rows(found) for topic, found in log.items()}
