"""A standalone cluster whose workers know nothing of kmirror: the archive of `kmirror
spark-package` is all that they get.

The lines are those of docs/SPARK.md. What is judged is the result on one machine, also after a
worker was killed in the middle.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from support.logs.log_folders import batch, batches, write_log, write_segments
from support.peers.spark_standalone import EXECUTOR_MEMORY, Standalone, driver_environment, spark_home, standalone
from support.tools.spark_rows import read_rows
from support.waiting import PROGRAM_S

from kmirror import EmbeddedCluster
from kmirror.cli.spark_package import FOLDER
from kmirror.record.compression import CompressionType
from kmirror.spark.package import write_package

pytestmark = [pytest.mark.interop, pytest.mark.timeout(2 * PROGRAM_S)]

QUERY = '''
import json, pathlib, sys, time
from pyspark.sql import SparkSession

master, archive, folder, marks, memory = sys.argv[1:]


def session(name, **configs):
    builder = SparkSession.builder.appName(name).master(master).config("spark.executor.memory", memory).config("spark.ui.enabled", "false")
    for key, value in configs.items():
        builder = builder.config(key.replace("_", "."), value)
    return builder.getOrCreate()


def imported(_):
    try:
        import kmirror
        return kmirror.__file__
    except ImportError as error:
        return str(error)


def hold(rows):
    """Every task waits here until one of the workers is dead."""
    import os
    pathlib.Path(marks, str(os.getppid())).touch()
    while not pathlib.Path(marks, "killed").exists():
        time.sleep(0.05)
    yield from rows


bare = session("without-kmirror")
without = bare.sparkContext.parallelize(range(4), 4).map(imported).collect()
bare.stop()
spark = session("with-kmirror", spark_archives=f"{archive}#kmirror_env", spark_executorEnv_PYTHONPATH="kmirror_env")
from kmirror.spark import register
register(spark)
found = spark.sparkContext.parallelize(range(4), 4).map(imported).collect()
rows = spark.read.format("kafka-log").option("splitBytes", "4096").load(folder).select("topic", "partition", "offset", "key", "value")
tasks = rows.rdd.getNumPartitions()
held = rows.rdd.mapPartitions(hold).collect()
answer = sorted([row.topic, row.partition, row.offset, bytes(row.key).decode(), bytes(row.value).decode()] for row in held)
print(json.dumps({"without": without, "with": found, "tasks": tasks, "rows": answer, "counted": rows.count()}))
spark.stop()
'''


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with standalone(tmp_path_factory.mktemp("spark")) as started:
        yield started


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return write_package(tmp_path_factory.mktemp("package") / "kmirror-spark.tar.gz").path


def test_a_diff_by_spark_submit_is_that_of_one_machine(cluster: Standalone, archive: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """The printed line, with another master."""
    for side in "ab":
        for number, codec in enumerate((CompressionType.NONE, CompressionType.LZ4, CompressionType.ZSTD, CompressionType.SNAPPY)):
            write_log(tmp_path / side / f"t-{number}", *(batch(first, codec=codec) for first in range(0, 100, 5)))
    write_log(tmp_path / "b" / "t-1", *batches(18), batch(90, text="changed"), batch(95))
    tool = [sys.executable, "-m", "kmirror.cli.kmirror", "spark-package", "--output", str(archive)]
    said = subprocess.run(tool, env=driver_environment(), capture_output=True, text=True, check=True, timeout=PROGRAM_S).stdout
    line = said.splitlines()[-1].replace("spark://HOST:7077", f"{cluster.url} --conf spark.executor.memory={EXECUTOR_MEMORY}")
    program, *arguments = line.replace(" A B ", f" {tmp_path / 'a'} {tmp_path / 'b'} ").split()
    command = [str(spark_home() / "bin" / program), *arguments, "--json"]
    far = subprocess.run(command, env=driver_environment(), capture_output=True, text=True, timeout=PROGRAM_S)
    here = subprocess.run(
        [sys.executable, "-m", "kmirror.cli.log_diff", str(tmp_path / "a"), str(tmp_path / "b"), "--engine", "local", "--json"],
        env=driver_environment(),
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
    )
    assert far.returncode == here.returncode == 1, far.stderr[-3000:]
    theirs, ours = json.loads(far.stdout), json.loads(here.stdout)
    assert theirs.pop("engine") == "spark" and ours.pop("engine") == "local"
    assert theirs == ours and len(ours["partitions"]) == 4
    assert "kafka-log-diff" in cluster.applications()


@pytest.mark.round
def test_a_query_has_the_rows_of_one_machine_though_a_worker_is_killed(
    cluster: Standalone, archive: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    for number in range(3):
        write_segments(tmp_path / "data" / f"t-{number}", (0, batches(40)), (200, batches(40, first=200)))
    marks = tmp_path / "marks"
    marks.mkdir()
    assert subprocess.run([cluster.python, "-c", "import kmirror"], cwd=tmp_path, capture_output=True, env={}).returncode != 0
    (tmp_path / "query.py").write_text(QUERY)
    command = [sys.executable, "query.py", cluster.url, str(archive), str(tmp_path / "data"), str(marks), EXECUTOR_MEMORY]
    with (tmp_path / "errors").open("w") as errors:
        query = subprocess.Popen(command, cwd=tmp_path, env=driver_environment(), stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        wait_for_marks(query, marks, 2, tmp_path / "errors")
        assert "with-kmirror" in [one["name"] for one in cluster.state()["activeapps"]] and cluster.alive() == 2
        cluster.kill(cluster.workers[0])
        (marks / "killed").touch()
        output, _ = query.communicate(timeout=PROGRAM_S)
    finally:
        query.kill()
        query.wait()
    assert query.returncode == 0, (tmp_path / "errors").read_text()[-3000:]
    answer = json.loads(output)
    assert set(answer["without"]) == {"No module named 'kmirror'"}
    assert all(f"/{FOLDER}/kmirror/" in path for path in answer["with"]), answer["with"]
    expected = sorted(
        [row["topic"], row["partition"], row["offset"], row["key"].decode(), row["value"].decode()] for row in read_rows(tmp_path / "data")
    )
    assert answer["tasks"] == 6 and answer["rows"] == expected and answer["counted"] == len(expected) == 1200
    assert cluster.alive() == 1


@pytest.mark.round
def test_a_replay_with_a_relative_state_repeats_nothing(cluster: Standalone, archive: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Each executor wrote the progress into a folder of its own, and the next run replayed
    everything again.
    """
    for number in range(2):
        write_log(tmp_path / "logs" / f"orders-{number}", *batches(30))
    shipped = f"--archives {archive}#{FOLDER} --conf spark.executorEnv.PYTHONPATH={FOLDER} --conf spark.executor.memory={EXECUTOR_MEMORY}"
    environment = driver_environment() | {"PYSPARK_SUBMIT_ARGS": f"{shipped} pyspark-shell"}
    with EmbeddedCluster() as destination:
        command = [sys.executable, "-m", "kmirror.cli.kmirror", "replay", "logs", "--to", destination.bootstrap_servers]
        command += ["--create-topics", "--speed", "max", "--state", "progress", "--master", cluster.url]
        for said in ("replayed 300 records", "replayed 0 records"):
            done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PROGRAM_S)
            assert done.returncode == 0 and said in done.stdout, done.stdout + done.stderr[-3000:]
        assert sorted(path.name for path in (tmp_path / "progress").iterdir()) == ["orders-0.replay.json", "orders-1.replay.json"]
        checked = [sys.executable, "-m", "kmirror.cli.kmirror", "verify-logs", "logs", "--master", cluster.url]
        done = subprocess.run(checked, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PROGRAM_S)
        assert "orders-0: " in done.stdout and "Traceback" not in done.stderr, done.stderr[-3000:]


def wait_for_marks(query: subprocess.Popen[str], marks: pathlib.Path, count: int, errors: pathlib.Path) -> None:
    deadline = time.monotonic() + PROGRAM_S
    while len(list(marks.iterdir())) < count:
        assert query.poll() is None, errors.read_text()[-3000:]
        assert time.monotonic() < deadline, f"{count} tasks had not begun after {PROGRAM_S} s: {errors.read_text()[-2000:]}"
        time.sleep(0.05)
