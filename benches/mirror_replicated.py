"""Mirroring lz4 topics to three brokers with three replicas: MB of source log per CPU second of all
brokers of the destination.

The source is one broker, as in `mirror`. In turn: kmirror (three broker processes and, in this
process, their controller, whose CPU counts as well), three raw relays (each byte is taken in and
written three times, and all three copies are kept), MirrorMaker 2 with a cluster of three Apache
brokers, once. Each destination mirrors a smaller topic first. What counts runs from adding the
topic until all three replicas have the last byte.
"""

from __future__ import annotations

import os
import pathlib
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from benches import foreign, relay
from benches.harness import MB, Context, Row, cpu_seconds, median, run_command, wait_until, warm_memory
from benches.mirror import ONE, PARTITIONS, SOURCE_ID, TEN, WARM_UP, Rates, Source, log_files, log_size, row
from benches.mirror_source import create_mirror, mirrors
from kmirror import EmbeddedCluster

BROKERS = 3
SETTINGS = {"min.insync.replicas": "2", "offsets.topic.replication.factor": "3", "replica.fetch.max.bytes": str(8 << 20)}
"""Of both destinations.

A megabyte a fetch, the default, costs us a third more: what is decided is decided for each fetch.
"""


class Destination:
    """Three data directories, and the processes that fill them."""

    def __init__(self, folders: list[pathlib.Path], pids: list[int]) -> None:
        self.folders = folders
        self.pids = pids

    def cpu(self) -> float:
        return sum(map(cpu_seconds, self.pids))

    def has(self, topic: str, size: int) -> bool:
        return all(log_size(folder, topic) >= size for folder in self.folders)


def run(context: Context) -> Iterator[Row]:
    missing = foreign.missing_kafka()
    ours: Rates = {ONE: [], TEN: []}
    bare: Rates = {ONE: [], TEN: []}
    maker: Rates = {ONE: [], TEN: []}
    with ExitStack() as stack:
        make = foreign.kmirror if missing else foreign.apache_kafka
        source = Source(stack.enter_context(make(context.folder / "source", cluster_id=SOURCE_ID)), context)
        for number in range(context.choose(1, 3)):
            by_kmirror(source, ours, context.folder / f"kmirror-{number}")
            for topic in bare:
                warm_memory(BROKERS * source.sizes[topic])
                usages = relay.measure_copies(context.folder, log_files(source.broker.data, topic), BROKERS)
                bare[topic].append(source.sizes[topic] / MB / sum(usage.cpu for usage in usages))
        if missing is None:
            by_mirror_maker(source, maker, context.folder / "maker")
    for topic in (ONE, TEN):
        label = f"RF 3, {PARTITIONS[topic]} partition{'s' if topic == TEN else ''}"
        roofline = median(bare[topic])
        yield row("mirror_replicated", label, "MirrorMaker 2 + its three brokers", 5, ours[topic], maker[topic], roofline, missing)
        yield row("mirror_replicated", label, "three raw relays", 0.5, ours[topic], bare[topic], roofline, None)


@contextmanager
def _kmirror_destination(folder: pathlib.Path) -> Iterator[tuple[EmbeddedCluster, Destination]]:
    with EmbeddedCluster(brokers=BROKERS, processes=True, mirroring=True, config=SETTINGS, folder=folder) as cluster:
        pids = [os.getpid(), *(node.process.pid for node in cluster.nodes if node.process is not None)]
        yield cluster, Destination([node.log_dir for node in cluster.nodes], pids)
    shutil.rmtree(folder, ignore_errors=True)


def by_kmirror(source: Source, rates: Rates, folder: pathlib.Path) -> None:
    source.context.say("kmirror, three brokers")
    with _kmirror_destination(folder) as (cluster, destination):
        create_mirror(folder, source.broker.bootstrap_servers, cluster.bootstrap_servers)
        for topic in (WARM_UP, ONE, TEN):
            warm_memory(BROKERS * source.sizes[topic])
            began = destination.cpu()
            mirrors(cluster.bootstrap_servers, "--add", "--mirror", "m", "--topic", topic, "--replication-factor", str(BROKERS))
            size = source.sizes[topic]
            wait_until(lambda topic=topic, size=size: destination.has(topic, size), f"{topic} to be mirrored", 240)
            used = destination.cpu() - began
            source.context.say(f"{topic}: {size / MB:.0f} MB, {used:.2f} CPU-s")
            rates.get(topic, []).append(size / MB / used)


def by_mirror_maker(source: Source, rates: Rates, folder: pathlib.Path) -> None:
    """As in `mirror`: told of its topics at its start, so it runs once for each; what it used up to
    its first record does not count.
    """
    source.context.say("MirrorMaker 2, three brokers")
    with foreign.apache_kafka_cluster(folder, BROKERS, SETTINGS) as peers:
        brokers = [peer.process.pid for peer in peers if peer.process is not None]
        bootstrap = ",".join(peer.bootstrap_servers for peer in peers)
        for topic in (ONE, TEN):
            with foreign.mirror_maker_2(
                folder / f"maker-{topic}", source.broker.bootstrap_servers, bootstrap, f"{WARM_UP}, {topic}", replication_factor=BROKERS
            ) as pid:
                destination = Destination([peer.data for peer in peers], [pid, *brokers])
                wait_until(lambda topic=topic, destination=destination: destination.has(topic, 1), "the first record", 180)
                first = min(log_size(data, topic) for data in destination.folders)
                began = destination.cpu()
                # The bytes differ from the source's, since everything is compressed anew: all is
                # there when it no longer grows.
                wait_until(lambda topic=topic, destination=destination: _is_complete(destination, topic, source.sizes[topic]), topic, 400)
                missed = first / max(1, min(log_size(data, topic) for data in destination.folders))
                rates[topic].append(source.sizes[topic] / MB / (destination.cpu() - began) * (1 - missed))


def _is_complete(destination: Destination, topic: str, size: int) -> bool:
    if not destination.has(topic, int(0.8 * size)):
        return False
    before = [log_size(folder, topic) for folder in destination.folders]
    run_command(["sleep", "1"])
    return before == [log_size(folder, topic) for folder in destination.folders]
