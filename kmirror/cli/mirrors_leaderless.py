"""Finds the partitions of a mirror that no broker describes because they have no leader.

Each broker describes only the partitions that it leads. If one partition of a topic is described,
Metadata names the topic's other partitions. If none is, no request tells which mirror the topic
belongs to. But ListMirrors tells when a mirror has more topics than are described; then all topics
without any leader are named.
"""

from __future__ import annotations

from collections.abc import Sequence

from kmirror.admin.admin_client import AdminClient
from kmirror.admin.mirrors import UNKNOWN
from kmirror.admin.results import MirrorDescription, MirrorPartitionDescription, PartitionDescription
from kmirror.cli.mirrors_tables import topic_list
from kmirror.common.errors import KmirrorError
from kmirror.common.sentinels import NO_LEADER

_WHY = "no leader here"


def is_leaderless(row: MirrorPartitionDescription) -> bool:
    """Whether `with_leaderless` added this row."""
    return row.state == UNKNOWN and (row.reason or "").startswith(_WHY)


async def with_leaderless(admin: AdminClient, mirrors: Sequence[MirrorDescription]) -> list[MirrorDescription]:
    """Returns the mirrors with a row in state UNKNOWN for each partition that has no leader.

    Returns them unchanged when Metadata cannot be asked.
    """
    names = {row.topic for mirror in mirrors for row in mirror.partitions}
    try:
        topics = await admin.describe_topics(names)
    except KmirrorError:
        return list(mirrors)
    completed = []
    for mirror in mirrors:
        rows = {(row.topic, row.partition): row for row in mirror.partitions}
        for topic in {row.topic for row in mirror.partitions} & topics.keys():
            for partition in topics[topic].partitions:
                if partition.leader == NO_LEADER:
                    rows.setdefault((topic, partition.partition), _unknown(topic, partition))
        completed.append(MirrorDescription(mirror.mirror_name, [rows[key] for key in sorted(rows)]))
    return completed


async def topics_without_leader(admin: AdminClient, mirrors: Sequence[MirrorDescription]) -> list[str]:
    """Returns a sentence for each mirror that has topics without any described partition."""
    try:
        counts = {mirror.mirror_name: mirror.topic_count for mirror in await admin.list_mirrors()}
        described = {mirror.mirror_name: {row.topic for row in mirror.partitions} for mirror in mirrors}
        lacking = {name: counts.get(name, 0) - len(topics) for name, topics in described.items() if counts.get(name, 0) > len(topics)}
        if not lacking:
            return []
        topics = await admin.describe_topics(await admin.list_topics())
    except KmirrorError:
        return []
    leaderless = {name for name, topic in topics.items() if all(partition.leader == NO_LEADER for partition in topic.partitions)}
    leaderless -= set().union(*described.values())
    if not leaderless:
        return []
    return [
        f"mirror {name} has {count} topic(s) that no broker describes; no partition of {topic_list(leaderless)} has a leader here: the brokers that "
        "have them are not running, or their disks failed"
        for name, count in sorted(lacking.items())
    ]


def _unknown(topic: str, partition: PartitionDescription) -> MirrorPartitionDescription:
    reason = (
        f"{_WHY}: brokers {sorted(partition.replicas)} have it, but they are not running, their disks failed, or they are not in the ISR"
    )
    return MirrorPartitionDescription(topic, partition.partition, -1, -1, -1, UNKNOWN, -1, reason)
