"""Two workers of `connect-distributed` share MirrorMaker's connectors, which are made, changed, paused,
stopped, restarted and deleted over either one's REST interface (RE1, RE2, RU2).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from support.mirrormaker.connect_clusters import ConnectWorkerProcess, connector_config, our_worker, worker_properties
from support.mirrormaker.embedded_flows import BROKER
from support.mirrormaker.logs_compared import make_topics, produce, read, rows
from support.mirrormaker.mirror_makers import commit, count_of, last_checkpoints

from kmirror import EmbeddedCluster

PARTITIONS = 4
SOURCE, HEARTBEAT, CHECKPOINT = "MirrorSourceConnector", "MirrorHeartbeatConnector", "MirrorCheckpointConnector"
EXACTLY_ONCE = {"exactly.once.source.support": "enabled"}


class Cluster:
    """Clusters A and B, and Connect workers at B."""

    def __init__(self, folder: Path, a: str, b: str, stack: ExitStack, settings: Mapping[str, str]) -> None:
        self.a, self.b = a, b
        self._folder, self._stack, self._started = folder, stack, 0
        self._props = worker_properties(b, settings)
        self._settings = {"source.consumer.isolation.level": "read_committed"} if settings else {}

    def start(self, servers: str | None = None) -> ConnectWorkerProcess:
        """At B, or elsewhere."""
        self._started += 1
        props = self._props if servers is None else self._props | {"bootstrap.servers": servers}
        worker = self._stack.enter_context(our_worker(self._folder / f"worker-{self._started}", props))
        worker.until("it is a member", lambda: "Joined group" in worker.log)
        return worker

    def config(self, kind: str, **settings: str) -> dict[str, str]:
        return connector_config(
            kind, self.a, self.b, {**self._settings, **{name.replace("_", "."): text for name, text in settings.items()}}
        )

    def count(self) -> int:
        return count_of(self.b, "A.t", PARTITIONS)

    def copy_more(self, worker: ConnectWorkerProcess, what: str) -> None:
        """Writes 40 records, and waits until there are as many more at B."""
        before = sum(map(len, read(self.a, "t", PARTITIONS).values()))
        produce(self.a, "t", 40, partitions=PARTITIONS, first=before)
        worker.until(what, lambda: self._different() >= before + 40)

    def _different(self) -> int:
        if not self.count():
            return 0
        return sum(
            len({row.timestamp for row in found}) for found in rows(read(self.b, "A.t", PARTITIONS, isolation="read_committed")).values()
        )


@contextmanager
def connect(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    config = {**BROKER, "group.min.session.timeout.ms": "1000", "transaction.state.log.num.partitions": "1"}
    with EmbeddedCluster(config=config) as a, EmbeddedCluster(config=config) as b, ExitStack() as stack:
        make_topics(a.bootstrap_servers, {"t": PARTITIONS})
        yield Cluster(folder, a.bootstrap_servers, b.bootstrap_servers, stack, settings or {})


def runs(worker: ConnectWorkerProcess, connector: str, state: str, tasks: int) -> None:
    worker.until(f"{connector} is {state}", lambda: worker.states(connector) == (state, [state] * tasks))


@pytest.mark.parametrize("settings", [{}, EXACTLY_ONCE], ids=["at-least-once", "exactly-once"])
def test_a_connector_is_told_what_to_do_at_either_worker(tmp_path: Path, settings: Mapping[str, str]) -> None:
    with connect(tmp_path, settings) as made:
        leader, other = made.start(), made.start()
        config = made.config(SOURCE, topics="t", tasks_max="4")
        created = other.told("PUT", "connectors/mirror/config", config)
        assert (created["name"], created["type"], created["config"]) == ("mirror", "source", {**config, "name": "mirror"})
        runs(other, "mirror", "RUNNING", 4)
        made.copy_more(leader, "both copy")
        workers = {task["worker_id"] for task in leader.told("GET", "connectors/mirror/status")["tasks"]}
        assert workers == {worker.url.removeprefix("http://").rstrip("/") for worker in (leader, other)}
        other.until("its topic is noted", lambda: other.told("GET", "connectors/mirror/topics") == {"mirror": {"topics": ["A.t"]}})

        other.told("PUT", "connectors/mirror/pause")
        runs(leader, "mirror", "PAUSED", 4)
        copied = made.count()
        produce(made.a, "t", 40, partitions=PARTITIONS, first=40)
        assert other.ask("PATCH", "connectors/mirror/offsets", {"offsets": []})[0] == 400
        assert made.count() == copied
        leader.told("PUT", "connectors/mirror/resume")
        runs(other, "mirror", "RUNNING", 4)
        made.copy_more(other, "it goes on")

        other.told("POST", "connectors/mirror/restart?includeTasks=true")
        runs(other, "mirror", "RUNNING", 4)
        other.told("POST", "connectors/mirror/tasks/0/restart")
        leader.told("POST", "connectors/mirror/tasks/0/restart")
        made.copy_more(other, "it goes on after a restart")
        assert leader.told("DELETE", "connectors/mirror") is None
        other.until("it is gone", lambda: other.ask("GET", "connectors/mirror/status")[0] == 404)
        assert other.told("GET", "connectors") == []


@pytest.mark.parametrize("settings", [{}, EXACTLY_ONCE], ids=["at-least-once", "exactly-once"])
def test_offsets_of_a_stopped_connector_are_changed(tmp_path: Path, settings: Mapping[str, str]) -> None:
    with connect(tmp_path, settings) as made:
        leader, other = made.start(), made.start()
        other.told("PUT", "connectors/mirror/config", made.config(SOURCE, topics="t", tasks_max="2"))
        made.copy_more(other, "it copies")
        status, refused = other.ask("DELETE", "connectors/mirror/offsets")
        assert (status, refused["message"].split(". ")[0]) == (
            400,
            "Connectors must be in the STOPPED state before their offsets can be modified",
        )
        other.told("PUT", "connectors/mirror/stop")
        runs(other, "mirror", "STOPPED", 0)
        offsets = other.told("GET", "connectors/mirror/offsets")["offsets"]
        assert sorted((one["partition"]["partition"], one["offset"]["offset"]) for one in offsets) == [(number, 9) for number in range(4)]
        assert {one["partition"]["topic"] for one in offsets} == {"t"}

        source = {"cluster": "A", "partition": 0, "topic": "t"}
        wrong = [{"partition": source, "offset": {"offset": -1}}]
        assert other.ask("PATCH", "connectors/mirror/offsets", {"offsets": wrong})[0] == 500
        altered = [{"partition": source, "offset": {"offset": 4}}]
        message = other.told("PATCH", "connectors/mirror/offsets", {"offsets": altered})
        assert message == {"message": "The offsets for this connector have been altered successfully"}
        leader.told("PUT", "connectors/mirror/resume")
        leader.until("five records come again", lambda: made.count() == 45)
        leader.told("PUT", "connectors/mirror/stop")
        runs(leader, "mirror", "STOPPED", 0)
        leader.told("DELETE", "connectors/mirror/offsets")
        assert other.told("GET", "connectors/mirror/offsets") == {"offsets": []}
        other.told("PUT", "connectors/mirror/resume")
        leader.until("all records come again", lambda: made.count() == 85)


def test_a_killed_worker_is_replaced_and_configs_are_changed(tmp_path: Path) -> None:
    with connect(tmp_path, EXACTLY_ONCE) as made:
        leader, other = made.start(), made.start()
        other.told("POST", "connectors", {"name": "mirror", "config": made.config(SOURCE, topics="t", tasks_max="4")})
        other.told("POST", "connectors", {"name": "beats", "config": made.config(HEARTBEAT)})
        made.copy_more(leader, "both copy")
        leader.process.kill()
        runs(other, "mirror", "RUNNING", 4)
        runs(other, "beats", "RUNNING", 1)
        made.copy_more(other, "the other leads")
        third = made.start()
        patched = third.told("PATCH", "connectors/mirror/config", {"tasks.max": "2", "emit.checkpoints.enabled": None})
        assert patched["config"]["tasks.max"] == "2" and "emit.checkpoints.enabled" not in patched["config"]
        runs(third, "mirror", "RUNNING", 2)
        made.copy_more(third, "two tasks copy")
        assert other.stop() == 0, other.log[-3000:]
        runs(third, "mirror", "RUNNING", 2)
        made.copy_more(third, "one worker is left")
        assert third.stop() == 0, third.log[-3000:]
        assert rows(read(made.b, "A.t", PARTITIONS, isolation="read_committed")) == rows(read(made.a, "t", PARTITIONS))
        assert "Traceback" not in other.log + third.log


def test_a_worker_with_apaches_sample_converters_runs_connectors_that_name_their_own(tmp_path: Path) -> None:
    json = "org.apache.kafka.connect.json.JsonConverter"
    with connect(tmp_path, {"key.converter": json, "value.converter": json, "header.converter": json}) as made:
        worker = made.start()
        status, refused = worker.ask("PUT", "connectors/bare/config", made.config(SOURCE, topics="t"))
        assert status == 400 and "key.converter of the worker is" in refused["message"], refused
        own = {f"{part}_converter": "org.apache.kafka.connect.converters.ByteArrayConverter" for part in ("key", "value")}
        worker.told("PUT", "connectors/mirror/config", made.config(SOURCE, topics="t", **own))
        made.copy_more(worker, "it copies")
        assert worker.stop() == 0, worker.log[-3000:]


def test_what_cannot_run_is_refused(tmp_path: Path) -> None:
    with connect(tmp_path) as made:
        worker = made.start()
        status, refused = worker.ask("PUT", "connectors/x/config", {"connector.class": "FileStreamSource"})
        assert status == 400, refused
        assert refused["message"].startswith("Failed to find any class that implements Connector and which name matches FileStreamSource")
        status, refused = worker.ask("PUT", "connectors/x/config", made.config(SOURCE, tasks_max="none"))
        assert (status, refused["message"].split(":")[0]) == (
            400,
            "Connector configuration is invalid and contains the following 2 error(s)",
        ), refused
        assert worker.told("GET", "connectors") == []


def test_all_three_connectors_of_a_flow(tmp_path: Path) -> None:
    with connect(tmp_path) as made:
        worker = made.start()
        produce(made.a, "t", 40, partitions=PARTITIONS)
        commit(made.a, "g", {("t", 0): 5, ("t", 1): 10})
        for kind in (SOURCE, HEARTBEAT, CHECKPOINT):
            worker.told("PUT", f"connectors/{kind}/config", made.config(kind, topics="t", groups="g"))
            runs(worker, kind, "RUNNING", 1)
        assert sorted(worker.told("GET", "connectors")) == sorted((SOURCE, HEARTBEAT, CHECKPOINT))
        worker.until("the group is checkpointed", lambda: len(last_checkpoints(made.b, "A.checkpoints.internal")) == 2)
        worker.until("a heartbeat is there", lambda: count_of(made.b, "heartbeats", 1))
        topics = {SOURCE: "A.t", HEARTBEAT: "heartbeats", CHECKPOINT: "A.checkpoints.internal"}
        for kind, topic in topics.items():
            worker.until(f"{kind} writes to {topic}", lambda kind=kind: worker.told("GET", f"connectors/{kind}/topics")[kind]["topics"])
            assert worker.told("GET", f"connectors/{kind}/topics") == {kind: {"topics": [topic]}}
        worker.told("PUT", f"connectors/{CHECKPOINT}/topics/reset")
        assert worker.told("GET", f"connectors/{CHECKPOINT}/topics") == {CHECKPOINT: {"topics": []}}


def test_a_sink_has_its_worker_at_the_source(tmp_path: Path) -> None:
    with connect(tmp_path, EXACTLY_ONCE) as made:
        at_source = made.start(made.a)
        at_source.told("PUT", "connectors/sink/config", made.config("MirrorSinkConnector", topics="t", tasks_max="2"))
        made.copy_more(at_source, "it copies")
        runs(at_source, "sink", "RUNNING", 2)
        assert at_source.stop() == 0
        made.start(made.a)
        assert made.count() == 40
