"""`__share_group_state` on disk: superfluous records are deleted while the broker works, and a
restart still finds what counts.
"""

from __future__ import annotations

from support.mirrors.mirror_harness import call, create_topic, wait_for

from kmirror.admin.admin_client import EARLIEST_TIMESTAMP
from kmirror.common.topic_partition import TopicPartition
from kmirror.embedded import EmbeddedCluster

CONFIG = {
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.prune.interval.ms": "100",
    "share.coordinator.cold.partition.snapshot.interval.ms": "300",
}
STATE = TopicPartition("__share_group_state", 0)
T0 = TopicPartition("t", 0)


def log_start(address: str) -> int:
    found = call(address, lambda admin: admin.list_offsets_by_spec({STATE: EARLIEST_TIMESTAMP}))[STATE]
    return found.offset if not isinstance(found, Exception) else -1


def alter(address: str, group: str, offset: int) -> None:
    assert call(address, lambda admin: admin.alter_share_group_offsets(group, {T0: offset})) == {T0: None}


def begins(address: str, group: str) -> int | None:
    row = call(address, lambda admin: admin.list_share_group_offsets(group, [T0]), timeout_ms=30_000)[T0]
    return None if row is None else row.start_offset


def test_the_log_is_pruned_and_loaded_again() -> None:
    with EmbeddedCluster(config=CONFIG) as cluster:
        address = cluster.bootstrap_servers
        create_topic(address, "t")
        alter(address, "cold", 1)
        for offset in range(6):
            alter(address, "hot", offset)
        wait_for("the log to be pruned behind the cold group's first snapshot", lambda: log_start(address) >= 7)
        cluster.kill_node(0)
        cluster.start_node(0)
        wait_for("the groups after a kill", lambda: (begins(address, "cold"), begins(address, "hot")) == (1, 5))
        wait_for("the log to be pruned again", lambda: log_start(address) >= 7)
        call(address, lambda admin: admin.delete_topics(["t"])).all()
        assert call(address, lambda admin: admin.list_share_group_offsets("hot")) == {}
