"""Apache Kafka's standalone worker of Connect and `connect-standalone`, each as a process, and requests to
their REST interfaces.
"""

from __future__ import annotations

import http.client
import json
import pathlib
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from support.mirrormaker.mirror_makers import BYTES, MirrorMakerProcess, started, written
from support.peers.peers import TOOL_JVM, _log4j, free_port, java, kafka_classpath
from support.waiting import REACHED_S

APACHE_STANDALONE = "org.apache.kafka.connect.cli.ConnectStandalone"
OUR_STANDALONE = "kmirror.cli.connect_standalone"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    """By names in small letters."""
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class ConnectProcess(MirrorMakerProcess):
    """A worker with its REST interface at `address`."""

    def __init__(self, process: subprocess.Popen[bytes], log: pathlib.Path, address: str) -> None:
        super().__init__(process, log)
        self.address = address

    def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        """A body that is no text is sent as JSON."""
        return ask(self.address, method, path, body, headers)

    def is_up(self) -> bool:
        try:
            return self.ask("GET", "/health").status == 200
        except OSError:
            return False


def ask(address: str, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
    sent = dict(headers or {})
    if body is not None:
        sent.setdefault("Content-Type", "application/json")
    data = body.encode() if isinstance(body, str) else body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    connection = http.client.HTTPConnection(address, timeout=REACHED_S)
    try:
        connection.request(method, path, data, sent)
        response = connection.getresponse()
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())
    finally:
        connection.close()


def worker_properties(folder: pathlib.Path, target: str, **settings: str) -> dict[str, str]:
    """`settings` have underscores for dots."""
    return {
        "bootstrap.servers": target,
        "key.converter": BYTES,
        "value.converter": BYTES,
        "header.converter": BYTES,
        "offset.storage.file.filename": str(folder / "connect.offsets"),
        "offset.flush.interval.ms": "200",
        **{name.replace("_", "."): value for name, value in settings.items()},
    }


@contextmanager
def apache_standalone(
    folder: pathlib.Path, props: Mapping[str, str], connectors: Sequence[Mapping[str, str]] = ()
) -> Iterator[ConnectProcess]:
    folder.mkdir(parents=True, exist_ok=True)
    command = [java(), *TOOL_JVM, _log4j(folder, "out", "INFO"), "-cp", kafka_classpath(), APACHE_STANDALONE]
    with _running(folder, props, connectors, command) as made:
        yield made


@contextmanager
def our_standalone(
    folder: pathlib.Path, props: Mapping[str, str], connectors: Sequence[Mapping[str, str]] = (), files: Sequence[pathlib.Path] = ()
) -> Iterator[ConnectProcess]:
    """`files` are of connectors, too, as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    with _running(folder, props, connectors, [sys.executable, "-m", OUR_STANDALONE], files) as made:
        yield made


@contextmanager
def _running(
    folder: pathlib.Path,
    props: Mapping[str, str],
    connectors: Sequence[Mapping[str, str]],
    command: list[str],
    files: Sequence[pathlib.Path] = (),
) -> Iterator[ConnectProcess]:
    address = f"127.0.0.1:{free_port()}"
    worker = written(folder / "worker.properties", {**props, "listeners": f"http://{address}"})
    paths = [written(folder / f"connector-{number}.properties", one) for number, one in enumerate(connectors)]
    log = folder / "connect.log"
    with started([*command, worker, *paths, *map(str, files)], log) as process:
        yield ConnectProcess(process, log, address)
