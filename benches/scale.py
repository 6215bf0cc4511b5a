"""Ten thousand partitions on three brokers: how long to create all of them, to restart the cluster,
and how much memory it takes.

100 topics of 100 partitions, ten topics a request, as an admin client sends them; each request
waits for the one before. All are created when every broker lists all its replicas (DescribeLogDirs)
and knows a leader of every partition (Metadata). A restart is stop and start of all nodes on their
folders, until the same holds again. Memory is the peak resident size of all processes together.
Once with all brokers in one process and once with a process each; replication factor 3 is reported
beside it.
"""

from __future__ import annotations

import os
import pathlib
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

from benches.harness import Context, Row
from kmirror import EmbeddedCluster
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.framing import RequestHeader, encode_request, read_response
from kmirror.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kmirror.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from kmirror.wire.messages.metadata import MetadataRequest

PARTITIONS_PER_TOPIC, TOPICS_PER_REQUEST = 100, 10
LIMIT_S, LIMIT_MB = 5, 1000
LEADS_NOBODY = -1


def ask(port: int, request: Any, version: int) -> Any:
    api = ApiKeys(type(request).API_KEY)
    with socket.create_connection(("127.0.0.1", port), 60) as connection:
        connection.sendall(b"".join(bytes(part) for part in encode_request(RequestHeader(api, version, 1, "bench"), request)))
        stream = connection.makefile("rb")
        (length,) = struct.unpack(">i", stream.read(4))
        return read_response(api, version, memoryview(stream.read(length)))[1]


def create_all(cluster: EmbeddedCluster, topics: int, replication_factor: int) -> None:
    names = [f"topic-{number}" for number in range(topics)]
    for first in range(0, topics, TOPICS_PER_REQUEST):
        wanted = [CreatableTopic(name, PARTITIONS_PER_TOPIC, replication_factor) for name in names[first : first + TOPICS_PER_REQUEST]]
        response = ask(cluster.nodes[0].port, CreateTopicsRequest(wanted, 60_000), 7)
        assert not any(topic.error_code for topic in response.topics), response.topics[0]


def replicas_and_leaders(port: int) -> tuple[int, int]:
    """Replicas that a broker has, partitions of which it knows a leader."""
    described = ask(port, DescribeLogDirsRequest(topics=None), 4)
    replicas = sum(len(topic.partitions) for log_dir in described.results for topic in log_dir.topics)
    metadata = ask(port, MetadataRequest(topics=None), 12)
    leaders = sum(partition.leader_id != LEADS_NOBODY for topic in metadata.topics for partition in topic.partitions)
    return replicas, leaders


def wait_for_all(cluster: EmbeddedCluster, partitions: int, replication_factor: int) -> None:
    deadline = time.monotonic() + 120
    while True:
        seen = [replicas_and_leaders(node.port) for node in cluster.nodes]
        if sum(replicas for replicas, _ in seen) == partitions * replication_factor and all(leaders == partitions for _, leaders in seen):
            return
        assert time.monotonic() < deadline, f"replicas and leaders after two minutes: {seen}"
        time.sleep(0.05)


def peak_memory_mb(cluster: EmbeddedCluster) -> float:
    pids = {os.getpid(), *(node.process.pid for node in cluster.nodes if node.process is not None)}
    total = 0
    for pid in pids:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        total += next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
    return total / 1024


def run(context: Context) -> Iterator[Row]:
    topics = context.choose(10, 100)
    for processes in (False, True):
        for replication_factor in (1, 3):
            folder = context.folder / f"{processes}-{replication_factor}"
            yield from measure(folder, topics, replication_factor, processes=processes)


def measure(folder: pathlib.Path, topics: int, replication_factor: int, *, processes: bool) -> Iterator[Row]:
    partitions = topics * PARTITIONS_PER_TOPIC
    what = f"{partitions} partitions, RF {replication_factor}, {'a process each' if processes else 'one process'}"
    cluster = EmbeddedCluster(3, processes=processes, folder=folder)
    with cluster:
        began = time.perf_counter()
        create_all(cluster, topics, replication_factor)
        acknowledged = time.perf_counter() - began
        wait_for_all(cluster, partitions, replication_factor)
        created = time.perf_counter() - began
        first_memory = peak_memory_mb(cluster)
    stopped_at = time.perf_counter()
    with cluster:
        wait_for_all(cluster, partitions, replication_factor)
        restarted = time.perf_counter() - stopped_at
        memory = max(first_memory, peak_memory_mb(cluster))
    promised = replication_factor == 1
    yield Row("scale", f"{what}: create all", created, "s", f"<= {LIMIT_S}" if promised else "", created <= LIMIT_S if promised else None,
              note=f"acknowledged after {acknowledged:.1f} s")  # fmt: skip
    yield Row("scale", f"{what}: restart", restarted, "s", f"<= {LIMIT_S}" if promised else "", restarted <= LIMIT_S if promised else None)
    yield Row("scale", f"{what}: memory", memory, "MB", f"<= {LIMIT_MB}" if promised else "", memory <= LIMIT_MB if promised else None,
              note="peak resident size of all processes")  # fmt: skip
