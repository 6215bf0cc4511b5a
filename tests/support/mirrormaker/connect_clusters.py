"""`connect-distributed`, ours or Apache's, as processes with one properties file each, and their REST
interface.
"""

from __future__ import annotations

import json
import pathlib
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from support.mirrormaker.mirror_makers import BYTES, FAST, SERVICE_LOAD, MirrorMakerProcess, started, written
from support.peers.peers import TOOL_JVM, _log4j, java, kafka_classpath
from support.waiting import REACHED_S

OUR_WORKER = "kmirror.cli.connect_distributed"
APACHES_WORKER = "org.apache.kafka.connect.cli.ConnectDistributed"
PACKAGE = "org.apache.kafka.connect.mirror."
OFFSETS, CONFIGS, STATUS = "connect-offsets", "connect-configs", "connect-status"
_URL = re.compile(r"advertis\w+ URL (http://[^\s/]+/)", re.IGNORECASE)


class ConnectWorkerProcess(MirrorMakerProcess):
    """One running worker."""

    @property
    def url(self) -> str:
        found: str = self.until("it listens", lambda: _URL.findall(self.log))[0]
        return found

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Returns status and JSON, also of a refusal."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=REACHED_S) as answer:
                return answer.status, _json(answer.read())
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, _json(refusal.read())

    def told(self, method: str, path: str, body: Any = None) -> Any:
        """Asks until a rebalance is over; fails for another refusal. Apache's worker answers 404 with
        nothing else until it has its resources, which is a moment after its herder has started.
        """

        def ask() -> tuple[int, Any] | None:
            status, answer = self.ask(method, path, body)
            assert status < 300 or status == 409 or (status, answer) == (404, None), (method, path, status, answer)
            return (status, answer) if status < 300 else None

        return self.until(f"{method} {path} is done", ask)[1]

    def states(self, connector: str) -> tuple[str, list[str]]:
        """State of the connector, and of its tasks."""
        status, answer = self.ask("GET", f"connectors/{connector}/status")
        return ("", []) if status != 200 else (answer["connector"]["state"], [task["state"] for task in answer["tasks"]])


def _json(data: bytes) -> Any:
    return json.loads(data) if data and not data.lstrip().startswith(b"<") else None  # Jetty says 404 as a page


def worker_properties(servers: str, settings: Mapping[str, str] | None = None) -> dict[str, str]:
    return {
        "bootstrap.servers": servers,
        "group.id": "connect-cluster",
        "offset.storage.topic": OFFSETS,
        "config.storage.topic": CONFIGS,
        "status.storage.topic": STATUS,
        **{f"{kind}.storage.replication.factor": "1" for kind in ("offset", "config", "status")},
        "offset.storage.partitions": "3",
        "offset.flush.interval.ms": "500",
        "key.converter": BYTES,
        "value.converter": BYTES,
        "header.converter": BYTES,
        "listeners": "http://127.0.0.1:0",
        "session.timeout.ms": "3000",
        "heartbeat.interval.ms": "500",
        "scheduled.rebalance.max.delay.ms": "1000",
        "topic.creation.enable": "false",
        **(settings or {}),
    }


def connector_config(kind: str, source: str, target: str, settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """Of `MirrorSourceConnector` and so on, from A to B, which are at `source` and `target`."""
    return {
        "connector.class": PACKAGE + kind,
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": source,
        "target.cluster.bootstrap.servers": target,
        **{name: value for name, value in FAST.items() if not name.startswith(("offset.storage", "status.storage", "config.storage"))},
        **(settings or {}),
    }


@contextmanager
def our_worker(folder: pathlib.Path, props: Mapping[str, str]) -> Iterator[ConnectWorkerProcess]:
    with _running(folder, props, [sys.executable, "-m", OUR_WORKER]) as made:
        yield made


@contextmanager
def apaches_worker(folder: pathlib.Path, props: Mapping[str, str]) -> Iterator[ConnectWorkerProcess]:
    command = [java(), *TOOL_JVM, _log4j(folder, "out", "INFO"), "-cp", kafka_classpath(), APACHES_WORKER]
    with _running(folder, {**props, **SERVICE_LOAD}, command) as made:
        yield made


@contextmanager
def _running(folder: pathlib.Path, props: Mapping[str, str], command: list[str]) -> Iterator[ConnectWorkerProcess]:
    log = folder / "worker.log"
    with started([*command, written(folder / "worker.properties", props)], log) as process:
        yield ConnectWorkerProcess(process, log)
