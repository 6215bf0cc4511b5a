"""Which partitions of an input are replayed into which topics, and what those topics need."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kmirror.admin.results import NewTopic, TopicDescription
from kmirror.cli.log_diff_inputs import FolderInput
from kmirror.cli.replay_progress import counted
from kmirror.cli.replay_source import RecordedPartition
from kmirror.common.errors import CorruptFileError, KmirrorError
from kmirror.common.ports import FileSystem
from kmirror.common.topic_partition import TopicPartition
from kmirror.storage.reader import PartitionFiles
from kmirror.verify.data_dir_logs import choose_partitions

CREATED_WITH: Mapping[str, str] = {"retention.ms": "-1", "message.timestamp.type": "CreateTime"}
"""Configs of a created topic unless the user gives others.

Records keep their timestamps, and old ones are not deleted because of their age.
"""


@dataclass(frozen=True, slots=True)
class Selection:
    """What the user asked for: the options' texts, checked."""

    topics: str | None = None
    partitions: frozenset[int] | None = None
    renames: Sequence[tuple[re.Pattern[str], str]] = ()
    first_timestamp: int | None = None
    last_timestamp: int | None = None
    drops_aborted: bool = False

    def renamed(self, topic: str) -> str | None:
        """Returns the name at the destination, or None if no --rename matches."""
        for pattern, name in self.renames:
            match = pattern.fullmatch(topic)
            if match is not None:
                return match.expand(name)
        return None


@dataclass(frozen=True, slots=True)
class Plan:
    """What to replay. `counts`: the recorded number of partitions, by topic of the destination."""

    partitions: list[RecordedPartition]
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(partition.size for partition in self.partitions)


def parse_rename(text: str) -> tuple[re.Pattern[str], str]:
    """Parse `FROM=TO`: FROM is a regular expression for whole names, TO may use groups as \\1."""
    pattern, equals, name = text.partition("=")
    if not equals or not pattern or not name:
        raise KmirrorError(f"--rename takes FROM=TO, not '{text}'")
    try:
        compiled = re.compile(pattern)
        compiled.sub(name, "")
        groups = compiled.groups
    except (re.error, IndexError) as error:
        raise KmirrorError(f"--rename: '{text}' is not a regular expression and a name: {error}") from error
    for number in re.findall(r"\\(\d+)", name):
        if int(number) > groups:
            raise KmirrorError(f"--rename: '{pattern}' has no group {number}")
    return compiled, name


def make_plan(recorded: FolderInput, location: str, wanted: Selection) -> Plan:
    """Returns every partition that was asked for, one replica of each.

    Kafka's internal topics are replayed only under another name, because no client may write to
    them. KmirrorError if there is no partition, or two partitions have the same target.
    """
    topics = _pattern(wanted.topics)
    names = choose_partitions(recorded.names, topics=topics, partitions=wanted.partitions, include_internal=True)
    outside = set(choose_partitions(recorded.names))
    names = [name for name in names if name in outside or wanted.renamed(name.topic) is not None]
    if not names:
        raise KmirrorError(f"there is nothing to replay: {location} has none of the requested partitions")
    counts: dict[str, int] = {}
    for name in recorded.names:
        counts[name.topic] = max(counts.get(name.topic, 0), name.partition + 1)
    plan = Plan([])
    sources: dict[TopicPartition, TopicPartition] = {}
    for name in names:
        target = TopicPartition(wanted.renamed(name.topic) or name.topic, name.partition)
        if target in sources:
            raise KmirrorError(f"{sources[target]} and {name} would both be replayed into {target}; --topics or --rename keeps them apart")
        sources[target] = name
        plan.counts[target.topic] = max(plan.counts.get(target.topic, 0), counts[name.topic])
        log = recorded.logs[name]
        log.check_complete()
        plan.partitions.append(
            RecordedPartition(
                location,
                log.partition,
                name,
                target,
                topic_id=_topic_id(recorded.files, log.partition),
                first_offset=log.log_start_offset,
                first_timestamp=wanted.first_timestamp,
                last_timestamp=wanted.last_timestamp,
                drops_aborted=wanted.drops_aborted,
            )
        )
    return plan


def _topic_id(files: FileSystem, partition: PartitionFiles) -> str | None:
    try:
        found = partition.topic_id(files)
    except CorruptFileError:
        return None
    return None if found is None else str(found)


def _pattern(text: str | None) -> str | None:
    if text is not None:
        try:
            re.compile(text)
        except re.error as error:
            raise KmirrorError(f"--topics: '{text}' is not a regular expression: {error}") from error
    return text


def missing_topics(
    plan: Plan, found: Mapping[str, TopicDescription], *, create: bool, replication_factor: int, configs: Mapping[str, str]
) -> list[NewTopic]:
    """Returns the topics to create.

    KmirrorError for missing topics that may not be created, and for topics with too few partitions.
    """
    for name, count in sorted(plan.counts.items()):
        if name not in found:
            continue
        has = len(found[name].partitions)
        needed = max(one.target.partition for one in plan.partitions if one.target.topic == name) + 1
        if has < needed:
            raise KmirrorError(
                f"topic {name} has {counted(has, 'partition')} at the destination, and the recording has {max(count, needed)}; "
                "add some (kafka-topics --alter --partitions), or replay fewer (--partitions)"
            )
    missing = sorted(set(plan.counts) - set(found))
    if missing and not create:
        raise KmirrorError(
            f"the destination has no topic {', '.join(missing)}; --create-topics creates {'it' if len(missing) == 1 else 'them'} with the "
            "recording's number of partitions"
        )
    return [NewTopic(name, plan.counts[name], replication_factor, {**CREATED_WITH, **configs}) for name in missing]
