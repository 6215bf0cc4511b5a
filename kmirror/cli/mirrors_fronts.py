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
from kmirror.cli.mirrors_source import another_cluster
from kmirror.cli.mirrors_wait import STOPPED
from kmirror.cli.user_errors import one_line
from kmirror.common.errors import ApiException, KmirrorError
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
        entries = await lacks.describe_configs(ConfigResourceType.TOPIC, name.topic)
    except ApiException as error:
        return f"why is not known: {error.message}"
    if last is None:
        return "why is not known"
    scan = FrontScan(0, last.max_timestamp, last.base_offset < offsets.end < last.next_offset)
    return why_gone(scan, deletion_of({entry.name: entry.value or "" for entry in entries}), where, now_ms)


def deletion_of(configs: Mapping[str, str] | None) -> Deletion:
    """Returns what a topic with these configs deletes by; nothing known without them."""
    if configs is None:
        return Deletion()
    retention_ms, policy = configs.get("retention.ms"), configs.get("cleanup.policy")
    return Deletion(None if not retention_ms else int(retention_ms), None if policy is None else policy.split(","))


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
