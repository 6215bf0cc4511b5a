"""The oldest PySpark that pyproject.toml accepts: what works with it, and what says that it needs a
newer one.

`tools/spark_packages.py` brings it into the cache folder.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from support.logs.log_folders import batch, batches, write_segments
from support.peers.peers import java, require
from support.waiting import PROGRAM_S

from tools.spark_packages import COMPLETE, ROOT, floor_dir, floor_version

pytestmark = [pytest.mark.interop, pytest.mark.timeout(2 * PROGRAM_S)]

PROGRAM = """
import io, json, pathlib, sys
from contextlib import redirect_stdout

import pyspark
from pyspark.errors import PySparkException

from kmirror.cli import log_diff
from kmirror.spark import register, spark_session, write_log

source, folder = sys.argv[1:]
spark = spark_session("oldest", cores=2)
register(spark)


def message(job):
    try:
        return repr(job())
    except PySparkException as error:
        return str(error)


def load(path, **options):
    return spark.read.format("kafka-log").options(**options).load(path)


def diff(*sides):
    with redirect_stdout(io.StringIO()) as said:
        code = log_diff.main([*sides, "--engine", "spark", "--json"])
    return code, json.loads(said.getvalue())


frame = load(source, splitBytes="4096").select("topic", "partition", "offset", "key", "value", "timestamp")
copy = f"{folder}/copy"
write_log(frame, copy, compression_type="zstd")
twice = message(lambda: write_log(frame, copy))
write_log(frame.where("partition = 0").withColumn("offset", frame["offset"] + 100_000), copy, mode="append")
appended = load(copy).count()
write_log(frame, copy, mode="overwrite")
stream = spark.readStream.format("kafka-log").options(startingOffsets="earliest", readUpTo="logEndOffset").load(source)


def follow():
    query = stream.writeStream.format("memory").queryName("followed").trigger(availableNow=True).start()
    query.processAllAvailable()
    return spark.sql("select count(*) from followed").first()[0]


found = {
    "version": pyspark.__version__,
    "place": pyspark.__file__,
    "counted": [load(source).count(), load(source).where("partition = 0 and offset >= 150").count()],
    "rows": load(source).where("offset < 0").collect() == [] and len(frame.collect()),
    "tasks": frame.rdd.getNumPartitions(),
    "consumer": len(load(source, kafkaCompatible="true", subscribePattern="t.*", endingOffsets='{"t": {"0": 7, "1": 3}}').collect()),
    "twice": twice,
    "appended": appended,
    "same": diff(source, f"{folder}/same"),
    "written": sorted(load(copy).select(frame.columns).collect()) == sorted(frame.collect()),
    "unlike": diff(source, f"{folder}/other")[0],
    "stream": message(follow),
}
print(json.dumps(found))
"""


@pytest.mark.round
def test_the_oldest_pyspark_reads_writes_and_compares(tmp_path: pathlib.Path) -> None:
    require((floor_dir() / COMPLETE).exists(), f"PySpark {floor_version()} is not in the cache folder: run tools/spark_packages.py")
    java()
    for number in range(2):
        write_segments(tmp_path / "source" / f"t-{number}", (0, batches(40)), (200, batches(40, first=200)))
        write_segments(tmp_path / "other" / f"t-{number}", (0, [*batches(39), batch(195, text="changed")]), (200, batches(40, first=200)))
    shutil.copytree(tmp_path / "source", tmp_path / "same")
    environment = os.environ | {"PYTHONPATH": f"{floor_dir()}{os.pathsep}{ROOT}"}
    for name in ("SPARK_HOME", "PYSPARK_SUBMIT_ARGS", "PYSPARK_PYTHON"):
        environment.pop(name, None)
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "source"), str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    found = json.loads(run.stdout.splitlines()[-1])
    assert found.pop("version") == floor_version() and found.pop("place").startswith(str(floor_dir()))
    code, report = found.pop("same")
    assert code == 0 and report["engine"] == "spark" and len(report["partitions"]) == 2, report
    stream, twice = found.pop("stream"), found.pop("twice")
    assert found.pop("tasks") > 1
    assert found == {"counted": [800, 250], "rows": 800, "consumer": 10, "appended": 1200, "written": True, "unlike": 1}
    assert "has logs already; append to them with mode('append')" in twice and "Traceback" not in twice
    assert "kafka-log: streams need PySpark 4.2 or newer" in stream and "Traceback" not in stream
