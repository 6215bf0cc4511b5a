"""`kafka-mirrors --verify`: the mirror is a prefix of its source, while it runs, over broker
deaths, and where it is not.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path

from support.mirrors.mirror_harness import (
    call,
    create_mirror,
    create_topic,
    data_batch,
    kafka_mirrors,
    log_bytes,
    numbered,
    partitions_of,
    produce,
    rebuild_log,
    wait_caught_up,
    wait_for,
    wait_state,
)
from support.mirrors.mirror_pair import Pair, Run, mirrored_topic

from kmirror.record.record_batch import iter_batches


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


def test_verify_names_the_first_difference(one_and_one: Pair, run: Run) -> None:
    """Own records behind the failover are none; one byte of a mirrored batch is, a batch that a
    compacted topic's cleaner took is not.
    """
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
    """Nothing is mirrored from another cluster at the source's address (B36).

    Once, other records there, or a missing topic, were reported as if the mirror were wrong.
    """
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
