"""What one partition would lose by an irreversible action of `kafka-mirrors`.

A log loses at its end what is cut (`batches`), and at its front what the other cluster's log no
longer has (`front`): a mirror follows the log start of its source. What the other cluster has and
this one lacks is not dropped by the action itself, but a later failback drops it there
(`not_mirrored`, `only_at_source`). What could not be looked at is `unknown`, and never nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from kmirror.admin.results import MirrorPartitionDescription
from kmirror.cli.mirrors_groups import GroupBeyondEnd
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirror.logs.log_alignment import AlignmentHeader, Transaction


class OffsetRange(NamedTuple):
    """Offsets from `start` to before `end`; empty if there are none."""

    start: int
    end: int

    def __str__(self) -> str:
        return f"offsets {self.start} to {self.end - 1}" if self.start < self.end else f"none, it ends at {self.end}"


class FrontLoss(NamedTuple):
    """Records that would go because the source's log begins at `offsets.end`."""

    offsets: OffsetRange
    record_count: int


class LastKnownLag(NamedTuple):
    """What was last told of a source that cannot be asked; -1: never."""

    lag: int
    age_ms: int

    def __str__(self) -> str:
        if self.lag < 0:
            return "its lag was never known"
        return f"lag {self.lag}, as of {self.age_ms // 1000} s ago" if self.age_ms >= 0 else f"lag {self.lag}"


def last_known_lag(row: MirrorPartitionDescription) -> LastKnownLag:
    """Returns what a broker of the mirror last heard of the source; its age may be unknown."""
    return LastKnownLag(row.last_known_lag if row.last_known_lag >= 0 else row.lag, row.lag_age_ms)


@dataclass(slots=True)
class DroppedRecords:
    """What one partition would lose: the offsets from `cut_offset` to `log_end_offset`, and its
    front.

    `batches` are the batches behind the cut, `transactions` the transactions in them.
    """

    topic_partition: TopicPartition
    reason: str
    cut_offset: int
    log_end_offset: int
    batches: list[AlignmentHeader] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    groups: list[GroupBeyondEnd] = field(default_factory=list)
    not_mirrored: int | None = None
    """Failover: number of offsets that the mirror lacks; None when the source cannot be asked."""
    front: FrontLoss | None = None
    log_start_offset: int | None = None
    source: OffsetRange | None = None
    """What the other cluster has; None where it was not asked."""
    only_at_source: OffsetRange | None = None
    """Failover: what the source has before this log's start."""
    unknown: str | None = None
    """Why it is not known what would be dropped."""
    drops_later: bool = False
    """The action drops nothing, but what it changes may make a later failback drop records."""
    own_retention: str | None = None
    """What the cluster that is written to afterwards deletes by, and the other one keeps longer."""
    waits: bool = False
    """Nothing is dropped until the partition goes on; only what goes then is unknown."""
    front_reason: str | None = None
    """Why one side has the front, or `only_at_source`, no more."""
    last_known_lag: LastKnownLag | None = None
    """Failover: what was last known of a source that cannot be asked now."""

    @property
    def record_count(self) -> int:
        """Records behind the cut."""
        return sum(batch.record_count for batch in self.batches if not batch.is_control)

    @property
    def is_cut(self) -> bool:
        return self.cut_offset < self.log_end_offset

    @property
    def dropped_count(self) -> int:
        """Records that would be dropped, at the end and at the front."""
        behind = self.record_count if self.is_cut else 0
        return behind + (0 if self.front is None else self.front.record_count)

    @property
    def is_nothing(self) -> bool:
        """Whether both logs were looked at, and neither loses anything by this."""
        is_open = self.unknown is not None or self.last_known_lag is not None
        is_lacking = bool(self.not_mirrored) or self.only_at_source is not None
        is_lacking = is_lacking or self.drops_later or self.own_retention is not None
        return not (self.is_cut or self.front is not None or is_open or is_lacking)

    def look_at_front(self, headers: Iterable[AlignmentHeader], log_start_offset: int, source: OffsetRange) -> None:
        """Adds what would go at the front, because the log follows the source's log start.

        Where a border lies inside a batch, all of it that can be affected counts.
        """
        self.log_start_offset, self.source = log_start_offset, source
        end = min(source.start, self.cut_offset)
        if log_start_offset >= end:
            return
        kept = [header for header in headers if header.base_offset < end and not header.is_control]
        count = sum(min(header.record_count, end - max(header.base_offset, log_start_offset)) for header in kept)
        if count:
            self.front = FrontLoss(OffsetRange(log_start_offset, end), count)


def total_text(losses: list[DroppedRecords]) -> str:
    """Returns the sums over all partitions; what is unknown is counted as such."""
    parts = [f"{sum(loss.dropped_count for loss in losses)} record(s) would be dropped"]
    unknown = sum(loss.unknown is not None for loss in losses)
    if unknown:
        parts.append(f"not known of {unknown} partition(s)")
    lacking = sum(loss.not_mirrored or 0 for loss in losses)
    if lacking:
        parts.append(f"{lacking} offset(s) of the source are not mirrored")
    fronts = sum(loss.only_at_source.end - loss.only_at_source.start for loss in losses if loss.only_at_source)
    if fronts:
        parts.append(f"{fronts} offset(s) before the log starts here are only at the source")
    told = [loss.last_known_lag for loss in losses if loss.last_known_lag is not None]
    if told:
        known = [one for one in told if one.lag >= 0]
        last = LastKnownLag(sum(one.lag for one in known), max((one.age_ms for one in known), default=-1))
        facts = [f"{last} of {len(known)} partition(s)"] if known else []
        facts += [f"no lag was ever known of {len(told) - len(known)}"] if len(known) < len(told) else []
        parts.append(f"what the source has beyond this is not known: {', '.join(facts)}")
    return f"Total of {len(losses)} partition(s): {'; '.join(parts)}"
