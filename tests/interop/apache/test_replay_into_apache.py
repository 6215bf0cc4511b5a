"""`kmirror replay` judged by Apache Kafka 4.3: its broker takes what we send, its consumer reads
what we serve.
"""

from __future__ import annotations

import pathlib
import re
import signal
import subprocess
import sys
import time

import confluent_kafka as ck
import pytest
from support.logs.replay_stories import Story
from support.peers.apache_tools import CONSUMER, apache_tools
from support.peers.peers import apache_kafka
from support.tools.replay_destination import Row, recorded, views
from support.waiting import REACHED_S

from kmirror.cli.kmirror import main

pytestmark = pytest.mark.interop


def story(folder: pathlib.Path, *, policy: str) -> pathlib.Path:
    """All codecs, aborted and open transactions; if compacted, the holes of a cleaner."""
    told = Story(folder, 3, others=("roll", "epoch", "clean"), policy=policy)
    told.tell(200)
    told.end()
    return folder


def read(bootstrap_servers: str, topic: str, isolation: str) -> list[Row]:
    consumer = ck.Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": "g", "enable.partition.eof": True, "isolation.level": isolation}
    )
    consumer.assign([ck.TopicPartition(topic, 0, ck.OFFSET_BEGINNING)])
    rows: list[Row] = []
    while (message := consumer.poll(REACHED_S)) is not None and message.error() is None:
        rows.append((message.timestamp()[1], message.key(), message.value(), tuple(message.headers() or ())))
    consumer.close()
    return rows


def test_apaches_broker_has_the_recording_also_after_a_kill(tmp_path: pathlib.Path) -> None:
    cleaned, data = story(tmp_path / "cleaned", policy="compact"), story(tmp_path / "data", policy="delete")
    with apache_kafka(tmp_path / "apache") as peer:
        arguments = ["--to", peer.bootstrap_servers, "--create-topics", "--speed", "max"]
        assert main(["replay", str(cleaned), *arguments]) == 0
        uncommitted, committed = views(recorded(cleaned))
        assert read(peer.bootstrap_servers, "t", "read_uncommitted") == uncommitted
        assert read(peer.bootstrap_servers, "t", "read_committed") == committed
        arguments = ["replay", str(data), *arguments, "--rename", "t=killed", "--state", str(tmp_path / "state")]
        uncommitted, committed = views(recorded(data))
        process = subprocess.Popen([sys.executable, "-m", "kmirror.cli.kmirror", *arguments, "--speed", "0.5"])
        deadline = time.monotonic() + REACHED_S
        while not list((tmp_path / "state").glob("*.json")) or not read(peer.bootstrap_servers, "killed", "read_uncommitted"):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert len(read(peer.bootstrap_servers, "killed", "read_uncommitted")) < len(uncommitted), "it was killed too late"
        assert main(arguments) == 0
        assert read(peer.bootstrap_servers, "killed", "read_uncommitted") == uncommitted
        assert read(peer.bootstrap_servers, "killed", "read_committed") == committed


def test_apaches_consumer_reads_what_is_served(tmp_path: pathlib.Path) -> None:
    data = story(tmp_path / "data", policy="delete")
    uncommitted, committed = views(recorded(data))
    command = [sys.executable, "-m", "kmirror.cli.kmirror", "replay", str(data), "--serve", "127.0.0.1:0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        found = re.search(r"at (\S+), read-only", process.stderr.readline())
        assert found is not None
        with apache_tools(tmp_path / "tools") as tools:
            options = ("--bootstrap-server", found[1], "--topic", "t", "--from-beginning", "--timeout-ms", "5000")
            printed = ("--formatter-property", "print.timestamp=true", "--formatter-property", "print.value=false")
            for isolation, rows in (("read_uncommitted", uncommitted), ("read_committed", committed)):
                done = tools.run(CONSUMER, *options, *printed, "--isolation-level", isolation)
                times = [int(time_ms) for time_ms in re.findall(r"CreateTime:(\d+)", done.out)]
                assert times and times == [row[0] for row in rows][: len(times)]
                assert len(times) == len(rows) or isolation == "read_committed"
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=REACHED_S)
