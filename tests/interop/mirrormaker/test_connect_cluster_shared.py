"""A Connect cluster of Apache's `connect-distributed` and ours (RU2): both run tasks of one connector,
each takes requests for the other, and each goes on with what the other has written of configs, states
and offsets.
"""

from __future__ import annotations

import pathlib

import pytest
from support.mirrormaker.connect_clusters import ConnectWorkerProcess, apaches_worker, connector_config, our_worker, worker_properties
from support.mirrormaker.logs_compared import make_topics, produce, read, rows
from support.mirrormaker.mirror_makers import count_of

from kmirror import EmbeddedCluster

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]

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


def workers_of_tasks(worker: ConnectWorkerProcess) -> set[str]:
    return {task["worker_id"] for task in worker.told("GET", "connectors/mirror/status")["tasks"]}


def test_a_connector_has_tasks_at_both_and_obeys_either(tmp_path: pathlib.Path) -> None:
    with EmbeddedCluster(config=BROKER) as source, EmbeddedCluster(config=BROKER) as target:
        a, b = source.bootstrap_servers, target.bootstrap_servers
        make_topics(a, {"t": PARTITIONS})
        props = worker_properties(b, SETTINGS)
        config = connector_config(
            "MirrorSourceConnector", a, b, {"topics": "t", "tasks.max": "4", "source.consumer.isolation.level": "read_committed"}
        )
        with our_worker(tmp_path / "ours", props) as ours:
            ours.until("it is a member", lambda: "Joined group" in ours.log)
            with apaches_worker(tmp_path / "apache", props) as apache:
                apache.until("it answers", lambda: "Herder started" in apache.log)
                apache.told("PUT", "connectors/mirror/config", config)
                runs(apache, "RUNNING", 4)
                copy_more(a, b, apache, "both copy")
                apache.until("both have tasks", lambda: len(workers_of_tasks(ours)) == 2)
                apache.told("PUT", "connectors/mirror/pause")
                runs(ours, "PAUSED", 4)
                ours.told("PUT", "connectors/mirror/resume")
                runs(apache, "RUNNING", 4)
                copy_more(a, b, apache, "both go on")
                assert apache.told("GET", "connectors/mirror/tasks") == ours.told("GET", "connectors/mirror/tasks")
                assert apache.told("GET", "connectors/mirror") == ours.told("GET", "connectors/mirror")
                assert ours.stop() == 0, ours.log[-3000:]
                runs(apache, "RUNNING", 4)
                copy_more(a, b, apache, "Apache's goes on, and leads")
                apache.told("PUT", "connectors/mirror/stop")
                runs(apache, "STOPPED", 0)
                offsets = apache.told("GET", "connectors/mirror/offsets")
        with our_worker(tmp_path / "ours-again", props) as ours:
            ours.until("it is a member", lambda: "Joined group" in ours.log)
            runs(ours, "STOPPED", 0)
            found = ours.told("GET", "connectors/mirror/offsets")
            assert sorted(map(str, found["offsets"])) == sorted(map(str, offsets["offsets"]))
            ours.told("PUT", "connectors/mirror/resume")
            copy_more(a, b, ours, "ours goes on where Apache's stopped")
            assert rows(read(b, "A.t", PARTITIONS, isolation="read_committed")) == rows(read(a, "t", PARTITIONS))
