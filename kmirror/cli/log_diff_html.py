"""The report of `kafka-log-diff` as one HTML page (`html_page`).

At the top is the verdict in a sentence. Then come pictures of partitions by verdict and of
differences by kind, the topics, and the unequal partitions, worst first. A partition has a bar of
its offsets, with both logs as lanes, and differences marked across them in the colour of their
kind. Below, the same partitions can be unfolded: ranges, and the headers of both sides' batches.

The page stays small whatever is compared. The worst MAX_UNFOLDED partitions can be unfolded, with
MAX_RANGES ranges and MAX_BATCHES batches in all. Up to MAX_NAMED more get a line each, and the rest
is only counted in its topic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from kmirror.cli.html_page import (
    GREEN,
    MAX_NAMED,
    MAX_UNFOLDED,
    PURPLE,
    RED,
    Mark,
    Provenance,
    Share,
    badge,
    bars,
    cells,
    details,
    escaped,
    figure,
    html_page,
    offsets_bar,
    provenance,
    shown,
    stacked_bar,
    status_text,
    table,
    verdict_box,
)
from kmirror.cli.log_diff_sets import set_lines
from kmirror.cli.log_diff_text import counts_text, offsets_text, summary_line
from kmirror.verify.verdict import BatchFacts, Difference, DifferenceKind, LogDiffReport, LogFacts, PartitionVerdict, Status

MAX_RANGES: Final = 4_000
MAX_BATCHES: Final = 2_000
MAX_TOPICS: Final = 300
_COLOURS: Final = {
    DifferenceKind.MISSING: "#c0392b",
    DifferenceKind.EXTRA: "#c54e00",
    DifferenceKind.BYTES_DIFFER: "#8e44ad",
    DifferenceKind.EPOCH_ONLY: "#2779af",
    DifferenceKind.CONTROL_ONLY: "#12826c",
    DifferenceKind.RE_BATCHED: "#8b7108",
    DifferenceKind.KEY_LOST: "#c2185b",
    DifferenceKind.COMPACTED: "#697576",
    DifferenceKind.NOT_DECIDED: "#95506e",
    DifferenceKind.MIRROR_RULE: "#2c6f49",
    DifferenceKind.FRONT_MISSING: "#9c5a1c",
    DifferenceKind.GROUP_BEYOND_END: "#a0522d",
    DifferenceKind.SET_INCOMPLETE: "#7558a8",
    DifferenceKind.BEYOND_HIGH_WATERMARK: "#486683",
}
_LOSSES: Final = (
    DifferenceKind.MISSING,
    DifferenceKind.KEY_LOST,
    DifferenceKind.EXTRA,
    DifferenceKind.BYTES_DIFFER,
    DifferenceKind.MIRROR_RULE,
    DifferenceKind.FRONT_MISSING,
    DifferenceKind.GROUP_BEYOND_END,
)
"""One of these makes a partition worse than any number of other differences."""
_STATUS_COLOURS: Final = {Status.ERROR: PURPLE, Status.DIFFERENT: RED, Status.EQUAL: GREEN}
_VERDICTS: Final = {
    Status.EQUAL: "The logs are equal.",
    Status.DIFFERENT: "The logs are different.",
    Status.ERROR: "The comparison is not complete: a log could not be read.",
}
_ONLY_THE_SETS: Final = "What was compared is equal, but not all that should be compared was."


def report_html(report: LogDiffReport, made: Provenance | None = None) -> str:
    """Returns the whole page; `made` says when, how and by what."""
    ordered = sorted(report.partitions, key=_severity)
    wrong = [verdict for verdict in ordered if verdict.status is not Status.EQUAL]
    parts = [
        "<h1>Log comparison</h1>",
        verdict_box(report.status.value, _verdict_text(report), f"{summary_line(report)}; {_compared_text(report)}"),
        f"<p>A <code>{escaped(report.left)}</code><br>B <code>{escaped(report.right)}</code></p>",
        *(f"<p><small>{escaped(line)}</small></p>" for line in set_lines(report.sets)),
        f'<div class="cards">{_verdicts_figure(ordered)}{_kinds_figure(report.difference_counts)}</div>',
        "<h2>Topics</h2>",
        _topics(ordered),
        _partitions(ordered, wrong),
        "".join(_Unfolded(wrong[:MAX_UNFOLDED]).parts()),
        _rest(wrong[MAX_UNFOLDED:]),
        f"<p><small>kafka-log-diff, engine {escaped(report.engine)}. Bytes are compared from the higher log start offset on; segment boundaries may "
        "differ. Thin lines are offsets that were not compared.</small></p>",
        provenance(made, _compared_text(report)) if made is not None else "",
    ]
    return html_page(f"kafka-log-diff: {report.status.value}", *parts)


def _verdict_text(report: LogDiffReport) -> str:
    is_only_sets = report.status is Status.DIFFERENT and set(report.difference_counts) == {DifferenceKind.SET_INCOMPLETE.value}
    return _ONLY_THE_SETS if is_only_sets else _VERDICTS[report.status]


def _compared_text(report: LogDiffReport) -> str:
    partitions = len(report.partitions)
    equal = sum(verdict.bytes_compared for verdict in report.partitions)
    return f"{equal:,} bytes of {partitions:,} partition{'s' * (partitions != 1)} compared equal"


def _severity(verdict: PartitionVerdict) -> tuple[int, int, int, str, int]:
    """Returns a sort key that puts the worst partitions first.

    Unreadable ones come first, then those with the most losses, then those with the most
    differences.
    """
    losses = sum(verdict.difference_counts.get(kind.value, 0) for kind in _LOSSES)
    return list(_STATUS_COLOURS).index(verdict.status), -losses, -verdict.difference_count, verdict.topic, verdict.partition


# pictures
def _verdicts_figure(ordered: Sequence[PartitionVerdict]) -> str:
    counts = Counter(verdict.status for verdict in ordered)
    shares = [Share(status.value, counts[status], colour) for status, colour in _STATUS_COLOURS.items()]
    squares = cells([(_STATUS_COLOURS[verdict.status], f"{verdict.name}: {_found(verdict)}") for verdict in ordered])
    return figure("Partitions by verdict", stacked_bar(shares) + squares)


def _kinds_figure(counts: dict[str, int]) -> str:
    shares = [Share(DifferenceKind(kind).text, count, _COLOURS[DifferenceKind(kind)]) for kind, count in counts.items()]
    return figure("Differences by kind", bars(sorted(shares, key=lambda share: -share.number))) if shares else ""


def _found(verdict: PartitionVerdict) -> str:
    return counts_text(verdict.difference_counts) or verdict.status.value


def _bar(verdict: PartitionVerdict) -> str:
    logs = [(side, log) for side, log in (("A", verdict.left), ("B", verdict.right)) if log is not None]
    differences = verdict.differences  # those beyond both logs are drawn at the edge
    start = min((log.log_start_offset for _, log in logs), default=min((one.first_offset for one in differences), default=0))
    end = max((log.log_end_offset for _, log in logs), default=max((one.last_offset + 1 for one in differences), default=0))
    marks = (Mark(one.first_offset, one.last_offset, _COLOURS[one.kind], f"{one.kind.text} at {offsets_text(one)}") for one in differences)
    lanes = [(side, log.log_start_offset, log.log_end_offset) for side, log in logs]
    compared_from = end if verdict.status is Status.ERROR else verdict.start_offset
    return offsets_bar(start, end, lanes, marks, compared_from=compared_from)


# tables
def _topics(ordered: Sequence[PartitionVerdict]) -> str:
    """Returns a table with a row per topic, in the order of their worst partitions."""
    topics: dict[str, list[PartitionVerdict]] = {}
    for verdict in ordered:
        topics.setdefault(verdict.topic, []).append(verdict)
    listed, rest = shown(list(topics.items()), MAX_TOPICS, "topics")
    return table(("Topic", "Partitions", "Equal", "Different", "Error", "Differences"), map(_topic_row, listed)) + rest


def _topic_row(topic: tuple[str, list[PartitionVerdict]]) -> tuple[str, ...]:
    name, verdicts = topic
    counts = Counter(verdict.status for verdict in verdicts)
    found: Counter[str] = Counter()
    for verdict in verdicts:
        found.update(verdict.difference_counts)
    kinds = " ".join(f"{_kind(kind)} {found[kind.value]:,}" for kind in DifferenceKind if found[kind.value])
    numbers = (len(verdicts), *(counts[status] for status in (Status.EQUAL, Status.DIFFERENT, Status.ERROR)))
    return (escaped(name), *(f"{number:,}" if number else "" for number in numbers), kinds)


def _partitions(ordered: Sequence[PartitionVerdict], wrong: Sequence[PartitionVerdict]) -> str:
    """Returns a table of the unequal partitions; also of the equal ones if all fit on the page."""
    rows = ordered if len(ordered) <= MAX_UNFOLDED else wrong[:MAX_UNFOLDED]
    if not rows:
        return ""
    heads = ("Partition", "Verdict", "Compared", "Divergence over offsets (A above, B below)")
    return "<h2>Partitions</h2>" + table(heads, map(_row, range(len(rows)), rows), layout="pictured")


def _row(number: int, verdict: PartitionVerdict) -> tuple[str, str, str, str]:
    """Returns a table row; `number` is that of the partition's own section."""
    name = escaped(verdict.name)
    link = name if verdict.status is Status.EQUAL else f'<a href="#p{number}">{name}</a>'
    verdict_text = status_text(verdict.status.value, _found(verdict))
    return link, verdict_text, f"from {verdict.start_offset:,}, {verdict.bytes_compared:,} bytes equal", _bar(verdict)


def _rest(verdicts: Sequence[PartitionVerdict]) -> str:
    """Returns a table with a line per partition."""
    if not verdicts:
        return ""
    listed, more = shown(verdicts, MAX_NAMED, "partitions")
    rows = ((escaped(one.name), status_text(one.status.value, _found(one)), escaped(one.error or "")) for one in listed)
    return details(f"{len(verdicts):,} more partitions that are not equal", table(("Partition", "Verdict", "Error"), rows) + more)


# drill-down
class _Unfolded:
    """The sections of the worst partitions.

    They share a budget of ranges and batches, which is used up from the top.
    """

    def __init__(self, verdicts: Sequence[PartitionVerdict]) -> None:
        self._verdicts = verdicts
        self._ranges_left = MAX_RANGES
        self._batches_left = MAX_BATCHES

    def parts(self) -> Iterator[str]:
        if self._verdicts:
            yield "<h2>Where, to the batch</h2>"
        for number, verdict in enumerate(self._verdicts):
            yield self._section(number, verdict)

    def _section(self, number: int, verdict: PartitionVerdict) -> str:
        summary = f"<strong>{escaped(verdict.name)}</strong> {status_text(verdict.status.value, _found(verdict))}"
        error = f'<p class="verdict error">{escaped(verdict.error)}</p>' if verdict.error is not None else ""
        logs = table(("", "Log", "Offsets and size"), (_log(side, log) for side, log in (("A", verdict.left), ("B", verdict.right)) if log))
        listed = verdict.differences[: self._ranges_left]
        self._ranges_left -= len(listed)
        ranges = "".join(map(self._difference, listed))
        hidden = verdict.difference_count - len(listed)
        more = f"<p>... and {hidden:,} more, counted but not shown</p>" if hidden > 0 else ""
        return details(summary, error + logs + ranges + more, is_open=len(self._verdicts) <= 3, name=f"p{number}")

    def _difference(self, difference: Difference) -> str:
        title = f"{_kind(difference.kind)} {offsets_text(difference)}: {escaped(difference.detail)}"
        left, right = difference.left, difference.right
        if not left and not right:
            return f"<p>{title}</p>"
        both = (("A", left, right, difference.left_batch_count), ("B", right, left, difference.right_batch_count))
        sides = "".join(
            f"<div><strong>{side}</strong>{self._batches(batches, others, count)}</div>" for side, batches, others, count in both
        )
        return details(title, f'<div class="pair">{sides}</div>')

    def _batches(self, batches: list[BatchFacts], others: list[BatchFacts], count: int) -> str:
        if not batches:
            return "<p>no batch here</p>"
        listed = batches[: self._batches_left]
        self._batches_left -= len(listed)
        other = others[0] if len(batches) == len(others) == 1 else None
        more = f"<p>... and {count - len(listed)} more batches</p>" if count > len(listed) else ""
        return "".join(_batch(batch, other) for batch in listed) + more


def _kind(kind: DifferenceKind) -> str:
    return badge(kind.text, _COLOURS[kind])


def _log(side: str, log: LogFacts) -> tuple[str, str, str]:
    high_watermark = "" if log.high_watermark is None else f", high watermark {log.high_watermark:,}"
    trailing = f", {log.trailing_bytes:,} bytes of an incomplete batch at its end" if log.trailing_bytes else ""
    facts = f"log start {log.log_start_offset:,}, log end {log.log_end_offset:,}{high_watermark}, {log.size_bytes:,} bytes{trailing}"
    return side, f"<code>{escaped(log.name)}</code>", facts


def _batch(batch: BatchFacts, other: BatchFacts | None) -> str:
    rows = []
    for name in BatchFacts.__struct_fields__:
        value = getattr(batch, name)
        changed = other is not None and name not in ("file", "position") and getattr(other, name) != value
        shown_value = "" if value is None else escaped(value)
        rows.append(f"<dt>{name.replace('_', ' ')}</dt><dd{' class=changed' if changed else ''}>{shown_value}</dd>")
    return f"<dl>{''.join(rows)}</dl>"
