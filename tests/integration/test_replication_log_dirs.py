"""Brokers with several log directories: the controller knows where replicas are, and what a failed
directory takes with it.
"""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from support.mirrors.mirror_harness import log_bytes, produce_numbered, quiet, wait_for
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.cli.kmirror import main as kmirror_main
from kmirror.common.errors import ConfigError, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.network.client import NetworkClient
from kmirror.runtime.api import Runtime
from kmirror.runtime.asyncio_runtime import run
from kmirror.storage.log_segment import LogSegment
from kmirror.wire.messages.alter_replica_log_dirs import AlterReplicaLogDir, AlterReplicaLogDirsRequest, AlterReplicaLogDirTopic
from kmirror.wire.messages.describe_log_dirs import DescribeLogDirsRequest

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
        admin.create_topics([NewTopic("d", PARTITIONS, 2)])["d"].result(REACHED_S)
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


def test_a_full_log_directory_of_a_leader_and_follower_keeps_no_partition_of_the_other_out_of_the_isr(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write of one partition failed; the follower's fetcher ended with it, for all partitions
    of its leader.
    """
    dirs = {index: {"log.dirs": f"{tmp_path}/{index}/a,{tmp_path}/{index}/b"} for index in range(2)}
    with EmbeddedCluster(brokers=2, config=FAST, node_config=dirs) as cluster:
        admin = AdminClient(quiet({"bootstrap.servers": cluster.bootstrap_servers}))
        admin.create_topics([NewTopic("d", 2 * PARTITIONS, 2)])["d"].result(REACHED_S)
        for node in range(2):
            wait_for("the controller to know the directories", lambda node=node: all(directories(cluster, node).values()))
        produce_numbered(cluster.bootstrap_servers, "d", 0, 40, partitions=2 * PARTITIONS, acks="all")
        full, append = f"{tmp_path}/1/a", LogSegment.append

        def refuse(segment: LogSegment, *arguments: Any) -> None:
            if segment.path.startswith(f"{full}/"):
                raise OSError(28, "No space left on device", segment.path)
            append(segment, *arguments)

        lost = cluster.call(
            lambda server: sorted(each.partition for each in server.broker.log_manager.logs_in_dir(full) if each.topic == "d"), 1
        )
        assert 0 < len(lost) < 2 * PARTITIONS
        monkeypatch.setattr(LogSegment, "append", refuse)
        produce_numbered(cluster.bootstrap_servers, "d", 40, 80, partitions=2 * PARTITIONS, acks="all")

        def rows() -> dict[int, tuple[int, list[int]]]:
            partitions = admin.list_topics("d", timeout=10).topics["d"].partitions
            return {number: (row.leader, sorted(row.isrs)) for number, row in partitions.items()}

        wait_for("the partitions to leave broker 2", lambda: all(rows()[number] == (1, [1]) for number in lost))
        produce_numbered(cluster.bootstrap_servers, "d", 120, 80, partitions=2 * PARTITIONS, acks="all")
        assert all(isr == [1, 2] for number, (_, isr) in rows().items() if number not in lost)
        for node in range(2):
            beans = cluster.metrics(node)
            assert beans["kafka.server:type=ReplicaFetcherManager,name=DeadThreadCount,clientId=Replica"] == {"Value": 0}
            assert beans["kmirror:type=Runtime,name=UnexpectedFailureCount"] == {"Value": 0}


def test_a_broker_without_a_log_directory_ends(tmp_path) -> None:
    with EmbeddedCluster(brokers=2, config={"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "100"}) as cluster:
        data = str(cluster.log_dir(1))
        cluster.call(lambda server: server.broker.log_manager.handle_log_dir_failure(data, OSError("input/output error")), 1)
        reason = cluster.call(lambda server: server.fatal.result(), 1)
        assert reason == f"Shutdown broker because all log dirs in {data} have failed"
        admin = AdminClient(quiet({"bootstrap.servers": cluster.bootstrap_servers}))
        wait_for("broker 2 to be gone", lambda: sorted(admin.list_topics(timeout=10).brokers) == [1])


def two_dirs(tmp_path) -> dict[int, dict[str, str]]:  # type: ignore[no-untyped-def]
    return {index: {"log.dirs": f"{tmp_path}/{index}/a,{tmp_path}/{index}/b"} for index in range(2)}


@pytest.mark.parametrize("is_removed", [False, True])
def test_a_directory_that_lost_its_data_is_refused_until_it_is_formatted_and_then_filled(tmp_path, is_removed: bool) -> None:
    """It was used unformatted: its replicas stayed out of the ISR for good."""
    with EmbeddedCluster(brokers=2, config=FAST, node_config=two_dirs(tmp_path)) as cluster:
        admin = AdminClient(quiet({"bootstrap.servers": cluster.bootstrap_servers}))
        admin.create_topics([NewTopic("d", PARTITIONS, 2)])["d"].result(REACHED_S)
        produce_numbered(cluster.bootstrap_servers, "d", 0, 40, partitions=PARTITIONS, acks="all")
        lost = tmp_path / "1" / "b"
        assert any(path.name.startswith("d-") for path in lost.iterdir())
        cluster.stop_node(1)
        shutil.rmtree(lost)
        if not is_removed:
            lost.mkdir()
        with pytest.raises(ConfigError) as refused:
            cluster.start_node(1)
        assert str(refused.value).startswith(f"No `meta.properties` found in {lost} (have you run `kafka-storage.sh` to format")
        assert not lost.exists() or not list(lost.iterdir()), "nothing is made there"
        properties = tmp_path / "node.properties"
        properties.write_text(
            f"process.roles=broker\nnode.id=2\nlog.dirs={tmp_path}/1/a,{lost}\ncontroller.listener.names=CONTROLLER\n"
            "controller.quorum.voters=1@localhost:9093\nlisteners=PLAINTEXT://localhost:0\n"
        )
        assert kmirror_main(["format", "--ignore-formatted", "--cluster-id", cluster.cluster_id, "--config", str(properties)]) == 0
        cluster.start_node(1)

        def isrs() -> list[list[int]]:
            return [sorted(row.isrs) for row in admin.list_topics("d", timeout=10).topics["d"].partitions.values()]

        wait_for("all replicas to be in the ISR", lambda: isrs() == [[1, 2]] * PARTITIONS)
        wait_for("the controller to know the directories", lambda: all(directories(cluster, 1).values()))
        for number in range(PARTITIONS):
            ours, theirs = (log_bytes(pathlib.Path(directory_of(cluster, "d", number, node)[0]), f"d-{number}") for node in range(2))
            assert ours == theirs and ours


def log_dirs_of(cluster: EmbeddedCluster, topic: str, node: int = 0) -> dict[str, list[tuple[int, bool, int]]]:
    """DescribeLogDirs: directory to (partition, is future, lag)."""

    async def ask(client: NetworkClient) -> Any:
        host, _, port = cluster.bootstrap_servers.split(",")[node].rpartition(":")
        return await client.send(host, int(port), DescribeLogDirsRequest(topics=None), timeout_ms=10_000)

    response = with_client(ask)
    return {
        result.log_dir: [(p.partition_index, p.is_future_key, p.offset_lag) for t in result.topics if t.name == topic for p in t.partitions]
        for result in response.results
    }


def move(cluster: EmbeddedCluster, topic: str, partition: int, log_dir: str, node: int = 0) -> int:
    """AlterReplicaLogDirs for one partition; the error code."""
    topics = [AlterReplicaLogDirTopic(name=topic, partitions=[partition])]

    async def ask(client: NetworkClient) -> Any:
        host, _, port = cluster.bootstrap_servers.split(",")[node].rpartition(":")
        return await client.send(
            host, int(port), AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=log_dir, topics=topics)]), timeout_ms=10_000
        )

    return int(with_client(ask).results[0].partitions[0].error_code)


def with_client(ask: Callable[[NetworkClient], Awaitable[Any]]) -> Any:
    async def main(runtime: Runtime) -> Any:
        client = NetworkClient(runtime, "test")
        try:
            return await ask(client)
        finally:
            client.close()

    return run(main)


def directory_of(cluster: EmbeddedCluster, topic: str, partition: int = 0, node: int = 0) -> tuple[str, bool]:
    """Where the partition's log is, and whether the metadata says so."""

    def look(server) -> tuple[str, bool]:  # type: ignore[no-untyped-def]
        log = server.broker.log_manager.get_log(TopicPartition(topic, partition))
        registration = server.broker.metadata_cache.image.topics.partition(topic, partition)
        return log.parent_dir, registration.directory(node + 1) == server.broker.log_manager.directory_id(log.parent_dir)

    return cluster.call(look, node)


def test_a_replica_moves_between_log_directories_under_load_and_loses_nothing(tmp_path) -> None:
    with EmbeddedCluster(brokers=2, node_config=two_dirs(tmp_path)) as cluster:
        admin = AdminClient(quiet({"bootstrap.servers": cluster.bootstrap_servers}))
        admin.create_topics([NewTopic("d", 1, 2, config={"segment.bytes": "1048576"})])["d"].result(REACHED_S)
        produce_numbered(cluster.bootstrap_servers, "d", 0, 2000, acks="all")
        for node in range(2):
            before, _ = directory_of(cluster, "d", node=node)
            after = f"{tmp_path}/{node}/{'b' if before.endswith('a') else 'a'}"
            content = log_bytes(pathlib.Path(before), "d-0")
            assert move(cluster, "d", 0, after, node) == Errors.NONE
            produce_numbered(cluster.bootstrap_servers, "d", 2000 + 100 * node, 100, acks="all")
            wait_for("the move", lambda node=node, after=after: directory_of(cluster, "d", node=node) == (after, True))
            assert log_bytes(pathlib.Path(after), "d-0").startswith(content) and not (pathlib.Path(before) / "d-0").exists()
            described = log_dirs_of(cluster, "d", node)
            assert described == {before: [], after: [(0, False, 0)]}
        logs = [log_bytes(pathlib.Path(directory_of(cluster, "d", node=node)[0]), "d-0") for node in range(2)]
        assert logs[0] == logs[1]
        produce_numbered(cluster.bootstrap_servers, "d", 2200, 50, acks="all")


def test_a_throttled_move_goes_on_after_a_restart_and_can_be_turned_back(tmp_path) -> None:
    with EmbeddedCluster(
        node_config={0: two_dirs(tmp_path)[0]}, config={"replica.fetch.max.bytes": "4096"}, folder=tmp_path / "c"
    ) as cluster:
        admin = AdminClient(quiet({"bootstrap.servers": cluster.bootstrap_servers}))
        admin.create_topics([NewTopic("m", 1, 1)])["m"].result(REACHED_S)
        produce_numbered(cluster.bootstrap_servers, "m", 0, 1000, acks="all")
        throttle(admin, "2000")
        before, _ = directory_of(cluster, "m")
        after = f"{tmp_path}/0/{'b' if before.endswith('a') else 'a'}"
        assert move(cluster, "m", 0, after) == Errors.NONE
        wait_for("the throttle", lambda: cluster.call(lambda server: server.broker.replica_manager.quotas.alter_log_dirs.is_quota_exceeded))
        ((partition, is_future, lag),) = log_dirs_of(cluster, "m")[after]
        assert (partition, is_future) == (0, True) and 0 < lag < 1000
        assert move(cluster, "m", 0, before) == Errors.NONE
        wait_for("the move to be given up", lambda: log_dirs_of(cluster, "m") == {before: [(0, False, 0)], after: []})
        assert move(cluster, "m", 0, f"{tmp_path}/elsewhere") == Errors.LOG_DIR_NOT_FOUND
        assert move(cluster, "m", 7, after) == Errors.UNKNOWN_TOPIC_OR_PARTITION
        assert move(cluster, "m", 0, after) == Errors.NONE
        content = log_bytes(pathlib.Path(before), "m-0")
        cluster.stop_node()
        cluster.start_node()
        assert log_dirs_of(cluster, "m")[after][0][:2] == (0, True), "what was copied is there"
        throttle(admin, "9223372036854775807")
        wait_for("the move", lambda: directory_of(cluster, "m") == (after, True))
        assert log_bytes(pathlib.Path(after), "m-0") == content


def throttle(admin: AdminClient, rate: str) -> None:
    entry = ConfigEntry("replica.alter.log.dirs.io.max.bytes.per.second", rate, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(REACHED_S)
