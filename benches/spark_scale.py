"""One large partition on one core and on two: reading it, replaying it, and comparing it with its
copy; thousands of small partitions; a worker's memory.

Each figure is an application of its own (`PROGRAM`), which does its work once before it is
measured. CPU seconds are those of its process tree, without the Python that drives it; a worker's
memory is the peak of the largest Python below it. The speed-up is one of wall time, so it needs a
quiet machine of two cores.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from benches.harness import MB, Context, Row, in_turn, median, median_ratio
from benches.spark_data import FIRST_MS, Partition, write_data_dir
from kmirror.record.builder import build_batch
from kmirror.record.record import Record

PROGRAM = """
import contextlib, io, json, sys, time
from benches.spark_reader import tree_cpu_seconds, worker_peak_mb
from kmirror.spark import spark_session

kind, cores, once, *inputs = sys.argv[1:]
spark = spark_session("bench", int(cores))
spark.sparkContext.setLogLevel("OFF")


def read(folder):
    rows = spark.read.format("kafka-log").option("columns", "key,value").load(folder)
    from pyspark.sql import functions
    return [int(rows.agg(functions.sum(functions.length("value"))).collect()[0][0]), rows.rdd.getNumPartitions()]


def count(folder):
    rows = spark.read.format("kafka-log").load(folder)
    return [rows.count(), rows.rdd.getNumPartitions()]


def counted(work):
    "What it gives, and how many tasks its widest stage had."
    tracker = spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup())
    answer = work()
    stages = [stage for job in set(tracker.getJobIdsForGroup()) - before for stage in tracker.getJobInfo(job).stageIds]
    return [answer, max(tracker.getStageInfo(stage).numTasks for stage in stages)]


def replay(folder):
    from kmirror.cli.kmirror import main
    with contextlib.redirect_stdout(io.StringIO()) as said:
        found = counted(lambda: main(["verify-logs", folder, "--engine", "spark"]))
    assert found[0] < 2
    return [said.getvalue().splitlines()[-1], found[1]]


def diff(left, right):
    from kmirror.spark.log_diff import diff_on_spark
    from kmirror.spark.files import LocalFiles
    from kmirror.verify.data_dir_logs import open_folder
    from kmirror.verify.log_diff import DiffSettings
    sides = [open_folder(LocalFiles(), side)[0] for side in (left, right)]
    found = counted(lambda: diff_on_spark(spark, list(zip(*sides)), left, right, DiffSettings()))
    return [all(one.status.value == "equal" for one in found[0]), found[1]]


work = {"read": read, "count": count, "replay": replay, "diff": diff}[kind]
if once != "once":
    work(*inputs)
cpu, wall = tree_cpu_seconds(), time.perf_counter()
answer, tasks = work(*inputs)
wall = time.perf_counter() - wall
print(json.dumps({"answer": answer, "tasks": tasks, "cpu": tree_cpu_seconds() - cpu, "wall": wall, "worker_mb": worker_peak_mb()}))
spark.stop()
"""


def measure(kind: str, cores: int, *inputs: pathlib.Path, once: bool = False) -> dict[str, Any]:
    command = [sys.executable, "-c", PROGRAM, kind, str(cores), "once" if once else "twice", *map(str, inputs)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=pathlib.Path(__file__).resolve().parent.parent)
    assert done.returncode == 0, done.stderr[-500:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def run(context: Context) -> Iterator[Row]:
    sides = [context.folder / side for side in "ab"]
    for side in sides:
        size = write_data_dir(side, scale=context.choose(50, 500) / 1000, topics=["huge"])["huge"]
    for kind, inputs in (("read", sides[:1]), ("replay", sides[:1]), ("diff", sides)):
        yield from speed_up(context, kind, inputs, size)
    yield small_partitions(context)


def speed_up(context: Context, kind: str, inputs: list[pathlib.Path], size: int) -> Iterator[Row]:
    rounds = context.choose(1, 3)
    one, two = in_turn(rounds, lambda: measure(kind, 1, *inputs), lambda: measure(kind, 2, *inputs))
    assert {str(found["answer"]) for found in [*one, *two]} == {str(one[0]["answer"])} and one[0]["answer"], one[0]
    ratio = median_ratio([found["wall"] for found in one], [found["wall"] for found in two])
    tasks, memory = two[0]["tasks"], max(found["worker_mb"] for found in [*one, *two])
    note = f"{size / MB:.0f} MB in one partition; {median([found['wall'] for found in one]):.2f} s and {median([found['cpu'] for found in one]):.2f} CPU-s on one core"
    met = None if context.quick else ratio >= 1.6
    yield Row("spark_scale", f"{kind}, local[2]", ratio, "x local[1]", ">= 1.6", met, note=note)
    wanted = max(1, round(8 * size / 1e9))
    yield Row("spark_scale", f"{kind}, tasks", tasks, "", f">= {wanted} (8 a GB)", tasks >= wanted)
    yield Row("spark_scale", f"{kind}, memory of a worker", memory, "MB", "<= 400", memory <= 400)


def small_partitions(context: Context) -> Row:
    count = context.choose(200, 10_000)
    template = build_batch([Record(row, FIRST_MS, None, bytes([row]) * 1000, []) for row in range(50)], base_offset=0)
    for number in range(count):
        made = Partition(context.folder / "many" / f"p-{number}", segment_bytes=1 << 20)
        made.append(template)
        made.close()
    found = measure("count", 2, context.folder / "many", once=True)
    assert found["answer"] == 50 * count, found
    note = f"50 KB each, {found['tasks']} tasks, {found['wall']:.1f} s; worker {found['worker_mb']} MB"
    return Row("spark_scale", f"count() of {count} partitions", found["cpu"], "CPU-s", "<= 30", found["cpu"] <= 30, note=note)
