"""MirrorMaker 2 on one node, between two clusters: flows both ways, topics that come and change,
groups that move, a restart, and the program with its signals and its errors.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from support.mirrormaker.embedded_flows import SETTINGS, Clusters, clusters, config_of, set_topic_config, until, until_it_says
from support.mirrormaker.logs_compared import is_dense, make_topics, produce, read, until_copied
from support.mirrormaker.mirror_makers import commit, committed, count_of, topics_of
from support.waiting import REACHED_S

from kmirror.mirrormaker.formats import Checkpoint, Heartbeat

CONNECTORS = {"A->B|MirrorSourceConnector", "B->A|MirrorCheckpointConnector", "A->B|MirrorHeartbeatConnector"}


def position(servers: str, group: str, topic: str) -> int:
    """The group's offset in partition 0, -1 if it has none."""
    return committed(servers, group, [(topic, 0)]).get((topic, 0), -1)


async def test_flows_both_ways_copy_each_record_once_and_never_back() -> None:
    with clusters() as both:
        make_topics(both.a, {"orders": 3})
        make_topics(both.b, {"orders": 2})
        produce(both.a, "orders", 90, partitions=3, codec="lz4")
        produce(both.b, "orders", 60, partitions=2, codec="zstd")
        async with both.mirrored() as maker:
            assert is_dense(await until_copied(both.a, "orders", both.b, "A.orders", 3))
            assert is_dense(await until_copied(both.b, "orders", both.a, "B.orders", 2))
            await until(
                "heartbeats of both flows went on",
                lambda: count_of(both.a, "B.heartbeats", 1) and count_of(both.b, "A.heartbeats", 1),
            )
            await until_it_says("all run", lambda: {status.name for status in maker.statuses()} >= CONNECTORS and not maker.reasons())
        for servers in (both.a, both.b):
            names = topics_of(servers).keys()
            assert not [name for name in names if name.startswith(("A.B.", "B.A.")) or name in ("A.A.orders", "B.B.orders")], "an echo"
        beats = [Heartbeat.deserialize_record(row.key, row.value) for _, row in read(both.b, "heartbeats")[0]]
        assert beats and all((beat.source_cluster_alias, beat.target_cluster_alias) == ("A", "B") for beat in beats)
        copied = read(both.a, "B.heartbeats")[0]
        assert copied and {row.value for _, row in copied} <= {row.value for _, row in read(both.b, "heartbeats")[0]}


async def test_topics_partitions_and_configs_follow_the_source() -> None:
    with clusters({"B->A.enabled": "false"}) as both:
        make_topics(both.a, {"first": 1}, {"retention.ms": "86400000"})
        async with both.mirrored():
            await until("the first topic", lambda: topics_of(both.b).get("A.first") == 1)
            assert config_of(both.b, "A.first", "retention.ms") == "86400000"
            make_topics(both.a, {"later": 2})
            produce(both.a, "later", 40, partitions=2)
            await until("a topic that came later", lambda: topics_of(both.b).get("A.later") == 2)
            await until_copied(both.a, "later", both.b, "A.later", 2)
            admin = AdminClient({"bootstrap.servers": both.a, "log_level": 0})
            admin.create_partitions([NewPartitions("later", 5)])["later"].result(REACHED_S)
            await until("more partitions", lambda: topics_of(both.b).get("A.later") == 5)
            produce(both.a, "later", 50, partitions=5, first=40)
            assert is_dense(await until_copied(both.a, "later", both.b, "A.later", 5))
            await asyncio.to_thread(set_topic_config, both.a, "first", "retention.ms", "123456")
            await until("the changed config", lambda: config_of(both.b, "A.first", "retention.ms") == "123456")


async def test_a_group_that_moves_skips_no_record() -> None:
    with clusters({"B->A.enabled": "false"}) as both:
        make_topics(both.a, {"orders": 1})
        produce(both.a, "orders", 300)
        async with both.mirrored():
            await until_copied(both.a, "orders", both.b, "A.orders")
            for offset in (40, 250, 300):
                commit(both.a, "shop", {("orders", 0): offset})
                behind = 300 if offset == 300 else 0
                found = await until(
                    f"{offset} is translated", lambda: (at := position(both.b, "shop", "A.orders")) > behind - 12 and at >= 0 and at
                )
                assert 0 < found <= offset, "the group would skip records"
            await until("the end of the log", lambda: position(both.b, "shop", "A.orders") == 300)
        checkpoints = [Checkpoint.deserialize_record(row.key, row.value) for _, row in read(both.b, "A.checkpoints.internal")[0]]
        ours = [one for one in checkpoints if one.consumer_group_id == "shop"]
        assert ours and all(one.downstream_offset <= one.upstream_offset for one in ours)
        assert [one.downstream_offset for one in ours] == sorted({one.downstream_offset for one in ours})


async def test_a_restart_in_the_middle_loses_nothing() -> None:
    """Nor does anything come twice, as long as the end of a task has the time that it needs."""
    with clusters({"B->A.enabled": "false", "B.offset.flush.timeout.ms": str(int(REACHED_S * 1000))}) as both:
        make_topics(both.a, {"t": 2})
        count = 0
        for _ in range(3):
            async with both.mirrored():
                produce(both.a, "t", 400, partitions=2, first=count, codec="snappy")
                count += 400
                await until("something arrived", lambda: "A.t" in topics_of(both.b) and any(read(both.b, "A.t", 2).values()))
        async with both.mirrored():
            copied = await until_copied(both.a, "t", both.b, "A.t", 2)
            assert is_dense(copied)


async def test_mc2_a_sink_keeps_its_state_at_the_source() -> None:
    settings = {"B->A.enabled": "false", "B->A.emit.heartbeats.enabled": "false", "A->B.connector.class": "MirrorSinkConnector"}
    with clusters(settings) as both:
        make_topics(both.a, {"t": 2})
        produce(both.a, "t", 100, partitions=2, codec="zstd")
        commit(both.a, "shop", {("t", 0): 50})
        async with both.mirrored() as maker:
            await until_copied(both.a, "t", both.b, "A.t", 2)
            await until("the group is translated", lambda: position(both.b, "shop", "A.t") > 0)
            await until_it_says(
                "all run",
                lambda: "A->B|MirrorSinkConnector" in {status.name for status in maker.statuses()} and not maker.reasons(),
            )
        produce(both.a, "t", 60, partitions=2, first=100)
        async with both.mirrored():
            assert is_dense(await until_copied(both.a, "t", both.b, "A.t", 2)), "it goes on where it ended"
        state = {f"mm2-sink-{kind}.B.internal" for kind in ("offsets", "configs", "status")}
        assert state <= topics_of(both.a).keys()
        assert {name for name in topics_of(both.b) if not name.startswith("__")} == {"A.t", "A.checkpoints.internal", "heartbeats"}
        keys = {row.key for rows in read(both.a, "mm2-sink-offsets.B.internal", 3).values() for _, row in rows}
        assert any(key and key.startswith(b'["MirrorSinkConnector"') for key in keys)


# The program

MEASURED = "kafka.connect.mirror:type=MirrorSourceConnector,source=A,target=B,topic=A.t,partition=0"


@contextmanager
def program(folder: Path, settings: dict[str, str], *options: str) -> Iterator[tuple[subprocess.Popen[bytes], Callable[[], str]]]:
    path = folder / "mm2.properties"
    path.write_text("".join(f"{name} = {value}\n" for name, value in settings.items()))
    log = folder / "mm2.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "kmirror.cli.connect_mirror_maker", str(path), *options],
            stdout=out,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
    try:
        yield process, log.read_text
    finally:
        process.kill()
        process.wait()


async def test_the_program_ends_in_good_order_and_hides_secrets(tmp_path: Path) -> None:
    with clusters({"B->A.enabled": "false"}) as both:
        make_topics(both.a, {"t": 1})
        produce(both.a, "t", 100)
        settings = {
            **both.settings,
            "kmirror.http.listener": "127.0.0.1:0",
            "A.sasl.jaas.config": "secret-of-a",
            "B.ssl.key.password": "secret-of-b",
        }
        with program(tmp_path, settings, "--clusters", "B") as (process, log):
            await until_copied_once(both, process, log)
            port = re.search(r"served on port (\d+)", log())
            assert port, log()
            await until("all are acknowledged", lambda: fetch(int(port[1]), "/metrics.json")[MEASURED]["record-count"] == 100)
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, REACHED_S) == 0, log()
            assert "Kafka MirrorMaker stopped." in log()
            assert "secret-of" not in log()
            assert "Traceback" not in log()
        stored = [
            row for rows in read(both.b, "mm2-offsets.A.internal", 3).values() for _, row in rows if row.key and b'"topic":"t"' in row.key
        ]
        assert json.loads(stored[-1].value or b"") == {"offset": 99}


async def until_copied_once(both: Clusters, process: subprocess.Popen[bytes], log: Callable[[], str]) -> None:
    def copied() -> bool:
        assert process.poll() is None, log()
        return "A.t" in topics_of(both.b) and len(read(both.b, "A.t")[0]) == 100

    await until("the program copied", copied)


def fetch(port: int, path: str) -> Any:
    import urllib.request

    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=REACHED_S) as answer:
        return json.loads(answer.read())


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "clusters"),
        ({"clusters": "A, B", "emit.heartbeats.enabled": "false"}, "No source->target replication flows."),
        ({"clusters": "A, B", "A->B.enabled": "true"}, 'Missing required configuration "A.bootstrap.servers"'),
        ({**SETTINGS, "A.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1", "A->B.exactly.once.support": "required"}, "exactly-once"),
        (
            {**SETTINGS, "A.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1", "A->B.transaction.boundary": "connector"},
            "does not define its own transactions",
        ),
        (
            {**SETTINGS, "A.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1", "tasks.max": "many"},
            "Invalid value many for configuration tasks.max",
        ),
        (
            {**SETTINGS, "A.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1", "B.exactly.once.source.support": "perhaps"},
            "exactly.once.source",
        ),
        ({**SETTINGS, "A.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1", "A->B.transforms": "r"}, r"transforms\.r\.type"),
        ({**SETTINGS, "A.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1", "topics": "(orders"}, r"topics: .*Unclosed group"),
        ({**SETTINGS, "A.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1", "groups.exclude": "*"}, r"groups\.exclude"),
        (
            {**SETTINGS, "A.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1", "refresh.topics.interval.seconds": "0"},
            "must be at least 1",
        ),
        (
            {**SETTINGS, "A.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1", "replication.policy.class": "com.example.Mine"},
            "com.example.Mine",
        ),
    ],
)
def test_wrong_files_are_one_line(tmp_path: Path, settings: dict[str, str], expected: str) -> None:
    with program(tmp_path, settings) as (process, log):
        assert process.wait(REACHED_S) == 2, log()
        (line,) = log().splitlines()
        assert line.startswith("connect-mirror-maker: ")
        assert re.search(expected, line), line
