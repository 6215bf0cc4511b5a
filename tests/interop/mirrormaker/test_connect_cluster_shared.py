"""A Connect cluster of Apache's `connect-distributed` and ours (RU2): both run tasks of one connector,
each takes requests for the other, and each goes on with what the other has written of configs, states
and offsets.
"""

from __future__ import annotations

import json
import pathlib
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import ExitStack

import pytest
from support.mirrormaker.connect_clusters import (
    CONFIGS,
    ConnectWorkerProcess,
    apaches_worker,
    connector_config,
    our_worker,
    worker_properties,
)
from support.mirrormaker.logs_compared import make_topics, produce, read, rows
from support.mirrormaker.mirror_makers import count_of
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.mirrormaker.herder.cluster_config_state import ClusterConfigState
from kmirror.mirrormaker.herder.request_signatures import SIGNATURE_ALGORITHM_HEADER, SIGNATURE_HEADER
from kmirror.mirrormaker.herder.session_keys import SessionConfig, SessionKey

pytestmark = pytest.mark.interop

BROKER = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1", "group.min.session.timeout.ms": "1000"}
PARTITIONS = 4
SETTINGS = {"exactly.once.source.support": "enabled", "task.shutdown.graceful.timeout.ms": "1000"}


def copy_more(a: str, b: str, worker: ConnectWorkerProcess, what: str) -> None:
    before = sum(map(len, read(a, "t", PARTITIONS).values()))
    produce(a, "t", 80, partitions=PARTITIONS, first=before)
    worker.until(what, lambda: count_of(b, "A.t", PARTITIONS) and len(_committed(b)) >= before + 80)


def _committed(b: str) -> set[int]:
    found = rows(read(b, "A.t", PARTITIONS, isolation="read_committed"))
    return {row.timestamp for records in found.values() for row in records}


def runs(worker: ConnectWorkerProcess, state: str, tasks: int) -> None:
    worker.until(f"it is {state}", lambda: worker.states("mirror") == (state, [state] * tasks))


def worker_of_connector(worker: ConnectWorkerProcess) -> str:
    found: str = worker.told("GET", "connectors/mirror/status")["connector"]["worker_id"]
    return found


def workers_of_tasks(worker: ConnectWorkerProcess) -> set[str]:
    return {task["worker_id"] for task in worker.told("GET", "connectors/mirror/status")["tasks"]}


def session_key(b: str) -> SessionKey:
    state = ClusterConfigState()
    for _, row in read(b, CONFIGS)[0]:
        state.handle_record(row.key, row.value)
    assert state.session_key is not None
    return state.session_key


def answers_to_strangers(b: str, worker: ConnectWorkerProcess) -> list[tuple[int, str]]:
    """What a worker says to requests that are not signed, or wrongly."""
    signed = SessionConfig({}).headers(session_key(b), b"")
    algorithm, signature = SIGNATURE_ALGORITHM_HEADER, SIGNATURE_HEADER
    strange: list[dict[str, str]] = [
        {}, {algorithm: "HmacSHA256"}, {signature: signed[signature]}, {**signed, algorithm: "HmacX"}, {**signed, algorithm: "HmacSHA512"},
        {**signed, algorithm: "hmacsha256"}, {**signed, signature: "%%%"}, {**signed, signature: "YWJjZA=="}, {**signed, signature: ""},
    ]  # fmt: skip
    requests = [("PUT", "connectors/mirror/fence", None, headers) for headers in strange]
    requests += [("POST", "connectors/mirror/tasks", b"[]", headers) for headers in (*strange, signed)]
    return [refusal(worker, *request) for request in requests]


def refusal(worker: ConnectWorkerProcess, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> tuple[int, str]:
    request = urllib.request.Request(worker.url + path, body, {"Content-Type": "application/json", **headers}, method=method)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=REACHED_S)
    with refused.value as answer:
        return answer.code, json.loads(answer.read())["message"]


@pytest.mark.parametrize("protocol", ["sessioned", pytest.param("eager", marks=pytest.mark.round)])
def test_a_connector_has_tasks_at_both_and_obeys_either(tmp_path: pathlib.Path, protocol: str) -> None:
    with EmbeddedCluster(config=BROKER) as source, EmbeddedCluster(config=BROKER) as target, ExitStack() as stack:
        a, b = source.bootstrap_servers, target.bootstrap_servers
        make_topics(a, {"t": PARTITIONS})
        props = worker_properties(b, {**SETTINGS, **({} if protocol == "sessioned" else {"connect.protocol": protocol})})
        config = connector_config(
            "MirrorSourceConnector", a, b, {"topics": "t, later", "tasks.max": "4", "source.consumer.isolation.level": "read_committed"}
        )
        ours = stack.enter_context(our_worker(tmp_path / "ours", props))
        ours.until("it is a member", lambda: "Joined group" in ours.log)
        apache = stack.enter_context(apaches_worker(tmp_path / "apache", props))
        apache.until("it answers", lambda: "Herder started" in apache.log)

        # Ours leads.
        apache.told("PUT", "connectors/mirror/config", config)
        runs(apache, "RUNNING", 4)
        copy_more(a, b, apache, "both copy")
        apache.until("both have tasks", lambda: len(workers_of_tasks(ours)) == 2)
        apache.told("PUT", "connectors/mirror/pause")
        runs(ours, "PAUSED", 4)
        ours.told("PUT", "connectors/mirror/resume")
        runs(apache, "RUNNING", 4)
        apache.told("POST", "connectors/mirror/restart?includeTasks=true")
        runs(ours, "RUNNING", 4)
        copy_more(a, b, apache, "both go on")
        for what in ("", "/tasks", "/config", "/topics"):
            assert apache.told("GET", f"connectors/mirror{what}") == ours.told("GET", f"connectors/mirror{what}")
        if protocol == "sessioned":
            said = answers_to_strangers(b, apache)
            assert {status for status, _ in said} == {400, 403} and answers_to_strangers(b, ours) == said
        assert ours.stop() == 0, ours.log[-3000:]

        # Apache's leads, and gives the connector to ours: the first member by name, or, if both share two
        # connectors that Apache's has, the first one of those in Java's order.
        runs(apache, "RUNNING", 4)
        copy_more(a, b, apache, "Apache's goes on")
        if protocol == "sessioned":
            apache.told("PUT", "connectors/heart/config", connector_config("MirrorHeartbeatConnector", a, b))
            apache.until("it beats", lambda: apache.states("heart") == ("RUNNING", ["RUNNING"]))
        ours = stack.enter_context(our_worker(tmp_path / "ours-again", {**props, "client.id": "0-first"}))
        ours.until("both have tasks again", lambda: re.search(r" 1 connectors, [23] tasks \(", ours.log))
        apache.until("ours runs the connector", lambda: worker_of_connector(apache) == ours.url.partition("://")[2].rstrip("/"))
        make_topics(a, {"later": 1})
        produce(a, "later", 40)
        ours.until("ours told Apache's of a new task", lambda: count_of(b, "A.later", 1) >= 40)
        copy_more(a, b, ours, "both go on again")
        ours.told("PUT", "connectors/mirror/stop")
        runs(apache, "STOPPED", 0)
        offsets = [worker.told("GET", "connectors/mirror/offsets")["offsets"] for worker in (apache, ours)]
        assert sorted(map(str, offsets[0])) == sorted(map(str, offsets[1])) and len(offsets[0]) == PARTITIONS + 1
        altered = {"offsets": [{"partition": {"cluster": "A", "topic": "later", "partition": 0}, "offset": {"offset": 29}}]}
        ours.told("PATCH", "connectors/mirror/offsets", altered)

        # Ours is left.
        apache.process.kill()
        ours.until("ours leads", lambda: "tasks, leads" in ours.log)
        ours.told("PUT", "connectors/mirror/resume")
        copy_more(a, b, ours, "ours goes on where Apache's stopped")
        ours.until("ten records come again", lambda: count_of(b, "A.later", 1) >= 50)
        assert rows(read(b, "A.t", PARTITIONS, isolation="read_committed")) == rows(read(a, "t", PARTITIONS))
