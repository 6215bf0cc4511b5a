"""`kmirror replay` into a running cluster: what consumers see, a paced run, a killed process, errors in one line."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.admin.features import UpgradeType
from kmirror.cli.kmirror import main
from kmirror.cli.tool_client import with_admin

CONFIG = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1", "message.max.bytes": "2000000"}
EPOCH_MS = 1_600_000_000_000
QUIET = {"log_level": 0}


def record(folder: Path) -> Path:
    """A stopped broker's log.dir: two plain partitions over four seconds of time, and one with committed, aborted and open transactions."""
    with EmbeddedCluster(config=CONFIG, folder=folder) as cluster:
        servers = {"bootstrap.servers": cluster.bootstrap_servers, **QUIET}
        admin = AdminClient(servers)
        for future in admin.create_topics([NewTopic("plain", 2, 1), NewTopic("money", 1, 1)]).values():
            future.result(REACHED_S)
        producer = ck.Producer({**servers, "compression.type": "lz4", "batch.num.messages": 10})
        for number in range(400):
            headers = [("h", b"%d" % number), ("none", None)]
            key = None if number % 7 == 0 else b"k%d" % number
            producer.produce("plain", key=key, value=b"v" * 50, headers=headers, partition=number % 2, timestamp=EPOCH_MS + 10 * number)
        assert producer.flush(REACHED_S) == 0
        transactional = [ck.Producer({**servers, "transactional.id": f"t{number}"}) for number in range(2)]
        for one in transactional:
            one.init_transactions(REACHED_S)
        for turn in range(6):
            for number, one in enumerate(transactional):
                one.begin_transaction()
                one.produce("money", b"%d-%d" % (turn, number), timestamp=EPOCH_MS + turn)
                one.flush(REACHED_S)
            for number, one in enumerate(transactional):
                one.abort_transaction(REACHED_S) if (turn + number) % 3 == 0 else one.commit_transaction(REACHED_S)
        transactional[0].begin_transaction()
        transactional[0].produce("money", b"open")
        transactional[0].flush(REACHED_S)
        del transactional, one, producer
    return folder / "node-1" / "data"


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("recorded"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(config=CONFIG) as running:
        yield running


@pytest.fixture(scope="module")
def source(recording: Path) -> Iterator[EmbeddedCluster]:
    """The cluster that was recorded, on its own folder, to be compared with."""
    copy = recording.parent.parent.with_name("again")
    shutil.copytree(recording.parent.parent, copy)
    with EmbeddedCluster(config=CONFIG, folder=copy) as running:
        yield running


def read(cluster: EmbeddedCluster, topic: str, partitions: int, isolation: str) -> list[tuple[Any, ...]]:
    """By partition, in order: timestamp, key, value, headers."""
    settings = {"group.id": "reader", "isolation.level": isolation, "enable.partition.eof": True, "auto.offset.reset": "earliest"}
    consumer = ck.Consumer({"bootstrap.servers": cluster.bootstrap_servers, **settings, **QUIET})
    consumer.assign([ck.TopicPartition(topic, number, 0) for number in range(partitions)])
    rows, ended, deadline = [], 0, time.monotonic() + REACHED_S
    while ended < partitions:
        assert time.monotonic() < deadline, f"{topic} has no end"
        message = consumer.poll(1)
        if message is not None and message.error() is not None:
            ended += 1
        elif message is not None:
            rows.append((message.partition(), message.timestamp(), message.key(), message.value(), message.headers()))
    consumer.close()
    return sorted(rows, key=lambda row: row[0])


def same(source: EmbeddedCluster, cluster: EmbeddedCluster, prefix: str) -> None:
    for topic, partitions in (("plain", 2), ("money", 1)):
        for isolation in ("read_uncommitted", "read_committed"):
            rows = read(cluster, prefix + topic, partitions, isolation)
            if isolation == "read_uncommitted" or topic == "plain":
                assert rows == read(source, topic, partitions, isolation)
            else:
                assert len(rows) == 8 and rows == [row for row in read(source, topic, partitions, isolation) if row[3] != b"open"]


def replay(recording: Path, cluster: EmbeddedCluster, prefix: str, *options: str) -> int:
    names = ["--topics", "plain|money", "--rename", f"(.*)={prefix}\\1", "--create-topics"]
    return main(["replay", str(recording), "--to", cluster.bootstrap_servers, *names, *options])


@pytest.mark.parametrize("level", [2, 1], ids=["transactions v2", "transactions v1"])
def test_consumers_see_what_was_recorded(
    recording: Path, source: EmbeddedCluster, cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str], level: int
) -> None:
    kind = UpgradeType.UPGRADE if level == 2 else UpgradeType.SAFE_DOWNGRADE
    with_admin(cluster.bootstrap_servers, None, lambda admin: admin.update_features({"transaction.version": (level, kind)}))
    assert replay(recording, cluster, f"level{level}-", "--speed", "max") == 0
    out, err = capsys.readouterr()
    assert f"created topic level{level}-plain with 2 partitions, message.timestamp.type=CreateTime, retention.ms=-1" in err
    assert "replayed 413 records" in out and "transactions: 8 committed, 5 aborted, 1 of them open where the recording ends" in out
    same(source, cluster, f"level{level}-")
