"""Hazards that an operator meets (section C, and what belongs to them in E9 and E11).

The tool warns, retries and keeps secrets. The documents say what cannot be repaired, and a command
finds it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from support.logs.log_folders import batch, open_log, write_log
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
    remove,
    wait_caught_up,
    wait_for,
    wait_state,
)
from support.waiting import REACHED_S

from kmirror.admin.results import AddTopicsToMirrorResult, ConfigResourceType
from kmirror.cli import mirrors, mirrors_topics
from kmirror.cli.mm2_converter import convert
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.embedded import EmbeddedCluster
from kmirror.embedded_security import Security
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.runtime.asyncio_runtime import run
from kmirror.verify.log_diff import diff_logs

ROOT = Path(__file__).resolve().parents[2]
Tool = Callable[..., tuple[int, str, str]]


@pytest.fixture
def tool(capsys: pytest.CaptureFixture[str]) -> Tool:
    def run_tool(cluster: EmbeddedCluster, *arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = mirrors.main(["--bootstrap-server", cluster.bootstrap_servers, *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_tool


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[EmbeddedCluster, EmbeddedCluster]]:
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a, EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as b:
        yield a, b


def properties(folder: Path, cluster: EmbeddedCluster) -> str:
    path = folder / "source.properties"
    path.write_text(f"bootstrap.servers={cluster.bootstrap_servers}\n")
    return str(path)


def documented(*words: str) -> None:
    """A list item of docs/MIRRORING.md (what no tool can give back) has all of these words."""
    text = (ROOT / "docs" / "MIRRORING.md").read_text()
    items = [re.sub(r"\s+", " ", item) for item in re.findall(r"^- (.*?)(?=^- |^$)", text, re.MULTILINE | re.DOTALL)]
    assert any(all(word in item for word in words) for item in items), words


@pytest.mark.item("B8")
def test_c8_a_failback_under_another_name_is_warned_about(
    pair: tuple[EmbeddedCluster, EmbeddedCluster], tool: Tool, tmp_path: Path
) -> None:
    """At creation, and when a topic is added of which the source has a last mirror epoch under
    another name.
    """
    a, b = pair
    create_topic(a.bootstrap_servers, "t")
    create_topic(a.bootstrap_servers, "u")
    produce(a.bootstrap_servers, "t", numbered("t", 10))
    create_mirror(b.bootstrap_servers, "south", a.bootstrap_servers)
    add(b.bootstrap_servers, "south", "t")
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "south")
    remove(b.bootstrap_servers, "south", "t")
    wait_state(b.bootstrap_servers, "south", "STOPPED")
    config = properties(tmp_path, b)
    code, out, err = tool(a, "--create", "--mirror", "north", "--mirror-config", config)
    assert (code, out) == (0, "Created mirror north\n")
    assert "knows last mirror epochs of [t] under the mirror name south, not north: with this name none is found" in err
    assert "keeps what is identical to the source's log from its beginning on, and drops the rest" in err
    create_topic(b.bootstrap_servers, "v")
    assert "last mirror epochs" not in tool(a, "--add", "--mirror", "north", "--topic", "v", "--wait")[2]
    code, out, err = tool(a, "--create", "--mirror", "south", "--mirror-config", config)
    assert (code, out, err) == (0, "Created mirror south\n", "")
    documented("Last mirror epochs are found under the mirror's own name only", "drops the rest")


@pytest.mark.item("B17")
def test_c21_add_is_tried_again_at_once_until_the_topic_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """No fixed sleep between creating a topic and adding it, and no failure where metadata is slow."""
    pauses: list[float] = []
    unknown = ApiException(Errors.UNKNOWN_TOPIC_OR_PARTITION)

    class SlowMetadata:
        asked = 0

        async def add_topics_to_mirror(self, mirror: str, names: list[str]) -> AddTopicsToMirrorResult:
            self.asked += 1
            return AddTopicsToMirrorResult({name: unknown if name == "new" and self.asked < 4 else None for name in names})

    class Runtime:
        def __init__(self) -> None:
            self.clock = self
            self.now = 0.0

        def monotonic_ms(self) -> float:
            return self.now

        async def sleep_ms(self, delay_ms: float) -> None:
            pauses.append(delay_ms)
            self.now += delay_ms

    async def attempt(admin: Any, runtime: Any, names: list[str]) -> list[str]:
        return await mirrors_topics.add_until_known(runtime, admin, "m", names, may_be_idle=False)

    assert run(lambda _: attempt(SlowMetadata(), Runtime(), ["old"])) == ["old"] and pauses == []
    assert run(lambda _: attempt(SlowMetadata(), Runtime(), ["new", "old"])) == ["new", "old"]
    assert len(pauses) == 3 and max(pauses) <= 100

    class NeverKnown(SlowMetadata):
        async def add_topics_to_mirror(self, mirror: str, names: list[str]) -> AddTopicsToMirrorResult:
            return AddTopicsToMirrorResult(dict.fromkeys(names, unknown))

    runtime = Runtime()
    with pytest.raises(KmirrorError, match="new: This server does not host this topic-partition"):
        run(lambda _: attempt(NeverKnown(), runtime, ["new"]))
    assert runtime.now >= mirrors_topics.ADD_TIMEOUT_MS


def test_c22_secrets_are_told_to_nobody_and_a_named_topic_is_added_without_them(tool: Tool, tmp_path: Path) -> None:
    with (
        EmbeddedCluster(mirroring=True, security=Security.sasl_plaintext({"mirror": "mirror-secret"}), config=FAST_MIRROR) as source,
        EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as destination,
    ):
        producer = Producer(source.client_properties("mirror"))
        for topic in ("t", "u"):
            producer.produce(topic, b"a")
        assert producer.flush(REACHED_S) == 0
        configs = source.client_properties("mirror", style="java")
        config = tmp_path / "source.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in configs.items()))
        assert tool(destination, "--create", "--mirror", "m", "--mirror-config", str(config))[0] == 0
        entries = call(destination.bootstrap_servers, lambda admin: admin.describe_configs(ConfigResourceType.MIRROR, "m"))
        assert {entry.name: (entry.value, entry.is_sensitive) for entry in entries}["sasl.jaas.config"] == (None, True)
        assert "mirror-secret" not in repr(entries)
        code, out, err = tool(destination, "--add", "--mirror", "m", "--topic", ".*")
        assert code == 1 and out == "" and "give them with --mirror-config" in err
        code, out, err = tool(destination, "--add", "--mirror", "m", "--topic", "t", "--wait")
        assert (code, out) == (0, "Added 1 topic(s) to mirror m: [t]\n")
        assert "mirror-secret" not in err
        assert tool(destination, "--add", "--mirror", "m", "--topic", "u", "--mirror-config", str(config), "--wait")[0] == 0
        wait_for("the bytes", lambda: log_bytes(destination.log_dir(), "t-0") == log_bytes(source.log_dir(), "t-0") != b"")


def test_c30_what_an_unclean_election_left_is_documented_and_found(tmp_path: Path) -> None:
    """Two leaders of one epoch number wrote other batches at the same offsets: nothing in the
    protocol shows it, the bytes do.
    """
    documented("unclean election after the cut", "mirror.support.unclean.leader.election=true", "`kafka-log-diff`")
    source = open_log(write_log(tmp_path / "a" / "t-0", batch(0), batch(5, epoch=1), batch(10, epoch=1)))
    mirror = open_log(write_log(tmp_path / "b" / "t-0", batch(0), batch(5, epoch=1, text="lost"), batch(10, epoch=1)))
    verdict = diff_logs(source, mirror)
    (difference,) = verdict.differences
    assert (difference.kind.value, difference.first_offset, difference.last_offset) == ("bytes-differ", 5, 9)


def test_c31_a_tombstone_that_was_not_mirrored_is_documented_and_its_key_reported(tmp_path: Path) -> None:
    documented("tombstone of a compacted topic", "its key stays on both clusters", "`kafka-log-diff` reports")
    deletion = build_batch([Record(5, 1, b"customer-7", None), Record(6, 1, b"customer-8", b"kept")], base_offset=5)
    source = open_log(write_log(tmp_path / "a" / "t-0", batch(0), bytes(deletion)))
    mirror = open_log(write_log(tmp_path / "b" / "t-0", batch(0)))
    (difference,) = diff_logs(source, mirror).differences
    assert "tombstones of key 'customer-7': where they are missing, these keys stay" in difference.detail
    assert "customer-8" not in difference.detail


def test_c32_groups_beyond_the_end_are_listed_by_the_failover_report(
    pair: tuple[EmbeddedCluster, EmbeddedCluster], tool: Tool, tmp_path: Path
) -> None:
    from kmirror.admin.groups import OffsetAndMetadata
    from kmirror.common.topic_partition import TopicPartition

    a, b = pair
    create_topic(a.bootstrap_servers, "grouped")
    produce(a.bootstrap_servers, "grouped", numbered("g", 8))
    create_mirror(b.bootstrap_servers, "groups", a.bootstrap_servers)
    assert tool(b, "--add", "--mirror", "groups", "--topic", "grouped", "--wait")[0] == 0
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "groups")
    for group, offset in (("ahead", 10), ("level", 8)):
        offsets = {TopicPartition("grouped", 0): OffsetAndMetadata(offset)}
        call(b.bootstrap_servers, lambda admin, group=group, offsets=offsets: admin.alter_consumer_group_offsets(group, offsets))
    for group, offset in (("shared-ahead", 12), ("shared-level", 8)):
        starts = {TopicPartition("grouped", 0): offset}
        call(b.bootstrap_servers, lambda admin, group=group, starts=starts: admin.alter_share_group_offsets(group, starts))
    code, text, _ = tool(b, "--remove", "--mirror", "groups", "--topic", "grouped", "--dry-run")
    assert code == 0 and "share group shared-ahead begins at offset 12 of grouped-0, beyond its end 8" in text
    (row,) = json.loads(tool(b, "--remove", "--mirror", "groups", "--topic", "grouped", "--dry-run", "--json")[1])
    assert row["groups"] == [
        {"group": "ahead", "isShare": False, "committedOffset": 10, "endOffset": 8},
        {"group": "shared-ahead", "isShare": True, "committedOffset": 12, "endOffset": 8},
    ]
    code, _, err = tool(b, "--remove", "--mirror", "groups", "--topic", "grouped", "--wait")
    assert code == 0 and err.count("has committed offset") == 1 and "group ahead has committed offset 10 of grouped-0" in err
    assert (
        err.count("share group") == 1
        and "beyond its end 9: records that are written below that offset are not delivered to the group" in err
    )
    documented("A group may have committed more than the mirror holds", "OFFSET_OUT_OF_RANGE")


def test_c39_remove_while_preparing_is_warned_about_and_its_dry_run_shows_the_local_end(
    pair: tuple[EmbeddedCluster, EmbeddedCluster], tool: Tool
) -> None:
    _, b = pair
    create_topic(b.bootstrap_servers, "own")
    produce(b.bootstrap_servers, "own", numbered("own", 6))
    call(b.bootstrap_servers, lambda admin: admin.create_mirror("dead", {"bootstrap.servers": "127.0.0.1:1"}))
    add(b.bootstrap_servers, "dead", "own")
    wait_state(b.bootstrap_servers, "dead", "PREPARING")
    (row,) = json.loads(kafka_mirrors(b.bootstrap_servers, "--remove", "--mirror", "dead", "--topic", "own", "--dry-run", "--json"))
    assert (row["logEndOffset"], row["droppedRecords"], row["notMirrored"]) == (6, 0, None)
    code, out, err = tool(b, "--remove", "--mirror", "dead", "--topic", "own")
    assert (code, out) == (0, "Removed 1 topic(s) from mirror dead: [own]\n")
    assert "own-0 is PREPARING: its log may have been cut already; it ends at 6" in err


def test_fm19_from_a_source_without_the_mirror_apis_only_what_it_has_stays(tool: Tool, tmp_path: Path) -> None:
    """The matrix has it start from scratch, and so it does where nothing is the source's; the dry
    run names what goes.
    """
    documented("A source without DescribeMirrors", "there is no failback to it")
    with EmbeddedCluster() as old, EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as b:
        create_topic(old.bootstrap_servers, "t")
        produce(old.bootstrap_servers, "t", numbered("t", 20))
        assert tool(b, "--create", "--mirror", "m", "--mirror-config", properties(tmp_path, old))[0] == 0
        assert tool(b, "--add", "--mirror", "m", "--topic", "t", "--wait")[0] == 0
        wait_caught_up(b.bootstrap_servers, old.bootstrap_servers, "m")
        assert tool(b, "--remove", "--mirror", "m", "--topic", "t", "--wait")[0] == 0
        produce(b.bootstrap_servers, "t", numbered("own", 5))
        code, _, err = tool(b, "--reverse", "--mirror", "m")
        assert code == 1 and "the source has no cluster mirroring" in err
        (row,) = json.loads(tool(b, "--add", "--mirror", "m", "--topic", "t", "--dry-run", "--json")[1])
        assert (row["cutOffset"], row["logEndOffset"], row["droppedRecords"]) == (20, 26, 5)
        assert row["reason"] == "it was mirrored from there before: the records written here since then are dropped"
        assert tool(b, "--add", "--mirror", "m", "--topic", "t", "--wait")[0] == 0
        wait_caught_up(b.bootstrap_servers, old.bootstrap_servers, "m")
        assert log_bytes(b.log_dir(), "t-0") == log_bytes(old.log_dir(), "t-0")


def test_upg7_migration_from_mirrormaker_2_is_documented_and_converted() -> None:
    text = re.sub(r"\s+", " ", (ROOT / "README.md").read_text())
    assert "Mirroring does not build on MirrorMaker 2. Stop it, delete its topics and internal topics at the target, begin afresh" in text
    settings = {"clusters": "a,b", "a.bootstrap.servers": "h:1", "b.bootstrap.servers": "h:2", "a->b.enabled": "true"}
    (flow,) = convert(settings)
    assert flow.mirror_configs["bootstrap.servers"] == "h:1"
    assert any("stop MirrorMaker 2" in note and "deleted first" in note for note in flow.notes)
