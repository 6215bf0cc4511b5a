"""Kafka's own kafka-reassign-partitions moves replicas between brokers and log directories,
throttled, and takes the throttles away.
"""

from __future__ import annotations

import json
import pathlib

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from support.mirrors.mirror_harness import log_bytes, produce_numbered, quiet, wait_for
from support.peers.apache_tools import LOG_DIRS, REASSIGN, apache_tools
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.common.topic_partition import TopicPartition

pytestmark = pytest.mark.interop


def test_replicas_move_between_brokers_and_directories_with_throttles(tmp_path: pathlib.Path) -> None:
    dirs = {index: {"log.dirs": f"{tmp_path}/{index}/a,{tmp_path}/{index}/b"} for index in range(3)}
    with EmbeddedCluster(brokers=3, node_config=dirs) as cluster, apache_tools(tmp_path / "tools") as tools:
        admin = AdminClient(quiet({"bootstrap.servers": cluster.bootstrap_servers}))
        admin.create_topics([NewTopic("mv", replica_assignment=[[1, 2]], num_partitions=1)])["mv"].result(REACHED_S)
        produce_numbered(cluster.bootstrap_servers, "mv", 0, 500, acks="all")

        def directory(node: int) -> str:
            find = TopicPartition("mv", 0)
            return cluster.call(lambda server: server.broker.log_manager.get_log(find).parent_dir, node)

        other = f"{tmp_path}/1/{'b' if directory(1).endswith('a') else 'a'}"
        target = f"{tmp_path}/2/b"
        plan = tmp_path / "plan.json"
        row = {"topic": "mv", "partition": 0, "replicas": [2, 3], "log_dirs": [other, target]}
        plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
        common = ["--bootstrap-server", cluster.bootstrap_servers, "--reassignment-json-file", str(plan)]
        throttles = ["--throttle", "50000000", "--replica-alter-log-dirs-throttle", "50000000"]
        executed = tools.run(REASSIGN, *common, "--execute", *throttles)
        assert executed.code == 0, executed.out + executed.err
        assert "Successfully started partition reassignment for mv-0" in executed.out, executed.out
        produce_numbered(cluster.bootstrap_servers, "mv", 500, 100, acks="all")
        verified = ""

        def complete() -> bool:
            nonlocal verified
            verified = tools.run(REASSIGN, *common, "--verify").out
            return "Reassignment of partition mv-0 is completed." in verified and "still in progress" not in verified

        wait_for("the reassignment", complete)
        assert "Reassignment of replica mv-0-2 completed successfully." in verified, verified
        assert (directory(1), directory(2)) == (other, target)
        assert log_bytes(pathlib.Path(other), "mv-0") == log_bytes(pathlib.Path(target), "mv-0")
        wait_for("the old replica to go", lambda: not list(pathlib.Path(tmp_path, "0").glob("*/mv-0")))
        for node in range(3):
            bounds = cluster.call(
                lambda server: [
                    quota.upper_bound
                    for quota in (server.broker.replica_manager.quotas.leader, server.broker.replica_manager.quotas.alter_log_dirs)
                ],
                node,
            )
            assert bounds == [(1 << 63) - 1] * 2, "the tool took the throttles away"
        described = tools.run(LOG_DIRS, "--bootstrap-server", cluster.bootstrap_servers, "--describe", "--topic-list", "mv")
        shown = json.loads(described.out.splitlines()[-1])
        held = {
            (broker["broker"], log_dir["logDir"]) for broker in shown["brokers"] for log_dir in broker["logDirs"] if log_dir["partitions"]
        }
        assert held == {(2, other), (3, target)}
