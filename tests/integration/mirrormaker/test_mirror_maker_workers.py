"""Three workers share a flow, as processes: work moves when one comes, goes, dies or stalls, and every
record arrives (at least once), or arrives exactly once.

`KMIRROR_KILLS=50` makes a campaign of the tests that kill.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import confluent_kafka as ck
import pytest
from support.mirrormaker.embedded_flows import BROKER
from support.mirrormaker.logs_compared import QUIET, is_dense, make_topics, read, rows
from support.mirrormaker.mirror_makers import MirrorMakerProcess, count_of, our_mirror_maker_2, properties
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.mirrormaker.herder.cluster_config_state import ClusterConfigState
from kmirror.mirrormaker.herder.connect_protocol import ConnectorTaskId

SOURCE = "MirrorSourceConnector"
PARTITIONS = 6
SESSION = {"B.session.timeout.ms": "2000", "B.heartbeat.interval.ms": "500"}
EAGER = {"B.connect.protocol": "eager"}
REST = {"dedicated.mode.enable.internal.rest": "true", "listeners": "http://127.0.0.1:0"}
CONFIGS, STATUS = "mm2-configs.A.internal", "mm2-status.A.internal"
KILLS = int(os.environ.get("KMIRROR_KILLS", "4"))


class Flow:
    """Clusters A and B, and workers of the flow A->B."""

    def __init__(self, folder: Path, a: EmbeddedCluster, b: EmbeddedCluster, stack: ExitStack, settings: Mapping[str, str]) -> None:
        self.a, self.b = a, b
        self._folder, self._stack, self._started = folder, stack, 0
        self._props = properties(
            ("A", "B"), (a.bootstrap_servers, b.bootstrap_servers), {"tasks.max": str(PARTITIONS), **SESSION, **settings}
        )

    def start_worker(self, told: Mapping[str, str] | None = None) -> MirrorMakerProcess:
        self._started += 1
        return self._stack.enter_context(our_mirror_maker_2(self._folder / f"worker-{self._started}", {**self._props, **(told or {})}))

    def configs(self) -> ClusterConfigState:
        state = ClusterConfigState()
        for _, row in read(self.b.bootstrap_servers, CONFIGS)[0]:
            state.handle_record(row.key, row.value)
        return state


@contextmanager
def flow(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[Flow]:
    config = {**BROKER, "group.min.session.timeout.ms": "1000", "transaction.state.log.num.partitions": "3"}
    with EmbeddedCluster(config=config) as a, EmbeddedCluster(config=config) as b, ExitStack() as stack:
        make_topics(a.bootstrap_servers, {"t": PARTITIONS})
        yield Flow(folder, a, b, stack, settings or {})


@contextmanager
def load(servers: str) -> Iterator[list[int]]:
    """Writes numbered records to all partitions until the end of the block; yields how many there are."""
    producer = ck.Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5, "compression.type": "lz4", **QUIET})
    count, ends, refused = [0], threading.Event(), []

    def work() -> None:
        while not ends.is_set():
            for _ in range(20):
                number = count[0]
                producer.produce(
                    "t", b"%d" % number, partition=number % PARTITIONS, on_delivery=lambda error, _: error and refused.append(error)
                )
                count[0] += 1
            producer.poll(0)
            time.sleep(0.02)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield count
    finally:
        ends.set()
        thread.join()
        assert producer.flush(REACHED_S) == 0 and not refused, refused


def until_moved(running: MirrorMakerProcess, made: Flow, what: str) -> None:
    """Waits until records that are written from now on have arrived from every partition."""
    ends = {number: len(records) for number, records in read(made.a.bootstrap_servers, "t", PARTITIONS).items()}

    def arrived() -> bool:
        copied = read(made.b.bootstrap_servers, "A.t", PARTITIONS)
        return all(len({row.value for _, row in copied[number]}) > end for number, end in ends.items())

    running.until(what, arrived)


def values(servers: str, topic: str, isolation: str = "read_committed") -> dict[int, list[bytes]]:
    found = rows(read(servers, topic, PARTITIONS, isolation=isolation))
    return {number: [row.value or b"" for row in records] for number, records in found.items()}


def assert_copied(running: MirrorMakerProcess, made: Flow, *, exactly_once: bool) -> None:
    written = values(made.a.bootstrap_servers, "t")

    def arrived() -> bool:
        return {number: list(dict.fromkeys(found)) for number, found in values(made.b.bootstrap_servers, "A.t").items()} == written

    running.until("every record, in order", arrived)
    if exactly_once:
        assert values(made.b.bootstrap_servers, "A.t") == written, "a record is there twice"


def test_work_is_shared_and_moves_when_workers_come_and_go(tmp_path: Path) -> None:
    with flow(tmp_path, {"B.inter.worker.key.ttl.ms": "1000"}) as made, load(made.a.bootstrap_servers):
        first = made.start_worker()
        first.until("the first copies", lambda: count_of(made.b.bootstrap_servers, "A.t", PARTITIONS) > 0)
        second, third = made.start_worker(), made.start_worker()
        for worker in (second, third):
            worker.until("it has tasks", lambda worker=worker: "3 tasks" in worker.log or "2 tasks" in worker.log)
        until_moved(third, made, "three workers copy")
        state = made.configs()
        assert set(state.connectors) == {SOURCE, "MirrorHeartbeatConnector", "MirrorCheckpointConnector"}
        shares = [state.task_config(task)["task.assigned.partitions"] for task in state.tasks(SOURCE)]
        assert sorted(shares) == [f"t-{number}" for number in range(PARTITIONS)]
        assert state.task_config(ConnectorTaskId(SOURCE, 0))["task.class"] == "org.apache.kafka.connect.mirror.MirrorSourceTask"
        assert first.stop() == 0, first.log
        until_moved(second, made, "two workers copy, the leader has left")
        second.process.kill()
        until_moved(third, made, "one copies, the other was killed")
        assert "Traceback" not in first.log + third.log
        keys = {row.key for found in read(made.b.bootstrap_servers, STATUS, 5).values() for _, row in found}
        session_keys = {row.value for _, row in read(made.b.bootstrap_servers, CONFIGS)[0] if row.key == b"session-key"}
        assert len(session_keys) > 2, "each leader writes a new key when the last one is too old"
        assert {b"status-connector-" + SOURCE.encode(), b"status-task-%s-0" % SOURCE.encode()} <= keys


def test_a_worker_alone_goes_on_copying_while_its_tasks_change(tmp_path: Path) -> None:
    with flow(tmp_path, {"tasks.max": "3"}) as made, load(made.a.bootstrap_servers):
        worker = made.start_worker()
        until_moved(worker, made, "it copies")
        make_topics(made.a.bootstrap_servers, {"another": 1})
        worker.until("the new topic has a task", lambda: "another-0" in str(made.configs().task_configs(SOURCE)))
        until_moved(worker, made, "it goes on")
        assert worker.log.count("MirrorHeartbeatConnector-task-0] failed") == 0
        copied = read(made.b.bootstrap_servers, "A.t", PARTITIONS)
        assert is_dense(copied)


def test_one_eager_worker_makes_the_group_eager_until_it_leaves(tmp_path: Path) -> None:
    with flow(tmp_path, {"B.exactly.once.source.support": "enabled", "tasks.max": "2"}) as made:
        with load(made.a.bootstrap_servers):
            first = made.start_worker()
            until_moved(first, made, "it copies")
            second = made.start_worker(EAGER)
            first.until("the group is eager", lambda: "from 'sessioned' to 'eager'" in first.log)
            second.until(
                "the eager worker has a task", lambda: " 0 connectors, 1 tasks" in second.log or " 0 connectors, 2 tasks" in second.log
            )
            until_moved(first, made, "both copy")
            assert second.stop() == 0, second.log
            first.until("the group is sessioned again", lambda: "from 'eager' to 'sessioned'" in first.log)
            until_moved(first, made, "one copies")
        assert_copied(first, made, exactly_once=True)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("exactly_once", "told"),
    [(False, {}), (True, EAGER), (True, REST)],
    ids=["at-least-once", "exactly-once-eager", "exactly-once-with-rest"],
)
def test_kills_and_stalls_of_workers_and_brokers_lose_nothing(tmp_path: Path, exactly_once: bool, told: Mapping[str, str]) -> None:
    chance = random.Random(KILLS + exactly_once)
    settings = {**told, "B.exactly.once.source.support": "enabled"} if exactly_once else told
    with flow(tmp_path, {**settings, "B.offset.flush.interval.ms": "200"}) as made:
        workers = [made.start_worker() for _ in range(3)]
        with load(made.a.bootstrap_servers):
            workers[0].until("they copy", lambda: count_of(made.b.bootstrap_servers, "A.t", PARTITIONS) > 0)
            for _ in range(KILLS):
                happens(chance.choice(("kill", "kill", "kill", "stall", "broker of A", "broker of B")), chance, made, workers)
                time.sleep(chance.uniform(0.2, 3.0))
        assert_copied(workers[0], made, exactly_once=exactly_once)


def happens(what: str, chance: random.Random, made: Flow, workers: list[MirrorMakerProcess]) -> None:
    victim = chance.randrange(len(workers))
    if what == "kill":
        workers[victim].process.kill()
        time.sleep(chance.uniform(0, 3.0))
        workers[victim] = made.start_worker()
    elif what == "stall":
        workers[victim].process.send_signal(signal.SIGSTOP)
        time.sleep(chance.uniform(2.5, 5.0))
        workers[victim].process.send_signal(signal.SIGCONT)
    else:
        cluster = made.a if what.endswith("A") else made.b
        cluster.kill_node()
        time.sleep(chance.uniform(0, 1.0))
        cluster.start_node()
