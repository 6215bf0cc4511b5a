"""When a mirror refuses to follow its source: a disaster-recovery copy must not repeat the
disaster.

A source that lost its log (a replaced disk, a topic recreated at a cluster without topic ids, a
restored snapshot) tells its mirror to cut. The KIP follows. Here a cut of what consumers could read
is refused when

* nothing of the log is proven to be the source's, or
* it removes more records than mirror.max.truncation.records: the topic's value if it has one, else
  the mirror's. -1 means to do as the KIP says; a topic's -1 counts only while the topic is being
  added.

The front of a log that is added to a mirror is guarded, too, above all that of an old source which
is failed back to. The new source may have deleted there what the old one still has (a mistaken
DeleteRecords, shorter retention), and to follow its log start would delete the last copy. Records
that are older than our own retention are not counted: this cluster deletes them anyway.

Consumers could read everything below the high watermark. A new leader may have an old high
watermark, or none, until its followers have fetched; then the log end that it was elected with
counts (`readable_until`).

The partition becomes FAILED with the reason, and keeps everything. An operator who wants what the
source has says so: remove, and add with `--accept-truncation`.

Not refused: what retention removes at the source of a topic that is mirrored (D3-14); what unclean elections at the source
cost, up to that limit (D3-15, S7, S8); the alignment with a last mirror epoch, which an operator
has ordered by adding the topic (failback, `preparing`); and the first alignment of a topic that was
never mirrored from that source (S1).
"""

from __future__ import annotations

from kmirror.mirror.logs.log_questions import LogAction, Loss, Verdict
from kmirror.replica.partition import Partition
from kmirror.storage.batch_header import BatchHeader
from kmirror.storage.unified_log import UnifiedLog

WITHOUT_LIMIT = -1
NEVER_MS = -1
WHAT_TO_DO = (
    "remove the topic from the mirror to go on with what is here, or, to have what the source has, add it again then with "
    "kafka-mirrors --add --accept-truncation (--dry-run shows what goes)"
)


def records_lost(log: UnifiedLog, verdict: Verdict, *, until: int) -> int:
    """How many records below `until` are lost by following `verdict`. This scans headers, so it
    runs on a worker. Records that cleaners removed are not counted.
    """
    start = log.log_start_offset if verdict.action is LogAction.START_OVER else verdict.offset
    return sum(header.record_count for header in log.batch_headers(start) if start <= header.base_offset < until)


def records_kept_here(log: UnifiedLog, *, until: int, now_ms: int) -> int:
    """How many records below `until` our own retention does not delete. This scans headers, so it
    runs on a worker.
    """
    config = log.config
    is_deleted_by_age = config.delete and config.retention_ms >= 0
    oldest_ms = now_ms - config.retention_ms if is_deleted_by_age else NEVER_MS
    headers = log.batch_headers(log.log_start_offset) if until > log.log_start_offset else ()
    return sum(header.record_count for header in headers if header.base_offset < until and _may_stay(header, oldest_ms))


def _may_stay(header: BatchHeader, oldest_ms: int) -> bool:
    return header.max_timestamp < 0 or header.max_timestamp >= oldest_ms


def front_refusal(log_start_offset: int, source_start: int, lost: int, limit: int) -> str | None:
    """Why a source that begins later is not followed; None if it is."""
    if lost <= limit:
        return None
    return (
        f"the source's log begins at offset {source_start}, and the local one at {log_start_offset}; following it would remove {lost} "
        f"records from the front that this cluster's own retention keeps, more than mirror.max.truncation.records={limit}. "
        f"Everything is kept; {WHAT_TO_DO}"
    )


def readable_until(partition: Partition) -> int:
    """The offset up to which consumers may have read."""
    return max(partition.leader_log.high_watermark, partition.leader_epoch_start_offset or 0)


def is_guarded(verdict: Verdict, limit: int) -> bool:
    """Whether the guard has to count the records that a verdict removes."""
    return limit != WITHOUT_LIMIT and verdict.loss is not Loss.NONE and verdict.action in (LogAction.CUT, LogAction.START_OVER)


def refusal(verdict: Verdict, lost: int, limit: int) -> str | None:
    """Why the source is not followed; None if it is."""
    if lost == 0 or (verdict.loss is Loss.COUNTED and lost <= limit):
        return None
    why = "" if verdict.loss is Loss.EVERYTHING else f", more than mirror.max.truncation.records={limit}"
    return f"{verdict.reason}; following it would remove {lost} records that could be read here{why}. Everything is kept; {WHAT_TO_DO}"
