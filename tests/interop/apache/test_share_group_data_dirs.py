"""Share groups on one data dir: written by kmirror, served and gone on with by Apache Kafka 4.3 and
its share consumer, and read by kmirror again.
"""

from __future__ import annotations

import contextlib
import io
import pathlib

import pytest
from support.mirrors.mirror_harness import call, create_topic, numbered, produce
from support.peers.peers import apache_kafka, java_tool

from kmirror import EmbeddedCluster
from kmirror.admin.share_groups import SharePartitionOffset
from kmirror.cli import dump_log
from kmirror.common.errors import ApiException
from kmirror.common.topic_partition import TopicPartition

pytestmark = pytest.mark.interop
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
GROUP_COMMAND = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
SHARE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
DUMP = "org.apache.kafka.tools.DumpLogSegments"
CONFIG = {
    "share.coordinator.state.topic.num.partitions": "3",
    "offsets.topic.num.partitions": "3",
    "share.coordinator.snapshot.update.records.per.snapshot": "3",
}


def offsets(address: str, group: str) -> dict[TopicPartition, SharePartitionOffset | None]:
    return call(address, lambda admin: admin.list_share_group_offsets(group), timeout_ms=60_000)


def alter(address: str, group: str, wanted: dict[TopicPartition, int]) -> None:
    errors = call(address, lambda admin: admin.alter_share_group_offsets(group, wanted))
    assert errors == dict.fromkeys(wanted), errors


def consume(address: str, group: str, count: int) -> list[str]:
    """Records that Apache's share consumer took and acknowledged."""
    arguments = ("--bootstrap-server", address, "--topic", "t", "--group", group, "--max-messages", str(count), "--timeout-ms", "20000")
    done = java_tool(SHARE_CONSUMER, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_share_groups_go_on_from_kmirror_to_apache_kafka_and_back(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "ours"
    with EmbeddedCluster(folder=folder, config=CONFIG) as cluster:
        create_topic(cluster.bootstrap_servers, "t", 2)
        produce(cluster.bootstrap_servers, "t", numbered("a", 20))
        produce(cluster.bootstrap_servers, "t", numbered("b", 20), partition=1)
        alter(cluster.bootstrap_servers, "workers", {T0: 15, T1: 20})
        for offset in (1, 2, 3):
            alter(cluster.bootstrap_servers, "idle", {T0: offset})
        call(cluster.bootstrap_servers, lambda admin: admin.delete_share_group_offsets("idle", ["t"]))
        alter(cluster.bootstrap_servers, "gone", {T0: 1})
        assert call(cluster.bootstrap_servers, lambda admin: admin.delete_share_groups(["gone"])) == {"gone": None}
        before = offsets(cluster.bootstrap_servers, "workers")
        cluster_id, data = cluster.cluster_id, cluster.log_dir()
    with apache_kafka(tmp_path / "apache", formatted=True, cluster_id=cluster_id, data_dir=data, properties=CONFIG) as peer:
        address = peer.bootstrap_servers
        assert offsets(address, "workers") == before
        assert offsets(address, "idle") == {}
        listed = call(address, lambda admin: admin.list_groups(types=["share"]))
        assert [(row.group_id, row.state) for row in listed] == [("idle", "Empty"), ("workers", "Empty")]
        assert sorted(consume(address, "workers", 5)) == numbered("a", 20)[15:]
        produce(address, "t", numbered("c", 8), partition=1, batch=2)
        assert len(consume(address, "workers", 3)) == 3
        alter(address, "fresh", {T1: 9})
        after, fresh = offsets(address, "workers"), offsets(address, "fresh")
        peer.stop()
    row = after[T0]
    assert row is not None and row.lag == 0 and row.leader_epoch >= 0, "all of it is acknowledged, wherever the start offset is"
    assert_dumps_are_equal(data)
    with EmbeddedCluster(folder=folder, cluster_id=cluster_id, config=CONFIG) as cluster:
        address = cluster.bootstrap_servers
        assert offsets(address, "workers") == after
        assert offsets(address, "fresh") == fresh
        assert starts(fresh) == {T1: 9}
        described = call(address, lambda admin: admin.describe_share_groups(["workers", "gone"]))
        workers, gone = described["workers"], described["gone"]
        assert not isinstance(workers, ApiException) and (workers.state, workers.members) == ("Empty", []), "its members left in good order"
        assert isinstance(gone, ApiException)
        alter(address, "workers", {T0: 4})
        assert starts(offsets(address, "workers"))[T0] == 4
        told = java_tool(GROUP_COMMAND, "--bootstrap-server", address, "--describe", "--group", "workers")
        assert [line.split()[1:4] for line in told.stdout.splitlines() if " t " in line][0] == ["t", "0", "4"]


def starts(rows: dict[TopicPartition, SharePartitionOffset | None]) -> dict[TopicPartition, int]:
    return {name: row.start_offset for name, row in rows.items() if row is not None}


def assert_dumps_are_equal(data: pathlib.Path) -> None:
    """Of the records that both brokers wrote, by Apache's tool and by ours."""
    for decoder, pattern in (("--share-group-state-decoder", "__share_group_state-*"), ("--offsets-decoder", "__consumer_offsets-*")):
        files = ",".join(sorted(str(path) for folder in data.glob(pattern) for path in folder.glob("*.log")))
        theirs = java_tool(DUMP, "--files", files, decoder)
        assert theirs.returncode == 0, theirs.stderr
        own = io.TextIOWrapper(io.BytesIO())
        with contextlib.redirect_stdout(own):
            assert dump_log.main(["--files", files, decoder]) == 0
        assert own.buffer.getvalue().decode() == theirs.stdout
        assert theirs.stdout.count("payload:") > 5
