"""Closing compaction: what a log's keys say, compared with what its cleaner promises.

`cleaner-offset-checkpoint` says how far a pass has come. By then each key of the records below had
one committed record left there: a pass rewrites every segment below the end of what it read, and
drops the records that a newer one in what it read replaces. So two committed records of one key
below the checkpoint are a finding. They are looked for only where nothing else explains them:

* The data dir must be at rest: the checkpoint of a running broker, or of a folder copied from one,
  may be newer than the segments.
* The whole log must be sound. The active segment, which no pass rewrites, is left out.
* If DeleteRecords may have been used on the topic, the first segment is left out: a log start that
  a crash set back brings back records that the pass did not have to look at. Topics that were never
  anything but `compact` do not have this problem (Kafka refuses DeleteRecords for them).

Nothing else is a fault: what is above the checkpoint waits for a pass, a tombstone past its horizon
for the next one, and data of aborted transactions for one that meets it. The dirty ratio is that of
Kafka's cleaner, with min.compaction.lag.ms at 0. Keys that a log has lost cannot be known from that
log.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from kmirror.storage.log_file_names import LOG_FILE_SUFFIX
from kmirror.verify.replay.claims import DataDirClaims
from kmirror.verify.replay.compaction import KeyCounts, KeyScope
from kmirror.verify.replay.findings import Finding
from kmirror.verify.replay.log_view import COMPACTED_TOPICS, NEVER_DELETING_TOPICS
from kmirror.verify.replay.tables import CompactionRow, LogRow, ReplayTables, SegmentRow
from kmirror.verify.transaction_spans import NEVER, TransactionSpan

if TYPE_CHECKING:
    from kmirror.common.topic_partition import TopicPartition


def is_compacted(partition: TopicPartition, data_dir: DataDirClaims, compacted_topics: Collection[str] | None) -> bool:
    """Whether a log's keys are read. If the topics' configs are not known, a cleaner's checkpoint
    decides."""
    if partition in data_dir.offsets.get("cleaner", {}):
        return compacted_topics is None or partition.topic in compacted_topics
    if compacted_topics is None or partition.topic in COMPACTED_TOPICS:
        return partition.topic in NEVER_DELETING_TOPICS
    return partition.topic in compacted_topics


class _Bounds:
    """The bounds of one log, from its other rows: where its clean section ends, and where the
    cleanable part ends."""

    def __init__(self, tables: ReplayTables, data_dir: DataDirClaims) -> None:
        (self.log,) = tables.logs
        self.segments = sorted(tables.structure, key=lambda row: row.base_offset)
        said = data_dir.offsets.get("cleaner", {})
        self.cleaned_offset = next(iter(said.values()), None)
        self.is_valid = self.cleaned_offset is not None and self.log.log_start_offset <= self.cleaned_offset <= self.log.log_end_offset
        self.active_base_offset = self.segments[-1].base_offset
        self.first_dirty_offset = self.cleaned_offset if self.is_valid and self.cleaned_offset is not None else self.log.log_start_offset
        self.first_uncleanable_offset = self._first_uncleanable()

    def _first_uncleanable(self) -> int:
        log = self.log
        known = [log.log_end_offset, log.high_watermark, log.first_unstable_offset]
        bound = min(offset for offset in known if offset is not None)
        if bound >= self.active_base_offset:
            return self.active_base_offset
        return max((row.base_offset for row in self.segments if row.base_offset <= bound), default=self.active_base_offset)

    def sealed_bytes(self) -> tuple[int, int]:
        """Returns (bytes of the segments that begin in the clean section, bytes of those that a
        pass would read)."""
        clean = sum(row.segment_size for row in self.segments if row.base_offset < self.first_dirty_offset)
        start = min(self.first_dirty_offset, self.first_uncleanable_offset)
        floor = max((row.base_offset for row in self.segments if row.base_offset <= start), default=0)
        dirty = sum(row.segment_size for row in self.segments if floor <= row.base_offset < self.first_uncleanable_offset)
        return clean, dirty if start < self.first_uncleanable_offset else 0


def key_scope(tables: ReplayTables, data_dir: DataDirClaims, *, never_deletes: bool, now_ms: int | None) -> KeyScope | None:
    """Returns the scope of a log with these tables; None if it has no segment, or a damaged one."""
    if not tables.structure or any(row.problems for row in tables.structure):
        return None
    bounds = _Bounds(tables, data_dir)
    log = bounds.log
    checked_from = log.log_start_offset
    if not never_deletes:
        checked_from = max(checked_from, bounds.segments[1].base_offset if len(bounds.segments) > 1 else log.log_end_offset)
    checked_to = min(bounds.first_dirty_offset, bounds.active_base_offset) if bounds.is_valid and data_dir.at_rest else checked_from
    spans = [
        TransactionSpan(row.producer_id, row.first_offset, row.last_offset if row.last_offset is not None else NEVER)
        for row in tables.transactions
        if row.state in ("ABORTED", "ONGOING")
    ]
    return KeyScope(
        log.log_start_offset,
        checked_from,
        checked_to,
        bounds.first_dirty_offset,
        bounds.first_uncleanable_offset,
        now_ms if now_ms is not None else log.max_timestamp or 0,
        tuple(spans),
    )


def close_compaction(tables: ReplayTables, counts: KeyCounts, scope: KeyScope, data_dir: DataDirClaims) -> None:
    """Adds the row of a log, and findings, to its tables."""
    if counts.problem is not None and not data_dir.at_rest:
        return  # the cleaner or the retention of a running broker interfered
    bounds = _Bounds(tables, data_dir)
    findings = _findings(bounds.log, bounds.segments, counts, scope)
    tables.findings += findings
    tables.logs[:] = [replace(bounds.log, findings=bounds.log.findings + len(findings))]
    if counts.problem is not None:
        return
    clean, dirty = bounds.sealed_bytes()
    tables.compaction.append(
        CompactionRow(
            log=bounds.log.log,
            topic=bounds.log.topic,
            partition=bounds.log.partition,
            cleaned_offset=bounds.cleaned_offset,
            first_dirty_offset=scope.first_dirty_offset,
            first_uncleanable_offset=scope.first_uncleanable_offset,
            clean_bytes=clean,
            cleanable_bytes=dirty,
            dirty_ratio=dirty / (clean + dirty) if clean + dirty else 0.0,
            records=counts.records,
            keys=counts.keys,
            live_keys=counts.live_keys,
            superseded_records=counts.superseded,
            superseded_bytes=counts.superseded_bytes,
            removable_records=counts.removable,
            removable_bytes=counts.removable_bytes,
            unkeyed_records=counts.unkeyed,
            aborted_records=counts.aborted,
            open_records=counts.open,
            tombstones=counts.tombstones,
            tombstones_with_horizon=counts.tombstones_with_horizon,
            tombstones_past_horizon=counts.tombstones_past_horizon,
            first_delete_horizon=counts.first_delete_horizon if counts.first_delete_horizon != NEVER else None,
        )
    )


def _findings(log: LogRow, segments: list[SegmentRow], counts: KeyCounts, scope: KeyScope) -> list[Finding]:
    def finding(kind: str, file: str, segment: int | None, position: int | None, offset: int | None, text: str) -> Finding:
        return Finding(log.log, log.topic, log.partition, "compaction", kind, file, segment, position, offset, offset, text)

    if counts.problem is not None:
        file, position, reason = counts.problem
        base = int(file.rpartition("/")[2].removesuffix(LOG_FILE_SUFFIX))
        return [finding("corrupt", file, base, position, None, f"the records cannot be read: {reason}")]
    found = []
    for offset, newer in counts.examples:
        segment = max((row for row in segments if row.base_offset <= offset), key=lambda row: row.base_offset)
        text = f"the record at {newer} has its key, and the cleaner has been up to {scope.first_dirty_offset}"
        found.append(finding("superseded", segment.path, segment.base_offset, None, offset, text))
    if counts.kept_below_checkpoint > len(found):
        text = f"{counts.kept_below_checkpoint - len(found)} more records below the cleaner's checkpoint whose keys come again there"
        found.append(finding("superseded", log.log, None, None, None, text))
    return found
