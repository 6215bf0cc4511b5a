"""A source of three brokers, ours or Apache's, that is written to while its leaders move: by
reassignments, by elections of preferred leaders, and because brokers are killed.
"""

from __future__ import annotations

import pathlib
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import confluent_kafka as ck
from confluent_kafka.admin import NewTopic

from kmirror import EmbeddedCluster
from kmirror.admin.reassignments import ElectionType
from kmirror.common.topic_partition import TopicPartition
from support.mirrormaker.compared_programs import Cluster, wait_until
from support.mirrormaker.logs_compared import EPOCH_MS, QUIET
from support.mirrors.mirror_harness import call
from support.peers.peer_clusters import kafka_cluster
from support.peers.peers import KAFKA_VERSION
from support.waiting import REACHED_S

BROKER = {
    **{f"{name}.replication.factor": "3" for name in ("offsets.topic", "transaction.state.log", "default")},
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "300",
    "replica.lag.time.max.ms": "5000",
    "group.initial.rebalance.delay.ms": "0",
}
REPLICAS = {0: [1, 2], 1: [2, 3], 2: [3, 1], 3: [2, 1]}
"""Of the topic t, by partition."""
MOVED_TO = {0: [2, 3], 1: [3, 2], 2: [1, 2], 3: [3, 1]}
MAY_BE_KILLED = (2, 3)
"""The first broker is the controller, too."""


@dataclass
class Source:
    """The cluster; its brokers have the numbers 1 to 3."""

    cluster: Cluster
    kill: Callable[[int], object]
    start: Callable[[int], object]

    def make_topics(self) -> None:
        topics = [
            NewTopic("t", len(REPLICAS), replica_assignment=list(REPLICAS.values())),
            NewTopic("money", 1, replica_assignment=[[3, 2, 1]]),
        ]
        for future in self.cluster.admin.create_topics(topics).values():
            future.result(REACHED_S)

    def leaders(self) -> dict[int, int]:
        return {number: one.leader for number, one in self._partitions().items()}

    def reassign(self, replicas: Mapping[int, list[int]]) -> None:
        """Waits until the replicas are there."""
        wanted: Mapping[TopicPartition, list[int] | None] = {TopicPartition("t", number): one for number, one in replicas.items()}
        call(self.cluster.servers, lambda admin: admin.alter_partition_reassignments(wanted))
        expected = {number: (one, sorted(one)) for number, one in replicas.items()}
        wait_until(
            "the reassignment",
            lambda: {number: (list(one.replicas), sorted(one.isrs)) for number, one in self._partitions().items()} == expected,
        )

    def elect_preferred(self, leaders: Mapping[int, int]) -> None:
        call(self.cluster.servers, lambda admin: admin.elect_leaders(ElectionType.PREFERRED, None))
        wait_until(f"leaders {leaders}", lambda: self.leaders() == leaders)

    def fail_over(self, number: int, replicas: Mapping[int, list[int]]) -> Callable[[], None]:
        """Kills a broker, and waits until it leads nothing. The answer starts it again, and waits until
        it has caught up.
        """
        self.kill(number)
        wait_until("other leaders", lambda: not {number, -1} & set(self.leaders().values()))

        def recover() -> None:
            self.start(number)
            wait_until(
                "all replicas in sync",
                lambda: all(len(self._partitions()[partition].isrs) == len(one) for partition, one in replicas.items()),
            )

        return recover

    def _partitions(self) -> dict[int, object]:
        found: dict[int, object] = self.cluster.admin.list_topics("t", timeout=REACHED_S).topics["t"].partitions
        return found


@contextmanager
def running_source(kind: str, folder: pathlib.Path) -> Iterator[Source]:
    if kind == "kmirror":
        with EmbeddedCluster(brokers=3, config=BROKER) as ours:
            yield Source(
                Cluster(kind, ours.bootstrap_servers), lambda number: ours.kill_node(number - 1), lambda number: ours.start_node(number - 1)
            )
        return
    with kafka_cluster(folder, KAFKA_VERSION, nodes=3, properties=BROKER) as peers:
        nodes = {node.node_id: node for node in peers.nodes}
        yield Source(Cluster(kind, peers.bootstrap_servers), lambda number: nodes[number].kill(), lambda number: nodes[number].start())


@contextmanager
def written(servers: str, first: int = 0) -> Iterator[list[int]]:
    """Numbered records go to all partitions of t until the block ends, and transactions to money, every
    third of which is aborted. Yields the number of the next one of t.
    """
    count, ends, refused = [first], threading.Event(), []
    settings = {"bootstrap.servers": servers, "linger.ms": 5, "delivery.timeout.ms": 1000 * REACHED_S, **QUIET}
    plain = ck.Producer({**settings, "enable.idempotence": True, "compression.type": "lz4"})
    transactional = ck.Producer({**settings, "transactional.id": "money", "transaction.timeout.ms": 1000 * REACHED_S})

    def work() -> None:
        transactional.init_transactions(REACHED_S)
        turn = first
        while not ends.is_set():
            for _ in range(20):
                number = count[0]
                plain.produce(
                    "t",
                    b"%d" % number,
                    partition=number % len(REPLICAS),
                    timestamp=EPOCH_MS + number,
                    on_delivery=lambda error, _: error and refused.append(error),
                )
                count[0] += 1
            transactional.begin_transaction()
            for number in range(3):
                transactional.produce("money", b"%d-%d" % (turn, number), partition=0, timestamp=EPOCH_MS + turn)
            _retried(lambda: transactional.flush(REACHED_S))
            _retried(lambda: transactional.abort_transaction(REACHED_S) if turn % 3 == 1 else transactional.commit_transaction(REACHED_S))
            turn += 1
            plain.poll(0)
            ends.wait(0.05)

    failures: list[BaseException] = []

    def watched() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised below
            failures.append(error)

    thread = threading.Thread(target=watched)
    thread.start()
    try:
        yield count
    finally:
        ends.set()
        thread.join()
    assert not failures, failures
    assert plain.flush(REACHED_S) == 0
    assert not refused, refused[:3]


def _retried(step: Callable[[], object]) -> None:
    """A step of a transaction is tried again as long as its error says that it may be."""
    while True:
        try:
            step()
            return
        except ck.KafkaException as error:
            if not error.args[0].retriable():
                raise
