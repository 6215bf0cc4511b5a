"""Where a log has to be cut, and which epoch it ends in: pure functions over batch headers.

Only batches count, never the epoch cache: a leader's empty epoch entry says nothing about data
(C5). Offsets of cuts are batch boundaries: Kafka truncates whole batches, so a target inside one is
lowered to its base (C35).

*LSO fixpoint* (C2). Cutting a log at its last stable offset can remove the marker of another
transaction, which then hangs. With transactions as intervals [first offset, marker offset], a cut
at t opens every one with first < t <= marker; the cut is lowered to the smallest such first offset
until none is opened. In the KIP's example (4001: 0..3, 4002: from 2) cutting at 4 opens 4002,
cutting at 2 opens 4001, so the result is 0.

*Last mirror epoch* (D4 step 4). This is the largest leader epoch of the batches left, except that
if the last reset in the log is our own (it carries the mirror's SourceClusterId), only batches
before it count. A value that is too low is always safe, one that is too high never is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from kmirror.common.ports import Buffer
from kmirror.common.sentinels import NO_EPOCH
from kmirror.record.control_record import ControlRecordType
from kmirror.record.record_batch import RecordBatch, iter_batches
from kmirror.wire.messages.mirror_pid_reset_record import MirrorPidResetRecord


class AlignmentHeader(NamedTuple):
    """What alignment needs of a batch.

    `reset_source` is the SourceClusterId of a MIRROR_PID_RESET, else None.
    """

    base_offset: int
    last_offset: int
    leader_epoch: int
    producer_id: int
    is_transactional: bool
    is_control: bool
    reset_source: str | None
    record_count: int
    size_in_bytes: int


def header_of(batch: RecordBatch) -> AlignmentHeader:
    """The header of a batch; only the content of control batches is read."""
    reset_source = source_of_reset(batch) if batch.is_control and not batch.is_transactional else None
    return AlignmentHeader(
        batch.base_offset,
        batch.last_offset,
        batch.partition_leader_epoch,
        batch.producer_id,
        batch.is_transactional,
        batch.is_control,
        reset_source,
        batch.record_count,
        batch.size_in_bytes,
    )


def source_of_reset(batch: RecordBatch) -> str | None:
    """The SourceClusterId of a MIRROR_PID_RESET batch; None for any other control batch."""
    for record in batch.records():
        if record.value is not None and ControlRecordType.parse(record.key) is ControlRecordType.MIRROR_PID_RESET:
            return MirrorPidResetRecord.read(memoryview(record.value), 0, 0)[0].source_cluster_id
    return None


def headers(buffer: Buffer) -> Iterator[AlignmentHeader]:
    for batch in iter_batches(buffer):
        yield header_of(batch)


class Transaction(NamedTuple):
    """A transaction's first offset and that of its marker; None while it is open."""

    producer_id: int
    first_offset: int
    marker_offset: int | None


class TransactionScan:
    """Collects the transactions of a log from its batches in order.

    A reset ends everything before it (C9).
    """

    def __init__(self) -> None:
        self._open: dict[int, int] = {}
        self._transactions: list[Transaction] = []

    def add(self, header: AlignmentHeader) -> None:
        if header.reset_source is not None:
            for producer_id, first_offset in self._open.items():
                self._transactions.append(Transaction(producer_id, first_offset, header.base_offset))
            self._open.clear()
        elif not header.is_transactional:
            return
        elif header.is_control:
            first = self._open.pop(header.producer_id, None)
            if first is not None:
                self._transactions.append(Transaction(header.producer_id, first, header.base_offset))
        else:
            self._open.setdefault(header.producer_id, header.base_offset)

    def transactions(self) -> list[Transaction]:
        """Ended transactions in the order of their markers, then the open ones."""
        return self._transactions + [Transaction(producer_id, first, None) for producer_id, first in self._open.items()]


def lso_fixpoint(transactions: Iterable[Transaction], log_end_offset: int) -> int:
    """The largest offset at which cutting leaves no transaction open."""
    intervals = list(transactions)
    cut = log_end_offset
    while True:
        opened = [t.first_offset for t in intervals if t.first_offset < cut and (t.marker_offset is None or t.marker_offset >= cut)]
        if not opened:
            return cut
        cut = min(opened)


@dataclass(slots=True)
class LogSummary:
    """What one pass over a log's headers says about its end."""

    source_cluster_id: str
    """The mirror's source; resets that carry it are "own" ones."""

    largest_epoch: int = NO_EPOCH
    largest_epoch_before_last_batch: int = NO_EPOCH
    largest_epoch_before_own_reset: int | None = None
    own_reset_offset: int | None = None
    """The offset of the log's last reset, if it is our own: what was mirrored is before it, what
    was written here is after it.
    """

    own_reset_epoch: int | None = None
    """The epoch of the log's last reset, if it is our own and no batch with a lower epoch follows
    it.
    """
    last_batch: AlignmentHeader | None = None
    scan: TransactionScan = field(default_factory=TransactionScan)

    def add(self, header: AlignmentHeader) -> None:
        self.largest_epoch_before_last_batch = self.largest_epoch
        if header.reset_source is not None:
            is_own = header.reset_source == self.source_cluster_id
            self.largest_epoch_before_own_reset = self.largest_epoch if is_own else None
            self.own_reset_offset = header.base_offset if is_own else None
            self.own_reset_epoch = header.leader_epoch if header.reset_source == self.source_cluster_id else None
        elif self.own_reset_epoch is not None and header.leader_epoch < self.own_reset_epoch:
            self.own_reset_epoch = None
        self.largest_epoch = max(self.largest_epoch, header.leader_epoch)
        self.last_batch = header
        self.scan.add(header)

    @property
    def last_mirror_epoch(self) -> int:
        """The last mirror epoch of a partition that was mirroring; -1 if no batch counts (D4 step
        4).
        """
        return self.largest_epoch if self.largest_epoch_before_own_reset is None else self.largest_epoch_before_own_reset

    def ends_in_own_reset(self, *, stored_epoch: int, leader_epoch: int) -> bool:
        """Whether stopping was completed up to and including the reset (D4 step 0)."""
        last = self.last_batch
        return (
            last is not None
            and last.reset_source == self.source_cluster_id
            and last.leader_epoch <= leader_epoch
            and self.largest_epoch_before_last_batch == stored_epoch
        )

    def is_written_since_own_reset(self, *, leader_epoch: int) -> bool:
        """Whether stopping got as far as the reset, and only what this cluster wrote itself follows
        it. If the topic was mirrored again since, PREPARING has cut the reset off (D5), or the
        failback partner's reset follows it (D4 step 6).
        """
        return self.own_reset_epoch is not None and self.own_reset_epoch <= leader_epoch


def summarize(batch_headers: Iterable[AlignmentHeader], source_cluster_id: str) -> LogSummary:
    summary = LogSummary(source_cluster_id)
    for header in batch_headers:
        summary.add(header)
    return summary


def last_mirror_epoch_to_store(summary: LogSummary, *, stored_epoch: int, was_mirroring: bool) -> int:
    """The last mirror epoch to store when stopping (D4 step 4).

    A partition that was stopped before it ever mirrored keeps min(stored, largest): its own epochs
    are not the source's (F6).
    """
    if summary.last_batch is None:
        return NO_EPOCH
    if was_mirroring:
        return summary.last_mirror_epoch
    return NO_EPOCH if stored_epoch == NO_EPOCH else min(stored_epoch, summary.largest_epoch)


def minimum_epoch_to_bump_above(summary: LogSummary, *, stored_epoch: int, highest_source_epoch: int) -> int:
    """The epoch that stopping must bump the leader epoch above (D4 step 2)."""
    return max(summary.largest_epoch, stored_epoch, highest_source_epoch)


class AlignmentPoint(NamedTuple):
    """Where PREPARING cuts.

    `truncate_fully`: drop everything and start at the source's log start.
    """

    offset: int
    truncate_fully: bool


def alignment_point(
    last_mirror_epoch: int,
    first_offset_above: int | None,
    *,
    has_batches: bool,
    log_start_offset: int,
    log_end_offset: int,
) -> AlignmentPoint:
    """Where PREPARING cuts, given the source's last mirror epoch (D5 step 2).

    `first_offset_above`: base offset of the first local batch whose epoch is above the LME, None if
    there is none.

    LME -1 drops everything. No local epoch above the LME leaves the log as it is (C3); all epochs
    above it: log start.
    """
    if last_mirror_epoch == NO_EPOCH:
        return AlignmentPoint(0, True)
    if not has_batches or first_offset_above is None:
        return AlignmentPoint(log_end_offset, False)
    if first_offset_above <= log_start_offset:
        return AlignmentPoint(log_start_offset, True)
    return AlignmentPoint(first_offset_above, False)
