"""Spark Connect: a client without a JVM, and a server of its own, whose Python has nothing of Spark
Connect's.

The log has a batch whose CRC is wrong, far behind. Who reads it fails, so the answers show what was
read: counts from headers and pushed filters never meet it. The last client registers the source as
Spark alone does, and meets it.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from support.logs.log_folders import batches, write_segments
from support.peers.peers import free_port, java, require
from support.peers.spark_standalone import driver_environment, spark_home
from support.waiting import PROGRAM_S, REACHED_S

from tools.spark_packages import COMPLETE, ROOT, connect_dir

pytestmark = [pytest.mark.interop, pytest.mark.timeout(2 * PROGRAM_S)]

DAMAGE = r"CorruptFileError: .*: the CRC of the batch at offset 395 is \d+, its header says \d+"
BEGIN = """
import json, sys
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

remote, source, folder = sys.argv[1:]
spark = SparkSession.builder.remote(remote).getOrCreate()


def load(path=source, **options):
    return spark.read.format("kafka-log").options(**options).load(path)


def answer(job):
    try:
        return job()
    except PySparkException as error:
        lines = [line.partition("kmirror.common.errors.")[2] or line for line in str(error).splitlines()]
        return next((line for line in lines if line.startswith(("KmirrorError", "CorruptFileError"))), lines[0])
"""
REGISTERED = """
from kmirror.spark import register, write_log

register(spark)
register(spark)  # a notebook's cell that runs twice
whole, low = load(), load().where("offset < 50 and partition = 0")
rows = load().where("offset < 200").select("topic", "partition", "offset", "timestamp", "key", "value")


def save(mode, path):
    writer = rows.where("partition = 0").drop("offset").write.format("kafka-log")
    (writer if mode is None else writer.mode(mode)).save(path)
    return load(path).count()


union = load().where("offset < 50")
found = {
    "count": whole.count(),
    "count of paths": spark.read.format("kafka-log").load([f"{source}/t-0", f"{source}/t-1"]).count(),
    "count of batches": load(rows="batch").count(),
    "count of some": answer(load(startingOffsets='{"t": {"0": 150, "1": 100}}', endingOffsets='{"t": {"0": 200, "1": 200}}', subscribe="t").count),
    "permissive": load(mode="PERMISSIVE").where("_corrupt is not null").count(),
    "filtered": [low.count(), len(low.collect())],
    "two filters of one load": [union.count(), union.where("offset >= 20 and partition = 1").count(), union.union(union.where("offset < 5")).count()],
    "all rows": answer(lambda: len(whole.collect())),
    "unknown option": answer(lambda: load(offset="1").count()),
}
cached = load(endingOffsets='{"t": {"0": 200, "1": 200}}', subscribe="t")
cached.cache()
found["cached"] = [cached.count(), len(cached.collect()), cached.storageLevel.useMemory]
cached.unpersist()
found["saved"] = {
    str(mode): [answer(lambda: save(mode, f"{folder}/{mode}")), answer(lambda: save(mode, f"{folder}/{mode}"))]
    for mode in (None, "error", "ErrorIfExists", "ignore", "append", "overwrite", "sideways")
}
write_log(rows, f"{folder}/copy", compression_type="zstd")
found["copied"] = sorted(load(f"{folder}/copy").select(rows.columns).collect()) == sorted(rows.collect())
query = (
    spark.readStream.format("kafka-log").options(startingOffsets="earliest", readUpTo="logEndOffset").load(f"{folder}/copy")
    .writeStream.format("memory").queryName("followed").trigger(availableNow=True).start()
)
query.awaitTermination()
found["stream"] = spark.table("followed").count()
print(json.dumps(found))
"""
BARE = """
from kmirror.spark.data_source import KafkaLogDataSource

spark.dataSource.register(KafkaLogDataSource)
print(json.dumps([answer(load().count), answer(load().where("offset < 50").count)]))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Connect server, whose Python workers have kmirror."""
    java()
    require((connect_dir() / COMPLETE).exists(), "what Spark Connect needs is not in the cache folder: run tools/spark_packages.py")
    port = free_port()
    settings = {"spark.connect.grpc.binding.port": port, "spark.connect.grpc.binding.address": "127.0.0.1", "spark.ui.enabled": "false"}
    command = [str(spark_home() / "bin" / "spark-submit"), "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += [
        "--master",
        "local[2]",
        *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")),
        "spark-internal",
    ]
    folder = tmp_path_factory.mktemp("connect")
    with (folder / "log").open("wb") as log:
        environment = driver_environment() | {"PYSPARK_PYTHON": sys.executable}
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=subprocess.STDOUT)
        try:
            _wait_for(port, process, folder / "log")
            yield f"sc://127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes], log: pathlib.Path) -> None:
    deadline = time.monotonic() + REACHED_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=REACHED_S).close()
        except ConnectionRefusedError:
            assert process.poll() is None and time.monotonic() < deadline, log.read_text(errors="replace")[-3000:]
            time.sleep(0.1)
        else:
            return


@pytest.fixture
def source(tmp_path: pathlib.Path) -> pathlib.Path:
    """Two partitions with 400 records each. The last batch of each has a wrong CRC."""
    for number in range(2):
        damaged = bytearray(batches(1, first=395)[0])
        damaged[-1] ^= 1
        last = [*batches(39, first=200), bytes(damaged)]
        write_segments(tmp_path / "source" / f"t-{number}", (0, batches(20)), (100, batches(20, first=100)), (200, last))
    return tmp_path / "source"


def client(program: str, server: str, source: pathlib.Path, folder: pathlib.Path) -> object:
    """Returns what a client without a JVM prints."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK", "JAVA"))}
    environment["PYTHONPATH"] = f"{connect_dir()}{os.pathsep}{ROOT}"
    command = [sys.executable, "-c", BEGIN + program, server, str(source), str(folder)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PROGRAM_S)
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout.splitlines()[-1])


def test_a_client_without_a_jvm_reads_counts_and_writes(server: str, source: pathlib.Path, tmp_path: pathlib.Path) -> None:
    found = client(REGISTERED, server, source, tmp_path)
    assert isinstance(found, dict)
    damage, unknown, saved = found.pop("all rows"), found.pop("unknown option"), found.pop("saved")
    assert re.fullmatch(DAMAGE, damage) and unknown.startswith("KmirrorError: kafka-log: there is no option offset")
    assert found == {
        "count": 800,
        "count of paths": 800,
        "count of batches": 160,
        "count of some": 150,
        "permissive": 2,
        "filtered": [50, 50],
        "two filters of one load": [100, 30, 110],
        "cached": [400, 400, True],
        "copied": True,
        "stream": 400,
    }
    refused = [saved.pop(mode) for mode in ("None", "error", "ErrorIfExists")]
    assert [first for first, _ in refused] == [200, 200, 200]
    assert all("has logs already; append to them with mode('append')" in second for _, second in refused), refused
    assert saved.pop("sideways")[0] == "[UNSUPPORTED_OPERATION] sideways is not supported."
    assert saved == {"ignore": [200, 200], "append": [200, 400], "overwrite": [200, 200]}


def test_without_register_everything_is_read(server: str, source: pathlib.Path, tmp_path: pathlib.Path) -> None:
    found = client(BARE, server, source, tmp_path)
    assert isinstance(found, list) and len(found) == 2
    assert all(re.fullmatch(DAMAGE, text) for text in found), found
