"""EmbeddedCluster: restarts keep ports and data, kills lose nothing, several brokers replicate,
wrong use is one line.
"""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    call,
    create_mirror_by_tool,
    create_topic,
    kafka_mirrors,
    log_bytes,
    produce_numbered,
    quiet,
    wait_for,
    wait_states,
)
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.common.errors import Errors, KmirrorError
from kmirror.record.record_batch import iter_batches


def records(cluster: EmbeddedCluster, folder: str, node: int = 0) -> int:
    return sum(batch.record_count for batch in iter_batches(log_bytes(cluster.log_dir(node), folder)))


def test_a_stopped_or_killed_node_comes_back_with_its_ports_and_data() -> None:
    with EmbeddedCluster() as cluster:
        address = cluster.bootstrap_servers
        create_topic(address, "t")
        produce_numbered(address, "t", 0, 100)
        for end in (cluster.stop_node, cluster.kill_node):
            end()
            cluster.start_node()
            assert cluster.bootstrap_servers == address
            produce_numbered(address, "t", 100, 50)
        assert records(cluster, "t-0") == 200


def test_the_folder_is_removed_unless_it_was_given(tmp_path) -> None:
    with EmbeddedCluster() as cluster:
        temporary = cluster.folder
        assert temporary.is_dir()
    assert not temporary.exists()
    with EmbeddedCluster(folder=tmp_path / "kept") as cluster:
        create_topic(cluster.bootstrap_servers, "t")
        cluster_id = cluster.cluster_id
    with EmbeddedCluster(folder=tmp_path / "kept", cluster_id=cluster_id) as cluster:
        assert "t" in AdminClient(quiet({"bootstrap.servers": cluster.bootstrap_servers})).list_topics(timeout=10).topics


def test_three_brokers_replicate_and_survive_the_death_of_a_leader() -> None:
    with EmbeddedCluster(brokers=3, config={"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "100"}) as cluster:
        admin = AdminClient(quiet({"bootstrap.servers": cluster.bootstrap_servers}))
        create_topic_rf3(admin, "r")
        produce_numbered(cluster.bootstrap_servers, "r", 0, 200, acks="all")
        leader = admin.list_topics("r", timeout=10).topics["r"].partitions[0].leader
        victim = leader - 1 if leader != 1 else 1
        cluster.kill_node(victim)
        wait_for("the ISR to shrink", lambda: len(admin.list_topics("r", timeout=10).topics["r"].partitions[0].isrs) == 2)
        produce_numbered(cluster.bootstrap_servers, "r", 200, 100, acks="all")
        cluster.start_node(victim)
        wait_for("the ISR to expand", lambda: len(admin.list_topics("r", timeout=10).topics["r"].partitions[0].isrs) == 3)
        logs = {log_bytes(cluster.log_dir(node), "r-0") for node in range(3)}
        assert len(logs) == 1 and records(cluster, "r-0") == 300


def create_topic_rf3(admin: AdminClient, name: str) -> None:
    from confluent_kafka.admin import NewTopic

    admin.create_topics([NewTopic(name, 1, 3)])[name].result(REACHED_S)


def test_a_mirror_with_three_brokers_on_each_side_fails_over(tmp_path) -> None:
    with (
        EmbeddedCluster(brokers=3, mirroring=True, config=FAST_MIRROR) as north,
        EmbeddedCluster(brokers=3, mirroring=True, config=FAST_MIRROR) as south,
    ):
        admin = AdminClient(quiet({"bootstrap.servers": north.bootstrap_servers}))
        create_topic_rf3(admin, "m3")
        produce_numbered(north.bootstrap_servers, "m3", 0, 300, acks="all", codec="lz4")
        create_mirror_by_tool(tmp_path, south.bootstrap_servers, north.bootstrap_servers, "m")
        kafka_mirrors(south.bootstrap_servers, "--add", "--mirror", "m", "--topic", "m3", "--replication-factor", "3")
        wait_states(south.bootstrap_servers, "m", "MIRRORING", partitions=1, lag=0)
        source = log_bytes(north.log_dir(), "m3-0")
        for node in range(3):
            wait_for(f"replica {node + 1} to be equal", lambda node=node: log_bytes(south.log_dir(node), "m3-0") == source)
        kafka_mirrors(south.bootstrap_servers, "--remove", "--mirror", "m", "--topic", "m3")
        wait_states(south.bootstrap_servers, "m", "STOPPED", partitions=1)
        produce_numbered(south.bootstrap_servers, "m3", 300, 50, acks="all")


def test_topics_are_deleted_by_their_ids() -> None:
    """One that bears the name by then is another one."""
    with EmbeddedCluster() as cluster:
        servers = cluster.bootstrap_servers
        create_topic(servers, "orders")
        (first,) = call(servers, lambda admin: admin.describe_topics(["orders"])).values()
        assert call(servers, lambda admin: admin.delete_topics_by_ids([first.topic_id])).succeeded == [str(first.topic_id)]
        create_topic(servers, "orders")
        refused = call(servers, lambda admin: admin.delete_topics_by_ids([first.topic_id])).failed
        assert refused[str(first.topic_id)].error is Errors.UNKNOWN_TOPIC_ID
        assert "orders" in call(servers, lambda admin: admin.list_topics())


def test_too_few_brokers_for_the_state_topic_is_an_invalid_replication_factor(tmp_path) -> None:
    with EmbeddedCluster(mirroring=True, config={"mirror.topic.replication.factor": "3"}) as cluster:
        with pytest.raises(AssertionError) as raised:
            create_mirror_by_tool(tmp_path, cluster.bootstrap_servers, "127.0.0.1:9", "m")
        assert "replication factor" in str(raised.value).lower()


def test_wrong_use_is_one_clear_line() -> None:
    with pytest.raises(KmirrorError, match="brokers is a number from 1, not 0"):
        EmbeddedCluster(brokers=0)
    with pytest.raises(KmirrorError, match="Invalid value"):
        EmbeddedCluster(config={"num.partitions": "many"}).start()
    with pytest.raises(KmirrorError, match="not running"):
        EmbeddedCluster().kill_node()
    with EmbeddedCluster() as cluster, pytest.raises(KmirrorError, match="already running"):
        cluster.start_node()
