"""`kafka-mirrors --dry-run`: which records a failover or failback would drop, found out by reading alone.

Failover (`--remove`): the destination's batches are fetched and cut at their LSO fixpoint, as STOPPING does (D4 step 3).
Failback (`--add` on a topic with records): the source tells the last mirror epoch (DescribeMirrors, same mirror name), the
local batches are cut where the first later epoch begins (D5), and what is left is compared with the source from its end back
to the last batch that both have (C36b). Nothing is changed anywhere. The result is that of this moment: what is written,
mirrored or decided between the dry run and the act changes it.

Needed permissions: Read on the topics at both clusters, Describe on the mirror at the source. A record that lies beyond the
high watermark cannot be fetched by a client; it is counted, not listed.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field

from kmirror.admin.admin_client import EARLIEST_TIMESTAMP, AdminClient
from kmirror.admin.results import MirrorPartitionDescription
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirror.log_alignment import NO_EPOCH, AlignmentHeader, TransactionScan, alignment_point, header_of, lso_fixpoint
from kmirror.record.record_batch import RecordBatch, iter_batches, next_batch_size

FETCH_SIZE_BYTES = 4 << 20
STOPPED = "STOPPED"


@dataclass(slots=True)
class DroppedRecords:
    """What one partition would lose. Offsets from `cut_offset` to `log_end_offset` go; `batches` are those that hold records."""

    topic_partition: TopicPartition
    reason: str
    cut_offset: int
    log_end_offset: int
    batches: list[AlignmentHeader] = field(default_factory=list)

    @property
    def record_count(self) -> int:
        return sum(batch.record_count for batch in self.batches if not batch.is_control)


async def failover_loss(admin: AdminClient, partitions: Iterable[TopicPartition]) -> list[DroppedRecords]:
    """What STOPPING would cut off each partition."""
    result = []
    for topic_partition in sorted(partitions):
        headers, end_offset = await _all_headers(admin, topic_partition)
        scan = TransactionScan()
        for header in headers:
            scan.add(header)
        cut = lso_fixpoint(scan.transactions(), end_offset)
        reason = "no transaction is open" if cut == end_offset else f"transactions that began at {cut} or later are not decided in this log"
        result.append(_dropped(topic_partition, reason, cut, end_offset, headers))
    return result


async def failback_loss(
    admin: AdminClient, source: AdminClient, mirror_name: str, partitions: Iterable[TopicPartition]
) -> list[DroppedRecords]:
    """What PREPARING and the first fetch would cut off each local partition."""
    rows = await _rows_at_source(admin, source, mirror_name)
    result = []
    for topic_partition in sorted(partitions):
        headers, end_offset = await _all_headers(admin, topic_partition)
        if not headers:
            result.append(DroppedRecords(topic_partition, "the local log is empty", end_offset, end_offset))
            continue
        row = rows.get(topic_partition)
        if row is not None and row.state != STOPPED:
            reason = f"it waits until it is {STOPPED} in mirror {mirror_name} of the source, where it is {row.state}"
            result.append(DroppedRecords(topic_partition, reason, end_offset, end_offset))
            continue
        last_mirror_epoch = NO_EPOCH if row is None else row.last_mirror_epoch
        result.append(await _failback_loss(source, topic_partition, headers, end_offset, last_mirror_epoch))
    return result


async def _failback_loss(
    source: AdminClient, topic_partition: TopicPartition, headers: list[AlignmentHeader], end_offset: int, last_mirror_epoch: int
) -> DroppedRecords:
    above = next((header.base_offset for header in headers if header.leader_epoch > last_mirror_epoch), None)
    start = headers[0].base_offset
    point = alignment_point(last_mirror_epoch, above, has_batches=True, log_start_offset=start, log_end_offset=end_offset)
    if point.truncate_fully:
        reason = (
            "the source has no last mirror epoch of it"
            if last_mirror_epoch == NO_EPOCH
            else f"all of it is above last mirror epoch {last_mirror_epoch}"
        )
        return _dropped(topic_partition, f"{reason}: mirrored from scratch", start, end_offset, headers)
    kept = [header for header in headers if header.base_offset < point.offset]
    while kept and not await _source_has(source, topic_partition, kept[-1]):
        kept.pop()
    cut = kept[-1].last_offset + 1 if kept else start
    reason = f"last mirror epoch {last_mirror_epoch}" if cut == point.offset else f"the source has other batches from {cut} on"
    return _dropped(
        topic_partition, reason if cut < end_offset else "nothing differs from the source", min(cut, end_offset), end_offset, headers
    )


async def _source_has(source: AdminClient, topic_partition: TopicPartition, ours: AlignmentHeader) -> bool:
    try:
        data = await source.fetch_records(topic_partition, ours.base_offset, max_bytes=ours.size_in_bytes)
    except ApiException as error:
        if error.error is Errors.OFFSET_OUT_OF_RANGE:
            return False
        raise
    return next_batch_size(data, 0) is not None and header_of(RecordBatch(data)) == ours


async def _rows_at_source(admin: AdminClient, source: AdminClient, mirror_name: str) -> dict[TopicPartition, MirrorPartitionDescription]:
    """The rows of the mirror at the source; none when it has no such mirror, no mirrors at all, or one of another cluster than us (D5 step 1)."""
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


async def _all_headers(admin: AdminClient, topic_partition: TopicPartition) -> tuple[list[AlignmentHeader], int]:
    end_offset = (await admin.list_offsets([topic_partition]))[topic_partition]
    headers = [header async for header in _headers(admin, topic_partition, end_offset)]
    return headers, end_offset


async def _headers(admin: AdminClient, topic_partition: TopicPartition, end_offset: int) -> AsyncIterator[AlignmentHeader]:
    offset = (await admin.list_offsets([topic_partition], timestamp=EARLIEST_TIMESTAMP))[topic_partition]
    while offset < end_offset:
        data = await admin.fetch_records(topic_partition, offset, max_bytes=FETCH_SIZE_BYTES)
        next_offset = offset
        for batch in iter_batches(data):
            if batch.last_offset >= offset:
                yield header_of(batch)
                next_offset = batch.last_offset + 1
        if next_offset == offset:
            return
        offset = next_offset


def _dropped(topic_partition: TopicPartition, reason: str, cut: int, end_offset: int, headers: list[AlignmentHeader]) -> DroppedRecords:
    return DroppedRecords(topic_partition, reason, cut, end_offset, [header for header in headers if header.last_offset >= cut])


def loss_text(losses: Iterable[DroppedRecords]) -> str:
    """For people: one line per partition, one per batch that goes."""
    lines = []
    for loss in losses:
        if loss.cut_offset >= loss.log_end_offset:
            lines.append(f"{loss.topic_partition}: nothing would be dropped (log end {loss.log_end_offset}; {loss.reason})")
            continue
        what = f"{loss.record_count} record(s) at offsets {loss.cut_offset} to {loss.log_end_offset - 1} would be dropped"
        lines.append(f"{loss.topic_partition}: {what} ({loss.reason})")
        for batch in loss.batches:
            kind = "control" if batch.is_control else f"{batch.record_count} record(s)"
            producer = f", producer {batch.producer_id}" if batch.producer_id >= 0 else ""
            lines.append(f"  offsets {batch.base_offset} to {batch.last_offset}, epoch {batch.leader_epoch}, {kind}{producer}")
    return "\n".join(lines) if lines else "No partitions to look at"


def loss_json(losses: Iterable[DroppedRecords]) -> str:
    rows = [
        {
            "topic": loss.topic_partition.topic,
            "partition": loss.topic_partition.partition,
            "cutOffset": loss.cut_offset,
            "logEndOffset": loss.log_end_offset,
            "droppedRecords": loss.record_count if loss.cut_offset < loss.log_end_offset else 0,
            "reason": loss.reason,
            "batches": [
                {
                    "baseOffset": batch.base_offset,
                    "lastOffset": batch.last_offset,
                    "leaderEpoch": batch.leader_epoch,
                    "producerId": batch.producer_id,
                    "isControl": batch.is_control,
                    "sizeInBytes": batch.size_in_bytes,
                    "records": batch.record_count,
                }
                for batch in loss.batches
            ],
        }
        for loss in losses
    ]
    return json.dumps(rows, indent=2)
