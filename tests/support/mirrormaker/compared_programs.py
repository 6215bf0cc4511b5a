"""Apache Kafka's MirrorMaker 2 and `connect-mirror-maker` beside each other: the same flows between the
same clusters, and what each leaves, in a form in which both must be equal.

A flow leads from a cluster to another, both by their names. Each program runs all flows in one
process, under aliases of its own: so both write to the same targets, and nothing of one program is
taken for the other's. The aliases of both are equally long and differ by a digit, which is 0 in what is
compared, bytes of records included.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)

from kmirror.mirrormaker.connect_offsets import parse_key, parse_value
from kmirror.mirrormaker.formats import Heartbeat, OffsetSync
from kmirror.mirrormaker.herder.cluster_config_state import ClusterConfigState
from kmirror.mirrormaker.task_configs import TASK_CONSUMER_GROUPS, TASK_TOPIC_PARTITIONS
from support.mirrormaker.logs_compared import QUIET, Row, read_topics
from support.mirrormaker.mirror_makers import FAST, SERVICE_LOAD, MirrorMakerProcess
from support.waiting import REACHED_S

APACHES, OURS = "1", "2"
"""The programs, as their aliases say."""
PATIENT: Mapping[str, str] = {
    "offset.flush.interval.ms": "500",
    "offset.flush.timeout.ms": "60000",
    "task.shutdown.graceful.timeout.ms": "60000",
    "session.timeout.ms": "60000",
    "scheduled.rebalance.max.delay.ms": "0",
}
"""Of workers. A task that ends too slowly for its worker copies records again, and so does one of a
worker that its group takes for dead.
"""
NOT_COMPARED = ("mm2-configs.", "mm2-status.")
"""What runs where is each program's own."""
Records = dict[str, dict[int, list[Row]]]
"""By topic and partition."""
Logs = dict[str, dict[int, list[tuple[int, Row]]]]
"""The same with their offsets."""


class Cluster:
    """A running cluster, and what a foreign client sees of it."""

    def __init__(self, name: str, servers: str) -> None:
        self.name, self.servers = name, servers
        self.admin = AdminClient({"bootstrap.servers": servers, **QUIET})

    def topics(self) -> dict[str, int]:
        """Partition counts by topic."""
        return {name: len(topic.partitions) for name, topic in self.admin.list_topics(timeout=REACHED_S).topics.items()}

    def end_offsets(self, topics: Mapping[str, int]) -> dict[str, list[int]]:
        """0 for a partition that has no leader yet."""
        asked = {TopicPartition(name, number): OffsetSpec.latest() for name, count in topics.items() for number in range(count)}
        found: dict[str, list[int]] = {name: [0] * count for name, count in topics.items()}
        for partition, future in (self.admin.list_offsets(asked) if asked else {}).items():
            with contextlib.suppress(KafkaException):
                found[partition.topic][partition.partition] = future.result(REACHED_S).offset
        return found

    def own_configs(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        """By topic, the configs that are no defaults of Kafka's."""
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        answers = self.admin.describe_configs(resources) if resources else {}
        return {
            resource.name: {name: entry.value for name, entry in future.result(REACHED_S).items() if not entry.is_default}
            for resource, future in answers.items()
        }

    def topic_acls(self) -> list[Any]:
        every = AclBindingFilter(ResourceType.TOPIC, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY)
        found: list[Any] = self.admin.describe_acls(every).result(REACHED_S)
        return found

    def group_offsets(self, group: str) -> dict[tuple[str, int], tuple[int, str]]:
        """Offset and metadata by topic and partition; nothing of a group that is not there."""
        (future,) = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
        return {
            (one.topic, one.partition): (one.offset, one.metadata or "")
            for one in future.result(REACHED_S).topic_partitions
            if one.offset >= 0
        }


@dataclass(frozen=True)
class Flow:
    """From one cluster to another. `settings` are the flow's own, and `worker` those of its target."""

    source: Cluster
    target: Cluster
    settings: Mapping[str, str] = field(default_factory=dict)
    worker: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.source.name}->{self.target.name}"

    @property
    def isolation(self) -> str:
        return self.settings.get("source.consumer.isolation.level", "read_uncommitted")

    @property
    def is_exactly_once(self) -> bool:
        return self.worker.get("exactly.once.source.support") == "enabled"

    @property
    def syncs_at_target(self) -> bool:
        return self.settings.get("offset-syncs.topic.location") == "target"


class Copy:
    """A flow as one of the programs has it, and what that has left."""

    def __init__(self, flow: Flow, program: str) -> None:
        self.flow, self.program = flow, program
        self.source_alias = f"{flow.source.name}-a{program}"
        self.target_alias = f"{flow.target.name}-b{program}"

    def __repr__(self) -> str:
        return f"{self.source_alias}->{self.target_alias}"

    def remote(self, topic: str) -> str:
        return f"{self.source_alias}.{topic}"

    def local(self, topic: str) -> str:
        """The name at the source of a topic whose aliases are plain."""
        return topic.removeprefix(f"{self.flow.source.name}-a0.")

    def plain(self, data: Any) -> Any:
        """A text or bytes, with aliases that belong to no program."""
        for kind in "ab":
            alias, name = f"-{kind}{self.program}", f"-{kind}0"
            if isinstance(data, str):
                data = data.replace(alias, name)
            elif data is not None:
                data = data.replace(alias.encode(), name.encode())
        return data

    @property
    def syncs_topic(self) -> tuple[Cluster, str]:
        if self.flow.syncs_at_target:
            return self.flow.target, f"mm2-offset-syncs.{self.source_alias}.internal"
        return self.flow.source, f"mm2-offset-syncs.{self.target_alias}.internal"

    # What it has left

    def topics(self) -> dict[str, int]:
        """Partition counts of the topics that are the flow's."""
        prefix, internal = f"{self.source_alias}.", f".{self.source_alias}.internal"
        return {
            name: count
            for name, count in self.flow.target.topics().items()
            if name.startswith(prefix) or (name.endswith(internal) and not name.startswith(NOT_COMPARED))
        }

    def configs(self) -> dict[str, tuple[int, dict[str, str]]]:
        """Partition count and own configs of each topic."""
        topics = self.topics()
        found = {self.local(self.plain(name)): (topics[name], one) for name, one in self.flow.target.own_configs(topics).items()}
        cluster, syncs = self.syncs_topic
        return found | {"offset syncs": (cluster.topics()[syncs], cluster.own_configs([syncs])[syncs])}

    def records(self, topics: Mapping[str, int], isolation: str = "read_uncommitted") -> Logs:
        remote = {self.remote(topic): count for topic, count in topics.items()}
        read = read_topics(self.flow.target.servers, remote, isolation=isolation)
        return {topic: read[self.remote(topic)] for topic in topics}

    def end_offsets(self, topics: Mapping[str, int]) -> dict[str, list[int]]:
        """By topic and partition; 0 for what is not there yet."""
        present = self.flow.target.topics()
        found = self.flow.target.end_offsets(
            {self.remote(topic): count for topic, count in topics.items() if present.get(self.remote(topic)) == count}
        )
        return {topic: found.get(self.remote(topic), [0] * count) for topic, count in topics.items()}

    def acls(self) -> set[tuple[str, ...]]:
        return {
            (
                self.local(self.plain(one.name)),
                one.resource_pattern_type.name,
                one.principal,
                one.host,
                one.operation.name,
                one.permission_type.name,
            )
            for one in self.flow.target.topic_acls()
            if one.name.startswith(f"{self.source_alias}.")
        }

    def syncs(self) -> list[tuple[bytes, bytes]]:
        """All, as their bytes; nothing yet if the topic is not there."""
        cluster, topic = self.syncs_topic
        if topic not in cluster.topics():
            return []
        return [(self.plain(row.key), self.plain(row.value)) for _, row in read_topics(cluster.servers, {topic: 1})[topic][0]]

    def checkpoints(self) -> dict[bytes, bytes]:
        """The newest of each group and partition, as its bytes; nothing yet if the topic is not there."""
        topic = f"{self.source_alias}.checkpoints.internal"
        if topic not in self.flow.target.topics():
            return {}
        rows = read_topics(self.flow.target.servers, {topic: 1})[topic][0]
        return {self.plain(row.key): self.plain(row.value) for _, row in rows}

    def heartbeats(self) -> list[tuple[Row, Heartbeat]]:
        rows = read_topics(self.flow.target.servers, {"heartbeats": 1})["heartbeats"][0]
        beats = [(row, Heartbeat.deserialize_record(row.key, row.value)) for _, row in rows]
        return [
            (row, beat)
            for row, beat in beats
            if (beat.source_cluster_alias, beat.target_cluster_alias) == (self.source_alias, self.target_alias)
        ]

    def stored(self) -> dict[tuple[str, str], int | None]:
        """Connect's offsets by connector and source partition."""
        topic = f"mm2-offsets.{self.source_alias}.internal"
        found: dict[tuple[str, str], int | None] = {}
        for rows in read_topics(self.flow.target.servers, {topic: self.flow.target.topics()[topic]}, isolation="read_committed")[
            topic
        ].values():
            for _, row in rows:
                assert row.key is not None and parse_key(row.key) == row.key, f"not a key of this topic, or not in its order: {row.key!r}"
                connector, source = json.loads(row.key)
                found[connector, self.plain(json.dumps(source))] = None if row.value is None else parse_value(row.value)
        return found

    def tasks(self) -> dict[str, set[str]]:
        """By connector, the partitions or groups that its tasks have."""
        topic, state = f"mm2-configs.{self.source_alias}.internal", ClusterConfigState()
        for _, row in read_topics(self.flow.target.servers, {topic: 1})[topic][0]:
            state.handle_record(row.key, row.value)
        found: dict[str, set[str]] = {"MirrorSourceConnector": set(), "MirrorCheckpointConnector": set()}
        for connector, names in found.items():
            for props in state.task_configs(connector) or []:
                names.update((props.get(TASK_TOPIC_PARTITIONS) or props[TASK_CONSUMER_GROUPS]).split(","))
        return found

    def group_offsets(self, group: str) -> dict[tuple[str, int], tuple[int, str]]:
        """The group's at the target, by topic of the source."""
        prefix = f"{self.source_alias}."
        found = self.flow.target.group_offsets(group)
        return {(topic.removeprefix(prefix), number): one for (topic, number), one in found.items() if topic.startswith(prefix)}


def properties_of(flows: Sequence[Flow], program: str, settings: Mapping[str, str]) -> dict[str, str]:
    """One file with all the flows, as this program has them."""
    copies = [Copy(flow, program) for flow in flows]
    servers = {copy.source_alias: copy.flow.source.servers for copy in copies} | {
        copy.target_alias: copy.flow.target.servers for copy in copies
    }
    props = {"clusters": ", ".join(servers), "emit.heartbeats.enabled": "false"}
    for alias, address in servers.items():
        props[f"{alias}.bootstrap.servers"] = address
        props |= {f"{alias}.{name}": value for name, value in PATIENT.items()}
    for copy in copies:
        props |= {f"{copy}.enabled": "true", f"{copy}.emit.heartbeats.enabled": "true"}
        props |= {f"{copy}.{name}": value for name, value in copy.flow.settings.items()}
        props |= {f"{copy.target_alias}.{name}": value for name, value in copy.flow.worker.items()}
    props |= {f"{prefix}{name}": value for prefix in ("", *(f"{alias}." for alias in servers)) for name, value in SERVICE_LOAD.items()}
    return {**props, **FAST, **settings}


class Programs:
    """Both, and their flows."""

    def __init__(self, running: Mapping[str, MirrorMakerProcess], flows: Sequence[Flow]) -> None:
        self.running, self.flows = running, flows
        self.copies = [Copy(flow, program) for flow in flows for program in running]

    def until(self, what: str, found: Callable[[Copy], Any]) -> None:
        """Waits until it is true of each flow of each program."""
        for copy in self.copies:
            self.running[copy.program].until(f"{copy}: {what}", lambda: found(copy))

    def until_copied(self, wanted: Mapping[str, Mapping[str, Records]]) -> None:
        """Waits until the targets have as many records as `wanted` says, which has records by the
        source's name and the isolation level.
        """
        for copy in self.copies:
            records = wanted[copy.flow.source.name][copy.flow.isolation]
            counts = {topic: len(rows) for topic, rows in records.items()}
            total = sum(len(rows) for topic in records.values() for rows in topic.values())
            self.running[copy.program].until(f"{copy}: {total} records", lambda: sum(map(sum, copy.end_offsets(counts).values())) >= total)

    def stop(self) -> None:
        for program in self.running.values():
            assert program.stop() in (0, 143), program.log[-4000:]


def assert_syncs_pair_records(copy: Copy, source: Logs, target: Logs) -> None:
    """Each offset sync names the same record of the source and of the target. Topics that `source`
    does not have are left out.
    """
    at_source = {(topic, number): dict(found) for topic, log in source.items() for number, found in log.items()}
    at_target = {(topic, number): dict(found) for topic, log in target.items() for number, found in log.items()}
    syncs = [OffsetSync.deserialize_record(key, value) for key, value in copy.syncs()]
    assert syncs, copy
    for sync in syncs:
        place = tuple(sync.topic_partition)
        assert (
            sync.topic_partition.topic not in source or at_source[place][sync.upstream_offset] == at_target[place][sync.downstream_offset]
        ), (copy, sync)


def wait_until(what: str, found: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + REACHED_S
    while not (value := found()):
        assert time.monotonic() < deadline, what
        time.sleep(0.1)
    return value
