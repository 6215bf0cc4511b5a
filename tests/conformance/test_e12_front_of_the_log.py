"""The front of a mirror's log on real clusters whose brokers' defaults differ (FEA2b, FEA3): what the
source has, the destination has.

The destination's brokers keep next to nothing by their own defaults, look every 100 ms, and clean.
"""

from __future__ import annotations

import time

import pytest
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    add,
    assert_equal_logs,
    call,
    create_topic,
    numbered,
    produce,
    remove,
    wait_caught_up,
    wait_for,
    wait_state,
)

from kmirror.common.topic_partition import TopicPartition
from kmirror.embedded import EmbeddedCluster
from kmirror.server.kafka_server import KafkaServer

T0 = TopicPartition("t", 0)
AT_ONCE = {
    **FAST_MIRROR,
    "log.initial.task.delay.ms": "0",
    "log.retention.check.interval.ms": "100",
    "log.cleaner.backoff.ms": "100",
    "log.roll.ms": "300",
}
HARSH = [
    {"log.retention.ms": "1"},
    {"log.retention.bytes": "1"},
    {"log.cleanup.policy": "compact", "log.cleaner.min.cleanable.ratio": "0.01"},
    {"log.cleanup.policy": "compact,delete", "log.cleaner.min.cleanable.ratio": "0.01", "log.retention.ms": "1"},
]


def mirror_without_configs(a: EmbeddedCluster, b: EmbeddedCluster) -> None:
    """A mirror whose topics have the destination's defaults for good."""
    configs = {"bootstrap.servers": a.bootstrap_servers, "mirror.topic.properties.exclude": ".*"}
    call(b.bootstrap_servers, lambda admin: admin.create_mirror("m", configs))


def front(cluster: EmbeddedCluster, node: int = 0) -> int:
    return cluster.call(lambda server: server.broker.replica_manager.get_partition(T0).local_log.log_start_offset, node)


def pass_rounds(cluster: EmbeddedCluster, nodes: int = 1) -> None:
    """Runs the retention and the cleaner of every node so often that the tasks' own runs do not
    matter.
    """

    def round_of(server: KafkaServer) -> None:
        assert server.broker is not None and server.broker.log_manager.cleaner is not None
        manager, cleaner = server.broker.log_manager, server.broker.log_manager.cleaner
        manager.tasks.cleanup_logs()
        while cleaner.clean_filthiest_log():
            pass

    for _ in range(3):
        for node in range(nodes):
            cluster.call(round_of, node)


@pytest.mark.parametrize("defaults", HARSH, ids=lambda defaults: ",".join(defaults.values()))
def test_fea3_defaults_of_the_destination_delete_nothing_of_a_mirror(defaults: dict[str, str]) -> None:
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a, EmbeddedCluster(mirroring=True, config={**AT_ONCE, **defaults}) as b:
        create_topic(a.bootstrap_servers, "t")
        produce(a.bootstrap_servers, "t", numbered("old", 40))
        mirror_without_configs(a, b)
        add(b.bootstrap_servers, "m", "t")
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        time.sleep(0.4)  # log.roll.ms has passed, so that the first part can be cleaned
        produce(a.bootstrap_servers, "t", numbered("new", 10))
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        pass_rounds(b)
        assert front(b) == 0
        assert_equal_logs(a.log_dir(), b.log_dir(), ["t-0"])
        b.stop_node()
        b.start_node()
        wait_state(b.bootstrap_servers, "m", "MIRRORING")
        pass_rounds(b)
        assert_equal_logs(a.log_dir(), b.log_dir(), ["t-0"])
        call(a.bootstrap_servers, lambda admin: admin.delete_records({T0: 25}))
        wait_for("the source's log start", lambda: front(b) == 25)


def test_fea3_followers_and_new_leaders_keep_the_front_too() -> None:
    """The log of a mirror that was failed over is deleted by its leader, and then by the others."""
    harsh = {**AT_ONCE, "log.retention.ms": "1", "mirror.topic.replication.factor": "3", "default.replication.factor": "3"}
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a, EmbeddedCluster(3, mirroring=True, config=harsh) as b:
        create_topic(a.bootstrap_servers, "t")
        produce(a.bootstrap_servers, "t", numbered("old", 40))
        mirror_without_configs(a, b)
        add(b.bootstrap_servers, "m", "t")
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        for node in range(3):  # each is restarted, so that each was a follower, and the leader moved
            b.stop_node(node)
            b.start_node(node)
            wait_state(b.bootstrap_servers, "m", "MIRRORING")
            pass_rounds(b, 3)
            assert [front(b, each) for each in range(3)] == [0, 0, 0]
        remove(b.bootstrap_servers, "m", "t")
        wait_state(b.bootstrap_servers, "m", "STOPPED")
        wait_for("the log starts of all replicas", lambda: {front(b, node) for node in range(3)} == {41})
