"""The results of the demonstration: a table for the terminal, JSON, and one HTML page."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

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
    rows = "".join(f"<tr><td>{html.escape(name)}</td><td>{html.escape(value)}</td></tr>" for name, value in report.rows())
    story = "".join(f"<tr><td>{at:.1f} s</td><td>{html.escape(text)}</td></tr>" for at, text in report.story)
    legend = "".join(f'<span style="background:{colour}">{state}</span>' for state, colour in STATE_COLOURS.items())
    return f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>kmirror demo</title><style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }}
table {{ border-collapse: collapse; width: 100%; }} td {{ border-bottom: 1px solid #ddd; padding: .3rem .6rem; vertical-align: top; }}
.legend span {{ color: #fff; padding: .1rem .5rem; margin-right: .3rem; border-radius: 3px; font-size: 12px; }}
pre {{ background: #f6f6f6; padding: .8rem; overflow: auto; }} svg text {{ font: 11px system-ui, sans-serif; }}
</style></head><body><h1>Mirror, failover, failback</h1><table>{rows}</table>
<h2>States over time</h2><p class="legend">{legend}</p>{_states(report)}
<h2>Lag over time</h2>{_lag(report)}
<h2>What happened</h2><table>{story}</table>
<h2>Dry run of the failover</h2><pre>{html.escape(report.failover_preview)}</pre>
<h2>Dry run of the failback</h2><pre>{html.escape(report.failback_preview)}</pre>
<h2>Comparison of the logs</h2><pre>{html.escape(report.comparison)}</pre></body></html>
"""


def _end_s(report: DemoReport) -> float:
    return max([report.duration_s, *(sample.at_s for sample in report.timeline)], default=1.0) or 1.0


def _lanes(report: DemoReport) -> dict[tuple[str, str, int], list[Sample]]:
    lanes: dict[tuple[str, str, int], list[Sample]] = {}
    for sample in report.timeline:
        lanes.setdefault((sample.cluster, sample.topic, sample.partition), []).append(sample)
    return dict(sorted(lanes.items()))


def _states(report: DemoReport) -> str:
    """Returns one bar per partition, coloured by state."""
    scale, parts = 760 / _end_s(report), []
    lanes = _lanes(report)
    for index, ((cluster, topic, partition), samples) in enumerate(lanes.items()):
        y = 8 + 22 * index
        parts.append(f'<text x="0" y="{y + 12}">{html.escape(cluster)} {html.escape(topic)}-{partition}</text>')
        ends = [sample.at_s for sample in samples[1:]] + [_end_s(report)]
        for sample, end in zip(samples, ends, strict=True):
            width = max((end - sample.at_s) * scale, 1)
            title = f"{sample.state} from {sample.at_s:.2f} s, lag {sample.lag}"
            parts.append(
                f'<rect x="{150 + sample.at_s * scale:.1f}" y="{y}" width="{width:.1f}" height="16" fill="{STATE_COLOURS.get(sample.state, "#ddd")}">'
                f"<title>{html.escape(title)}</title></rect>"
            )
    return f'<svg viewBox="0 0 920 {16 + 22 * len(lanes)}" width="100%">{"".join(parts)}{_kill_line(report, scale, 16 + 22 * len(lanes))}</svg>'


def _kill_line(report: DemoReport, scale: float, height: int) -> str:
    x = 150 + report.killed_at_s * scale
    return f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height}" stroke="#b02020" stroke-dasharray="4 3"><title>north is killed</title></line>'


def _lag(report: DemoReport) -> str:
    """Returns a graph of the records by which the source was ahead, over all partitions."""
    points = sorted((sample.at_s, sample.records) for sample in report.lag)
    if not points:
        return "<p>The source was not asked.</p>"
    top, scale = max(max(records for _, records in points), 1), 760 / _end_s(report)
    bars = "".join(
        f'<rect x="{150 + at * scale - 1:.1f}" y="{118 - 108 * records / top:.1f}" width="2" height="{2 + 108 * records / top:.1f}" fill="#4a6fa5">'
        f"<title>{records:,} records at {at:.2f} s</title></rect>"
        for at, records in points
    )
    return (
        f'<svg viewBox="0 0 920 130" width="100%"><text x="0" y="14">{top:,} records</text><text x="0" y="122">0</text>'
        f"{bars}{_kill_line(report, scale, 124)}</svg>"
    )
