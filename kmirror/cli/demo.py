"""`kmirror demo`: a disaster from beginning to end, with real processes, real clients and a proof.

    north serves ─> south mirrors it ─> north dies (SIGKILL) ─> south takes over ─> north comes back with only the delta ─> Spark compares

Every step is what an operator would do: `kmirror format` and `start`, librdkafka's producer,
`kafka-mirrors` with its options, `kafka-log-diff`. South is stalled (SIGSTOP) for the last 0.3 s
before north dies, as a slow link would stall it, so that some records are lost. The demonstration
measures the time to fail over (from `--remove` to the first acknowledged record at south) and to
fail back (from `--add` at north to lag 0); the records that the source had and the destination had
not (lost at failover, truncated at failback); and the bytes that the failback transferred, compared
with the size of the logs.

It ends with a table, and with `report.json` and `report.html` in the output folder. The exit code
is 0 only if the logs are equal.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kmirror.cli.demo_cluster import DemoCluster
from kmirror.cli.demo_report import DemoReport, print_summary, write_reports
from kmirror.cli.demo_watch import DemoWatch
from kmirror.cli.demo_workload import TOPICS, Workload, create_topics, require_clients
from kmirror.cli.engines import chosen_engine
from kmirror.cli.html_page import Provenance
from kmirror.cli.log_diff_inputs import spark_is_installed
from kmirror.common.errors import KmirrorError
from kmirror.spark.java import java_program

MIRROR = "dr"
WAIT_TIMEOUT_S = 40
STALL_S = 0.3


def add_arguments(parser: argparse.ArgumentParser, command: str) -> None:
    parser.add_argument(
        "--output", type=Path, default=Path("build/demo"), help="the folder for report.json and report.html (default %(default)s)"
    )
    parser.add_argument(
        "--records",
        type=int,
        default=30_000,
        help="the number of records in cluster north before the mirror is created (default %(default)s)",
    )
    parser.add_argument(
        "--engine",
        choices=["auto", "local", "spark"],
        default="auto",
        help="the engine that compares the logs; auto is Spark where kmirror[spark] is installed (default %(default)s)",
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the data directories of both clusters in this folder")


def run(command: str, options: argparse.Namespace) -> int:
    """Returns 0 if both logs are equal at the end, else 1."""
    if options.records < 1:
        raise KmirrorError(f"--records must be a number above 0, not {options.records}")
    require_clients()
    options.engine = comparing_engine(options.engine)
    options.output.mkdir(parents=True, exist_ok=True)
    folder = options.keep or Path(tempfile.mkdtemp(prefix="kmirror-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return Demo(folder, options).run()
    finally:
        if options.keep is None:
            shutil.rmtree(folder, ignore_errors=True)


def comparing_engine(engine: str) -> str:
    """Returns local or spark, before any cluster runs; KmirrorError if Spark cannot run here."""
    if engine == "auto":
        return "spark" if spark_is_installed() else "local"
    if engine == "spark":
        chosen_engine(engine, None, is_remote=False, size_bytes=0)
        java_program()
    return engine


def compared_text(report: str) -> str:
    """Returns what kafka-log-diff's report says that it compared, in one sentence."""
    last = report.strip().splitlines()[-1]
    size = sum(int(number) for number in re.findall(r"(\d+) bytes equal", report))
    return f"{last}; {size:,} bytes compared equal"


class Demo:
    """The script of the demonstration; every method is one act."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self._options = options
        self._folder = folder
        self._north = DemoCluster("north", folder)
        self._south = DemoCluster("south", folder)
        self._report = DemoReport(topics=list(TOPICS))
        self._began = time.monotonic()

    def run(self) -> int:
        try:
            self._start_clusters()
            self._produce_and_mirror()
            self._disaster()
            self._fail_over()
            self._fail_back()
        finally:
            self._north.stop()
            self._south.stop()
        self._compare()
        self._report.duration_s = time.monotonic() - self._began
        made = Provenance.of(["kmirror", *self._options.given], self._began)
        json_path, html_path = write_reports(self._report, self._options.output, made)
        print_summary(self._report)
        print(f"reports: {json_path}  {html_path}")
        return 0 if self._report.logs_equal else 1

    # -- acts
    # -------------------------------------------------------------------------------------------------------

    def _start_clusters(self) -> None:
        for cluster in (self._north, self._south):
            cluster.format(base64.urlsafe_b64encode(b"K" + secrets.token_bytes(15)).decode()[:22])
            seconds = cluster.start()
            self._say(f"cluster {cluster.name} serves on {cluster.bootstrap_servers} after {seconds:.2f} s (process {cluster.pid})")

    def _produce_and_mirror(self) -> None:
        create_topics(self._north.bootstrap_servers)
        with Workload(self._north.bootstrap_servers) as workload:
            acked = workload.produce(self._options.records)
        size = self._north.log_bytes(list(TOPICS))
        self._say(f"librdkafka wrote {acked:,} records into north ({size / 1e6:.1f} MB of log, lz4 and zstd)")
        self._mirror(self._south, self._north)
        with DemoWatch(self._south, self._report, self._began, source=self._north) as watch:
            began = time.monotonic()
            self._mirrors(self._south, "--add", "--mirror", MIRROR, "--topic", ".*")
            self._wait("south to catch up", lambda: watch.is_caught_up(len(TOPICS)))
            seconds = time.monotonic() - began
        self._report.first_copy_bytes = self._south.log_bytes(list(TOPICS))
        self._report.first_copy_s = seconds
        self._say(f"south has mirrored {self._report.first_copy_bytes / 1e6:.1f} MB in {seconds:.2f} s; it says that its lag is 0")

    def _disaster(self) -> None:
        with DemoWatch(self._south, self._report, self._began, source=self._north), Workload(self._north.bootstrap_servers) as workload:
            workload.start_background()
            time.sleep(2)
            with self._south.stalled():
                began = time.monotonic()
                # The first records that are acknowledged may be on their way to south already.
                self._acknowledge_more(workload)
                self._acknowledge_more(workload)
                hung_s = time.monotonic() - began
                self._north.kill()
            self._report.killed_at_s = time.monotonic() - self._began
            workload.stop_background()
            self._report.acked_by_source = self._options.records + workload.acked
        self._say(
            f"north is dead (SIGKILL) while it was written to and south hung for {hung_s:.1f} s; it had acknowledged {self._report.acked_by_source:,} records"
        )

    def _acknowledge_more(self, workload: Workload) -> None:
        acked, until = workload.acked, time.monotonic() + STALL_S / 2
        self._wait("north to acknowledge more", lambda: workload.acked > acked and time.monotonic() >= until)

    def _fail_over(self) -> None:
        preview = self._mirrors(self._south, "--remove", "--mirror", MIRROR, "--topic", ".*", "--dry-run")
        self._report.failover_preview = preview
        self._say("dry run of the failover: " + preview.strip().splitlines()[-1].strip())
        with DemoWatch(self._south, self._report, self._began) as watch:
            began = time.monotonic()
            self._mirrors(self._south, "--remove", "--mirror", MIRROR, "--topic", ".*")
            with Workload(self._south.bootstrap_servers) as workload:
                workload.wait_until_writable(WAIT_TIMEOUT_S)
                self._report.failover_s = time.monotonic() - began
                self._wait("south to stop mirroring", lambda: watch.all_in_state("STOPPED"))
                self._report.written_after_failover = workload.produce(self._options.records // 10) + workload.probes
        self._say(
            f"south took over in {self._report.failover_s:.2f} s and has acknowledged {self._report.written_after_failover:,} new records"
        )

    def _fail_back(self) -> None:
        seconds = self._north.start()
        self._say(f"north is back after {seconds:.2f} s; its log holds what was acknowledged and never mirrored")
        self._mirror(self._north, self._south)
        preview = self._mirrors(self._north, "--add", "--mirror", MIRROR, "--topic", ".*", "--dry-run")
        self._report.failback_preview = preview
        losses = self._dry_run_losses()
        before = self._north.log_bytes(list(TOPICS))
        with DemoWatch(self._north, self._report, self._began, source=self._south) as watch:
            began = time.monotonic()
            self._mirrors(self._north, "--add", "--mirror", MIRROR, "--topic", ".*")
            self._wait("north to catch up", lambda: watch.is_caught_up(len(TOPICS)))
            self._report.failback_s = time.monotonic() - began
        self._report.truncated_records = sum(loss["records"] for loss in losses)
        self._report.truncated_bytes = sum(loss["bytes"] for loss in losses)
        self._report.log_bytes = self._north.log_bytes(list(TOPICS))
        self._report.failback_bytes = self._report.log_bytes - (before - self._report.truncated_bytes)
        self._say(
            f"north failed back in {self._report.failback_s:.2f} s: {self._report.truncated_records:,} records truncated, "
            f"{self._report.failback_bytes / 1e6:.2f} MB of {self._report.log_bytes / 1e6:.2f} MB transferred"
        )

    def _dry_run_losses(self) -> list[dict[str, Any]]:
        """Returns the records and bytes that the failback will drop, by partition."""
        text = self._mirrors(self._north, "--add", "--mirror", MIRROR, "--topic", ".*", "--dry-run", "--json", show=False)
        return [
            {"records": loss["droppedRecords"], "bytes": sum(batch["sizeInBytes"] for batch in loss["batches"])}
            for loss in json.loads(text)
        ]

    def _compare(self) -> None:
        self._say(f"comparing both clusters' logs ({self._options.engine}) ...")
        command = [
            sys.executable,
            "-m",
            "kmirror.cli.log_diff",
            str(self._north.data),
            str(self._south.data),
            "--engine",
            self._options.engine,
        ]
        report = self._options.output / "log-diff.html"
        self._options.output.mkdir(parents=True, exist_ok=True)
        done = subprocess.run([*command, "--report", str(report)], capture_output=True, text=True, check=False)
        if done.returncode == 2:
            raise KmirrorError(f"kafka-log-diff failed: {done.stderr.strip() or done.stdout.strip()}")
        self._report.logs_equal = done.returncode == 0
        self._report.comparison = done.stdout
        self._report.compared = compared_text(done.stdout)
        equal = f"the logs are equal, byte for byte: {self._report.compared}"
        self._say(equal if self._report.logs_equal else "THE LOGS DIFFER:\n" + done.stdout)

    # -- helpers
    # ----------------------------------------------------------------------------------------------------

    def _mirror(self, destination: DemoCluster, source: DemoCluster) -> None:
        config = self._folder / f"{destination.name}.mirror.properties"
        config.write_text(f"bootstrap.servers={source.bootstrap_servers}\n")
        self._mirrors(destination, "--create", "--mirror", MIRROR, "--mirror-config", str(config))

    def _mirrors(self, cluster: DemoCluster, *arguments: str, show: bool = True) -> str:
        """Run `kafka-mirrors` against a cluster and return its output."""
        if show:
            self._say(f"$ kafka-mirrors --bootstrap-server {cluster.bootstrap_servers} {' '.join(arguments)}")
        command = [sys.executable, "-m", "kmirror.cli.mirrors", "--bootstrap-server", cluster.bootstrap_servers, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise KmirrorError(f"kafka-mirrors {' '.join(arguments)} failed: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def _wait(self, what: str, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_TIMEOUT_S
        while not condition():
            if time.monotonic() > deadline:
                raise KmirrorError(f"waited {WAIT_TIMEOUT_S} s for {what}")
            time.sleep(0.02)

    def _say(self, text: str) -> None:
        print(f"[{time.monotonic() - self._began:5.1f} s] {text}", flush=True)
        self._report.story.append((time.monotonic() - self._began, text))
