"""The setting of most campaigns: Apache Kafka 4.3 as the source, three brokers of ours that mirror
it, and load at the source.

Three topics have two partitions each: `c-plain` with retention by size, `c-compact` compacted,
`c-txn` with transactions. Segments are small and cleaners run often, so that a campaign of minutes
rolls, cleans and deletes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.mirrors.mirror_harness import FAST_MIRROR, call, create_mirror_by_tool, create_topic, kafka_mirrors, wait_for, wait_states
from support.peers.peers import KafkaPeer, apache_kafka

from kmirror.embedded import HOST
from tools.campaigns import checks
from tools.campaigns.cluster import Cluster
from tools.campaigns.created import CreatedTopics
from tools.campaigns.load import Load
from tools.campaigns.run import Run

MIRROR = "campaign"
PARTITIONS = 2
PLAIN, COMPACT, TXN = TOPICS = ("c-plain", "c-compact", "c-txn")
BROKERS = 3
SMALL = {"segment_bytes": "1048576", "segment_ms": "20000"}
TOPIC_CONFIGS = {
    PLAIN: SMALL | {"retention_bytes": "8388608"},
    COMPACT: SMALL | {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.1", "delete_retention_ms": "600000"},
    TXN: SMALL,
}
HASTY = {"log.retention.check.interval.ms": "5000", "log.cleaner.backoff.ms": "3000", "log.segment.delete.delay.ms": "2000"}
DESTINATION = FAST_MIRROR | HASTY | {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "5000",
    "min.insync.replicas": "1",
    "metadata.log.max.record.bytes.between.snapshots": "16384",
}  # fmt: skip


@dataclass
class Stage:
    """A mirror under load; `finish` ends the load and checks every promise."""

    run: Run
    source: KafkaPeer
    destination: Cluster
    load: Load
    created: CreatedTopics

    def goes_on_mirroring(self) -> None:
        partitions = dict.fromkeys(TOPICS, PARTITIONS)
        checks.goes_on_mirroring(self.destination.bootstrap_servers, MIRROR, self.source.bootstrap_servers, partitions)

    def nothing_forgotten(self, node: int) -> None:
        """A broker that has just started knows everything that the controller acknowledged."""
        self.destination.kill_node(node)
        self.destination.start_node(node)
        address = f"{HOST}:{self.destination.nodes[node].port}"
        count = PARTITIONS * len(TOPICS)
        self.run.promise("no topic is forgotten", lambda: self.created.check(address))
        self.run.promise("no partition of the mirror is forgotten", lambda: checks.described(address, MIRROR, count))

    def finish(self, log_dirs: Sequence[Path] | None = None) -> None:
        """Checks every promise, once the load has ended and the damage is mended.

        `log_dirs` are the brokers' directories, if they have others than usual.
        """
        run, servers = self.run, self.destination.bootstrap_servers
        acknowledged = self.load.end()
        run.count("records acknowledged", len(acknowledged))
        run.count("transactions committed", self.load.commits)
        run.count("topics created", self.created.acknowledged)
        run.say(f"the load has ended; refused: {self.load.refused or 'nothing'}")
        self.nothing_forgotten(run.chance.randrange(BROKERS))
        run.promise("nobody is out of the ISR after a minute", lambda: checks.everybody_in_sync(servers))
        count = PARTITIONS * len(TOPICS)
        run.promise("every partition is level with the source", lambda: checks.everything_mirrored(servers, MIRROR, count))
        run.promise("kafka-mirrors --verify", lambda: checks.mirror_verifies(servers, MIRROR))
        for topic in (PLAIN, TXN):
            run.promise(f"nothing missing in {topic}", lambda t=topic: checks.nothing_missing(servers, t, PARTITIONS, acknowledged))
        source = self.source.bootstrap_servers
        run.promise("the last values of every key", lambda: checks.same_last_values(source, servers, COMPACT, PARTITIONS))
        for node in range(BROKERS):
            self.destination.stop_node(node)
        compared = log_dirs or [self.destination.log_dir(node) for node in range(BROKERS)]
        run.promise("all replicas are equal", lambda: checks.replicas_equal(compared))
        run.promise("no log was set aside", lambda: checks.no_strays(compared))


def _topics(bootstrap_servers: str) -> set[str]:
    """What a tool is told that asks now; Apache's controller answers a creation before its brokers
    know of it.
    """
    return set(call(bootstrap_servers, lambda admin: admin.list_topics()))


@contextmanager
def mirrored_from_apache(
    run: Run,
    *,
    source_properties: Mapping[str, str] | None = None,
    bootstrap_servers: str | None = None,
    source_port: int | None = None,
    config: Mapping[str, str] | None = None,
    node_config: Mapping[int, Mapping[str, str]] | None = None,
    combined: bool = False,
) -> Iterator[Stage]:
    """The stage.

    `bootstrap_servers`: where the destination finds the source, if not at its own address, which
    `source_port` tells where `source_properties` say so.
    """
    folder: Path = run.folder
    with (
        apache_kafka(folder / "source", properties=HASTY | dict(source_properties or {})) as source,
        Cluster(
            BROKERS,
            combined=combined,
            folder=folder / "destination",
            config=DESTINATION | dict(config or {}),
            node_config=node_config,
        ) as destination,
    ):
        source.port = source_port or source.port
        for topic in TOPICS:
            create_topic(source.bootstrap_servers, topic, PARTITIONS, **TOPIC_CONFIGS[topic])
        wait_for("the source's brokers to know its topics", lambda: set(TOPICS) <= _topics(source.bootstrap_servers))
        load = Load(source.bootstrap_servers, TOPICS, PARTITIONS, seed=run.seed, keyed=[COMPACT], transactional=[TXN])
        try:
            servers = destination.bootstrap_servers
            create_mirror_by_tool(folder, servers, bootstrap_servers or source.bootstrap_servers, MIRROR)
            kafka_mirrors(servers, "--add", "--mirror", MIRROR, "--topic", "c-.*", "--replication-factor", str(BROKERS))
            wait_states(servers, MIRROR, "MIRRORING", partitions=PARTITIONS * len(TOPICS))
            run.say(f"{', '.join(TOPICS)} are mirrored from {source.bootstrap_servers} to {servers}")
            yield Stage(run, source, destination, load, CreatedTopics(servers, prefix="created", replication_factor=BROKERS))
        finally:
            load.end()
