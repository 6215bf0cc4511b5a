"""Write jobs whose tasks run more than once, on a real cluster: an executor is killed in the middle
of a task, a task fails when it has staged a part, Spark starts a second copy of a slow task
(`spark.speculation`), the driver is killed while it moves segments. Every record is in the log
once.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from support.peers.spark_standalone import EXECUTOR_MEMORY, ROOT, Standalone, driver_environment, standalone
from support.tools.spark_rows import read_rows
from support.waiting import PROGRAM_S, REACHED_S

from kmirror.cli import kmirror
from kmirror.spark.commit_journal import JOURNAL_FILE_NAME

pytestmark = [pytest.mark.interop, pytest.mark.timeout(2 * PROGRAM_S)]

ROWS = 400
WRITES = '''
import json, os, pathlib, signal, sys, time
from pyspark import TaskContext
from pyspark.sql import SparkSession

master, folder, memory, reached_s, *kinds = sys.argv[1:]
configs = {"executor.memory": memory, "ui.enabled": "false", "speculation": "true", "speculation.interval": "50ms",
           "speculation.quantile": "0.3", "speculation.multiplier": "1.1", "speculation.minTaskRuntime": "50ms"}
builder = SparkSession.builder.appName("writes").master(master)
for name, value in configs.items():
    builder = builder.config(f"spark.{name}", value)
spark = builder.getOrCreate()
from kmirror.spark import register, write_log
register(spark)


def executor():
    """Of this Python worker: the parent of its daemon."""
    return int(pathlib.Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1])


def attempts(kind):
    """Task 2 of 4 runs twice; which attempts there were is told by files."""
    def task(rows):
        context = TaskContext.get()
        mark = pathlib.Path(folder, f"{kind}-{context.partitionId()}-")
        pathlib.Path(f"{mark}{context.attemptNumber()}").touch()
        if context.partitionId() != 2 or context.attemptNumber():
            yield from rows
            return
        yield next(rows)
        if kind == "executor":
            os.kill(executor(), signal.SIGKILL)
        if kind == "failure":
            for _ in range(50):
                yield next(rows)
            raise RuntimeError("in the middle")
        deadline = time.monotonic() + float(reached_s)
        while not pathlib.Path(f"{mark}1").exists():
            assert time.monotonic() < deadline, "no second attempt"
            time.sleep(0.01)
        yield from rows
    return task


for kind in kinds:
    frame = spark.range(400, numPartitions=4).selectExpr("cast(id as string) value", "'t' topic", "cast(id % 2 as int) partition")
    frame = spark.createDataFrame(frame.rdd.mapPartitions(attempts(kind)), frame.schema)
    frame.write.format("kafka-log").option("segment.bytes", "2000").option("batch.size", "500").mode("append").save(f"{folder}/{kind}")
    if kind == kinds[0]:
        write_log(frame, f"{folder}/{kind}-shuffled")
print(json.dumps(sorted(path.name for path in pathlib.Path(folder).glob("*-2-*"))))
'''
DIES = '''
import os, pathlib, signal
from kmirror.spark.local_writes import WritableLocalFiles

rename, moved = WritableLocalFiles.rename, []


def family():
    """The driver, its JVM and its Python workers, which have this folder in their environment; this
    process is the last."""
    hook, found = os.path.dirname(__file__).encode(), []
    for path in pathlib.Path("/proc").iterdir():
        try:
            found += [int(path.name)] if path.name.isdigit() and hook in (path / "environ").read_bytes() else []
        except OSError:
            continue
    return sorted(found, key=lambda pid: pid == os.getpid())


def dying(self, source, destination):
    """The fourth segment that is moved out of the staging folder is one too many."""
    moved.extend([destination] if "-delete/new/" in source and "-delete/" not in destination else [])
    if len(moved) == 4:
        for pid in family() if os.environ["KMIRROR_TEST_DIES"] == "all" else [os.getpid()]:
            os.kill(pid, signal.SIGKILL)
    rename(self, source, destination)


if "KMIRROR_TEST_DIES" in os.environ:
    WritableLocalFiles.rename = dying
'''
APPEND = """
import sys
from kmirror.spark import spark_session
spark = spark_session("append", cores=2)
frame = spark.range(60, numPartitions=3).selectExpr("cast(id as string) value", "'t' topic", "cast(id % 6 as int) partition")
frame.write.format("kafka-log").mode("append").save(sys.argv[1])
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with standalone(tmp_path_factory.mktemp("spark")) as started:
        yield started


def values(path: pathlib.Path) -> list[int]:
    return sorted(int(row["value"]) for row in read_rows(path, columns="value"))


def test_a_task_that_runs_twice_writes_once(cluster: Standalone, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    kinds = ("speculation", "failure", "executor")
    run = subprocess.run(
        [sys.executable, "-c", WRITES, cluster.url, str(tmp_path), EXECUTOR_MEMORY, str(REACHED_S), *kinds],
        env=driver_environment() | {"PYSPARK_PYTHON": sys.executable},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    marks = json.loads(run.stdout.splitlines()[-1])
    assert {f"{kind}-2-{attempt}" for kind in kinds for attempt in range(2)} <= set(marks), marks
    for path in [*(tmp_path / kind for kind in kinds), tmp_path / "speculation-shuffled"]:
        assert values(path) == list(range(ROWS)), path
        assert kmirror.main(["verify-logs", str(path)]) == 0, capsys.readouterr().out
        assert not (path / JOURNAL_FILE_NAME).exists()


@pytest.mark.round
def test_a_job_whose_driver_was_killed_while_it_moved_segments_runs_again(tmp_path: pathlib.Path) -> None:
    """SIGKILL for the driver, its JVM and its Python workers at once, as when a container runs out
    of memory."""
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text(DIES)
    environment = os.environ | {"PYTHONPATH": f"{tmp_path / 'hook'}{os.pathsep}{ROOT}"}
    command, log = [sys.executable, "-c", APPEND, str(tmp_path / "d")], tmp_path / "d"

    def append(**more: str) -> int:
        job = subprocess.Popen(
            command, env=environment | more, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            return job.wait(timeout=PROGRAM_S)
        finally:
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)

    assert append(KMIRROR_TEST_DIES="commit") == 1, "the JVM lives, and aborts the job"
    assert not [path for path in log.iterdir() if path.is_dir() or path.name == JOURNAL_FILE_NAME], "the log.dir is as it was"
    assert append(KMIRROR_TEST_DIES="all") == -signal.SIGKILL
    assert (log / JOURNAL_FILE_NAME).exists() and len(list(log.glob("t-*"))) == 3, sorted(log.iterdir())
    assert append() == 0
    assert values(log) == list(range(60)) and not (log / JOURNAL_FILE_NAME).exists() and not list(log.glob("*-delete"))
