"""`connect-standalone` as a process: connectors of files and of the REST interface (RE1, RE2, RU3)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.mirrormaker.connect_workers import OUR_STANDALONE, ConnectProcess, ask, our_standalone, worker_properties
from support.mirrormaker.logs_compared import make_topics, produce
from support.mirrormaker.mirror_makers import commit, count_of, topics_of
from support.peers.peers import free_port
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.cli import connect_standalone
from kmirror.mirrormaker.herder.java_hash_map import read_hash_map
from kmirror.server.node_http import HTTP_LISTENER_CONFIG

BROKER = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
SOURCE = {
    "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
    "tasks.max": "2",
    "topics": "t",
    "replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "refresh.topics.interval.seconds": "1",
    "sync.topic.acls.enabled": "false",
    "consumer.poll.timeout.ms": "200",
}
CHECKPOINT = {
    "connector.class": "MirrorCheckpointConnector",
    "checkpoints.topic.replication.factor": "1",
    "emit.checkpoints.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "groups": "g",
}
HEARTBEAT = {"connector.class": "MirrorHeartbeatConnector", "heartbeats.topic.replication.factor": "1"}


def reaching(a: str, b: str) -> dict[str, str]:
    return {
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": a,
        "target.cluster.bootstrap.servers": b,
    }


def state(worker: ConnectProcess, connector: str) -> list[str]:
    """Of the connector, then of its tasks."""
    found = worker.ask("GET", f"/connectors/{connector}/status")
    return [one["state"] for one in (found.json()["connector"], *found.json()["tasks"])] if found.status == 200 else []


def stored(folder: Path) -> dict[str, Any]:
    """Offsets in the file, by topic and partition."""
    path = folder / "connect.offsets"
    entries = read_hash_map(path.read_bytes()) if path.exists() else {}
    found = {}
    for key, value in entries.items():
        _, partition = json.loads(key)
        found[f"{partition['topic']}-{partition['partition']}"] = json.loads(value or b"null")["offset"]
    return found


def test_ru3_records_are_copied_and_a_new_process_goes_on(tmp_path: Path) -> None:
    with EmbeddedCluster(config=BROKER) as source, EmbeddedCluster(config=BROKER) as target:
        a, b = source.bootstrap_servers, target.bootstrap_servers
        make_topics(a, {"t": 2})
        props = worker_properties(tmp_path, b)
        for number in range(2):
            produce(a, "t", 100, partitions=2, first=100 * number)
            with our_standalone(tmp_path / str(number), props, [{"name": "src", **SOURCE, **reaching(a, b)}]) as worker:
                worker.until("all is copied", lambda number=number: count_of(b, "A.t", 2) >= 100 * (number + 1))
                assert worker.stop() == 0, worker.log
            assert stored(tmp_path) == {"t-0": 50 * (number + 1) - 1, "t-1": 50 * (number + 1) - 1}
        assert count_of(b, "A.t", 2) == 200


@pytest.mark.item("RE1", "RE2")
def test_re2_a_connector_is_made_paused_stopped_and_removed_over_http(tmp_path: Path) -> None:
    with EmbeddedCluster(config=BROKER) as source, EmbeddedCluster(config=BROKER) as target:
        a, b = source.bootstrap_servers, target.bootstrap_servers
        make_topics(a, {"t": 2})
        produce(a, "t", 100, partitions=2)
        with our_standalone(tmp_path, worker_properties(tmp_path, b)) as worker:
            worker.until("it answers", worker.is_up)
            config = SOURCE | reaching(a, b)
            made = worker.ask("PUT", "/connectors/src/config", config)
            assert (made.status, made.json()["tasks"]) == (201, [{"connector": "src", "task": 0}, {"connector": "src", "task": 1}])
            worker.until("all is copied", lambda: count_of(b, "A.t", 2) == 100)
            assert worker.ask("GET", "/connectors/src/topics").json() == {"src": {"topics": ["A.t"]}}

            assert worker.ask("PUT", "/connectors/src/pause").status == 202
            worker.until("it is paused", lambda: state(worker, "src") == ["PAUSED"] * 3)
            produce(a, "t", 100, partitions=2, first=100)
            assert worker.ask("POST", "/connectors/src/restart?includeTasks=true").status == 202
            worker.until("it is paused again", lambda: state(worker, "src") == ["PAUSED"] * 3)
            assert count_of(b, "A.t", 2) == 100
            assert worker.ask("PUT", "/connectors/src/resume").status == 202
            worker.until("the rest is copied", lambda: count_of(b, "A.t", 2) == 200)

            assert worker.ask("PUT", "/connectors/src/stop").status == 204
            worker.until("it is stopped", lambda: state(worker, "src") == ["STOPPED"])
            worker.until("both offsets are stored", lambda: stored(tmp_path) == {"t-0": 99, "t-1": 99})
            changed = {"offsets": [{"partition": {"cluster": "A", "topic": "t", "partition": 0}, "offset": {"offset": 89}}]}
            assert worker.ask("PATCH", "/connectors/src/offsets", changed).status == 200
            assert worker.ask("PUT", "/connectors/src/resume").status == 202
            worker.until("ten come again", lambda: count_of(b, "A.t", 2) == 210)

            fewer = worker.ask("PATCH", "/connectors/src/config", {"tasks.max": 1, "replication.factor": None})
            assert fewer.status == 200 and "replication.factor" not in fewer.json()["config"]
            worker.until("one task has both partitions", lambda: len(worker.ask("GET", "/connectors/src/tasks").json()) == 1)
            (task,) = worker.ask("GET", "/connectors/src/tasks").json()
            assert task["config"]["task.assigned.partitions"] == "t-0,t-1"
            assert worker.ask("DELETE", "/connectors/src").status == 204
            assert worker.ask("GET", "/connectors").json() == []
            produce(a, "t", 10, partitions=2, first=200)
            assert worker.stop() == 0
        assert count_of(b, "A.t", 2) == 210


def test_re2_topics_that_a_connector_has_written_to(tmp_path: Path) -> None:
    with EmbeddedCluster(config=BROKER) as source, EmbeddedCluster(config=BROKER) as target:
        a, b = source.bootstrap_servers, target.bootstrap_servers
        make_topics(a, {"t": 2})
        produce(a, "t", 100, partitions=2)
        commit(a, "g", {("t", 0): 10})
        checkpoints = CHECKPOINT | reaching(a, b)
        connectors = [{"name": "src", **SOURCE, **reaching(a, b)}, {"name": "cp", **checkpoints}]
        with our_standalone(tmp_path, worker_properties(tmp_path, b), connectors) as worker:
            worker.until("there are checkpoints", lambda: count_of(b, "A.checkpoints.internal", 1) > 0)
            assert worker.ask("GET", "/connectors/cp/topics").json() == {"cp": {"topics": ["A.checkpoints.internal"]}}
            assert worker.ask("PUT", "/connectors/cp/stop").status == 204
            assert worker.ask("PUT", "/connectors/cp/topics/reset").status == 202
            assert worker.ask("GET", "/connectors/cp/topics").json() == {"cp": {"topics": []}}


def test_ru3_json_files_and_connectors_that_begin_stopped(tmp_path: Path) -> None:
    with EmbeddedCluster(config=BROKER) as cluster:
        servers = cluster.bootstrap_servers
        wanted = {"name": "hb", "config": HEARTBEAT | reaching(servers, servers), "initial_state": "STOPPED"}
        (tmp_path / "hb.json").write_text(json.dumps(wanted))
        with our_standalone(tmp_path, worker_properties(tmp_path, servers), files=[tmp_path / "hb.json"]) as worker:
            worker.until("it answers", worker.is_up)
            assert state(worker, "hb") == ["STOPPED"]
            assert "heartbeats" not in topics_of(servers)
            assert worker.ask("PUT", "/connectors/hb/resume").status == 202
            worker.until("it has heartbeats", lambda: count_of(servers, "heartbeats", 1) > 1)
            worker.process.send_signal(signal.SIGINT)
            assert worker.process.wait(REACHED_S) == 0


def test_a_cluster_that_cannot_be_reached_holds_up_no_request(tmp_path: Path) -> None:
    """The connector says why it does not run, and is tried again."""
    with EmbeddedCluster(config=BROKER) as cluster:
        servers = cluster.bootstrap_servers
        config = HEARTBEAT | reaching(servers, "127.0.0.1:1") | {"target.admin.default.api.timeout.ms": "500"}
        with our_standalone(tmp_path, worker_properties(tmp_path, servers)) as worker:
            worker.until("it answers", worker.is_up)
            assert worker.ask("PUT", "/connectors/hb/config", config).status == 201
            worker.until("it has failed", lambda: state(worker, "hb") == ["FAILED"])
            assert worker.ask("GET", "/connectors/hb/status").json()["connector"]["trace"]
            assert worker.ask("PUT", "/connectors/hb/config", HEARTBEAT | reaching(servers, servers)).status == 200
            worker.until("it runs", lambda: state(worker, "hb") == ["RUNNING", "RUNNING"])


def test_a_standalone_worker_whose_target_goes_away_is_not_ready(tmp_path: Path) -> None:
    """Its source has nothing new, so no record fails."""
    port = free_port()
    with EmbeddedCluster(config=BROKER) as a, EmbeddedCluster(config=BROKER) as b:
        make_topics(a.bootstrap_servers, {"t": 1})
        props = worker_properties(tmp_path, b.bootstrap_servers) | {HTTP_LISTENER_CONFIG: f"127.0.0.1:{port}"}
        connector = {**SOURCE, **reaching(a.bootstrap_servers, b.bootstrap_servers), "name": "s"}
        with our_standalone(tmp_path, props, [connector]) as worker:

            def page() -> dict[str, Any]:
                return dict(ask(f"127.0.0.1:{port}", "GET", "/health/ready").json())

            worker.until("all is copied", lambda: topics_of(b.bootstrap_servers).get("A.t"))
            worker.until("ready", lambda: page()["ready"])
            assert {line.split(":")[0] for line in page()["looked_at"]} >= {"s", "s-0"}
            b.stop_node()
            worker.until("not ready", lambda: any("target cluster" in reason for reason in page()["reasons"]))
            b.start_node()
            worker.until("ready again", lambda: page()["ready"])


def test_ru3_a_connector_that_is_wrong_ends_the_program(tmp_path: Path) -> None:
    with EmbeddedCluster(config=BROKER) as cluster:
        servers = cluster.bootstrap_servers
        wrong = {"name": "hb", **HEARTBEAT, "transforms": "x", **reaching(servers, servers)}
        with our_standalone(tmp_path, worker_properties(tmp_path, servers), [wrong]) as worker:
            assert worker.process.wait(REACHED_S) == 3
            assert "Failed to create connector for" in worker.log and "transforms.x.type" in worker.log


@pytest.mark.parametrize(
    ("left_out", "message"),
    [
        ("bootstrap.servers", 'Missing required configuration "bootstrap.servers" which has no default value.'),
        ("key.converter", 'Missing required configuration "key.converter" which has no default value.'),
        ("offset.storage.file.filename", 'Missing required configuration "offset.storage.file.filename" which has no default value.'),
    ],
)
def test_ru3_a_worker_file_that_is_wrong_is_one_clear_line(
    tmp_path: Path, left_out: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    props = worker_properties(tmp_path, "127.0.0.1:1")
    del props[left_out]
    path = tmp_path / "worker.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in props.items()))
    assert connect_standalone.main([str(path)]) == 2
    assert capsys.readouterr().err == f"connect-standalone: {message}\n"


def test_the_command_says_how_it_is_used() -> None:
    done = subprocess.run([sys.executable, "-m", OUR_STANDALONE, "--help"], capture_output=True, text=True, check=True)
    assert "worker.properties [connector.properties ...]" in done.stdout
