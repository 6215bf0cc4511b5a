"""Apache Kafka's dump tool reads our metadata log and our snapshots; restarts from either keep
everything.
"""

from __future__ import annotations

import pathlib
import re
import time
from collections.abc import Iterator

import pytest
from support.peers.apache_tools import CONFIGS, REASSIGN, TOPICS, ApacheTools, apache_tools
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.server.kafka_server import KafkaServer

pytestmark = pytest.mark.interop

DUMP = "org.apache.kafka.tools.DumpLogSegments"
SNAPSHOT = re.compile(r"\d{20}-\d{10}\.checkpoint")


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheTools]:
    with apache_tools(tmp_path_factory.mktemp("tools")) as tools:
        yield tools


def run(tools: ApacheTools, main_class: str, *arguments: str) -> str:
    done = tools.run(main_class, *arguments)
    assert done.code == 0, done.out + done.err
    return done.out


def metadata_folder(cluster: EmbeddedCluster) -> pathlib.Path:
    return cluster.log_dir(0) / "__cluster_metadata-0"


def snapshots(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(path for path in folder.iterdir() if SNAPSHOT.fullmatch(path.name))


def topics(server: KafkaServer) -> dict[str, int]:
    assert server.broker is not None
    return {name: len(topic.partitions) for name, topic in server.broker.metadata_cache.image.topics.by_name.items()}


def test_apache_reads_what_the_controller_writes_and_restarts_keep_it(tools: ApacheTools, tmp_path: pathlib.Path) -> None:
    settings = {
        "metadata.log.max.record.bytes.between.snapshots": "6000",
        "metadata.max.retention.bytes": "20000",
        "metadata.log.segment.bytes": "8388608",
    }
    cluster = EmbeddedCluster(3, folder=tmp_path / "cluster", config=settings)
    with cluster:
        at = ("--bootstrap-server", cluster.bootstrap_servers)
        run(tools, TOPICS, *at, "--create", "--topic", "named", "--replica-assignment", "1:2,2:3", "--config", "retention.ms=4242")
        run(tools, CONFIGS, *at, "--alter", "--entity-type", "brokers", "--entity-default", "--add-config", "log.retention.ms=777777")
        run(tools, CONFIGS, *at, "--alter", "--entity-type", "users", "--entity-name", "eve", "--add-config", "producer_byte_rate=1234")
        plan = tmp_path / "plan.json"
        plan.write_text('{"version":1,"partitions":[{"topic":"named","partition":0,"replicas":[3]}]}')
        run(tools, REASSIGN, *at, "--reassignment-json-file", str(plan), "--execute")
        for number in range(6):
            run(tools, TOPICS, *at, "--create", "--topic", f"many-{number}", "--partitions", "20")
        deadline = time.monotonic() + REACHED_S
        while len(snapshots(metadata_folder(cluster))) < 1:
            assert time.monotonic() < deadline, "no snapshot was written"
            time.sleep(0.1)
        known = cluster.call(topics, 1)
    log = next(iter(sorted(metadata_folder(cluster).glob("*.log"), reverse=True)))
    dumped = run(tools, DUMP, "--cluster-metadata-decoder", "--files", str(log))
    assert '"type":"PARTITION_RECORD"' in dumped
    assert '"name":"many-5"' in dumped
    assert "isvalid: true" in dumped
    assert "isvalid: false" not in dumped
    newest = snapshots(metadata_folder(cluster))[-1]
    dumped = run(tools, DUMP, "--cluster-metadata-decoder", "--files", str(newest))
    for expected in (
        '"type":"REGISTER_BROKER_RECORD"',
        '"name":"named"',
        '"value":"4242"',
        '"value":"777777"',
        "SnapshotHeader",
        "SnapshotFooter",
    ):
        assert expected in dumped, expected
    for _ in range(2):
        with cluster:
            assert cluster.call(topics, 1) == known
            assert snapshots(metadata_folder(cluster))


def test_a_restart_from_the_log_alone_reads_the_same(tools: ApacheTools, tmp_path: pathlib.Path) -> None:
    cluster = EmbeddedCluster(1, folder=tmp_path / "cluster")
    with cluster:
        run(tools, TOPICS, "--bootstrap-server", cluster.bootstrap_servers, "--create", "--topic", "t", "--partitions", "3")
        known = cluster.call(topics)
    assert not [path for path in snapshots(metadata_folder(cluster)) if not path.name.startswith("0" * 20 + "-")]
    with cluster:
        assert cluster.call(topics) == known
        cluster.kill_node(0)
        cluster.start_node(0)
        assert cluster.call(topics) == known
