"""Spark's standalone master and workers as processes, for tests on a real Spark cluster.

The workers' Python is an empty virtual environment without kmirror, numpy and pyarrow. It inherits
nothing from the environment of this process.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import urllib.request
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from support.peers.peers import free_port, java
from support.waiting import REACHED_S

ROOT = pathlib.Path(__file__).resolve().parents[3]
EXECUTOR_MEMORY = "512m"
JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"
"""Options of every JVM, for short lives: a fast start counts more than speed."""


def spark_home() -> pathlib.Path:
    import pyspark

    return pathlib.Path(pyspark.__file__).parent


def driver_environment() -> dict[str, str]:
    """Returns the environment of a driver, whose Python is this one with this kmirror.

    `PYSPARK_PYTHON` is plain `python3`, so each machine runs its own.
    """
    return os.environ | {
        "PATH": f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": "python3",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "JAVA_TOOL_OPTIONS": JVM,
    }


@dataclass
class Standalone:
    """A master and its workers. `url` is the value for `--master`."""

    folder: pathlib.Path
    url: str = ""
    page: str = ""
    python: pathlib.Path = pathlib.Path()
    """The Python that the workers run."""
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def state(self) -> dict[str, Any]:
        """Returns the master's JSON page."""
        with urllib.request.urlopen(self.page, timeout=REACHED_S) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def applications(self) -> list[str]:
        state = self.state()
        return [one["name"] for one in [*state["activeapps"], *state["completedapps"]]]

    def alive(self) -> int:
        return sum(worker["state"] == "ALIVE" for worker in self.state()["workers"])

    def kill(self, worker: subprocess.Popen[bytes]) -> None:
        """Kills a worker and its executors, as when its machine loses power."""
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()


@contextmanager
def standalone(folder: pathlib.Path, workers: int = 2) -> Iterator[Standalone]:
    """Each worker has an address of its own, as a machine has: Spark starts a second copy of a slow
    task only on another host."""
    java()
    cluster = Standalone(folder)
    venv.EnvBuilder(with_pip=False, symlinks=True).create(folder / "python")
    cluster.python = folder / "python" / "bin" / "python3"
    port, page = free_port(), free_port()
    cluster.url, cluster.page = f"spark://127.0.0.1:{port}", f"http://127.0.0.1:{page}/json"
    master = _start(cluster, "master", "master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page))
    try:
        for number in range(workers):
            name = f"worker-{number}"
            options = ["--cores", "1", "--memory", EXECUTOR_MEMORY, "--webui-port", "0", "--work-dir", str(folder / name)]
            cluster.workers.append(_start(cluster, name, "worker.Worker", "--host", f"127.0.0.{number + 1}", *options, cluster.url))
        _wait_for(cluster, workers, [master, *cluster.workers])
        yield cluster
    finally:
        for process in [*cluster.workers, master]:
            if process.poll() is None:
                cluster.kill(process)


def _start(cluster: Standalone, name: str, main_class: str, *arguments: str) -> subprocess.Popen[bytes]:
    home = spark_home()
    environment = {
        "PATH": f"{cluster.python.parent}{os.pathsep}/usr/bin{os.pathsep}/bin",
        "JAVA_HOME": str(pathlib.Path(os.path.realpath(java())).parent.parent),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(cluster.folder / "local"),
        "SPARK_DAEMON_MEMORY": "192m",
        "JAVA_TOOL_OPTIONS": JVM,
    }
    folder = cluster.folder / name
    folder.mkdir(parents=True)
    with (folder / "log").open("wb") as log:
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{main_class}", *arguments]
        return subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True)


def _wait_for(cluster: Standalone, workers: int, processes: list[subprocess.Popen[bytes]]) -> None:
    """A master that is still starting serves a page where its JSON will be."""
    deadline = time.monotonic() + REACHED_S
    while True:
        for process in processes:
            assert process.poll() is None, f"{process.args} ended: {_logs(cluster)}"
        try:
            if cluster.alive() == workers:
                return
        except (OSError, ValueError):
            pass
        assert time.monotonic() < deadline, f"no {workers} workers after {REACHED_S} s: {_logs(cluster)}"
        time.sleep(0.1)


def _logs(cluster: Standalone) -> str:
    return "\n".join(path.read_text(errors="replace")[-1000:] for path in cluster.folder.glob("*/log"))
