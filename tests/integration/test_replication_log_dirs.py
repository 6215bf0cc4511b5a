"""Brokers with several log directories: the controller knows where replicas are, and what a failed directory takes with it."""

from __future__ import annotations

from confluent_kafka.admin import AdminClient, NewTopic
from mirror_harness import produce_numbered, quiet, wait_for

from kmirror import EmbeddedCluster
from kmirror.common.topic_partition import TopicPartition

FAST = {"broker.heartbeat.interval.ms": "5000", "auto.create.topics.enable": "false"}
PARTITIONS = 4


def directories(cluster: EmbeddedCluster, node: int) -> dict[int, bool]:
    """Partition to whether the metadata names the directory that the log of `node` is in."""

    def compare(server) -> dict[int, bool]:  # type: ignore[no-untyped-def]
        manager, topic = server.broker.log_manager, server.broker.metadata_cache.image.topics.topic("d")
        found = {}
        for number, registration in topic.partitions.items():
            log = manager.get_log(TopicPartition("d", number))
            found[number] = log is not None and registration.directory(node + 1) == manager.directory_id(log.parent_dir)
        return found

    return cluster.call(compare, node)


def test_a_failed_log_directory_moves_leaders_away_and_leaves_the_other_directory_alone(tmp_path) -> None:
    dirs = {index: {"log.dirs": f"{tmp_path}/{index}/a,{tmp_path}/{index}/b"} for index in range(2)}
    with EmbeddedCluster(brokers=2, config=FAST, node_config=dirs) as cluster:
        admin = AdminClient(quiet({"bootstrap.servers": cluster.bootstrap_servers}))
        admin.create_topics([NewTopic("d", PARTITIONS, 2)])["d"].result(20)
        for node in range(2):
            wait_for("the controller to know the directories", lambda node=node: all(directories(cluster, node).values()))
        produce_numbered(cluster.bootstrap_servers, "d", 0, 40, partitions=PARTITIONS, acks="all")
        failed = f"{tmp_path}/1/a"

        def fail(server) -> list[int]:  # type: ignore[no-untyped-def]
            manager = server.broker.log_manager
            lost = [topic_partition.partition for topic_partition in manager.logs_in_dir(failed) if topic_partition.topic == "d"]
            manager.handle_log_dir_failure(failed, OSError("input/output error"))
            return lost

        lost = cluster.call(fail, 1)
        assert 0 < len(lost) < PARTITIONS

        def rows() -> dict[int, tuple[int, list[int]]]:
            partitions = admin.list_topics("d", timeout=10).topics["d"].partitions
            return {number: (row.leader, sorted(row.isrs)) for number, row in partitions.items()}

        wait_for("the partitions to leave broker 2", lambda: all(rows()[number] == (1, [1]) for number in lost))
        kept = [number for number in range(PARTITIONS) if number not in lost]
        assert all(rows()[number][1] == [1, 2] for number in kept)
        produce_numbered(cluster.bootstrap_servers, "d", 40, 40, partitions=PARTITIONS, acks="all")
        state = cluster.call(lambda server: (server.fatal.done(), server.broker.log_manager.offline_log_dirs), 1)
        assert state == (False, [failed])


def test_a_broker_without_a_log_directory_ends(tmp_path) -> None:
    with EmbeddedCluster(brokers=2, config={"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "100"}) as cluster:
        data = str(cluster.log_dir(1))
        cluster.call(lambda server: server.broker.log_manager.handle_log_dir_failure(data, OSError("input/output error")), 1)
        reason = cluster.call(lambda server: server.fatal.result(), 1)
        assert reason == f"Shutdown broker because all log dirs in {data} have failed"
        admin = AdminClient(quiet({"bootstrap.servers": cluster.bootstrap_servers}))
        wait_for("broker 2 to be gone", lambda: sorted(admin.list_topics(timeout=10).brokers) == [1])
