"""`kafka-mirrors --dry-run`: what it prints is what is dropped, on every replica."""

from __future__ import annotations

import json
import pathlib
import random

import pytest
from support.mirrors.mirror_harness import (
    call,
    create_mirror,
    create_topic,
    kafka_mirrors,
    log_bytes,
    numbered,
    produce,
    random_transactions,
    rewrite_folder,
    wait_caught_up,
    wait_for,
    wait_state,
)
from support.mirrors.mirror_pair import Pair, Run, assert_equal_everywhere, commit, mirrored_topic, values_on

from kmirror.admin.results import ConfigOperation, ConfigResourceType
from kmirror.common.topic_partition import TopicPartition
from kmirror.embedded import EmbeddedCluster
from kmirror.record.record_batch import iter_batches


@pytest.mark.parametrize("seed", range(2))
def test_what_a_dry_run_prints_is_what_is_dropped_on_every_replica(pair: Pair, seed: int) -> None:
    """Interleaved transactions cut off at any offset, three brokers, three replicas: offsets,
    records and transactions.
    """
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
    """A group's committed offset is beyond the records that would be left (C32)."""
    a, b = pair
    mirrored_topic(pair, "grouped")
    commit(b, "readers", "grouped", 35)
    (loss, _) = json.loads(run(b, "--remove", "--mirror", "grouped", "--topic", "grouped", "--dry-run", "--json")[1])
    assert loss["groups"] == [{"group": "readers", "isShare": False, "committedOffset": 35, "endOffset": 30}]
    code, out, err = run(b, "--remove", "--mirror", "grouped", "--topic", "grouped")
    assert code == 0 and out == "Removed 1 topic(s) from mirror grouped: [grouped]\n"
    assert "group readers has committed offset 35 of grouped-0, beyond its end 30: auto.offset.reset decides" in err


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
    """Another address of the same cluster drops nothing, another cluster halts the mirror; deleting
    forgets what a failback needs.
    """
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


@pytest.mark.parametrize("way", ["add", "reverse"])
def test_what_the_new_source_deleted_at_its_front_was_nothing_to_the_failback(one_and_one: Pair, run: Run, way: str) -> None:
    """A mirror follows its source's log start: 12 records at the old source went, of which the dry
    run said "nothing would be dropped".
    """
    a, b = one_and_one
    create_topic(a.bootstrap_servers, "t")
    produce(a.bootstrap_servers, "t", numbered("a", 30))
    create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
    kafka_mirrors(b.bootstrap_servers, "--add", "--mirror", "m", "--topic", "t", "--wait")
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
    kafka_mirrors(b.bootstrap_servers, "--remove", "--mirror", "m", "--topic", "t", "--wait")
    call(b.bootstrap_servers, lambda admin: admin.delete_records({TopicPartition("t", 0): 12}))
    code, out, _ = run(b, "--verify", "--mirror", "m")
    assert code == 1 and "12 record(s) at offsets 0 to 11 are only at the source (DeleteRecords at the mirror" in out
    _, out, _ = run(b, "--remove", "--mirror", "m", "--topic", "t", "--dry-run")
    assert "offsets 0 to 11 are only at the source" in out and "nothing would be dropped" not in out
    assert log_start(a) == 0
    if way == "add":
        create_mirror(a.bootstrap_servers, "m", b.bootstrap_servers)
        given = a, ("--add", "--mirror", "m", "--topic", "t")
        (loss,) = json.loads(run(a, *given[1], "--dry-run", "--json")[1])
    else:
        given = b, ("--reverse", "--mirror", "m", "--force")
        code, _, err = run(b, "--reverse", "--mirror", "m")
        assert code == 1 and "would drop 12 record(s): t-0 before offset 12" in err
        (loss,) = json.loads(run(*given[:1], *given[1], "--dry-run", "--json")[1])["dropped"]
    assert (loss["droppedRecords"], loss["frontRecords"], loss["frontEndOffset"]) == (12, 12, 12)
    assert log_start(a) == 0, "it only looked"
    code, out, err = run(*given[:1], *given[1])
    assert code == 0, out + err
    wait_for("the front to go", lambda: log_start(a) == 12)


def test_a_guarded_front_is_kept_as_the_dry_run_says(one_and_one: Pair, run: Run) -> None:
    a, b = one_and_one
    create_topic(a.bootstrap_servers, "t")
    produce(a.bootstrap_servers, "t", numbered("a", 30))
    create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
    kafka_mirrors(b.bootstrap_servers, "--add", "--mirror", "m", "--topic", "t", "--wait")
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
    kafka_mirrors(b.bootstrap_servers, "--remove", "--mirror", "m", "--topic", "t", "--wait")
    call(b.bootstrap_servers, lambda admin: admin.delete_records({TopicPartition("t", 0): 12}))
    limit = [("mirror.max.truncation.records", ConfigOperation.SET, "5")]
    call(a.bootstrap_servers, lambda admin: admin.incremental_alter_configs(ConfigResourceType.TOPIC, "t", limit))
    create_mirror(a.bootstrap_servers, "m", b.bootstrap_servers)
    given = ("--add", "--mirror", "m", "--topic", "t")
    (loss,) = json.loads(run(a, *given, "--dry-run", "--json")[1])
    assert loss["droppedRecords"] == 0 and loss["reason"].endswith("unless --accept-truncation is given")
    (accepted,) = json.loads(run(a, *given, "--accept-truncation", "--dry-run", "--json")[1])
    assert accepted["droppedRecords"] == 12
    assert run(a, *given)[0] == 0
    wait_state(a.bootstrap_servers, "m", "FAILED")
    assert log_start(a) == 0


def log_start(cluster: EmbeddedCluster) -> int:
    names = [TopicPartition("t", 0)]
    return call(cluster.bootstrap_servers, lambda admin: admin.list_offsets(names, timestamp=-2))[names[0]]
