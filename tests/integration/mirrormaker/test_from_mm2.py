"""`kafka-mirrors --from-mm2` judged by what comes of it: MirrorMaker 2 runs with a file for a while,
then the mirrors run that the same file is converted to, and what the target has is compared.

The migration is the one that the notes prescribe: MirrorMaker 2 is stopped, what it made at the
target is deleted, and `commands.sh` is run. What the conversion says it leaves out is looked for, too.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from support.clients.ended_transactions import wait_until_ended
from support.mirrormaker.logs_compared import QUIET, Row, make_topics, produce, produce_transactions, read, rows
from support.mirrormaker.mirror_makers import FAST, commit, committed, our_mirror_maker_2, own_configs, properties, topics_of
from support.mirrors.mirror_harness import FAST_MIRROR, wait_for
from support.waiting import PROGRAM_S, REACHED_S

from kmirror import EmbeddedCluster

BROKER = {
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
WANTED = {"orders": 3, "payments": 1}
UNWANTED = {"orders.replica": 1, "private": 1}
CONFIGS = {"retention.ms": "86400000", "max.message.bytes": "900000"}
COMMITS = {("orders", 0): 40, ("orders", 1): 7, ("payments", 0): 3}
GROUPS = ("shop", "console-consumer-1")
FLOW = {
    "topics": "orders.*, payments",
    "tasks.max": "2",
    "sync.topic.acls.enabled": "true",
    "sync.topic.acls.interval.seconds": "1",
    "offset.lag.max": "0",
    "config.properties.exclude": "max[.]message[.]bytes",
}
NOTHING_BUT_RECORDS = {
    "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    "sync.topic.configs.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "sync.group.offsets.enabled": "false",
}
ANY_RULE = AclBindingFilter(ResourceType.TOPIC, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY)
READS = (AclOperation.READ, AclOperation.DESCRIBE)


class Copy(NamedTuple):
    """What a target has of a source, under the source's names."""

    records: dict[str, dict[int, list[Row]]]
    configs: dict[str, dict[str, str]]
    acls: set[tuple[str, AclOperation]]
    offsets: dict[str, dict[tuple[str, int], int]]


def ask(cluster: EmbeddedCluster, question: Callable[[AdminClient], Any]) -> None:
    """Asks for something to be done, and waits for it."""
    client = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **QUIET})
    for future in question(client).values():
        future.result(REACHED_S)


def data_topics(cluster: EmbeddedCluster) -> dict[str, int]:
    """Topics that are neither Kafka's own nor MirrorMaker's."""
    names = topics_of(cluster.bootstrap_servers).items()
    return {name: count for name, count in names if not name.startswith("__") and not name.endswith((".internal", "heartbeats"))}


def make_workload(source: EmbeddedCluster) -> None:
    servers = source.bootstrap_servers
    make_topics(servers, {"orders": 3}, CONFIGS)
    make_topics(servers, {"payments": 1, **UNWANTED})
    produce(servers, "orders", 120, partitions=3, codec="lz4")
    produce_transactions(servers, "payments", 6)
    for topic in UNWANTED:
        produce(servers, topic, 5)
    rules = [
        AclBinding(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:alice", "*", operation, AclPermissionType.ALLOW)
        for operation in (*READS, AclOperation.WRITE)
        for topic in ("orders", "private")
    ]
    ask(source, lambda client: client.create_acls(rules))


def commit_offsets(source: EmbeddedCluster) -> None:
    for group in GROUPS:
        commit(source.bootstrap_servers, group, COMMITS)


def copy_at(target: EmbeddedCluster, prefix: str) -> Copy:
    """What is there now, of topics whose names have the prefix."""
    servers = target.bootstrap_servers
    names = {name.removeprefix(prefix): count for name, count in data_topics(target).items() if name.startswith(prefix)}
    client = AdminClient({"bootstrap.servers": servers, **QUIET})
    bindings = client.describe_acls(ANY_RULE).result(REACHED_S)
    partitions = [(prefix + name, number) for name, count in names.items() for number in range(count)]
    return Copy(
        {name: rows(read(servers, prefix + name, count)) for name, count in names.items()},
        {name: own_configs(servers, prefix + name) for name in names},
        {(one.name.removeprefix(prefix), one.operation) for one in bindings if one.name.removeprefix(prefix) in names},
        {
            group: {(name.removeprefix(prefix), number): at for (name, number), at in committed(servers, group, partitions).items()}
            for group in GROUPS
        },
    )


def copied_by_mirror_maker(folder: pathlib.Path, props: Mapping[str, str], source: EmbeddedCluster, target: EmbeddedCluster) -> Copy:
    """Runs MirrorMaker 2 until the target has all that it brings."""
    renames = "replication.policy.class" not in props
    prefix = "A." if renames else ""
    wanted = {name: rows(read(source.bootstrap_servers, name, count)) for name, count in WANTED.items()}
    with our_mirror_maker_2(folder, props) as program:
        program.until("all records", lambda: copy_at(target, prefix).records == wanted)
        commit_offsets(source)
        if renames:
            program.until("offsets", lambda: len(copy_at(target, prefix).offsets["shop"]) == len(COMMITS))
            program.until("access rules", lambda: len(copy_at(target, prefix).acls) == len(READS))
        assert program.stop() == 0, program.log
    return copy_at(target, prefix)


def delete_what_it_made(target: EmbeddedCluster) -> None:
    made = [name for name in topics_of(target.bootstrap_servers) if not name.startswith("__")]
    ask(target, lambda client: client.delete_topics(made))
    wait_for("an empty target", lambda: not data_topics(target))


def run_commands(folder: pathlib.Path, *only: str) -> str:
    """Runs the script of the conversion, or those of its lines that have all these words."""
    script = (folder / "commands.sh").read_text()
    lines = [line for line in script.splitlines() if not only or all(word in line.split() for word in only)]
    binaries = pathlib.Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euc", "\n".join(lines)], cwd=folder, env=environment, capture_output=True, text=True, timeout=PROGRAM_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def convert(file: pathlib.Path, folder: pathlib.Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "kmirror.cli.mirrors", "--from-mm2", str(file), "--output", str(folder), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PROGRAM_S, check=False)
    assert done.returncode == 0, done.stderr
    (flow,) = json.loads(done.stdout)
    assert isinstance(flow, dict)
    return flow


@contextmanager
def migrated(folder: pathlib.Path, settings: Mapping[str, str]) -> Iterator[tuple[EmbeddedCluster, EmbeddedCluster, Copy, dict[str, Any]]]:
    """Source, target, what MirrorMaker 2 had copied, and what the conversion says; the mirror runs."""
    with EmbeddedCluster(config=BROKER) as source, EmbeddedCluster(mirroring=True, config=BROKER | FAST_MIRROR) as target:
        make_workload(source)
        props = properties(("A", "B"), (source.bootstrap_servers, target.bootstrap_servers), {**FAST, **FLOW, **settings})
        before = copied_by_mirror_maker(folder, props, source, target)
        delete_what_it_made(target)
        said = convert(folder / "mm2.properties", folder / "converted")
        run_commands(folder / "converted")
        wait_for("all records", lambda: copy_at(target, "").records == before.records)
        yield source, target, before, said


def test_the_mirrors_bring_what_mirror_maker_brought(tmp_path: pathlib.Path) -> None:
    with migrated(tmp_path, {}) as (source, target, before, said):
        wait_for("offsets", lambda: copy_at(target, "").offsets["shop"] == COMMITS)
        wait_for("configs", lambda: copy_at(target, "").configs == before.configs)
        wait_for("access rules", lambda: len(copy_at(target, "").acls) > len(READS))
        after = copy_at(target, "")
        assert set(after.records) == set(before.records) == set(WANTED)
        assert "max.message.bytes" not in after.configs["orders"] and after.configs["orders"]["retention.ms"] == CONFIGS["retention.ms"]

        # What the conversion says is different.
        assert "replication.policy.class" in said["notConverted"]
        assert set(data_topics(target)) == set(WANTED), "a mirrored topic keeps its name"
        assert before.acls == {("orders", operation) for operation in READS}
        assert any("WRITE too" in note for note in said["notes"])
        assert after.acls == before.acls | {("orders", AclOperation.WRITE)}
        assert all(before.offsets["shop"][partition] <= at for partition, at in COMMITS.items())
        assert after.offsets["console-consumer-1"] == before.offsets["console-consumer-1"] == {}
        names = set(topics_of(target.bootstrap_servers))
        for missing, setting in (
            ("heartbeats", "heartbeats.topic.replication.factor"),
            ("checkpoints", "checkpoints.topic.replication.factor"),
        ):
            assert setting in said["notConverted"]
            assert not [name for name in names if missing in name]
        assert "offset-syncs.topic.replication.factor" in said["notConverted"]
        assert not [name for name in topics_of(source.bootstrap_servers) if "mm2-offset-syncs.B" not in name and name.startswith("mm2")]

        # Transactions are copied as such.
        wait_until_ended(target.bootstrap_servers, "payments")
        reads = {
            side: rows(read(one.bootstrap_servers, "payments", isolation="read_committed")) for side, one in (("a", source), ("b", target))
        }
        assert reads["a"] == reads["b"] != after.records["payments"]

        # Topics that are made later are added by the same command.
        assert any("--add command is given again" in note for note in said["notes"])
        make_topics(source.bootstrap_servers, {"orders-later": 2})
        produce(source.bootstrap_servers, "orders", 30, partitions=3, first=120)
        wanted = rows(read(source.bootstrap_servers, "orders", 3))
        wait_for("later records", lambda: copy_at(target, "").records["orders"] == wanted)
        assert "orders-later" not in data_topics(target)
        add = [line for line in said["commands"] if "--add" in line and "--dry-run" not in line]
        assert len(add) == 1
        run_commands(tmp_path / "converted", "--add", *(["--replication-factor"] if "--replication-factor" in add[0] else []))
        wait_for("the later topic", lambda: data_topics(target).get("orders-later") == 2)


def test_what_is_switched_off_for_mirror_maker_is_off_for_the_mirrors(tmp_path: pathlib.Path) -> None:
    with migrated(tmp_path, NOTHING_BUT_RECORDS) as (source, target, before, said):
        produce(source.bootstrap_servers, "orders", 30, partitions=3, first=120)
        wanted = rows(read(source.bootstrap_servers, "orders", 3))
        wait_for("later records", lambda: copy_at(target, "").records["orders"] == wanted)
        after = copy_at(target, "")
        assert "replication.policy.class" not in said["notConverted"]
        assert set(after.records) == set(before.records) == set(WANTED)
        assert after.acls == before.acls == set()
        assert after.offsets == before.offsets == {group: {} for group in GROUPS}
        assert before.configs["orders"]["retention.ms"] == CONFIGS["retention.ms"], "topics are made with the source's settings"
        assert "retention.ms" not in after.configs["orders"]
        assert any("mirrored topics have the target's defaults" in note for note in said["notes"])
