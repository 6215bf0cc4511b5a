"""A Spark application of its own that reads what it is told, a line of JSON a query, and answers
with what that cost: see `spark_read`.

    python -m benches.spark_reader ours FOLDER
    python -m benches.spark_reader kafka HOST:PORT      with Spark's Kafka source among PYSPARK_SUBMIT_ARGS

CPU seconds are those of all processes below this one: the JVM, and the Python workers, those that
ended among them.
"""

from __future__ import annotations

import json
import logging
import os
import pathlib
import re
import sys
import time
from typing import Any, Final

from benches.harness import descendants

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PEAK: Final = re.compile(r"VmHWM:\s+(\d+)")


def tree_cpu_seconds() -> float:
    """User and system time of the processes below this one, and of their children that ended."""
    total = 0
    for pid in descendants(os.getpid()):
        try:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15]))
    return total / _TICKS


def worker_peak_mb() -> int:
    """The largest that a Python process below this one has been."""
    peaks = [0]
    for pid in descendants(os.getpid()):
        try:
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        found = _PEAK.search(status)
        if found and "java" not in status.splitlines()[0]:
            peaks.append(int(found[1]) >> 10)
    return max(peaks)


def frame(spark: Any, kind: str, target: str, asked: dict[str, str]) -> Any:
    if kind == "kafka":
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", target)
        return reader.option("subscribe", asked["topic"]).option("startingOffsets", "earliest").load()
    reader = spark.read.format("kafka-log")
    if "topic" in asked:
        reader = reader.option("subscribe", asked["topic"])
    if "columns" in asked:
        reader = reader.option("columns", asked["columns"])
    return reader.load(asked.get("path", target))


def answer(spark: Any, kind: str, target: str, asked: dict[str, str]) -> int:
    from pyspark.sql import functions

    rows = frame(spark, kind, target, asked)
    if asked["query"] == "count":
        return int(rows.count())
    if asked["query"] == "tasks":
        return int(rows.rdd.getNumPartitions())
    sums = rows.agg(functions.sum(functions.length("value")), functions.sum(functions.length("key"))).collect()[0]
    return int(sums[0] or 0) + int(sums[1] or 0)


def main(arguments: list[str]) -> int:
    logging.disable(logging.CRITICAL)
    from kmirror.spark import spark_session

    kind, target = arguments
    spark = spark_session("bench", 1)
    spark.sparkContext.setLogLevel("OFF")
    for line in sys.stdin:
        cpu, wall = tree_cpu_seconds(), time.perf_counter()
        found = answer(spark, kind, target, json.loads(line))
        wall = time.perf_counter() - wall
        print(json.dumps({"answer": found, "cpu": tree_cpu_seconds() - cpu, "wall": wall, "worker_mb": worker_peak_mb()}), flush=True)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
