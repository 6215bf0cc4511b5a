"""The report of `kafka-log-diff` as one HTML page: no script, no font, no file beside it; it can be mailed and opened years later.

On top the verdict in a sentence and the counts by kind; then a row a partition with a bar of its offsets, differences marked in the
colour of their kind; below each partition that is not equal, its differences with both batches side by side.
"""

from __future__ import annotations

from html import escape

from kmirror.cli.log_diff_text import counts_text, offsets_text, summary_line
from kmirror.verify.verdict import BatchFacts, Difference, DifferenceKind, LogDiffReport, LogFacts, PartitionVerdict, Status

_COLOURS = {
    DifferenceKind.MISSING: "#c0392b",
    DifferenceKind.EXTRA: "#d35400",
    DifferenceKind.BYTES_DIFFER: "#8e44ad",
    DifferenceKind.EPOCH_ONLY: "#2980b9",
    DifferenceKind.CONTROL_ONLY: "#16a085",
    DifferenceKind.RE_BATCHED: "#b7950b",
    DifferenceKind.COMPACTED: "#7f8c8d",
    DifferenceKind.NOT_DECIDED: "#95506e",
    DifferenceKind.MIRROR_RULE: "#2c6e49",
    DifferenceKind.GROUP_BEYOND_END: "#a0522d",
    DifferenceKind.BEYOND_HIGH_WATERMARK: "#34495e",
}
_VERDICTS = {
    Status.EQUAL: "The logs are equal.",
    Status.DIFFERENT: "The logs are different.",
    Status.ERROR: "The comparison is not complete: a log could not be read.",
}
_STYLE = """
:root{color-scheme:light dark;--line:#8884;--soft:#8881}
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem}
h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .5rem}
.verdict{border-left:.5rem solid;padding:.75rem 1rem;margin:1rem 0;background:var(--soft)}
.equal{border-color:#27ae60}.different{border-color:#c0392b}.error{border-color:#8e44ad}
td .equal,td .different,td .error{border-left:.4rem solid;padding-left:.4rem}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.35rem .6rem;border-bottom:1px solid var(--line);vertical-align:top}
th{font-weight:600}td.n{text-align:right;font-variant-numeric:tabular-nums}
.kind{display:inline-block;padding:0 .5rem;border-radius:.6rem;color:#fff;white-space:nowrap}
.pair{display:grid;grid-template-columns:1fr 1fr;gap:1rem;margin:.5rem 0 1rem}.pair>div{background:var(--soft);padding:.5rem .75rem;overflow-wrap:anywhere}
dl{display:grid;grid-template-columns:max-content 1fr;gap:0 .75rem;margin:.25rem 0}dt{opacity:.7}dd{margin:0}
dd.changed{font-weight:700}svg{display:block;width:100%;height:14px;background:var(--soft)}
details{border-bottom:1px solid var(--line);padding:.4rem 0}summary{cursor:pointer}code{font-size:.9em}
"""


def report_html(report: LogDiffReport) -> str:
    """The whole page."""
    rows = "".join(_row(verdict) for verdict in report.partitions)
    sections = "".join(_section(verdict) for verdict in report.partitions if verdict.status is not Status.EQUAL)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>kafka-log-diff: {report.status.value}</title><style>{_STYLE}</style></head><body>
<h1>Log comparison</h1>
<p>A <code>{escape(report.left)}</code><br>B <code>{escape(report.right)}</code></p>
<div class="verdict {report.status.value}"><strong>{_VERDICTS[report.status]}</strong><br>{escape(summary_line(report))}</div>
{_kinds(report.difference_counts)}
<h2>Partitions</h2>
<table><thead><tr><th>Partition</th><th>Verdict</th><th>Offsets</th><th>Compared</th><th style="width:35%">Where</th></tr></thead>
<tbody>{rows}</tbody></table>
{sections}
<p><small>kafka-log-diff, engine {escape(report.engine)}. Bytes are compared from the higher log start offset on; segment boundaries may
differ.</small></p>
</body></html>
"""


def _kinds(counts: dict[str, int]) -> str:
    items = (f"{_kind(DifferenceKind(kind))} {count}" for kind, count in counts.items())
    return f"<p>{' &nbsp; '.join(items)}</p>" if counts else ""


def _kind(kind: DifferenceKind) -> str:
    return f'<span class="kind" style="background:{_COLOURS[kind]}">{kind.text}</span>'


def _row(verdict: PartitionVerdict) -> str:
    name = f'<a href="#{escape(verdict.name)}">{escape(verdict.name)}</a>' if verdict.status is not Status.EQUAL else escape(verdict.name)
    found = counts_text(verdict.difference_counts) or verdict.status.value
    size = f"{verdict.bytes_compared:,} bytes equal"
    return (
        f'<tr><td>{name}</td><td><span class="{verdict.status.value}">{escape(found)}</span></td>'
        f'<td>{_range(verdict)}</td><td class="n">{size}</td><td>{_bar(verdict)}</td></tr>'
    )


def _end_offset(verdict: PartitionVerdict) -> int:
    ends = [log.log_end_offset for log in (verdict.left, verdict.right) if log is not None]
    return max([*ends, *(difference.last_offset + 1 for difference in verdict.differences), verdict.start_offset])


def _range(verdict: PartitionVerdict) -> str:
    return "" if verdict.left is None and verdict.right is None else f"{verdict.start_offset} to {_end_offset(verdict)}"


def _bar(verdict: PartitionVerdict) -> str:
    """The offsets from left to right, a mark a difference (at least visible)."""
    start, end = verdict.start_offset, _end_offset(verdict)
    span = max(end - start, 1)
    marks = "".join(
        f'<rect x="{max(0.0, 1000 * (difference.first_offset - start) / span):.1f}" y="0" height="14" '
        f'width="{max(3.0, 1000 * (difference.last_offset + 1 - difference.first_offset) / span):.1f}" fill="{_COLOURS[difference.kind]}">'
        f"<title>{difference.kind.text} at {offsets_text(difference)}</title></rect>"
        for difference in verdict.differences
    )
    return f'<svg viewBox="0 0 1000 14" preserveAspectRatio="none" role="img">{marks}</svg>'


def _section(verdict: PartitionVerdict) -> str:
    parts = [f'<h2 id="{escape(verdict.name)}">{escape(verdict.name)}</h2>']
    if verdict.error is not None:
        parts.append(f'<p class="verdict error">{escape(verdict.error)}</p>')
    logs = [(side, log) for side, log in (("A", verdict.left), ("B", verdict.right)) if log is not None]
    parts.append(f"<table>{''.join(_log(side, log) for side, log in logs)}</table>")
    parts += [_difference(difference) for difference in verdict.differences]
    hidden = verdict.difference_count - len(verdict.differences)
    if hidden:
        parts.append(f"<p>... and {hidden} more, counted but not shown</p>")
    return "".join(parts)


def _log(side: str, log: LogFacts) -> str:
    high_watermark = "" if log.high_watermark is None else f", high watermark {log.high_watermark}"
    trailing = f", {log.trailing_bytes} bytes of an incomplete batch at its end" if log.trailing_bytes else ""
    facts = f"log start {log.log_start_offset}, log end {log.log_end_offset}{high_watermark}, {log.size_bytes:,} bytes{trailing}"
    return f"<tr><th>{side}</th><td><code>{escape(log.name)}</code></td><td>{facts}</td></tr>"


def _difference(difference: Difference) -> str:
    title = f"{_kind(difference.kind)} {offsets_text(difference)}: {escape(difference.detail)}"
    left, right = difference.left, difference.right
    both = (("A", left, right, difference.left_batch_count), ("B", right, left, difference.right_batch_count))
    sides = "".join(
        f"<div><strong>{side}</strong>{_batches(batches, others)}{_more(batches, count)}</div>" for side, batches, others, count in both
    )
    return f'<details{" open" if difference.left or difference.right else ""}><summary>{title}</summary><div class="pair">{sides}</div></details>'


def _batches(batches: list[BatchFacts], others: list[BatchFacts]) -> str:
    if not batches:
        return "<p>no batch here</p>"
    other = others[0] if len(batches) == len(others) == 1 else None
    return "".join(_batch(batch, other) for batch in batches)


def _more(batches: list[BatchFacts], count: int) -> str:
    return f"<p>... and {count - len(batches)} more batches</p>" if count > len(batches) else ""


def _batch(batch: BatchFacts, other: BatchFacts | None) -> str:
    rows = []
    for name in BatchFacts.__struct_fields__:
        value = getattr(batch, name)
        changed = other is not None and name not in ("file", "position") and getattr(other, name) != value
        shown = "" if value is None else escape(str(value))
        rows.append(f"<dt>{name.replace('_', ' ')}</dt><dd{' class=changed' if changed else ''}>{shown}</dd>")
    return f"<dl>{''.join(rows)}</dl>"
