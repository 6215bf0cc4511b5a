"""Formats the losses that `mirrors_dry_run` found, for people and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from kmirror.cli.mirrors_dry_run import DroppedRecords
from kmirror.mirror.logs.log_alignment import Transaction


def loss_text(losses: Iterable[DroppedRecords]) -> str:
    """A line for each partition.

    Below it, a line for each dropped batch, each cut transaction, and each group that has read
    beyond the cut.
    """
    lines = [line for loss in losses for line in _lines(loss)]
    return "\n".join(lines) if lines else "No partitions to look at"


def _lines(loss: DroppedRecords) -> Iterator[str]:
    if loss.cut_offset >= loss.log_end_offset:
        yield f"{loss.topic_partition}: nothing would be dropped (log end {loss.log_end_offset}; {loss.reason})"
    else:
        what = f"{loss.record_count} record(s) at offsets {loss.cut_offset} to {loss.log_end_offset - 1} would be dropped"
        yield f"{loss.topic_partition}: {what} ({loss.reason})"
        for batch in loss.batches:
            kind = "control" if batch.is_control else f"{batch.record_count} record(s)"
            producer = f", producer {batch.producer_id}" if batch.producer_id >= 0 else ""
            yield f"  offsets {batch.base_offset} to {batch.last_offset}, epoch {batch.leader_epoch}, {kind}{producer}"
        for transaction in loss.transactions:
            yield f"  transaction of producer {transaction.producer_id} {_extent(transaction)}"
    if loss.not_mirrored:
        yield f"  {loss.not_mirrored} offset(s) of the source are not mirrored"
    for group in loss.groups:
        yield f"  {group}"


def _extent(transaction: Transaction) -> str:
    if transaction.marker_offset is None:
        return f"from offset {transaction.first_offset} on is open"
    return f"from offset {transaction.first_offset} to its marker at {transaction.marker_offset}"


def loss_rows(losses: Iterable[DroppedRecords]) -> list[dict[str, Any]]:
    return [
        {
            "topic": loss.topic_partition.topic,
            "partition": loss.topic_partition.partition,
            "cutOffset": loss.cut_offset,
            "logEndOffset": loss.log_end_offset,
            "droppedRecords": loss.record_count if loss.cut_offset < loss.log_end_offset else 0,
            "reason": loss.reason,
            "notMirrored": loss.not_mirrored,
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
            "transactions": [
                {"producerId": row.producer_id, "firstOffset": row.first_offset, "markerOffset": row.marker_offset}
                for row in loss.transactions
            ],
            "groups": [
                {"group": row.group, "isShare": row.is_share, "committedOffset": row.committed_offset, "endOffset": row.end_offset}
                for row in loss.groups
            ],
        }
        for loss in losses
    ]


def loss_json(losses: Iterable[DroppedRecords]) -> str:
    return json.dumps(loss_rows(losses), indent=2)
