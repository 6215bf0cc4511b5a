"""The actions of `kafka-topics`, over `AdminClient`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable

from kmirror.admin.admin_client import AdminClient
from kmirror.admin.reassignments import PartitionReassignment
from kmirror.admin.results import ConfigEntry, NewPartitions, NewTopic, PartitionDescription, TopicDescription
from kmirror.cli.java_texts import java_int, java_split
from kmirror.cli.tool_client import with_admin
from kmirror.cli.tool_options import print_json
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.java_hash_map import hash_map_order
from kmirror.common.topic_partition import INTERNAL_TOPICS, TopicPartition
from kmirror.common.uuid import Uuid

MIN_IN_SYNC_REPLICAS = "min.insync.replicas"
MAX_SHORT = 32_767
COLLISION_WARNING = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. "
    "To avoid issues it is best to use either, but not both."
)


class TopicCommand:
    """One invocation."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options

    def run(self) -> int:
        options = self._options
        action = next(name for name in ("create", "alter", "list", "describe", "delete") if getattr(options, name))
        with_admin(options.bootstrap_server, options.command_config, getattr(self, f"_{action}"))
        return 0

    async def _create(self, admin: AdminClient) -> None:
        options = self._options
        assignment = parse_replica_assignment(options.replica_assignment)
        configs = parse_configs(options.config)
        if "." in options.topic or "_" in options.topic:
            print(COLLISION_WARNING)
        if options.replication_factor is not None and not 1 <= options.replication_factor <= MAX_SHORT:
            raise KmirrorError(f"The replication factor must be between 1 and {MAX_SHORT} inclusive")
        if options.partitions is not None and options.partitions < 1:
            raise KmirrorError("The partitions must be greater than 0")
        partitions = -1 if options.partitions is None else options.partitions
        factor = -1 if options.replication_factor is None else options.replication_factor
        new = NewTopic(options.topic, partitions, factor, configs, dict(enumerate(assignment)) or None)
        error = (await admin.create_topics([new])).errors[options.topic]
        if error is None:
            print(f"Created topic {options.topic}.")
        elif not (error.error is Errors.TOPIC_ALREADY_EXISTS and options.if_not_exists):
            raise error

    async def _alter(self, admin: AdminClient) -> None:
        options = self._options
        topics = await self._topics(admin)
        assignment = parse_replica_assignment(options.replica_assignment)
        wanted: dict[str, int | NewPartitions] = {}
        for name, description in (await admin.describe_topics(topics)).items():
            new = assignment[len(description.partitions) :] if assignment else None
            wanted[name] = NewPartitions(options.partitions, new)
        if wanted:
            (await admin.create_partitions(wanted)).all()

    async def _delete(self, admin: AdminClient) -> None:
        topics = await self._topics(admin)
        if topics:
            (await admin.delete_topics(topics)).all()

    async def _list(self, admin: AdminClient) -> None:
        topics = await self._topics(admin, must_exist=False)
        if self._options.json:
            print_json(topics)
        else:
            print("\n".join(topics))

    async def _describe(self, admin: AdminClient) -> None:
        described = await self._described(admin)
        configs = {name: in_java_order(_known(entries)) for name, entries in (await admin.describe_topic_configs(described)).items()}
        live = {node.id for node in (await admin.describe_cluster()).nodes}
        names = [TopicPartition(name, row.partition) for name, topic in described.items() for row in topic.partitions]
        try:
            moves = await admin.list_partition_reassignments(names) if names else {}
        except ApiException as error:
            if error.error not in (Errors.UNSUPPORTED_VERSION, Errors.CLUSTER_AUTHORIZATION_FAILED):
                raise
            moves = {}
        report = TopicReport(self._options, live, moves)
        if self._options.json:
            print_json([report.as_json(topic, configs[name]) for name, topic in described.items() if report.shows(configs[name])])
            return
        for name, topic in described.items():
            for line in report.lines(topic, configs[name]):
                print(line)

    async def _described(self, admin: AdminClient) -> dict[str, TopicDescription]:
        options = self._options
        topic_id = None if options.topic_id is None else _topic_id(options.topic_id)
        if topic_id is None or topic_id == Uuid.ZERO:
            names = await self._topics(admin)
            limit = options.partition_size_limit_per_response or 2000
            try:
                found = await admin.describe_topic_partitions(names, partitions_per_response=limit)
            except ApiException as error:
                if error.error is not Errors.UNSUPPORTED_VERSION:
                    raise
                found = await admin.describe_topics(names)
            return {name: found[name] for name in names if name in found}
        listed = [row for row in await admin.list_topic_listings() if row.topic_id == topic_id]
        if not listed and not options.if_exists:
            raise KmirrorError(f"TopicId '{topic_id}' does not exist as expected")
        return {row.name: row for row in (await admin.describe_topics_by_ids([row.topic_id for row in listed])).values()}

    async def _topics(self, admin: AdminClient, *, must_exist: bool = True) -> list[str]:
        """Returns the topics that `--topic` means."""
        options = self._options
        names = await admin.list_topics(include_internal=not options.exclude_internal)
        if options.topic is None:
            return names
        found = matching(options.topic, names, exclude_internal=options.exclude_internal)
        if must_exist and options.topic and not options.if_exists and not found:
            raise KmirrorError(f"Topic '{options.topic}' does not exist as expected")
        return found


class TopicReport:
    """What `--describe` shows of a topic."""

    def __init__(self, options: argparse.Namespace, live: set[int], moves: dict[TopicPartition, PartitionReassignment]) -> None:
        self._options = options
        self._live = live
        self._moves = moves
        reports = (
            options.under_replicated_partitions,
            options.unavailable_partitions,
            options.under_min_isr_partitions,
            options.at_min_isr_partitions,
        )
        self._is_report = any(reports)

    def shows(self, configs: list[ConfigEntry]) -> bool:
        return not self._options.topics_with_overrides or any(not entry.is_default for entry in configs)

    def lines(self, topic: TopicDescription, configs: list[ConfigEntry]) -> list[str]:
        lines = []
        if not self._is_report and self.shows(configs):
            shown = ",".join(f"{entry.name}={entry.value}" for entry in configs if not entry.is_default)
            topic_id = "" if topic.topic_id == Uuid.ZERO else f"\tTopicId: {topic.topic_id}"
            count, factor = len(topic.partitions), self._replication_factor(topic.name, topic.partitions[0])
            lines.append(f"Topic: {topic.name}{topic_id}\tPartitionCount: {count}\tReplicationFactor: {factor}\tConfigs: {shown}")
        if not self._options.topics_with_overrides:
            lines += [self._line(topic.name, row) for row in self._rows(topic, configs)]
        return lines

    def as_json(self, topic: TopicDescription, configs: list[ConfigEntry]) -> dict[str, object]:
        return {
            "topic": topic.name,
            "topicId": str(topic.topic_id),
            "internal": topic.is_internal,
            "partitionCount": len(topic.partitions),
            "replicationFactor": self._replication_factor(topic.name, topic.partitions[0]),
            "configs": {entry.name: entry.value for entry in configs if not entry.is_default},
            "partitions": [
                {
                    "partition": row.partition,
                    "leader": row.leader if row.leader >= 0 else None,
                    "leaderEpoch": row.leader_epoch,
                    "replicas": row.replicas,
                    "isr": row.isr,
                    "elr": row.elr,
                    "lastKnownElr": row.last_known_elr,
                    "addingReplicas": self._move(topic.name, row).adding_replicas,
                    "removingReplicas": self._move(topic.name, row).removing_replicas,
                }
                for row in self._rows(topic, configs)
            ],
        }

    def _rows(self, topic: TopicDescription, configs: list[ConfigEntry]) -> Iterable[PartitionDescription]:
        minimum = next((int(entry.value or 1) for entry in configs if entry.name == MIN_IN_SYNC_REPLICAS), 1)
        rows = sorted(topic.partitions, key=lambda row: row.partition)
        return [row for row in rows if not self._is_report or self._is_reported(topic.name, row, minimum)]

    def _is_reported(self, name: str, row: PartitionDescription, minimum: int) -> bool:
        options, has_leader = self._options, row.leader >= 0
        return bool(
            (options.under_replicated_partitions and self._replication_factor(name, row) > len(row.isr))
            or (options.unavailable_partitions and (not has_leader or row.leader not in self._live))
            or (options.under_min_isr_partitions and (not has_leader or len(row.isr) < minimum))
            or (options.at_min_isr_partitions and len(row.isr) == minimum)
        )

    def _move(self, name: str, row: PartitionDescription) -> PartitionReassignment:
        return self._moves.get(TopicPartition(name, row.partition), PartitionReassignment(row.replicas, [], []))

    def _replication_factor(self, name: str, row: PartitionDescription) -> int:
        """Returns the number of replicas without those that a reassignment adds.

        The reassignment may have ended since it was asked for.
        """
        move = self._move(name, row)
        is_going_on = bool(set(row.replicas) & {*move.adding_replicas, *move.removing_replicas})
        return len(move.replicas) - len(move.adding_replicas) if is_going_on else len(row.replicas)

    def _line(self, name: str, row: PartitionDescription) -> str:
        leader = str(row.leader) if row.leader >= 0 else "none"
        line = f"\tTopic: {name}\tPartition: {row.partition}\tLeader: {leader}\tReplicas: {ids(row.replicas)}\tIsr: {ids(row.isr)}"
        if TopicPartition(name, row.partition) in self._moves:
            move = self._move(name, row)
            line += f"\tAdding Replicas: {ids(move.adding_replicas)}\tRemoving Replicas: {ids(move.removing_replicas)}"
        elr = "N/A" if row.elr is None else ids(row.elr)
        last = "N/A" if row.last_known_elr is None else ids(row.last_known_elr)
        return f"{line}\tElr: {elr}\tLastKnownElr: {last}"


def in_java_order(entries: list[ConfigEntry]) -> list[ConfigEntry]:
    """Returns the entries in the order of Kafka's `Config`."""
    by_name = {entry.name: entry for entry in entries}
    return [by_name[name] for name in hash_map_order(by_name)]


def _known(entries: list[ConfigEntry] | ApiException) -> list[ConfigEntry]:
    if isinstance(entries, ApiException):
        raise entries
    return entries


def ids(values: Iterable[int]) -> str:
    return ",".join(map(str, values))


def matching(pattern: str, names: Iterable[str], *, exclude_internal: bool = False) -> list[str]:
    """Returns the names that a list of regular expressions matches in full.

    Commas separate alternatives; quotes are ignored.
    """
    text = pattern.strip().replace(",", "|").replace(" ", "")
    text = re.sub(r'^["\']+|["\']+$', "", text)
    try:
        compiled = re.compile(text)
    except re.error as error:
        raise KmirrorError(f"{pattern} is an invalid regex.") from error
    return [name for name in names if compiled.fullmatch(name) and not (exclude_internal and name in INTERNAL_TOPICS)]


def _topic_id(text: str) -> Uuid:
    try:
        return Uuid.from_string(text)
    except ValueError as error:
        raise KmirrorError(str(error)) from error


def parse_replica_assignment(text: str | None) -> list[list[int]]:
    """Parse `1:2,2:3`: the brokers of each partition.

    KmirrorError, with Kafka's words, for what cannot be.
    """
    if not text:
        return []
    rows = []
    for index, part in enumerate(java_split(text, ",")):
        brokers = [java_int(word.strip()) for word in java_split(part, ":")]
        doubled = [broker for broker in dict.fromkeys(brokers) if brokers.count(broker) > 1]
        if doubled:
            raise KmirrorError(f"Partition replica lists may not contain duplicate entries: {ids(doubled)}")
        rows.append(brokers)
        if len(brokers) != len(rows[0]):
            raise KmirrorError(f"Partition {index} has different replication factor: {brokers}")
    return rows


def parse_configs(texts: Iterable[str]) -> dict[str, str]:
    """Parse `name=value` words."""
    values = {}
    for text in texts:
        words = java_split(text, r"\s*=\s*")
        if len(words) != 2:
            raise KmirrorError('requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".')
        values[words[0].strip()] = words[1].strip()
    return values
