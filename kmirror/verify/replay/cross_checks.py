"""Where a cluster's own topics and its logs contradict each other: `timelines` against the tables
of `close`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

from kmirror.verify.replay.findings import Finding
from kmirror.verify.replay.internal_records import CoordinatorTransactionRow, OffsetCommitRow
from kmirror.verify.replay.tables import LogRow, ReplayTables, TransactionRow
from kmirror.verify.replay.timelines import STATE_NAMES, Timelines, removals, state_name

ONGOING: Final = 1
PREPARED: Final = (2, 3)
STOPPING: Final = STATE_NAMES.index("STOPPING")
STOPPED: Final = STATE_NAMES.index("STOPPED")
LATE_MS: Final = 15 * 60_000
"""`transaction.max.timeout.ms`: with running brokers, a younger transaction may be newer than what
was read from its coordinator."""


class CrossChecks:
    """`topic_ids` returns a log's topic id from its partition.metadata. `at_rest` and `has_grown`
    tell about a log's folder, and are called only where it matters."""

    def __init__(
        self,
        timelines: Timelines,
        tables: ReplayTables,
        *,
        topic_ids: Callable[[str], str | None],
        at_rest: Callable[[str], bool],
        has_grown: Callable[[str], bool],
    ) -> None:
        self._timelines = timelines
        self._tables = tables
        self._topic_ids = topic_ids
        self._at_rest = at_rest
        self._has_grown = has_grown
        self._logs: dict[tuple[str, int], LogRow] = {}
        for row in tables.logs:
            known = self._logs.get((row.topic, row.partition))
            if known is None or row.log_end_offset > known.log_end_offset:
                self._logs[row.topic, row.partition] = row

    def run(self) -> None:
        """Adds the rows and the findings to the tables."""
        timelines, tables = self._timelines, self._tables
        tables.group_offsets += with_outcomes(timelines.group_offsets, tables.transactions)
        tables.groups += timelines.groups
        tables.mirror_states += timelines.mirror_states
        tables.last_mirror_epochs += timelines.last_mirror_epochs
        tables.coordinator_transactions += timelines.coordinator_transactions
        tables.leaders += timelines.leaders
        tables.topics += timelines.topics
        tables.assignments += timelines.assignments
        for check in (self._bad_records, self._mirrors, self._resets, self._groups, self._transactions, self._leaders):
            tables.findings += check()
        counts: dict[str, int] = {}
        for finding in tables.findings:
            counts[finding.log] = counts.get(finding.log, 0) + 1
        tables.logs = [replace(row, findings=counts.get(row.log, 0)) for row in tables.logs]

    def _bad_records(self) -> Iterator[Finding]:
        for bad in self._timelines.bad:
            log, topic, partition, offset, _ = bad.place
            text = f"the record cannot be decoded: {bad.text}"
            yield Finding(log, topic, partition, "records", "corrupt", bad.file, None, bad.position, offset, offset, text)

    def _mirrors(self) -> Iterator[Finding]:
        for row in self._timelines.mirror_states:
            if not row.is_legal:
                steps = f"{state_name(row.previous_state)} to {state_name(row.state)}"
                text = f"{row.mirrored_topic}-{row.mirrored_partition} of mirror {row.mirror} goes from {steps}, which is not a transition of the state machine"
                offset = row.record_offset
                yield Finding(row.log, row.topic, row.partition, "mirror_states", "step", row.log, None, None, offset, offset, text)

    def _resets(self) -> Iterator[Finding]:
        """A stopped partition becomes writable after its MIRROR_PID_RESET (KIP-1279), which only
        retention removes."""
        if not self._timelines.has_whole_metadata:
            return
        removed = removals(self._timelines.topics)
        last = {(row.mirror, row.mirrored_topic, row.mirrored_partition): row for row in self._timelines.mirror_states}
        for (mirror, topic, partition), row in last.items():
            log = self._logs.get((topic or "", -1 if partition is None else partition))
            if row.state != STOPPED or row.previous_state != STOPPING or log is None or log.resets or log.log_start_offset > 0:
                continue
            if any(when >= row.record_timestamp for when in removed.get(topic or "", ())) or self._is_behind(log):
                continue
            text = f"mirror {mirror} stopped {topic}-{partition}, and no MIRROR_PID_RESET is in its log"
            yield Finding(
                log.log, log.topic, log.partition, "mirror_states", "reset_missing", log.log, None, None, None, None, text
            )  # fmt: skip

    def _is_behind(self, log: LogRow) -> bool:
        """Whether a broker is running and has appended since the log was listed."""
        return not self._at_rest(log.log) and self._has_grown(log.log)

    def _groups(self) -> Iterator[Finding]:
        for (group, topic, partition), row in last_commits(self._tables.group_offsets).items():
            log = self._logs.get((topic, partition))
            if row.committed_offset is None or log is None or row.committed_offset <= log.log_end_offset:
                continue
            if self._is_behind(log):
                continue
            text = f"group {group} has committed {row.committed_offset} of {topic}-{partition}, and the log ends at {log.log_end_offset}"
            offset = row.record_offset
            yield Finding(row.log, row.topic, row.partition, "group_offsets", "beyond_end", row.log, None, None, offset, offset, text)

    def _transactions(self) -> Iterator[Finding]:
        mirrored = self._timelines.mirrored_topics
        if mirrored is None or not any("__transaction_state" in log for log in self._timelines.logs):
            return
        by_producer: dict[int, CoordinatorTransactionRow] = {}
        ids: dict[str, CoordinatorTransactionRow] = {}
        for row in self._timelines.coordinator_transactions:
            ids[row.transactional_id] = row
        for row in ids.values():
            if row.producer_id is not None:
                by_producer[row.producer_id] = row
        for open_one in self._tables.transactions:
            best = self._logs.get((open_one.topic, open_one.partition))
            if open_one.state != "ONGOING" or open_one.topic in mirrored or best is None or best.log != open_one.log:
                continue
            if not self._at_rest(open_one.log) and (open_one.age_ms or 0) < LATE_MS:
                continue
            reason = _not_open(by_producer.get(open_one.producer_id), open_one)
            if reason is not None:
                text = f"producer {open_one.producer_id} has been in a transaction since offset {open_one.first_offset}, and {reason}"
                yield Finding(
                    open_one.log, open_one.topic, open_one.partition, "transactions", "hanging", open_one.log, None, None,
                    open_one.first_offset, best.log_end_offset - 1, text,
                )  # fmt: skip

    def _leaders(self) -> Iterator[Finding]:
        mirrored = self._timelines.mirrored_topics
        if mirrored is None:
            return
        epochs = self._timelines.epochs_of_leaders()
        for row in self._tables.leader_epochs:
            if row.first_offset is None or row.epoch < 0 or row.topic in mirrored:
                continue
            topic_id = self._topic_ids(row.log)
            had = epochs.get((topic_id, row.partition)) if topic_id is not None else None
            if had is None or row.epoch in had or (row.epoch > max(had) and not self._at_rest(row.log)):
                continue
            if row.epoch < min(had) and not self._timelines.has_whole_metadata:
                continue  # the snapshot has only each partition's last epoch
            text = f"batches have leader epoch {row.epoch}, which no leader had; the metadata log knows {_ranges(had)}"
            last = (row.next_offset or row.first_offset + 1) - 1
            yield Finding(row.log, row.topic, row.partition, "leaders", "epoch", row.log, None, None, row.first_offset, last, text)


def with_outcomes(rows: Iterable[OffsetCommitRow], transactions: Iterable[TransactionRow]) -> Iterator[OffsetCommitRow]:
    """Yields the commits, with the outcome of their transactions for transactional ones."""
    ends: dict[tuple[str, int], list[TransactionRow]] = {}
    for transaction in transactions:
        ends.setdefault((transaction.log, transaction.producer_id), []).append(transaction)
    for row in rows:
        if row.producer_id is not None:
            for end in ends.get((row.log, row.producer_id), ()):
                if end.first_offset <= row.record_offset and (end.last_offset is None or row.record_offset <= end.last_offset):
                    row = replace(row, state=end.state)
        yield row


def last_commits(rows: Iterable[OffsetCommitRow]) -> dict[tuple[str, str, int], OffsetCommitRow]:
    """Returns (group, topic, partition) -> the last commit that holds; if it was deleted, the row
    says so."""
    return {(row.group, row.committed_topic, row.committed_partition): row for row in rows if row.state == "COMMITTED"}


def _not_open(row: CoordinatorTransactionRow | None, open_one: TransactionRow) -> str | None:
    """Returns why the coordinator does not know of an open transaction; None if it does."""
    if row is None:
        return "no transactional id has that producer"
    if row.state in PREPARED:
        return None  # the marker is on its way
    names = (row.partitions or "").split(",")
    if row.state == ONGOING:
        is_known = f"{open_one.topic}-{open_one.partition}" in names
        return None if is_known else f"that of {row.transactional_id} has no part in this partition"
    if row.producer_epoch is not None and row.producer_epoch < open_one.producer_epoch:
        return None  # begun by a newer producer epoch than the coordinator's record has
    return f"its transactional id {row.transactional_id} is in none"


def _ranges(numbers: set[int]) -> str:
    return f"{min(numbers)} to {max(numbers)}" if len(numbers) == max(numbers) - min(numbers) + 1 else ", ".join(map(str, sorted(numbers)))
