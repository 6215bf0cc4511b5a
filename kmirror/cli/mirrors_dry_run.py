"""`kafka-mirrors --dry-run`: shows which records an irreversible action would drop.

It only reads.

`--remove` (failover): the destination's batches are fetched and cut at their LSO fixpoint, as
STOPPING does (D4 step 3). `--add` of a topic with records (failback): the source tells the last
mirror epoch (DescribeMirrors, same mirror name), the local batches are cut where the first later
epoch begins (D5), and the rest is compared with the source, from its end back to the last common
batch (C36b). Without an epoch, the part that is proven to be the source's stays
(`mirror.preparing`); but a topic that was mirrored from there before becomes FAILED if the source
has lost too much of it (`mirror.max.truncation.records`). `--alter` to another source: the same
comparison without an epoch, because that is what the first fetch does; nothing is ever fetched from
another cluster (B36). `--delete` drops no records, only the last mirror epochs; without them a
failback drops everything. `--reverse` is a failover here and a failback there.

Nothing is changed anywhere. The result holds for this moment: whatever is written, mirrored or
decided between the dry run and the real action changes it. It needs Read permission on the topics
at both clusters, and Describe on the mirror at the source. A client cannot fetch records beyond the
high watermark, so they are not seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kmirror.admin.admin_client import EARLIEST_TIMESTAMP, READ_COMMITTED, AdminClient
from kmirror.admin.results import ConfigResourceType, MirrorPartitionDescription
from kmirror.cli.mirrors_comparison import MirrorLogView, ask
from kmirror.cli.mirrors_groups import GroupBeyondEnd, groups_beyond
from kmirror.cli.mirrors_source import SourceEnd
from kmirror.cli.mirrors_truncation import RUNNING, TruncationLimits
from kmirror.cli.mirrors_wait import FAILED, STOPPED, answered
from kmirror.common.errors import ApiException, Errors
from kmirror.common.sentinels import NO_EPOCH
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.mirror.logs.log_alignment import AlignmentHeader, Transaction, TransactionScan, alignment_point, header_of, lso_fixpoint
from kmirror.mirror.logs.log_questions import LogAction
from kmirror.mirror.logs.log_verifier import identical_beginning, same_beginning, verify_before
from kmirror.record.record_batch import iter_batches
from kmirror.storage.batch_header import unpack_header

FETCH_SIZE_BYTES = 4 << 20


@dataclass(slots=True)
class DroppedRecords:
    """What one partition would lose: the offsets from `cut_offset` to `log_end_offset`.

    `batches` are the batches there, `transactions` the transactions in them.
    """

    topic_partition: TopicPartition
    reason: str
    cut_offset: int
    log_end_offset: int
    batches: list[AlignmentHeader] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    groups: list[GroupBeyondEnd] = field(default_factory=list)
    not_mirrored: int | None = None
    """Failover: number of offsets that the mirror lacks; None when the source cannot be asked."""

    @property
    def record_count(self) -> int:
        return sum(batch.record_count for batch in self.batches if not batch.is_control)


async def failover_loss(
    admin: AdminClient, partitions: Iterable[TopicPartition], source_ends: Mapping[TopicPartition, SourceEnd] | None = None
) -> list[DroppedRecords]:
    """Returns what STOPPING would cut off each partition, and how much of the source is missing."""
    wanted = sorted(partitions)
    stable = await admin.list_offsets(wanted, isolation_level=READ_COMMITTED)
    bounds = await _bounds(admin, wanted)
    result = []
    for topic_partition in wanted:
        loss = await _failover_loss(admin, topic_partition, bounds[topic_partition], stable[topic_partition])
        if source_ends and topic_partition in source_ends:
            loss.not_mirrored = source_ends[topic_partition].missing(loss.log_end_offset)
        result.append(loss)
    await add_groups(admin, result)
    return result


async def _failover_loss(admin: AdminClient, topic_partition: TopicPartition, bounds: Bounds, last_stable_offset: int) -> DroppedRecords:
    end_offset = bounds.end_offset
    if last_stable_offset == end_offset:
        return DroppedRecords(topic_partition, "no transaction is open", end_offset, end_offset)
    headers = (await _fetched(admin, topic_partition, bounds)).headers
    scan = TransactionScan()
    for header in headers:
        scan.add(header)
    cut = lso_fixpoint(scan.transactions(), end_offset)
    reason = "no transaction is open" if cut == end_offset else f"transactions that began at {cut} or later are not decided in this log"
    return _dropped(topic_partition, reason, cut, end_offset, headers)


async def add_groups(admin: AdminClient, losses: Iterable[DroppedRecords]) -> None:
    """Add to each loss the groups whose committed offset lies beyond what would be left."""
    by_name = {loss.topic_partition: loss for loss in losses}
    for group in await groups_beyond(admin, {name: loss.cut_offset for name, loss in by_name.items()}):
        by_name[group.topic_partition].groups.append(group)


async def failback_loss(
    admin: AdminClient,
    source: AdminClient,
    mirror_name: str,
    partitions: Iterable[TopicPartition],
    limits: TruncationLimits | None = None,
    states: Mapping[TopicPartition, str] | None = None,
) -> list[DroppedRecords]:
    """Returns what PREPARING and the first fetch would cut off each local partition.

    `limits` bounds the truncation, None means no limit. `states` has the states of partitions that
    are in the mirror already.
    """
    source_cluster_id = (await source.describe_cluster()).cluster_id
    rows = await _rows_at_source(admin, source, mirror_name)
    wanted = sorted(partitions)
    strangers = await topics_with_another_id(admin, source, {name.topic for name in wanted})
    result = []
    bounds = await _bounds(admin, wanted)
    compacted = await _compacted(admin, {name.topic for name in wanted})
    for topic_partition in wanted:
        end_offset = bounds[topic_partition].end_offset
        if topic_partition.topic in strangers:
            reason = "the source's topic has another id: it is FAILED, or stays STOPPED, and its log stays as it is"
            result.append(DroppedRecords(topic_partition, reason, end_offset, end_offset))
            continue
        state = None if states is None else states.get(topic_partition)
        if state in RUNNING:
            reason = f"it is {state} in mirror {mirror_name} already, and stays as it is"
            result.append(DroppedRecords(topic_partition, reason, end_offset, end_offset))
            continue
        row = rows.get(topic_partition)
        if row is not None and row.state != STOPPED:
            reason = f"it waits until it is {STOPPED} in mirror {mirror_name} of the source, where it is {row.state}"
            result.append(DroppedRecords(topic_partition, reason, end_offset, end_offset))
            continue
        log = await _fetched(admin, topic_partition, bounds[topic_partition])
        headers = log.headers
        if not headers:
            result.append(DroppedRecords(topic_partition, "the local log is empty", end_offset, end_offset))
            continue
        last_mirror_epoch = NO_EPOCH if row is None else row.last_mirror_epoch
        reset_offset = _own_reset_offset(headers, source_cluster_id) if last_mirror_epoch == NO_EPOCH else None
        if state == FAILED and last_mirror_epoch == NO_EPOCH:
            reset_offset = end_offset  # the topic is removed first, which writes a reset at the log end
        if reset_offset is not None:
            result.append(
                await _added_again_loss(source, topic_partition, log, reset_offset, limits, is_compacted=topic_partition.topic in compacted)
            )
            continue
        result.append(await _failback_loss(source, topic_partition, log, last_mirror_epoch, is_first=True))
    await add_groups(admin, result)
    return result


async def topics_with_another_id(admin: AdminClient, source: AdminClient, topics: set[str]) -> set[str]:
    """Returns the topics whose id at the source is not the id here (D5 step 1).

    A source without topic ids is matched by topic name.
    """
    here, there = await admin.describe_topics(topics), await source.describe_topics(topics)
    return {name for name in here.keys() & there.keys() if Uuid.ZERO != there[name].topic_id != here[name].topic_id}


async def divergence_loss(
    admin: AdminClient, source: AdminClient, partitions: Iterable[TopicPartition], *, up_to: Mapping[TopicPartition, int] | None = None
) -> list[DroppedRecords]:
    """Returns what the first fetch from `source` would cut: all after the last common batch.

    Where `up_to` is given, only batches below it can be common.
    """
    wanted = sorted(partitions)
    bounds = await _bounds(admin, wanted)
    result = []
    for topic_partition in wanted:
        end_offset = bounds[topic_partition].end_offset
        log = await _fetched(admin, topic_partition, bounds[topic_partition])
        limit = end_offset if up_to is None else min(up_to.get(topic_partition, end_offset), end_offset)
        cut = await _common_end(source, topic_partition, log, limit)
        reason = f"the source has other batches from offset {cut} on" if cut < end_offset else "nothing differs from the source"
        result.append(_dropped(topic_partition, reason, cut, end_offset, log.headers))
    await add_groups(admin, result)
    return result


async def _common_end(source: AdminClient, topic_partition: TopicPartition, log: MirrorLogView, limit: int) -> int:
    """Returns where the part of the log below `limit` that a broker would keep ends.

    Returns the log start when nothing is kept.
    """
    start = log.headers[0].base_offset if log.headers else limit
    if log.batch_before(limit) is None:
        return start
    verdict = await ask(source, topic_partition, verify_before(log, limit, cleaned_until=lambda: 0))
    return verdict.offset if verdict.action is LogAction.CUT else start


async def _failback_loss(
    source: AdminClient, topic_partition: TopicPartition, log: MirrorLogView, last_mirror_epoch: int, *, is_first: bool
) -> DroppedRecords:
    """Returns what a failback would cut off one partition.

    `is_first` says that nothing shows that the partition was mirrored from there before. Then only
    what is not identical to the source is copied again.
    """
    headers, end_offset = log.headers, log.log_end_offset
    above = next((header.base_offset for header in headers if header.leader_epoch > last_mirror_epoch), None)
    start = headers[0].base_offset
    point = alignment_point(last_mirror_epoch, above, has_batches=True, log_start_offset=start, log_end_offset=end_offset)
    if last_mirror_epoch == NO_EPOCH and is_first:
        verdict = await ask(source, topic_partition, identical_beginning(log))
        if verdict.action is LogAction.CUT:
            what = (
                "nothing differs from the source"
                if verdict.offset >= end_offset
                else f"the source has other batches from offset {verdict.offset} on"
            )
            return _dropped(topic_partition, what, min(verdict.offset, end_offset), end_offset, headers)
    if point.truncate_fully:
        reason = (
            "the source has no last mirror epoch of it"
            if last_mirror_epoch == NO_EPOCH
            else f"all of it is above last mirror epoch {last_mirror_epoch}"
        )
        return _dropped(topic_partition, f"{reason}: mirrored from scratch", start, end_offset, headers)
    cut = await _common_end(source, topic_partition, log, point.offset)
    reason = f"last mirror epoch {last_mirror_epoch}" if cut == point.offset else f"the source has other batches from offset {cut} on"
    return _dropped(
        topic_partition, reason if cut < end_offset else "nothing differs from the source", min(cut, end_offset), end_offset, headers
    )


def _own_reset_offset(headers: Sequence[AlignmentHeader], source_cluster_id: str | None) -> int | None:
    """Returns the offset of the log's last reset if a mirror of this source wrote it, else None.

    See `LogSummary.own_reset_offset`.
    """
    resets = [header for header in headers if header.reset_source is not None]
    return resets[-1].base_offset if resets and resets[-1].reset_source == source_cluster_id else None


async def _added_again_loss(
    source: AdminClient,
    topic_partition: TopicPartition,
    log: MirrorLogView,
    reset_offset: int,
    limits: TruncationLimits | None,
    *,
    is_compacted: bool,
) -> DroppedRecords:
    """Returns the loss for a partition that was mirrored from this source before.

    What the source still has stays; what was written here since then goes.
    """
    headers, end_offset = log.headers, log.log_end_offset
    source_start = (await source.list_offsets([topic_partition], timestamp=EARLIEST_TIMESTAMP))[topic_partition]
    mirrored = [header for header in headers if header.base_offset < reset_offset]
    if not mirrored or mirrored[-1].base_offset < source_start:
        reason = f"the source begins at {source_start}: mirrored from scratch"
        return _dropped(topic_partition, reason, headers[0].base_offset, end_offset, headers)
    cut = await _common_end(source, topic_partition, log, reset_offset)
    lost = sum(header.record_count for header in mirrored if header.base_offset >= cut)
    has_equal = cut > headers[0].base_offset
    if limits is not None and limits.refuses(topic_partition.topic, lost, has_equal=has_equal):
        reason = f"the source has lost {lost} record(s) of it: it is FAILED and keeps them, unless --accept-truncation is given"
        return DroppedRecords(topic_partition, reason, end_offset, end_offset)
    beginning = await ask(source, topic_partition, (identical_beginning if is_compacted else same_beginning)(log))
    if beginning.action is LogAction.START_OVER:
        return _dropped(topic_partition, f"{beginning.reason}: mirrored from scratch", headers[0].base_offset, end_offset, headers)
    if is_compacted and beginning.offset < cut:
        reason = f"a cleaner has removed records from offset {beginning.offset} on: mirrored again from there"
        return _dropped(topic_partition, reason, beginning.offset, end_offset, headers)
    reason = (
        f"the source has other batches from offset {cut} on"
        if lost
        else "it was mirrored from there before: the records written here since then are dropped"
    )
    return _dropped(topic_partition, reason, cut, end_offset, headers)


async def _rows_at_source(admin: AdminClient, source: AdminClient, mirror_name: str) -> dict[TopicPartition, MirrorPartitionDescription]:
    """Returns the rows of the mirror at the source (D5 step 1).

    Empty when the source has no such mirror, no mirrors at all, or a mirror of another cluster than
    ours by this name.
    """
    try:
        own_id = (await admin.describe_cluster()).cluster_id
        source_ids = {mirror.mirror_name: mirror.source_cluster_id for mirror in await source.list_mirrors()}
        if source_ids.get(mirror_name, own_id) not in ("", own_id):
            return {}
        described = await source.describe_mirrors([mirror_name])
    except ApiException as error:
        if error.error in (Errors.UNKNOWN_MIRROR, Errors.UNSUPPORTED_VERSION):
            return {}
        raise
    return {TopicPartition(row.topic, row.partition): row for row in described[mirror_name].partitions}


class Bounds(NamedTuple):
    """The offsets of a partition that a client can read."""

    start_offset: int
    end_offset: int


async def _bounds(admin: AdminClient, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Bounds]:
    """Returns the bounds of all partitions, with two requests per broker.

    The ends come first: if a log start then moves past its end, there is nothing to read.
    """
    ends = await admin.list_offsets(partitions)
    starts = await admin.list_offsets(partitions, timestamp=EARLIEST_TIMESTAMP)
    return {name: Bounds(starts[name], ends[name]) for name in partitions}


async def _fetched(admin: AdminClient, topic_partition: TopicPartition, bounds: Bounds) -> MirrorLogView:
    headers, batches = [], []
    offset, end_offset = bounds
    while offset < end_offset:
        data = await admin.fetch_records(topic_partition, offset, max_bytes=FETCH_SIZE_BYTES)
        next_offset = offset
        for batch in iter_batches(data):
            if batch.last_offset >= offset:
                headers.append(header_of(batch))
                batches.append(unpack_header(batch.memory, 0, 0))
                next_offset = batch.last_offset + 1
        if next_offset == offset:
            break
        offset = next_offset
    return MirrorLogView(bounds.start_offset, end_offset, headers, batches)


async def _compacted(admin: AdminClient, topics: Iterable[str]) -> set[str]:
    """Returns the topics whose cleanup.policy here is compacting.

    A topic whose configs we have no permission to see is left out.
    """
    found = set()
    for topic in sorted(topics):
        entries, _ = await answered(admin.describe_configs(ConfigResourceType.TOPIC, topic), passing=Errors.TOPIC_AUTHORIZATION_FAILED)
        if any(entry.name == "cleanup.policy" and "compact" in (entry.value or "") for entry in entries or ()):
            found.add(topic)
    return found


def _dropped(topic_partition: TopicPartition, reason: str, cut: int, end_offset: int, headers: Iterable[AlignmentHeader]) -> DroppedRecords:
    scan = TransactionScan()
    gone = []
    for header in headers:
        scan.add(header)
        if header.last_offset >= cut:
            gone.append(header)
    transactions = sorted((row for row in scan.transactions() if _is_cut(row, cut)), key=lambda row: (row.first_offset, row.producer_id))
    return DroppedRecords(topic_partition, reason, cut, end_offset, gone, transactions)


def _is_cut(transaction: Transaction, cut: int) -> bool:
    return transaction.first_offset >= cut or transaction.marker_offset is None or transaction.marker_offset >= cut


def deletion_loss(
    described: Iterable[MirrorPartitionDescription], source_ends: Mapping[TopicPartition, SourceEnd], problem: str | None
) -> list[DroppedRecords]:
    """Returns what deleting a mirror loses: no records, but the epochs that a failback needs."""
    result = []
    for row in described:
        name = TopicPartition(row.topic, row.partition)
        if row.state != STOPPED:
            reason = f"it is {row.state}, so the mirror is not deleted"
        elif row.last_mirror_epoch == NO_EPOCH:
            reason = "no last mirror epoch is stored"
        else:
            there = f", all {source_ends[name].high_watermark} offsets" if name in source_ends else f" ({problem})" if problem else ""
            reason = (
                f"last mirror epoch {row.last_mirror_epoch} would be forgotten: a failback of the source would drop its whole log{there}"
            )
        result.append(nothing_dropped(row, reason))
    return result


def nothing_dropped(row: MirrorPartitionDescription, reason: str) -> DroppedRecords:
    """Returns a loss of nothing, for a partition that keeps its log."""
    return DroppedRecords(TopicPartition(row.topic, row.partition), reason, row.destination_offset, row.destination_offset)
