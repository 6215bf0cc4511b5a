"""Apache's MirrorMaker 2 and `connect-mirror-maker` take over from each other: each goes on where the
other one's stored offsets say.

With exactly-once support on both sides, a program that is killed leaves an open transaction. The
other one aborts it and goes on behind the last that was committed, so nothing is lost and nothing
comes twice.
"""

from __future__ import annotations

import pathlib

import pytest
from support.mirrormaker.logs_compared import make_topics, produce, read, rows
from support.mirrormaker.mirror_makers import (
    MirrorMakerProcess,
    apache_mirror_maker_2,
    our_mirror_maker_2,
    properties,
    topics_of,
)

from kmirror import EmbeddedCluster

pytestmark = pytest.mark.interop

BROKER = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
PARTITIONS = 3
EXACTLY_ONCE = {"B.exactly.once.source.support": "enabled", "A.consumer.isolation.level": "read_committed", "tasks.max": "2"}
ONLY_APACHES = {"dedicated.mode.enable.internal.rest": "true", "listeners": "http://127.0.0.1:0"}
LAPS = ("apache", "ours", "apache", "ours")


def committed_count(servers: str) -> int:
    if topics_of(servers).get("A.t", 0) < PARTITIONS:
        return 0
    return sum(map(len, read(servers, "A.t", PARTITIONS, isolation="read_committed").values()))


def lap(program: MirrorMakerProcess, a: str, b: str, first: int, count: int, *, is_killed: bool) -> None:
    """Records are written while the program copies; it ends in the middle of them, or after all."""
    before = committed_count(b)
    for part in range(4):
        produce(a, "t", count // 4, partitions=PARTITIONS, first=first + part * count // 4, codec="lz4")
    if is_killed:
        program.until("it copies", lambda: committed_count(b) > before)
        program.process.kill()
        program.process.wait()
        return
    program.until("all is copied", lambda: committed_count(b) >= first + count)
    assert program.stop() in (0, 143), program.log[-4000:]


@pytest.mark.parametrize("is_killed", [pytest.param(False, marks=pytest.mark.round), True])
def test_with_exactly_once_nothing_is_lost_and_nothing_comes_twice(tmp_path: pathlib.Path, is_killed: bool) -> None:
    with EmbeddedCluster(config=BROKER) as source, EmbeddedCluster(config=BROKER) as target:
        a, b = source.bootstrap_servers, target.bootstrap_servers
        make_topics(a, {"t": PARTITIONS})
        settings = properties(("A", "B"), (a, b), {"topics": "t", **EXACTLY_ONCE})
        programs = {"apache": (apache_mirror_maker_2, settings | ONLY_APACHES), "ours": (our_mirror_maker_2, settings)}
        for number, name in enumerate(LAPS):
            start, file = programs[name]
            with start(tmp_path / f"{number}-{name}", file) as program:
                is_last = number == len(LAPS) - 1
                lap(program, a, b, number * 600, 600, is_killed=is_killed and not is_last)
        found = read(b, "A.t", PARTITIONS, isolation="read_committed")
        assert rows(found) == rows(read(a, "t", PARTITIONS))


def test_at_least_once_repeats_only_what_was_not_stored(tmp_path: pathlib.Path) -> None:
    """Both store offsets when they end in good order, so here nothing at all comes twice."""
    with EmbeddedCluster(config=BROKER) as source, EmbeddedCluster(config=BROKER) as target:
        a, b = source.bootstrap_servers, target.bootstrap_servers
        make_topics(a, {"t": PARTITIONS})
        settings = properties(("A", "B"), (a, b), {"topics": "t"})
        for number, start in enumerate((apache_mirror_maker_2, our_mirror_maker_2, apache_mirror_maker_2)):
            with start(tmp_path / str(number), settings) as program:
                lap(program, a, b, number * 600, 600, is_killed=False)
                assert "configurations of 1 tasks of MirrorHeartbeatConnector" not in program.log, "Apache's wrote the same"
        assert rows(read(b, "A.t", PARTITIONS)) == rows(read(a, "t", PARTITIONS))
