"""An Apache Kafka broker and a cluster of ours that are set up alike."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from contextlib import contextmanager

from harness import Pair, Side
from support.peers.peers import apache_kafka

from kmirror import EmbeddedCluster

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
    "log.retention.ms": "-1",
    "initial.broker.registration.timeout.ms": "60000",
    "server.max.startup.time.ms": "120000",
}
"""What both brokers are set to, so that DescribeConfigs can be compared, too. Many records have times
of long ago: no broker may delete them while they are compared. Kafka looks for old segments first
30 seconds after its start, whatever the interval.
"""


@contextmanager
def both(folder: pathlib.Path, properties: dict[str, str]) -> Iterator[Pair]:
    """An Apache Kafka broker and a cluster of ours with the same properties."""
    with apache_kafka(folder / "apache", properties=properties) as kafka, EmbeddedCluster(config=properties) as cluster:
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
