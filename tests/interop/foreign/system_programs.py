"""Programs of Kafka's own system tests as processes, and what they say.

StreamsSmokeTest comes with the test jar of kafka-streams, TransactionalMessageCopier with
kafka-tools. Kafka's system tests run them on machines of their own and kill them and the brokers;
here each is a JVM on this machine, with its output in a file, and the tests do the killing.

StreamsSmokeTest's driver sends 20,000 records over 90 s. With KMIRROR_FOREIGN=whole it runs as it
is; otherwise `smoke_driver/SmokeDriver.java` calls the same methods for a quarter of the records.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from support.mirrors.mirror_harness import wait_for
from support.peers.peers import KAFKA_VERSION, java, log4j_option
from support.waiting import PROGRAM_S, REACHED_S

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "tools"))

import foreign_suites
import kafka_jars

HERE = pathlib.Path(__file__).parent
SMOKE_TEST = "org.apache.kafka.streams.tests.StreamsSmokeTest"
SMOKE_TOPICS = (
    *("data", "echo", "max", "min", "min-suppressed", "min-raw", "dif", "sum", "sws-raw"),
    *("sws-suppressed", "cnt", "avg", "tagg", "fk"),
)
COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
JVM = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
WHOLE: Final = os.environ.get("KMIRROR_FOREIGN") == "whole"
SMALL_LOAD = (10, 500, 20)
"""Keys, records of each, and over how many seconds they are sent."""
EXACTLY_ONCE = "exactly_once_v2"
FAST_BROKERS = {
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "5000",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "transaction.state.log.min.isr": "2",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
}
"""A dead broker is noticed after two seconds, where Kafka's system tests wait for 18."""


class Program:
    """One running JVM; `said` is what it printed so far."""

    def __init__(self, log: pathlib.Path, main: str, *arguments: str) -> None:
        self.log = log
        tests, kafka = foreign_suites.kafka_streams(), kafka_jars.jars_dir(KAFKA_VERSION)
        command = [java(), *JVM, f"-Djava.io.tmpdir={log.parent}", log4j_option(log.parent)]
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [*command, "-cp", f"{tests}/*:{kafka}/*", main, *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, pattern: str) -> None:
        """Waits until the program says so; fails with its last words if it ends before."""

        def heard() -> bool:
            ended = self.process.poll() is not None
            found = re.search(pattern, self.said) is not None
            assert found or not ended, f"ended before {pattern!r}: {self.said[-3000:]}"
            return found

        wait_for(f"{self.log.name} to say {pattern!r}", heard)

    def wait(self) -> int:
        return self.process.wait(PROGRAM_S)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(REACHED_S)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(REACHED_S)


@contextmanager
def program(log: pathlib.Path, main: str, *arguments: str) -> Iterator[Program]:
    """A program that is killed at the end if it still runs."""
    running = Program(log, main, *arguments)
    try:
        yield running
    finally:
        running.kill()


@contextmanager
def smoke_clients(folder: pathlib.Path, bootstrap: str, guarantee: str) -> Iterator[list[Program]]:
    """StreamsSmokeTest as an application of Kafka Streams, twice, once both say that they run."""
    with ExitStack() as running:
        clients = [
            running.enter_context(program(folder / f"{name}.log", SMOKE_TEST, properties, "process"))
            for name in ("first", "second")
            for properties in [_smoke_properties(folder, name, bootstrap, guarantee)]
        ]
        for client in clients:
            client.wait_for("SMOKE-TEST-CLIENT-STARTED")
        yield clients


@contextmanager
def smoke_driver(folder: pathlib.Path, bootstrap: str, guarantee: str) -> Iterator[Program]:
    """StreamsSmokeTest as the one that sends the records and verifies what came of them."""
    if WHOLE:
        arguments = [SMOKE_TEST, _smoke_properties(folder, "driver", bootstrap, guarantee), "run"]
    else:
        source = HERE / "smoke_driver" / "SmokeDriver.java"
        arguments = [str(source), bootstrap, *map(str, SMALL_LOAD), guarantee]
    with program(folder / "driver.log", *arguments) as driver:
        yield driver


def _smoke_properties(folder: pathlib.Path, name: str, bootstrap: str, guarantee: str) -> str:
    settings = {
        "bootstrap.servers": bootstrap,
        "processing.guarantee": guarantee,
        "state.dir": str(folder / f"{name}-state"),
        "num.stream.threads": "1",
        "replication.factor": "3",
        "session.timeout.ms": "6000",
        "commit.interval.ms": "1000" if guarantee != EXACTLY_ONCE else "100",
        "acceptable.recovery.lag": str(2**63 - 1),
    }
    path = folder / f"{name}.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return str(path)


def smoke_failure(said: str, guarantee: str) -> str:
    """What is wrong with the driver's verdict, "" if nothing is.

    At least once, a client that was killed may have processed records twice; then the driver says
    so instead of SUCCESS, which Kafka's system test takes, too.
    """
    lines = set(said.splitlines())
    for needed in ("Result Verification", "ALL-RECORDS-DELIVERED"):
        if needed not in lines:
            return f"the driver did not say {needed}"
    more = "PROCESSED-MORE-THAN-GENERATED" in lines
    if guarantee == EXACTLY_ONCE and more:
        return "records were processed twice under exactly-once"
    return "" if "SUCCESS" in lines or more else "the driver did not say SUCCESS"


def sent_by_driver(share: float) -> str:
    """What the driver says once it has sent this share of its records."""
    keys, records, _ = (20, 1000, 90) if WHOLE else SMALL_LOAD
    return rf" {int(keys * records * share) // 100 * 100} records produced"


@contextmanager
def copier(log: pathlib.Path, bootstrap: str, partition: int) -> Iterator[Program]:
    """TransactionalMessageCopier from `input` to `output`, one partition of each."""
    arguments = {
        "broker-list": bootstrap,
        "input-topic": "input",
        "input-partition": str(partition),
        "output-topic": "output",
        "consumer-group": f"copier-{partition}",
        "transactional-id": f"copier-{partition}",
        "transaction-size": "20",
        "transaction-timeout": "40000",
    }
    flat = [word for name, value in arguments.items() for word in (f"--{name}", value)]
    with program(log, COPIER, *flat, "--enable-random-aborts", "--use-group-metadata") as running:
        yield running


def remaining(said: str) -> int:
    """How many records were still to be copied at the copier's last report; -1 before the first."""
    reports = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    return int(reports[-1]["remaining"]) if reports else -1
