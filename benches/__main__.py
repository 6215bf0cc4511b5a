"""Run benches, print their table, write build/bench.json.

python -m benches [--quick] [--output FILE] [NAME ...]     all of them, or those named
python -m benches --list
"""

from __future__ import annotations

import argparse
import importlib
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict

from confluent_kafka import KafkaException
from rich.console import Console
from rich.table import Table

from benches.harness import Bench, Context, Row

ROOT = pathlib.Path(__file__).resolve().parent.parent
BENCHES = {
    "start_up": "EmbeddedCluster() ready, two of them, three brokers, kafka-mirrors --help",
    "scale": "10,000 partitions on 3 brokers: create all, restart, memory",
    "connections": "produce latency with 2,000 idle and 500 busy connections",
    "follower_append": "append_as_follower against os.pwrite and CRC",
    "dump_log": "kafka-dump-log against Kafka's",
    "log_diff": "kafka-log-diff --engine local against cmp",
    "replay": "everything that kmirror verify-logs reads and computes, against a CRC of the same bytes",
    "spark_diff": "kafka-log-diff of equal logs on Spark against one process, and --output run after run",
    "spark_read": "the Spark source against Spark's own Kafka source, count(), 10,000 partitions, a worker's memory",
    "spark_write": "what a task of df.write does, against a record by record builder, and its commit",
    "spark_replay": "kmirror verify-logs: one partition on Spark with one core and two, keys of a compacted log and their memory",
    "spark_stream": "a stream's trigger with 2,000 partitions, and its tasks against the batch source's",
    "spark_scale": "one large partition on local[1] and local[2], thousands of small ones, a worker's memory",
    "many_elements": "one request with 40,000 elements of each list that it has, against Apache Kafka",
    "simulation": "simulated failovers and failbacks a second",
    "hidden_epochs": "a consumer's fetch of a mirror with leader epochs above its own, against the same log by sendfile",
    "produce_fetch": "broker CPU of librdkafka's produce and fetch, against Apache Kafka",
    "replicated_produce": "three brokers' CPU of librdkafka's produce with acks=all, against three of Apache's",
    "clients": "client CPU of our producer and consumer, by record and by batch, against librdkafka",
    "mirror_failover": "1,000 partitions from MIRRORING to STOPPED on three brokers",
    "mirror_scale": "10,000 partitions from AddTopicsToMirror to MIRRORING, two clusters of three brokers",
    "mirror_idle": "100 idle mirrored partitions, cores of the destination",
    "mirror_latency": "source append to destination append at 1,000 records a second",
    "mirror_throttle": "mirror.replication.throttled.rate of 10 MB/s",
    "mirror_replicated": "mirroring to three brokers with RF 3, against MirrorMaker 2 and three raw relays",
    "mirror_maker_2": "connect-mirror-maker's CPU, 1 and 10 partitions and all unpacked, against Apache Kafka's",
    "mirror_maker_latency": "connect-mirror-maker's latency at 500 records a second, against Apache Kafka's",
    "legacy_mirror_maker": "kafka-mirror-maker's CPU by record, 1 and 10 partitions, against Apache Kafka 3.9's",
    "mirror": "mirroring 1 GB, against MirrorMaker 2, the reference implementation and a raw relay",
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches", description="Measure kmirror beside its peers and rooflines.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="benches to run (default: all)")
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that the benches work, not how fast we are")
    parser.add_argument("--list", action="store_true", help="print the benches and end")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "build" / "bench.json", help="default: build/bench.json")
    options = parser.parse_args(arguments)
    if options.list:
        print("\n".join(f"{name:20} {about}" for name, about in BENCHES.items()))
        return 0
    if unknown := [name for name in options.names if name not in BENCHES]:
        parser.error(f"there is no bench {unknown[0]!r}; the benches are {', '.join(BENCHES)}")
    rows: list[Row] = []
    for name in options.names or BENCHES:
        began = time.monotonic()
        sys.stderr.write(f"{name}: {BENCHES[name]}\n")
        rows.extend(run_bench(name, quick=options.quick))
        sys.stderr.write(f"  {time.monotonic() - began:.0f} s\n")
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    Console(width=None if sys.stdout.isatty() else 180).print(as_table(rows))
    return 0


def run_bench(name: str, *, quick: bool) -> Iterator[Row]:
    """The rows of one bench.

    A bench that fails is a row that is not met, so that the others are still measured.
    """
    run: Bench = importlib.import_module(f"benches.{name}").run
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"kmirror-bench-{name}-"))
    try:
        yield from run(Context(folder, quick))
    except (AssertionError, OSError, ImportError, KafkaException, subprocess.SubprocessError) as error:
        yield Row(name, "failed", None, "", "", False, note=str(error).strip()[-300:])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def as_table(rows: list[Row]) -> Table:
    table = Table(title="kmirror benches")
    for heading, justify in (
        ("bench", "left"),
        ("metric", "left"),
        ("value", "right"),
        ("unit", "left"),
        ("target", "left"),
        ("met", "left"),
    ):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    for heading in ("peer", "note"):
        table.add_column(heading)
    for row in rows:
        met = {True: "[green]yes[/]", False: "[red]no[/]", None: ""}[row.met]
        peer = " ".join(part for part in (row.peer or "", number(row.peer_value)) if part)
        if row.roofline is not None:
            peer += f"{'; ' if peer else ''}roofline {number(row.roofline)}"
        table.add_row(row.bench, row.metric, number(row.value), row.unit, row.target, met, peer, row.note)
    return table


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
