"""Compares two logs of one partition and returns a verdict. It only reads: no Spark, no asyncio, no
threads; memory is bounded by blocks.

From the batch that holds the higher of the two log start offsets on, the `.log` bytes must be
equal; where segments begin does not matter. Equal logs are compared at the speed of memory: large
reads, one `==` each. At the first byte that differs, both cursors go back to the beginning of its
batch, and batches are read and their differences classified (`batch_diff`) until the logs are equal
again. Then blocks follow again, small ones first, doubled while they are equal, so a log full of
differences is not read many times.

A log that cannot be read to its end gives a verdict with status ERROR, which names file and byte
and keeps the differences found before. CRCs are checked only where bytes differ: two equal logs
that are corrupt in the same place are equal. So are logs with the same wrong leader epoch, which no
CRC covers: one side's alone is `epoch-only`, and `verify-logs` holds each log against its own
`leader-epoch-checkpoint`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from kmirror.common.errors import KmirrorError
from kmirror.verify.batch_diff import ReadDifference, read_difference
from kmirror.verify.chain import Side
from kmirror.verify.compared_log import ComparedLog, DirectoryCursor, DirectoryLog, LogCursor, Place
from kmirror.verify.key_evidence import Evidence, KeyEvidence, KeysNeededError, NoKeys
from kmirror.verify.verdict import Difference, DifferenceKind, LogFacts, PartitionVerdict, Status

if TYPE_CHECKING:
    from kmirror.verify.chunk_diff import ComparedChunks
    from kmirror.verify.spilled_rows import Scratch

BLOCK_BYTES: Final = 64 * 1024
"""Two blocks stay in the cache, and the allocator reuses the same memory; with 1 MiB blocks the
comparison takes half as long again."""
FIRST_BLOCK_BYTES: Final = 16 * 1024
DEFAULT_MAX_DIFFERENCES: Final = 1_000

Progress = Callable[[int], None]
"""Called with the bytes (of both logs together) that have been compared since the last call."""


@dataclass(frozen=True, slots=True)
class DiffSettings:
    """What counts. `ignored` kinds are counted separately and do not make logs different; with
    `allow_lag` neither does a tail that B lacks."""

    ignored: frozenset[DifferenceKind] = frozenset()
    allow_lag: bool = False
    max_differences: int = DEFAULT_MAX_DIFFERENCES
    """How many differences a verdict lists; the others are only counted."""
    scratch: Scratch | None = None
    """Makes a temporary file, for the keys of logs with millions of them (`key_evidence`)."""


@dataclass(slots=True)
class _Findings:
    settings: DiffSettings
    counts: dict[str, int] = field(default_factory=dict)
    ignored: dict[str, int] = field(default_factory=dict)
    listed: list[Difference] = field(default_factory=list)
    last: ReadDifference | None = None
    """The last finding, which waits for findings that it may be joined with."""

    def add(self, finding: ReadDifference) -> None:
        if self.last is None or not self.last.join(finding):
            self.end_run()
            self.last = finding

    def end_run(self) -> None:
        """Ends a run: both logs agree again, or have ended."""
        finding, self.last = self.last, None
        if finding is None:
            return
        kind = finding.kind
        is_ignored = kind in self.settings.ignored or (finding.is_lag and self.settings.allow_lag)
        counts = self.ignored if is_ignored else self.counts
        counts[kind.value] = counts.get(kind.value, 0) + 1
        if not is_ignored and len(self.listed) < self.settings.max_differences:
            self.listed.append(finding.difference())


def no_progress(size: int) -> None:
    """The progress callback for callers that want none."""


def diff_logs(
    left: ComparedLog,
    right: ComparedLog,
    settings: DiffSettings = DiffSettings(),
    progress: Progress = no_progress,
    evidence: Evidence | None = None,
) -> PartitionVerdict:
    """Compares two logs. Never raises for what is in them: the verdict says it.

    `evidence` says what their cleaners may have removed; by default it is that of their keys, where
    nothing else tells."""
    return _verdict(left, right, settings, progress, evidence, lambda comparison: comparison.run())


def diff_parts(
    left: DirectoryLog,
    right: DirectoryLog,
    found: ComparedChunks,
    settings: DiffSettings = DiffSettings(),
    progress: Progress = no_progress,
    *,
    facts: tuple[LogFacts | None, LogFacts | None] = (None, None),
) -> PartitionVerdict:
    """Returns the verdict of `diff_logs` for logs that were compared by chunks: only `found.parts`
    are read. `facts` are those that are already known."""
    try:
        return _verdict(
            left, right, settings, progress, None, lambda comparison: comparison.run_parts(left, right, found), facts, found.end_offset
        )
    except _AstrayError:
        if found.end_offset is None:
            return diff_logs(left, right, settings, progress)
    whole = found._replace(parts=[found.parts[0]._replace(left=None, right=None, left_end=None, right_end=None)], equal_bytes=0)
    return _verdict(
        left, right, settings, progress, None, lambda comparison: comparison.run_parts(left, right, whole), facts, whole.end_offset
    )


def diff_piece(
    left: DirectoryLog,
    right: DirectoryLog,
    found: ComparedChunks,
    settings: DiffSettings = DiffSettings(),
    *,
    facts: tuple[LogFacts | None, LogFacts | None] = (None, None),
    is_last: bool = True,
) -> PartitionVerdict | None:
    """Like `diff_parts` for some of a partition's parts, for `joined`. Returns None if both logs
    must be read whole: for their keys, or because a part does not end at a batch boundary.

    Unknown facts of the logs are looked up only for the last piece."""
    if not is_last:
        facts = left.facts_of(left.log_start_offset, 0), right.facts_of(right.log_start_offset, 0)
    try:
        return _verdict(
            left,
            right,
            settings,
            no_progress,
            NoKeys(right),
            lambda comparison: comparison.run_parts(left, right, found),
            facts,
            found.end_offset,
        )
    except (_AstrayError, KeysNeededError):
        return None


def joined(verdicts: Sequence[PartitionVerdict], max_differences: int) -> PartitionVerdict:
    """Returns the verdict on a whole partition from those of its pieces, in their order. An error
    ends it, as it ends reading."""
    failed = next((index for index, one in enumerate(verdicts) if one.error is not None), len(verdicts))
    read = verdicts[: failed + 1]
    counts, ignored = (_summed(getattr(one, name) for one in read) for name in ("difference_counts", "ignored_counts"))
    last = read[-1]
    status = Status.ERROR if last.error is not None else Status.DIFFERENT if counts else Status.EQUAL
    return msgspec.structs.replace(
        last,
        status=status,
        difference_counts=counts,
        ignored_counts=ignored,
        differences=[one for verdict in read for one in verdict.differences][:max_differences],
        bytes_compared=sum(one.bytes_compared for one in read),
    )


def _summed(parts: Iterable[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for counts in parts:
        for kind, count in counts.items():
            total[kind] = total.get(kind, 0) + count
    return total


def _verdict(
    left: ComparedLog,
    right: ComparedLog,
    settings: DiffSettings,
    progress: Progress,
    evidence: Evidence | None,
    run: Callable[[_Comparison], None],
    facts: tuple[LogFacts | None, LogFacts | None] = (None, None),
    end_offset: int | None = None,
) -> PartitionVerdict:
    start_offset = max(left.log_start_offset, right.log_start_offset)
    findings = _Findings(settings)
    keys = KeyEvidence(left, right, settings.scratch, mirrored_end=end_offset)
    comparison = _Comparison(left, right, start_offset, findings, progress, evidence or keys)
    error: str | None = None
    left_facts: LogFacts | None = None
    right_facts: LogFacts | None = None
    try:
        for log in (left, right):
            if isinstance(log, DirectoryLog):
                log.check_complete()
        run(comparison)
        left_facts = facts[0] or left.facts()
        right_facts = facts[1] or right.facts()
    except KmirrorError as problem:
        error = str(problem)
    except OSError as problem:
        error = f"{problem.filename or left.name}: {problem.strerror or problem}"
    finally:
        keys.close()
    findings.end_run()
    status = Status.ERROR if error is not None else Status.DIFFERENT if findings.counts else Status.EQUAL
    return PartitionVerdict(
        topic=left.topic_partition.topic,
        partition=left.topic_partition.partition,
        status=status,
        start_offset=start_offset,
        left=left_facts,
        right=right_facts,
        difference_counts=findings.counts,
        differences=findings.listed,
        ignored_counts=findings.ignored,
        bytes_compared=comparison.bytes_compared,
        error=error,
    )


class _AstrayError(Exception):
    """Reading on does not lead to the end of a part. So the next part cannot begin there, and both
    logs are read whole."""


class _Comparison:
    """One run over two cursors."""

    def __init__(
        self,
        left: ComparedLog,
        right: ComparedLog,
        start_offset: int,
        findings: _Findings,
        progress: Progress,
        evidence: Evidence,
    ) -> None:
        self._left_log = left
        self._right_log = right
        self._start_offset = start_offset
        self._findings = findings
        self._progress = progress
        self._evidence = evidence
        self.bytes_compared = 0

    def run(self) -> None:
        """Compares everything from the start offset on."""
        with closing(self._left_log.cursor(self._start_offset)) as left, closing(self._right_log.cursor(self._start_offset)) as right:
            self._run(left, right)

    def run_parts(self, left: DirectoryLog, right: DirectoryLog, found: ComparedChunks) -> None:
        """Compares only the parts; the rest is equal."""
        self.bytes_compared = found.equal_bytes
        for part in found.parts:
            is_open = part.left_end is None
            ends = places_of(left, right, found.end_offset) if is_open and found.end_offset is not None else (part.left_end, part.right_end)
            one = _opened(left, part.left, self._start_offset, ends[0])
            two = _opened(right, part.right, self._start_offset, ends[1])
            with closing(one) as cursor, closing(two) as other:
                self._run(cursor, other)
                if not is_open and (cursor.is_astray() or other.is_astray()):
                    raise _AstrayError
            self._findings.end_run()

    def _run(self, left: LogCursor, right: LogCursor) -> None:
        sides = Side(self._left_log, left, self._evidence), Side(self._right_log, right, self._evidence)
        while not self._pass_equal_bytes(left, right):
            if not self._tell_apart(*sides):
                break

    def _pass_equal_bytes(self, left: LogCursor, right: LogCursor) -> bool:
        """Returns whether both logs are equal to their ends. If not, both cursors are left at the
        beginning of the first batch that differs."""
        block = FIRST_BLOCK_BYTES
        while True:
            size = min(left.remaining(), right.remaining(), block)
            if not size:
                if left.remaining() == right.remaining():
                    return True
                self._to_batch_start(left, right)
                return False
            one, two = left.read(size), right.read(size)
            if one != two:
                equal = _equal_bytes(one, two)
                left.rewind(size - equal)
                right.rewind(size - equal)
                self._note_compared(equal)
                self._to_batch_start(left, right)
                return False
            self._note_compared(size)
            block = min(block * 2, BLOCK_BYTES)

    def _to_batch_start(self, left: LogCursor, right: LogCursor) -> None:
        """Moves both cursors back to the beginning of a batch. Both are equally far into it,
        because their bytes are equal. There are two exceptions: an index knows of a batch after
        bytes that are lost, or a segment begins within a batch because the segment before it is
        torn."""
        into, into_right = (cursor.bytes_into_batch(trusts_index=True) for cursor in (left, right))
        if into != into_right:
            into, into_right = (cursor.bytes_into_batch(trusts_index=False) for cursor in (left, right))
        if into != into_right:
            raise (left if into < into_right else right).misplaced()
        self.bytes_compared -= into
        left.rewind(into, to_batch=True)
        right.rewind(into, to_batch=True)

    def _note_compared(self, size: int) -> None:
        self.bytes_compared += size
        self._progress(2 * size)

    def _tell_apart(self, left: Side, right: Side) -> bool:
        """Reads differing batches until two are equal. Returns False at the end of both logs, or of
        the part that is compared."""
        while not (left.cursor.at_end() and right.cursor.at_end()):
            head = left.cursor.peek()
            finding = read_difference(left, right)
            if finding is None:
                self._findings.end_run()
                self._note_compared(head.batch.size_in_bytes if head is not None else 0)
                return True
            self._progress(finding.size_bytes)
            self._findings.add(finding)
        return False


def places_of(left: DirectoryLog, right: DirectoryLog, offset: int) -> tuple[Place, Place]:
    """Returns where both logs have the first batch that ends at `offset` or later."""
    with closing(left.cursor(offset)) as one, closing(right.cursor(offset)) as two:
        return one.place, two.place


def _opened(log: DirectoryLog, place: Place | None, start_offset: int, end: Place | None) -> DirectoryCursor:
    return log.cursor(start_offset, end) if place is None else log.cursor_at(place, end)


def _equal_bytes(one: bytes, two: bytes) -> int:
    """Returns how many bytes from the beginning are equal; the sizes are the same, the bytes are
    not."""
    import numpy as np  # takes a third of the time of comparing equal logs of 500 MB, which do not need it

    return int(np.argmax(np.frombuffer(one, dtype=np.uint8) != np.frombuffer(two, dtype=np.uint8)))
