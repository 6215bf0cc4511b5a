"""`connect-mirror-maker` with exactly.once.source.support=enabled, killed again and again while it
copies: read_committed shows each record once.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import confluent_kafka as ck
from support.mirrormaker.logs_compared import make_topics, produce, read, rows
from support.mirrormaker.mirror_makers import last_syncs
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.mirrormaker.task_transactions import boundary_ms, transactional_id

BROKER = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1", "group.min.session.timeout.ms": "1000"}
PARTITIONS = 2
SETTINGS = {
    "clusters": "A, B",
    "A->B.enabled": "true",
    "B->A.enabled": "false",
    "B->A.emit.heartbeats.enabled": "false",
    "A->B.emit.heartbeats.enabled": "false",
    "A->B.emit.checkpoints.enabled": "false",
    "topics": "t",
    "tasks.max": "2",
    "replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    **{f"{name}.storage.replication.factor": "1" for name in ("offset", "config", "status")},
    "offset.storage.partitions": "3",
    "consumer.poll.timeout.ms": "100",
    "A.consumer.isolation.level": "read_committed",
    "A.consumer.max.partition.fetch.bytes": "2000",
    "B.exactly.once.source.support": "enabled",
    "B.session.timeout.ms": "1500",
    "B.heartbeat.interval.ms": "300",
}


def start(folder: Path, settings: dict[str, str]) -> subprocess.Popen[bytes]:
    path = folder / "mm2.properties"
    path.write_text("".join(f"{name} = {value}\n" for name, value in settings.items()))
    with (folder / "log").open("ab") as log:
        return subprocess.Popen([sys.executable, "-m", "kmirror.cli.connect_mirror_maker", str(path)], stdout=log, stderr=log)


def committed(servers: str) -> list[int]:
    """How many records a reader of committed records can see, by partition."""
    found = read(servers, "A.t", PARTITIONS, isolation="read_committed")
    return [len(found[number]) for number in range(PARTITIONS)]


def until_more(servers: str, count: int, process: subprocess.Popen[bytes], log: Path) -> int:
    deadline = time.monotonic() + REACHED_S
    while True:
        assert process.poll() is None and time.monotonic() < deadline, log.read_text()[-4000:]
        try:
            found = sum(committed(servers))
        except (AssertionError, ck.KafkaException):
            found = 0  # the topic is not there yet
        if found > count:
            return found
        time.sleep(0.05)


def test_kills_repeat_nothing_that_is_committed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with EmbeddedCluster(config=BROKER) as source, EmbeddedCluster(config=BROKER) as target:
        a, b = source.bootstrap_servers, target.bootstrap_servers
        make_topics(a, {"t": PARTITIONS})
        make_topics(b, {"A.t": PARTITIONS})
        settings = {**SETTINGS, "A.bootstrap.servers": a, "B.bootstrap.servers": b}
        sent = seen = 0
        for _ in range(5):
            produce(a, "t", 600, partitions=PARTITIONS, first=sent, codec="lz4")
            sent += 600
            process = start(tmp_path, settings)
            try:
                seen = until_more(b, seen, process, log)
            finally:
                process.kill()
                process.wait()
        produce(a, "t", 60, partitions=PARTITIONS, first=sent, codec="lz4")  # for the last one to copy
        sent += 60
        process = start(tmp_path, settings)
        try:
            until_more(b, sent - 1, process, log)
            process.terminate()
            assert process.wait(REACHED_S) == 0, log.read_text()[-4000:]
        finally:
            process.kill()
            process.wait()
        assert rows(read(b, "A.t", PARTITIONS, isolation="read_committed")) == rows(read(a, "t", PARTITIONS))
        assert "Traceback" not in log.read_text()


def test_the_last_syncs_of_a_transaction_with_many_do_not_wait_for_the_next_transaction(tmp_path: Path) -> None:
    """Ten may be on their way, and a commit found no place for those of the last records. Nothing came
    after it, so groups at the end of a quiet topic were translated to where they read much again.
    """
    log = tmp_path / "log"
    with EmbeddedCluster(config=BROKER) as source, EmbeddedCluster(config=BROKER) as target:
        a, b = source.bootstrap_servers, target.bootstrap_servers
        make_topics(a, {"t": PARTITIONS})
        produce(a, "t", 600, partitions=PARTITIONS)
        settings = {**SETTINGS, "A.bootstrap.servers": a, "B.bootstrap.servers": b, "offset.lag.max": "10"}
        del settings["A.consumer.max.partition.fetch.bytes"]
        process = start(tmp_path, settings)
        try:
            deadline = time.monotonic() + REACHED_S
            while {upstream for upstream, _ in last_syncs(a, "mm2-offset-syncs.B.internal").values()} != {299}:
                assert process.poll() is None and time.monotonic() < deadline, log.read_text()[-4000:]
                time.sleep(0.1)
        finally:
            process.kill()
            process.wait()


def test_ids_and_boundaries_are_those_of_apaches_workers() -> None:
    assert transactional_id("A-mm2", "MirrorSourceConnector", 3) == "A-mm2-MirrorSourceConnector-3"
    assert boundary_ms({}, 60_000) == 0
    assert boundary_ms({"transaction.boundary": "POLL"}, 60_000) == 0
    assert boundary_ms({"transaction.boundary": "interval"}, 60_000) == 60_000
    assert boundary_ms({"transaction.boundary": "interval", "transaction.boundary.interval.ms": "5"}, 60_000) == 5
