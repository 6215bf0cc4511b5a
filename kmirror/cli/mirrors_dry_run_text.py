"""Formats the losses that `mirrors_dry_run` found, for people and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from kmirror.cli.mirrors_losses import DroppedRecords, FrontLoss
from kmirror.mirror.logs.log_alignment import Transaction


def loss_text(losses: Iterable[DroppedRecords]) -> str:
    """A line for each partition.

    Below it, a line for each dropped batch, each cut transaction, what is dropped at the front, what
    the source has and this cluster lacks or what is not known of it, and each group that has read
    beyond the cut. "Nothing would be dropped" is only said where both logs were looked at and
    neither loses anything.
    """
    lines = [line for loss in losses for line in _lines(loss)]
    return "\n".join(lines) if lines else "No partitions to look at"


def _lines(loss: DroppedRecords) -> Iterator[str]:
    yield f"{loss.topic_partition}: {_headline(loss)}"
    if loss.is_cut:
        yield from _cut(loss)
    if loss.front is not None and loss.is_cut:
        yield f"  at the front, {_at_front(loss.front)} would be dropped{_why(loss)}"
    if loss.not_mirrored:
        yield f"  {loss.not_mirrored} offset(s) of the source are not mirrored"
    if loss.only_at_source is not None:
        yield f"  {loss.only_at_source} are only at the source: this log begins later{_why(loss)}"
    if loss.own_retention is not None:
        yield f"  {loss.own_retention}"
    if loss.last_known_lag is not None:
        yield f"  what the source has beyond this is not known: {loss.last_known_lag}"
    for group in loss.groups:
        yield f"  {group}"


def _headline(loss: DroppedRecords) -> str:
    if loss.unknown is not None:
        return f"not known what would be dropped ({_ranges(loss)}; {loss.unknown})"
    facts = f"({_ranges(loss)}; {loss.reason})"
    if loss.is_cut:
        offsets = f"offsets {loss.cut_offset} to {loss.log_end_offset - 1}"
        return f"{loss.record_count} record(s) at {offsets} would be dropped ({loss.reason}{_bounds(loss)})"
    if loss.front is not None:
        return f"{_at_front(loss.front)} would be dropped at the front: the source begins later{_why(loss)} {facts}"
    if loss.is_nothing:
        return f"nothing would be dropped {facts}"
    return f"no record of this log would be cut {facts}"


def _why(loss: DroppedRecords) -> str:
    return "" if loss.front_reason is None else f" ({loss.front_reason})"


def _at_front(front: FrontLoss) -> str:
    return f"{front.record_count} record(s) at {front.offsets}"


def _ranges(loss: DroppedRecords) -> str:
    """`log end 7, log start 0, source: offsets 0 to 9`: what was looked at, on both sides."""
    return f"log end {loss.log_end_offset}{_bounds(loss, ', ')}"


def _bounds(loss: DroppedRecords, before: str = "; ") -> str:
    parts = [] if loss.log_start_offset is None else [f"log start {loss.log_start_offset}"]
    if loss.source is not None:
        parts.append(f"source: {loss.source}")
    return before + ", ".join(parts) if parts else ""


def _cut(loss: DroppedRecords) -> Iterator[str]:
    for batch in loss.batches:
        kind = "control" if batch.is_control else f"{batch.record_count} record(s)"
        producer = f", producer {batch.producer_id}" if batch.producer_id >= 0 else ""
        yield f"  offsets {batch.base_offset} to {batch.last_offset}, epoch {batch.leader_epoch}, {kind}{producer}"
    for transaction in loss.transactions:
        yield f"  transaction of producer {transaction.producer_id} {_extent(transaction)}"


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
            "droppedRecords": loss.dropped_count if loss.unknown is None or loss.waits else None,
            "reason": loss.reason,
            "notMirrored": loss.not_mirrored,
            **_front_facts(loss),
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


def _front_facts(loss: DroppedRecords) -> dict[str, Any]:
    """Returns what is known of both logs' fronts, and what is not known at all."""
    front, source, lacking, last = loss.front, loss.source, loss.only_at_source, loss.last_known_lag
    return {
        "logStartOffset": loss.log_start_offset,
        "sourceStartOffset": None if source is None else source.start,
        "sourceEndOffset": None if source is None else source.end,
        "frontRecords": 0 if front is None else front.record_count,
        "frontEndOffset": None if front is None else front.offsets.end,
        "onlyAtSource": None if lacking is None else {"startOffset": lacking.start, "endOffset": lacking.end},
        "frontReason": loss.front_reason,
        "ownRetention": loss.own_retention,
        "unknown": loss.unknown,
        "lastKnownLag": None if last is None else last.lag,
        "lagAgeMs": None if last is None else last.age_ms,
    }


def loss_json(losses: Iterable[DroppedRecords]) -> str:
    return json.dumps(loss_rows(losses), indent=2)
