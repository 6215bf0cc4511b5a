"""`kafka-mirrors --wait`, `--describe --verbose`, `--watch`, `--json` and a converted
mm2.properties, on pipes and on a terminal.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import pty
import signal
import subprocess
import sys
import threading
import time
from typing import Any

from confluent_kafka import Producer
from support.mirrors.mirror_harness import create_topic, kafka_mirrors, numbered, partitions_of, produce, quiet, wait_caught_up, wait_for
from support.mirrors.mirror_pair import Pair, Run, assert_equal_everywhere, mirrored_topic
from support.tools.child_processes import hear_ctrl_c
from support.waiting import REACHED_S

from kmirror.embedded import EmbeddedCluster


def test_wait_is_graceful(pair: Pair, run: Run) -> None:
    """A source that is still written to is not left behind; when it rests, every record is at the
    destination.
    """
    a, b = pair
    mirrored_topic(pair, "graceful")
    stop, arrived = threading.Event(), threading.Event()
    sent = 0

    def write() -> None:
        nonlocal sent
        producer = Producer(quiet({"bootstrap.servers": a.bootstrap_servers, "linger.ms": 1}))
        while not stop.is_set():
            producer.produce("graceful", b"x", partition=0, on_delivery=lambda error, message: arrived.set())
            sent += 1
            producer.poll(0.001)
        assert producer.flush(REACHED_S) == 0

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert arrived.wait(REACHED_S), "the source takes no record"
        code, _, err = run(b, "--remove", "--mirror", "graceful", "--topic", ".*", "--wait", "--timeout", "1000")
        assert code == 2 and "not finished after 1000 ms" in err
        assert {row.state for row in partitions_of(b.bootstrap_servers, "graceful")} == {"MIRRORING"}
    finally:
        stop.set()
        writer.join()
    code, out, _ = run(b, "--remove", "--mirror", "graceful", "--topic", ".*", "--wait", "--json")
    result = json.loads(out)
    assert code == 0 and result["topics"] == ["graceful"]
    assert [(row["state"], row["notMirrored"], row["logEndOffset"]) for row in result["partitions"]] == [
        ("STOPPED", 0, 31 + sent),
        ("STOPPED", 0, 1),
    ]
    assert run(b, "--remove", "--mirror", "graceful", "--topic", ".*", "--wait")[0] == 0, "given again, nothing is left to do"


def test_wait_counts_to_the_sources_last_stable_offset(pair: Pair, run: Run) -> None:
    """Lag stays above 0 behind an open transaction although nothing more can be mirrored, and the
    records of the transaction are reported as not mirrored (B51).
    """
    a, b = pair
    mirrored_topic(pair, "open")
    producer = Producer(quiet({"bootstrap.servers": a.bootstrap_servers, "transactional.id": "open"}))
    producer.init_transactions(20)
    producer.begin_transaction()
    for _ in range(4):
        producer.produce("open", b"undecided", partition=0)
    producer.flush(10)
    code, out, _ = run(b, "--remove", "--mirror", "open", "--topic", "open", "--wait")
    assert code == 0
    assert out.splitlines()[1] == "All 2 partition(s) are STOPPED; 4 offset(s) of the source are not mirrored"
    with contextlib.suppress(Exception):
        producer.abort_transaction(5)


def test_describe_verbose_tells_the_lag_in_time(pair: Pair, run: Run) -> None:
    a, b = pair
    mirrored_topic(pair, "timed")
    kafka_mirrors(b.bootstrap_servers, "--pause", "--mirror", "timed", "--topic", "timed", "--wait")
    began = time.time()
    produce(a.bootstrap_servers, "timed", numbered("later", 5))
    time.sleep(0.3)
    code, out, _ = run(b, "--describe", "--mirror", "timed", "--verbose", "--json")
    behind, level = json.loads(out)
    assert code == 0
    assert behind["sourceLastStableOffset"] == 35 and 250 <= behind["timeLagMs"] <= 1000 * (time.time() - began) + 1000
    assert (level["sourceLastStableOffset"], level["timeLagMs"]) == (0, 0)
    header = run(b, "--describe", "--mirror", "timed", "--verbose")[1].splitlines()[0].split()
    assert header[7:] == ["SOURCE-STABLE", "TIME-LAG-MS", "LAST-MIRROR-EPOCH", "LAST-LAG", "LAG-AGE-MS"]
    assert len(run(b, "--describe", "--mirror", "timed")[1].splitlines()[0].split()) == 7, "the KIP's table"


def test_every_action_has_json(pair: Pair, run: Run, tmp_path: pathlib.Path) -> None:
    a, b = pair
    create_topic(a.bootstrap_servers, "json")
    (tmp_path / "a.properties").write_text(f"bootstrap.servers={a.bootstrap_servers}\n")
    config = ["--mirror-config", str(tmp_path / "a.properties")]
    topic = ["--topic", "json"]
    for action, arguments in (
        ("create", config), ("alter", config), ("add", [*topic, "--wait"]), ("pause", [*topic, "--wait"]), ("resume", [*topic, "--wait"]),
        ("remove", [*topic, "--wait"]), ("delete", []),
    ):  # fmt: skip
        code, out, err = run(b, f"--{action}", "--mirror", "json", *arguments, "--json")
        assert code == 0, err
        result = json.loads(out)
        assert (result["action"], result["mirror"]) == (action, "json")
        assert result.get("topics") == (["json"] if topic[1] in arguments else None)
    assert run(b, "--delete", "--mirror", "json", "--json")[:2] == (1, ""), "errors are text on stderr"


def test_a_converted_mm2_configuration_runs(pair: Pair, tmp_path: pathlib.Path) -> None:
    """The written commands, as they are, mirror what MirrorMaker 2 was to replicate and nothing
    else.
    """
    a, b = pair
    for name in ("mm-orders", "mm-orders-test", "mm-other"):
        create_topic(a.bootstrap_servers, name, replication_factor=3)
        produce(a.bootstrap_servers, name, numbered(name, 10))
    (tmp_path / "mm2.properties").write_text(
        f"clusters = a, b\na.bootstrap.servers = {a.bootstrap_servers}\nb.bootstrap.servers = {b.bootstrap_servers}\n"
        "a->b.enabled = true\na->b.topics = mm-orders.*\na->b.topics.exclude = .*-test\nreplication.factor = 3\n"
    )
    kafka_mirrors(b.bootstrap_servers, "--from-mm2", str(tmp_path / "mm2.properties"), "--output", str(tmp_path / "out"))
    binaries = pathlib.Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["sh", "commands.sh"], cwd=tmp_path / "out", env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Created mirror a-to-b\n" in done.stdout and "Added 1 topic(s) to mirror a-to-b: [mm-orders]\n" in done.stdout
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "a-to-b")
    assert_equal_everywhere(pair, "mm-orders-0")


def watching(cluster: EmbeddedCluster, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "kmirror.cli.mirrors", "--bootstrap-server", cluster.bootstrap_servers, "--watch", "--interval", "100"]
    return subprocess.Popen(
        [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ, preexec_fn=hear_ctrl_c
    )


def test_watch_survives_a_broker_and_ends_with_ctrl_c(pair: Pair) -> None:
    a, b = pair
    mirrored_topic(pair, "watched")
    rows: list[dict[str, Any]] = []
    with watching(b, "--mirror", "watched", "--json") as process:
        assert process.stdout is not None

        def read() -> None:
            assert process.stdout is not None
            rows.extend(json.loads(line) for line in process.stdout)

        reader = threading.Thread(target=read)
        reader.start()
        try:
            wait_for("a look", lambda: any("partitions" in row for row in rows))
            b.kill_node(2)
            b.start_node(2)
            produce(a.bootstrap_servers, "watched", numbered("more", 12))
            wait_for(
                "the records", lambda: any(row["partitions"][0]["destinationOffset"] == 42 for row in list(rows) if row.get("partitions"))
            )
        finally:
            process.send_signal(signal.SIGINT)
            code = process.wait(REACHED_S)
            reader.join()
        assert code == 0 and process.stderr is not None and "Traceback" not in process.stderr.read()


def on_a_terminal(*arguments: str, until: bytes | None = None) -> tuple[int, bytes]:
    """Run kafka-mirrors with stdout and stderr on a terminal; Ctrl-C when `until` was seen."""
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "kmirror.cli.mirrors", *arguments]
    process = subprocess.Popen(command, stdout=follower, stderr=follower, stdin=follower, preexec_fn=hear_ctrl_c)
    os.close(follower)
    seen = b""
    with contextlib.suppress(OSError):  # the terminal is closed when the tool is gone
        while data := os.read(leader, 65_536):
            seen += data
            if until is not None and until in seen:
                process.send_signal(signal.SIGINT)
                until = None
    os.close(leader)
    return process.wait(REACHED_S), seen


def test_on_a_terminal_there_are_bars_and_a_table_in_its_place(pair: Pair) -> None:
    a, b = pair
    mirrored_topic(pair, "seen")
    server = ("--bootstrap-server", b.bootstrap_servers)
    code, seen = on_a_terminal(*server, "--watch", "--interval", "50", "--mirror", "seen", until=b"offsets/s\r\nMIRROR ")
    assert code == 0 and seen.count(b"\x1b[H\x1b[J") >= 1 and b"seen-0" not in seen and b"Traceback" not in seen
    code, seen = on_a_terminal(*server, "--verify", "--mirror", "seen")
    assert code == 0 and b"verifying" in seen and b"seen-0: equal" in seen
    code, seen = on_a_terminal(*server, "--remove", "--mirror", "seen", "--topic", "seen", "--wait")
    assert code == 0 and b"draining" in seen and b"All 2 partition(s) are STOPPED" in seen


def test_a_reader_that_goes_away_ends_watch_quietly(pair: Pair) -> None:
    a, b = pair
    mirrored_topic(pair, "piped")
    with watching(b, "--mirror", "piped", "--json") as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline().startswith("{")
        process.stdout.close()
        assert process.wait(REACHED_S) == 1
        assert process.stderr.read() == ""
