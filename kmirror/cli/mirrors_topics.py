"""The topics that a `kafka-mirrors` command means, what came of each, and adding them to a mirror."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable

from kmirror.admin.admin_client import AdminClient
from kmirror.admin.results import MirrorDescription, MirrorPartitionDescription, NewTopic, TopicResults
from kmirror.cli.mirrors_clients import MirrorClients
from kmirror.cli.mirrors_groups import groups_beyond
from kmirror.cli.mirrors_tables import topic_list
from kmirror.cli.user_errors import one_line
from kmirror.common.errors import ApiException, ConfigError, Errors, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.runtime.api import Runtime

ADD_TIMEOUT_MS = 30_000
ADD_PAUSE_MS = 100
MAX_NAMED = 5
ALREADY = {
    "add": (Errors.TOPIC_ALREADY_IN_MIRROR,),
    "remove": (Errors.TOPIC_NOT_IN_MIRROR,),
    "pause": (Errors.MIRROR_TOPIC_ALREADY_PAUSED, Errors.MIRROR_TOPIC_BEING_REMOVED),
    "resume": (Errors.MIRROR_TOPIC_NOT_PAUSED, Errors.MIRROR_TOPIC_BEING_REMOVED),
}
"""Errors of topics for which there is nothing to do. They count only when there is no other topic: a pattern that is used again, after
it half worked or when topics were made since, must work."""


def of_pattern(pattern: str, rows: Iterable[MirrorPartitionDescription]) -> list[MirrorPartitionDescription]:
    """The partitions of the topics that match; KmirrorError when none does."""
    found = list(rows)
    names = set(matching(pattern, {row.topic for row in found}))
    return [row for row in found if row.topic in names]


def of_topics(mirrors: Iterable[MirrorDescription], pattern: str) -> list[MirrorDescription]:
    listed = list(mirrors)
    names = set(matching(pattern, {row.topic for mirror in listed for row in mirror.partitions}))
    return [MirrorDescription(mirror.mirror_name, [row for row in mirror.partitions if row.topic in names]) for mirror in listed]


def matching(pattern: str, topics: Iterable[str]) -> list[str]:
    """Topics equal to the pattern, or matched by it as a whole; KmirrorError when there is none."""
    try:
        regex = re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"--topic {pattern}: not a regular expression: {error}") from error
    found = sorted(topic for topic in topics if topic == pattern or regex.fullmatch(topic) is not None)
    if not found:
        raise KmirrorError(f"No topics matching pattern '{pattern}' found")
    return found


def settle(action: str, result: TopicResults, *, may_be_idle: bool = False) -> list[str]:
    """The topics that were changed. A failure raises, and names them; but where there was nothing to do it is a warning beside those that
    were; `may_be_idle`: also where there are none, as when a command with --wait is given again."""
    idle = {topic: error for topic, error in result.failed.items() if error.error in ALREADY[action]}
    if len(idle) < len(result.failed) or not (result.succeeded or may_be_idle):
        reasons = [f"{topic}: {_reason(error)}" for topic, error in sorted(result.failed.items())]
        raise KmirrorError("; ".join([*reasons, f"done for {topic_list(result.succeeded)}"] if result.succeeded else reasons))
    for reason in sorted({error.message for error in idle.values()}):
        topics = sorted(topic for topic, error in idle.items() if error.message == reason)
        more = f" and {len(topics) - MAX_NAMED} more" if len(topics) > MAX_NAMED else ""
        warn(f"left as it was: {', '.join(topics[:MAX_NAMED])}{more}: {reason}")
    return sorted(result.succeeded)


def _reason(error: ApiException) -> str:
    """B11: a topic has a code and no message, and this code's own is of malformed requests."""
    return "its state does not allow it, see --describe" if error.error is Errors.INVALID_REQUEST else error.message


async def warn_of_groups(admin: AdminClient, rows: Iterable[MirrorPartitionDescription]) -> None:
    """C32: after the failover, which must not wait for it. Of a partition whose end is not reported nothing can be said."""
    ends = {TopicPartition(row.topic, row.partition): row.destination_offset for row in rows if row.destination_offset >= 0}
    try:
        for group in await groups_beyond(admin, ends):
            warn(f"{group}: {group.consequence}")
    except KmirrorError as error:
        warn(f"whether groups have read further is not known: {one_line(error)}")


def warn(text: str) -> None:
    print(f"Warning: {text}", file=sys.stderr)


async def add_topics(
    clients: MirrorClients, mirror_name: str, destination: AdminClient, source: AdminClient, names: list[str], *, may_be_idle: bool
) -> list[str]:
    """Create what is missing at the destination and add it; those that this added."""
    await clients.check_chain(mirror_name, destination, source, names)
    factor = clients.options.replication_factor
    await _create_topics(destination, source, names, -1 if factor is None else factor)
    return await add_until_known(clients.runtime, destination, mirror_name, names, may_be_idle=may_be_idle)


async def _create_topics(admin: AdminClient, source: AdminClient, names: Iterable[str], replication_factor: int) -> None:
    """Topics that are not here yet, with the source's id and partition count."""
    existing = await admin.describe_topics(names)
    described = await source.describe_topics([name for name in names if name not in existing])
    topics = [
        NewTopic(name, len(topic.partitions), replication_factor, mirror_topic_id=topic.topic_id if topic.topic_id != Uuid.ZERO else None)
        for name, topic in sorted(described.items())
    ]
    if not topics:
        return
    for name, error in (await admin.create_topics(topics)).failed.items():
        if error.error is not Errors.TOPIC_ALREADY_EXISTS:
            raise KmirrorError(f"topic {name} could not be created: {error.message}")


async def add_until_known(runtime: Runtime, admin: AdminClient, mirror_name: str, names: list[str], *, may_be_idle: bool) -> list[str]:
    """C21: a topic that was just created may not be known everywhere yet."""
    deadline_ms = runtime.clock.monotonic_ms() + ADD_TIMEOUT_MS
    errors: dict[str, ApiException | None] = {}
    while True:
        errors |= (await admin.add_topics_to_mirror(mirror_name, names)).errors
        names = [name for name, error in errors.items() if error is not None and error.error is Errors.UNKNOWN_TOPIC_OR_PARTITION]
        if not names or runtime.clock.monotonic_ms() >= deadline_ms:
            return settle("add", TopicResults(errors), may_be_idle=may_be_idle)
        await runtime.sleep_ms(ADD_PAUSE_MS)
