"""Mirroring lz4 topics of 1 and of 10 partitions, on the destination's side: MB of log per CPU
second of the destination.

One source serves all: a reference build, for the reference implementation mirrors from nothing else
(from Apache Kafka 4.3 it asks for DESCRIBE_MIRRORS for ever); Apache Kafka or we, where there is
none. In turn: kmirror, the raw relay, the reference implementation; MirrorMaker 2 with its
destination broker once. Each destination mirrors a smaller topic first, so that the Java ones are
measured warm. What counts runs from adding the topic to the last byte in the destination's `.log`
files.
"""

from __future__ import annotations

import pathlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from benches import foreign, load, relay
from benches.harness import MB, Context, Row, cpu_seconds, median, run_command, wait_until
from benches.mirror_source import create_mirror, mirrors

SOURCE_ID = "uDq6vT1dQ1a2u3nP8b5c7w"
MIRROR_COMMAND = "org.apache.kafka.tools.MirrorCommand"
WARM_UP, ONE, TEN = "warm-up", "bench-1", "bench-10"
PARTITIONS = {WARM_UP: 2, ONE: 1, TEN: 10}
Rates = dict[str, list[float]]


def log_files(data: pathlib.Path, topic: str) -> list[pathlib.Path]:
    return [path for number in range(PARTITIONS[topic]) for path in sorted((data / f"{topic}-{number}").glob("*.log"))]


def log_size(data: pathlib.Path, topic: str) -> int:
    return sum(path.stat().st_size for path in log_files(data, topic))


class Source:
    """The source broker, filled."""

    def __init__(self, broker: foreign.Broker, context: Context) -> None:
        self.broker = broker
        self.context = context
        records = context.choose(20_000, 1_000_000)
        for topic, count in ((WARM_UP, records // 10), (ONE, records), (TEN, records)):
            load.create_topic(broker.bootstrap_servers, topic, PARTITIONS[topic])
            arguments = ["produce", broker.bootstrap_servers, topic, str(PARTITIONS[topic]), str(count), "lz4"]
            run_command([sys.executable, "-m", "benches.load", *arguments])
        self.sizes = {topic: log_size(broker.data, topic) for topic in PARTITIONS}

    def copied(self, topic: str, data: pathlib.Path, pids: list[int], add: Callable[[], None], *, size: int | None = None) -> float:
        """MB of source log per CPU second of `pids`, from `add` until the destination has all
        (`size` bytes, the source's by default).
        """
        began, started = sum(map(cpu_seconds, pids)), time.monotonic()
        add()
        if size is None:
            wait_until(lambda: log_size(data, topic) >= self.sizes[topic], f"{topic} to be mirrored", 240)
        else:
            wait_until(lambda: log_size(data, topic) >= size and not _grows(data, topic), f"{topic} to be copied", 300)
        used = sum(map(cpu_seconds, pids)) - began
        self.context.say(f"{topic}: {self.sizes[topic] / MB:.0f} MB, {used:.2f} CPU-s, {time.monotonic() - started:.1f} s")
        return self.sizes[topic] / MB / used


def _grows(data: pathlib.Path, topic: str) -> bool:
    before = log_size(data, topic)
    time.sleep(1)
    return log_size(data, topic) != before


def run(context: Context) -> Iterator[Row]:
    missing = foreign.missing_kafka()
    ours: Rates = {ONE: [], TEN: []}
    bare: Rates = {ONE: [], TEN: []}
    theirs: Rates = {ONE: [], TEN: []}
    maker: Rates = {ONE: [], TEN: []}
    with ExitStack() as stack:
        make = foreign.kmirror if missing else foreign.apache_kafka
        if foreign.missing_reference() is None:
            make = foreign.reference
        source = Source(stack.enter_context(make(context.folder / "source", cluster_id=SOURCE_ID)), context)
        for number in range(context.choose(1, 3)):
            by_kmirror(source, ours, context.folder / f"kmirror-{number}")
            for topic in bare:
                usage = relay.measure(context.folder, log_files(source.broker.data, topic))
                bare[topic].append(source.sizes[topic] / MB / usage.cpu)
                context.say(f"relay {topic}: {usage.cpu:.2f} CPU-s")
            if foreign.missing_reference() is None and number < 2:
                by_reference(source, theirs, context.folder / f"reference-{number}")
        if missing is None:
            by_mirror_maker(source, maker, context.folder / "maker")
    for topic in (ONE, TEN):
        label = f"{PARTITIONS[topic]} partition{'s' if topic == TEN else ''}"
        roofline = median(bare[topic])
        yield row("mirror", label, "MirrorMaker 2 + its broker", 10, ours[topic], maker[topic], roofline, missing)
        yield row("mirror", label, foreign.REFERENCE, 2, ours[topic], theirs[topic], roofline, foreign.missing_reference())
        yield row("mirror", label, "raw relay", 0.6, ours[topic], bare[topic], roofline, None)


def row(
    bench: str, label: str, peer: str, target: float, ours: list[float], theirs: list[float], roofline: float, missing: str | None
) -> Row:
    value = median(ours)
    peer_value = median(theirs) if theirs else None
    ratio = value / peer_value if peer_value else 0.0
    note = f"{ratio:.2f} x" if ratio else ""
    text = f">= {target:g} x {peer}"
    return Row(bench, label, value, "MB of log/CPU-s", text, ratio >= target, missing or peer, peer_value, roofline, note)


def by_kmirror(source: Source, rates: Rates, folder: pathlib.Path) -> None:
    source.context.say("kmirror")
    folder.mkdir()
    with foreign.kmirror(folder) as destination:
        create_mirror(folder, source.broker.bootstrap_servers, destination.bootstrap_servers)
        for topic in PARTITIONS:

            def add(topic: str = topic) -> None:
                mirrors(destination.bootstrap_servers, "--add", "--mirror", "m", "--topic", topic)

            rate = source.copied(topic, destination.data, [destination.pid], add)
            rates.get(topic, []).append(rate)


def by_reference(source: Source, rates: Rates, folder: pathlib.Path) -> None:
    source.context.say("the reference implementation")
    with foreign.reference(folder) as destination:

        def their_mirrors(*arguments: str) -> None:
            done = destination.peer.tool(MIRROR_COMMAND, "--bootstrap-server", destination.bootstrap_servers, *arguments)
            assert done.returncode == 0, done.stdout + done.stderr

        config = folder / "m.properties"
        config.write_text(f"bootstrap.servers={source.broker.bootstrap_servers}\n")
        their_mirrors("--create", "--mirror", "m", "--mirror-config", str(config))
        for topic in PARTITIONS:

            def add(topic: str = topic) -> None:
                their_mirrors("--add", "--mirror", "m", "--topic", topic)

            rate = source.copied(topic, destination.data, [destination.pid], add)
            rates.get(topic, []).append(rate)


@contextmanager
def _copier(source: Source, broker: foreign.ForeignBroker, folder: pathlib.Path, topics: str) -> Iterator[int]:
    with foreign.mirror_maker_2(folder, source.broker.bootstrap_servers, broker.bootstrap_servers, topics) as pid:
        yield pid


def by_mirror_maker(source: Source, rates: Rates, folder: pathlib.Path) -> None:
    """MirrorMaker 2 is told of its topics at its start: it runs twice, and what it used up to its
    first record, its start, does not count.
    """
    source.context.say("MirrorMaker 2")
    with foreign.apache_kafka(folder) as destination:
        for topic in (ONE, TEN):
            with _copier(source, destination, folder / f"maker-{topic}", f"{WARM_UP}, {topic}") as pid:
                wait_until(lambda topic=topic: log_size(destination.data, topic) > 0, "the first record", 180)
                first = log_size(destination.data, topic)
                pids = [pid, destination.pid]
                # The bytes differ from the source's, since everything is compressed anew: all is
                # there when it no longer grows.
                rate = source.copied(topic, destination.data, pids, lambda: None, size=int(0.8 * source.sizes[topic]))
                missed = first / max(1, log_size(destination.data, topic))
                rates[topic].append(rate * (1 - missed))
