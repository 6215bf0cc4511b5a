"""One cluster of the demonstration: a `kmirror start` process with its own ports and data dir."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kmirror.common.errors import KmirrorError

HOST = "127.0.0.1"
START_TIMEOUT_S = 20
STARTED = b"Kafka Server started"


PORTS = range(20_000, 32_000)
"""Below the ports that a system gives to connections: one of those could be taken by a connection
in the moment before the server binds it."""


def free_ports(count: int) -> list[int]:
    """Returns ports that were free at the same moment, picked at random."""
    sockets: list[socket.socket] = []
    try:
        while len(sockets) < count:
            probe = socket.socket()
            try:
                probe.bind((HOST, random.choice(PORTS)))
            except OSError:
                probe.close()
                continue
            sockets.append(probe)
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()


class DemoCluster:
    """A combined broker and controller with mirroring on.

    KmirrorError, with the end of its log, if it does not start.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder / name
        self.data = self.folder / "data"
        self.port, self._controller_port = free_ports(2)
        self._process: subprocess.Popen[bytes] | None = None
        self._log = self.folder / "server.log"

    @property
    def bootstrap_servers(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def properties_file(self) -> Path:
        return self.folder / "server.properties"

    def format(self, cluster_id: str) -> None:
        self.folder.mkdir(parents=True)
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{HOST}:{self._controller_port}",
            "listeners": f"PLAINTEXT://{HOST}:{self.port},CONTROLLER://{HOST}:{self._controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            "mirror.topic.replication.factor": "1",
            "mirror.topic.num.partitions": "3",
            "mirror.metadata.refresh.interval.ms": "1000",
            "mirror.truncation.backoff.ms": "500",
            "unstable.api.versions.enable": "true",
            "unstable.feature.versions.enable": "true",
        }
        self.properties_file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        self._command("format", "--cluster-id", cluster_id, "--config", str(self.properties_file), "--feature", "mirror.version=1")

    def _command(self, *arguments: str) -> None:
        done = subprocess.run([sys.executable, "-m", "kmirror.cli.kmirror", *arguments], capture_output=True, text=True, check=False)
        if done.returncode:
            raise KmirrorError(f"kmirror {arguments[0]} of {self.name} failed: {(done.stderr or done.stdout).strip()}")

    def start(self) -> float:
        """Start the process and wait until it serves; returns the seconds that this took."""
        began = time.monotonic()
        with self._log.open("ab") as log:
            offset = log.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "kmirror.cli.kmirror", "start", "--config", str(self.properties_file)],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
            )
        while time.monotonic() - began < START_TIMEOUT_S and self._process.poll() is None:
            if STARTED in self._log.read_bytes()[offset:]:
                return time.monotonic() - began
            time.sleep(0.02)
        self.kill()
        raise KmirrorError(f"cluster {self.name} did not start; the end of its log:\n{self._log.read_text(errors='replace')[-1500:]}")

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else -1

    @contextmanager
    def stalled(self) -> Iterator[None]:
        """SIGSTOP the process inside the block: it neither fetches nor answers."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kill the process by SIGKILL: no flush, no checkpoint, no goodbye."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Shut the process down in a controlled way."""
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.send_signal(number)
            try:
                process.wait(START_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def log_bytes(self, topics: list[str]) -> int:
        """Returns the bytes in the `.log` files of these topics."""
        names = tuple(f"{topic}-" for topic in topics)
        folders = [folder for folder in self.data.iterdir() if folder.name.startswith(names)]
        return sum(path.stat().st_size for folder in folders for path in folder.glob("*.log"))
