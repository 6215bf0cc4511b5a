"""The results of the demonstration: a table for the terminal, JSON, and one HTML page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from kmirror.cli.html_page import escaped, html_page, legend, table

STATE_COLOURS = {
    "PREPARING": "#e0a030",
    "MIRRORING": "#3a8f5a",
    "PAUSING": "#8a8a8a",
    "PAUSED": "#b0b0b0",
    "STOPPING": "#c06030",
    "STOPPED": "#4a6fa5",
    "FAILED": "#b02020",
    "UNKNOWN": "#dddddd",
}
_WIDTH: Final = 920
_LEFT: Final = 150
_TOP: Final = 20
"""Width of the pictures, and the space for names at their left and above them, in SVG's units."""


@dataclass(frozen=True, slots=True)
class Sample:
    """State, offsets and lag of one partition at one moment (seconds since the start)."""

    at_s: float
    cluster: str
    topic: str
    partition: int
    state: str
    source_offset: int
    destination_offset: int
    lag: int


@dataclass(frozen=True, slots=True)
class LagSample:
    """Number of records, in all partitions, that the destination was not yet seen to have."""

    at_s: float
    records: int


@dataclass
class DemoReport:
    """All figures. Sizes are bytes, times seconds, counts records."""

    topics: list[str]
    story: list[tuple[float, str]] = field(default_factory=list)
    timeline: list[Sample] = field(default_factory=list)
    lag: list[LagSample] = field(default_factory=list)
    first_copy_bytes: int = 0
    first_copy_s: float = 0.0
    killed_at_s: float = 0.0
    acked_by_source: int = 0
    failover_s: float = 0.0
    failover_preview: str = ""
    written_after_failover: int = 0
    failback_s: float = 0.0
    failback_preview: str = ""
    failback_bytes: int = 0
    log_bytes: int = 0
    truncated_records: int = 0
    truncated_bytes: int = 0
    comparison: str = ""
    logs_equal: bool = False
    duration_s: float = 0.0

    def rows(self) -> list[tuple[str, str]]:
        """Returns the summary as pairs of name and value."""
        share = 100 * self.failback_bytes / self.log_bytes if self.log_bytes else 0.0
        return [
            ("first copy", f"{self.first_copy_bytes / 1e6:.1f} MB in {self.first_copy_s:.2f} s"),
            ("acknowledged by north before it died", f"{self.acked_by_source:,} records"),
            ("time to fail over (remove -> first write acknowledged everywhere)", f"{self.failover_s:.2f} s"),
            ("written to south after the failover", f"{self.written_after_failover:,} records"),
            ("time to fail back (add -> lag 0)", f"{self.failback_s:.2f} s"),
            (
                "truncated at north (acknowledged, never mirrored)",
                f"{self.truncated_records:,} records, {self.truncated_bytes / 1e6:.2f} MB",
            ),
            ("transferred at failback", f"{self.failback_bytes / 1e6:.2f} MB of {self.log_bytes / 1e6:.2f} MB ({share:.1f} %)"),
            ("logs", "equal, byte for byte" if self.logs_equal else "DIFFERENT"),
            ("whole demonstration", f"{self.duration_s:.1f} s"),
        ]


def print_summary(report: DemoReport) -> None:
    """Print the table on the terminal."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="kmirror demo", show_header=False)
    for name, value in report.rows():
        table.add_row(name, value)
    Console().print(table)


def write_reports(report: DemoReport, folder: Path) -> tuple[Path, Path]:
    """Write report.json and report.html into `folder`; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    json_path, html_path = folder / "report.json", folder / "report.html"
    json_path.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2))
    html_path.write_text(_page(report))
    return json_path, html_path


def _page(report: DemoReport) -> str:
    return html_page(
        "kmirror demo",
        f"<h1>Mirror, failover, failback</h1>{_rows(report.rows())}",
        f"<h2>States over time</h2>{_legend(report)}{_states(report)}",
        f"<h2>Lag over time</h2>{_lag(report)}",
        f"<h2>What happened</h2>{_rows((f'{at:.1f} s', text) for at, text in report.story)}",
        f"<h2>Dry run of the failover</h2><pre>{escaped(report.failover_preview)}</pre>",
        f"<h2>Dry run of the failback</h2><pre>{escaped(report.failback_preview)}</pre>",
        f"<h2>Comparison of the logs</h2><pre>{escaped(report.comparison)}</pre>",
    )


def _rows(rows: Iterable[tuple[str, str]]) -> str:
    return table((), ((escaped(name), escaped(value)) for name, value in rows), layout="timed")


def _legend(report: DemoReport) -> str:
    """Returns an entry for each state that the pictures show."""
    seen = {sample.state for sample in report.timeline}
    return legend((state, colour) for state, colour in STATE_COLOURS.items() if state in seen)


@dataclass(frozen=True, slots=True)
class _TimeAxis:
    """Maps seconds to the pictures' width, from the first sample to the last.

    Comparing the logs, which follows, would take half of the width.
    """

    begin_s: int
    end_s: float
    killed_at_s: float

    def x(self, at_s: float) -> float:
        return _LEFT + (at_s - self.begin_s) * (_WIDTH - _LEFT - 10) / (self.end_s - self.begin_s)

    def picture(self, height: int, *parts: str) -> str:
        """Returns the whole picture: `parts` from `_TOP` on over `height` units, the moment of the
        kill, and seconds below.
        """
        step = next((step for step in (1, 2, 5, 10, 30, 60, 300) if self.end_s - self.begin_s <= 12 * step), 600)
        bottom = _TOP + height
        ticks = "".join(
            f'<text x="{self.x(second):.1f}" y="{bottom + 14}" text-anchor="middle">{second} s</text>'
            for second in range(self.begin_s, int(self.end_s) + 1, step)
        )
        x = self.x(self.killed_at_s)
        kill = f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 2}" y2="{bottom}" stroke="#b02020" stroke-dasharray="4 3"/>'
        kill += f'<text x="{x:.1f}" y="{_TOP - 6}" text-anchor="middle">north is killed</text>'
        return f'<svg viewBox="0 0 {_WIDTH} {bottom + 20}" width="100%">{"".join(parts)}{kill}{ticks}</svg>'


def _axis(report: DemoReport) -> _TimeAxis:
    seen = [*(sample.at_s for sample in report.timeline), *(sample.at_s for sample in report.lag), report.killed_at_s]
    return _TimeAxis(int(min(seen)), max(seen) + 0.5, report.killed_at_s)


def _lanes(report: DemoReport) -> dict[tuple[str, str, int], list[Sample]]:
    lanes: dict[tuple[str, str, int], list[Sample]] = {}
    for sample in report.timeline:
        lanes.setdefault((sample.cluster, sample.topic, sample.partition), []).append(sample)
    return dict(sorted(lanes.items()))


def _states(report: DemoReport) -> str:
    """Returns one bar per partition, coloured by state."""
    axis, parts, lanes = _axis(report), [], _lanes(report)
    for index, ((cluster, topic, partition), samples) in enumerate(lanes.items()):
        y = _TOP + 22 * index
        parts.append(f'<text x="4" y="{y + 12}">{escaped(cluster)} {escaped(topic)}-{partition}</text>')
        ends = [sample.at_s for sample in samples[1:]] + [axis.end_s]
        for sample, end in zip(samples, ends, strict=True):
            x = axis.x(sample.at_s)
            title = f"{sample.state} from {sample.at_s:.2f} s, lag {sample.lag}"
            parts.append(
                f'<rect x="{x:.1f}" y="{y}" width="{max(axis.x(end) - x, 1):.1f}" height="16" fill="{STATE_COLOURS.get(sample.state, "#dddddd")}">'
                f"<title>{escaped(title)}</title></rect>"
            )
    return axis.picture(22 * len(lanes), *parts)


def _lag(report: DemoReport) -> str:
    """Returns a graph of the records by which the source was ahead, over all partitions."""
    points = sorted((sample.at_s, sample.records) for sample in report.lag)
    if not points:
        return "<p>The source was not asked.</p>"
    axis, top, height = _axis(report), max(max(records for _, records in points), 1), 110
    bars = []
    for at_s, records in points:
        size = 2 + (height - 2) * records / top
        bars.append(
            f'<rect x="{axis.x(at_s) - 1:.1f}" y="{_TOP + height - size:.1f}" width="2" height="{size:.1f}" fill="#4a6fa5">'
            f"<title>{records:,} records at {at_s:.2f} s</title></rect>"
        )
    return axis.picture(height, f'<text x="4" y="{_TOP + 10}">{top:,} records</text><text x="4" y="{_TOP + height}">0</text>', *bars)
