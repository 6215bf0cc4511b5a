"""A flow that Apache's MirrorMaker 2 and `connect-mirror-maker` share at the same time: both run tasks,
whichever leads; connectors that Apache's leader gives to ours tell it what their tasks are (RE3); and
when either is killed the other goes on, with nothing lost, or nothing twice.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

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

BROKER = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1", "group.min.session.timeout.ms": "1000"}
PARTITIONS = 4
TASKS = PARTITIONS + 1
"""And one for heartbeats; there are no groups to checkpoint."""
SHARED = {
    "dedicated.mode.enable.internal.rest": "true",
    "listeners": "http://127.0.0.1:0",
    "tasks.max": str(PARTITIONS),
    "topics": "t, later",
    "B.scheduled.rebalance.max.delay.ms": "1000",
    "B.session.timeout.ms": "3000",
    "B.heartbeat.interval.ms": "500",
    "B.task.shutdown.graceful.timeout.ms": "1000",
}
EXACTLY_ONCE = {"B.exactly.once.source.support": "enabled", "A.consumer.isolation.level": "read_committed"}
EAGER = {"B.connect.protocol": "eager"}
APACHE, OURS = "apache", "ours"
PROGRAMS = {APACHE: apache_mirror_maker_2, OURS: our_mirror_maker_2}
OF_OURS = {"B.admin.client.id": "0-the-first-member"}
"""Apache's leader deals connectors to the members by name: so ours gets the source connector."""
JOINED = re.compile(r"\[A->B\] Joined group at generation \d+: (\d+) connectors, (\d+) tasks(, leads)?")


class Shared:
    """Clusters A and B, and programs that share the flow A->B."""

    def __init__(self, folder: pathlib.Path, a: str, b: str, stack: ExitStack, settings: Mapping[str, str]) -> None:
        self.a, self.b = a, b
        self.written = 0
        self._folder, self._stack, self._started = folder, stack, 0
        self._props = properties(("A", "B"), (a, b), {**SHARED, **settings})

    def start(self, program: str) -> MirrorMakerProcess:
        self._started += 1
        props = self._props | (OF_OURS if program == OURS else {})
        return self._stack.enter_context(PROGRAMS[program](self._folder / f"{self._started}-{program}", props))

    def copy_more(self, running: MirrorMakerProcess, what: str, count: int = 200) -> None:
        """Writes records to all partitions, and waits until they have arrived."""
        produce(self.a, "t", count, partitions=PARTITIONS, first=self.written, codec="lz4")
        self.written += count
        running.until(what, lambda: self._arrived("A.t") >= self.written)

    def copy_another_topic(self, running: MirrorMakerProcess) -> None:
        make_topics(self.a, {"later": PARTITIONS})
        produce(self.a, "later", 40, partitions=PARTITIONS)
        running.until("a new topic is copied", lambda: self._arrived("A.later") >= 40)

    def _arrived(self, topic: str) -> int:
        """So many different records have arrived."""
        if topics_of(self.b).get(topic, 0) < PARTITIONS:
            return 0
        found = rows(read(self.b, topic, PARTITIONS, isolation="read_committed"))
        return sum(len({row.timestamp for row in records}) for records in found.values())

    def assert_copied(self, topic: str, *, exactly_once: bool) -> None:
        written = rows(read(self.a, topic, PARTITIONS))
        found = rows(read(self.b, f"A.{topic}", PARTITIONS, isolation="read_committed"))
        if not exactly_once:
            found = {number: list(dict.fromkeys(records)) for number, records in found.items()}
        assert found == written


def shares(ours: MirrorMakerProcess, *, leads: bool) -> Callable[[], bool]:
    """Whether our worker was given a part of the tasks since now, and connectors; and whether it leads."""
    before = len(JOINED.findall(ours.log))

    def found() -> bool:
        return any(
            int(connectors) and 0 < int(tasks) < TASKS and bool(leading) == leads
            for connectors, tasks, leading in JOINED.findall(ours.log)[before:]
        )

    return found


@contextmanager
def shared(folder: pathlib.Path, settings: Mapping[str, str]) -> Iterator[Shared]:
    with EmbeddedCluster(config=BROKER) as source, EmbeddedCluster(config=BROKER) as target, ExitStack() as stack:
        make_topics(source.bootstrap_servers, {"t": PARTITIONS})
        yield Shared(folder, source.bootstrap_servers, target.bootstrap_servers, stack, settings)


def test_each_leads_and_each_is_killed_and_nothing_comes_twice(tmp_path: pathlib.Path) -> None:
    """With sessioned, the default of both."""
    with shared(tmp_path, EXACTLY_ONCE) as flow:
        apache = flow.start(APACHE)
        flow.copy_more(apache, "Apache's copies")
        ours = flow.start(OURS)
        ours.until("Apache's leads, and ours has a part", shares(ours, leads=False))
        flow.copy_more(ours, "both copy")
        flow.copy_another_topic(ours)
        ours.process.kill()
        flow.copy_more(apache, "Apache's goes on alone")
        ours = flow.start(OURS)
        ours.until("ours has a part again", shares(ours, leads=False))
        apache.process.kill()
        flow.copy_more(ours, "ours goes on alone, and leads")
        expected = shares(ours, leads=True)
        apache = flow.start(APACHE)
        ours.until("ours leads, and Apache's has a part", expected)
        flow.copy_more(apache, "both copy again")
        assert ours.stop() == 0, ours.log[-4000:]
        flow.copy_more(apache, "Apache's is left")
        flow.assert_copied("t", exactly_once=True)
        flow.assert_copied("later", exactly_once=True)


def test_at_least_once_nothing_is_lost(tmp_path: pathlib.Path) -> None:
    with shared(tmp_path, EAGER) as flow:
        ours = flow.start(OURS)
        flow.copy_more(ours, "ours copies")
        expected = shares(ours, leads=True)
        apache = flow.start(APACHE)
        ours.until("ours leads, and Apache's has a part", expected)
        flow.copy_more(apache, "both copy")
        flow.copy_another_topic(apache)
        ours.process.kill()
        flow.copy_more(apache, "Apache's goes on alone, and leads")
        ours = flow.start(OURS)
        ours.until("ours has a part", shares(ours, leads=False))
        apache.process.kill()
        flow.copy_more(ours, "ours goes on alone")
        flow.assert_copied("t", exactly_once=False)
        flow.assert_copied("later", exactly_once=False)
