"""A Connect cluster goes from Apache's workers to ours and back, one worker after the other, with default
settings: tasks that stay with their worker are not stopped, and none is copied twice or left out. A worker
that offers nothing but the eager protocol has the whole group fall back to it.
"""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from support.mirrormaker.connect_clusters import (
    STATUS,
    ConnectWorkerProcess,
    apaches_worker,
    connector_config,
    our_worker,
    worker_properties,
)
from support.mirrormaker.logs_compared import make_topics, produce, read, rows

from kmirror import EmbeddedCluster

pytestmark = pytest.mark.interop

BROKER = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1", "group.min.session.timeout.ms": "1000"}
PARTITIONS = 4
SETTINGS = {"exactly.once.source.support": "enabled", "task.shutdown.graceful.timeout.ms": "2000"}
JOINED = re.compile(r"with protocol version (\d)")
Story = dict[str, list[tuple[str, str]]]


class Rolled:
    """A cluster of workers that copies A to B, and what the topic of status has said of each task."""

    def __init__(self, folder: pathlib.Path, a: str, b: str, stack: ExitStack) -> None:
        self.a, self.b = a, b
        self.running: list[ConnectWorkerProcess] = []
        self._folder, self._stack, self._started, self._written = folder, stack, 0, 0

    def start(self, program: Callable[..., object], settings: dict[str, str] | None = None) -> ConnectWorkerProcess:
        self._started += 1
        props = worker_properties(self.b, {**SETTINGS, **(settings or {})})
        worker: ConnectWorkerProcess = self._stack.enter_context(program(self._folder / str(self._started), props))  # type: ignore[arg-type]
        worker.until("it is a member", lambda: "Joined group" in worker.log and ("Herder started" in worker.log or program is our_worker))
        worker.told("GET", "connectors")
        self.running.append(worker)
        return worker

    def story(self) -> Story:
        """States and workers of each task, as they changed."""
        found: Story = {}
        records = [row for number in read(self.b, STATUS, 5).values() for _, row in number]
        for row in records:
            name = (row.key or b"").decode()
            if name.startswith("status-task-mirror-") and row.value:
                status = json.loads(row.value)
                states = found.setdefault(name, [])
                if not states or states[-1] != (status["state"], status["worker_id"]):
                    states.append((status["state"], status["worker_id"]))
        return found

    def settles(self, workers: int) -> None:
        """All tasks run, at so many workers, and records arrive."""
        produce(self.a, "t", 40, partitions=PARTITIONS, first=self._written)
        self._written += 40
        last = self.running[-1]
        last.until(f"{workers} workers have tasks", lambda: self._owners(last) == workers)
        last.until("records arrive", lambda: len(self._arrived()) == self._written)

    def begun(self) -> list[int]:
        """How many tasks each worker of ours has begun, which says so in its log."""
        return [worker.log.count("copies 1 partitions") for worker in self.running]

    def assert_only_moved_tasks_stopped(self, before: Story, begun: list[int]) -> None:
        story, moved = self.story(), 0
        for task, states in story.items():
            if before[task][-1] == states[-1]:
                assert states == before[task], f"{task} was stopped and went on where it was"
            else:
                moved += 1
        assert sum(self.begun()[: len(begun)]) <= sum(begun) + moved, "a task began again that stays"

    def _owners(self, worker: ConnectWorkerProcess) -> int:
        status, answer = worker.ask("GET", "connectors/mirror/status")
        alive = {one.url.partition("://")[2].rstrip("/") for one in self.running}
        if status != 200 or any(task["state"] != "RUNNING" or task["worker_id"] not in alive for task in answer["tasks"]):
            return 0
        return len({task["worker_id"] for task in answer["tasks"]}) if len(answer["tasks"]) == PARTITIONS else 0

    def _arrived(self) -> set[int]:
        found = rows(read(self.b, "A.t", PARTITIONS, isolation="read_committed"))
        return {row.timestamp for records in found.values() for row in records}


@pytest.mark.round
def test_from_apaches_workers_to_ours_and_back(tmp_path: pathlib.Path) -> None:
    with EmbeddedCluster(config=BROKER) as source, EmbeddedCluster(config=BROKER) as target, ExitStack() as stack:
        made = Rolled(tmp_path, source.bootstrap_servers, target.bootstrap_servers, stack)
        make_topics(made.a, {"t": PARTITIONS})
        make_topics(made.b, {"A.t": PARTITIONS})
        first = made.start(apaches_worker)
        config = {"topics": "t", "tasks.max": str(PARTITIONS), "source.consumer.isolation.level": "read_committed"}
        first.told("PUT", "connectors/mirror/config", connector_config("MirrorSourceConnector", made.a, made.b, config))
        made.settles(1)
        for program, killed in ((our_worker, False), (our_worker, False), (apaches_worker, True)):
            before, begun = made.story(), made.begun()
            made.start(program)
            made.settles(2)
            made.assert_only_moved_tasks_stopped(before, begun)
            leaving = made.running.pop(0)
            before, begun = made.story(), made.begun()
            if killed:
                leaving.process.kill()
            else:
                leaving.stop()
            made.settles(1)
            made.assert_only_moved_tasks_stopped(before, begun)

        # One that is eager only: Apache's, which is left, speaks version 0 with it, and 2 without it.
        apache = made.running[0]
        assert JOINED.findall(apache.log)[-1] == "2"
        eager = made.start(our_worker, {"connect.protocol": "eager"})
        eager.until("the group is eager", lambda: JOINED.findall(apache.log)[-1] == "0")
        eager.until("it has a part", lambda: re.search(r" [1-3] tasks \(", eager.log))
        made.running.pop().stop()
        apache.until("the group is sessioned again", lambda: JOINED.findall(apache.log)[-1] == "2")
        assert rows(read(made.b, "A.t", PARTITIONS, isolation="read_committed")) == rows(read(made.a, "t", PARTITIONS))
