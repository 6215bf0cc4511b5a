"""Apache Kafka serves partition folders of a mirroring kmirror that are put into its data dir."""

from __future__ import annotations

import pathlib
import shutil

import pytest
from confluent_kafka import Consumer, TopicPartition
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    create_mirror_by_tool,
    create_topic,
    kafka_mirrors,
    log_bytes,
    produce_numbered,
    wait_states,
)
from support.peers.peers import apache_kafka

from kmirror import EmbeddedCluster
from kmirror.record.record_batch import iter_batches

pytestmark = pytest.mark.interop


def put_folder(source: pathlib.Path, target: pathlib.Path, names: tuple[str, ...]) -> None:
    """Replace the log files of a partition folder; `partition.metadata` (the topic id) stays the
    target cluster's.
    """
    for path in target.iterdir():
        if path.suffix in names or path.name == "leader-epoch-checkpoint":
            path.unlink()
    for path in source.iterdir():
        if path.suffix in names or path.name == "leader-epoch-checkpoint":
            shutil.copy2(path, target / path.name)


def test_a_mirrored_and_failed_over_partition_is_served_by_apache_kafka(tmp_path) -> None:
    suffixes = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    with (
        EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as north,
        EmbeddedCluster(mirroring=True, config=FAST_MIRROR, folder=tmp_path / "south") as south,
    ):
        create_topic(north.bootstrap_servers, "p")
        produce_numbered(north.bootstrap_servers, "p", 0, 500, codec="zstd", **{"enable.idempotence": True})
        create_mirror_by_tool(tmp_path, south.bootstrap_servers, north.bootstrap_servers, "m")
        kafka_mirrors(south.bootstrap_servers, "--add", "--mirror", "m", "--topic", "p")
        wait_states(south.bootstrap_servers, "m", "MIRRORING", partitions=1, lag=0)
        kafka_mirrors(south.bootstrap_servers, "--remove", "--mirror", "m", "--topic", "p")
        wait_states(south.bootstrap_servers, "m", "STOPPED", partitions=1)
        produce_numbered(south.bootstrap_servers, "p", 500, 100, codec="lz4", **{"enable.idempotence": True})
        ours = south.log_dir()
    written = log_bytes(ours, "p-0")
    with apache_kafka(tmp_path / "apache") as peer:
        create_topic(peer.bootstrap_servers, "p")
        peer.stop()
        put_folder(ours / "p-0", peer.data / "p-0", suffixes)
        peer.start()
        consumer = Consumer(
            {"bootstrap.servers": peer.bootstrap_servers, "group.id": "g", "isolation.level": "read_committed", "log_level": 0}
        )
        consumer.assign([TopicPartition("p", 0, 0)])
        values: list[bytes] = []
        while len(values) < 600:
            message = consumer.poll(10)
            assert message is not None and message.error() is None, f"{len(values)} records, then {message and message.error()}"
            values.append(message.value())
        consumer.close()
        assert values == [f"v{number}".encode() * 5 for number in range(600)]
        produce_numbered(peer.bootstrap_servers, "p", 600, 10)
        assert log_bytes(peer.data, "p-0").startswith(written)
        assert any(batch.is_control for batch in iter_batches(written))
