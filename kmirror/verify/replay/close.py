"""Closing a partition: its partial and its claims become rows and findings."""

from __future__ import annotations

from collections.abc import Collection

from kmirror.storage.leader_epoch_checkpoint_file import LEADER_EPOCH_CHECKPOINT_FILE_NAME
from kmirror.verify.replay import leader_epochs
from kmirror.verify.replay.claims import PartitionClaims
from kmirror.verify.replay.close_producers import SnapshotCheck
from kmirror.verify.replay.close_structure import check_structure, close_indexes, segment_rows
from kmirror.verify.replay.close_transactions import TransactionCheck
from kmirror.verify.replay.log_view import LogView
from kmirror.verify.replay.partial import ReplayPartial
from kmirror.verify.replay.tables import LeaderEpochRow, LogRow, ReplayTables

PRODUCER_ID_EXPIRATION_MS = 86_400_000


def close_partition(
    partial: ReplayPartial,
    claims: PartitionClaims,
    *,
    now_ms: int | None = None,
    producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
    compacted_topics: Collection[str] | None = None,
) -> ReplayTables:
    """Returns the tables of one partition; `partial` covers all its segments. `compacted_topics`
    has all there are, None if they are not known."""
    view = LogView(partial, claims, compacted_topics=compacted_topics)
    tables = ReplayTables()
    check_structure(view)
    tables.structure += segment_rows(view)
    tables.leader_epochs += _leader_epochs(view)
    tables.producers += SnapshotCheck(view, producer_id_expiration_ms=producer_id_expiration_ms).run()
    transactions = TransactionCheck(view, now_ms=now_ms)
    transactions.check()
    tables.transactions += transactions.rows()
    tables.transaction_counts.append(transactions.counts())
    tables.indexes += close_indexes(view)
    tables.findings += view.findings
    tables.logs.append(_log_row(view, transactions))
    return tables


def _leader_epochs(view: LogView) -> list[LeaderEpochRow]:
    claims, runs = view.claims, view.partial.epochs
    path = f"{claims.path}/{LEADER_EPOCH_CHECKPOINT_FILE_NAME}"
    for problem in leader_epochs.backward_runs(runs):
        segment = view.segment_at(problem.first_offset)
        view.found(
            "leader_epochs",
            problem.kind,
            segment.path if segment is not None else claims.path,
            problem.text,
            segment=segment.base_offset if segment is not None else None,
            first_offset=problem.first_offset,
            last_offset=problem.last_offset,
        )
    entries = claims.epochs or []
    if claims.epochs_error is not None:
        view.found("leader_epochs", "corrupt", path, claims.epochs_error)
    elif claims.epochs is None and any(run.epoch >= 0 for run in runs):
        view.found("leader_epochs", "missing", path, "the file does not exist, but the log has leader epochs")
    elif claims.epochs is not None and not any(segment.structure.problems for segment in view.segments):
        start = view.log_start_offset if view.log_start_is_known else None
        for problem in leader_epochs.compare(runs, entries, log_start_offset=start, at_rest=view.at_rest):
            view.found(
                "leader_epochs", problem.kind, path, problem.text, first_offset=problem.first_offset, last_offset=problem.last_offset
            )
    claimed = {entry.epoch: entry.start_offset for entry in entries}
    rows = [
        LeaderEpochRow(view.path, view.topic, view.partition, run.epoch, run.first_offset, run.next_offset, claimed.get(run.epoch))
        for run in runs
    ]
    known = {run.epoch for run in runs}
    rows += [
        LeaderEpochRow(view.path, view.topic, view.partition, epoch, None, None, start) for epoch, start in entries if epoch not in known
    ]
    return rows


def _log_row(view: LogView, transactions: TransactionCheck) -> LogRow:
    structures = [segment.structure for segment in view.segments]
    newest = max((structure.max_timestamp for structure in structures), default=-1)
    between = 0
    expected = view.first_base_offset
    for segment in view.segments:
        first = segment.structure.first_offset if segment.structure.batches else segment.base_offset
        between += max(first - expected, 0)
        expected = max(expected, segment.structure.next_offset if segment.structure.batches else segment.base_offset)
    return LogRow(
        log=view.path,
        topic=view.topic,
        partition=view.partition,
        log_start_offset=view.log_start_offset,
        log_end_offset=view.log_end_offset,
        high_watermark=view.claims.checkpoint("high_watermark"),
        first_unstable_offset=transactions.first_unstable_offset,
        segments=len(view.segments),
        size=sum(structure.size for structure in structures),
        batches=sum(structure.batches for structure in structures),
        records=sum(structure.records for structure in structures),
        gaps=sum(structure.gaps for structure in structures),
        missing_offsets=sum(structure.missing_offsets for structure in structures) + between,
        max_timestamp=newest if newest >= 0 else None,
        resets=transactions.resets,
        findings=len(view.findings),
    )
