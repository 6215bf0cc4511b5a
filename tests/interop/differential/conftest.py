"""One Apache Kafka broker and one kmirror cluster for all the differential tests; `pair` fails a
test that found a difference.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterator

import pytest
from support.peers.peers import apache_kafka

from kmirror import EmbeddedCluster

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from harness import Pair, Side
from known_differences import is_known

COMMON = {
    "num.partitions": "1",
    "message.max.bytes": "100000",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.min.session.timeout.ms": "200",
    "log.retention.check.interval.ms": "86400000",
}
"""What both brokers are set to, so that DescribeConfigs can be compared, too. Many records have times
of long ago: no broker may begin to delete them on its own clock while they are compared.
"""


@pytest.fixture(scope="session")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("differential")
    with apache_kafka(folder / "apache", properties=COMMON) as kafka, EmbeddedCluster(config=COMMON) as cluster:
        node = cluster.nodes[0]
        names = {
                "apache": [(str(kafka.data), "<dir>"), (kafka.cluster_id, "<cluster>"), (str(kafka.controller_port), "<controller port>"),
                           (str(kafka.port), "<port>")],
                "kmirror": [(str(node.log_dir), "<dir>"), (cluster.cluster_id, "<cluster>"), (str(node.controller_port), "<controller port>"),
                            (str(node.port), "<port>")],
        }  # fmt: skip
        pair = Pair(Side("apache", kafka.port, verbatim=True), Side("kmirror", node.port), names)
        pair.controllers = Pair(Side("apache", kafka.controller_port, verbatim=True), Side("kmirror", node.controller_port), names)
        yield pair
        pair.close()


@pytest.fixture
def controllers(brokers: Pair) -> Iterator[Pair]:
    """The controller listeners of both."""
    found = brokers.controllers
    assert found is not None
    yield found
    found.close()
    lines = [line for line in found.report() if not is_known(line)]
    assert not lines, f"{len(lines)} differences:\n" + "\n".join(lines)


@pytest.fixture
def pair(brokers: Pair) -> Iterator[Pair]:
    brokers.report()
    yield brokers
    brokers.close()
    found = [line for line in brokers.report() if not is_known(line)]
    assert not found, f"{len(found)} differences:\n" + "\n".join(found)
