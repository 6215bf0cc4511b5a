"""`kafka-log` beside Spark's own Kafka source: the same topics, from the disk and from a broker
that serves that disk, in turn.

MB of log by CPU second of the whole Spark application, its JVM and Python workers; the broker's is
not counted. Each application is asked everything once before it is measured, for a JVM's first
queries are spent on compiling. Spark's source comes through Maven (`tools/kafka_jars.py`); without
Maven its column is empty and nothing is promised.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Final

from confluent_kafka.admin import AdminClient, NewTopic

from benches.harness import MB, Context, Row, in_turn, median, median_ratio
from benches.spark_data import FIRST_MS, Partition, write_data_dir
from kmirror import EmbeddedCluster
from kmirror.record.builder import build_batch
from kmirror.record.compression import CompressionType
from kmirror.record.record import Record

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import kafka_jars

TARGETS: Final = {"huge": 1.0, "lz4": 1.5, "zstd": 1.5, "gzip": 0.8, "snappy": 0.8, "small": 0.8}
NAMES: Final = {"huge": "none", "small": "small records, lz4"}


class Application:
    """A Spark application (`spark_reader`) and what it was asked."""

    def __init__(self, kind: str, target: str, *, jars: pathlib.Path | None = None) -> None:
        environment = dict(os.environ)
        if jars is not None:
            found = ",".join(str(path) for path in sorted(jars.glob("*.jar")))
            environment["PYSPARK_SUBMIT_ARGS"] = f"--jars {found} pyspark-shell"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benches.spark_reader", kind, target],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            text=True,
        )

    def __enter__(self) -> Application:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def ask(self, query: str, **asked: str) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"query": query, **asked}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the Spark application ended while it was asked {query} {asked}"
        found: dict[str, Any] = json.loads(line)
        return found


def serve(folder: pathlib.Path, data_dir: pathlib.Path) -> EmbeddedCluster:
    """A cluster whose topics are those of `data_dir`, by hard links; its broker is started."""
    counts: dict[str, int] = {}
    for path in data_dir.iterdir():
        topic = path.name.rpartition("-")[0]
        counts[topic] = counts.get(topic, 0) + 1
    with EmbeddedCluster(folder=folder) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        topics = [NewTopic(topic, count, config={"retention.ms": "-1"}) for topic, count in counts.items()]
        for made in admin.create_topics(topics).values():
            made.result()
        log_dir = pathlib.Path(cluster.log_dir())
        del admin
    for path in data_dir.iterdir():
        for old in (log_dir / path.name).iterdir():
            if old.name != "partition.metadata":
                old.unlink()
        for file in path.iterdir():
            if file.name != "partition.metadata":
                os.link(file, log_dir / path.name / file.name)
    for checkpoint in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (log_dir / checkpoint).unlink(missing_ok=True)
    return EmbeddedCluster(folder=folder)


def spark_kafka_jars(context: Context) -> pathlib.Path | None:
    try:
        return kafka_jars.resolve_spark()
    except SystemExit as error:
        context.say(str(error).splitlines()[0])
        return None


def run(context: Context) -> Iterator[Row]:
    data_dir = context.folder / "data"
    sizes = write_data_dir(data_dir, scale=context.choose(10, 250) / 1000, topics=list(TARGETS))
    jars = spark_kafka_jars(context)
    if jars is None:
        with Application("ours", str(data_dir)) as ours:
            yield from values(context, sizes, ours, None)
    else:
        with (
            serve(context.folder / "cluster", data_dir) as cluster,
            Application("ours", str(data_dir)) as ours,
            Application("kafka", cluster.bootstrap_servers, jars=jars) as peer,
        ):
            yield from values(context, sizes, ours, peer)
    shutil.rmtree(data_dir)
    yield from counts(context)
    yield memory(context)


def values(context: Context, sizes: dict[str, int], ours: Application, peer: Application | None) -> Iterator[Row]:
    rounds = context.choose(1, 5)
    for topic in TARGETS:
        found = {application.ask("values", topic=topic, columns="key,value")["answer"] for application in (ours, peer) if application}
        assert len(found) == 1, f"{topic}: the two sources disagree about the bytes of keys and values: {found}"
    for topic, target in TARGETS.items():

        def ask(application: Application | None, topic: str = topic) -> float:
            return application.ask("values", topic=topic, columns="key,value")["cpu"] if application else 1.0

        measured, others = in_turn(rounds, lambda ask=ask: ask(ours), lambda ask=ask: ask(peer))
        size = sizes[topic] / MB
        name = f"key and value, {NAMES.get(topic, topic)}"
        if peer is None:
            yield Row("spark_read", name, size / median(measured), "MB/CPU-s", "", None, note="without Spark's Kafka source")
            continue
        ratio = median_ratio(others, measured)
        met = None if context.quick else ratio >= target
        target_text = f">= {target} of Spark's own"
        note = f"{ratio:.2f} of it; {size:.0f} MB"
        yield Row(
            "spark_read", name, size / median(measured), "MB/CPU-s", target_text, met, "kafka source", size / median(others), note=note
        )
    tasks = ours.ask("tasks", topic="huge")["answer"]
    wanted = max(1, round(sizes["huge"] / (1 << 30) * 8))
    yield Row("spark_read", "tasks of one partition", tasks, "", f">= {wanted} (8 a GB)", tasks >= wanted)


def counts(context: Context) -> Iterator[Row]:
    """`count()` of a large topic, and of thousands of small partitions."""
    large = context.folder / "large"
    size = write_data_dir(large, scale=context.choose(10, 500) / 1000, topics=["huge"])["huge"] / MB
    partitions = context.choose(200, 10_000)
    small = context.folder / "partitions"
    template = build_batch([Record(row, FIRST_MS, None, random.Random(1).randbytes(1000), []) for row in range(50)], base_offset=0)
    for number in range(partitions):
        made = Partition(small / f"p-{number}", segment_bytes=1 << 20)
        made.append(template)
        made.close()
    with Application("ours", str(large)) as ours:
        ours.ask("count")
        used = [ours.ask("count")["cpu"] for _ in range(context.choose(1, 5))]
        rate = size / median(used)
        yield Row("spark_read", "count()", rate, "MB/CPU-s", ">= 400", None if context.quick else rate >= 400)
        many = ours.ask("count", path=str(small))
        assert many["answer"] == 50 * partitions, many
        note = f"50 KB each; {many['wall']:.0f} s"
        yield Row("spark_read", f"count() of {partitions} partitions", many["cpu"], "CPU-s", "<= 30", many["cpu"] <= 30, note=note)


def memory(context: Context) -> Row:
    """A worker's peak while it reads zstd of some MB that unpacks to a gigabyte."""
    bomb = Partition(context.folder / "bomb" / "t-0", segment_bytes=1 << 30)
    chance = random.Random(1)
    template = build_batch(
        [Record(row, FIRST_MS, None, chance.randbytes(4) + bytes(1000), []) for row in range(3000)], compression=CompressionType.ZSTD
    )
    for number in range(context.choose(20, 333)):
        template[:8] = (number * 3000).to_bytes(8, "big")
        bomb.append(template)
    bomb.close()
    with Application("ours", str(context.folder / "bomb")) as ours:
        asked = ours.ask("values", columns="key,value,headers,offset")
    note = f"{bomb.size / MB:.1f} MB of zstd that unpack to {asked['answer'] / MB:.0f} MB"
    return Row("spark_read", "memory of a worker", asked["worker_mb"], "MB", "<= 400", asked["worker_mb"] <= 400, note=note)
