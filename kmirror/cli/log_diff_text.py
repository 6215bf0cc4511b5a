"""The report of `kafka-log-diff` as text: a line per partition, its differences, a summary."""

from __future__ import annotations

from collections.abc import Iterator

from kmirror.cli.log_diff_sets import set_lines
from kmirror.verify.front import front_text
from kmirror.verify.verdict import BatchFacts, Difference, DifferenceKind, LogDiffReport, LogFacts, PartitionVerdict, Status

_COLOURS = {Status.EQUAL: "32", Status.DIFFERENT: "31", Status.ERROR: "35"}


def report_text(report: LogDiffReport, is_terminal: bool = False, /) -> str:
    lines = [f"A: {report.left}", f"B: {report.right}"]
    for verdict in report.partitions:
        lines += _partition_lines(verdict, is_terminal)
    lines += set_lines(report.sets)
    lines.append(summary_line(report))
    return "\n".join(lines)


def summary_line(report: LogDiffReport) -> str:
    """`6 partitions: 5 equal, 1 different (bytes differ: 1)`; `6 partitions: 6 equal, but not all that
    should be compared was (set incomplete: 2)`"""
    numbers = [(status, sum(verdict.status is status for verdict in report.partitions)) for status in Status]
    parts = ", ".join(f"{count} {status.value}" for status, count in numbers if count)
    counts = f" ({counts_text(report.difference_counts)})" if report.difference_counts else ""
    ignored: dict[str, int] = {}
    for counted in (*(one.ignored_counts for one in report.partitions), *(one.ignored_counts for one in report.sets)):
        for kind, count in counted.items():
            ignored[kind] = ignored.get(kind, 0) + count
    rest = f"; not counted: {counts_text(ignored)}" if ignored else ""
    total = len(report.partitions)
    gap = ", but not all that should be compared was" if DifferenceKind.SET_INCOMPLETE in report.difference_counts else ""
    return f"{total} partition{'s' if total != 1 else ''}: {parts}{gap}{counts}{rest}"


def counts_text(counts: dict[str, int]) -> str:
    """`bytes differ: 1, missing: 3`"""
    return ", ".join(f"{DifferenceKind(kind).text}: {count}" for kind, count in counts.items())


def _partition_lines(verdict: PartitionVerdict, is_terminal: bool, /) -> Iterator[str]:
    status = f"\x1b[{_COLOURS[verdict.status]}m{verdict.status.value}\x1b[0m" if is_terminal else verdict.status.value
    yield f"{verdict.name}: {status}{_headline(verdict)}"
    for difference in verdict.differences:
        yield from _difference_lines(difference)
    hidden = verdict.difference_count - len(verdict.differences)
    if hidden:
        yield f"  ... and {hidden} more"


def _headline(verdict: PartitionVerdict) -> str:
    if verdict.error is not None:
        found = f" (before that: {counts_text(verdict.difference_counts)})" if verdict.difference_counts else ""
        return f": {verdict.error}{found}"
    parts = []
    if verdict.difference_counts:
        parts.append(counts_text(verdict.difference_counts))
    if verdict.left is not None and verdict.right is not None:
        compared = f"compared from offset {verdict.start_offset}, {verdict.bytes_compared} bytes equal"
        ends = f"ends at {_ends(verdict.left, verdict.right)}"
        parts.append(f"{compared}, {ends}{_begins(verdict, verdict.left, verdict.right)}")
    if verdict.ignored_counts:
        parts.append(f"not counted: {counts_text(verdict.ignored_counts)}")
    trailing = [
        f"{side} has {log.trailing_bytes} bytes of an incomplete batch at its end"
        for side, log in (("A", verdict.left), ("B", verdict.right))
        if log is not None and log.trailing_bytes
    ]
    return "".join(f"; {part}" for part in [*parts, *trailing]).replace(";", ",", 1) if parts or trailing else ""


def _begins(verdict: PartitionVerdict, left: LogFacts, right: LogFacts) -> str:
    """Returns what was not compared because only one side has it."""
    if verdict.front is not None:
        return f"; not compared: {front_text(verdict.front, ('in A', 'in B'))}"
    starts = left.log_start_offset, right.log_start_offset
    if starts[0] == starts[1]:
        return ""
    side = "A" if starts[0] < starts[1] else "B"
    return f"; offsets {min(starts)} to {max(starts) - 1}, which only {side} has, were not compared"


def _ends(left: LogFacts, right: LogFacts) -> str:
    if left.log_end_offset == right.log_end_offset:
        return f"offset {left.log_end_offset}"
    return f"offset {left.log_end_offset} in A, {right.log_end_offset} in B"


def offsets_text(difference: Difference) -> str:
    """`offset 50`, `offsets 3 to 9`"""
    if difference.first_offset == difference.last_offset:
        return f"offset {difference.first_offset}"
    return f"offsets {difference.first_offset} to {difference.last_offset}"


def _difference_lines(difference: Difference) -> Iterator[str]:
    yield f"  {difference.kind.text} at {offsets_text(difference)}: {difference.detail}"
    sides = (("A", difference.left, difference.left_batch_count), ("B", difference.right, difference.right_batch_count))
    for side, batches, count in sides:
        for batch in batches:
            yield f"    {side}: {batch_text(batch)}"
        if count > len(batches):
            yield f"    {side}: ... and {count - len(batches)} more batches"


def batch_text(batch: BatchFacts) -> str:
    """Returns the facts of the header and the place of a batch, in one line."""
    parts = [
        f"offsets {batch.base_offset}..{batch.last_offset}",
        f"epoch {batch.leader_epoch}",
        f"{batch.record_count} {batch.control_type if batch.is_control else 'record' + ('s' if batch.record_count != 1 else '')}",
        f"{batch.size_bytes} bytes at {batch.position} of {batch.file}",
        f"crc {batch.crc}{'' if batch.crc_valid else ' (does not hold)'}",
        f"{batch.timestamp_type} {batch.max_timestamp}",
    ]
    if batch.compression != "none":
        parts.append(batch.compression)
    if batch.producer_id >= 0:
        kind = "transactional producer" if batch.is_transactional else "producer"
        parts.append(f"{kind} {batch.producer_id} epoch {batch.producer_epoch} sequence {batch.base_sequence}")
    return ", ".join(parts)
