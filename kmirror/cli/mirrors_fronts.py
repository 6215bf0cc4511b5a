"""Fronts of mirrored logs: what only the source or only the mirror has, and why.

`--describe` compares log starts only, and so names offsets; `--verify` and the dry runs read and
count records. The reason is told from the last batch that one side lacks, and from that side's
configs (`verify.front`): one small fetch for each partition that lacks any.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kmirror.admin.admin_client import EARLIEST_TIMESTAMP, AdminClient
from kmirror.admin.results import ConfigResourceType, MirrorDescription, MirrorPartitionDescription
from kmirror.cli.mirrors_clients import MirrorClients
from kmirror.cli.mirrors_front_facts import Fronts, OneSided
from kmirror.cli.mirrors_leaderless import is_leaderless
from kmirror.cli.mirrors_losses import DroppedRecords, OffsetRange
from kmirror.cli.mirrors_source import SourceEnd, another_cluster
from kmirror.cli.mirrors_wait import STOPPED
from kmirror.cli.user_errors import one_line
from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.record_batch import iter_batches
from kmirror.verify.front import Deletion, FrontScan, front_range, why_gone

FRONT_TIMEOUT_MS = 3_000
"""`--describe` must not wait long for a source that is down."""
ONE_BATCH_BYTES = 1
MAX_EXPLAINED = 20
"""More partitions than these share the remark that --verify says why."""


async def fronts_of(clients: MirrorClients, mirrors: Iterable[MirrorDescription]) -> Fronts:
    """Returns what only one side has at the front of each partition that was mirrored."""
    fronts = Fronts()
    for mirror in mirrors:
        rows = [row for row in mirror.partitions if not is_leaderless(row) and (row.state != STOPPED or row.last_mirror_epoch >= 0)]
        if not rows:
            continue
        try:
            await _look(clients, mirror.mirror_name, rows, fronts)
        except KmirrorError as error:
            fronts.problems[mirror.mirror_name] = one_line(error)
    return fronts


async def _look(clients: MirrorClients, mirror: str, rows: list[MirrorPartitionDescription], fronts: Fronts) -> None:
    source = await clients.source(mirror, timeout_ms=FRONT_TIMEOUT_MS)
    await source.describe_cluster()  # a source that hangs costs one timeout, not one for each question
    problem = await another_cluster(clients.admin, source, mirror)
    if problem is not None:
        fronts.problems[mirror] = problem
        return
    ends = {TopicPartition(row.topic, row.partition): row.destination_offset for row in rows}
    described = await source.describe_topics({name.topic for name in ends})
    names = [name for name in ends if name.topic in described and name.partition < len(described[name.topic].partitions)]
    here = await clients.admin.list_offsets(names, timestamp=EARLIEST_TIMESTAMP)
    there = await source.list_offsets(names, timestamp=EARLIEST_TIMESTAMP)
    now_ms = clients.runtime.clock.time_ms()
    for name in names:
        found = front_range(there[name], here[name], ends[name])
        if found is None:
            continue
        offsets = OffsetRange(found.start, found.end)
        has, lacks = (source, clients.admin) if found.only_in_left else (clients.admin, source)
        reason = "--verify says why"
        if len(fronts.found) < MAX_EXPLAINED:
            reason = await why_front_is_gone(has, lacks, name, offsets, " here" if found.only_in_left else " there", now_ms)
        fronts.found[mirror, name] = OneSided(offsets, found.only_in_left, reason)


async def why_front_is_gone(
    has: AdminClient, lacks: AdminClient, name: TopicPartition, offsets: OffsetRange, where: str, now_ms: int
) -> str:
    """Returns why `lacks` has these offsets no more; that it is not known, if it cannot be told."""
    try:
        data = await has.fetch_records(name, offsets.end - 1, max_bytes=ONE_BATCH_BYTES)
        last = next((batch for batch in iter_batches(data) if batch.last_offset >= offsets.end - 1), None)
        configs = await _configs(lacks, name.topic)
    except KmirrorError as error:
        return f"why is not known: {one_line(error)}"
    if last is None:
        return "why is not known"
    scan = FrontScan(0, last.max_timestamp, last.base_offset < offsets.end < last.next_offset)
    return why_gone(scan, deletion_of(configs), where, now_ms)


def deletion_of(configs: Mapping[str, str] | None) -> Deletion:
    """Returns what a topic with these configs deletes by; nothing known without them."""
    if configs is None:
        return Deletion()
    retention_ms, policy = configs.get("retention.ms"), configs.get("cleanup.policy")
    return Deletion(None if not retention_ms else int(retention_ms), None if policy is None else policy.split(","))


async def missing_fronts(
    admin: AdminClient, ends: Mapping[TopicPartition, SourceEnd], names: Iterable[TopicPartition]
) -> dict[TopicPartition, OffsetRange]:
    """Returns what the source has before this cluster's log starts, of those of `names` that it has."""
    there = {name: ends[name].log_start_offset for name in names if name in ends}
    here = await admin.list_offsets(list(there), timestamp=EARLIEST_TIMESTAMP) if there else {}
    return {name: OffsetRange(start, here[name]) for name, start in there.items() if start is not None and start < here[name]}


RETENTION_CONFIGS = ("retention.ms", "retention.bytes")
UNLIMITED = -1


AFTER_FAILOVER = "after the failover, this cluster deletes by its own configs"
AT_NEW_SOURCE = "the new source keeps less, and what it deletes goes here, too"


async def compare_retention(losses: Iterable[DroppedRecords], admin: AdminClient, source: AdminClient, what: str = AFTER_FAILOVER) -> None:
    """Adds to each loss what `admin`'s cluster deletes by, where it keeps less than `source`'s.

    From a failover on, its own configs are in force; and whoever mirrors from it then follows.
    """
    told: dict[str, str | None] = {}
    for loss in losses:
        topic = loss.topic_partition.topic
        if topic not in told:
            found = await shorter_retention(admin, source, topic)
            told[topic] = None if found is None else f"{what}: {found}"
        loss.own_retention = told[topic]


async def shorter_retention(admin: AdminClient, source: AdminClient, topic: str) -> str | None:
    """Returns the configs by which `admin`'s cluster keeps less of a topic; None if there are none."""
    try:
        here, there = await _configs(admin, topic), await _configs(source, topic)
    except KmirrorError as error:
        return f"whether they keep less than the source's is not known: {one_line(error)}"
    found = [
        f"{name}={here[name]} (source: {there[name]})"
        for name in RETENTION_CONFIGS
        if here.get(name) and there.get(name) and _keeps_less(int(here[name]), int(there[name]))
    ]
    policies = [configs.get("cleanup.policy", "") for configs in (here, there)]
    if set(policies[0].split(",")) - set(policies[1].split(",")):
        found.append(f"cleanup.policy={policies[0]} (source: {policies[1]})")
    return ", ".join(found) or None


async def _configs(admin: AdminClient, topic: str) -> dict[str, str]:
    entries = await admin.describe_configs(ConfigResourceType.TOPIC, topic)
    return {entry.name: entry.value or "" for entry in entries}


def _keeps_less(here: int, there: int) -> bool:
    return here != UNLIMITED and (there == UNLIMITED or here < there)


async def explain_fronts(clients: MirrorClients, losses: Iterable[DroppedRecords], admin: AdminClient, source: AdminClient) -> None:
    """Adds to each loss why its front, or what only the source has there, is gone on the other
    side. `admin` has the logs of the losses.
    """
    now_ms = clients.runtime.clock.time_ms()
    explained = 0
    for loss in losses:
        name = loss.topic_partition
        if explained >= MAX_EXPLAINED:
            return
        if loss.front is not None:
            loss.front_reason = await why_front_is_gone(admin, source, name, loss.front.offsets, " there", now_ms)
        elif loss.only_at_source is not None:
            loss.front_reason = await why_front_is_gone(source, admin, name, loss.only_at_source, " here", now_ms)
        explained += loss.front_reason is not None
