"""`kafka-mirrors --dry-run`: shows which records an irreversible action would drop.

It only reads. At the front of a log, records go as well: where the source's log begins later, the
mirror's log start follows it, and a failback so deletes at the old source what the new one has
deleted (`mirrors_losses`). More than `mirror.max.truncation.records` of them make the partition
FAILED instead. What cannot be asked is told as unknown.

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

from kmirror.admin.admin_client import EARLIEST_TIMESTAMP, READ_COMMITTED, AdminClient
from kmirror.admin.results import MirrorPartitionDescription
from kmirror.cli.mirrors_comparison import MirrorLogView, ask
from kmirror.cli.mirrors_dry_run_reading import Bounds, bounds_of, compacted_topics, fetched, ranges_of
from kmirror.cli.mirrors_groups import groups_beyond
from kmirror.cli.mirrors_losses import DroppedRecords, LastKnownLag, OffsetRange
from kmirror.cli.mirrors_source import SourceEnd
from kmirror.cli.mirrors_truncation import RUNNING, TruncationLimits
from kmirror.cli.mirrors_wait import FAILED, STOPPED
from kmirror.common.errors import ApiException, Errors
from kmirror.common.sentinels import NO_EPOCH
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.mirror.logs.log_alignment import AlignmentHeader, Transaction, TransactionScan, alignment_point, lso_fixpoint
from kmirror.mirror.logs.log_questions import LogAction
from kmirror.mirror.logs.log_verifier import identical_beginning, same_beginning, verify_before

KEEPS = "it is FAILED and keeps them, unless --accept-truncation is given"


async def failover_loss(
    admin: AdminClient,
    partitions: Iterable[TopicPartition],
    source_ends: Mapping[TopicPartition, SourceEnd] | None = None,
    last_known: Mapping[TopicPartition, LastKnownLag] | None = None,
) -> list[DroppedRecords]:
    """Returns what STOPPING would cut off each partition, and what of the source is missing.

    `last_known` says what was last told of partitions that `source_ends` lacks.
    """
    wanted = sorted(partitions)
    stable = await admin.list_offsets(wanted, isolation_level=READ_COMMITTED)
    bounds = await bounds_of(admin, wanted)
    result = []
    for topic_partition in wanted:
        loss = await _failover_loss(admin, topic_partition, bounds[topic_partition], stable[topic_partition])
        if source_ends and topic_partition in source_ends:
            _look_at_source(loss, bounds[topic_partition], source_ends[topic_partition])
        elif last_known is not None:
            loss.last_known_lag = last_known.get(topic_partition, LastKnownLag(-1, -1))
        result.append(loss)
    await add_groups(admin, result)
    return result


def _look_at_source(loss: DroppedRecords, bounds: Bounds, end: SourceEnd) -> None:
    """Adds what the source has and this cluster lacks, at the end and at the front."""
    loss.not_mirrored = end.missing(loss.log_end_offset)
    loss.log_start_offset = bounds.start_offset
    if end.log_start_offset is not None:
        loss.source = OffsetRange(end.log_start_offset, end.high_watermark)
        if end.log_start_offset < bounds.start_offset:
            loss.only_at_source = OffsetRange(end.log_start_offset, min(bounds.start_offset, end.high_watermark))


def not_here(name: TopicPartition, end: SourceEnd) -> DroppedRecords:
    """Returns the loss of a partition that no broker of the mirror reports."""
    text = f"it is not there, or has no leader: {end.high_watermark} offset(s) of the source may not be mirrored"
    return DroppedRecords(name, text, 0, 0, not_mirrored=end.high_watermark, unknown=text)


async def _failover_loss(admin: AdminClient, topic_partition: TopicPartition, bounds: Bounds, last_stable_offset: int) -> DroppedRecords:
    end_offset = bounds.end_offset
    if last_stable_offset == end_offset:
        return DroppedRecords(topic_partition, "no transaction is open", end_offset, end_offset)
    headers = (await fetched(admin, topic_partition, bounds)).headers
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
    bounds = await bounds_of(admin, wanted)
    there = await ranges_of(source, wanted)
    compacted = await compacted_topics(admin, {name.topic for name in wanted})
    for topic_partition in wanted:
        end_offset = bounds[topic_partition].end_offset
        if topic_partition.topic in strangers:
            reason = "the source's topic has another id: it is FAILED, or stays STOPPED, and its log stays as it is"
            result.append(DroppedRecords(topic_partition, reason, end_offset, end_offset))
            continue
        state = None if states is None else states.get(topic_partition)
        if topic_partition not in there:
            result.append(_unknown(topic_partition, bounds[topic_partition], "the source does not have it"))
            continue
        if state in RUNNING:
            reason = f"it is {state} in mirror {mirror_name} already, and stays as it is"
            loss = DroppedRecords(topic_partition, reason, end_offset, end_offset)
            result.append(await _with_front(admin, loss, bounds[topic_partition], there[topic_partition], None))
            continue
        row = rows.get(topic_partition)
        if row is not None and row.state != STOPPED:
            reason = f"it waits until it is {STOPPED} in mirror {mirror_name} of the source, where it is {row.state}"
            loss = _unknown(topic_partition, bounds[topic_partition], f"{reason}; what it drops then is not known")
            loss.waits = True
            result.append(loss)
            continue
        log = await fetched(admin, topic_partition, bounds[topic_partition])
        headers = log.headers
        if not headers:
            result.append(DroppedRecords(topic_partition, "the local log is empty", end_offset, end_offset))
            continue
        last_mirror_epoch = NO_EPOCH if row is None else row.last_mirror_epoch
        reset_offset = _own_reset_offset(headers, source_cluster_id) if last_mirror_epoch == NO_EPOCH else None
        if state == FAILED and last_mirror_epoch == NO_EPOCH:
            reset_offset = end_offset  # the topic is removed first, which writes a reset at the log end
        if reset_offset is not None:
            is_compacted = topic_partition.topic in compacted
            loss = await _added_again_loss(source, topic_partition, log, reset_offset, limits, is_compacted=is_compacted)
        else:
            loss = await _failback_loss(source, topic_partition, log, last_mirror_epoch, is_first=True)
        same_until = _same_until(loss, log, last_mirror_epoch, reset_offset)
        result.append(_front_of(loss, log, there[topic_partition], limits, same_until))
    await add_groups(admin, result)
    return result


async def front_losses(admin: AdminClient, source: AdminClient, partitions: Iterable[TopicPartition]) -> list[DroppedRecords]:
    """Returns what `admin`'s logs lose at their fronts when they mirror from `source`."""
    names = sorted(partitions)
    bounds, there = await bounds_of(admin, names), await ranges_of(source, names)
    found = []
    for name in names:
        end = bounds[name].end_offset
        if name in there:
            loss = DroppedRecords(name, "its end was not looked at", end, end)
            found.append(await _with_front(admin, loss, bounds[name], there[name], None))
        else:
            found.append(_unknown(name, bounds[name], "the new source does not have it"))
    return found


async def drained_loss(admin: AdminClient, source: AdminClient, partitions: Iterable[TopicPartition]) -> list[DroppedRecords]:
    """Returns what `admin`'s cluster drops when it mirrors from `source`, which has all that is
    decided in it: what is not decided, and what `source` does not have at the front.
    """
    losses = await failover_loss(admin, partitions)
    names = [loss.topic_partition for loss in losses]
    bounds, there = await bounds_of(admin, names), await ranges_of(source, names)
    found = []
    for loss in losses:
        name = loss.topic_partition
        if name in there:
            found.append(await _with_front(admin, loss, bounds[name], there[name], None))
        else:
            found.append(_unknown(name, bounds[name], "the new source does not have it"))
    return found


async def topics_with_another_id(admin: AdminClient, source: AdminClient, topics: set[str]) -> set[str]:
    """Returns the topics whose id at the source is not the id here (D5 step 1).

    A source without topic ids is matched by topic name.
    """
    here, there = await admin.describe_topics(topics), await source.describe_topics(topics)
    return {name for name in here.keys() & there.keys() if Uuid.ZERO != there[name].topic_id != here[name].topic_id}


async def divergence_loss(
    admin: AdminClient,
    source: AdminClient,
    partitions: Iterable[TopicPartition],
    *,
    up_to: Mapping[TopicPartition, int] | None = None,
    limits: TruncationLimits | None = None,
) -> list[DroppedRecords]:
    """Returns what the first fetch from `source` would cut: all after the last common batch.

    Where `up_to` is given, only batches below it can be common. `limits` guards the front.
    """
    wanted = sorted(partitions)
    bounds = await bounds_of(admin, wanted)
    there = await ranges_of(source, wanted)
    result = []
    for topic_partition in wanted:
        if topic_partition not in there:
            result.append(_unknown(topic_partition, bounds[topic_partition], "the source does not have it"))
            continue
        end_offset = bounds[topic_partition].end_offset
        log = await fetched(admin, topic_partition, bounds[topic_partition])
        limit = end_offset if up_to is None else min(up_to.get(topic_partition, end_offset), end_offset)
        cut = await _common_end(source, topic_partition, log, limit)
        reason = f"the source has other batches from offset {cut} on" if cut < end_offset else "nothing differs from the source"
        loss = _dropped(topic_partition, reason, cut, end_offset, log.headers)
        result.append(_front_of(loss, log, there[topic_partition], limits, limit if cut == log.log_start_offset else cut))
    await add_groups(admin, result)
    return result


def _unknown(topic_partition: TopicPartition, bounds: Bounds, reason: str) -> DroppedRecords:
    """Returns a loss of which nothing is known."""
    found = DroppedRecords(topic_partition, reason, bounds.end_offset, bounds.end_offset, unknown=reason)
    found.log_start_offset = bounds.start_offset
    return found


async def _with_front(
    admin: AdminClient, loss: DroppedRecords, bounds: Bounds, there: OffsetRange, limits: TruncationLimits | None
) -> DroppedRecords:
    """Returns the loss of a log whose end stays, with its front, which is read only if it goes."""
    if bounds.start_offset >= there.start:
        loss.log_start_offset, loss.source = bounds.start_offset, there
        return loss
    until = Bounds(bounds.start_offset, min(bounds.end_offset, there.start))
    log = await fetched(admin, loss.topic_partition, until)
    return _front_of(loss, log, there, limits, loss.cut_offset)


def records_kept_here(log: MirrorLogView, until: int, oldest_ms: int | None) -> int:
    """Returns how many records before `until` this cluster's own retention does not delete.

    The guard counts only those (`mirror.logs.truncation_guard`); here never more than it does.
    """
    batches = zip(log.headers, log.batch_headers(), strict=True)
    return sum(
        header.record_count
        for header, batch in batches
        if header.base_offset < until
        and not header.is_control
        and (oldest_ms is None or batch.max_timestamp < 0 or batch.max_timestamp >= oldest_ms)
    )


def _same_until(loss: DroppedRecords, log: MirrorLogView, last_mirror_epoch: int, reset_offset: int | None) -> int:
    """Returns up to where the log is the source's by all that is known, also if all of it goes: the
    guard counts the front up to there (`Preparing._same_until`).
    """
    if loss.cut_offset > log.headers[0].base_offset:
        return loss.cut_offset
    if last_mirror_epoch == NO_EPOCH:
        return reset_offset or 0
    return next((header.base_offset for header in log.headers if header.leader_epoch > last_mirror_epoch), log.log_end_offset)


def _front_of(
    loss: DroppedRecords, log: MirrorLogView, there: OffsetRange, limits: TruncationLimits | None, same_until: int
) -> DroppedRecords:
    """Returns the loss with what goes at the front, or that of a partition that refuses it.

    `same_until` says how much of the log the guard counts as front.
    """
    keeps_all = loss.reason.endswith(KEEPS)
    if keeps_all:
        loss.log_start_offset, loss.source = log.log_start_offset, there
        return loss
    loss.look_at_front(log.headers, log.log_start_offset, there)
    topic = loss.topic_partition.topic
    if limits is None:
        return loss
    kept_count = records_kept_here(log, min(same_until, there.start), limits.oldest_ms.get(topic))
    if not limits.refuses(topic, kept_count, has_equal=True):
        return loss
    text = f"the source begins at {there.start}, so {kept_count} record(s) that are kept here would go at the front"
    if not limits.is_known:
        loss.reason += "; mirror.max.truncation.records may not be seen, and may make it FAILED instead"
        return loss
    kept = DroppedRecords(loss.topic_partition, f"{text}: {KEEPS}", loss.log_end_offset, loss.log_end_offset)
    kept.log_start_offset, kept.source = log.log_start_offset, there
    return kept


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
        reason = f"the source has lost {lost} record(s) of it: {KEEPS}"
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
        later = False
        if row.state != STOPPED:
            reason = f"it is {row.state}, so the mirror is not deleted"
        elif row.last_mirror_epoch == NO_EPOCH:
            reason = "no last mirror epoch is stored"
        else:
            end = source_ends.get(name)
            there = f", all {end.high_watermark} offsets" if end else f" ({problem})" if problem else ""
            forgotten = f"last mirror epoch {row.last_mirror_epoch} would be forgotten"
            instead = "kmirror at the source then compares both logs and drops only what differs"
            by_the_kip = "by the KIP alone a failback of the source would drop its whole log"
            reason = f"{forgotten}: {instead}; {by_the_kip}{there}"
            later = True
        loss = nothing_dropped(row, reason)
        loss.drops_later = later
        result.append(loss)
    return result


def nothing_dropped(row: MirrorPartitionDescription, reason: str) -> DroppedRecords:
    """Returns a loss of nothing, for a partition that keeps its log."""
    return DroppedRecords(TopicPartition(row.topic, row.partition), reason, row.destination_offset, row.destination_offset)
