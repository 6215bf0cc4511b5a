"""`kafka-mirrors` against live clusters: the KIP's messages, and dry runs that name exactly what is
dropped afterwards.
"""

from __future__ import annotations

import json
import pathlib
import random
from collections.abc import Iterator
from typing import Any

import pytest
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    add,
    call,
    create_mirror,
    create_topic,
    kafka_mirrors,
    log_bytes,
    numbered,
    produce,
    random_transactions,
    rebuild_log,
    remove,
    wait_caught_up,
    wait_for,
    wait_state,
)

from kmirror.admin.results import ConfigResourceType
from kmirror.cli.mirrors import main
from kmirror.embedded import EmbeddedCluster
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.record.record_batch import iter_batches


def records_on(cluster: EmbeddedCluster, topic_partition: str) -> set[tuple[int, bytes]]:
    """Offset and value of every data record."""
    batches = iter_batches(log_bytes(cluster.log_dir(), topic_partition))
    return {(r.offset, bytes(r.value or b"")) for batch in batches if not batch.is_control for r in batch.records()}


def test_failover_and_failback_by_tool(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    def tool(cluster: EmbeddedCluster, *arguments: str, code: int = 0) -> str:
        assert main(["--bootstrap-server", cluster.bootstrap_servers, *arguments]) == code
        captured = capsys.readouterr()
        return (captured.out if code == 0 else captured.err).rstrip("\n")

    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a, EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as b:
        for name in ("t", "u"):
            create_topic(a.bootstrap_servers, name)
            produce(a.bootstrap_servers, name, numbered(name, 30))
        towards_a, towards_b = tmp_path / "a.properties", tmp_path / "b.properties"
        towards_a.write_text(f"bootstrap.servers={a.bootstrap_servers}\n")
        towards_b.write_text(f"bootstrap.servers={b.bootstrap_servers}\n")
        assert tool(b, "--list") == "No mirrors found"
        assert tool(b, "--create", "--mirror", "m", "--mirror-config", str(towards_a)) == "Created mirror m"
        assert tool(b, "--add", "--mirror", "m", "--topic", "nosuch", code=1) == "kafka-mirrors: No topics matching pattern 'nosuch' found"
        assert tool(b, "--add", "--mirror", "m", "--topic", ".*") == "Added 2 topic(s) to mirror m: [t, u]"
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        row = tool(b, "--describe").splitlines()[1].split()
        assert (row[0], row[1], row[2], row[4], row[6]) == ("m", "t", "0", "30", "MIRRORING")
        assert tool(b, "--list").splitlines()[1].split() == ["m", "2", a.cluster_id, a.bootstrap_servers]
        assert [item["topic"] for item in json.loads(tool(b, "--describe", "--mirror", "m", "--json"))] == ["t", "u"]
        assert tool(b, "--pause", "--mirror", "m", "--topic", "u") == "Paused mirroring for 1 topic(s) in mirror m: [u]"
        wait_state(b.bootstrap_servers, "m", "PAUSED", topic="u")
        assert tool(b, "--resume", "--mirror", "m", "--topic", "u") == "Resumed mirroring for 1 topic(s) in mirror m: [u]"
        wait_state(b.bootstrap_servers, "m", "MIRRORING", topic="u")
        assert "nothing would be dropped" in tool(b, "--remove", "--mirror", "m", "--topic", "t", "--dry-run")
        assert tool(b, "--remove", "--mirror", "m", "--topic", ".*") == "Removed 2 topic(s) from mirror m: [t, u]"
        wait_state(b.bootstrap_servers, "m", "STOPPED")

        produce(a.bootstrap_servers, "t", numbered("lost", 12))
        produce(b.bootstrap_servers, "t", numbered("kept", 5))
        assert tool(a, "--create", "--mirror", "m", "--mirror-config", str(towards_b)) == "Created mirror m"
        before = records_on(a, "t-0")
        (loss,) = json.loads(tool(a, "--add", "--mirror", "m", "--topic", "t", "--dry-run", "--json"))
        assert records_on(a, "t-0") == before
        assert tool(a, "--add", "--mirror", "m", "--topic", "t") == "Added 1 topic(s) to mirror m: [t]"
        wait_caught_up(a.bootstrap_servers, b.bootstrap_servers, "m")
        gone = before - records_on(a, "t-0")
        assert loss["droppedRecords"] == len(gone) == 12
        assert {offset for offset, _ in gone} == set(range(loss["cutOffset"], loss["logEndOffset"]))
        assert tool(b, "--delete", "--mirror", "m") == "Deleted mirror m"
        wait_for("no mirror at B", lambda: tool(b, "--list") == "No mirrors found")


def test_ring_of_two_is_refused(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """B mirrors A, so A may not mirror the same topic from B under any mirror name (C34)."""
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a, EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as b:
        create_topic(a.bootstrap_servers, "t")
        produce(a.bootstrap_servers, "t", numbered("a", 20))
        for cluster, source, name in ((b, a, "m"), (a, b, "back")):
            config = tmp_path / f"{name}.properties"
            config.write_text(f"bootstrap.servers={source.bootstrap_servers}\n")
            assert (
                main(["--bootstrap-server", cluster.bootstrap_servers, "--create", "--mirror", name, "--mirror-config", str(config)]) == 0
            )
        assert main(["--bootstrap-server", b.bootstrap_servers, "--add", "--mirror", "m", "--topic", "t"]) == 0
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        capsys.readouterr()
        assert main(["--bootstrap-server", a.bootstrap_servers, "--add", "--mirror", "back", "--topic", "t"]) == 1
        assert "ring of mirrors" in capsys.readouterr().err


@pytest.fixture
def clusters() -> Iterator[tuple[EmbeddedCluster, EmbeddedCluster]]:
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a, EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as b:
        yield a, b


def dry_run(cluster: EmbeddedCluster, action: str, mirror: str, topic: str) -> dict[str, Any]:
    (loss,) = json.loads(
        kafka_mirrors(cluster.bootstrap_servers, f"--{action}", "--mirror", mirror, "--topic", topic, "--dry-run", "--json")
    )
    return dict(loss)


def test_a_topic_that_is_added_again_keeps_what_the_source_has(clusters: tuple[EmbeddedCluster, EmbeddedCluster]) -> None:
    """The records that the dry run reports are those that go, and the limit that was raised for the
    add is put back.
    """
    a, b = clusters
    topic, mirror = "added-again", "again"
    create_topic(a.bootstrap_servers, topic)
    produce(a.bootstrap_servers, topic, numbered("mirrored", 20))
    create_mirror(b.bootstrap_servers, mirror, a.bootstrap_servers)
    add(b.bootstrap_servers, mirror, topic)
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, mirror)
    remove(b.bootstrap_servers, mirror, topic)
    wait_state(b.bootstrap_servers, mirror, "STOPPED")
    produce(b.bootstrap_servers, topic, numbered("local", 5))
    before = log_bytes(b.log_dir(), f"{topic}-0")
    command = ("--mirror", mirror, "--topic", topic, "--add")
    shown = kafka_mirrors(b.bootstrap_servers, *command, "--dry-run")
    assert "5 record(s) at offsets 20 to 25 would be dropped (it was mirrored from there before" in shown
    assert kafka_mirrors(b.bootstrap_servers, *command, "--accept-truncation", "--timeout", "60000").startswith("Added 1 topic(s)")
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, mirror)
    after = log_bytes(b.log_dir(), f"{topic}-0")
    assert before.startswith(after) and after == log_bytes(a.log_dir(), f"{topic}-0")
    configs = call(b.bootstrap_servers, lambda admin: admin.describe_configs(ConfigResourceType.TOPIC, topic))
    assert [entry.value for entry in configs if entry.name == "mirror.max.truncation.records"] == [None]


def test_dry_run_of_a_failback_from_a_mirror_that_still_runs_drops_nothing(clusters: tuple[EmbeddedCluster, EmbeddedCluster]) -> None:
    """It said "mirrored from scratch", all of it dropped: but PREPARING waits while the row at the
    source is not STOPPED.
    """
    a, b = clusters
    create_topic(a.bootstrap_servers, "t")
    produce(a.bootstrap_servers, "t", numbered("a", 20))
    create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
    add(b.bootstrap_servers, "m", "t")
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
    create_mirror(a.bootstrap_servers, "m", b.bootstrap_servers)
    loss = dry_run(a, "add", "m", "t")
    assert (loss["cutOffset"], loss["logEndOffset"], loss["droppedRecords"]) == (20, 20, 0)
    assert "STOPPED" in loss["reason"] and "MIRRORING" in loss["reason"]


@pytest.mark.parametrize("seed", range(6))
def test_what_a_dry_run_prints_is_what_is_dropped(clusters: tuple[EmbeddedCluster, EmbeddedCluster], seed: int) -> None:
    """Interleaved transactions at failover, own records on both sides at failback: exact, whatever
    the histories are.
    """
    chance = random.Random(seed)
    a, b = clusters
    create_topic(a.bootstrap_servers, "t")
    log = random_transactions(chance)
    rebuild_log(a, "t-0", b"".join(log))
    create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
    add(b.bootstrap_servers, "m", "t")
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
    a.kill_node()
    rebuild_log(b, "t-0", b"".join(log[: chance.randint(1, len(log))]))
    before = records_on(b, "t-0")
    loss = dry_run(b, "remove", "m", "t")
    remove(b.bootstrap_servers, "m", "t")
    wait_state(b.bootstrap_servers, "m", "STOPPED")
    gone = before - records_on(b, "t-0")
    assert loss["droppedRecords"] == len(gone)
    assert {offset for offset, _ in gone} <= set(range(loss["cutOffset"], loss["logEndOffset"]))

    a.start_node()
    for cluster, name in ((a, "own-a"), (b, "own-b")):
        for index in range(chance.randint(0, 3)):
            produce(cluster.bootstrap_servers, "t", numbered(f"{name}-{index}", chance.randint(1, 6)))
            if chance.random() < 0.5:
                cluster.stop_node()
                cluster.start_node()
    create_mirror(a.bootstrap_servers, "m", b.bootstrap_servers)
    before = records_on(a, "t-0")
    loss = dry_run(a, "add", "m", "t")
    add(a.bootstrap_servers, "m", "t")
    wait_caught_up(a.bootstrap_servers, b.bootstrap_servers, "m")
    assert log_bytes(a.log_dir(), "t-0") == log_bytes(b.log_dir(), "t-0")
    gone = before - records_on(a, "t-0")
    named = {
        (offset, value)
        for offset, value in before
        if any(batch["baseOffset"] <= offset <= batch["lastOffset"] for batch in loss["batches"] if not batch["isControl"])
    }
    assert gone <= named and loss["droppedRecords"] == len(named)
    mirrored_again = named - gone
    assert mirrored_again <= records_on(b, "t-0")


def test_what_a_dry_run_names_in_a_compacted_topic_is_what_goes(clusters: tuple[EmbeddedCluster, EmbeddedCluster]) -> None:
    """A batch that the source's cleaner took proves nothing; the dry run took it for another one,
    and named all from there on.
    """
    a, b = clusters
    keyed = [bytes(build_batch([Record(n, 1, b"k%d" % n, b"v")], base_offset=n, partition_leader_epoch=0)) for n in range(9)]
    create_topic(a.bootstrap_servers, "t")
    rebuild_log(a, "t-0", b"".join(keyed))
    create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
    add(b.bootstrap_servers, "m", "t")
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
    create_mirror(a.bootstrap_servers, "m", b.bootstrap_servers)
    remove(b.bootstrap_servers, "m", "t")
    wait_state(b.bootstrap_servers, "m", "STOPPED")
    written = bytes(build_batch([Record(9, 1, b"own", b"v")], base_offset=9, partition_leader_epoch=1))
    rebuild_log(b, "t-0", b"".join([*keyed[:3], *keyed[5:7], written]))  # what its cleaner left
    before = records_on(a, "t-0")
    loss = dry_run(a, "add", "m", "t")
    add(a.bootstrap_servers, "m", "t")
    wait_state(a.bootstrap_servers, "m", "MIRRORING")
    wait_for("A has what B wrote", lambda: (9, b"v") in records_on(a, "t-0"))
    assert loss["droppedRecords"] == len(before - records_on(a, "t-0")) == 0


def test_what_a_dry_run_names_of_a_first_add_is_what_goes(clusters: tuple[EmbeddedCluster, EmbeddedCluster]) -> None:
    a, b = clusters
    same = [bytes(build_batch([Record(n, 1, b"k%d" % n, b"v")], base_offset=n, partition_leader_epoch=0)) for n in range(6)]
    ours = [bytes(build_batch([Record(n, 1, b"ours", b"v")], base_offset=n, partition_leader_epoch=0)) for n in range(6, 9)]
    create_topic(a.bootstrap_servers, "t")
    rebuild_log(a, "t-0", b"".join(same))
    create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
    add(b.bootstrap_servers, "m", "t")
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
    remove(b.bootstrap_servers, "m", "t")
    wait_state(b.bootstrap_servers, "m", "STOPPED")
    kafka_mirrors(b.bootstrap_servers, "--delete", "--mirror", "m")  # nothing tells any more that it was mirrored
    rebuild_log(b, "t-0", b"".join([*same, *ours]))
    create_mirror(b.bootstrap_servers, "m2", a.bootstrap_servers)
    before = records_on(b, "t-0")
    loss = dry_run(b, "add", "m2", "t")
    add(b.bootstrap_servers, "m2", "t")
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m2")
    assert loss["droppedRecords"] == len(before - records_on(b, "t-0")) == 3
