"""EmbeddedCluster(processes=True): a process for each broker, none of which outlives the one that
started it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys

import pytest
from confluent_kafka.admin import AdminClient
from support.mirrors.mirror_harness import log_bytes, produce_numbered, quiet, wait_for
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.common.errors import KmirrorError
from kmirror.embedded import EmbeddedNode

FAST_SESSION = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "100"}

PARENT = """
from kmirror import EmbeddedCluster
cluster = EmbeddedCluster(brokers=2, processes=True).start()
print(*(node.process.pid for node in cluster.nodes), cluster.folder, flush=True)
input()
"""


def is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def pid_of(node: EmbeddedNode) -> int:
    assert node.process is not None
    return node.process.pid


def test_a_killed_process_comes_back_on_its_port_and_the_replicas_are_equal() -> None:
    with EmbeddedCluster(brokers=3, processes=True, config=FAST_SESSION) as cluster:
        address = cluster.bootstrap_servers
        admin = AdminClient(quiet({"bootstrap.servers": address}))
        create_topic_rf3(admin, "p")
        produce_numbered(address, "p", 0, 100, acks="all")
        pids = [pid_of(node) for node in cluster.nodes]
        assert len({os.getpid(), *pids}) == 4
        cluster.kill_node(1)
        assert not is_alive(pids[1])
        produce_numbered(address, "p", 100, 100, acks="all")
        cluster.start_node(1)
        assert cluster.bootstrap_servers == address and pid_of(cluster.nodes[1]) != pids[1]
        wait_for("the ISR to expand", lambda: len(admin.list_topics("p", timeout=10).topics["p"].partitions[0].isrs) == 3)
        wait_for("equal logs", lambda: len({log_bytes(cluster.log_dir(node), "p-0") for node in range(3)}) == 1)
        cluster.stop_node(2)
        assert (cluster.log_dir(2) / ".kafka_cleanshutdown").exists()
        with pytest.raises(KmirrorError, match="node 1 runs in another process"):
            cluster.call(lambda server: server, 0)
        assert b"started" in (cluster.folder / "node-1" / "server.log").read_bytes()
    assert not any(is_alive(pid) for pid in pids)


def create_topic_rf3(admin: AdminClient, name: str) -> None:
    from confluent_kafka.admin import NewTopic

    admin.create_topics([NewTopic(name, 1, 3)])[name].result(REACHED_S)


def test_the_children_die_with_a_parent_that_is_killed() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    *pids, folder = parent.stdout.readline().split()
    assert len(pids) == 2 and all(is_alive(int(pid)) for pid in pids)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    assert parent.stdin is not None
    parent.stdin.close()
    wait_for("the children to be gone", lambda: not any(is_alive(int(pid)) for pid in pids))
    subprocess.run(["rm", "-r", folder], check=True)


@pytest.mark.parametrize("processes", [False, True])
def test_a_start_that_fails_midway_leaves_no_broker_behind(processes: bool, tmp_path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        busy = {2: {"listeners": f"PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}"}}
        cluster = EmbeddedCluster(brokers=3, processes=processes, node_config=busy, folder=tmp_path)
        with pytest.raises((KmirrorError, OSError), match="cannot listen on"):
            cluster.start()
    assert not any(node.is_running for node in cluster.nodes)
    for node in cluster.nodes[:2]:
        with socket.socket() as probe:
            assert node.port == 0 or probe.connect_ex(("127.0.0.1", node.port)) != 0


def test_processes_under_an_async_caller() -> None:
    async def use() -> None:
        async with EmbeddedCluster(brokers=2, processes=True) as cluster:
            pids = [pid_of(node) for node in cluster.nodes]
            metadata = await asyncio.to_thread(
                AdminClient(quiet({"bootstrap.servers": cluster.bootstrap_servers})).list_topics, timeout=REACHED_S
            )
            assert sorted(metadata.brokers) == [1, 2]
        assert not any(is_alive(pid) for pid in pids)

    asyncio.run(use())
