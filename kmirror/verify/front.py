"""What only one of two logs of a partition has at its front.

A comparison begins at the higher log start offset. What the other log has before it was not
compared, because there is nothing to compare it with; so a verdict names it. If a mirror lacks it,
the mirror is not what its source is: a failback would delete those records at the source as well,
because a mirror follows the log start of the cluster that it copies. If only the mirror has it, it
will follow.

Why one side has it no more is told as far as it can be seen:

    inside a batch or segment  only DeleteRecords moves a log start there; retention removes whole
                               segments
    no cleanup.policy=delete   there is no retention, so it was DeleteRecords
    older than retention.ms    retention, as that side is configured now
    anything else              not known
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing
from typing import NamedTuple

import msgspec

from kmirror.record.record_batch import RecordBatch
from kmirror.verify.compared_log import ComparedLog
from kmirror.verify.verdict import Difference, DifferenceKind, Front, PartitionVerdict, Status

NOT_KNOWN = "why is not known"


class FrontRange(NamedTuple):
    """Offsets from `start` to before `end` that only one side has."""

    only_in_left: bool
    start: int
    end: int


class FrontScan(NamedTuple):
    """What the log that still has a range has there."""

    record_count: int
    """Records of producers; markers and resets do not count."""
    newest_timestamp: int
    ends_inside_batch: bool


class Deletion(NamedTuple):
    """What a side deletes by. Each is None where its config is not known."""

    retention_ms: int | None = None
    policy: Collection[str] | None = None
    is_inside_segment: bool = False
    """The log start lies behind the beginning of its first segment."""


def front_range(left_start: int, right_start: int, mirrored_end: int | None = None) -> FrontRange | None:
    """Returns what only one side has before the other's log start, up to `mirrored_end`."""
    start, end = sorted((left_start, right_start))
    end = end if mirrored_end is None else min(end, mirrored_end)
    return FrontRange(left_start < right_start, start, end) if start < end else None


def scan_front(log: ComparedLog, found: FrontRange) -> FrontScan:
    """Reads the batches of the range; of the batches at its two ends, which may reach beyond it,
    the records."""
    count, newest, inside = 0, -1, False
    with closing(log.cursor(found.start)) as cursor:
        while (head := cursor.peek()) is not None and head.batch.base_offset < found.end:
            batch = head.batch
            inside = batch.next_offset > found.end
            records = 0 if batch.is_control else _records_within(batch, found)
            count += records
            newest = max(newest, batch.max_timestamp) if records else newest
            cursor.advance()
    return FrontScan(count, newest, inside)


def _records_within(batch: RecordBatch, found: FrontRange) -> int:
    if found.start <= batch.base_offset and batch.next_offset <= found.end:
        return batch.record_count
    return sum(found.start <= record.offset < found.end for record in batch.records())


def why_gone(scan: FrontScan, deletion: Deletion, where: str, now_ms: int | None = None) -> str:
    """Returns why one side has it no more; `where` names the side, or is empty."""
    if scan.ends_inside_batch or deletion.is_inside_segment:
        return f"DeleteRecords{where}: its log start lies inside a {'batch' if scan.ends_inside_batch else 'segment'}"
    if deletion.policy is not None and "delete" not in deletion.policy:
        return f"DeleteRecords{where}: cleanup.policy={','.join(sorted(deletion.policy))} has no retention"
    limit = deletion.retention_ms
    if limit is not None and limit >= 0 and now_ms is not None and now_ms - scan.newest_timestamp > limit:
        return f"retention{where}: they are older than its retention.ms={limit}"
    return NOT_KNOWN


def front_text(front: Front, names: tuple[str, str]) -> str:
    """`300 record(s) at offsets 0 to 299 are only in A (...)`; `names` are those of the sides."""
    where = names[0] if front.only_in_left else names[1]
    count = "records, not counted," if front.record_count is None else f"{front.record_count} record(s)"
    return f"{count} at offsets {front.first_offset} to {front.last_offset} are only {where} ({front.reason})"


def with_front(
    verdict: PartitionVerdict, front: Front | None, names: tuple[str, str], *, ignored: Collection[DifferenceKind] = (), counts: bool = True
) -> PartitionVerdict:
    """Returns the verdict on what was compared, with what is before it.

    What the mirror lacks there is a difference if `counts`; a range without records is none."""
    if front is None or front.record_count == 0:
        return verdict
    verdict = msgspec.structs.replace(verdict, front=front)
    if not front.only_in_left or not counts or verdict.status is Status.ERROR:
        return verdict
    kind = DifferenceKind.FRONT_MISSING
    if kind in ignored:
        return msgspec.structs.replace(verdict, ignored_counts={**verdict.ignored_counts, kind.value: 1})
    difference = Difference(kind, verdict.topic, verdict.partition, front.first_offset, front.last_offset, [], [], front_text(front, names))
    return msgspec.structs.replace(
        verdict,
        status=Status.DIFFERENT,
        difference_counts={kind.value: 1, **verdict.difference_counts},
        differences=[difference, *verdict.differences],
    )
