"""What `kafka-mirrors --verify` says of a partition."""

from __future__ import annotations

from kmirror.cli.log_diff_text import batch_text, counts_text, offsets_text
from kmirror.verify.front import front_text
from kmirror.verify.verdict import Difference, DifferenceKind, LogFacts, PartitionVerdict, Status

WHERE = ("at the source", "at the mirror")


def verdict_line(verdict: PartitionVerdict) -> str:
    """`t-0: equal, offsets 0 to 41, 2211 bytes (source: 0 to 50, mirror: 0 to 41)`, or the first
    difference.
    """
    if verdict.error is not None:
        return f"{verdict.name}: {'' if verdict.right is not None else 'could not be compared: '}{verdict.error}"
    if verdict.status is Status.EQUAL:
        return f"{verdict.name}: {_equal(verdict)}"
    counts = f"({counts_text(verdict.difference_counts)}){_ranges(verdict)}"
    if not verdict.differences:
        return f"{verdict.name}: different {counts}"
    first, *others = verdict.differences
    if first.kind is not DifferenceKind.FRONT_MISSING:
        return "\n".join([f"{verdict.name}: different {_at(first)} {counts}{_front(verdict)}", *_batches(first)])
    lines = [f"{verdict.name}: different: {first.detail} {counts}"]
    for second in others[:1]:
        lines += [f"  {_at(second)}", *_batches(second)]
    return "\n".join(lines)


def _at(difference: Difference) -> str:
    return f"at {offsets_text(difference)}: {difference.detail}"


def _batches(difference: Difference) -> list[str]:
    sides = (("source", difference.left), ("mirror", difference.right))
    return [f"  {side}: {batch_text(batch)}" for side, batches in sides for batch in batches]


def _equal(verdict: PartitionVerdict) -> str:
    assert verdict.right is not None
    begin, end = verdict.start_offset, verdict.right.log_end_offset
    cleaned = verdict.ignored_counts.get(DifferenceKind.COMPACTED.value, 0)
    rest = f", {cleaned} place(s) compacted on one side" if cleaned else ""
    if end <= begin:
        return f"equal, nothing to compare, the log ends at {end}{_ranges(verdict)}{_front(verdict)}{rest}"
    extent = f"offsets {begin} to {end - 1}"
    if verdict.offsets_compared is not None:
        extent = f"{verdict.offsets_compared} of the {extent}"
    return f"equal, {extent}, {verdict.bytes_compared} bytes{_ranges(verdict)}{_front(verdict)}{rest}"


def _ranges(verdict: PartitionVerdict) -> str:
    """Returns what each side has, whether or not it was compared."""
    if verdict.left is None or verdict.right is None:
        return ""
    return f" (source: {_offsets(verdict.left)}, mirror: {_offsets(verdict.right)})"


def _offsets(log: LogFacts) -> str:
    begin, end = log.log_start_offset, log.log_end_offset
    return f"{begin} to {end - 1}" if begin < end else f"none, it ends at {end}"


def _front(verdict: PartitionVerdict) -> str:
    return "" if verdict.front is None else f"; {front_text(verdict.front, WHERE)}"
