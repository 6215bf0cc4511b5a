"""The report of `kmirror verify-logs` as one HTML page (`html_page`).

It shows logs by verdict, findings by kind, and the logs, worst first, each with a bar of its
offsets on which findings are marked. Unfolded, a log shows its findings with file, byte and
offsets, and its segments.

The page stays small: MAX_UNFOLDED logs can be unfolded, with MAX_FINDINGS findings in all; up to
MAX_NAMED more get a line each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from kmirror.cli.html_page import (
    GREEN,
    MAX_NAMED,
    MAX_UNFOLDED,
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
from kmirror.cli.verify_logs_text import finding_place, finding_text, log_name, log_summary, summary_line, without_log
from kmirror.verify.replay.findings import Finding
from kmirror.verify.replay.tables import LogRow, ReplayTables, SegmentRow

MAX_FINDINGS: Final = 5_000
MAX_SEGMENTS: Final = 50
_COLOURS: Final = {
    "structure": "#c0392b",
    "leader_epochs": "#2779af",
    "producers": "#12826c",
    "transactions": "#8e44ad",
    "indexes": "#8b7108",
    "checkpoints": "#c54e00",
    "records": "#95506e",
    "group_offsets": "#a0522d",
    "mirror_states": "#2c6f49",
    "leaders": "#486683",
    "inventory": "#9c5a14",
}
_OTHER: Final = "#697576"


def findings_html(
    location: str,
    tables: ReplayTables,
    made: Provenance | None = None,
    unseen: Sequence[str] = (),
) -> str:
    """Returns the whole page; `made` says when, how and by what, `unseen` what was not looked
    at."""
    return _Page(location, tables, unseen).text(made)


class _Page:
    def __init__(self, location: str, tables: ReplayTables, unseen: Sequence[str]) -> None:
        self._unseen = unseen
        self._location = location
        self._tables = tables
        self._logs = sorted(tables.logs, key=lambda row: (-row.findings, row.topic, row.partition, row.log))
        self._wrong = [row for row in self._logs if row.findings]
        self._findings: dict[str, list[Finding]] = {}
        for finding in tables.findings:
            self._findings.setdefault(finding.log, []).append(finding)
        self._segments: dict[str, list[SegmentRow]] = {}
        for segment in tables.structure:
            self._segments.setdefault(segment.log, []).append(segment)
        self._open = Counter(row.log for row in tables.transactions if row.state == "ONGOING")
        self._findings_left = MAX_FINDINGS

    def text(self, made: Provenance | None) -> str:
        wrong = self._wrong
        loose = without_log(self._tables)
        sound = "What was looked at is sound." if self._unseen else "The logs are sound."
        status, sentence = ("different", "Something is wrong.") if wrong or loose else ("sound", sound)
        parts = [
            "<h1>Logs and what lies beside them</h1>",
            verdict_box(status, sentence, summary_line(self._tables, self._unseen)),
            f"<p><code>{escaped(self._location)}</code></p>",
            f'<div class="cards">{self._logs_figure()}{self._kinds_figure()}</div>',
            "<h2>Logs</h2>",
            self._table(),
            "<h2>Findings</h2>" if wrong or loose else "",
            "".join(f"<p>{escaped(finding_text(one))}</p>" for one in loose[:MAX_NAMED]),
            f"<p>... and {len(loose) - MAX_NAMED:,} more</p>" if len(loose) > MAX_NAMED else "",
            "".join(self._section(number, row) for number, row in enumerate(wrong[:MAX_UNFOLDED])),
            self._rest(wrong[MAX_UNFOLDED:]),
            "<p><small>kmirror verify-logs: every batch was read; what lies beside the segments was held against it.</small></p>",
            provenance(made, self._read_text()) if made is not None else "",
        ]
        return html_page(f"kmirror verify-logs: {len(self._tables.findings)} findings", *parts)

    def _read_text(self) -> str:
        size = sum(segment.size for segment in self._tables.structure)
        return f"{size:,} bytes of batches in {len(self._tables.structure):,} segments of {len(self._logs):,} logs"

    def _name(self, row: LogRow) -> str:
        return log_name(self._location, row)

    def _verdict(self, row: LogRow) -> str:
        return status_text("different", f"{row.findings:,} found") if row.findings else status_text("sound", "sound")

    def _logs_figure(self) -> str:
        shares = [Share("with findings", len(self._wrong), RED), Share("sound", len(self._logs) - len(self._wrong), GREEN)]
        squares = [(RED if row.findings else GREEN, f"{self._name(row)}: {row.findings or 'no'} findings") for row in self._logs]
        return figure("Logs by verdict", stacked_bar(shares) + cells(squares))

    def _kinds_figure(self) -> str:
        counts = Counter((finding.table, finding.kind) for finding in self._tables.findings)
        shares = [Share(f"{part} {kind}", count, _colour(part)) for (part, kind), count in counts.most_common()]
        return figure("Findings by kind", bars(shares)) if shares else ""

    def _table(self) -> str:
        """Returns a table of the logs with findings; also of the sound ones if all fit."""
        rows = self._logs if len(self._logs) <= MAX_UNFOLDED else self._wrong[:MAX_UNFOLDED]
        heads = ("Log", "Verdict", "What is there", "Findings over offsets")
        return table(heads, map(self._row, range(len(rows)), rows), layout="pictured")

    def _row(self, number: int, row: LogRow) -> tuple[str, str, str, str]:
        name = escaped(self._name(row))
        link = f'<a href="#l{number}">{name}</a>' if row.findings else name
        return link, self._verdict(row), escaped(log_summary(row, self._open[row.log])), self._bar(row)

    def _bar(self, row: LogRow) -> str:
        marks = [
            Mark(finding.first_offset, max(finding.last_offset, finding.first_offset), _colour(finding.table), _title(finding))
            for finding in self._findings.get(row.log, ())
            if finding.first_offset is not None and finding.last_offset is not None
        ]
        start = min([row.log_start_offset, *(mark.first for mark in marks)])  # marks beyond the log's end are drawn at the edge
        return offsets_bar(start, row.log_end_offset, [("the log", row.log_start_offset, row.log_end_offset)], marks)

    def _section(self, number: int, row: LogRow) -> str:
        found = self._findings.get(row.log, [])
        listed, more = shown(found, self._findings_left, "findings")
        self._findings_left -= len(listed)
        inside = "".join(
            details(
                f"{badge(_title(finding), _colour(finding.table))} {escaped(finding.text)}",
                f"<p>{escaped(finding_place(finding))}</p>",
                is_open=True,
            )
            for finding in listed
        )
        inside += more + self._segment_table(row, {finding.segment for finding in found})
        return details(
            f"<strong>{escaped(self._name(row))}</strong> {self._verdict(row)}", inside, is_open=len(self._wrong) <= 3, name=f"l{number}"
        )

    def _segment_table(self, row: LogRow, named: set[int | None]) -> str:
        """Returns a table of segments; those that findings name come first."""
        segments = sorted(self._segments.get(row.log, []), key=lambda segment: (segment.base_offset not in named, segment.base_offset))
        listed, more = shown(segments, MAX_SEGMENTS, "segments")
        rows = table(("Segment", "Offsets", "Batches", "Records", "Bytes", "CRC errors", "Problems"), map(_segment, listed))
        return details(f"{len(segments):,} segments", rows + more) if segments else ""

    def _rest(self, rows: Sequence[LogRow]) -> str:
        if not rows:
            return ""
        listed, more = shown(rows, MAX_NAMED, "logs")

        def lines() -> Iterator[tuple[str, str, str]]:
            for row in listed:
                kinds = Counter(_title(finding) for finding in self._findings.get(row.log, ()))
                yield escaped(self._name(row)), self._verdict(row), escaped(", ".join(f"{kind}: {count}" for kind, count in kinds.items()))

        return details(f"{len(rows):,} more logs with findings", table(("Log", "Verdict", "Findings"), lines()) + more)


def _colour(part: str) -> str:
    return _COLOURS.get(part, _OTHER)


def _title(finding: Finding) -> str:
    return f"{finding.table} {finding.kind}"


def _segment(row: SegmentRow) -> tuple[str, ...]:
    offsets = "" if row.first_offset is None or row.last_offset is None else f"{row.first_offset:,} to {row.last_offset:,}"
    numbers = (row.batches, row.records, row.size, row.crc_errors, row.problems)
    return (f"<code>{escaped(row.path)}</code>", offsets, *(f"{number:,}" for number in numbers))
