"""`kmirror replay` into a running cluster: what consumers see, a paced run, a killed process,
errors in one line.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.admin.acls import AclBinding
from kmirror.admin.admin_client import AdminClient as OurAdminClient
from kmirror.admin.features import UpgradeType
from kmirror.admin.results import NewTopic as OurNewTopic
from kmirror.cli.kmirror import main
from kmirror.cli.tool_client import with_admin
from kmirror.common.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from kmirror.embedded_security import Security

CONFIG = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1", "message.max.bytes": "2000000"}
EPOCH_MS = 1_600_000_000_000
QUIET = {"log_level": 0}


def record(folder: Path) -> Path:
    """A stopped broker's log.dir: two plain partitions over four seconds of time, and one with
    committed, aborted and open transactions.
    """
    with EmbeddedCluster(config=CONFIG, folder=folder) as cluster:
        servers = {"bootstrap.servers": cluster.bootstrap_servers, **QUIET}
        admin = AdminClient(servers)
        for future in admin.create_topics([NewTopic("plain", 2, 1), NewTopic("money", 1, 1)]).values():
            future.result(REACHED_S)
        producer = ck.Producer({**servers, "compression.type": "lz4", "batch.num.messages": 10})
        for number in range(400):
            headers = [("h", b"%d" % number), ("none", None)]
            key = None if number % 7 == 0 else b"k%d" % number
            producer.produce("plain", key=key, value=b"v" * 50, headers=headers, partition=number % 2, timestamp=EPOCH_MS + 10 * number)
        assert producer.flush(REACHED_S) == 0
        transactional = [ck.Producer({**servers, "transactional.id": f"t{number}"}) for number in range(2)]
        for one in transactional:
            one.init_transactions(REACHED_S)
        for turn in range(6):
            for number, one in enumerate(transactional):
                one.begin_transaction()
                one.produce("money", b"%d-%d" % (turn, number), timestamp=EPOCH_MS + turn)
                one.flush(REACHED_S)
            for number, one in enumerate(transactional):
                one.abort_transaction(REACHED_S) if (turn + number) % 3 == 0 else one.commit_transaction(REACHED_S)
        transactional[0].begin_transaction()
        transactional[0].produce("money", b"open")
        transactional[0].flush(REACHED_S)
        del transactional, one, producer
    return folder / "node-1" / "data"


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("recorded"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(config=CONFIG) as running:
        yield running


@pytest.fixture(scope="module")
def source(recording: Path) -> Iterator[EmbeddedCluster]:
    """The cluster that was recorded, on its own folder, to be compared with."""
    copy = recording.parent.parent.with_name("again")
    shutil.copytree(recording.parent.parent, copy)
    with EmbeddedCluster(config=CONFIG, folder=copy) as running:
        yield running


def read(cluster: EmbeddedCluster, topic: str, partitions: int, isolation: str) -> list[tuple[Any, ...]]:
    """By partition, in order: timestamp, key, value, headers."""
    settings = {"group.id": "reader", "isolation.level": isolation, "enable.partition.eof": True, "auto.offset.reset": "earliest"}
    consumer = ck.Consumer({"bootstrap.servers": cluster.bootstrap_servers, **settings, **QUIET})
    consumer.assign([ck.TopicPartition(topic, number, 0) for number in range(partitions)])
    rows, ended, deadline = [], 0, time.monotonic() + REACHED_S
    while ended < partitions:
        assert time.monotonic() < deadline, f"{topic} has no end"
        message = consumer.poll(1)
        if message is not None and message.error() is not None:
            ended += 1
        elif message is not None:
            rows.append((message.partition(), message.timestamp(), message.key(), message.value(), message.headers()))
    consumer.close()
    return sorted(rows, key=lambda row: row[0])


def same(source: EmbeddedCluster, cluster: EmbeddedCluster, prefix: str) -> None:
    for topic, partitions in (("plain", 2), ("money", 1)):
        for isolation in ("read_uncommitted", "read_committed"):
            rows = read(cluster, prefix + topic, partitions, isolation)
            if isolation == "read_uncommitted" or topic == "plain":
                assert rows == read(source, topic, partitions, isolation)
            else:
                assert len(rows) == 8 and rows == [row for row in read(source, topic, partitions, isolation) if row[3] != b"open"]


def replay(recording: Path, cluster: EmbeddedCluster, prefix: str, *options: str) -> int:
    names = ["--topics", "plain|money", "--rename", f"(.*)={prefix}\\1", "--create-topics"]
    return main(["replay", str(recording), "--to", cluster.bootstrap_servers, *names, *options])


@pytest.mark.parametrize("level", [2, 1], ids=["transactions v2", "transactions v1"])
def test_consumers_see_what_was_recorded(
    recording: Path, source: EmbeddedCluster, cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str], level: int
) -> None:
    kind = UpgradeType.UPGRADE if level == 2 else UpgradeType.SAFE_DOWNGRADE
    with_admin(cluster.bootstrap_servers, None, lambda admin: admin.update_features({"transaction.version": (level, kind)}))
    assert replay(recording, cluster, f"level{level}-", "--speed", "max") == 0
    out, err = capsys.readouterr()
    assert f"created topic level{level}-plain with 2 partitions, message.timestamp.type=CreateTime, retention.ms=-1" in err
    assert "replayed 413 records" in out and "recorded one wrote to: 8 committed, 5 aborted, 1 of them open where the recording ends" in out
    same(source, cluster, f"level{level}-")


def test_a_killed_replay_goes_on_with_nothing_twice_and_nothing_missing(
    recording: Path, source: EmbeddedCluster, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    arguments = ["replay", str(recording), "--to", cluster.bootstrap_servers, "--state", str(tmp_path), "--create-topics"]
    arguments += ["--topics", "plain", "--rename", "(.*)=killed-\\1", "--speed", "2"]
    process = subprocess.Popen([sys.executable, "-m", "kmirror.cli.kmirror", *arguments], stderr=subprocess.PIPE)
    deadline = time.monotonic() + REACHED_S
    while len(rows := read(cluster, "killed-plain", 2, "read_uncommitted") if "killed-plain" in topics(cluster) else []) < 50:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert len(rows) < 400, "it was killed too late"
    assert main([*arguments, "--speed", "max"]) == 0
    assert read(cluster, "killed-plain", 2, "read_uncommitted") == read(source, "plain", 2, "read_uncommitted")


def topics(cluster: EmbeddedCluster) -> set[str]:
    return set(AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **QUIET}).list_topics(timeout=REACHED_S).topics)


def test_ctrl_c_says_where_it_stands_and_the_next_run_goes_on(
    recording: Path, source: EmbeddedCluster, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    arguments = ["replay", str(recording), "--to", cluster.bootstrap_servers, "--state", str(tmp_path), "--create-topics"]
    arguments += ["--topics", "plain|money", "--rename", "(.*)=stopped-\\1"]
    slowly = [sys.executable, "-m", "kmirror.cli.kmirror", *arguments, "--speed", "0.3"]
    process = subprocess.Popen(slowly, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + REACHED_S
    while not list(tmp_path.glob("plain-*.json")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=REACHED_S)
    assert process.returncode == 130
    assert "stands at offset" in out and f"interrupted: run it again with --state {tmp_path}" in out
    assert main([*arguments, "--speed", "max"]) == 0
    same(source, cluster, "stopped-")


def test_no_record_of_a_paced_replay_arrives_before_it_is_due(
    recording: Path, cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """The broker's own timestamps judge it.

    They come from the clock that paces, and a busy machine only makes them later.
    """
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **QUIET})
    arrival = NewTopic("paced-plain", 2, 1, config={"message.timestamp.type": "LogAppendTime"})
    for future in admin.create_topics([arrival]).values():
        future.result(REACHED_S)
    began_ms, speed, slack_ms = time.time() * 1000, 8, 50
    assert replay(recording, cluster, "paced-", "--topics", "plain", "--speed", str(speed), "--json") == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert events[-1]["event"] == "result" and events[-1]["records"] == 400 and events[-1]["is_complete"]
    rows = read(cluster, "paced-plain", 2, "read_uncommitted")
    arrived = {int(dict(headers)["h"]): arrived_ms for _, (_, arrived_ms), _, _, headers in rows}
    assert sorted(arrived) == list(range(400))
    early = {number: ms for number, ms in arrived.items() if ms < began_ms + 10 * number / speed - slack_ms}
    assert not early


def failed(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> str:
    """The one line of an error."""
    assert main(["replay", *arguments]) == 1
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("created topic")]
    assert len(lines) == 1, lines
    return lines[0]


def test_errors_are_one_line(recording: Path, cluster: EmbeddedCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs, servers = str(recording), cluster.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers, **QUIET})
    small = NewTopic("small-plain", 2, 1, config={"max.message.bytes": "100"})
    for future in admin.create_topics([NewTopic("fewer-plain", 1, 1), small]).values():
        future.result(REACHED_S)
    plain = ["--topics", "plain", "--speed", "max"]
    assert "no broker could be reached" in failed(capsys, [logs, "--to", "127.0.0.1:9", *plain])
    assert "the destination has no topic nobody; --create-topics creates it" in failed(
        capsys, [logs, "--to", servers, *plain, "--rename", "plain=nobody"]
    )
    assert "topic fewer-plain has 1 partition at the destination, and the recording has 2" in failed(
        capsys, [logs, "--to", servers, *plain, "--rename", "plain=fewer-plain"]
    )
    assert "but max.message.bytes of topic small-plain allows fewer; raise it at the destination" in failed(
        capsys, [logs, "--to", servers, *plain, "--rename", "plain=small-plain"]
    )
    assert "nothing to replay" in failed(capsys, [logs, "--to", servers, "--topics", "nothing"])
    assert "nothing to replay" in failed(capsys, [logs, "--to", servers, "--topics", "__transaction_state"])
    assert "choose where the records go" in failed(capsys, [logs])
    assert "is a live cluster" in failed(capsys, [f"bootstrap:{servers}", "--to", servers])
    assert "--speed takes a number above 0" in failed(capsys, [logs, "--to", servers, "--speed", "0"])
    assert "--state cannot be used with --serve" in failed(capsys, [logs, "--serve", "127.0.0.1:0", "--state", str(tmp_path)])


def test_who_may_only_write_can_replay_and_who_may_not_is_told(recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    authorizer = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:broker;User:root",
    }
    users = {"root": "root-secret", "alice": "alice-secret", "bob": "bob-secret"}
    with EmbeddedCluster(security=Security.sasl_plaintext(users), config={**CONFIG, **authorizer}) as secured:
        files = {}
        for user in users:
            settings = secured.client_properties(user, style="java")
            files[user] = tmp_path / f"{user}.properties"
            files[user].write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        bindings = [
            AclBinding(kind, name, PatternType.LITERAL, "User:alice", "*", AclOperation.WRITE, AclPermissionType.ALLOW)
            for kind, name in ((ResourceType.TOPIC, "plain"), (ResourceType.TOPIC, "money"), (ResourceType.TRANSACTIONAL_ID, "*"))
        ]

        async def prepare(admin: OurAdminClient) -> None:
            await admin.create_acls(bindings)
            (await admin.create_topics([OurNewTopic("plain", 2, 1), OurNewTopic("money", 1, 1)])).all()

        with_admin(secured.bootstrap_servers, str(files["root"]), prepare)
        arguments = ["--to", secured.bootstrap_servers, "--topics", "plain|money", "--speed", "max", "--command-config"]
        assert main(["replay", str(recording), *arguments, str(files["alice"])]) == 0
        assert "replayed 413 records" in capsys.readouterr().out
        assert "topic money: Topic authorization failed." in failed(capsys, [str(recording), *arguments, str(files["bob"])])
        files["bob"].write_text(files["bob"].read_text().replace("bob-secret", "wrong"))
        assert "uthentication failed" in failed(capsys, [str(recording), *arguments, str(files["bob"])])
