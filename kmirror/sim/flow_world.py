"""What the flows of a seed are like: the options of MirrorMaker 2 that its properties file has, and
what happens to its workers.

Drawn apart from the story, so that a story stays the same where an option is added at the end. With
a compression the trace of a seed also depends on the version of the library that compresses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kmirror.common.ports import Random
from kmirror.sim.fleet_clients import MARK

SOURCE, TARGET = "a", "b"
COMPRESSIONS = ("", "", "", "gzip", "lz4", "zstd", "none")
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
EXACTLY_ONCE_PERCENT = 45
BOTH_WAYS_PERCENT = 20
IDENTITY_PERCENT = 20
SYNCS_AT_TARGET_PERCENT = 40
UNCOMMITTED_PERCENT = 20
SMALL_REQUESTS_PERCENT = 15
INTERVAL_PERCENT = 40
REPLACED_PERCENT = 60
GROWS_PERCENT = 35
DISK_FAULTS_PERCENT = 20
SINK_PERCENT = 25
EVERY_CLIENT = {"request.timeout.ms": "2500", "metadata.max.age.ms": "2000"}
OF_A_KIND: Mapping[str, Mapping[str, str]] = {
    "admin": {"default.api.timeout.ms": "6000"},
    "consumer": {"default.api.timeout.ms": "6000", "fetch.max.wait.ms": "400", "fetch.min.bytes": "600"},
    "producer": {"linger.ms": "0"},
}
GROUP = {"heartbeat.interval.ms": "700", "session.timeout.ms": "6000", "rebalance.timeout.ms": "10000"}
"""The workers' own group."""
CLASSIC = {"heartbeat.interval.ms": "700", "session.timeout.ms": "6000"}
PROTOCOLS: Mapping[str, Mapping[str, str]] = {
    "range": CLASSIC,
    "cooperative-sticky": {**CLASSIC, "partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}
ONE_PARTITION_PERCENT = 35
FILTER: Mapping[str, str] = {
    "transforms": "drop",
    "transforms.drop.type": "Filter",
    "transforms.drop.predicate": "marked",
    "predicates": "marked",
    "predicates.marked.type": "HasHeaderKey",
    "predicates.marked.name": MARK[0],
}


@dataclass(frozen=True, slots=True)
class FlowWorld:
    """`replaced`: while a worker stands still another one takes its place, and then both run for a
    moment. `protocol` is that of the workers' group, told and never drawn. `workers` share the flows. Both are drawn with exactly-once support only: two that copy at
    least once at the same time may leave a group's translation ahead of what one of them copies again.
    `grows`: there is one more partition, or topic. `sink`: the workers are at the source (MC2).
    `deletes`, which is never drawn: an operator deletes the target's topic, and the workers, which nothing
    happens to, make it anew. (A worker that dies before it has said where the new topic begins may
    leave a group ahead, in Apache's program, too.) `filters`, which is never drawn: each flow drops records
    that their writers have marked.
    """

    exactly_once: bool = False
    tasks: int = 1
    both_ways: bool = False
    identity: bool = False
    syncs_at_target: bool = False
    committed: bool = True
    compression: str = ""
    small_requests: bool = False
    interval: bool = False
    lag_max: int = 100
    replaced: bool = False
    grows: bool = False
    disks_break: bool = False
    workers: int = 1
    sink: bool = False
    deletes: bool = False
    protocol: str = "eager"
    filters: bool = False

    @classmethod
    def drawn(cls, random: Random, **told: Any) -> FlowWorld:
        """Draws the options by the seed, except what is `told`."""

        def chance(percent: int) -> bool:
            return random.randrange(100) < percent

        world = cls(
            exactly_once=chance(EXACTLY_ONCE_PERCENT),
            tasks=1 + random.randrange(3),
            both_ways=chance(BOTH_WAYS_PERCENT),
            identity=chance(IDENTITY_PERCENT),
            syncs_at_target=chance(SYNCS_AT_TARGET_PERCENT),
            committed=not chance(UNCOMMITTED_PERCENT),
            compression=COMPRESSIONS[random.randrange(len(COMPRESSIONS))],
            small_requests=chance(SMALL_REQUESTS_PERCENT),
            interval=chance(INTERVAL_PERCENT),
            lag_max=(0, 3, 100)[random.randrange(3)],
            replaced=chance(REPLACED_PERCENT),
            grows=chance(GROWS_PERCENT),
            disks_break=chance(DISK_FAULTS_PERCENT),
            workers=1 + random.randrange(3),
            sink=chance(SINK_PERCENT),
        )
        world = replace(world, **told)
        return replace(
            world,
            workers=world.workers if world.exactly_once else 1,
            sink=world.sink and not world.exactly_once,
            identity=world.identity and not world.both_ways,  # the two would loop for ever (CY4)
            committed=world.committed or world.exactly_once,
            replaced=world.replaced and world.exactly_once,
        )

    def flows(self) -> list[tuple[str, str]]:
        """The flows that copy, by their clusters."""
        return [(SOURCE, TARGET), (TARGET, SOURCE)] if self.both_ways else [(SOURCE, TARGET)]

    def remote(self, source: str, topic: str) -> str:
        return topic if self.identity else f"{source}.{topic}"

    def syncs_topic(self, source: str, target: str) -> tuple[str, str]:
        """Returns the cluster that has a flow's topic of offset syncs, and the topic."""
        return (target, f"mm2-offset-syncs.{source}.internal") if self.syncs_at_target else (source, f"mm2-offset-syncs.{target}.internal")

    def properties(self, servers: Callable[[str], str]) -> dict[str, str]:
        """The properties file of a worker. `servers`: a cluster's bootstrap servers."""
        props = {
            "clusters": f"{SOURCE}, {TARGET}",
            f"{SOURCE}->{TARGET}.enabled": "true",
            f"{TARGET}->{SOURCE}.enabled": str(self.both_ways).lower(),
            "topics": ".*orders",
            "tasks.max": str(self.tasks),
            "replication.factor": "3",
            "offset.lag.max": str(self.lag_max),
            "offset.storage.partitions": "2",
            "consumer.poll.timeout.ms": "500",
            "admin.timeout.ms": "8000",
            "offset-syncs.topic.location": "target" if self.syncs_at_target else "source",
            "sync.topic.acls.enabled": "false",
            "sync.topic.configs.interval.seconds": "5",
            "refresh.topics.interval.seconds": "2",
            "refresh.groups.interval.seconds": "2",
            "emit.checkpoints.interval.seconds": "1",
            "sync.group.offsets.enabled": "true",
            "sync.group.offsets.interval.seconds": "1",
        }
        if self.sink:
            props |= {f"{source}->{target}.connector.class": "MirrorSinkConnector" for source, target in self.flows()}
        if self.identity:
            props["replication.policy.class"] = IDENTITY
        if self.interval:
            props |= {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "400"}
        for cluster in (SOURCE, TARGET):
            props |= self._of_cluster(cluster, servers(cluster))
        if self.filters:
            props |= {f"{source}->{target}.{name}": value for source, target in self.flows() for name, value in FILTER.items()}
        if self.small_requests:
            props |= {f"{source}->{target}.producer.override.max.request.size": "260" for source, target in self.flows()}
        return props

    def workers_settings(self) -> dict[str, str]:
        """What workers have besides their file, so that it does not stand in the configs of connectors: a
        story stays the same that has no protocol of its own.
        """
        return {"connect.protocol": self.protocol, "scheduled.rebalance.max.delay.ms": "4000"}

    def _of_cluster(self, cluster: str, servers: str) -> dict[str, str]:
        props = {f"{cluster}.bootstrap.servers": servers, f"{cluster}.offset.flush.interval.ms": "700"}
        for kind, own in OF_A_KIND.items():
            props |= {f"{cluster}.{kind}.{name}": value for name, value in {**EVERY_CLIENT, **own}.items()}
        is_source = cluster in [source for source, _ in self.flows()]
        props[f"{cluster}.consumer.isolation.level"] = "read_committed" if self.committed and is_source else "read_uncommitted"
        if self.compression:
            props[f"{cluster}.producer.compression.type"] = self.compression
        props |= {f"{cluster}.{name}": value for name, value in GROUP.items()}
        if self.exactly_once:
            props[f"{cluster}.exactly.once.source.support"] = "enabled"
        return props

    def __str__(self) -> str:
        found = [f"{self.tasks} tasks a flow", f"offset.lag.max {self.lag_max}"]
        found += ["exactly once"] if self.exactly_once else []
        found += ["workers at the source"] if self.sink else []
        found += [f"{self.workers} workers"] if self.workers > 1 else []
        found += ["transactions of some polls"] if self.exactly_once and self.interval else []
        found += ["both ways"] if self.both_ways else []
        found += ["names are kept"] if self.identity else []
        found += ["offset syncs at the target"] if self.syncs_at_target else []
        found += [] if self.committed else ["aborted records are copied"]
        found += [f"compression {self.compression}"] if self.compression else []
        found += ["small requests"] if self.small_requests else []
        found += ["a worker that stands still is replaced"] if self.replaced else []
        found += ["the source grows"] if self.grows else []
        found += ["disks break"] if self.disks_break else []
        found += ["the target's topic is deleted"] if self.deletes else []
        found += [] if self.protocol == "eager" else [f"protocol {self.protocol}"]
        found += ["marked records are dropped"] if self.filters else []
        return ", ".join(found)


@dataclass(frozen=True, slots=True)
class LegacyWorld:
    """What a seed's processes of the legacy MirrorMaker are like. `one_partition`: the target's topic
    has one, which all records go to; else a handler keeps each record's partition.
    """

    processes: int = 1
    streams: int = 1
    protocol: str = "range"
    committed: bool = True
    one_partition: bool = False
    compression: str = ""
    disks_break: bool = False

    @classmethod
    def drawn(cls, random: Random) -> LegacyWorld:
        return cls(
            processes=1 + random.randrange(2),
            streams=1 + random.randrange(2),
            protocol=tuple(PROTOCOLS)[random.randrange(len(PROTOCOLS))],
            committed=random.randrange(100) >= UNCOMMITTED_PERCENT,
            one_partition=random.randrange(100) < ONE_PARTITION_PERCENT,
            compression=COMPRESSIONS[random.randrange(len(COMPRESSIONS))],
            disks_break=random.randrange(100) < DISK_FAULTS_PERCENT,
        )

    def properties(self, servers: Callable[[str], str]) -> tuple[dict[str, str], dict[str, str]]:
        """The two properties files: the consumer's and the producer's."""
        consumer = {
            "bootstrap.servers": servers(SOURCE),
            "group.id": "legacy",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed" if self.committed else "read_uncommitted",
            **EVERY_CLIENT,
            **OF_A_KIND["consumer"],
            **PROTOCOLS[self.protocol],
        }
        producer = {"bootstrap.servers": servers(TARGET), **EVERY_CLIENT}
        return consumer, producer | ({"compression.type": self.compression} if self.compression else {})

    def __str__(self) -> str:
        found = [f"{self.processes} processes of {self.streams} streams", f"group protocol {self.protocol}"]
        found += [] if self.committed else ["aborted records are copied"]
        found += ["all records go to one partition"] if self.one_partition else []
        found += [f"compression {self.compression}"] if self.compression else []
        found += ["disks break"] if self.disks_break else []
        return ", ".join(found)


def servers_of(bootstrap: Sequence[tuple[str, int]]) -> str:
    return ",".join(f"{host}:{port}" for host, port in bootstrap)
