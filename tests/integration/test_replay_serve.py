"""`kmirror replay --serve`: a read-only broker over recorded logs; consumers read it, a cluster
mirrors it, nothing is written where they lie.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka as ck
import pytest
from support.logs.log_folders import batch
from support.logs.replay_stories import Story
from support.tools.replay_destination import recorded, views
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.cli.kmirror import main
from kmirror.common.errors import Errors
from kmirror.record.record_batch import RecordBatch, iter_batches


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A data dir with one log: several segments, epochs, aborted and open transactions, a log start
    inside of a segment.
    """
    story = Story(tmp_path / "data", 5, others=("roll", "epoch", "delete_records"))
    story.tell(150)
    story.end()
    return tmp_path / "data"


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """What lies there, and when it was written."""
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(mirroring=True, folder=tmp_path_factory.mktemp("destination")) as running:
        yield running


@pytest.mark.parametrize("what", ["whole", "segments"])
def test_a_cluster_mirrors_it_byte_for_byte_and_fails_over(
    recording: Path, cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    folder = recording / "t-0"
    empty = (recording if what == "whole" else recording.with_name("copy")) / "empty-0"
    empty.mkdir(parents=True)
    (empty / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAKg")
    if what == "segments":  # a copy of the `.log` files alone, of a broker that was appending
        folder = recording.with_name("copy") / "t-0"
        folder.mkdir()
        for path in (recording / "t-0").glob("*.log"):
            shutil.copy(path, folder)
        with max(folder.glob("*.log")).open("ab") as last:
            last.write(batch(max(recorded_batches(folder)) + 10)[:-1])
    before = contents(folder.parent)
    arguments = ["--to", cluster.bootstrap_servers, "--mirror", what, "--failover", "--rename", f"(t|empty)={what}-\\1"]
    assert main(["replay", str(folder.parent), "--serve", "127.0.0.1:0", *arguments]) == 0
    out = capsys.readouterr().out
    assert "mirrored 2 partitions, " in out and "failed over: 2 topics STOPPED and writable" in out
    assert contents(folder.parent) == before
    shutil.rmtree(empty)
    partition = recorded(folder.parent)
    ours = {offset: one for offset, one in recorded_batches(folder).items() if one.last_offset >= partition.first_offset}
    end = consistent_end(list(ours.values()))
    copied = {offset: bytes(one.memory) for offset, one in recorded_batches(cluster.log_dir() / f"{what}-t-0").items() if offset < end}
    assert copied == {offset: bytes(one.memory) for offset, one in ours.items() if offset < end}
    assert len(copied) > 50


def recorded_batches(folder: Path) -> dict[int, RecordBatch]:
    """Each batch by its base offset."""
    return {one.base_offset: one for path in sorted(folder.glob("*.log")) for one in iter_batches(path.read_bytes())}


def consistent_end(batches: list[RecordBatch]) -> int:
    """The last offset at which no transaction is open: where a failover cuts a mirror."""
    end, open_ones = 0, set()
    for one in batches:
        if one.is_control:
            open_ones.discard(one.producer_id)
        elif one.is_transactional:
            open_ones.add(one.producer_id)
        if not open_ones:
            end = one.next_offset
    return end


def test_consumers_read_it_and_nobody_writes_to_it(recording: Path) -> None:
    before = contents(recording)
    command = [sys.executable, "-m", "kmirror.cli.kmirror", "replay", str(recording), "--serve", "127.0.0.1:0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.fullmatch(r"serving 1 partition of 1 topic at (127\.0\.0\.1:\d+), read-only\n", line)
        assert found is not None, line + process.stderr.read()
        servers = {"bootstrap.servers": found[1], "log_level": 0}
        uncommitted, committed = views(recorded(recording))
        for isolation, wanted in (("read_uncommitted", uncommitted), ("read_committed", None)):
            rows = read(servers, isolation)
            assert rows == (wanted if wanted is not None else committed[: len(rows)]) and rows
        refusals: list[int] = []
        producer = ck.Producer(servers)
        producer.produce("t", b"x", partition=0, on_delivery=lambda error, _: refusals.append(error.code()))
        producer.flush(REACHED_S)
        assert refusals == [Errors.READ_ONLY_TOPIC]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=REACHED_S)
    assert process.returncode == 143
    assert contents(recording) == before


def read(servers: dict[str, object], isolation: str) -> list[tuple[object, ...]]:
    consumer = ck.Consumer({**servers, "group.id": "g", "enable.partition.eof": True, "isolation.level": isolation})
    consumer.assign([ck.TopicPartition("t", 0, ck.OFFSET_BEGINNING)])
    rows: list[tuple[object, ...]] = []
    while (message := consumer.poll(REACHED_S)) is not None and message.error() is None:
        rows.append((message.timestamp()[1], message.key(), message.value(), tuple(message.headers() or ())))
    consumer.close()
    return rows
