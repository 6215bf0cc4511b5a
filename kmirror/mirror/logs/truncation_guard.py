"""When a mirror does not follow its source: a copy for disasters must not do what the disaster did.

A source that lost its log (a disk that was replaced, a topic made anew at a cluster without topic
ids, a snapshot restored) tells its mirror to cut. The KIP follows. Here a cut of what consumers
could read is stopped when

* nothing of the log is proven to be the source's, or
* it removes more records than mirror.max.truncation.records: of the mirror, or of the topic, which comes first. -1 is the KIP's letter; a topic's -1 while the topic is added only.

What consumers could read lies below the high watermark. A new leader may know an old one, or none,
until its followers have fetched: then the log end that it was elected with counts
(`readable_until`).

The partition becomes FAILED with the reason, and keeps everything. An operator who wants what the
source has says so: remove, and add with `--accept-truncation`.

Not stopped: what goes at the source by retention (D3-14); what unclean elections at the source cost
as long as it is less than that (D3-15, S7, S8); the alignment with a last mirror epoch, which an
operator has ordered by adding the topic (failback, `preparing`); and the first alignment of a topic
that never was mirrored from that source (S1).
"""

from __future__ import annotations

from kmirror.mirror.logs.log_questions import Action, Loss, Verdict
from kmirror.replica.partition import Partition
from kmirror.storage.unified_log import UnifiedLog

WITHOUT_LIMIT = -1
WHAT_TO_DO = (
    "remove the topic from the mirror to go on with what is here, or, to have what the source has, add it again then with "
    "kafka-mirrors --add --accept-truncation (--dry-run shows what goes)"
)


def records_lost(log: UnifiedLog, verdict: Verdict, *, until: int) -> int:
    """How many records below `until` go with `verdict`; a scan over headers, for a worker.

    What cleaners took is not counted.
    """
    start = log.log_start_offset if verdict.action is Action.START_OVER else verdict.offset
    return sum(header.record_count for header in log.batch_headers(start) if start <= header.base_offset < until)


def readable_until(partition: Partition) -> int:
    """Up to where consumers may have read."""
    return max(partition.leader_log.high_watermark, partition.leader_epoch_start_offset or 0)


def is_guarded(verdict: Verdict, limit: int) -> bool:
    """Whether it matters how many records a verdict removes."""
    return limit != WITHOUT_LIMIT and verdict.loss is not Loss.NONE and verdict.action in (Action.CUT, Action.START_OVER)


def refusal(verdict: Verdict, lost: int, limit: int) -> str | None:
    """Why the source is not followed; None: it is."""
    if lost == 0 or (verdict.loss is Loss.COUNTED and lost <= limit):
        return None
    why = "" if verdict.loss is Loss.EVERYTHING else f", more than mirror.max.truncation.records={limit}"
    return f"{verdict.reason}; following it would remove {lost} records that could be read here{why}. Everything is kept; {WHAT_TO_DO}"
