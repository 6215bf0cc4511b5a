"""The topics that a `kafka-mirrors` command means, their results, and adding them to a mirror."""

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
"""Errors of topics for which there is nothing to do.

They count only when there is no other topic: the same pattern must work again after it half worked,
or after topics were created.
"""


def of_pattern(pattern: str, rows: Iterable[MirrorPartitionDescription]) -> list[MirrorPartitionDescription]:
    """Returns the partitions of the topics that match; KmirrorError if none does."""
    found = list(rows)
    names = set(matching(pattern, {row.topic for row in found}))
    return [row for row in found if row.topic in names]


def of_topics(mirrors: Iterable[MirrorDescription], pattern: str) -> list[MirrorDescription]:
    listed = list(mirrors)
    names = set(matching(pattern, {row.topic for mirror in listed for row in mirror.partitions}))
    return [MirrorDescription(mirror.mirror_name, [row for row in mirror.partitions if row.topic in names]) for mirror in listed]


def matching(pattern: str, topics: Iterable[str]) -> list[str]:
    """Returns the topics that the pattern equals or matches in full; KmirrorError if none."""
    try:
        regex = re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"--topic {pattern}: not a regular expression: {error}") from error
    found = sorted(topic for topic in topics if topic == pattern or regex.fullmatch(topic) is not None)
    if not found:
        raise KmirrorError(f"No topics matching pattern '{pattern}' found")
    return found


PLATFORM_PREFIX = "__"
"""Begins the names of topics that a platform keeps for itself: Kafka's, and canaries of services."""


def matching_at_source(pattern: str, topics: Iterable[str]) -> list[str]:
    """Returns the source's topics that match, without those of its platform, which are named in a
    warning; a pattern that begins with `__` means them.
    """
    found = matching(pattern, topics)
    if pattern.startswith(PLATFORM_PREFIX):
        return found
    kept = [topic for topic in found if not topic.startswith(PLATFORM_PREFIX)]
    left = [topic for topic in found if topic.startswith(PLATFORM_PREFIX)]
    if left:
        more = f" and {len(left) - MAX_NAMED} more" if len(left) > MAX_NAMED else ""
        warn(f"left out: {', '.join(left[:MAX_NAMED])}{more}: a pattern that begins with {PLATFORM_PREFIX} adds such topics")
    if not kept:
        raise KmirrorError(f"No topics matching pattern '{pattern}' found")
    return kept


def settle(action: str, result: TopicResults, *, may_be_idle: bool = False) -> list[str]:
    """Returns the topics that were changed; raises KmirrorError that names the failed ones.

    Topics for which there was nothing to do are only a warning if others were changed. With
    `may_be_idle` they are so even if none was, as when a command with --wait is given again.
    """
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
    """Returns the reason for a topic's error.

    B11: a topic has an error code but no message, and INVALID_REQUEST's own message speaks of
    malformed requests.
    """
    if error.error is Errors.TOPIC_AUTHORIZATION_FAILED:
        return f"{error.message} The user needs Read on the topic"
    return "its state does not allow it, see --describe" if error.error is Errors.INVALID_REQUEST else error.message


async def warn_of_groups(admin: AdminClient, rows: Iterable[MirrorPartitionDescription]) -> None:
    """Warn of groups beyond the ends (C32), after the failover, which must not wait for this.

    Partitions whose end is not reported are left out.
    """
    ends = {TopicPartition(row.topic, row.partition): row.destination_offset for row in rows if row.destination_offset >= 0}
    try:
        for group in await groups_beyond(admin, ends):
            warn(f"{group}: {group.consequence}")
    except KmirrorError as error:
        warn(f"could not check whether groups have read further: {one_line(error)}")


def warn(text: str) -> None:
    print(f"Warning: {text}", file=sys.stderr)


async def add_topics(
    clients: MirrorClients, mirror_name: str, destination: AdminClient, source: AdminClient, names: list[str], *, may_be_idle: bool
) -> list[str]:
    """Create missing topics at the destination and add all; returns those that this call added."""
    await clients.check_chain(mirror_name, destination, source, names)
    factor = clients.options.replication_factor
    await _create_topics(destination, source, names, -1 if factor is None else factor)
    return await add_until_known(clients.runtime, destination, mirror_name, names, may_be_idle=may_be_idle)


async def _create_topics(admin: AdminClient, source: AdminClient, names: Iterable[str], replication_factor: int) -> None:
    """Create the topics that are missing here, with the source's topic id and partition count."""
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
    """Add the topics, repeatedly while a new topic is not yet known everywhere (C21)."""
    deadline_ms = runtime.clock.monotonic_ms() + ADD_TIMEOUT_MS
    errors: dict[str, ApiException | None] = {}
    while True:
        errors |= (await admin.add_topics_to_mirror(mirror_name, names)).errors
        names = [name for name, error in errors.items() if error is not None and error.error is Errors.UNKNOWN_TOPIC_OR_PARTITION]
        if not names or runtime.clock.monotonic_ms() >= deadline_ms:
            return settle("add", TopicResults(errors), may_be_idle=may_be_idle)
        await runtime.sleep_ms(ADD_PAUSE_MS)
