"""The result of comparing logs: kinds of difference, facts of the batches concerned, one verdict
per partition, one for all.

All are `msgspec.Struct`s: they pickle (process pool, Spark), compare, and `msgspec.json.encode`
writes them. `to_json` and `verdict_from_json` of this file name the encoding in one place. `left`
is the first log that was given (A), `right` the second (B). A difference is described from A's
side: MISSING is what A has and B lacks, EXTRA what only B has.

A difference has exactly one kind, the first of these that fits:

    BEYOND_HIGH_WATERMARK  at or above the high watermark of a log that holds it: not committed
                           there, may still be removed
    EPOCH_ONLY             the same bytes except for the leader epoch in the header, which no CRC
                           covers
    CONTROL_ONLY           only control batches (transaction markers, MIRROR_PID_RESET): no record
                           of a producer is concerned
    KEY_LOST               A has the last record of a key and B lacks it, although B's cleaner, which
                           has been there, had no reason to remove it
    COMPACTED              one log lacks records that its cleaner may have removed, or a cleaner
                           rewrote the batch; what both have is equal
    NOT_DECIDED            one log lacks records that its cleaner may or may not have removed: there
                           are too many keys to tell, or nothing says that there is a cleaner;
                           `detail` says why
    RE_BATCHED             the same records at the same offsets in other batches or another
                           compression
    MISSING, EXTRA         only A has it, only B has it
    BYTES_DIFFER           everything else; `detail` says what

and if one log mirrors the other (`mirror_rules`):

    MIRROR_RULE            the destination's log is not as KIP-1279 wants it, whatever the source
                           has
    FRONT_MISSING          the source has records before the destination's log start (`front`)

and if the groups of a side are known (`group_rules`):

    GROUP_BEYOND_END       a group of that side has committed an offset past the end of that side's
                           log

and of the sets of logs, which are no partition's (`SetFacts`):

    SET_INCOMPLETE         a log that has to be there is not, or what was compared in its place is
                           not it
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

import msgspec

from kmirror.record.record_batch import RecordBatch


class DifferenceKind(StrEnum):
    """The values are those that `--ignore` takes and JSON shows."""

    MISSING = "missing"
    EXTRA = "extra"
    BYTES_DIFFER = "bytes-differ"
    EPOCH_ONLY = "epoch-only"
    CONTROL_ONLY = "control-only"
    RE_BATCHED = "re-batched"
    KEY_LOST = "key-lost"
    COMPACTED = "compacted"
    NOT_DECIDED = "not-decided"
    MIRROR_RULE = "mirror-rule"
    FRONT_MISSING = "front-missing"
    GROUP_BEYOND_END = "group-beyond-end"
    SET_INCOMPLETE = "set-incomplete"
    BEYOND_HIGH_WATERMARK = "beyond-high-watermark"

    @property
    def text(self) -> str:
        """The name for people."""
        return {
            "bytes-differ": "bytes differ",
            "epoch-only": "epoch only",
            "control-only": "control only",
            "key-lost": "key lost",
            "compacted": "compacted away",
            "not-decided": "not decided",
            "mirror-rule": "mirror rule",
            "front-missing": "missing at the front",
            "group-beyond-end": "group beyond the end",
            "set-incomplete": "set incomplete",
        }.get(self.value, self.value.replace("beyond-high-watermark", "beyond high watermark"))


class Status(StrEnum):
    """EQUAL: no difference.

    DIFFERENT: at least one. ERROR: a log could not be read to its end; `error` says where.
    """

    EQUAL = "equal"
    DIFFERENT = "different"
    ERROR = "error"


class BatchFacts(msgspec.Struct, frozen=True):
    """A batch's header and its place: `position` is the byte in `file` (for a live cluster: in what
    was fetched)."""

    file: str
    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    record_count: int
    leader_epoch: int
    crc: int
    crc_valid: bool
    compression: str
    timestamp_type: str
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool
    is_control: bool
    control_type: str | None = None
    """COMMIT, ABORT, MIRROR_PID_RESET ...; None for data."""


class LocatedBatch(msgspec.Struct, frozen=True):
    """A batch of a log and its place.

    `batch` is a view into a block that lives as long as it does.
    """

    file: str
    position: int
    batch: RecordBatch


class Difference(msgspec.Struct, frozen=True):
    """One run of offsets on which the logs do not agree. `left` and `right` are the first batches
    of each side, empty if it has none.

    What one log lacks completely is one difference, from where both were last equal to where they
    are equal again."""

    kind: DifferenceKind
    topic: str
    partition: int
    first_offset: int
    last_offset: int
    left: list[BatchFacts]
    right: list[BatchFacts]
    """The first batches of each side."""
    detail: str
    left_batch_count: int = 0
    right_batch_count: int = 0
    left_size_bytes: int = 0
    right_size_bytes: int = 0


class LogFacts(msgspec.Struct, frozen=True):
    """One of the two logs. `high_watermark` is None if nothing says what it is."""

    name: str
    log_start_offset: int
    log_end_offset: int
    high_watermark: int | None
    size_bytes: int
    segment_count: int
    trailing_bytes: int = 0
    """Bytes of an incomplete batch at the end: a broker was writing it, or the log was cut."""


class Front(msgspec.Struct, frozen=True):
    """Offsets that only one log has, because the other begins later. `record_count` is None where
    the records were not counted."""

    only_in_left: bool
    first_offset: int
    last_offset: int
    record_count: int | None
    reason: str


class PartitionVerdict(msgspec.Struct, frozen=True):
    """Two logs of one partition. `differences` holds the first ones; `difference_counts` (kind ->
    how many) counts all."""

    topic: str
    partition: int
    status: Status
    start_offset: int
    """The higher log start offset: nothing below was compared."""
    left: LogFacts | None
    right: LogFacts | None
    difference_counts: dict[str, int] = {}
    differences: list[Difference] = []
    ignored_counts: dict[str, int] = {}
    bytes_compared: int = 0
    error: str | None = None
    offsets_compared: int | None = None
    """How many offsets were compared, if not all from `start_offset` on."""
    front: Front | None = None
    """What one side has before `start_offset`, where the other has nothing; only of mirrors."""
    replicas_of: str | None = None
    """A or B, if both logs are replicas of that side; the right one is compared with the replica
    that an election would choose."""

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}" + (f" (replicas of {self.replicas_of})" if self.replicas_of else "")

    @property
    def difference_count(self) -> int:
        return sum(self.difference_counts.values())


class SetFacts(msgspec.Struct, frozen=True):
    """What is known of the set of one side's logs."""

    side: str
    partitions: int
    """How many of those that were asked for it has."""
    only_here: list[str]
    """Those that the other side lacks."""
    findings: list[str]
    """Why not all was compared that should be: what has to be there and is not, or is not what its
    name says. Each is a difference."""
    not_looked_at: list[str]
    warnings: list[str] = []
    """What is nobody's, or of logs that nobody asked for: no difference."""
    ignored_counts: dict[str, int] = {}
    """How many of `findings` do not count, by kind."""


class LogDiffReport(msgspec.Struct, frozen=True):
    """All partitions of a comparison."""

    status: Status
    left: str
    right: str
    engine: str
    partitions: list[PartitionVerdict]
    difference_counts: dict[str, int]
    sets: list[SetFacts] = []
    """Of both sides, unless they are one partition's folder."""

    @property
    def exit_code(self) -> int:
        return {Status.EQUAL: 0, Status.DIFFERENT: 1, Status.ERROR: 2}[self.status]


def make_report(left: str, right: str, engine: str, partitions: Collection[PartitionVerdict]) -> LogDiffReport:
    """Returns the verdict on `partitions`: an error anywhere is an error, a difference anywhere a
    difference."""
    verdicts = sorted(partitions, key=lambda verdict: (verdict.topic, verdict.partition, verdict.replicas_of or "", _place(verdict)))
    statuses = [verdict.status for verdict in verdicts]
    status = Status.ERROR if Status.ERROR in statuses else Status.DIFFERENT if Status.DIFFERENT in statuses else Status.EQUAL
    counts = {
        kind.value: total for kind in DifferenceKind if (total := sum(verdict.difference_counts.get(kind.value, 0) for verdict in verdicts))
    }
    return LogDiffReport(status=status, left=left, right=right, engine=engine, partitions=verdicts, difference_counts=counts)


def with_sets(report: LogDiffReport, sets: list[SetFacts]) -> LogDiffReport:
    """Returns the verdict with that on the sets of logs: equal logs of a set that is not complete are
    different."""
    found = sum(len(one.findings) - sum(one.ignored_counts.values()) for one in sets)
    if not found:
        return msgspec.structs.replace(report, sets=sets)
    counts = report.difference_counts | {DifferenceKind.SET_INCOMPLETE.value: found}
    ordered = {kind.value: counts[kind.value] for kind in DifferenceKind if kind.value in counts}
    status = Status.DIFFERENT if report.status is Status.EQUAL else report.status
    return msgspec.structs.replace(report, sets=sets, status=status, difference_counts=ordered)


def _place(verdict: PartitionVerdict) -> str:
    return verdict.right.name if verdict.right is not None else ""


def error_verdict(topic: str, partition: int, error: str) -> PartitionVerdict:
    """Returns the verdict on a partition that could not be compared at all."""
    return PartitionVerdict(topic=topic, partition=partition, status=Status.ERROR, start_offset=-1, left=None, right=None, error=error)


def to_json(value: PartitionVerdict | LogDiffReport) -> bytes:
    return msgspec.json.encode(value)


def verdict_from_json(data: bytes) -> PartitionVerdict:
    return msgspec.json.decode(data, type=PartitionVerdict)
