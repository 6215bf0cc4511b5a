"""Which replicas a running cluster has to have, which its brokers have, and which are nobody's.

Metadata says which brokers are replicas of which partitions, DescribeLogDirs what lies in each
broker's log directories. A broker may be about to follow the metadata, so what does not fit is
looked for again `PAUSE_S` later, and only what does not fit both times is said. A broker that does
not answer, or whose directory is offline, is not judged.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from kmirror.admin.admin_client import AdminClient
from kmirror.admin.log_dirs import LogDirDescription
from kmirror.admin.results import TopicDescription
from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import CLUSTER_METADATA_TOPIC_NAME, TopicPartition
from kmirror.verify.replay.findings import Finding

PAUSE_S: Final = 2.0


@dataclass(slots=True)
class LiveSet:
    """What was found about the set of a cluster's logs."""

    partitions: int = 0
    replicas: int = 0
    brokers: int = 0
    """Those that said what they have."""
    findings: list[Finding] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)


async def look(admin: AdminClient) -> LiveSet:
    """Returns what is there. KmirrorError if no broker tells which topics there are."""
    found = await _look_once(admin)
    if found.findings:
        await asyncio.sleep(PAUSE_S)
        before = {(one.log, one.kind) for one in found.findings}
        found = await _look_once(admin)
        found.findings = [one for one in found.findings if (one.log, one.kind) in before]
    return found


async def _look_once(admin: AdminClient) -> LiveSet:
    topics = await admin.describe_topics(await admin.list_topics(include_internal=True))
    cluster = await admin.describe_cluster()
    replicas = {replica for topic in topics.values() for row in topic.partitions for replica in row.replicas}
    dirs: dict[int, list[LogDirDescription] | str] = {}
    for broker in sorted({*replicas, *(node.id for node in cluster.nodes)}):
        try:
            dirs |= await admin.describe_log_dirs([broker])
        except KmirrorError as error:
            dirs[broker] = str(error)
    return judged(topics, dirs)


def judged(topics: Mapping[str, TopicDescription], dirs: Mapping[int, list[LogDirDescription] | str]) -> LiveSet:
    """Returns what the metadata and the brokers' answers (or why there is none) say together."""
    expected = {TopicPartition(name, row.partition): row.replicas for name, topic in topics.items() for row in topic.partitions}
    there = {broker: _logs(found) for broker, found in dirs.items() if not isinstance(found, str)}
    offline = {broker for broker, found in dirs.items() if not isinstance(found, str) and any(one.error for one in found)}
    result = LiveSet(len(expected), sum(map(len, expected.values())), len(there))
    result.findings = [*_missing(expected, there, offline), *_nobodys(expected, there)]
    result.unseen = list(_unseen(expected, dirs, there, offline))
    return result


def _logs(found: list[LogDirDescription]) -> dict[TopicPartition, list[str]]:
    """Returns the directories of each log of a broker, without those that are being moved in."""
    logs: dict[TopicPartition, list[str]] = {}
    for one in found:
        for name, replica in one.replica_infos.items():
            if not replica.is_future and name.topic != CLUSTER_METADATA_TOPIC_NAME:
                logs.setdefault(name, []).append(one.path)
    return logs


Expected = Mapping[TopicPartition, list[int]]
There = Mapping[int, Mapping[TopicPartition, list[str]]]


def _missing(expected: Expected, there: There, offline: set[int]) -> Iterator[Finding]:
    for name, replicas in sorted(expected.items()):
        for broker in replicas:
            if broker in there and broker not in offline and name not in there[broker]:
                text = f"broker {broker} is a replica, says the metadata, and has the log in none of its directories"
                yield _finding("missing", broker, name, text)


def _nobodys(expected: Expected, there: There) -> Iterator[Finding]:
    for broker, logs in sorted(there.items()):
        for name, paths in sorted(logs.items()):
            if len(paths) > 1:
                yield _finding("twice", broker, name, f"broker {broker} has the log in {' and in '.join(paths)}")
            replicas = expected.get(name)
            if replicas is None:
                yield _finding(
                    "nobodys", broker, name, f"the metadata has no such partition, and broker {broker} has a log of it in {paths[0]}"
                )
            elif broker not in replicas:
                named = ", ".join(map(str, replicas))
                yield _finding(
                    "nobodys",
                    broker,
                    name,
                    f"broker {broker} is no replica, says the metadata ({named} are), and has the log in {paths[0]}",
                )


def _unseen(expected: Expected, dirs: Mapping[int, list[LogDirDescription] | str], there: There, offline: set[int]) -> Iterator[str]:
    counts = Counter(broker for replicas in expected.values() for broker in replicas)
    for broker, found in sorted(dirs.items()):
        if isinstance(found, str):
            yield f"{counts[broker]} replicas of broker {broker}, which did not say what it has ({found})"
    for broker in sorted(offline):
        lacking = sum(broker in replicas and name not in there[broker] for name, replicas in expected.items())
        yield f"{lacking} replicas of broker {broker}, which has a directory that is offline"


def _finding(kind: str, broker: int, name: TopicPartition, text: str) -> Finding:
    log = f"broker {broker}, {name}"
    return Finding(log, name.topic, name.partition, "inventory", kind, log, None, None, None, None, text)
