"""`kafka-mirrors` beyond the KIP, on clusters of three brokers with three replicas: --wait, --reverse, --verify, --watch, dry runs."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import pty
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from child_processes import hear_ctrl_c
from confluent_kafka import Producer
from mirror_harness import (
    FAST_MIRROR,
    add,
    call,
    create_mirror,
    create_topic,
    data_batch,
    kafka_mirrors,
    log_bytes,
    numbered,
    partitions_of,
    produce,
    quiet,
    random_transactions,
    rebuild_log,
    rewrite_folder,
    wait_caught_up,
    wait_for,
    wait_state,
)

from kmirror.cli import mirrors, mirrors_wait
from kmirror.cli.mirrors_reverse import STEPS, Reversal
from kmirror.embedded import EmbeddedCluster
from kmirror.embedded_security import Security
from kmirror.record.record_batch import iter_batches

THREE_BROKERS = FAST_MIRROR | {
    "mirror.topic.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
}
Pair = tuple[EmbeddedCluster, EmbeddedCluster]


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with (
        EmbeddedCluster(brokers=3, mirroring=True, config=THREE_BROKERS) as a,
        EmbeddedCluster(brokers=3, mirroring=True, config=THREE_BROKERS) as b,
    ):
        yield a, b


@pytest.fixture(autouse=True)
def short_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting looks five times as often as for people."""
    monkeypatch.setattr(mirrors_wait, "POLL_INTERVAL_MS", 40)


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def tool(cluster: EmbeddedCluster, *arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = mirrors.main(["--bootstrap-server", cluster.bootstrap_servers, *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return tool


def mirrored_topic(pair: Pair, name: str, *, records: int = 30) -> None:
    """Topic `name` with three replicas on A, mirrored to B by a mirror of the same name."""
    a, b = pair
    create_topic(a.bootstrap_servers, name, 2, replication_factor=3)
    produce(a.bootstrap_servers, name, numbered(name, records))
    create_mirror(b.bootstrap_servers, name, a.bootstrap_servers)
    kafka_mirrors(b.bootstrap_servers, "--add", "--mirror", name, "--topic", name, "--replication-factor", "3", "--wait")
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, name)


def assert_equal_everywhere(pair: Pair, *folders: str) -> None:
    """Six replicas of each partition, the same bytes."""
    for folder in folders:
        logs = [cluster.log_dir(node) for cluster in pair for node in range(3)]
        wait_for(f"equal logs of {folder}", lambda logs=logs, folder=folder: len({log_bytes(log, folder) for log in logs}) == 1)


def values_on(cluster: EmbeddedCluster, folder: str) -> dict[int, bytes]:
    """The data records of a partition by offset, on the broker that has most of it."""
    longest = max((log_bytes(cluster.log_dir(node), folder) for node in range(3)), key=len)
    return {r.offset: bytes(r.value or b"") for batch in iter_batches(longest) if not batch.is_control for r in batch.records()}


def test_reverse_there_and_back(pair: Pair, run: Run) -> None:
    a, b = pair
    mirrored_topic(pair, "there")
    commit(b, "ahead", "there", 99)
    code, out, err = run(b, "--reverse", "--mirror", "there")
    assert code == 0 and "group ahead has committed offset 99 of there-0, beyond its end 31" in err
    assert [line.split("]")[0] for line in out.splitlines()[:7]] == [f"[{step}/7" for step in range(1, 8)]
    assert out.splitlines()[-1] == "Reversed mirror there: [there]"
    produce(b.bootstrap_servers, "there", numbered("at-b", 10))
    wait_caught_up(a.bootstrap_servers, b.bootstrap_servers, "there")
    assert_equal_everywhere(pair, "there-0", "there-1")
    code, out, _ = run(b, "--reverse", "--mirror", "there")
    assert code == 0 and out.count("is done") == 4, "given again it finds everything done"
    code, out, _ = run(a, "--reverse", "--mirror", "there", "--json")
    assert code == 0 and [step["step"] for step in json.loads(out)["steps"]] == list(STEPS)
    assert produce(a.bootstrap_servers, "there", numbered("at-a", 5)) == []
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "there")
    assert_equal_everywhere(pair, "there-0", "there-1")
    assert len(values_on(b, "there-0")) == 45


@pytest.mark.parametrize("step", [2, 3, 5, 6])
def test_reverse_goes_on_where_it_was_killed(pair: Pair, run: Run, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Killed as it begins `step`, the same command does the rest; nothing is lost on either side."""
    a, b = pair
    name = f"killed-{step}"
    mirrored_topic(pair, name)
    say = Reversal._say

    def killed(self: Reversal, number: int, text: str) -> None:
        say(self, number, text)
        if number == step:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Reversal, "_say", killed)
        assert run(b, "--reverse", "--mirror", name)[0] == 130
    assert run(b, "--reverse", "--mirror", name)[0] == 0
    produce(b.bootstrap_servers, name, numbered("at-b", 5))
    wait_caught_up(a.bootstrap_servers, b.bootstrap_servers, name)
    assert len(values_on(a, f"{name}-0")) == 35
    assert_equal_everywhere(pair, f"{name}-0")


def test_reverse_killed_again_and_again_ends_where_it_should(pair: Pair) -> None:
    """SIGKILL after a random time, over and over: once it is through, both clusters have everything."""
    a, b = pair
    mirrored_topic(pair, "sigkill")
    command = [sys.executable, "-m", "kmirror.cli.mirrors", "--bootstrap-server", b.bootstrap_servers, "--reverse", "--mirror", "sigkill"]
    chance = random.Random(7)
    kills = 0
    for _ in range(12):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            out, err = process.communicate(timeout=chance.uniform(0.2, 0.9) if kills < 4 else 40)
            assert process.returncode == 0, err
            break
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            kills += 1
    assert kills > 0 and out.splitlines()[-1] == "Reversed mirror sigkill: [sigkill]"
    produce(b.bootstrap_servers, "sigkill", numbered("at-b", 5))
    wait_caught_up(a.bootstrap_servers, b.bootstrap_servers, "sigkill")
    assert_equal_everywhere(pair, "sigkill-0", "sigkill-1")
    assert len(values_on(a, "sigkill-0")) == 35


def test_reverse_refuses_to_drop_what_was_written_to_the_old_source(pair: Pair, run: Run) -> None:
    """The dry run names it, --force lets exactly that go."""
    a, b = pair
    mirrored_topic(pair, "late")
    assert run(b, "--remove", "--mirror", "late", "--topic", "late", "--wait")[0] == 0
    produce(a.bootstrap_servers, "late", numbered("late", 7))
    code, _, err = run(b, "--reverse", "--mirror", "late")
    assert code == 1 and "would drop 7 record(s): late-0 from offset 30" in err
    code, out, _ = run(b, "--reverse", "--mirror", "late", "--dry-run", "--force", "--json")
    dropped = {row["partition"]: row["droppedRecords"] for row in json.loads(out)["dropped"]}
    assert code == 0 and dropped == {0: 7, 1: 0}
    before = values_on(a, "late-0")
    code, out, _ = run(b, "--reverse", "--mirror", "late", "--force")
    assert code == 0 and "the old source drops 7 record(s): late-0 from offset 30" in out
    wait_caught_up(a.bootstrap_servers, b.bootstrap_servers, "late")
    assert_equal_everywhere(pair, "late-0")
    assert sorted(before.keys() - values_on(a, "late-0").keys()) == list(range(30, 37))


def test_a_dry_run_of_reverse_changes_nothing_and_shows_the_plan(pair: Pair, run: Run) -> None:
    a, b = pair
    mirrored_topic(pair, "plan")
    code, out, _ = run(b, "--reverse", "--mirror", "plan", "--dry-run")
    assert code == 0
    assert "[2/7] fail over: 1 topic(s): [plan]" in out and "what the old source drops:" in out
    assert {row.state for row in partitions_of(b.bootstrap_servers, "plan")} == {"MIRRORING"}
    assert "plan" not in kafka_mirrors(a.bootstrap_servers, "--list")


def test_reverse_of_a_dead_source_is_finished_when_it_is_back(run: Run) -> None:
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a, EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as b:
        create_topic(a.bootstrap_servers, "t")
        produce(a.bootstrap_servers, "t", numbered("t", 20))
        create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
        add(b.bootstrap_servers, "m", "t")
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        a.kill_node()
        assert run(b, "--reverse", "--mirror", "m")[0] == 1, "graceful needs the source"
        code, _, err = run(b, "--reverse", "--mirror", "m", "--force", "--timeout", "20000")
        assert code == 2 and "give the same command again when it is back" in err
        assert produce(b.bootstrap_servers, "t", numbered("b", 5)) == []
        a.start_node()
        assert run(b, "--reverse", "--mirror", "m", "--force")[0] == 0
        wait_caught_up(a.bootstrap_servers, b.bootstrap_servers, "m")
        assert log_bytes(a.log_dir(), "t-0") == log_bytes(b.log_dir(), "t-0")


def test_wait_is_graceful(pair: Pair, run: Run) -> None:
    """A source that is still written to is not left behind; when it rests, every record is at the destination."""
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
        assert producer.flush(30) == 0

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert arrived.wait(30), "the source takes no record"
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
    """B51: behind an open transaction Lag stays above 0, and nothing more can be mirrored: that is reported as not mirrored."""
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
    assert header[7:] == ["SOURCE-STABLE", "TIME-LAG-MS", "LAST-MIRROR-EPOCH"]
    assert len(run(b, "--describe", "--mirror", "timed")[1].splitlines()[0].split()) == 7, "the KIP's table"


def test_verify_while_the_mirror_runs(pair: Pair, run: Run) -> None:
    a, b = pair
    mirrored_topic(pair, "sound", records=200)
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            produce(a.bootstrap_servers, "sound", numbered("more", 20))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for arguments in ((), ("--sample", "3"), ("--from", "-50")):
            code, out, err = run(b, "--verify", "--mirror", "sound", *arguments)
            assert code == 0, out + err
            assert out.startswith("sound-0: equal, offsets ")
    finally:
        stop.set()
        writer.join()


def test_verify_survives_a_broker(pair: Pair, run: Run) -> None:
    """A leader that dies while its partition is compared only costs another try."""
    a, b = pair
    create_topic(a.bootstrap_servers, "lives", 6, replication_factor=3)
    for partition in range(6):
        produce(a.bootstrap_servers, "lives", numbered("x", 20), partition=partition)
    create_mirror(b.bootstrap_servers, "lives", a.bootstrap_servers)
    kafka_mirrors(b.bootstrap_servers, "--add", "--mirror", "lives", "--topic", "lives", "--replication-factor", "3", "--wait")
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "lives")
    a.kill_node(1)
    try:
        code, out, err = run(b, "--verify", "--mirror", "lives")
    finally:
        a.start_node(1)
    assert code == 0, out + err
    assert out.count(": equal, offsets 0 to 19") == 6


@pytest.fixture
def one_and_one() -> Iterator[Pair]:
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a, EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as b:
        yield a, b


def test_verify_names_the_first_difference(one_and_one: Pair, run: Run) -> None:
    """Own records behind the failover are none; one byte of a mirrored batch is, a batch that a compacted topic's cleaner took is not."""
    a, b = one_and_one
    create_topic(a.bootstrap_servers, "t")
    create_topic(a.bootstrap_servers, "kept", cleanup_policy="compact")
    for name in ("t", "kept"):
        produce(a.bootstrap_servers, name, numbered(name, 40))
    create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
    kafka_mirrors(b.bootstrap_servers, "--add", "--mirror", "m", "--topic", ".*", "--wait")
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
    kafka_mirrors(b.bootstrap_servers, "--remove", "--mirror", "m", "--topic", "t", "--wait")
    produce(b.bootstrap_servers, "t", numbered("own", 3))
    code, out, _ = run(b, "--verify", "--mirror", "m")
    assert (code, [line.split(",")[0] for line in out.splitlines()]) == (0, ["kept-0: equal", "t-0: equal"])
    assert "t-0: equal, offsets 0 to 39," in out

    batches = list(iter_batches(log_bytes(b.log_dir(), "t-0")))
    altered = data_batch(20, *((record.key, b"other") for record in batches[2].records()))
    rebuild_log(b, "t-0", b"".join(altered if batch is batches[2] else bytes(batch.memory) for batch in batches))
    cleaned = [bytes(batch.memory) for batch in iter_batches(log_bytes(b.log_dir(), "kept-0"))]
    rebuild_log(b, "kept-0", b"".join(cleaned[:1] + cleaned[2:]))
    wait_for("an answer", lambda: len(partitions_of(b.bootstrap_servers, "m")) == 2)
    code, out, _ = run(b, "--verify", "--mirror", "m")
    lines = out.splitlines()
    assert code == 1
    assert lines[0].startswith("kept-0: equal, offsets 0 to 39,") and lines[0].endswith("1 place(s) compacted on one side")
    assert lines[1].startswith("t-0: different at offsets 20 to 29: ")
    assert [line.split(":")[0] for line in lines[2:]] == ["  source", "  mirror"]
    code, out, _ = run(b, "--verify", "--mirror", "m", "--topic", "t", "--from", "30")
    assert code == 0 and "offsets 30 to 39" in out
    report = json.loads(run(b, "--verify", "--mirror", "m", "--json")[1])
    assert report["difference_counts"] == {"bytes-differ": 1}


def test_verify_of_a_source_that_is_down_is_not_a_difference(one_and_one: Pair, run: Run) -> None:
    a, b = one_and_one
    create_topic(a.bootstrap_servers, "t")
    create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
    kafka_mirrors(b.bootstrap_servers, "--add", "--mirror", "m", "--topic", "t", "--wait")
    a.kill_node()
    code, out, _ = run(b, "--verify", "--mirror", "m")
    assert code == 2 and out.startswith("t-0: could not be compared: no broker could be reached")


def test_verify_against_another_cluster_is_not_a_difference(one_and_one: Pair, run: Run, tmp_path: Path) -> None:
    """B36: nothing is mirrored from there; that it has other records, or lacks the topic, was told as if the mirror were wrong."""
    a, b = one_and_one
    create_topic(a.bootstrap_servers, "t")
    create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
    kafka_mirrors(b.bootstrap_servers, "--add", "--mirror", "m", "--topic", "t", "--wait")
    other = tmp_path / "other.properties"
    other.write_text(f"bootstrap.servers={b.bootstrap_servers}\n")
    code, out, _ = run(b, "--verify", "--mirror", "m", "--mirror-config", str(other))
    assert code == 2 and f"t-0: could not be compared: cluster {b.cluster_id} is not the source of mirror m, {a.cluster_id}" in out


def test_verify_of_a_topic_that_the_source_deleted_waited_for_it(one_and_one: Pair, run: Run) -> None:
    """A minute for each question, though it is STOPPED because it is gone there."""
    a, b = one_and_one
    create_topic(a.bootstrap_servers, "gone")
    produce(a.bootstrap_servers, "gone", numbered("gone", 10))
    create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
    kafka_mirrors(b.bootstrap_servers, "--add", "--mirror", "m", "--topic", "gone", "--wait")
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
    call(a.bootstrap_servers, lambda admin: admin.delete_topics(["gone"])).all()
    wait_state(b.bootstrap_servers, "m", "STOPPED")
    code, out, _ = run(b, "--verify", "--mirror", "m")
    assert code == 2 and out.splitlines()[0] == "gone-0: could not be compared: the source does not have it"


def test_reverse_failed_over_what_cannot_be_mirrored_back(one_and_one: Pair, run: Run) -> None:
    """A topic that has another id at the old source would be FAILED there."""
    a, b = one_and_one
    for cluster in one_and_one:
        create_topic(cluster.bootstrap_servers, "twice")
    create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
    kafka_mirrors(b.bootstrap_servers, "--add", "--mirror", "m", "--topic", "twice")
    wait_state(b.bootstrap_servers, "m", "FAILED")
    for more in ([], ["--dry-run"]):
        code, _, err = run(b, "--reverse", "--mirror", "m", "--force", *more)
        assert code == 1 and "[twice] of the source was made anew and has another id" in err
    assert [row.state for row in partitions_of(b.bootstrap_servers, "m")] == ["FAILED"]
    call(a.bootstrap_servers, lambda admin: admin.delete_topics(["twice"])).all()
    code, out, _ = run(b, "--reverse", "--mirror", "m", "--force")
    assert code == 0 and out.endswith("Reversed mirror m: [twice]\n")


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
            code = process.wait(20)
            reader.join()
        assert code == 0 and process.stderr is not None and "Traceback" not in process.stderr.read()


@pytest.mark.parametrize("seed", range(2))
def test_what_a_dry_run_prints_is_what_is_dropped_on_every_replica(pair: Pair, seed: int) -> None:
    """Interleaved transactions cut off at any offset, three brokers, three replicas: offsets, records and transactions."""
    chance = random.Random(seed)
    a, b = pair
    name = f"cut-{seed}"
    create_topic(a.bootstrap_servers, name, replication_factor=3)
    create_mirror(b.bootstrap_servers, name, a.bootstrap_servers)
    kafka_mirrors(b.bootstrap_servers, "--add", "--mirror", name, "--topic", name, "--replication-factor", "3", "--wait")
    kafka_mirrors(b.bootstrap_servers, "--pause", "--mirror", name, "--topic", name, "--wait")
    log = random_transactions(chance)
    data = b"".join(log[: chance.randint(3, len(log) - 1)])
    for node in range(3):
        b.kill_node(node)
    for node in range(3):
        rewrite_folder(b.log_dir(node), f"{name}-0", data)
    for node in range(3):
        b.start_node(node)
    wait_state(b.bootstrap_servers, name, "PAUSED")
    before = values_on(b, f"{name}-0")
    (loss,) = json.loads(kafka_mirrors(b.bootstrap_servers, "--remove", "--mirror", name, "--topic", name, "--dry-run", "--json"))
    kafka_mirrors(b.bootstrap_servers, "--remove", "--mirror", name, "--topic", name)
    wait_state(b.bootstrap_servers, name, "STOPPED")
    after = [log_bytes(b.log_dir(node), f"{name}-0") for node in range(3)]
    assert after[0] == after[1] == after[2]
    gone = before.keys() - values_on(b, f"{name}-0").keys()
    assert loss["droppedRecords"] == len(gone)
    assert gone == {offset for offset in before if loss["cutOffset"] <= offset < loss["logEndOffset"]}
    kept = list(iter_batches(after[0]))
    assert kept[-1].base_offset == loss["cutOffset"] and kept[-1].is_control
    cut = {row["producerId"] for row in loss["transactions"]}
    assert cut == {batch.producer_id for batch in iter_batches(data) if batch.is_transactional and batch.base_offset >= loss["cutOffset"]}


def test_dry_runs_name_groups_that_have_read_further(pair: Pair, run: Run) -> None:
    """C32: a group's committed offset is beyond what would be left."""
    a, b = pair
    mirrored_topic(pair, "grouped")
    commit(b, "readers", "grouped", 35)
    (loss, _) = json.loads(run(b, "--remove", "--mirror", "grouped", "--topic", "grouped", "--dry-run", "--json")[1])
    assert loss["groups"] == [{"group": "readers", "isShare": False, "committedOffset": 35, "endOffset": 30}]
    code, out, err = run(b, "--remove", "--mirror", "grouped", "--topic", "grouped")
    assert code == 0 and out == "Removed 1 topic(s) from mirror grouped: [grouped]\n"
    assert "group readers has committed offset 35 of grouped-0, beyond its end 30: auto.offset.reset decides" in err


def commit(cluster: EmbeddedCluster, group: str, topic: str, offset: int) -> None:
    from kmirror.admin.groups import OffsetAndMetadata
    from kmirror.common.topic_partition import TopicPartition

    offsets = {TopicPartition(topic, 0): OffsetAndMetadata(offset)}
    errors = call(cluster.bootstrap_servers, lambda admin: admin.alter_consumer_group_offsets(group, offsets))
    assert list(errors.values()) == [None]


def test_a_ring_over_three_clusters_is_refused(tmp_path: pathlib.Path, run: Run) -> None:
    """D4: A -> B -> C -> A would empty all three; C34 cannot see it, so the tool walks the chain."""
    with contextlib.ExitStack() as stack:
        clusters = [stack.enter_context(EmbeddedCluster(mirroring=True, config=FAST_MIRROR)) for _ in range(3)]
        create_topic(clusters[0].bootstrap_servers, "t")
        produce(clusters[0].bootstrap_servers, "t", numbered("a", 10))
        for source, destination, code in ((0, 1, 0), (1, 2, 0), (2, 0, 1)):
            config = tmp_path / f"{source}.properties"
            config.write_text(f"bootstrap.servers={clusters[source].bootstrap_servers}\n")
            assert run(clusters[destination], "--create", "--mirror", f"from-{source}", "--mirror-config", str(config))[0] == 0
            wait = [] if code else ["--wait"]
            got, _, err = run(clusters[destination], "--add", "--mirror", f"from-{source}", "--topic", "t", *wait)
            assert got == code, err
        assert "ring of mirrors" in err and all(cluster.cluster_id in err for cluster in clusters)
        assert len(log_bytes(clusters[0].log_dir(), "t-0")) > 0


def test_a_ring_that_cannot_be_ruled_out_is_refused_unless_forced(tmp_path: pathlib.Path, run: Run) -> None:
    """C mirrors the topic from B, which mirrors it from A: with A down, nobody knows that A is not behind C's own source."""
    with contextlib.ExitStack() as stack:
        a, b, c = [stack.enter_context(EmbeddedCluster(mirroring=True, config=FAST_MIRROR)) for _ in range(3)]
        create_topic(a.bootstrap_servers, "t")
        produce(a.bootstrap_servers, "t", numbered("a", 10))
        create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
        kafka_mirrors(b.bootstrap_servers, "--add", "--mirror", "m", "--topic", "t", "--wait")
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        a.kill_node()
        create_mirror(c.bootstrap_servers, "m", b.bootstrap_servers)
        code, _, err = run(c, "--add", "--mirror", "m", "--topic", "t")
        assert code == 1 and f"behind {b.cluster_id}" in err and "--force adds them all the same" in err
        assert run(c, "--add", "--mirror", "m", "--topic", "t", "--force", "--wait")[0] == 0
        wait_for("the log", lambda: log_bytes(c.log_dir(), "t-0") == log_bytes(b.log_dir(), "t-0") != b"")


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


@pytest.mark.parametrize("seed", range(2))
def test_what_a_dry_run_of_a_failback_prints_is_what_is_dropped_on_every_replica(pair: Pair, seed: int) -> None:
    """Own records on both sides after a failover, leaders moved in between; three replicas each."""
    chance = random.Random(seed)
    a, b = pair
    name = f"back-{seed}"
    mirrored_topic(pair, name)
    kafka_mirrors(b.bootstrap_servers, "--remove", "--mirror", name, "--topic", name, "--wait")
    for index in range(4):
        cluster = chance.choice(pair)
        produce(cluster.bootstrap_servers, name, numbered(f"own-{index}", chance.randint(1, 9)), partition=chance.randint(0, 1))
        if index == 1:
            cluster.stop_node(1)
            cluster.start_node(1)
    create_mirror(a.bootstrap_servers, name, b.bootstrap_servers)
    folders = [f"{name}-{partition}" for partition in range(2)]
    before = {folder: values_on(a, folder) for folder in folders}
    losses = json.loads(kafka_mirrors(a.bootstrap_servers, "--add", "--mirror", name, "--topic", name, "--dry-run", "--json"))
    assert {folder: values_on(a, folder) for folder in folders} == before, "it only looked"
    kafka_mirrors(a.bootstrap_servers, "--add", "--mirror", name, "--topic", name)
    wait_caught_up(a.bootstrap_servers, b.bootstrap_servers, name)
    assert_equal_everywhere(pair, *folders)
    for folder, loss in zip(folders, losses, strict=True):
        after = values_on(a, folder)
        gone = {offset for offset, value in before[folder].items() if after.get(offset) != value}
        assert gone == {offset for offset in before[folder] if loss["cutOffset"] <= offset < loss["logEndOffset"]}
        assert loss["droppedRecords"] == len(gone)
    assert sum(loss["droppedRecords"] for loss in losses) == sum(len(rows) for rows in before.values()) - 30


def test_dry_runs_of_alter_and_delete(pair: Pair, run: Run, tmp_path: pathlib.Path) -> None:
    """Another address of the same cluster drops nothing, another cluster halts the mirror; deleting forgets what a failback needs."""
    a, b = pair
    mirrored_topic(pair, "fixed")

    def reasons(*arguments: str) -> list[str]:
        code, out, err = run(b, "--mirror", "fixed", "--dry-run", "--json", *arguments)
        assert code == 0, err
        rows = json.loads(out)
        assert [row["droppedRecords"] for row in rows] == [0, 0]
        return [row["reason"] for row in rows]

    config = tmp_path / "source.properties"
    config.write_text(f"bootstrap.servers={a.bootstrap_servers.split(',')[1]}\n")
    assert reasons("--alter", "--mirror-config", str(config)) == ["nothing differs from the source"] * 2
    config.write_text(f"bootstrap.servers={b.bootstrap_servers}\n")
    assert all(
        f"cluster {b.cluster_id} is not the mirror's source" in reason for reason in reasons("--alter", "--mirror-config", str(config))
    )
    config.write_text("mirror.groups.include=x\n")
    assert reasons("--alter", "--mirror-config", str(config)) == ["the source stays the same"] * 2
    assert reasons("--delete") == ["it is MIRRORING, so the mirror is not deleted"] * 2
    kafka_mirrors(b.bootstrap_servers, "--remove", "--mirror", "fixed", "--topic", "fixed", "--wait")
    first, second = reasons("--delete")
    assert first.endswith("a failback of the source would drop its whole log, all 30 offsets")
    assert second == "no last mirror epoch is stored", "nothing was ever mirrored of it"
    assert "fixed" in kafka_mirrors(b.bootstrap_servers, "--list")


def test_reverse_with_a_secured_source(run: Run, tmp_path: pathlib.Path) -> None:
    """A asks for a password, B does not; the other way round the tool asks how A gets into B before it changes anything."""
    users = {"mirror": "mirror-secret"}
    with (
        EmbeddedCluster(mirroring=True, security=Security.sasl_plaintext(users), config=FAST_MIRROR) as a,
        EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as b,
    ):
        producer = Producer(quiet(a.client_properties("mirror")))
        producer.produce("t", b"a")
        assert producer.flush(20) == 0
        login = tmp_path / "a.properties"
        login.write_text("".join(f"{name}={value}\n" for name, value in a.client_properties("mirror", style="java").items()))
        to_a = ["--mirror-config", str(login)]
        assert run(b, "--create", "--mirror", "m", *to_a)[0] == 0
        assert run(b, "--add", "--mirror", "m", "--topic", "t", *to_a, "--wait")[0] == 0
        code, _, err = run(b, "--reverse", "--mirror", "m", *to_a)
        assert code == 0, err
        produce(b.bootstrap_servers, "t", numbered("b", 3))
        wait_for("the records at A", lambda: log_bytes(a.log_dir(), "t-0") == log_bytes(b.log_dir(), "t-0"))
        code, _, err = run(a, "--reverse", "--mirror", "m", "--command-config", str(login))
        assert code == 1 and "--reverse-config must say how the old source connects to it" in err
        code, _, err = run(a, "--reverse", "--mirror", "m", "--command-config", str(login), "--reverse-config", str(login))
        assert code == 0, err
        produce_at_a = Producer(quiet(a.client_properties("mirror")))
        produce_at_a.produce("t", b"again")
        assert produce_at_a.flush(20) == 0
        wait_for("the records at B", lambda: log_bytes(a.log_dir(), "t-0") == log_bytes(b.log_dir(), "t-0"))


def test_a_converted_mm2_configuration_runs(pair: Pair, tmp_path: pathlib.Path) -> None:
    """The written commands, as they are, mirror what MirrorMaker 2 was to replicate and nothing else."""
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
    return process.wait(20), seen


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
        assert process.wait(20) == 1
        assert process.stderr.read() == ""
