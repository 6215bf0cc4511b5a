"""A disk of the leader breaks while it mirrors: the partition goes on with another replica, or when
the directory is back, and is never FAILED.
"""

from __future__ import annotations

import pathlib
from typing import Any

from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    add,
    call,
    create_mirror,
    create_topic,
    log_bytes,
    numbered,
    partitions_of,
    produce,
    wait_caught_up,
    wait_for,
)

from kmirror.admin.results import NewTopic
from kmirror.common.topic_partition import TopicPartition
from kmirror.embedded import EmbeddedCluster

T0 = TopicPartition("t", 0)


def leader(cluster: EmbeddedCluster) -> int:
    """The index of the node that leads t-0; -1 while there is none."""
    image = cluster.call(lambda server: server.broker.metadata_cache.image)
    found = image.topics.partition("t", 0)
    return -1 if found is None or not found.has_leader else int(found.leader) - 1


def break_disk(server: Any) -> str:
    """Writes of t-0's log fail from now on as on a full disk; the directory that it is in."""
    log = server.broker.replica_manager.get_partition(T0).leader_log

    def full(*arguments: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    log.local_log.append = full
    return str(log.parent_dir)


def test_another_replica_mirrors_on_when_the_leaders_disk_is_full(tmp_path: pathlib.Path) -> None:
    """It was persisted as FAILED: leadership moved to a healthy broker, and nothing was mirrored
    any more.
    """
    dirs = {index: {"log.dirs": f"{tmp_path}/{index}/a,{tmp_path}/{index}/b"} for index in range(3)}
    config = FAST_MIRROR | {"mirror.topic.num.partitions": "1"}
    with (
        EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a,
        EmbeddedCluster(brokers=3, mirroring=True, config=config, node_config=dirs) as b,
    ):
        create_topic(a.bootstrap_servers, "t")
        produce(a.bootstrap_servers, "t", numbered("a", 20))
        create_topic_like(a, b, replication_factor=3)
        create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
        add(b.bootstrap_servers, "m", "t")
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        broken = leader(b)
        failed = b.call(break_disk, broken)
        produce(a.bootstrap_servers, "t", numbered("b", 20))
        wait_for("another leader", lambda: leader(b) not in (-1, broken) or None)
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        (row,) = partitions_of(b.bootstrap_servers, "m")
        assert (row.state, row.destination_offset, row.lag, row.reason) == ("MIRRORING", 40, 0, None)
        assert b.call(lambda server: server.broker.log_manager.offline_log_dirs, broken) == [failed]
        found = log_in(tmp_path / str(leader(b)))
        assert found == log_bytes(a.log_dir(), "t-0")


def create_topic_like(a: EmbeddedCluster, b: EmbeddedCluster, *, replication_factor: int) -> None:
    """Topic t of A on B, with A's id."""
    topic_id = call(a.bootstrap_servers, lambda admin: admin.describe_topics(["t"]))["t"].topic_id
    topic = NewTopic("t", 1, replication_factor, mirror_topic_id=topic_id)
    call(b.bootstrap_servers, lambda admin: admin.create_topics([topic])).all()


def log_in(node: pathlib.Path) -> bytes:
    """Of t-0, in whichever directory of the node it is."""
    (folder,) = [path.parent for path in node.glob("*/t-0")]
    return log_bytes(folder, "t-0")


def test_one_replica_goes_on_when_its_disk_is_back(tmp_path: pathlib.Path) -> None:
    dirs = {0: {"log.dirs": f"{tmp_path}/a,{tmp_path}/b"}}
    config = FAST_MIRROR | {"mirror.topic.num.partitions": "1"}
    with (
        EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a,
        EmbeddedCluster(mirroring=True, config=config, node_config=dirs) as b,
    ):
        create_topic(a.bootstrap_servers, "t")
        produce(a.bootstrap_servers, "t", numbered("a", 20))
        create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
        add(b.bootstrap_servers, "m", "t")
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        assert b.call(is_beside_its_states), "else its coordinator is gone as well"
        b.call(break_disk)
        produce(a.bootstrap_servers, "t", numbered("b", 20))
        wait_for("no leader", lambda: leader(b) == -1 or None)
        b.stop_node()
        b.start_node()
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        (row,) = partitions_of(b.bootstrap_servers, "m")
        assert (row.state, row.destination_offset) == ("MIRRORING", 40)


def is_beside_its_states(server: Any) -> bool:
    """Whether the topic is in another directory than `__mirror_state`."""
    manager = server.broker.log_manager
    return bool(manager.get_log(T0).parent_dir != manager.get_log(TopicPartition("__mirror_state", 0)).parent_dir)
